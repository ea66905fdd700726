//! One daemon leads by Lease. Each renewal that the hub confirmed keeps the write fence up for three quarters of the Lease,
//! counted from before the renewal was sent; so whoever may lead next finds the fence down here before the Lease is over.

use std::time::{Duration, Instant};

use chandlery::scope::{InstanceIdentity, WriteFence};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

/// Name of the Lease.
const NAME: &str = "chandlery";

/// The Lease as this process takes part in it.
pub(crate) struct Leadership {
    api: Api<Lease>,
    identity: InstanceIdentity,
    holder: String,
    lease: Duration,
    fence: WriteFence,
    /// What was last seen of another holder, and since when: clocks of other machines are not compared.
    seen: Option<(String, Instant)>,
}

/// What one look at the Lease came to.
enum Look {
    Held,
    HeldBy(String),
}

impl Leadership {
    /// `client` must not stand behind `fence`: the Lease is what raises it.
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        identity: InstanceIdentity,
        lease: Duration,
        fence: WriteFence,
    ) -> Self {
        let holder = identity.holder();
        Self {
            api: Api::namespaced(client, namespace),
            identity,
            holder,
            lease,
            fence,
            seen: None,
        }
    }

    /// Waits until this process leads, or until `end`.
    pub(crate) async fn acquire(&mut self, end: &CancellationToken) -> bool {
        let mut told = String::new();
        loop {
            let asked = Instant::now();
            match self.look(asked).await {
                Ok(Look::Held) => {
                    tracing::info!(holder = self.holder, "leads");
                    return true;
                }
                Ok(Look::HeldBy(other)) if other != told => {
                    tracing::info!(holder = other, "stands by");
                    told = other;
                }
                Ok(Look::HeldBy(_)) => {}
                Err(error) => tracing::warn!(%error, "the lease cannot be read"),
            }
            tokio::select! {
                () = end.cancelled() => return false,
                () = tokio::time::sleep(self.lease / 6) => {}
            }
        }
    }

    /// Renews until the Lease is lost or `end`. Returns whether it was lost.
    pub(crate) async fn keep(&mut self, end: &CancellationToken) -> bool {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = end.cancelled() => return false,
                () = tokio::time::sleep(self.lease / 3) => {}
            }
            let asked = Instant::now();
            match tokio::time::timeout(self.lease / 4, self.look(asked)).await {
                Ok(Ok(Look::Held)) => renewed = asked,
                Ok(Ok(Look::HeldBy(other))) => {
                    tracing::error!(holder = other, "the lease is another's");
                    self.fence.close();
                    return true;
                }
                Ok(Err(error)) => tracing::warn!(%error, "the lease could not be renewed"),
                Err(_) => tracing::warn!("the lease could not be renewed in time"),
            }
            if renewed.elapsed() > self.lease * 3 / 4 {
                tracing::error!("the lease could not be renewed for too long");
                self.fence.close();
                return true;
            }
        }
    }

    /// Gives the Lease up, so that the next need not wait for its end.
    pub(crate) async fn release(&self) {
        self.fence.close();
        let Ok(mut lease) = self.api.get(NAME).await else {
            return;
        };
        if let Some(spec) = lease.spec.as_mut()
            && spec.holder_identity.as_deref() == Some(&self.holder)
        {
            spec.holder_identity = None;
            // Lost to a change by another: then it is not ours to give.
            let _ = self.api.replace(NAME, &PostParams::default(), &lease).await;
        }
    }

    /// Reads the Lease, and takes or renews it by compare-and-swap if it is free or ours.
    async fn look(&mut self, asked: Instant) -> Result<Look, kube::Error> {
        let Some(mut lease) = self.api.get_opt(NAME).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(NAME.into()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(0)),
            };
            return match self.api.create(&PostParams::default(), &lease).await {
                Ok(_) => Ok(self.held(asked)),
                Err(error) if is_conflict(&error) => Ok(Look::HeldBy("another that was quicker".into())),
                Err(error) => Err(error),
            };
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let transitions = spec.lease_transitions.unwrap_or(0);
        // A process that is observed gone leads no more: who is started anew in its place need not wait.
        let free = holder.is_empty() || holder == self.holder || self.identity.is_gone(&holder);
        if !free && !self.is_over(&lease, &spec) {
            return Ok(Look::HeldBy(holder));
        }
        lease.spec = Some(self.spec(if holder == self.holder {
            transitions
        } else {
            transitions + 1
        }));
        match self.api.replace(NAME, &PostParams::default(), &lease).await {
            Ok(_) => Ok(self.held(asked)),
            Err(error) if is_conflict(&error) => Ok(Look::HeldBy("another that was quicker".into())),
            Err(error) => Err(error),
        }
    }

    /// Whether the other's Lease has not changed for its whole length, by this process's own clock.
    fn is_over(&mut self, lease: &Lease, spec: &LeaseSpec) -> bool {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let length = Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0))
            .max(Duration::from_secs(1));
        match &self.seen {
            Some((seen, since)) if *seen == version => since.elapsed() > length,
            _ => {
                self.seen = Some((version, Instant::now()));
                false
            }
        }
    }

    fn held(&mut self, asked: Instant) -> Look {
        self.seen = None;
        self.fence.extend(asked, self.lease * 3 / 4);
        Look::Held
    }

    fn spec(&self, transitions: i32) -> LeaseSpec {
        let now = MicroTime(jiff::Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: i32::try_from(self.lease.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
