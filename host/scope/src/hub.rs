//! The hub as this process reaches it: remotes by name, their connections by credential, tenants by short-lived token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chandlery_api::RemoteCluster;
use chandlery_core::cluster::CallError;
use chandlery_core::remote::Glimpse;
use chandlery_core::{Class, Setback, Uid};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::PostParams;
use kube::runtime::reflector::{ObjectRef as StoreRef, Store};
use kube::{Api, Config};
use serde_json::Value;

use crate::answers::{Asked, Verdict};
use crate::claims::ClaimStore;
use crate::connection::{Connection, Identity, connect, connect_config};
use crate::fence::WriteFence;
use crate::kubeconfig::{self, KubeconfigError, Policy, RemoteEndpoint};
use crate::records::timed;
use crate::wire::{Ask, NoAnswer};

/// Life of a ServiceAccount's token for steps on the hub; the shortest the API gives.
const TOKEN_SECONDS: i64 = 600;
/// When a token is replaced: well before its end, so that no call outlives it.
const TOKEN_USE: Duration = Duration::from_secs(400);

/// The hub as this process reaches it, and the connections it keeps.
pub struct Hub {
    /// Connection with the daemon's own credential.
    pub connection: Arc<Connection>,
    /// The configuration it was made of; a tenant's connection takes address and authority from it.
    pub config: Config,
    /// All RemoteClusters, by a watch.
    pub remotes: Store<RemoteCluster>,
    /// Claims.
    pub claims: Arc<ClaimStore>,
    /// What all clients of this process stand behind.
    pub fence: WriteFence,
    /// What kubeconfigs may say beyond the default.
    pub policy: Policy,
    known: Mutex<HashMap<Uid, Known>>,
    tenants: Mutex<HashMap<(String, String), Tenant>>,
    identity: tokio::sync::OnceCell<String>,
}

/// A remote's connection, and of which credential it was made.
#[derive(Clone)]
struct Known {
    secret_version: String,
    context: Option<String>,
    credential_hash: String,
    connection: Arc<Connection>,
    endpoint: Arc<RemoteEndpoint>,
}

#[derive(Clone)]
struct Tenant {
    since: Instant,
    connection: Arc<Connection>,
}

/// What was found when a remote was looked at.
#[derive(Debug, Clone)]
pub struct Sight {
    /// UID of `kube-system`.
    pub identity: String,
    /// `major.minor.patch`.
    pub version: String,
    /// Host of the endpoint.
    pub host: String,
    /// Port of the endpoint.
    pub port: u16,
    /// 16 hex digits.
    pub credential_hash: String,
}

/// Why a remote could not be seen, and what that says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blind {
    /// What the look came to; nothing where it was the hub that did not answer.
    pub glimpse: Option<Glimpse>,
    /// The same for people.
    pub setback: Setback,
}

impl Blind {
    fn new(glimpse: Glimpse, class: Class, reason: &str, message: String) -> Self {
        Self {
            glimpse: Some(glimpse),
            setback: Setback::new(class, reason, message),
        }
    }
}

impl From<Setback> for Blind {
    fn from(setback: Setback) -> Self {
        Self { glimpse: None, setback }
    }
}

impl Hub {
    /// The hub of this process.
    pub fn new(
        connection: Arc<Connection>,
        config: Config,
        remotes: Store<RemoteCluster>,
        claims: Arc<ClaimStore>,
        fence: WriteFence,
        policy: Policy,
    ) -> Arc<Self> {
        Arc::new(Self {
            connection,
            config,
            remotes,
            claims,
            fence,
            policy,
            known: Mutex::default(),
            tenants: Mutex::default(),
            identity: tokio::sync::OnceCell::new(),
        })
    }

    /// A RemoteCluster from memory.
    pub fn remote(&self, namespace: &str, name: &str) -> Option<Arc<RemoteCluster>> {
        self.remotes.get(&StoreRef::new(name).within(namespace))
    }

