//! One call of one plugin by hand, on a cluster that a kubeconfig names: what `chandlery plugin run` does.

use std::sync::Arc;

use chandlery_core::cluster::ClusterAccess;
use chandlery_core::grant::Grant;
use chandlery_core::limits::Limits;
use chandlery_core::memory::MemoryLedger;
use chandlery_core::names;
use chandlery_core::ports::{Ledger, Scope, TakenAway};
use chandlery_core::record::{Entry, Receipt, Record, Target};
use chandlery_core::task::{Export, Failure, Outcome, Request};
use chandlery_core::{Setback, StepName, Uid};
use chandlery_runtime::Runtime;
use chandlery_scope::{ClusterScope, Connection, ScopeOptions};
use serde_json::Value;

use crate::plugins::{compile_schema, problems_of};

/// One call to be made.
pub struct Once {
    /// The plugin.
    pub plugin: Arc<chandlery_runtime::Plugin>,
    /// The cluster.
    pub connection: Arc<Connection>,
    /// What the plugin may do there.
    pub grant: Grant,
    /// The step's settings.
    pub spec: Value,
    /// What is asked. A deprovision also takes away `inventory`.
    pub export: Export,
    /// What an earlier call left.
    pub inventory: Vec<Entry>,
    /// What an earlier call left.
    pub memory: Option<Value>,
    /// UID of the provision that the call pretends to be for: the same gives the same owner mark.
    pub provision_uid: Uid,
    /// The step that the call pretends to be for.
    pub step: StepName,
    /// What the call may use.
    pub limits: Limits,
}

/// Why there was no call, or no outcome.
#[derive(Debug, thiserror::Error)]
pub enum OnceError {
    /// The cluster could not be asked who it is.
    #[error("the cluster could not be reached")]
    Cluster(#[source] chandlery_core::cluster::CallError),
    /// The plugin's schema is none.
    #[error("{0}")]
    Schema(String),
    /// The call failed. What it had written by then is in the inventory.
    #[error("calling the plugin")]
    Failure {
        /// How.
        #[source]
        failure: Failure,
        /// What the plugin owns now.
        inventory: Vec<Entry>,
    },
    /// Undoing failed.
    #[error("undoing what the plugin made")]
    Undo {
        /// Why.
        #[source]
        setback: Setback,
        /// What is not gone yet.
        inventory: Vec<Entry>,
    },
}

/// What one call came to.
pub struct OnceReport {
    /// What the plugin answered.
    pub outcome: Outcome,
    /// What it owns now.
    pub inventory: Vec<Entry>,
    /// For a deprovision: what is not gone yet.
    pub waiting: Option<String>,
}

/// Makes one call. What it made is in the report and nowhere else: nothing prunes it or takes it away later.
///
/// # Errors
/// [`OnceError`].
pub async fn call_once(runtime: &Runtime, once: Once) -> Result<OnceReport, OnceError> {
    let Once {
        plugin,
        connection,
        grant,
        spec,
        export,
        inventory,
        memory,
        provision_uid,
        step,
        limits,
    } = once;
    let facts = chandlery_scope::facts_of(&connection, "remote")
        .await
        .map_err(OnceError::Cluster)?;
    let failed = |inventory: &[Entry]| {
        let inventory = inventory.to_vec();
        move |failure| OnceError::Failure { failure, inventory }
    };
    let description = runtime.describe(&plugin).await.map_err(failed(&inventory))?;
    if export == Export::Provision {
        let validator = compile_schema(&description.spec_schema).map_err(OnceError::Schema)?;
        let mut problems = problems_of(&validator, &spec);
        if problems.is_empty() {
            problems = runtime
                .check(&plugin, &spec, &limits)
                .await
                .map_err(failed(&inventory))?;
        }
        if !problems.is_empty() {
            return Err(failed(&inventory)(Failure::Invalid(problems)));
        }
    }
    let receipt = Receipt {
        plugin: description.name.clone(),
        digest: plugin.digest().clone(),
        spec: spec.clone(),
        target: Target::Remote {
            name: "remote".into(),
            uid: provision_uid.clone(),
        },
        cluster_identity: String::new(),
        background_deletion: false,
        needs: Vec::new(),
    };
    let mut record = Record::new(step.clone(), receipt);
    record.inventory = inventory;
    let ledger = Arc::new(MemoryLedger::new(record));
    let options = ScopeOptions {
        grant,
        field_manager: names::field_manager(&provision_uid, &step),
        owner_mark: names::owner_mark(&provision_uid, &step),
        sealed_secrets: Vec::new(),
    };
    let scope = Arc::new(ClusterScope::new(connection, facts, ledger.clone(), options));
    let request = Request {
        provision_uid,
        provision: "command/line".into(),
        step,
        spec,
        memory,
        now: crate::wire::now(),
        round: 0,
    };
    let on: Arc<dyn ClusterAccess> = scope.clone();
    let outcome = runtime
        .call(&plugin, &description.name, export, on, &request, &limits)
        .await
        .map_err(|failure| failed(&ledger.record().inventory)(failure))?;
    let mut waiting = None;
    if matches!(export, Export::Deprovision { .. }) && matches!(outcome, Outcome::Done(_)) {
        match scope
            .take_away(ledger.record().inventory)
            .await
            .map_err(|setback| OnceError::Undo {
                setback,
                inventory: ledger.record().inventory,
            })? {
            TakenAway::Gone => {}
            TakenAway::Waiting { message, .. } => waiting = Some(message),
        }
    }
    Ok(OnceReport {
        outcome,
        inventory: ledger.record().inventory,
        waiting,
    })
}
