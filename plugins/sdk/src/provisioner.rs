//! What a plugin's author writes.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::bindings::exports::chandlery::provision::provisioner::Request;
use crate::schema::parse;
use crate::{Cluster, Failure, Json, Outcome, Problem, Result};

/// A plugin: one task on one cluster. Exported by [`#[provisioner(…)]`](macro@crate::provisioner).
///
/// Each call runs in a fresh instance: statics do not survive from one to the next. What must survive is in the cluster.
/// A call should return within milliseconds of its own time; what takes longer is a [`Outcome::wait`].
pub trait Provisioner {
    /// The step's settings. Its JSON Schema is shown to people and checked by the host before each call.
    type Spec: DeserializeOwned + JsonSchema;
    /// The outputs, for their JSON Schema; any document where the impl does not say.
    type Outputs: JsonSchema;
    /// What is remembered from call to call; any document where the impl does not say.
    type Memory: DeserializeOwned;

    /// Brings the cluster to the spec.
    ///
    /// Idempotent: it is called again at any time, after any crash at any point, and converges; once converged it changes
    /// nothing. A call that ends `done` has applied or created all that the step wants.
    ///
    /// # Errors
    /// A [`Failure`]; errors of calls are handed on by `?`.
    fn provision(on: &Cluster, task: Task<Self::Spec, Self::Memory>) -> Result<Outcome>;

    /// Takes away what the host does not know of; what was applied or created the host takes away by itself, afterwards.
    ///
    /// The spec is the one that `provision` was last given, perhaps in an older version's shape: [`Task::spec_as`] reads
    /// it. `doomed`: the cluster is about to be destroyed, do only what would outlive it.
    ///
    /// # Errors
    /// A [`Failure`]; errors of calls are handed on by `?`.
    fn deprovision(on: &Cluster, task: Task<Json, Self::Memory>, doomed: bool) -> Result<Outcome> {
        let _ = (on, task, doomed);
        Outcome::done().into()
    }

    /// Checks what the schema cannot say. Pure: there is no cluster.
    fn check(spec: Self::Spec) -> Vec<Problem> {
        drop(spec);
        Vec::new()
    }
}

/// What one call is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Task<Spec, Memory = Json> {
    /// The step's settings.
    pub spec: Spec,
    /// What the last outcome held: a hint. Absent too if it could not be read.
    pub memory: Option<Memory>,
    /// UID of the provision; with `step` it names this task for ever.
    pub provision_uid: String,
    /// `namespace/name` of the provision.
    pub provision: String,
    /// Which step.
    pub step: String,
    /// RFC 3339, UTC: the only clock.
    pub now: String,
    /// How often in a row the step has yielded or failed since it was last done.
    pub round: u32,
}

impl<Spec: DeserializeOwned, Memory: DeserializeOwned> Task<Spec, Memory> {
    /// Reads what the host gave.
    pub(crate) fn read(request: Request) -> Result<Self> {
        let Request {
            provision_uid,
            provision,
            step,
            spec,
            memory,
            now,
            round,
        } = request;
        Ok(Self {
            spec: parse(&spec)?,
            memory: memory.and_then(|text| serde_json::from_str(&text).ok()),
            provision_uid,
            provision,
            step,
            now,
            round,
        })
    }
}

impl<Memory> Task<Json, Memory> {
    /// The spec read into a type.
    ///
    /// # Errors
    /// [`Failure::Invalid`] with the place that does not fit.
    pub fn spec_as<T: DeserializeOwned>(&self) -> Result<T> {
        parse(&self.spec.to_string()).map_err(Failure::from)
    }
}
