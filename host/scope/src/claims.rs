//! RemoteClaims on the hub: the effects that the decisions of `chandlery_core::claim` ask for.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use chandlery_api::{ClaimHolder, ClaimedRemote, Provision, RemoteClaim, RemoteClaimSpec, RemoteCluster};
use chandlery_core::claim::{self, HolderState, Instance, Purpose, Release, RemoteFence, Sighting, Take};
use chandlery_core::names::FINALIZER;
use chandlery_core::{Class, Setback, StepName, Uid};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};

use crate::records::{Failed, PROVISION_LABEL, remove, timed, timed_raw};

/// Label with the UID of the RemoteCluster.
const REMOTE_LABEL: &str = "chandlery.dev/remote";
/// How often a compare-and-swap that lost is tried again before the step waits.
const SWAPS: usize = 5;

/// Who this process is, told from all others by evidence.
#[derive(Debug, Clone)]
pub struct InstanceIdentity {
    own: Instance,
}

impl InstanceIdentity {
    /// In a Pod, from the downward API: `pod` is `namespace/name`.
    pub fn of_pod(pod: &str, uid: &str) -> Self {
        Self {
            own: Instance {
                home: uid.to_owned(),
                process: own_process(),
                pod: pod.to_owned(),
            },
        }
    }

    /// Outside a cluster: by machine and boot.
    pub fn of_process() -> Self {
        Self {
            own: Instance {
                home: format!("{}/{}", machine(), boot()),
                process: own_process(),
                pod: String::new(),
            },
        }
    }

    /// As claims bear it.
    pub fn instance(&self) -> &Instance {
        &self.own
    }

    /// Name of this process where only a text fits, as on a Lease.
    pub fn holder(&self) -> String {
        format!("{}_{}", self.own.home, self.own.process)
    }

    /// Whether the process that called itself so is observed gone. What is not known may live.
    pub fn is_gone(&self, holder: &str) -> bool {
        holder.split_once('_').is_some_and(|(home, process)| {
            let other = Instance {
                home: home.to_owned(),
                process: process.to_owned(),
                pod: self.own.pod.clone(),
            };
            self.sight_here(&other) == Some(Sighting::Gone)
        })
    }

    /// What is known of another instance without asking anybody.
    fn sight_here(&self, other: &Instance) -> Option<Sighting> {
        if other.home == self.own.home {
            // The same Pod, an earlier process: a container is started anew only after it has ended. The same machine: the
            // process table tells.
            let gone = if self.own.pod.is_empty() {
                !process_lives(&other.process)
            } else {
                other.process != self.own.process
            };
            return Some(if gone { Sighting::Gone } else { Sighting::MayLive });
        }
        let same_machine =
            other.pod.is_empty() && self.own.pod.is_empty() && other.home.split('/').next() == Some(&machine());
        // Another boot of this machine.
        same_machine.then_some(Sighting::Gone)
    }
}

fn read_line(path: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(path))
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

fn machine() -> String {
    read_line("/etc/machine-id")
        .or_else(|| read_line("/proc/sys/kernel/hostname"))
        .unwrap_or_else(|| "machine".into())
}

fn boot() -> String {
    read_line("/proc/sys/kernel/random/boot_id").unwrap_or_else(|| "boot".into())
}

/// Process id and start time: a process id alone comes again.
fn own_process() -> String {
    let id = std::process::id();
    format!("{id}:{}", start_time(id).unwrap_or_default())
}

