//! One call of a plugin: what it is asked, what it answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::class::{Class, Setback};
use crate::cluster::{CallError, Problem, join_problems};
use crate::object::ObjectRef;
use crate::{StepName, Uid};

/// Most bytes of outputs, and of memory, that a step may keep. Both go into one StepRecord.
pub const KEPT_BYTES: usize = 16 * 1024;
/// Most objects that a yield may have watched; what is beyond is polled.
pub const WATCHED: usize = 64;

/// What a plugin says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// `vendor.example/name`.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// JSON Schema (2020-12) of a step's `with`.
    pub spec_schema: Value,
    /// JSON Schema of the outputs.
    pub outputs_schema: Value,
    /// What it may ask for. Decides nothing.
    pub needs: Vec<Rule>,
}

/// A permission, in Kubernetes RBAC terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups; `""` is the core group.
    pub api_groups: Vec<String>,
    /// Plural resource names.
    pub resources: Vec<String>,
    /// RBAC verbs.
    pub verbs: Vec<String>,
}

/// Which of a plugin's two tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// Bring the cluster to the spec.
    Provision,
    /// Take away what the inventory does not show.
    Deprovision {
        /// The cluster is about to be destroyed.
        doomed: bool,
    },
}

/// One call's task.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// UID of the provision.
    pub provision_uid: Uid,
    /// `namespace/name` of the provision.
    pub provision: String,
    /// Which step.
    pub step: StepName,
    /// The step's settings.
    pub spec: Value,
    /// What the last outcome held.
    pub memory: Option<Value>,
    /// RFC 3339, UTC.
    pub now: String,
    /// How often in a row the step has yielded or failed.
    pub round: u32,
}

/// What became of the task.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is done.
    Done(Done),
    /// Not done yet: a normal answer.
    Yield(Wait),
}

/// A task that is done.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Done {
    /// For later steps and people.
    pub outputs: Option<Value>,
    /// For the plugin's next call.
    pub memory: Option<Value>,
    /// Call again when one of these changes, too.
    pub watch: Vec<ObjectRef>,
}

/// A task that is not done yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wait {
    /// One CamelCase word.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// Call again when one of these changes.
    pub watch: Vec<ObjectRef>,
    /// Call again after this long at the latest.
    pub after: Option<Duration>,
    /// For the plugin's next call.
    pub memory: Option<Value>,
}

/// Why a call of a plugin did not end in an outcome.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The spec must change first.
    #[error("the spec is refused: {}", join_problems(.0))]
    Invalid(Vec<Problem>),
    /// A call's error, handed on.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Will not pass by itself.
    #[error("{0}")]
    Terminal(String),
    /// The plugin trapped, reached a limit, or gave an answer that breaks the contract.
    #[error("the plugin broke its contract: {message}")]
    Broken {
        /// One CamelCase word: `Panicked`, `OutOfTime`, `OutOfMemory`, `InvalidAnswer`, …
        reason: &'static str,
        /// One sentence.
        message: String,
    },
    /// The host ended the call: deletion pre-empts, shutdown, lost lease.
    #[error("the host ended the call")]
    Cancelled,
}

impl Failure {
    /// This failure as a setback of its step.
    pub fn into_setback(self) -> Setback {
        match self {
            Failure::Call(error) => error.into_setback(),
            Failure::Invalid(_) => Setback::new(Class::UserFix, "InvalidSpec", self.to_string()),
            Failure::Terminal(_) => Setback::new(Class::UserFix, "Failed", self.to_string()),
            Failure::Broken { reason, .. } => Setback::new(Class::Bug, reason, self.to_string()),
            Failure::Cancelled => Setback::new(Class::Wait, "Cancelled", self.to_string()),
        }
    }
}
