//! One call of a machine as a request to the hub, and the answer as the machine takes it in.

use async_trait::async_trait;
use chandlery_api::{Provision, RemoteClaim, RemoteCluster, RemotePhase, StepRecord};
use chandlery_core::claim::{
    Answer, Call, Claim, HolderState, Instance, Machine, Next, Registration, Remote, Rule, Words,
};
use chandlery_core::names::FINALIZER;
use chandlery_core::ports::Ledger;
use chandlery_core::record::Target;
use chandlery_core::{Class, Setback, Uid};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::claims::{ClaimKey, ClaimStore, Holder, OwnerKind, REMOTE_LABEL, spoken};
use crate::records::{Failed, timed, timed_raw};

/// Most calls of one run. More means that others change the same objects again and again.
const CALLS: usize = 40;
/// Who writes the fence: not who writes the rest of the status, so that neither takes the other's fields away.
const FENCE_MANAGER: &str = "chandlery-fence";

/// The words as the hub spells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OnHub;

impl Words for OnHub {
    type Instance = Instance;
    type Version = String;
    type Registration = String;
    type Holder = String;
}

/// Where a remote is registered. All methods read and write the hub itself, nothing remembered.
#[async_trait]
pub trait Registrar: Send + Sync {
    /// What is there under the registration's name.
    async fn look(&self) -> Result<Registration<OnHub>, Setback>;
    /// Creates it, or changes the one of this UID in place. `false`: there is one already, or another, or none.
    async fn write(&self, there: Option<&str>) -> Result<bool, Setback>;
    /// Deletes the one of this UID, if it is there.
    async fn delete(&self, uid: &str) -> Result<(), Setback>;
}

/// The registration of a remote that has none.
pub struct Unregistered;

#[async_trait]
impl Registrar for Unregistered {
    async fn look(&self) -> Result<Registration<OnHub>, Setback> {
        Ok(Registration::Absent)
    }

    async fn write(&self, _: Option<&str>) -> Result<bool, Setback> {
        Ok(true)
    }

    async fn delete(&self, _: &str) -> Result<(), Setback> {
        Ok(())
    }
}

/// Where one run of a machine stands.
pub(crate) struct Desk<'a> {
    store: &'a ClaimStore,
    namespace: &'a str,
    remote: &'a str,
    remote_uid: &'a Uid,
    key: Option<&'a ClaimKey>,
    ledger: Option<&'a dyn Ledger>,
    registrar: &'a dyn Registrar,
    calls: usize,
    /// Finalizers of the object that was read last, for the write that takes ours off.
    finalizers: Vec<String>,
}

impl<'a> Desk<'a> {
    /// For a machine that works on one claim.
    pub(crate) fn of_claim(store: &'a ClaimStore, key: &'a ClaimKey, ledger: Option<&'a dyn Ledger>) -> Self {
        Self {
            key: Some(key),
            ledger,
            ..Self::of_remote(store, &key.namespace, &key.remote, &key.remote_uid, &Unregistered)
        }
    }

    /// For a machine that works on a remote as a whole.
    pub(crate) fn of_remote(
        store: &'a ClaimStore,
        namespace: &'a str,
        remote: &'a str,
        remote_uid: &'a Uid,
        registrar: &'a dyn Registrar,
    ) -> Self {
        Self {
            store,
            namespace,
            remote,
            remote_uid,
            key: None,
            ledger: None,
            registrar,
            calls: 0,
            finalizers: Vec::new(),
        }
    }

    /// Runs a machine to its end.
    pub(crate) async fn drive<M: Machine<OnHub>>(&mut self, machine: &mut M) -> Result<M::Outcome, Setback> {
        loop {
            match machine.next() {
                Next::Call(call) => machine.learn(self.answer(&call).await?),
                Next::End(outcome) => return Ok(outcome),
            }
        }
    }

    /// Makes one call.
    ///
    /// # Errors
    /// The run ends with it; the next begins from the start.
    pub(crate) async fn answer(&mut self, call: &Call<OnHub>) -> Result<Answer<OnHub>, Setback> {
        self.calls += 1;
        if self.calls > CALLS {
            return Err(Setback::new(
                Class::Retry,
                "HubConflict",
                format!(
                    "what is kept of remote {} keeps changing; it is tried again",
                    self.remote
                ),
            ));
        }
        match call {
            Call::CreateClaim(_)
            | Call::ReadClaim
            | Call::WriteInstances { .. }
            | Call::FreeClaim { .. }
            | Call::DeleteClaim { .. }
            | Call::ReadHolder
            | Call::ReadRecord => self.of_holder(call).await,
            Call::ReadRemote => self.read_remote().await,
            Call::Sight(instances) => Ok(Answer::Gone(self.store.sight(instances).await?)),
            Call::ListClaims => self.list_claims().await,
            Call::WriteFence {
                at,
                draining,
                registrars,
            } => self.write_fence(at.as_deref(), *draining, registrars).await,
            Call::DropFinalizer { at } => self.drop_finalizer(at.as_deref()).await,
            Call::ReadRegistration => Ok(Answer::Registration(self.registrar.look().await?)),
            Call::WriteRegistration(there) => Ok(if self.registrar.write(there.as_deref()).await? {
                Answer::Done
            } else {
                Answer::Conflict
            }),
            Call::DeleteRegistration(uid) => {
                self.registrar.delete(uid).await?;
                Ok(Answer::Done)
            }
        }
    }

