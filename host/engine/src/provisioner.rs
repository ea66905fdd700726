//! Steps written in Rust: a type of one's own in the place of a plugin.
//!
//! All that holds of a plugin holds of it: a receipt before its first call, an inventory of what it applies, a claim on its
//! remote, deletion that is done when everything is seen gone. What it does not get is a sandbox: it is code of this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use chandlery_core::cluster::ClusterAccess;
use chandlery_core::grant::Grant;
use chandlery_core::ports::{self, Call};
use chandlery_core::task::{Export, Outcome, Request};
use chandlery_core::{Class, Digest, Setback, Uid};
use serde_json::Value;

/// How what was provisioned is to be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionMode {
    /// The cluster stays: whatever the inventory does not show is taken away, and seen gone.
    Foreground,
    /// The cluster is itself about to be destroyed, in this very deletion: what dies with it may be left.
    Background,
}

/// One thing that can be brought about in a cluster, and taken away again.
///
/// A call may be the first or the hundredth, may follow one that was cut off at any point, and may be the last that ever
/// comes: it looks at the cluster and does what is missing. What it applies or creates through `scope` is taken away by the
/// host; [`Provisioner::deprovision`] only does what the inventory does not show.
///
/// Cancel safety: both calls may be dropped at any await; the step is called again.
#[async_trait]
pub trait Provisioner: Send + Sync {
    /// Name of the step, a DNS label, and of what is in its receipt: it must be the same for the life of what it made.
    fn name(&self) -> &str;

    /// What it was set to do. A step that is done runs again once this differs from what it was last run with.
    fn settings(&self) -> Value;

    /// What it is: a step runs again once this is another. Of its name by default, as code of this process has no digest that
    /// one could pin.
    fn digest(&self) -> Digest {
        Digest::of(self.name().as_bytes())
    }

    /// What it may do, on remotes (`false`) or on the hub (`true`); everything by default. What its credentials allow there is
    /// the last word all the same.
    #[allow(unused_variables, reason = "names are for those who write their own")]
    fn grant(&self, on_hub: bool) -> Grant {
        Grant::everything()
    }

    /// Brings the cluster to the settings in `task.spec`.
    ///
    /// # Errors
    /// A setback, by whose class it is tried again: see [`Class`].
    async fn provision(&self, scope: &Arc<dyn ClusterAccess>, task: &Request) -> Result<Outcome, Setback>;

    /// Takes away what the inventory does not show; the host empties that afterwards. Done by default.
    ///
    /// # Errors
    /// As [`Provisioner::provision`]; the step stays until this is done.
    #[allow(unused_variables, reason = "names are for those who write their own")]
    async fn deprovision(
        &self,
        scope: &Arc<dyn ClusterAccess>,
        task: &Request,
        deletion: DeletionMode,
    ) -> Result<Outcome, Setback> {
        Ok(Outcome::Done(chandlery_core::task::Done::default()))
    }
}

/// All Provisioners of a program, by name: what the steps of any of its trees, old or new, may have been run with.
#[derive(Clone, Default)]
pub struct Provisioners {
    by_name: BTreeMap<String, Arc<dyn Provisioner>>,
}

impl Provisioners {
    /// Makes one known. A step of another process, or of an earlier version of this one, is undone by the one of its name.
    pub fn insert(&mut self, provisioner: Arc<dyn Provisioner>) {
        self.by_name.insert(provisioner.name().to_owned(), provisioner);
    }

    /// One by name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Provisioner>> {
        self.by_name.get(name)
    }

    /// These, for one owner's steps.
    pub fn of(&self, owner: &str, owner_uid: &Uid, now: String) -> OwnersProvisioners<'_> {
        OwnersProvisioners {
            provisioners: self,
            owner: owner.to_owned(),
            owner_uid: owner_uid.clone(),
            now,
        }
    }

    fn known(&self, name: &str) -> Result<&Arc<dyn Provisioner>, Setback> {
        self.by_name.get(name).ok_or_else(|| {
            let message = format!("there is no Provisioner {name} in this program, which this step was run with");
            Setback::new(Class::UserFix, "ProvisionerMissing", message)
        })
    }
}

/// The Provisioners of one owner's steps, for one pass.
pub struct OwnersProvisioners<'a> {
    provisioners: &'a Provisioners,
    owner: String,
    owner_uid: Uid,
    now: String,
}

#[async_trait]
impl ports::Plugins for OwnersProvisioners<'_> {
    fn digest(&self, plugin: &str) -> Result<Digest, Setback> {
        self.provisioners.known(plugin).map(|known| known.digest())
    }

    async fn call(&self, call: Call<'_>) -> Result<Outcome, Setback> {
        let receipt = &call.record.receipt;
        let provisioner = self.provisioners.known(&receipt.plugin)?;
        let task = Request {
            provision_uid: self.owner_uid.clone(),
            provision: self.owner.clone(),
            step: call.record.step.clone(),
            spec: receipt.spec.clone(),
            memory: call.record.memory.clone(),
            now: self.now.clone(),
            round: call.round,
        };
        let scope: Arc<dyn ClusterAccess> = call.scope;
        match call.export {
            Export::Provision => provisioner.provision(&scope, &task).await,
            Export::Deprovision { doomed } => {
                let deletion = if doomed {
                    DeletionMode::Background
                } else {
                    DeletionMode::Foreground
                };
                provisioner.deprovision(&scope, &task, deletion).await
            }
        }
    }
}
