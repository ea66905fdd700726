//! Looking at a remote: by the credential it has now, through the remotes it is reached through, down to who is there.

use std::sync::{Arc, PoisonError};

use chandlery_api::RemoteCluster;
use chandlery_core::cluster::CallError;
use chandlery_core::nesting::{NoWay, beyond, way};
use chandlery_core::remote::{Glimpse, RemoteState};
use chandlery_core::{Class, Setback, Uid};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::answers::{Asked, Verdict};
use crate::claims::{ClaimKey, Holder};
use crate::connection::{Connection, Identity, connect};
use crate::hub::Hub;
use crate::kubeconfig::{self, KubeconfigError, RemoteEndpoint};
use crate::records::timed;
use crate::remotes::known;
use crate::renewal::Renewal;
use crate::wire::{Ask, NoAnswer};

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
    /// When the credential ends, where it says so.
    pub expires: Option<Timestamp>,
    /// Names of the remotes on the way from the hub, its own the last.
    pub path: Vec<String>,
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

/// A remote's connection, and of which credential it was made.
#[derive(Clone)]
pub(crate) struct Known {
    secret_version: String,
    context: Option<String>,
    credential_hash: String,
    connection: Arc<Connection>,
    endpoint: Arc<RemoteEndpoint>,
}

/// A remote that was looked at because another is reached through it.
struct Outer {
    connection: Arc<Connection>,
    path: Vec<String>,
}

impl Hub {
    /// Connects to a remote with the credential it has now, and looks who is there. Where it is reached through others, each
    /// of them is looked at before, and held by a claim of the next.
    ///
    /// # Errors
    /// `Wait` while the credential is not there; `UserFix` where it is refused; `Retry` where the cluster is not reached.
    pub async fn look(&self, remote: &RemoteCluster) -> Result<(Arc<Connection>, Sight), Blind> {
        let outer = self.outer_of(remote).await?;
        self.look_from(outer.as_ref(), remote).await
    }

    /// Where a remote is and how to be let in, by the credential it has now. Nothing is sent there.
    ///
    /// # Errors
    /// As [`Hub::look`].
    pub async fn endpoint(&self, remote: &RemoteCluster) -> Result<Arc<RemoteEndpoint>, Setback> {
        let known = async {
            let outer = self.outer_of(remote).await?;
            self.connection_to(outer.as_ref(), remote).await
        };
        Ok(known.await.map_err(|blind| blind.setback)?.endpoint)
    }

    /// The names on the way from the hub to a remote, its own the last, as far as memory knows them.
    pub fn path_to(&self, remote: &RemoteCluster) -> Vec<String> {
        self.way_to(remote).unwrap_or_else(NoWay::known)
    }

    fn way_to(&self, remote: &RemoteCluster) -> Result<Vec<String>, NoWay> {
        let (namespace, own_name) = (
            remote.metadata.namespace.as_deref().unwrap_or_default(),
            name_of(remote),
        );
        way(&own_name, |name| {
            if name == own_name {
                return Some(remote.spec.via.clone());
            }
            self.remote(namespace, name).map(|found| found.spec.via.clone())
        })
    }

    /// The remote that another is reached through, if there is one: seen, the cluster it was, and held.
    async fn outer_of(&self, remote: &RemoteCluster) -> Result<Option<Outer>, Blind> {
        if remote.spec.via.is_none() {
            return Ok(None);
        }
        let namespace = remote.metadata.namespace.clone().unwrap_or_default();
        let no_way = |error: NoWay| {
            let message = format!("remote {}: {error}", name_of(remote));
            match error {
                NoWay::Missing { .. } => Blind::new(Glimpse::NoSecret, Class::Wait, "WaitingForRemote", message),
                NoWay::Cycle(_) => Blind::new(Glimpse::Refused, Class::UserFix, "RemoteCycle", message),
                NoWay::TooLong(_) => Blind::new(Glimpse::Refused, Class::UserFix, "RemotesTooDeep", message),
            }
        };
        let mut names = self.way_to(remote).map_err(no_way)?;
        names.pop();
        let found: Option<Vec<_>> = names.iter().map(|name| self.remote(&namespace, name)).collect();
        // Gone since the way was found: as if it had not been there then.
        let Some(outers) = found else {
            let message = format!("remote {}: one that it is reached through is gone", name_of(remote));
            return Err(Blind::new(Glimpse::NoSecret, Class::Wait, "WaitingForRemote", message));
        };
        let mut outer = None;
        let inners = outers.iter().skip(1).map(AsRef::as_ref).chain([remote]);
        for (one, inner) in outers.iter().zip(inners) {
            outer = Some(self.go_through(outer.as_ref(), one, inner).await?);
        }
        Ok(outer)
    }

