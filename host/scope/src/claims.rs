//! RemoteClaims on the hub: the calls that the machines of `chandlery_core::claim` ask for.
//!
//! Nothing is decided here. A machine says the next call, this makes it, and the machine takes in the answer.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use chandlery_api::{ClaimHolder, ClaimedRemote, ForeignKind, RemoteClaim, RemoteClaimSpec, RemoteCluster};
use chandlery_core::claim::{
    Answer, Call, HolderState, Instance, Machine as _, Next, Purpose, Refusal, Release, Released, Rules, Sighting,
    Take, Taken,
};
use chandlery_core::names::FINALIZER;
use chandlery_core::ports::Ledger;
use chandlery_core::{Class, Setback, StepName, Uid};
use kube::api::{ApiResource, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::desk::{Desk, OnHub};
use crate::instance::{InstanceIdentity, describe};
use crate::records::{timed, timed_raw};

/// Label with the UID of the RemoteCluster.
pub(crate) const REMOTE_LABEL: &str = "chandlery.dev/remote";
/// Label with the UID of the object that holds.
const HOLDER_LABEL: &str = "chandlery.dev/holder";

/// An object of the hub that has steps: all that is kept of them is in its namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Owner {
    /// What it is.
    pub kind: OwnerKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Uid,
}

/// What owns steps.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnerKind {
    /// A Provision.
    Provision,
    /// An object of a program that embeds the host. Whether it still wants a step is known to that program only, which asks for
    /// no other.
    Foreign(ApiResource),
}

/// Who holds a claim.
#[derive(Debug, Clone)]
pub enum Holder {
    /// A step.
    Step {
        /// Of what.
        owner: OwnerKind,
        /// Name of the owner.
        name: String,
        /// UID of the owner.
        uid: Uid,
        /// Which step.
        step: StepName,
    },
    /// A RemoteCluster that is reached through the claimed one.
    Remote {
        /// Its name.
        name: String,
        /// Its UID.
        uid: Uid,
    },
}

const PROVISION: &str = "Provision";
const REMOTE_CLUSTER: &str = "RemoteCluster";

impl Holder {
    /// A step of an owner.
    pub fn step(owner: &Owner, step: &StepName) -> Self {
        Holder::Step {
            owner: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            step: step.clone(),
        }
    }

    /// UID of the object that holds.
    pub fn uid(&self) -> &Uid {
        match self {
            Holder::Step { uid, .. } | Holder::Remote { uid, .. } => uid,
        }
    }

    fn of(holder: &ClaimHolder) -> Option<Self> {
        let (name, uid) = (holder.name.clone(), holder.uid.parse().ok()?);
        let owner = match (&holder.foreign, holder.kind.as_str()) {
            (Some(foreign), kind) => {
                let (group, version) = foreign
                    .api_version
                    .split_once('/')
                    .unwrap_or(("", &foreign.api_version));
                let kind = GroupVersionKind::gvk(group, version, kind);
                OwnerKind::Foreign(ApiResource::from_gvk_with_plural(&kind, &foreign.resource))
            }
            (None, PROVISION) => OwnerKind::Provision,
            (None, REMOTE_CLUSTER) => return Some(Holder::Remote { name, uid }),
            (None, _) => return None,
        };
        let step = holder.step.as_deref()?.parse().ok()?;
        Some(Holder::Step { owner, name, uid, step })
    }

    fn object(&self) -> ClaimHolder {
        let (kind, foreign, name, step) = match self {
            Holder::Step { owner, name, step, .. } => {
                let (kind, foreign) = match owner {
                    OwnerKind::Provision => (PROVISION, None),
                    OwnerKind::Foreign(kind) => {
                        let foreign = ForeignKind {
                            api_version: kind.api_version.clone(),
                            resource: kind.plural.clone(),
                        };
                        (kind.kind.as_str(), Some(foreign))
                    }
                };
                (kind, foreign, name, Some(step.to_string()))
            }
            Holder::Remote { name, .. } => (REMOTE_CLUSTER, None, name, None),
        };
        ClaimHolder {
            kind: kind.to_owned(),
            foreign,
            name: name.clone(),
            uid: self.uid().to_string(),
            step,
        }
    }
}

