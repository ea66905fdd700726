//! Tenants' kubeconfigs, by a strict type of our own. The bytes are never handed to a general loader.
//!
//! A kubeconfig may ask its reader to start a program, to open a file, to trust anyone, or to act as somebody else. None of
//! that is for a tenant to ask of the daemon, so a kubeconfig is parsed here, judged, and only what was understood goes on.
//! Parsing starts no process, opens no file and resolves no name. Only the selected context and its entries are judged.

use std::net::IpAddr;

use base64::Engine as _;
use serde::Deserialize;
use url::{Host, Url};

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

/// Why a kubeconfig is refused. Each message says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// Nothing in it.
    #[error("the kubeconfig is empty; write a kubeconfig with one cluster, user and context into the Secret")]
    Empty,
    /// Larger than [`LARGEST`].
    #[error("the kubeconfig is larger than 1 MiB; leave the entries out that are not used")]
    TooLarge,
    /// Not YAML or JSON, or not of the shape of a kubeconfig.
    #[error("the kubeconfig cannot be read: {0}")]
    Malformed(String),
    /// The context is not among those there are.
    #[error("the kubeconfig has no context \"{wanted}\"; it has: {}", list(.there))]
    UnknownContext {
        /// The one asked for.
        wanted: String,
        /// Those there are.
        there: Vec<String>,
    },
    /// No `current-context`, and none asked for.
    #[error("the kubeconfig has no current-context; set it, or name one in spec.context; it has: {}", list(.there))]
    NoContext {
        /// Those there are.
        there: Vec<String>,
    },
    /// The context names a cluster or user that is not there, or that is there twice.
    #[error("{0}")]
    BadReference(String),
    /// It would have a program started.
    #[error(
        "user \"{0}\" gets its credential from a program (exec or auth-provider), which is not run for a tenant; put a token or a client certificate into the kubeconfig"
    )]
    RunsProgram(String),
    /// It would have a file opened.
    #[error("{0} names a file of the machine it was written on; put the content in as data")]
    NamesFile(&'static str),
    /// It asks not to check the server's certificate.
    #[error(
        "insecure-skip-tls-verify is not accepted; put the cluster's certificate authority into certificate-authority-data"
    )]
    Insecure,
    /// It asks to act as somebody else.
    #[error("user \"{0}\" impersonates somebody; give the user's own credential")]
    Impersonates(String),
    /// User name and password.
    #[error(
        "user \"{0}\" has a user name and password, which Kubernetes no longer takes; give a token or a client certificate"
    )]
    BasicAuth(String),
    /// It would go through a proxy.
    #[error("proxy-url is not accepted")]
    Proxy,
    /// The server's URL is not one.
    #[error("server \"{server}\" {why}")]
    BadServer {
        /// As written, cut to 200 characters.
        server: String,
        /// What is wrong with it.
        why: String,
    },
    /// An address that no remote has.
    #[error("server address {0} is not accepted: it is {1}")]
    ForbiddenAddress(String, &'static str),
    /// No credential.
    #[error("user \"{0}\" has no credential; give a token or a client certificate with its key")]
    Anonymous(String),
    /// Two kinds of credential, or half of one.
    #[error("user \"{user}\" {why}")]
    BadCredential {
        /// Which user.
        user: String,
        /// What is wrong.
        why: &'static str,
    },
}

impl KubeconfigError {
    /// One CamelCase word for a condition.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Empty => "KubeconfigEmpty",
            Self::TooLarge => "KubeconfigTooLarge",
            Self::Malformed(_) => "KubeconfigMalformed",
            Self::UnknownContext { .. } | Self::NoContext { .. } => "KubeconfigContextUnknown",
            Self::BadReference(_) => "KubeconfigReferenceUnknown",
            Self::RunsProgram(_) => "KubeconfigRunsProgram",
            Self::NamesFile(_) => "KubeconfigNamesFile",
            Self::Insecure => "KubeconfigInsecure",
            Self::Impersonates(_) => "KubeconfigImpersonates",
            Self::BasicAuth(_) => "KubeconfigBasicAuth",
            Self::Proxy => "KubeconfigProxy",
            Self::BadServer { .. } => "KubeconfigServerInvalid",
            Self::ForbiddenAddress(..) => "KubeconfigAddressForbidden",
            Self::Anonymous(_) => "KubeconfigAnonymous",
            Self::BadCredential { .. } => "KubeconfigCredentialInvalid",
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".into()
    } else {
        names.iter().take(20).cloned().collect::<Vec<_>>().join(", ")
    }
}

