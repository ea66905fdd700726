//! The one seam between a plugin and a cluster: the host's handle in a component, a fake in a unit test.

use crate::bindings::chandlery::provision::cluster::{self as wit, Page};
use crate::{CallError, Deletion, DeletionState, Facts, JsonPatch, ObjectRef, Query, Readiness, Result};

/// One JSON document as it crosses to the host.
pub type JsonText = String;

/// The functions of the contract's `cluster`, lists in, lists out, documents as text.
///
/// A plugin uses [`Cluster`](crate::Cluster), which speaks of single objects and values; this trait is what it stands on.
pub trait Calls {
    /// What the host knows of the cluster.
    fn facts(&self) -> Facts;
    /// The objects as they are now.
    fn get(&self, targets: &[ObjectRef]) -> Vec<Result<Option<JsonText>, CallError>>;
    /// One page of objects.
    ///
    /// # Errors
    /// `conflict` on a later page: the list has expired, begin again.
    fn list(&self, query: &Query) -> Result<Page, CallError>;
    /// Server-side apply.
    fn apply(&self, objects: &[JsonText], force: bool) -> Vec<Result<(), CallError>>;
    /// Makes objects once.
    fn create(&self, objects: &[JsonText]) -> Vec<Result<(), CallError>>;
    /// Guarded changes.
    fn patch(&self, patches: &[JsonPatch]) -> Vec<Result<(), CallError>>;
    /// Asks for deletion and says where it stands.
    fn delete(&self, deletions: &[Deletion]) -> Vec<Result<DeletionState, CallError>>;
    /// Readiness of the objects as they are now.
    fn assess(&self, targets: &[ObjectRef]) -> Vec<Result<Readiness, CallError>>;
}

impl Calls for wit::Cluster {
    fn facts(&self) -> Facts {
        Self::facts(self)
    }
    fn get(&self, targets: &[ObjectRef]) -> Vec<Result<Option<JsonText>, CallError>> {
        Self::get(self, targets)
    }
    fn list(&self, query: &Query) -> Result<Page, CallError> {
        Self::list(self, query)
    }
    fn apply(&self, objects: &[JsonText], force: bool) -> Vec<Result<(), CallError>> {
        Self::apply(self, objects, force)
    }
    fn create(&self, objects: &[JsonText]) -> Vec<Result<(), CallError>> {
        Self::create(self, objects)
    }
    fn patch(&self, patches: &[JsonPatch]) -> Vec<Result<(), CallError>> {
        Self::patch(self, patches)
    }
    fn delete(&self, deletions: &[Deletion]) -> Vec<Result<DeletionState, CallError>> {
        Self::delete(self, deletions)
    }
    fn assess(&self, targets: &[ObjectRef]) -> Vec<Result<Readiness, CallError>> {
        Self::assess(self, targets)
    }
}