    /// Looks at `one`, which `inner` is reached through, and holds it.
    async fn go_through(
        &self,
        outer: Option<&Outer>,
        one: &RemoteCluster,
        inner: &RemoteCluster,
    ) -> Result<Outer, Blind> {
        let looked = self.look_from(outer, one).await;
        let recorded = one.status.as_ref().and_then(|status| status.identity.as_deref());
        let (glimpse, setback) = match &looked {
            Ok((_, sight)) => {
                let same = recorded.is_none_or(|recorded| recorded == sight.identity);
                let message = format!("remote {} is another cluster than before", name_of(one));
                (
                    Glimpse::Seen { same },
                    Setback::new(Class::UserFix, "RemoteReplaced", message),
                )
            }
            Err(Blind {
                glimpse: Some(glimpse),
                setback,
            }) => (*glimpse, setback.clone()),
            Err(blind) => return Err(blind.clone()),
        };
        let state = RemoteState::of(glimpse, known(one));
        let (Ok((connection, sight)), None) = (looked, beyond(state, known(inner))) else {
            let message = format!(
                "remote {} is reached through {}: {}",
                name_of(inner),
                name_of(one),
                if state == RemoteState::Abandoned {
                    "it was given up"
                } else {
                    &setback.message
                }
            );
            return Err(match beyond(state, known(inner)) {
                Some(Glimpse::NoSecret) => Blind::new(Glimpse::NoSecret, Class::Wait, &setback.reason, message),
                Some(Glimpse::Refused) => Blind::new(Glimpse::Refused, Class::UserFix, state.reason(), message),
                _ => Blind::new(Glimpse::Silent, Class::Retry, &setback.reason, message),
            });
        };
        let key = ClaimKey {
            namespace: inner.metadata.namespace.clone().unwrap_or_default(),
            holder: Holder::Remote {
                name: name_of(inner),
                uid: uid_of(inner)?,
            },
            remote: name_of(one),
            remote_uid: uid_of(one)?,
        };
        let is_draining = one.status.as_ref().is_some_and(|status| status.phase.is_some());
        let closing = is_draining || one.metadata.deletion_timestamp.is_some();
        self.claims.hold(&key, closing).await?;
        Ok(Outer {
            connection,
            path: sight.path,
        })
    }

    async fn look_from(
        &self,
        outer: Option<&Outer>,
        remote: &RemoteCluster,
    ) -> Result<(Arc<Connection>, Sight), Blind> {
        let known = self.connection_to(outer, remote).await?;
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
        connection.is(&identity);
        let mut path = outer.map(|outer| outer.path.clone()).unwrap_or_default();
        path.push(name_of(remote));
        let sight = Sight {
            identity,
            version: learnt.version,
            host: connection.host().to_owned(),
            port: connection.port(),
            credential_hash: known.credential_hash,
            expires: known.endpoint.expires,
            path,
        };
        Ok((connection, sight))
    }