/// Field 22 of `/proc/ID/stat`, in clock ticks since boot.
fn start_time(id: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

fn process_lives(process: &str) -> bool {
    let Some((id, start)) = process.split_once(':') else {
        return true;
    };
    let Ok(id) = id.parse::<u32>() else { return true };
    start_time(id).is_some_and(|now| now == start)
}

/// For whom and on what a claim is.
#[derive(Debug, Clone)]
pub struct ClaimKey {
    /// Namespace of provision, remote and claim.
    pub namespace: String,
    /// Name of the Provision.
    pub provision: String,
    /// UID of the Provision.
    pub provision_uid: Uid,
    /// Which of its steps.
    pub step: StepName,
    /// Name of the RemoteCluster.
    pub remote: String,
    /// UID of the RemoteCluster.
    pub remote_uid: Uid,
}

impl ClaimKey {
    fn name(&self) -> String {
        format!("{}.{}.{}", self.remote_uid, self.provision_uid, self.step)
    }

    fn object(&self, own: &Instance) -> RemoteClaim {
        let mut object = RemoteClaim::new(
            &self.name(),
            RemoteClaimSpec {
                remote: ClaimedRemote {
                    name: self.remote.clone(),
                    uid: self.remote_uid.to_string(),
                },
                holder: ClaimHolder {
                    kind: "Provision".into(),
                    name: self.provision.clone(),
                    uid: self.provision_uid.to_string(),
                    step: self.step.to_string(),
                },
                instances: vec![own.clone()],
            },
        );
        object.metadata.namespace = Some(self.namespace.clone());
        object.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        object.metadata.labels = Some(
            [
                (REMOTE_LABEL.to_owned(), self.remote_uid.to_string()),
                (PROVISION_LABEL.to_owned(), self.provision_uid.to_string()),
            ]
            .into(),
        );
        object
    }
}

/// The claims of this process on the hub.
pub struct ClaimStore {
    client: Client,
    identity: InstanceIdentity,
    /// Names of claims that bear this process durably.
    borne: Mutex<HashSet<String>>,
}

impl ClaimStore {
    /// A store that knows of no claim yet.
    pub fn new(client: Client, identity: InstanceIdentity) -> Arc<Self> {
        Arc::new(Self {
            client,
            identity,
            borne: Mutex::default(),
        })
    }

    fn api(&self, namespace: &str) -> Api<RemoteClaim> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn bears(&self, name: &str) -> bool {
        self.borne.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    fn set_borne(&self, name: &str, borne: bool) {
        let mut set = self.borne.lock().unwrap_or_else(PoisonError::into_inner);
        if borne {
            set.insert(name.to_owned());
        } else {
            set.remove(name);
        }
    }

    /// Takes a claim: claim first, then holder, then remote, in this order, each by a quorum read.
    ///
    /// # Errors
    /// `Wait` where holder or remote do not let the step go on; `Retry` where the hub does not answer.
    pub async fn take(&self, key: &ClaimKey, purpose: Purpose, ever_used: bool) -> Result<(), Setback> {
        let name = key.name();
        if !self.bears(&name) {
            self.bear(key, purpose).await?;
        }
        if purpose == Purpose::Deprovision {
            return Ok(());
        }
        let holder = self.holder(key).await?;
        let fence = self.fence(key).await?;
        match claim::take(purpose, holder, fence, ever_used) {
            Take::Use => Ok(()),
            Take::Release => {
                self.release(key).await?;
                Err(refused(key, holder, fence))
            }
            // This process stays on the claim: it is the one that will deprovision, or is observed gone.
            Take::KeepForDeprovision => Err(refused(key, holder, fence)),
        }
    }

    /// Makes the claim, or adds this process to it.
    async fn bear(&self, key: &ClaimKey, purpose: Purpose) -> Result<(), Setback> {
        let (api, name, own) = (self.api(&key.namespace), key.name(), self.identity.instance());
        if purpose == Purpose::Provision {
            // Mostly there is none yet, and the creation itself says so.
            match timed_raw(api.create(&PostParams::default(), &key.object(own))).await {
                Ok(_) => {
                    self.set_borne(&name, true);
                    return Ok(());
                }
                Err(Failed::Api(409)) => {}
                Err(failed) => return Err(failed.into_setback("the claim")),
            }
        }
        for _ in 0..SWAPS {
            match timed_raw(api.get_opt(&name))
                .await
                .map_err(|f| f.into_setback("the claim"))?
            {
                None if purpose == Purpose::Deprovision => {
                    // Forced away by somebody. Taking away needs no new claim, and in a dying namespace none could be made.
                    return Ok(());
                }
                None => match timed_raw(api.create(&PostParams::default(), &key.object(own))).await {
                    Ok(_) => break,
                    Err(Failed::Api(409)) => continue,
                    Err(failed) => return Err(failed.into_setback("the claim")),
                },
                Some(found) if found.spec.instances.contains(own) => break,
                Some(mut found) => {
                    found.spec.instances.push(own.clone());
                    match timed_raw(api.replace(&name, &PostParams::default(), &found)).await {
                        Ok(_) => break,
                        Err(Failed::Api(404 | 409)) => continue,
                        Err(failed) => return Err(failed.into_setback("the claim")),
                    }
                }
            }
        }
        self.set_borne(&name, true);
        Ok(())
    }

    async fn holder(&self, key: &ClaimKey) -> Result<HolderState, Setback> {
        let api: Api<Provision> = Api::namespaced(self.client.clone(), &key.namespace);
        Ok(match timed("the provision", api.get_opt(&key.provision)).await? {
            None => HolderState::Gone,
            Some(found) if found.metadata.uid.as_deref() != Some(key.provision_uid.as_str()) => HolderState::Gone,
            Some(found) if found.metadata.deletion_timestamp.is_some() => HolderState::Leaving,
            Some(found) if !found.spec.0.steps.iter().any(|step| step.name == key.step.as_str()) => {
                HolderState::Leaving
            }
            Some(_) => HolderState::Wants,
        })
    }

    async fn fence(&self, key: &ClaimKey) -> Result<RemoteFence, Setback> {
        let api: Api<RemoteCluster> = Api::namespaced(self.client.clone(), &key.namespace);
        Ok(match timed("the remote", api.get_opt(&key.remote)).await? {
            None => RemoteFence::Gone,
            Some(found) if found.metadata.uid.as_deref() != Some(key.remote_uid.as_str()) => RemoteFence::Gone,
            Some(found) if found.metadata.deletion_timestamp.is_some() => RemoteFence::Closing,
            Some(found) if !found.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER) => {
                RemoteFence::Unprotected
            }
            Some(_) => RemoteFence::Open,
        })
    }

    /// Gives a claim back: only while this process is the only one on it. Absent already is fine.
    ///
    /// # Errors
    /// `Wait` while another process may still use it.
    pub async fn release(&self, key: &ClaimKey) -> Result<(), Setback> {
        let (api, name) = (self.api(&key.namespace), key.name());
        for _ in 0..SWAPS {
            let Some(mut found) = timed("the claim", api.get_opt(&name)).await? else {
                self.set_borne(&name, false);
                return Ok(());
            };
            let others = self.sight_all(&found.spec.instances).await?;
            let sight = |other: &Instance| {
                if others.contains(other) {
                    Sighting::Gone
                } else {
                    Sighting::MayLive
                }
            };
            match claim::release(self.identity.instance(), &found.spec.instances, sight) {
                Release::Delete => {
                    let (uid, version) = (found.metadata.uid.clone(), found.metadata.resource_version.clone());
                    // Already being deleted by somebody: only our finalizer holds it.
                    let version = if found.metadata.deletion_timestamp.is_some() {
                        None
                    } else {
                        version
                    };
                    match remove(&api, &name, uid.as_deref(), version.as_deref()).await {
                        Ok(()) => {
                            self.set_borne(&name, false);
                            return Ok(());
                        }
                        Err(setback) if setback.reason == "HubConflict" => continue,
                        Err(setback) => return Err(setback),
                    }
                }
                Release::StrikeOff(gone) => {
                    found.spec.instances.retain(|instance| !gone.contains(instance));
                    match timed_raw(api.replace(&name, &PostParams::default(), &found)).await {
                        Ok(_) | Err(Failed::Api(404 | 409)) => continue,
                        Err(failed) => return Err(failed.into_setback("the claim")),
                    }
                }
                Release::WaitFor(living) => {
                    let who: Vec<String> = living.iter().map(describe).collect();
                    let message = format!("the claim on {} may still be in use by {}", key.remote, who.join(", "));
                    return Err(Setback::new(Class::Wait, "ClaimInUse", message));
                }
            }
        }
        Err(Setback::new(
            Class::Retry,
            "HubConflict",
            "the claim keeps changing; it is tried again",
        ))
    }

    /// Which of these instances are observed gone.
    async fn sight_all(&self, instances: &[Instance]) -> Result<Vec<Instance>, Setback> {
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
        for mut claim in timed("the claims", all.list(&ListParams::default())).await?.items {
            let before = claim.spec.instances.len();
            claim.spec.instances.retain(|other| {
                other == self.identity.instance() || self.identity.sight_here(other) != Some(Sighting::Gone)
            });
            if claim.spec.instances.len() < before
                && let (Some(namespace), Some(name)) = (claim.metadata.namespace.clone(), claim.metadata.name.clone())
            {
                // Lost to a concurrent change: the next to release looks again.
                let _ = timed_raw(self.api(&namespace).replace(&name, &PostParams::default(), &claim)).await;
            }
        }
        Ok(())
    }

    /// All claims on a remote, by a quorum list.
    ///
    /// # Errors
    /// If the hub does not answer.
    pub async fn on_remote(&self, namespace: &str, remote_uid: &str) -> Result<Vec<RemoteClaim>, Setback> {
        let selector = ListParams::default().labels(&format!("{REMOTE_LABEL}={remote_uid}"));
        Ok(timed("the claims", self.api(namespace).list(&selector)).await?.items)
    }
}

fn describe(instance: &Instance) -> String {
    if instance.pod.is_empty() {
        format!("process {}", instance.process)
    } else {
        format!("pod {}", instance.pod)
    }
}

fn refused(key: &ClaimKey, holder: HolderState, fence: RemoteFence) -> Setback {
    let (reason, message) = match (holder, fence) {
        (HolderState::Gone, _) => ("ProvisionGone", "the provision is gone".to_owned()),
        (HolderState::Leaving, _) => ("ProvisionLeaving", "the provision no longer wants this step".to_owned()),
        (_, RemoteFence::Gone) => (
            "WaitingForRemote",
            format!("there is no RemoteCluster {} any more", key.remote),
        ),
        (_, RemoteFence::Closing) => (
            "RemoteClosing",
            format!("RemoteCluster {} is being deleted", key.remote),
        ),
        (_, _) => (
            "WaitingForRemote",
            format!("RemoteCluster {} has not been looked at yet", key.remote),
        ),
    };
    Setback::new(Class::Wait, reason, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_of_another_start_does_not() {
        let own = own_process();
        assert!(process_lives(&own));
        let (id, _) = own.split_once(':').unwrap();
        assert!(!process_lives(&format!("{id}:1")));
        assert!(process_lives("nonsense"), "what is not understood may live");
    }

    #[test]
    fn an_instance_is_gone_by_evidence_only() {
        let pod = InstanceIdentity::of_pod("ns/a", "uid-a");
        let earlier = Instance {
            process: "1:1".into(),
            ..pod.instance().clone()
        };
        assert_eq!(pod.sight_here(&earlier), Some(Sighting::Gone));
        let other = Instance {
            home: "uid-b".into(),
            process: "1:1".into(),
            pod: "ns/b".into(),
        };
        assert_eq!(pod.sight_here(&other), None, "to be asked of the hub");
        let process = InstanceIdentity::of_process();
        assert_eq!(process.sight_here(process.instance()), Some(Sighting::MayLive));
        let rebooted = Instance {
            home: format!("{}/another-boot", machine()),
            process: "1:1".into(),
            pod: String::new(),
        };
        assert_eq!(process.sight_here(&rebooted), Some(Sighting::Gone));
        let elsewhere = Instance {
            home: "elsewhere/boot".into(),
            process: "1:1".into(),
            pod: String::new(),
        };
        assert_eq!(process.sight_here(&elsewhere), None);
        assert!(!process.is_gone(&process.holder()) && !process.is_gone("nonsense") && !process.is_gone("a_b"));
        assert!(process.is_gone(&format!("{}_1:1", process.instance().home)));
    }
}