/// What the operator allows beyond the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy {
    /// Accept loopback addresses: for tests and single-machine set-ups.
    pub allow_loopback: bool,
}

#[derive(Deserialize)]
struct File {
    #[serde(default, rename = "current-context")]
    current_context: Option<String>,
    #[serde(default)]
    clusters: Option<Vec<Named<ClusterBox>>>,
    #[serde(default)]
    users: Option<Vec<Named<UserBox>>>,
    #[serde(default)]
    contexts: Option<Vec<Named<ContextBox>>>,
}

#[derive(Deserialize)]
struct Named<T> {
    name: String,
    #[serde(flatten)]
    content: T,
}

#[derive(Deserialize)]
struct ClusterBox {
    cluster: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct UserBox {
    user: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct ContextBox {
    context: Option<Context>,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    #[serde(default)]
    server: String,
    #[serde(default)]
    certificate_authority_data: Option<String>,
    #[serde(default)]
    certificate_authority: Option<String>,
    #[serde(default)]
    tls_server_name: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
    #[serde(default)]
    proxy_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    #[serde(default)]
    token: Option<String>,
    #[serde(default, rename = "tokenFile")]
    token_file: Option<String>,
    #[serde(default)]
    client_certificate: Option<String>,
    #[serde(default)]
    client_certificate_data: Option<String>,
    #[serde(default)]
    client_key: Option<String>,
    #[serde(default)]
    client_key_data: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    exec: Option<serde_json::Value>,
    #[serde(default)]
    auth_provider: Option<serde_json::Value>,
    #[serde(default, rename = "as")]
    as_user: Option<serde_json::Value>,
    #[serde(default)]
    as_uid: Option<serde_json::Value>,
    #[serde(default)]
    as_groups: Option<serde_json::Value>,
    #[serde(default)]
    as_user_extra: Option<serde_json::Value>,
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

/// A cluster entry after judgement.
struct Judged {
    server: Url,
    certificate_authority: Option<Vec<u8>>,
    tls_server_name: Option<String>,
}

fn judge_cluster(cluster: Cluster, policy: Policy) -> Result<Judged, KubeconfigError> {
    use KubeconfigError as E;
    let Cluster {
        server,
        certificate_authority_data,
        certificate_authority,
        tls_server_name,
        insecure_skip_tls_verify,
        proxy_url,
    } = cluster;
    if insecure_skip_tls_verify {
        return Err(E::Insecure);
    }
    if certificate_authority.is_some_and(|path| !path.is_empty()) {
        return Err(E::NamesFile("certificate-authority"));
    }
    if proxy_url.is_some_and(|proxy| !proxy.is_empty()) {
        return Err(E::Proxy);
    }
    let server = judge_server(&server, policy)?;
    let authority = match certificate_authority_data.filter(|data| !data.is_empty()) {
        None => None,
        Some(data) => Some(pem(&data, "certificate-authority-data")?),
    };
    Ok(Judged {
        server,
        certificate_authority: authority,
        tls_server_name: tls_server_name.filter(|name| !name.is_empty()),
    })
}

fn judge_server(text: &str, policy: Policy) -> Result<Url, KubeconfigError> {
    let bad = |why: &str| KubeconfigError::BadServer {
        server: text.chars().take(200).collect(),
        why: why.to_owned(),
    };
    if text.is_empty() {
        return Err(bad("is empty"));
    }
    if text
        .chars()
        .any(|c| c.is_control() || c.is_whitespace() || !c.is_ascii())
    {
        return Err(bad("has a character that does not belong into a URL"));
    }
    let mut url = Url::parse(text).map_err(|error| bad(&format!("is not a URL: {error}")))?;
    if url.scheme() != "https" {
        return Err(bad("is not an https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("carries a user name or password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("has a query or fragment"));
    }
    match url.host() {
        None => return Err(bad("names no host")),
        Some(Host::Domain(domain)) => {
            let domain = domain.trim_end_matches('.').to_ascii_lowercase();
            if (domain == "localhost" || domain.ends_with(".localhost")) && !policy.allow_loopback {
                return Err(KubeconfigError::ForbiddenAddress(domain, "a loopback address"));
            }
        }
        Some(Host::Ipv4(address)) => judge_address(address.into(), policy)?,
        Some(Host::Ipv6(address)) => judge_address(address.into(), policy)?,
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Judges an address; also to be called on what a name was resolved to.
///
/// # Errors
/// [`KubeconfigError::ForbiddenAddress`] for loopback (unless allowed), link-local, unspecified, multicast and cloud metadata.
pub fn judge_address(address: IpAddr, policy: Policy) -> Result<(), KubeconfigError> {
    let address = match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4),
        four => four,
    };
    let why = match address {
        _ if address.is_unspecified() => "the unspecified address",
        _ if address.is_multicast() => "a multicast address",
        _ if address.is_loopback() => {
            if policy.allow_loopback {
                return Ok(());
            }
            "a loopback address"
        }
        IpAddr::V4(four) if four.is_link_local() => "a link-local address (cloud metadata lives there)",
        IpAddr::V4(four) if four.is_broadcast() => "the broadcast address",
        IpAddr::V6(six) if six.segments().first().is_some_and(|s| s & 0xffc0 == 0xfe80) => "a link-local address",
        IpAddr::V6(six) if six.octets().starts_with(&[0xfd, 0x00, 0x0e, 0xc2]) => "a cloud metadata address",
        _ => return Ok(()),
    };
    Err(KubeconfigError::ForbiddenAddress(address.to_string(), why))
}

fn judge_user(user: User, name: &str) -> Result<Credential, KubeconfigError> {
    use KubeconfigError as E;
    let present = |value: &Option<serde_json::Value>| {
        value
            .as_ref()
            .is_some_and(|v| !v.is_null() && *v != "" && *v != serde_json::json!([]) && *v != serde_json::json!({}))
    };
    let given = |value: &Option<String>| value.as_ref().is_some_and(|v| !v.is_empty());
    let User {
        token,
        token_file,
        client_certificate,
        client_certificate_data,
        client_key,
        client_key_data,
        username,
        password,
        exec,
        auth_provider,
        as_user,
        as_uid,
        as_groups,
        as_user_extra,
    } = user;
    if exec.is_some() || auth_provider.is_some() {
        return Err(E::RunsProgram(name.to_owned()));
    }
    for (value, field) in [
        (&token_file, "tokenFile"),
        (&client_certificate, "client-certificate"),
        (&client_key, "client-key"),
    ] {
        if given(value) {
            return Err(E::NamesFile(field));
        }
    }
    if [&as_user, &as_uid, &as_groups, &as_user_extra].into_iter().any(present) {
        return Err(E::Impersonates(name.to_owned()));
    }
    if given(&username) || given(&password) {
        return Err(E::BasicAuth(name.to_owned()));
    }
    let bad = |why| E::BadCredential {
        user: name.to_owned(),
        why,
    };
    let token = token.filter(|t| !t.is_empty());
    let certificate = client_certificate_data.filter(|d| !d.is_empty());
    let key = client_key_data.filter(|d| !d.is_empty());
    match (token, certificate, key) {
        (None, None, None) => Err(E::Anonymous(name.to_owned())),
        (Some(token), None, None) => {
            let token = token.trim();
            // It becomes a header: a line break in it would make another header of what follows.
            if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(bad(
                    "has a token with a space, a line break or another character that no token has",
                ));
            }
            Ok(Credential::Token(token.to_owned()))
        }
        (None, Some(certificate), Some(key)) => Ok(Credential::Certificate {
            certificate: pem(&certificate, "client-certificate-data")?,
            key: pem(&key, "client-key-data")?,
        }),
        (Some(_), _, _) => Err(bad("has both a token and a client certificate; keep one")),
        (None, Some(_), None) => Err(bad("has a client certificate without its key")),
        (None, None, Some(_)) => Err(bad("has a client key without its certificate")),
    }
}

/// Base64, wrapped or not, of something in PEM.
fn pem(data: &str, field: &str) -> Result<Vec<u8>, KubeconfigError> {
    let packed: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(packed)
        .map_err(|error| KubeconfigError::Malformed(format!("{field} is not base64: {error}")))?;
    if !String::from_utf8_lossy(&bytes).contains("-----BEGIN ") {
        return Err(KubeconfigError::Malformed(format!("{field} is not PEM")));
    }
    Ok(bytes)
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
