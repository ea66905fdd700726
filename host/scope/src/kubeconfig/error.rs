//! Why a kubeconfig is refused: one variant for each thing that its writer must change.

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