    /// Drops what is kept of a remote that is gone.
    pub fn forget(&self, uid: &Uid) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Connects to a remote with the credential it has now, and looks who is there.
    ///
    /// # Errors
    /// `Wait` while the credential is not there; `UserFix` where it is refused; `Retry` where the cluster is not reached.
    pub async fn look(&self, remote: &RemoteCluster) -> Result<(Arc<Connection>, Sight), Blind> {
        let known = self.connection_to(remote).await?;
        let connection = known.connection;
        let unreachable = |error: Unseen| match error {
            Unseen::Refused(error) => Blind::new(
                Glimpse::Refused,
                Class::UserFix,
                error.reason(),
                format!("remote {}: {error}", name_of(remote)),
            ),
            Unseen::Call(CallError::Denied(message)) => Blind::new(
                Glimpse::Refused,
                Class::UserFix,
                "CredentialRefused",
                format!("remote {}: {message}", name_of(remote)),
            ),
            Unseen::Call(error) => Blind::new(
                Glimpse::Silent,
                Class::Retry,
                "RemoteUnreachable",
                format!(
                    "remote {} at {}:{}: {error}",
                    name_of(remote),
                    connection.host(),
                    connection.port()
                ),
            ),
        };
        let learnt = connection
            .learnt
            .get_or_try_init(|| version_of(&connection))
            .await
            .map_err(unreachable)?
            .clone();
        let identity = identity_of(&connection).await.map_err(unreachable)?;
        let sight = Sight {
            identity,
            version: learnt.version,
            host: connection.host().to_owned(),
            port: connection.port(),
            credential_hash: known.credential_hash,
        };
        Ok((connection, sight))
    }

    /// Where a remote is and how to be let in, by the credential it has now. Nothing is sent there.
    ///
    /// # Errors
    /// As [`Hub::look`].
    pub async fn endpoint(&self, remote: &RemoteCluster) -> Result<Arc<RemoteEndpoint>, Setback> {
        let known = self.connection_to(remote).await.map_err(|blind| blind.setback)?;
        Ok(known.endpoint)
    }

    async fn connection_to(&self, remote: &RemoteCluster) -> Result<Known, Blind> {
        let name = name_of(remote);
        let uid: Uid = remote
            .metadata
            .uid
            .as_deref()
            .and_then(|uid| uid.parse().ok())
            .ok_or_else(|| Setback::new(Class::Bug, "NoUid", "a RemoteCluster without UID"))?;
        let reference = &remote.spec.source.secret_ref;
        let namespace = remote.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Secret> = Api::namespaced(self.connection.client.clone(), &namespace);
        let secret = timed("the kubeconfig secret", api.get_opt(&reference.name))
            .await?
            .ok_or_else(|| {
                Blind::new(
                    Glimpse::NoSecret,
                    Class::Wait,
                    "CredentialMissing",
                    format!("remote {name} waits for Secret {namespace}/{}", reference.name),
                )
            })?;
        let version = format!(
            "{}/{}",
            secret.metadata.uid.unwrap_or_default(),
            secret.metadata.resource_version.unwrap_or_default()
        );
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&uid)
            .cloned();
        if let Some(known) = &known
            && known.secret_version == version
            && known.context == remote.spec.context
        {
            return Ok(known.clone());
        }
        let data = secret.data.unwrap_or_default();
        let bytes = data.get(&reference.key).ok_or_else(|| {
            let there: Vec<&str> = data.keys().map(String::as_str).collect();
            Blind::new(
                Glimpse::Refused,
                Class::UserFix,
                "SecretKeyMissing",
                format!(
                    "Secret {namespace}/{} has no key \"{}\"; it has: {}",
                    reference.name,
                    reference.key,
                    if there.is_empty() {
                        "none".into()
                    } else {
                        there.join(", ")
                    }
                ),
            )
        })?;
        let refuse = |error: kubeconfig::KubeconfigError| {
            Blind::new(
                Glimpse::Refused,
                Class::UserFix,
                error.reason(),
                format!("remote {name}: {error}"),
            )
        };
        let endpoint = kubeconfig::parse(
            &bytes.0,
            remote.spec.context.as_deref(),
            self.policy,
            jiff::Timestamp::now(),
        )
        .map_err(refuse)?;
        let hash: String = chandlery_core::Digest::of(&bytes.0).hex().chars().take(16).collect();
        let connection = match known {
            Some(known) if known.credential_hash == hash && known.context == remote.spec.context => known.connection,
            _ => connect(&endpoint, &self.fence).map_err(|error| {
                Blind::new(
                    Glimpse::Refused,
                    Class::UserFix,
                    "KubeconfigBadCertificate",
                    format!("remote {name}: {error}"),
                )
            })?,
        };
        let known = Known {
            secret_version: version,
            context: remote.spec.context.clone(),
            credential_hash: hash,
            connection,
            endpoint: Arc::new(endpoint),
        };
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(uid, known.clone());
        Ok(known)
    }

    pub(crate) async fn own_identity(&self) -> Result<String, Setback> {
        self.identity
            .get_or_try_init(|| async { identity_of(&self.connection).await })
            .await
            .cloned()
            .map_err(|error| Setback::new(Class::Retry, "HubUnreachable", error.to_string()))
    }

    /// A connection to the hub as a ServiceAccount, by a token of ten minutes.
    pub(crate) async fn tenant(
        &self,
        namespace: &str,
        service_account: &str,
    ) -> Result<Option<Arc<Connection>>, Setback> {
        let key = (namespace.to_owned(), service_account.to_owned());
        let known = self
            .tenants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if let Some(tenant) = known
            && tenant.since.elapsed() < TOKEN_USE
        {
            return Ok(Some(tenant.connection));
        }
        let api: Api<ServiceAccount> = Api::namespaced(self.connection.client.clone(), namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let since = Instant::now();
        let answer =
            crate::records::timed_raw(api.create_token_request(service_account, &PostParams::default(), &request))
                .await;
        let token = match answer {
            Ok(answer) => answer.status.and_then(|status| status.token).unwrap_or_default(),
            Err(crate::records::Failed::Api(404)) => return Ok(None),
            Err(failed) => {
                return Err(failed.into_setback(&format!("the token of ServiceAccount {namespace}/{service_account}")));
            }
        };
        let mut config = Config::new(self.config.cluster_url.clone());
        config.root_cert = self.config.root_cert.clone();
        config.root_cert_file = self.config.root_cert_file.clone();
        config.tls_server_name = self.config.tls_server_name.clone();
        config.auth_info.token = Some(token.into());
        let connection = connect_config(config, &self.fence)
            .map_err(|error| Setback::new(Class::Retry, "HubUnreachable", error.to_string()))?;
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).insert(
            key,
            Tenant {
                since,
                connection: connection.clone(),
            },
        );
        Ok(Some(connection))
    }

    pub(crate) fn sealed_secrets(&self) -> Vec<(String, String)> {
        self.remotes
            .state()
            .iter()
            .map(|remote| {
                (
                    remote.metadata.namespace.clone().unwrap_or_default(),
                    remote.spec.source.secret_ref.name.clone(),
                )
            })
            .collect()
    }
}