    async fn of_holder(&mut self, call: &Call<OnHub>) -> Result<Answer<OnHub>, Setback> {
        let Some(key) = self.key else {
            return Err(Setback::new(Class::Bug, "NoHolder", "a call on a claim, of nobody's"));
        };
        match call {
            Call::CreateClaim(own) => {
                let mut object = key.object(own);
                if !self.store.rules.keep(Rule::ClaimIsProtected) {
                    object.metadata.finalizers = None;
                }
                let made = timed_raw(self.claims().create(&PostParams::default(), &object)).await;
                self.claim_written(made.map(Some))
            }
            Call::ReadClaim => {
                let found = timed("the claim", self.claims().get_opt(&key.name())).await?;
                Ok(Answer::Claim(found.map(|claim| self.claim_read(claim))))
            }
            Call::WriteInstances { at, instances } => {
                let patch = json!({"metadata": {"resourceVersion": at}, "spec": {"instances": instances}});
                let written = self.patch_claim(key, &patch).await;
                self.claim_written(written.map(Some))
            }
            Call::FreeClaim { at } => {
                let others: Vec<&String> = self.finalizers.iter().filter(|f| *f != FINALIZER).collect();
                let patch = json!({"metadata": {"resourceVersion": at, "finalizers": others}});
                let freed = self.patch_claim(key, &patch).await;
                // One that was being deleted is gone with its last finalizer.
                let there = |claim: RemoteClaim| claim.metadata.deletion_timestamp.is_none().then_some(claim);
                self.claim_written(freed.map(there))
            }
            Call::DeleteClaim { at } => {
                let parameters = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: None,
                        resource_version: Some(at.clone()),
                    }),
                    ..DeleteParams::background()
                };
                match timed_raw(self.claims().delete(&key.name(), &parameters)).await {
                    Ok(_) | Err(Failed::Api(404)) => Ok(Answer::Done),
                    Err(Failed::Api(409)) => Ok(Answer::Conflict),
                    Err(failed) => Err(failed.into_setback("the claim")),
                }
            }
            Call::ReadHolder => Ok(Answer::Holder(self.read_holder(key).await?)),
            _ => self.read_record(key).await,
        }
    }

    fn claims(&self) -> Api<RemoteClaim> {
        Api::namespaced(self.store.client.clone(), self.namespace)
    }

    async fn patch_claim(&self, key: &ClaimKey, patch: &Value) -> Result<RemoteClaim, Failed> {
        timed_raw(
            self.claims()
                .patch(&key.name(), &PatchParams::default(), &Patch::Merge(patch)),
        )
        .await
    }

    fn claim_written(&mut self, written: Result<Option<RemoteClaim>, Failed>) -> Result<Answer<OnHub>, Setback> {
        match written {
            Ok(claim) => Ok(Answer::Claim(claim.map(|claim| self.claim_read(claim)))),
            Err(Failed::Api(404 | 409)) => Ok(Answer::Conflict),
            Err(failed) => Err(failed.into_setback("the claim")),
        }
    }

    fn claim_read(&mut self, claim: RemoteClaim) -> Claim<OnHub> {
        self.finalizers = claim.metadata.finalizers.unwrap_or_default();
        Claim {
            version: claim.metadata.resource_version.unwrap_or_default(),
            held: self.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
                || !self.store.rules.keep(Rule::ClaimIsProtected),
            instances: claim.spec.instances,
        }
    }

    async fn read_holder(&self, key: &ClaimKey) -> Result<HolderState, Setback> {
        let (metadata, is_wanted) = match &key.holder {
            Holder::Step {
                owner: OwnerKind::Provision,
                name,
                step,
                ..
            } => {
                let api: Api<Provision> = Api::namespaced(self.store.client.clone(), self.namespace);
                match timed("the provision", api.get_opt(name)).await? {
                    None => return Ok(HolderState::Gone),
                    Some(found) => {
                        let is_wanted = found.spec.0.steps.iter().any(|wanted| wanted.name == step.as_str());
                        (found.metadata, is_wanted)
                    }
                }
            }
            Holder::Step {
                owner: OwnerKind::Foreign(kind),
                name,
                ..
            } => {
                let api: Api<DynamicObject> = Api::namespaced_with(self.store.client.clone(), self.namespace, kind);
                match timed("the owner", api.get_metadata_opt(name)).await? {
                    None => return Ok(HolderState::Gone),
                    Some(found) => (found.metadata, true),
                }
            }
            Holder::Remote { name, .. } => match timed("the remote within", self.remotes().get_opt(name)).await? {
                None => return Ok(HolderState::Gone),
                Some(found) => (found.metadata, true),
            },
        };
        Ok(if metadata.uid.as_deref() != Some(key.holder.uid().as_str()) {
            HolderState::Gone
        } else if metadata.deletion_timestamp.is_some() || !is_wanted {
            HolderState::Leaving
        } else {
            HolderState::Wants
        })
    }

    async fn read_record(&self, key: &ClaimKey) -> Result<Answer<OnHub>, Setback> {
        let Holder::Step { uid, step, .. } = &key.holder else {
            // A remote that is reached through another may have anything within while it is there, or while it is claimed.
            let is_there = self.read_holder(key).await? != HolderState::Gone;
            let used = is_there || !self.holders_on(key.holder.uid()).await?.is_empty();
            return Ok(Answer::Record { used, held: true });
        };
        let api: Api<StepRecord> = Api::namespaced(self.store.client.clone(), self.namespace);
        let name = format!("{uid}.{step}");
        let found = timed("the step record", api.get_opt(&name)).await?;
        let held = self.ledger.and_then(Ledger::version);
        Ok(Answer::Record {
            // A step that went to another remote since has nothing on this one: its record was closed in between.
            used: found
                .as_ref()
                .and_then(|found| found.spec.record.as_ref())
                .is_some_and(|record| {
                    let here = matches!(&record.receipt.target, Target::Remote { uid, .. } if uid == self.remote_uid);
                    here && record.is_used()
                }),
            held: found.is_some_and(|found| found.metadata.resource_version == held),
        })
    }

    fn remotes(&self) -> Api<RemoteCluster> {
        Api::namespaced(self.store.client.clone(), self.namespace)
    }

    async fn read_remote(&mut self) -> Result<Answer<OnHub>, Setback> {
        let found = timed("the remote", self.remotes().get_opt(self.remote)).await?;
        Ok(Answer::Remote(found.and_then(|remote| self.remote_read(remote))))
    }

    fn remote_read(&mut self, remote: RemoteCluster) -> Option<Remote<OnHub>> {
        if remote.metadata.uid.as_deref() != Some(self.remote_uid.as_str()) {
            return None;
        }
        self.finalizers = remote.metadata.finalizers.unwrap_or_default();
        let status = remote.status.unwrap_or_default();
        Some(Remote {
            version: remote.metadata.resource_version.unwrap_or_default(),
            deleting: remote.metadata.deletion_timestamp.is_some(),
            draining: status.phase == Some(RemotePhase::Draining),
            protected: self.finalizers.iter().any(|finalizer| finalizer == FINALIZER),
            registrars: status.registrars,
        })
    }

    async fn list_claims(&self) -> Result<Answer<OnHub>, Setback> {
        Ok(Answer::Claims(self.holders_on(self.remote_uid).await?))
    }

    /// Who holds a remote, by a quorum list of the claims that are not free.
    pub(crate) async fn holders_on(&self, remote_uid: &Uid) -> Result<Vec<String>, Setback> {
        let selector = ListParams::default().labels(&format!("{REMOTE_LABEL}={remote_uid}"));
        let all = timed("the claims", self.claims().list(&selector)).await?.items;
        let needs_finalizer = self.store.rules.keep(Rule::ClaimIsProtected);
        let is_held = |claim: &RemoteClaim| {
            !needs_finalizer || claim.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER)
        };
        let mut holders: Vec<String> = all
            .into_iter()
            .filter(is_held)
            .map(|claim| spoken(&claim.spec.holder))
            .collect();
        holders.sort();
        Ok(holders)
    }

    async fn write_fence(
        &mut self,
        at: Option<&str>,
        draining: bool,
        registrars: &[Instance],
    ) -> Result<Answer<OnHub>, Setback> {
        let patch = json!({
            "metadata": {"uid": self.remote_uid, "resourceVersion": at},
            "status": {
                "phase": draining.then_some(RemotePhase::Draining),
                "registrars": (!registrars.is_empty()).then_some(registrars),
            },
        });
        let parameters = PatchParams {
            field_manager: Some(FENCE_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let written = timed_raw(
            self.remotes()
                .patch_status(self.remote, &parameters, &Patch::Merge(&patch)),
        )
        .await;
        match written {
            Ok(remote) => Ok(Answer::Remote(self.remote_read(remote))),
            Err(Failed::Api(404 | 409)) => Ok(Answer::Conflict),
            Err(failed) => Err(failed.into_setback("the remote")),
        }
    }

    async fn drop_finalizer(&mut self, at: Option<&str>) -> Result<Answer<OnHub>, Setback> {
        let others: Vec<&String> = self.finalizers.iter().filter(|f| *f != FINALIZER).collect();
        let patch = json!({"metadata": {"uid": self.remote_uid, "resourceVersion": at, "finalizers": others}});
        match timed_raw(
            self.remotes()
                .patch(self.remote, &PatchParams::default(), &Patch::Merge(&patch)),
        )
        .await
        {
            Ok(_) | Err(Failed::Api(404)) => Ok(Answer::Done),
            Err(Failed::Api(409)) => Ok(Answer::Conflict),
            Err(failed) => Err(failed.into_setback("the remote")),
        }
    }
}
