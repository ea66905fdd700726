//! Tenants' kubeconfigs, by a strict type of our own. The bytes are never handed to a general loader.
//!
//! A kubeconfig may ask its reader to start a program, to open a file, to trust anyone, or to act as somebody else. None of
//! that is for a tenant to ask of the daemon, so a kubeconfig is parsed here, judged, and only what was understood goes on.
//! Parsing starts no process, opens no file and resolves no name. Only the selected context and its entries are judged.

mod certificate;
mod credential;
mod error;
mod judge;
mod shape;

use jiff::Timestamp;
use serde_json::Value;
use url::Url;

pub use self::error::KubeconfigError;
pub use self::judge::judge_address;
use self::judge::{Judged, judge_cluster};

/// Largest kubeconfig in bytes. A real one is a few KiB; Secrets go to 1 MiB.
pub const LARGEST: usize = 1024 * 1024;

/// Where a remote is and how to be let in. The three are sealed together: a changed address is a new endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteEndpoint {
    /// `https`, host, port and perhaps a path prefix; no trailing slash.
    pub server: Url,
    /// PEM of the certificate authorities; the system's when absent.
    pub certificate_authority: Option<Vec<u8>>,
    /// Name to expect in the server's certificate instead of the host.
    pub tls_server_name: Option<String>,
    /// What to go through: `http` or `socks5`, host and port, perhaps with a user name and password.
    pub proxy: Option<Url>,
    /// How to be let in.
    pub credential: Credential,
    /// When the credential ends, if it says so.
    pub expires: Option<Timestamp>,
    /// The context that was selected.
    pub context: String,
    /// Namespace of the context, if it names one.
    pub namespace: Option<String>,
    /// By what it was judged; the addresses its name leads to are judged by the same when a socket is opened.
    pub policy: Policy,
}

/// How to be let in.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// Bearer token.
    Token(String),
    /// Client certificate and key, PEM.
    Certificate {
        /// The certificate chain.
        certificate: Vec<u8>,
        /// Its private key.
        key: Vec<u8>,
    },
}

impl RemoteEndpoint {
    /// Name to expect in the server's certificate, if it is another than the host as written. A host with a trailing dot (a
    /// name from the root on) is sent and checked without it (RFC 6066).
    pub fn expected_name(&self) -> Option<String> {
        let host = || self.server.host_str()?.strip_suffix('.').map(str::to_owned);
        self.tls_server_name.clone().or_else(host)
    }
}

impl std::fmt::Debug for RemoteEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.credential {
            Credential::Token(_) => "token",
            Credential::Certificate { .. } => "client certificate",
        };
        write!(f, "{} by {kind}", self.server)
    }
}

/// What the operator allows beyond the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy {
    /// Accept loopback addresses: for tests and single-machine set-ups.
    pub allow_loopback: bool,
    /// Accept `proxy-url`. What is behind a proxy cannot be judged by its address.
    pub allow_proxy: bool,
}

/// Reads and judges a kubeconfig, at a moment: what has ended by then is refused.
///
/// # Errors
/// [`KubeconfigError`], by what must change.
pub fn parse(
    bytes: &[u8],
    context: Option<&str>,
    policy: Policy,
    now: Timestamp,
) -> Result<RemoteEndpoint, KubeconfigError> {
    if bytes.len() > LARGEST {
        return Err(KubeconfigError::TooLarge);
    }
    let selected = shape::select(read(bytes)?, context)?;
    let Judged {
        server,
        certificate_authority,
        tls_server_name,
        proxy,
    } = judge_cluster(&selected.cluster, policy, now)?;
    let (credential, expires) = credential::judge_user(&selected.user, &selected.user_name, now)?;
    Ok(RemoteEndpoint {
        server,
        certificate_authority,
        tls_server_name,
        proxy,
        credential,
        expires,
        context: selected.context,
        namespace: selected.namespace,
        policy,
    })
}