    async fn connection_to(&self, outer: Option<&Outer>, remote: &RemoteCluster) -> Result<Known, Blind> {
        let (name, uid) = (name_of(remote), uid_of(remote)?);
        let reference = &remote.spec.source.secret_ref;
        let secret = self.secret_of(outer, remote).await?;
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
                    "{} has no key \"{}\"; it has: {}",
                    spoken(remote),
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
            _ => {
                let connection = connect(&endpoint, &self.fence).map_err(|error| {
                    Blind::new(
                        Glimpse::Refused,
                        Class::UserFix,
                        "KubeconfigBadCertificate",
                        format!("remote {name}: {error}"),
                    )
                })?;
                connection.renew_by(Renewal::new(self.own.clone(), remote, hash.clone()));
                connection
            }
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

    /// The Secret with a remote's kubeconfig: on the hub, or in the cluster that the remote is reached through.
    async fn secret_of(&self, outer: Option<&Outer>, remote: &RemoteCluster) -> Result<Secret, Blind> {
        let reference = &remote.spec.source.secret_ref;
        let waits = || {
            let message = format!("remote {} waits for {}", name_of(remote), spoken(remote));
            Blind::new(Glimpse::NoSecret, Class::Wait, "CredentialMissing", message)
        };
        let Some(outer) = outer else {
            let namespace = remote.metadata.namespace.as_deref().unwrap_or_default();
            let api: Api<Secret> = Api::namespaced(self.connection.client(), namespace);
            let found = timed("the kubeconfig secret", api.get_opt(&reference.name)).await?;
            return found.ok_or_else(waits);
        };
        let segment = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let path = format!(
            "/api/v1/namespaces/{}/secrets/{}",
            segment(reference.namespace.as_deref().unwrap_or_default()),
            segment(&reference.name)
        );
        let said = |error: &dyn std::fmt::Display| format!("remote {}: {}: {error}", name_of(remote), spoken(remote));
        match read(&outer.connection, &path).await {
            Ok(body) => serde_json::from_value(body).map_err(|_| {
                let message = said(&"the answer is no Secret");
                Blind::new(Glimpse::Silent, Class::Retry, "RemoteUnreachable", message)
            }),
            Err(Unseen::Call(CallError::NotFound(_))) => Err(waits()),
            Err(Unseen::Refused(error)) => Err(Blind::new(
                Glimpse::Silent,
                Class::UserFix,
                error.reason(),
                said(&error),
            )),
            Err(Unseen::Call(CallError::Denied(message))) => Err(Blind::new(
                Glimpse::Silent,
                Class::UserFix,
                "CredentialUnreadable",
                said(&message),
            )),
            Err(Unseen::Call(error)) => Err(Blind::new(
                Glimpse::Silent,
                Class::Retry,
                "RemoteUnreachable",
                said(&error),
            )),
        }
    }

    /// A connection by the credential that is there now, and its hash, if it is another than the one that was refused.
    pub(crate) async fn renewed(&self, remote: &RemoteCluster, refused: &str) -> Option<(Arc<Connection>, String)> {
        let outer = self.outer_of(remote).await.ok()?;
        let known = self.connection_to(outer.as_ref(), remote).await.ok()?;
        (known.credential_hash != refused).then_some((known.connection, known.credential_hash))
    }
}

/// The Secret of a remote, as people are told of it.
fn spoken(remote: &RemoteCluster) -> String {
    let reference = &remote.spec.source.secret_ref;
    match (&remote.spec.via, &reference.namespace) {
        (Some(via), Some(namespace)) => format!("Secret {namespace}/{} in remote {via}", reference.name),
        _ => {
            let namespace = remote.metadata.namespace.as_deref().unwrap_or_default();
            format!("Secret {namespace}/{}", reference.name)
        }
    }
}

fn name_of(remote: &RemoteCluster) -> String {
    remote.metadata.name.clone().unwrap_or_default()
}

fn uid_of(remote: &RemoteCluster) -> Result<Uid, Setback> {
    let uid = remote.metadata.uid.as_deref().and_then(|uid| uid.parse().ok());
    uid.ok_or_else(|| Setback::new(Class::Bug, "NoUid", "a RemoteCluster without UID"))
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