fn name_of(remote: &RemoteCluster) -> String {
    remote.metadata.name.clone().unwrap_or_default()
}

/// Why a cluster could not be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unseen {
    /// Its address is none that a remote has.
    #[error(transparent)]
    Refused(KubeconfigError),
    /// It did not answer, or not well.
    #[error(transparent)]
    Call(CallError),
}

impl From<Unseen> for CallError {
    fn from(unseen: Unseen) -> Self {
        match unseen {
            Unseen::Refused(error) => CallError::Denied(error.to_string()),
            Unseen::Call(error) => error,
        }
    }
}

async fn read(connection: &Connection, path: &str) -> Result<Value, Unseen> {
    let answer = connection
        .read(Ask::get(path.to_owned()))
        .await
        .map_err(|none| match none {
            NoAnswer::Refused(error) => Unseen::Refused(error),
            none => Unseen::Call(none.into_call_error()),
        })?;
    match answer.verdict(Asked::Read) {
        Verdict::Good => Ok(answer.body),
        Verdict::Bad(error) => Err(Unseen::Call(error)),
        Verdict::Forbidden(message) => Err(Unseen::Call(CallError::Denied(message))),
    }
}

/// UID of `kube-system`: the same cluster under any name.
pub(crate) async fn identity_of(connection: &Connection) -> Result<String, Unseen> {
    let namespace = read(connection, "/api/v1/namespaces/kube-system").await?;
    chandlery_core::object::uid(&namespace)
        .map(|uid| uid.to_string())
        .ok_or_else(|| {
            Unseen::Call(CallError::Unavailable(
                "the namespace kube-system has no UID: this is no Kubernetes API".into(),
            ))
        })
}

pub(crate) async fn version_of(connection: &Connection) -> Result<Identity, Unseen> {
    let version = read(connection, "/version").await?;
    let text = version.get("gitVersion").and_then(Value::as_str).unwrap_or_default();
    let plain: String = text
        .trim_start_matches('v')
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .take(32)
        .collect();
    if plain.is_empty() {
        Err(Unseen::Call(CallError::Unavailable(
            "it does not tell its version: this is no Kubernetes API".into(),
        )))
    } else {
        Ok(Identity { version: plain })
    }
}

/// Facts of a cluster reached by a connection, for calls by hand.
///
/// # Errors
/// As the reads of version and identity fail.
pub async fn facts_of(connection: &Connection, name: &str) -> Result<chandlery_core::cluster::Facts, CallError> {
    let version = version_of(connection).await?.version;
    let identity = identity_of(connection).await?;
    Ok(connection.facts(name, identity, version, Vec::new()))
}
