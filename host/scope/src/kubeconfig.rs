//! Tenants' kubeconfigs, by a strict type of our own. The bytes are never handed to a general loader.
//!
//! A kubeconfig may ask its reader to start a program, to open a file, to trust anyone, or to act as somebody else. None of
//! that is for a tenant to ask of the daemon, so a kubeconfig is parsed here, judged, and only what was understood goes on.
//! Parsing starts no process, opens no file and resolves no name. Only the selected context and its entries are judged.

mod error;
mod judge;
mod shape;

use url::Url;

pub use self::error::KubeconfigError;
pub use self::judge::judge_address;
use self::judge::{Judged, judge_cluster, judge_user};
use self::shape::{Cluster, File, Named, User};

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
    /// How to be let in.
    pub credential: Credential,
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
}

/// Reads and judges a kubeconfig.
///
/// # Errors
/// [`KubeconfigError`], by what must change.
pub fn parse(bytes: &[u8], context: Option<&str>, policy: Policy) -> Result<RemoteEndpoint, KubeconfigError> {
    use KubeconfigError as E;
    if bytes.len() > LARGEST {
        return Err(E::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| E::Malformed("it is not UTF-8".into()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(E::Empty);
    }
    let documents: Vec<File> = serde_saphyr::from_multiple(text)
        .map_err(|error| E::Malformed(chandlery_core::readiness::one_line(&error.to_string())))?;
    let mut documents = documents.into_iter();
    let file = documents.next().ok_or(E::Empty)?;
    if documents.next().is_some() {
        return Err(E::Malformed("there are several documents; keep one".into()));
    }
    let (clusters, users, contexts) = (
        file.clusters.unwrap_or_default(),
        file.users.unwrap_or_default(),
        file.contexts.unwrap_or_default(),
    );
    if clusters.is_empty() && users.is_empty() && contexts.is_empty() && file.current_context.is_none() {
        return Err(E::Empty);
    }
    let there: Vec<String> = contexts.iter().map(|c| c.name.clone()).collect();
    let wanted = match (context, file.current_context.as_deref()) {
        (Some(wanted), _) => wanted.to_owned(),
        (None, Some(current)) if !current.is_empty() => current.to_owned(),
        _ => return Err(E::NoContext { there }),
    };
    let context = only(contexts, &wanted, "context")?.ok_or(E::UnknownContext {
        wanted: wanted.clone(),
        there,
    })?;
    let context = context
        .context
        .ok_or_else(|| E::BadReference(format!("context \"{wanted}\" is empty")))?;
    let cluster = only(clusters, &context.cluster, "cluster")?
        .and_then(|c| c.cluster)
        .ok_or_else(|| {
            E::BadReference(format!(
                "context \"{wanted}\" names cluster \"{}\", which is not there",
                context.cluster
            ))
        })?;
    let user_name = context
        .user
        .filter(|u| !u.is_empty())
        .ok_or_else(|| E::Anonymous(format!("of context {wanted}")))?;
    let user = only(users, &user_name, "user")?.and_then(|u| u.user).ok_or_else(|| {
        E::BadReference(format!(
            "context \"{wanted}\" names user \"{user_name}\", which is not there"
        ))
    })?;
    let shape = |what: &str, error: serde_json::Error| E::Malformed(format!("{what}: {error}"));
    let cluster: Cluster =
        serde_json::from_value(cluster).map_err(|error| shape(&format!("cluster \"{}\"", context.cluster), error))?;
    let user: User = serde_json::from_value(user).map_err(|error| shape(&format!("user \"{user_name}\""), error))?;
    let Judged {
        server,
        certificate_authority,
        tls_server_name,
    } = judge_cluster(cluster, policy)?;
    Ok(RemoteEndpoint {
        server,
        certificate_authority,
        tls_server_name,
        credential: judge_user(user, &user_name)?,
        namespace: context.namespace.filter(|n| !n.is_empty()),
        policy,
    })
}

/// The one entry of this name; two of one name are refused, for readers differ in which one counts.
fn only<T>(entries: Vec<Named<T>>, name: &str, what: &str) -> Result<Option<T>, KubeconfigError> {
    let mut found = entries.into_iter().filter(|entry| entry.name == name);
    let first = found.next().map(|entry| entry.content);
    match found.next() {
        Some(_) => Err(KubeconfigError::BadReference(format!(
            "{what} \"{name}\" is there twice; keep one"
        ))),
        None => Ok(first),
    }
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
        parse(config(cluster, user).as_bytes(), None, Policy::default())
            .expect_err("must be refused")
            .reason()
    }

    const CLUSTER: &str = "{server: 'https://east.example:6443/'}";
    const USER: &str = "{token: abc}";

    #[test]
    fn a_plain_kubeconfig_is_accepted() {
        let endpoint = parse(config(CLUSTER, USER).as_bytes(), None, Policy::default()).unwrap();
        assert_eq!(endpoint.server.as_str(), "https://east.example:6443/");
        assert!(endpoint.credential == Credential::Token("abc".into()));
        assert!(!format!("{endpoint:?}").contains("abc"), "a credential is never shown");
    }

    #[test]
    fn what_a_tenant_may_not_ask_is_refused_by_kind() {
        for (user, reason) in [
            (
                "{exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}}",
                "KubeconfigRunsProgram",
            ),
            ("{exec: {command: /bin/sh}, token: abc}", "KubeconfigRunsProgram"),
            ("{auth-provider: {name: oidc}}", "KubeconfigRunsProgram"),
            ("{tokenFile: /var/run/secrets/token}", "KubeconfigNamesFile"),
            ("{client-certificate: a, client-key: b}", "KubeconfigNamesFile"),
            ("{token: abc, as: admin}", "KubeconfigImpersonates"),
            ("{token: abc, as-groups: ['system:masters']}", "KubeconfigImpersonates"),
            ("{username: a, password: b}", "KubeconfigBasicAuth"),
            ("{}", "KubeconfigAnonymous"),
            ("{token: \"a\\nb: c\"}", "KubeconfigCredentialInvalid"),
            (
                "{client-certificate-data: LS0tLS1CRUdJTiA=}",
                "KubeconfigCredentialInvalid",
            ),
        ] {
            assert_eq!(refused(CLUSTER, user), reason, "{user}");
        }
        for (cluster, reason) in [
            (
                "{server: 'https://a', insecure-skip-tls-verify: true}",
                "KubeconfigInsecure",
            ),
            (
                "{server: 'https://a', certificate-authority: /etc/passwd}",
                "KubeconfigNamesFile",
            ),
            ("{server: 'https://a', proxy-url: 'http://b'}", "KubeconfigProxy"),
            ("{server: 'http://a'}", "KubeconfigServerInvalid"),
            ("{server: 'https://u:p@a'}", "KubeconfigServerInvalid"),
            ("{server: 'https://a?x=1'}", "KubeconfigServerInvalid"),
            ("{server: ''}", "KubeconfigServerInvalid"),
            ("{server: 'https://127.0.0.1'}", "KubeconfigAddressForbidden"),
            ("{server: 'https://[::ffff:127.0.0.1]'}", "KubeconfigAddressForbidden"),
            ("{server: 'https://0251.0376.0251.0376'}", "KubeconfigAddressForbidden"),
            ("{server: 'https://169.254.169.254'}", "KubeconfigAddressForbidden"),
            ("{server: 'https://localhost'}", "KubeconfigAddressForbidden"),
            ("{server: 'https://0.0.0.0'}", "KubeconfigAddressForbidden"),
        ] {
            assert_eq!(refused(cluster, USER), reason, "{cluster}");
        }
    }

    #[test]
    fn an_empty_document_is_an_error_and_nothing_else() {
        for empty in ["", " \n", "\u{feff}", "{}", "---\n"] {
            assert_eq!(
                parse(empty.as_bytes(), None, Policy::default()).unwrap_err().reason(),
                "KubeconfigEmpty",
                "{empty:?}"
            );
        }
    }

    #[test]
    fn an_unknown_context_tells_those_there_are() {
        let error = parse(config(CLUSTER, USER).as_bytes(), Some("other"), Policy::default()).unwrap_err();
        assert_eq!(error.to_string(), "the kubeconfig has no context \"other\"; it has: c");
    }

    #[test]
    fn only_the_selected_entries_are_judged() {
        let mut text = config(CLUSTER, USER);
        text = text.replace("users: [", "users: [{name: v, user: {exec: {command: x}}}, ");
        assert!(parse(text.as_bytes(), None, Policy::default()).is_ok());
    }
}
