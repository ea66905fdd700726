//! One file per kind: read the object once, hand it on, write its status if that changed.

pub(crate) mod plugin;
pub(crate) mod provision;
pub(crate) mod remote_cluster;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chandlery::core::cluster::REQUEST_TIMEOUT;
use chandlery::core::{Class, Setback, Uid, backoff};
use chandlery::scope::Watches;
use chandlery::{Host, Plugins};
use chandlery_api::{Provision, RemoteClaim, RemoteCluster};
use kube::Client;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc::UnboundedSender;

use crate::events::Teller;
use crate::memory::Memory;
use crate::metrics::Metrics;

/// What all controllers share.
pub(crate) struct Shared {
    pub(crate) host: Arc<Host>,
    /// The hub, behind the fence.
    pub(crate) client: Client,
    pub(crate) plugins: Arc<Plugins>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) plugin_dir: Option<PathBuf>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) teller: Teller,
    pub(crate) provisions: Store<Provision>,
    pub(crate) claims: Store<RemoteClaim>,
    /// Has a Provision looked at again.
    pub(crate) nudge: UnboundedSender<ObjectRef<Provision>>,
    /// Has a RemoteCluster looked at again.
    pub(crate) nudge_remote: UnboundedSender<ObjectRef<RemoteCluster>>,
    pub(crate) concurrent_steps: usize,
}

impl Shared {
    /// Has all Provisions looked at again that `concern` picks: what they wait for may be there now.
    pub(crate) fn nudge_all(&self, concern: impl Fn(&Provision) -> bool) {
        for provision in self.provisions.state() {
            if concern(&provision) {
                if let Some(uid) = provision.metadata.uid.as_deref().and_then(|uid| uid.parse().ok()) {
                    self.memory.unhold(&uid);
                }
                let _ = self.nudge.send(ObjectRef::from_obj(provision.as_ref()));
            }
        }
    }
}

/// Why a reconcile did not come to its end; what applier wants is an error type.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Failed(#[from] pub(crate) Setback);

/// What a look at an object came to. That it went while it was looked at is what was to be seen.
pub(crate) fn ended(outcome: Result<Action, Setback>) -> Result<Action, Failed> {
    match outcome {
        Err(setback) if setback.reason == "Gone" => Ok(Action::await_change()),
        other => Ok(other?),
    }
}

/// UID of an object of the hub's; all have one.
pub(crate) fn uid_of<K: kube::Resource<DynamicType = ()>>(object: &K) -> Result<Uid, Setback> {
    let uid = object.meta().uid.as_deref().and_then(|uid| uid.parse().ok());
    uid.ok_or_else(|| Setback::new(Class::Bug, "NoUid", format!("a {} without UID", K::kind(&()))))
}

/// A request to the hub with a deadline.
pub(crate) async fn timed<T>(what: &str, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Setback> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Err(_) => Err(Setback::new(
            Class::Retry,
            "HubUnreachable",
            format!("the hub did not answer for {what}"),
        )),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
            Err(Setback::new(Class::Wait, "Gone", format!("{what} is gone")))
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Setback::new(
            Class::Retry,
            "HubConflict",
            format!("{what} was changed by somebody else"),
        )),
        Ok(Err(error)) => Err(Setback::new(
            Class::Retry,
            "HubRefuses",
            format!("{what}: {}", chandlery::core::readiness::one_line(&error.to_string())),
        )),
    }
}

/// When to come back after a failure of the host's own.
pub(crate) fn after_failure<K: kube::Resource<DynamicType = ()>>(
    object: Arc<K>,
    Failed(setback): &Failed,
    _: Arc<Shared>,
) -> Action {
    let name = object.meta().name.clone().unwrap_or_default();
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    if setback.class == Class::Wait {
        tracing::debug!(kind = %K::kind(&()), namespace, name, reason = setback.reason, message = setback.message, "waits");
    } else {
        tracing::warn!(kind = %K::kind(&()), namespace, name, reason = setback.reason, message = setback.message, "is tried again");
    }
    Action::requeue(backoff::spread(Duration::from_secs(1), rand::random()))
}
