//! One cluster as a call may use it: the trait behind the handle that a plugin gets, and the shapes that cross it.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Uid;
use crate::class::{Class, Setback};
use crate::object::{Gvk, ObjectRef};

/// What the host knows of a cluster. Constant for the length of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Name under which the provision knows it; `hub` for the host's own.
    pub name: String,
    /// UID of its `kube-system` namespace.
    pub identity: String,
    /// Host part of the API endpoint, IPv6 without brackets.
    pub host: String,
    /// Port of the API endpoint.
    pub port: u16,
    /// `major.minor.patch`.
    pub version: String,
    /// Names of the remotes passed on the way from the hub; empty on the hub.
    pub path: Vec<String>,
}

/// One thing wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// JSON pointer (RFC 6901); empty for the whole document.
    pub path: String,
    /// One sentence for the person who wrote it.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// Several problems in one line, at most five spelled out.
pub fn join_problems(problems: &[Problem]) -> String {
    let mut text = problems
        .iter()
        .take(5)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ");
    if problems.len() > 5 {
        text.push_str(&format!("; and {} more", problems.len() - 5));
    }
    text
}

/// Why a call on a cluster failed; each case says what to do next. The contract's `call-error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The grant or the cluster's RBAC does not cover it.
    #[error("denied: {0}")]
    Denied(String),
    /// Not the object it was taken for.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The cluster refuses the document.
    #[error("invalid: {}", join_problems(.0))]
    Invalid(Vec<Problem>),
    /// The kind, namespace or patch target is not there, at least not yet.
    #[error("not found: {0}")]
    NotFound(String),
    /// Cluster, webhook, quota or a terminating namespace is in the way.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// A limit of this call is used up.
    #[error("exhausted: {0}")]
    Exhausted(String),
    /// The host has taken this scope back.
    #[error("the host has taken this scope back")]
    Fenced,
    /// Anything newer than the interface.
    #[error("{0}")]
    Other(String),
}

impl CallError {
    /// What it asks of the host when a plugin hands it on.
    pub const fn class(&self) -> Class {
        match self {
            CallError::Denied(_) | CallError::Invalid(_) => Class::UserFix,
            CallError::Conflict(_) | CallError::Unavailable(_) | CallError::Exhausted(_) | CallError::Other(_) => {
                Class::Retry
            }
            CallError::NotFound(_) | CallError::Fenced => Class::Wait,
        }
    }

    /// One CamelCase word for a condition.
    pub const fn reason(&self) -> &'static str {
        match self {
            CallError::Denied(_) => "Denied",
            CallError::Conflict(_) => "Conflict",
            CallError::Invalid(_) => "InvalidObject",
            CallError::NotFound(_) => "NotFound",
            CallError::Unavailable(_) => "Unavailable",
            CallError::Exhausted(_) => "LimitReached",
            CallError::Fenced => "Fenced",
            CallError::Other(_) => "CallFailed",
        }
    }

    /// This error as a setback of its step.
    pub fn into_setback(self) -> Setback {
        Setback::new(self.class(), self.reason(), self.to_string())
    }
}

/// Which objects to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Kind to list.
    pub gvk: Gvk,
    /// Absent: all namespaces that the grant covers.
    pub namespace: Option<String>,
    /// Kubernetes syntax; empty for all.
    pub label_selector: String,
    /// Kubernetes syntax; empty for all.
    pub field_selector: String,
    /// Only `apiVersion`, `kind` and `metadata` of each.
    pub metadata_only: bool,
    /// From the page before; absent for the first.
    pub continue_token: Option<String>,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// In the cluster's order.
    pub items: Vec<Value>,
    /// Absent on the last page.
    pub continue_token: Option<String>,
}

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Deleted after it.
    Background,
    /// Deleted before it.
    Foreground,
    /// Left alone.
    Orphan,
}

impl Propagation {
    /// As the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// One deletion, of exactly the object that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// Which object.
    pub target: ObjectRef,
    /// The UID it must have.
    pub uid: Uid,
    /// What becomes of its dependents.
    pub propagation: Propagation,
}

/// Where a deletion stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeletionState {
    /// Observed absent, or replaced by an object with another UID.
    Gone,
    /// Marked for deletion; the finalizers it waits for.
    Deleting(Vec<String>),
}

/// One patch by JSON Patch (RFC 6902).
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPatch {
    /// Which object.
    pub target: ObjectRef,
    /// `status`, `scale`, or absent for the object itself.
    pub subresource: Option<String>,
    /// The operations.
    pub patch: Value,
}

/// Readiness, on evidence. The contract's `readiness`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// Ready.
    Ready,
    /// Not yet; one line why.
    Progressing(String),
    /// Will not become ready by waiting; one line why.
    Failed(String),
    /// Not there.
    Absent,
    /// Being deleted.
    Terminating,
    /// Tells nothing of its readiness.
    Unknown,
}

/// One cluster, as one call may use it: the contract's resource `cluster`.
///
/// Lists in, lists out, same order and length; one item's failure leaves the others alone. Implementations check the
/// grant on every act. Cancel safety: every future may be dropped at any await; what was then on the wire is resolved by
/// the next call's reads, never repeated blindly.
#[async_trait]
pub trait ClusterAccess: Send + Sync {
    /// What the host knows of the cluster. No request is sent.
    fn facts(&self) -> &Facts;
    /// The objects as they are now (a quorum read), `None` where there is none.
    async fn get(&self, targets: Vec<ObjectRef>) -> Vec<Result<Option<Value>, CallError>>;
    /// One page of objects.
    async fn list(&self, query: Query) -> Result<Page, CallError>;
    /// Server-side apply with the step's own field manager.
    async fn apply(&self, objects: Vec<Value>, force: bool) -> Vec<Result<(), CallError>>;
    /// Makes objects once.
    async fn create(&self, objects: Vec<Value>) -> Vec<Result<(), CallError>>;
    /// Guarded changes.
    async fn patch(&self, patches: Vec<JsonPatch>) -> Vec<Result<(), CallError>>;
    /// Asks for deletion and says where it stands.
    async fn delete(&self, deletions: Vec<Deletion>) -> Vec<Result<DeletionState, CallError>>;
    /// Readiness of the objects as they are now.
    async fn assess(&self, targets: Vec<ObjectRef>) -> Vec<Result<Readiness, CallError>>;
}

/// Where a wake-up stands: an object and the version of it that a call last saw.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Watched {
    /// Which object.
    pub target: ObjectRef,
    /// `resourceVersion` when last seen in the call; `None`: seen absent, or not seen at all.
    pub seen: Option<String>,
}

/// How long one request to a cluster may take before it counts as failed.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
