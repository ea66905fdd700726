//! Why a kubeconfig is refused: one variant for each thing that its writer must change. No message quotes what may be secret.

/// Why a kubeconfig is refused. Each message says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// Nothing in it.
    #[error("the kubeconfig is empty; write a kubeconfig with one cluster, user and context into the Secret")]
    Empty,
    /// Larger than a kubeconfig may be.
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
    /// The context names a cluster or user that is not there.
    #[error("context \"{context}\" names {what} \"{name}\", which is not there; add it, or name another")]
    UnknownReference {
        /// The context.
        context: String,
        /// `cluster` or `user`.
        what: &'static str,
        /// The name it gives.
        name: String,
    },
    /// An entry of this name is there twice, and readers differ in which one counts.
    #[error("{what} \"{name}\" is there twice; keep one")]
    DuplicateName {
        /// `context`, `cluster` or `user`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// It would have a program started.
    #[error(
        "user \"{0}\" gets its credential from a program (exec), which is not run for a tenant; put a token or a client certificate into the kubeconfig"
    )]
    ExecPlugin(String),
    /// It would have code of a vendor's fetch the credential.
    #[error(
        "user \"{0}\" gets its credential from an auth-provider, which Kubernetes no longer has; put a token or a client certificate into the kubeconfig"
    )]
    AuthProvider(String),
    /// A field that is not known where credentials are: it could mean anything to another reader.
    #[error("user \"{user}\" has the field \"{field}\", which is not known; remove it, or correct its spelling")]
    UnknownAuth {
        /// Which user.
        user: String,
        /// Which field, cut to 60 characters.
        field: String,
    },
    /// It would have a file opened.
    #[error("{0} names a file of the machine it was written on; put the content in as data")]
    FileReference(&'static str),
    /// It asks not to check the server's certificate.
    #[error(
        "insecure-skip-tls-verify is not accepted; put the cluster's certificate authority into certificate-authority-data"
    )]
    InsecureTls,
    /// It asks to act as somebody else.
    #[error("user \"{0}\" impersonates somebody; give the user's own credential")]
    Impersonation(String),
    /// User name and password.
    #[error(
        "user \"{0}\" has a user name and password, which Kubernetes no longer takes; give a token or a client certificate"
    )]
    BasicAuth(String),
    /// It would go through a proxy, and the operator does not allow that.
    #[error("proxy-url is not accepted here; remove it, or ask the operator to start the daemon with --allow-proxy")]
    ProxyDisabled,
    /// The proxy's URL is not one that can be used.
    #[error("proxy-url {0}")]
    BadProxy(&'static str),
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
    /// Two kinds of credential.
    #[error("user \"{0}\" has both a token and a client certificate; keep one")]
    AmbiguousAuth(String),
    /// A certificate or key that is not one, or not of the other.
    #[error("{field} {why}")]
    BadCertificate {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Its time is over.
    #[error("{what} ended at {at}; put a new one into the kubeconfig")]
    Expired {
        /// What ended.
        what: &'static str,
        /// When.
        at: jiff::Timestamp,
    },
}

impl KubeconfigError {
    /// One CamelCase word for a condition.
    pub const fn reason(&self) -> &'static str {
        self.words().0
    }

    /// The same in kebab-case, as `chandlery remote check` says it. Stable.
    pub const fn kind(&self) -> &'static str {
        self.words().1
    }

    const fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Empty => ("KubeconfigEmpty", "empty"),
            Self::TooLarge => ("KubeconfigTooLarge", "too-large"),
            Self::Malformed(_) => ("KubeconfigSyntax", "syntax"),
            Self::UnknownContext { .. } | Self::NoContext { .. } | Self::UnknownReference { .. } => {
                ("KubeconfigContext", "context")
            }
            Self::DuplicateName { .. } => ("KubeconfigDuplicateName", "duplicate-name"),
            Self::ExecPlugin(_) => ("KubeconfigExecPlugin", "exec-plugin"),
            Self::AuthProvider(_) => ("KubeconfigAuthProvider", "auth-provider"),
            Self::UnknownAuth { .. } => ("KubeconfigUnknownAuth", "unknown-auth"),
            Self::FileReference(_) => ("KubeconfigFileReference", "file-reference"),
            Self::InsecureTls => ("KubeconfigInsecureTLS", "insecure-tls"),
            Self::Impersonation(_) => ("KubeconfigImpersonation", "impersonation"),
            Self::BasicAuth(_) => ("KubeconfigBasicAuth", "basic-auth-disabled"),
            Self::ProxyDisabled => ("KubeconfigProxyDisabled", "proxy-disabled"),
            Self::BadProxy(_) => ("KubeconfigProxyURL", "proxy-url"),
            Self::BadServer { .. } => ("KubeconfigServerURL", "server-url"),
            Self::ForbiddenAddress(..) => ("KubeconfigForbiddenAddress", "forbidden-address"),
            Self::Anonymous(_) => ("KubeconfigAnonymous", "anonymous"),
            Self::AmbiguousAuth(_) => ("KubeconfigAmbiguousAuth", "ambiguous-auth"),
            Self::BadCertificate { .. } => ("KubeconfigBadCertificate", "bad-certificate"),
            Self::Expired { .. } => ("KubeconfigExpired", "expired"),
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    let mut text = names.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > 20 {
        text.push_str(&format!(" and {} more", names.len() - 20));
    }
    text
}