/// The one document, with no more of it in an error than where it is: a parser would quote what it cannot read.
fn read(bytes: &[u8]) -> Result<Value, KubeconfigError> {
    use KubeconfigError as E;
    let text = std::str::from_utf8(bytes).map_err(|_| E::Malformed("it is not UTF-8".into()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(E::Empty);
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let place = error.location().map_or(String::new(), |at| {
            format!(" at line {}, column {}", at.line(), at.column())
        });
        E::Malformed(format!(
            "it is neither YAML nor JSON{place} (a key twice and very deep nesting count)"
        ))
    })?;
    let mut documents = documents.into_iter();
    let document = documents.next().ok_or(E::Empty)?;
    if documents.next().is_some() {
        return Err(E::Malformed("there are several documents; keep one".into()));
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nclusters: [{{name: k, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n"
        )
    }

    fn refused(cluster: &str, user: &str) -> &'static str {
        parse(
            config(cluster, user).as_bytes(),
            None,
            Policy::default(),
            Timestamp::UNIX_EPOCH,
        )
        .expect_err("must be refused")
        .kind()
    }

    const CLUSTER: &str = "{server: 'https://east.example:6443/'}";
    const USER: &str = "{token: abc}";

    #[test]
    fn a_plain_kubeconfig_is_accepted() {
        let endpoint = parse(
            config(CLUSTER, USER).as_bytes(),
            None,
            Policy::default(),
            Timestamp::UNIX_EPOCH,
        )
        .unwrap();
        assert_eq!(endpoint.server.as_str(), "https://east.example:6443/");
        assert!(endpoint.credential == Credential::Token("abc".into()));
        assert!(!format!("{endpoint:?}").contains("abc"), "a credential is never shown");
    }

    #[test]
    fn what_a_tenant_may_not_ask_is_refused_by_kind() {
        for (user, kind) in [
            (
                "{exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}}",
                "exec-plugin",
            ),
            ("{exec: {command: /bin/sh}, token: abc}", "exec-plugin"),
            ("{exec: {}}", "exec-plugin"),
            ("{auth-provider: {name: oidc}}", "auth-provider"),
            ("{tokenFile: /var/run/secrets/token}", "file-reference"),
            ("{client-certificate: a, client-key: b}", "file-reference"),
            ("{token: abc, as: admin}", "impersonation"),
            ("{token: abc, as-groups: ['system:masters']}", "impersonation"),
            ("{username: a, password: b}", "basic-auth-disabled"),
            ("{token: abc, password: 1}", "basic-auth-disabled"),
            ("{token: abc, tokenfile: /etc/shadow}", "unknown-auth"),
            ("{}", "anonymous"),
            ("{token: ''}", "anonymous"),
            ("{token: \"a\\nb: c\"}", "syntax"),
            ("{token: 12345}", "syntax"),
            ("{token: [a]}", "syntax"),
            ("{client-certificate-data: LS0tLS1CRUdJTiA=}", "bad-certificate"),
            ("{token: a, client-key-data: LS0tLS1CRUdJTiA=}", "ambiguous-auth"),
            // {"exp": 0}
            ("{token: e30.eyJleHAiOiAwfQ.c2ln}", "expired"),
        ] {
            assert_eq!(refused(CLUSTER, user), kind, "{user}");
        }
        for (cluster, kind) in [
            ("{server: 'https://a', insecure-skip-tls-verify: true}", "insecure-tls"),
            ("{server: 'https://a', insecure-skip-tls-verify: yes}", "insecure-tls"),
            (
                "{server: 'https://a', insecure-skip-tls-verify: 'true'}",
                "insecure-tls",
            ),
            (
                "{server: 'https://a', certificate-authority: /etc/passwd}",
                "file-reference",
            ),
            ("{server: 'https://a', proxy-url: 'http://b'}", "proxy-disabled"),
            ("{server: 'https://a', tls-server-name: 'a b'}", "server-url"),
            ("{server: 'http://a'}", "server-url"),
            ("{server: 'https:a'}", "server-url"),
            ("{server: 'https:///a'}", "server-url"),
            ("{server: 'https://u:p@a'}", "server-url"),
            ("{server: 'https://@a'}", "server-url"),
            ("{server: 'https://good.example\\@a'}", "server-url"),
            ("{server: 'https://a?x=1'}", "server-url"),
            ("{server: 'https://a?'}", "server-url"),
            ("{server: 'https://a#'}", "server-url"),
            ("{server: 'https://a:0'}", "server-url"),
            ("{server: 'https://[fe80::1%25eth0]'}", "server-url"),
            ("{server: 'https://a_b..c'}", "server-url"),
            ("{server: ''}", "server-url"),
            ("{}", "server-url"),
            ("{server: 'https://127.0.0.1'}", "forbidden-address"),
            ("{server: 'https://127.1'}", "forbidden-address"),
            ("{server: 'https://2130706433'}", "forbidden-address"),
            ("{server: 'https://%31%32%37.0.0.1'}", "forbidden-address"),
            ("{server: 'https://[::1]'}", "forbidden-address"),
            ("{server: 'https://[::]'}", "forbidden-address"),
            ("{server: 'https://[::127.0.0.1]'}", "forbidden-address"),
            ("{server: 'https://[64:ff9b::a9fe:a9fe]'}", "forbidden-address"),
            ("{server: 'https://[2002:7f00:1::]'}", "forbidden-address"),
            ("{server: 'https://[fd00:ec2::254]'}", "forbidden-address"),
            ("{server: 'https://localhost.'}", "forbidden-address"),
            ("{server: 'https://LOCALHOST'}", "forbidden-address"),
            ("{server: 'https://api.localhost'}", "forbidden-address"),
            ("{server: 'https://0.0.0.0'}", "forbidden-address"),
            ("{server: 'https://224.0.0.1'}", "forbidden-address"),
            ("{server: 'https://metadata.google.internal'}", "forbidden-address"),
            ("{server: 'https://100.100.100.200'}", "forbidden-address"),
        ] {
            assert_eq!(refused(cluster, USER), kind, "{cluster}");
        }
    }

    #[test]
    fn a_proxy_is_for_the_operator_to_allow_and_is_judged_as_a_server_is() {
        let policy = Policy {
            allow_proxy: true,
            ..Policy::default()
        };
        let proxied = |proxy: &str| {
            let cluster = format!("{{server: 'https://a', proxy-url: '{proxy}'}}");
            parse(config(&cluster, USER).as_bytes(), None, policy, Timestamp::UNIX_EPOCH)
        };
        for (proxy, port) in [
            ("http://p.example", 80),
            ("http://u:secret@p.example:3128/", 3128),
            ("socks5://p.example", 1080),
            ("socks5h://10.0.0.1:1234", 1234),
        ] {
            let endpoint = proxied(proxy).unwrap();
            // The default of http is not written out.
            let there = endpoint.proxy.as_ref().unwrap();
            assert_eq!(there.port_or_known_default(), Some(port), "{proxy}");
            assert!(!format!("{endpoint:?}").contains("secret"));
        }
        for (proxy, kind) in [
            ("https://p.example", "proxy-url"),
            ("ftp://p.example", "proxy-url"),
            ("p.example:3128", "proxy-url"),
            ("http://p.example/path", "proxy-url"),
            ("socks5://", "proxy-url"),
            ("socks5://localhost:1234", "forbidden-address"),
            ("http://169.254.169.254", "forbidden-address"),
            ("socks5://127.1", "forbidden-address"),
        ] {
            assert_eq!(proxied(proxy).unwrap_err().kind(), kind, "{proxy}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_quoted() {
        let secret = "s3cr3t-canary";
        for text in [
            secret.to_owned(),
            format!("[{secret}]"),
            format!("clusters: {secret}"),
            format!("users: {{{secret}: 1}}"),
            format!("a: b\n  {secret}: 'c"),
            format!("{secret}: 1\n{secret}: 2"),
            format!("kind: [{secret}]"),
            config(&format!("{{server: [{secret}]}}"), USER),
            config(&format!("{{server: 'https://u:{secret}@a'}}"), USER),
            config(CLUSTER, &format!("{{token: [{secret}]}}")),
            config(CLUSTER, &format!("{{token: '{secret} {secret}'}}")),
            config(CLUSTER, &format!("{{username: {secret}, password: {secret}}}")),
            config(CLUSTER, secret),
            config(CLUSTER, &format!("{{client-key-data: {secret}}}")),
        ] {
            let error = parse(text.as_bytes(), None, Policy::default(), Timestamp::UNIX_EPOCH).unwrap_err();
            assert!(!format!("{error} {error:?}").contains(secret), "{text}: {error:?}");
        }
    }

    #[test]
    fn a_server_is_normalised_once_and_its_path_is_kept() {
        for (written, read) in [
            ("https://a/", "https://a/"),
            ("https://a/k8s/clusters/c-1/", "https://a/k8s/clusters/c-1"),
            ("https://a/b//", "https://a/b/"),
            ("https://[2001:db8::5]:6443", "https://[2001:db8::5]:6443/"),
            ("https://[FD00::5]", "https://[fd00::5]/"),
            ("HTTPS://API.example:443", "https://api.example/"),
        ] {
            let text = config(&format!("{{server: '{written}'}}"), USER);
            let endpoint = parse(text.as_bytes(), None, Policy::default(), Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(endpoint.server.as_str(), read);
        }
    }

    #[test]
    fn an_empty_document_is_an_error_and_nothing_else() {
        for empty in [
            "",
            " \n",
            "\u{feff}",
            "{}",
            "---\n",
            "null",
            "apiVersion: v1\nkind: Config\n",
        ] {
            let error = parse(empty.as_bytes(), None, Policy::default(), Timestamp::UNIX_EPOCH).unwrap_err();
            assert_eq!(error, KubeconfigError::Empty, "{empty:?}");
        }
        let manifest = "apiVersion: v1\nkind: Secret\ndata: {value: abc}\n";
        let error = parse(manifest.as_bytes(), None, Policy::default(), Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(
            error.to_string().ends_with("it is a Secret, not a kubeconfig"),
            "{error}"
        );
    }

    #[test]
    fn an_unknown_context_tells_those_there_are() {
        let error = parse(
            config(CLUSTER, USER).as_bytes(),
            Some("other"),
            Policy::default(),
            Timestamp::UNIX_EPOCH,
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "the kubeconfig has no context \"other\"; it has: c");
    }

    #[test]
    fn only_the_selected_entries_are_judged() {
        let mut text = config(CLUSTER, USER);
        text = text.replace("users: [", "users: [{name: v, user: {exec: {command: x}}}, ");
        assert!(parse(text.as_bytes(), None, Policy::default(), Timestamp::UNIX_EPOCH).is_ok());
    }
}