/// As people are told who uses a remote.
pub(crate) fn spoken(holder: &ClaimHolder) -> String {
    let step = holder
        .step
        .as_ref()
        .map(|step| format!(" step {step}"))
        .unwrap_or_default();
    format!("{} {}{step}", holder.kind, holder.name)
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spoken(&self.object()))
    }
}

/// For whom and on what a claim is.
#[derive(Debug, Clone)]
pub struct ClaimKey {
    /// Namespace of holder, remote and claim.
    pub namespace: String,
    /// Who uses the remote.
    pub holder: Holder,
    /// Name of the RemoteCluster.
    pub remote: String,
    /// UID of the RemoteCluster.
    pub remote_uid: Uid,
}

impl ClaimKey {
    /// The key of a claim that was read; none if it is not one of ours.
    pub fn of(claim: &RemoteClaim) -> Option<Self> {
        let spec = &claim.spec;
        Some(Self {
            namespace: claim.metadata.namespace.clone()?,
            holder: Holder::of(&spec.holder)?,
            remote: spec.remote.name.clone(),
            remote_uid: spec.remote.uid.parse().ok()?,
        })
    }

    pub(crate) fn name(&self) -> String {
        match &self.holder {
            Holder::Step { uid, step, .. } => format!("{}.{uid}.{step}", self.remote_uid),
            Holder::Remote { uid, .. } => format!("{}.{uid}", self.remote_uid),
        }
    }

    pub(crate) fn object(&self, own: &Instance) -> RemoteClaim {
        let mut object = RemoteClaim::new(
            &self.name(),
            RemoteClaimSpec {
                remote: ClaimedRemote {
                    name: self.remote.clone(),
                    uid: self.remote_uid.to_string(),
                },
                holder: self.holder.object(),
                instances: vec![own.clone()],
            },
        );
        object.metadata.namespace = Some(self.namespace.clone());
        object.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        object.metadata.labels = Some(
            [
                (REMOTE_LABEL.to_owned(), self.remote_uid.to_string()),
                (HOLDER_LABEL.to_owned(), self.holder.uid().to_string()),
            ]
            .into(),
        );
        object
    }
}

/// The claims of this process on the hub.
pub struct ClaimStore {
    pub(crate) client: Client,
    pub(crate) identity: InstanceIdentity,
    pub(crate) rules: Rules,
    /// Names of claims under which an earlier take came to its use, and nothing was given back since.
    borne: Mutex<HashSet<String>>,
}

impl ClaimStore {
    /// A store that knows of no claim yet.
    pub fn new(client: Client, identity: InstanceIdentity) -> Arc<Self> {
        Self::with_rules(client, identity, Rules::default())
    }

