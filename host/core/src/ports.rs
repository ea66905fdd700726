//! What the engine needs of the world, for one pass over one provision. Implemented where real parts are put together.
//!
//! The engine knows order; these traits know Kubernetes, components and disks. A test implements them in ten lines.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::claim::Purpose;
use crate::class::Setback;
use crate::cluster::{ClusterAccess, Watched};
use crate::object::ObjectRef;
use crate::record::{Entry, Phase, Receipt, Record, Target};
use crate::task::{Export, Outcome};
use crate::{Digest, StepName};

/// The StepRecords of one provision.
#[async_trait]
pub trait Records: Send + Sync {
    /// All records, from memory where they are known to be current.
    async fn load(&self) -> Result<Vec<Arc<dyn Ledger>>, Setback>;
    /// The record of a step that has none yet, durable when this returns.
    async fn open(&self, record: Record) -> Result<Arc<dyn Ledger>, Setback>;
}

/// One StepRecord. Every change is durable when its method returns, except [`Ledger::observe`] and [`Ledger::forget`].
///
/// One pass at a time holds it. A write that would change nothing is not made.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The record as it stands.
    fn record(&self) -> Record;
    /// What the record holds of one object.
    fn entry(&self, object: &ObjectRef) -> Option<Entry>;
    /// Stores what the step is about to be run with, in this phase.
    async fn begin(&self, phase: Phase, receipt: Receipt) -> Result<(), Setback>;
    /// To be called before anything is written to the cluster of this identity: enters the objects about to be written and
    /// stamps the receipt as used.
    async fn intend(&self, cluster_identity: &str, entries: Vec<Entry>) -> Result<(), Setback>;
    /// Notes what became known of an object; durable with the next write.
    fn observe(&self, entry: Entry);
    /// Strikes an object that was seen gone; durable with the next write.
    fn forget(&self, object: &ObjectRef);
    /// Stores phase, outputs and memory, and all that was observed.
    async fn settle(&self, phase: Phase, outputs: Option<Value>, memory: Option<Value>) -> Result<(), Setback>;
    /// Deletes the record, if it is still the one that is held: the step is undone. Its claim is given back after that.
    async fn close(&self) -> Result<(), Setback>;
    /// The version of the record that is held, where it is kept by somebody who counts versions.
    fn version(&self) -> Option<String> {
        None
    }
    /// Another process was at the record: it is to be read again before the next pass.
    fn doubt(&self) {}
}

/// A cluster narrowed for one step and one call, with what the host itself needs of it.
#[async_trait]
pub trait Scope: ClusterAccess {
    /// Whether the cluster is itself about to go, in the very deletion that takes the step away.
    fn is_doomed(&self) -> bool {
        false
    }
    /// Objects that were applied or created in this call, and hold.
    fn named(&self) -> Vec<ObjectRef>;
    /// All objects the call read or wrote, with the version last seen.
    fn seen(&self) -> Vec<Watched>;
    /// These objects as to be watched: those the grant lets the plugin read, with the version last seen.
    async fn watched(&self, targets: Vec<ObjectRef>) -> Vec<Watched>;
    /// Takes these entries away as the inventory says (delete what was made, withdraw from what was joined), in the order
    /// of undoing, each seen gone before the next that may depend on it. Strikes what is gone off the ledger.
    async fn take_away(&self, entries: Vec<Entry>) -> Result<TakenAway, Setback>;
}

/// Where taking away stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenAway {
    /// All of it is seen gone.
    Gone,
    /// Still there: what is waited for, and a sentence.
    Waiting {
        /// Objects still there.
        on: Vec<Watched>,
        /// One sentence.
        message: String,
    },
}

/// The clusters a provision's steps run on.
#[async_trait]
pub trait Remotes: Send + Sync {
    /// Which target the name in a step means now. Answers from memory.
    fn target(&self, on: &str) -> Result<Target, Setback>;
    /// Takes the step's claim and gives its scope.
    ///
    /// # Errors
    /// A setback of class `Wait` while the remote is not there or cannot be reached; `UserFix` where its credential is refused.
    async fn enter(&self, target: &Target, purpose: Purpose, ledger: Arc<dyn Ledger>) -> Result<Entered, Setback>;
    /// Gives the step's claim back. To be called once the step is undone; again is harmless.
    async fn leave(&self, target: &Target, step: &StepName) -> Result<(), Setback>;
}

/// What entering a remote comes to.
pub enum Entered {
    /// The scope.
    Scope(Arc<dyn Scope>),
    /// The cluster that the receipt names is no more, so nothing of the step is left to be undone. Why, in one sentence.
    Vanished(String),
}

/// The components a provision's steps name.
#[async_trait]
pub trait Plugins: Send + Sync {
    /// The digest the Plugin object of this name has now. Answers from memory.
    fn digest(&self, plugin: &str) -> Result<Digest, Setback>;
    /// One call in a fresh instance.
    async fn call(&self, call: Call<'_>) -> Result<Outcome, Setback>;
}

/// One call of one plugin.
pub struct Call<'a> {
    /// Which step, on what, with what.
    pub record: &'a Record,
    /// What is asked.
    pub export: Export,
    /// On which cluster.
    pub scope: Arc<dyn Scope>,
    /// How often in a row the step has yielded or failed.
    pub round: u32,
}

/// The ports of one pass.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// StepRecords.
    pub records: &'a dyn Records,
    /// Clusters.
    pub remotes: &'a dyn Remotes,
    /// Components.
    pub plugins: &'a dyn Plugins,
}