    /// The same by other rules: for tests of what breaks without one.
    pub fn with_rules(client: Client, identity: InstanceIdentity, rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            client,
            identity,
            rules,
            borne: Mutex::default(),
        })
    }

    pub(crate) fn own(&self) -> Instance {
        self.identity.instance().clone()
    }

    fn bears(&self, name: &str) -> bool {
        self.borne.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// Whether this process knows itself on any claim on a remote.
    pub(crate) fn counts(&self, remote_uid: &Uid) -> bool {
        let prefix = format!("{remote_uid}.");
        let borne = self.borne.lock().unwrap_or_else(PoisonError::into_inner);
        borne.iter().any(|name| name.starts_with(&prefix))
    }

    fn set_borne(&self, name: &str, borne: bool) {
        let mut set = self.borne.lock().unwrap_or_else(PoisonError::into_inner);
        if borne {
            set.insert(name.to_owned());
        } else {
            set.remove(name);
        }
    }

    /// Takes a claim for the step whose ledger this is.
    ///
    /// # Errors
    /// `Wait` where holder, remote or another process do not let the step go on; `Retry` where the hub does not answer, or
    /// the ledger is to be read again.
    pub async fn take(&self, key: &ClaimKey, purpose: Purpose, ledger: &dyn Ledger) -> Result<Admission, Setback> {
        match self
            .run_take(key, purpose, ledger.record().is_used(), Some(ledger))
            .await?
        {
            Taken::Use => Ok(Admission::Use),
            Taken::Refused(Refusal::RemoteGone) if purpose == Purpose::Deprovision => Ok(Admission::RemoteGone),
            Taken::Refused(why) => Err(refused(key, why)),
            Taken::InUse(living) => Err(in_use(key, &living)),
            Taken::RecordChanged => {
                ledger.doubt();
                let message = format!(
                    "another process was at {} meanwhile; its record is read again",
                    key.holder
                );
                Err(Setback::new(Class::Retry, "RecordChanged", message))
            }
        }
    }

    /// Holds the claim of a remote on the one that it is reached through. It stays while that remote exists: giving it up
    /// because the way just closed could take it from under another who came in before. `closing` is what memory shows of the
    /// outer remote, so that a claim is not made on one that is on its way out.
    ///
    /// A closing remote is still led through where something within may be to be taken away: where the inner one was seen
    /// before, or is claimed. Both are durable, and both came after a claim that saw the way open.
    ///
    /// # Errors
    /// `Wait` where the way is closed; `Retry` where the hub does not answer.
    pub async fn hold(&self, key: &ClaimKey, closing: bool) -> Result<(), Setback> {
        let way = if closing {
            Taken::Refused(Refusal::RemoteCloses)
        } else {
            self.run_take(key, Purpose::Provision, false, None).await?
        };
        let taken = match way {
            Taken::Refused(Refusal::RemoteCloses | Refusal::HolderLeaves) if self.leads_somewhere(key).await? => {
                self.run_take(key, Purpose::Deprovision, true, None).await?
            }
            way => way,
        };
        match taken {
            Taken::Use => Ok(()),
            Taken::Refused(why) => Err(refused(key, why)),
            Taken::InUse(living) => Err(in_use(key, &living)),
            // The record of a remote's claim is the remote itself: there is no older one to hold.
            Taken::RecordChanged => Err(Setback::new(Class::Bug, "RecordChanged", "a remote has no step record")),
        }
    }

    /// Whether something may have been brought to the remote that holds this claim, by quorum reads.
    async fn leads_somewhere(&self, key: &ClaimKey) -> Result<bool, Setback> {
        let Holder::Remote { name, uid } = &key.holder else {
            return Ok(false);
        };
        let api: Api<RemoteCluster> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = timed("the remote", api.get_opt(name)).await?;
        let was_seen = found
            .filter(|remote| remote.metadata.uid.as_deref() == Some(uid.as_str()))
            .and_then(|remote| remote.status)
            .is_some_and(|status| status.credential_hash.is_some());
        let desk = Desk::of_claim(self, key, None);
        Ok(was_seen || !desk.holders_on(uid).await?.is_empty())
    }

    async fn run_take(
        &self,
        key: &ClaimKey,
        purpose: Purpose,
        used: bool,
        ledger: Option<&dyn Ledger>,
    ) -> Result<Taken<OnHub>, Setback> {
        let name = key.name();
        let mut take = Take::new(self.own(), purpose, used, self.bears(&name), self.rules);
        let mut desk = Desk::of_claim(self, key, ledger);
        let taken = loop {
            if take.gives_back() {
                self.set_borne(&name, false);
            }
            match take.next() {
                Next::Call(call) => take.learn(desk.answer(&call).await?),
                Next::End(taken) => break taken,
            }
        };
        self.set_borne(&name, taken == Taken::Use);
        Ok(taken)
    }

    /// Gives a claim back: only while this process is the only one on it, and no record says that the step was done. Absent
    /// already is fine. No pass over the holder may run in this process meanwhile.
    ///
    /// # Errors
    /// `Wait` while another process may still use it, or the step is still to be taken away.
    pub async fn release(&self, key: &ClaimKey) -> Result<(), Setback> {
        // From the first call on: where an answer is lost, the claim may be gone.
        self.set_borne(&key.name(), false);
        let mut release = Release::new(self.own(), self.rules);
        let mut desk = Desk::of_claim(self, key, None);
        match desk.drive(&mut release).await? {
            Released::Gone => Ok(()),
            Released::Kept => Err(Setback::new(
                Class::Wait,
                "ClaimWasUsed",
                format!("{} is still to be taken away from {}", key.holder, key.remote),
            )),
            Released::InUse(living) => Err(in_use(key, &living)),
        }
    }

    /// Whether the holder of a claim is gone, by a quorum read.
    ///
    /// # Errors
    /// If the hub does not answer.
    pub async fn is_held_by_nobody(&self, key: &ClaimKey) -> Result<bool, Setback> {
        let answer = Desk::of_claim(self, key, None).answer(&Call::ReadHolder).await?;
        Ok(answer == Answer::Holder(HolderState::Gone))
    }

    /// Which of these instances are observed gone.
    pub(crate) async fn sight(&self, instances: &[Instance]) -> Result<Vec<Instance>, Setback> {
        let mut gone = Vec::new();
        for other in instances.iter().filter(|other| *other != self.identity.instance()) {
            let sighting = match self.identity.sight_here(other) {
                Some(sighting) => sighting,
                None => self.sight_pod(other).await?,
            };
            if sighting == Sighting::Gone {
                gone.push(other.clone());
            }
        }
        Ok(gone)
    }

    async fn sight_pod(&self, other: &Instance) -> Result<Sighting, Setback> {
        use k8s_openapi::api::core::v1::Pod;
        let Some((namespace, name)) = other.pod.split_once('/') else {
            return Ok(Sighting::MayLive);
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pod = timed("the pod of another instance", api.get_opt(name)).await?;
        let same = pod.is_some_and(|pod| pod.metadata.uid.as_deref() == Some(other.home.as_str()));
        Ok(if same { Sighting::MayLive } else { Sighting::Gone })
    }

    /// Strikes earlier processes of this very home off all claims, so that no other instance has to wait for them.
    ///
    /// # Errors
    /// If the hub does not answer.
    pub async fn strike_off_predecessors(&self) -> Result<(), Setback> {
        let all: Api<RemoteClaim> = Api::all(self.client.clone());
        for claim in timed("the claims", all.list(&ListParams::default())).await?.items {
            let stay = |other: &&Instance| {
                *other == self.identity.instance() || self.identity.sight_here(other) != Some(Sighting::Gone)
            };
            let instances: Vec<&Instance> = claim.spec.instances.iter().filter(stay).collect();
            if instances.len() < claim.spec.instances.len()
                && let (Some(namespace), Some(name)) = (&claim.metadata.namespace, &claim.metadata.name)
            {
                let api: Api<RemoteClaim> = Api::namespaced(self.client.clone(), namespace);
                let patch = json!({
                    "metadata": {"resourceVersion": claim.metadata.resource_version},
                    "spec": {"instances": instances},
                });
                // Lost to a concurrent change: the next to release looks again.
                let _ = timed_raw(api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))).await;
            }
        }
        Ok(())
    }

    /// Gives back all claims that an object holds, which is gone.
    ///
    /// # Errors
    /// As [`ClaimStore::release`].
    pub async fn release_all_of(&self, namespace: &str, holder: &Uid) -> Result<(), Setback> {
        let selector = ListParams::default().labels(&format!("{HOLDER_LABEL}={holder}"));
        let api: Api<RemoteClaim> = Api::namespaced(self.client.clone(), namespace);
        let held = timed("the claims", api.list(&selector)).await?.items;
        for key in held.iter().filter_map(ClaimKey::of) {
            self.release(&key).await?;
        }
        Ok(())
    }
}

/// What a take that went well came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The remote may be used.
    Use,
    /// The remote is gone, and whatever a step had on it with it: there is nothing to be taken away.
    RemoteGone,
}

fn in_use(key: &ClaimKey, living: &[Instance]) -> Setback {
    let who: Vec<String> = living.iter().map(describe).collect();
    let message = format!("the claim on {} may still be in use by {}", key.remote, who.join(", "));
    Setback::new(Class::Wait, "ClaimInUse", message)
}

fn refused(key: &ClaimKey, why: Refusal) -> Setback {
    let (reason, message) = match why {
        Refusal::HolderGone => ("HolderGone", format!("{} is gone", key.holder)),
        Refusal::HolderLeaves => ("HolderLeaving", format!("{} is no longer wanted", key.holder)),
        Refusal::RemoteGone => (
            "WaitingForRemote",
            format!("there is no RemoteCluster {} any more", key.remote),
        ),
        Refusal::RemoteCloses => (
            "RemoteClosing",
            format!("RemoteCluster {} is being torn down", key.remote),
        ),
        Refusal::RemoteUnprotected => (
            "WaitingForRemote",
            format!("RemoteCluster {} has not been looked at yet", key.remote),
        ),
    };
    Setback::new(Class::Wait, reason, message)
}
