//! The cluster handle as a plugin's author sees it: one object or many, values instead of text.
//!
//! One call for many objects is one round trip, and the host works on them concurrently: prefer the `_all` form to a loop.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::calls::JsonText;
use crate::errors::{length_differs, unreadable};
use crate::{
    CallError, Calls, Deletion, DeletionState, Facts, Json, JsonPatch, ObjectRef, Objects, Propagation, Query,
    Readiness, Result,
};

/// One cluster, as this call may use it. Lent for the length of the call.
pub struct Cluster<'a> {
    calls: &'a dyn Calls,
}

impl<'a> Cluster<'a> {
    /// A handle on these calls; the host's own in a component, [`testing::Fake`](crate::testing::Fake) in a unit test.
    pub fn new(calls: &'a dyn Calls) -> Self {
        Self { calls }
    }

    /// What the host knows of the cluster: its name, identity, endpoint, version. No request is sent.
    pub fn facts(&self) -> Facts {
        self.calls.facts()
    }

    /// The object as it is now, `None` if there is none.
    ///
    /// # Errors
    /// `denied` outside the grant, `not-found` for a kind that is not served, `unavailable`, `exhausted`.
    pub fn get(&self, target: impl Into<ObjectRef>) -> Result<Option<Json>, CallError> {
        one(self.get_all([target.into()]))
    }

    /// The object as it is now, read into a type.
    ///
    /// # Errors
    /// As [`Cluster::get`], and `other` if it does not fit the type.
    pub fn get_as<T: DeserializeOwned>(&self, target: impl Into<ObjectRef>) -> Result<Option<T>, CallError> {
        self.get(target)?
            .map(|object| serde_json::from_value(object).map_err(unreadable))
            .transpose()
    }

    /// Many objects as they are now, in the order asked for.
    pub fn get_all(&self, targets: impl IntoIterator<Item = ObjectRef>) -> Vec<Result<Option<Json>, CallError>> {
        let targets: Vec<_> = targets.into_iter().collect();
        let parse = |text: JsonText| serde_json::from_str(&text).map_err(unreadable);
        self.calls
            .get(&targets)
            .into_iter()
            .map(|got| got?.map(parse).transpose())
            .collect()
    }

    /// All objects that fit the query, page after page as they are taken from the iterator.
    ///
    /// An error ends it. `conflict` means that the list has expired: begin again.
    pub fn list(&self, query: Query) -> Objects<'_> {
        Objects::new(self.calls, query)
    }

    /// Server-side apply of one object: it is created, or the fields that are given are set.
    ///
    /// # Errors
    /// `conflict` if somebody else owns a field (see [`Cluster::apply_all_forced`]) or the object is another step's or being
    /// deleted; `invalid`, `denied`, `not-found`, `unavailable`, `exhausted`.
    pub fn apply(&self, object: impl Serialize) -> Result<(), CallError> {
        one(self.apply_all([object]))
    }

    /// Server-side apply of many objects: namespaces first, then CustomResourceDefinitions, then the rest, concurrently.
    pub fn apply_all(&self, objects: impl IntoIterator<Item = impl Serialize>) -> Vec<Result<(), CallError>> {
        each(objects, |texts| self.calls.apply(texts, false))
    }

    /// As [`Cluster::apply_all`], and takes over fields that anyone but another step owns.
    pub fn apply_all_forced(&self, objects: impl IntoIterator<Item = impl Serialize>) -> Vec<Result<(), CallError>> {
        each(objects, |texts| self.calls.apply(texts, true))
    }

    /// Makes an object once: one that this step made before is left as it is.
    ///
    /// # Errors
    /// `conflict` if somebody else's object has the name; else as [`Cluster::apply`].
    pub fn create(&self, object: impl Serialize) -> Result<(), CallError> {
        one(self.create_all([object]))
    }

    /// Makes many objects once, in the order of [`Cluster::apply_all`].
    pub fn create_all(&self, objects: impl IntoIterator<Item = impl Serialize>) -> Vec<Result<(), CallError>> {
        each(objects, |texts| self.calls.create(texts))
    }

    /// A change that apply cannot say, by JSON Patch. Guard it with `test` operations. The host never undoes it.
    ///
    /// # Errors
    /// `conflict` if it no longer fits or its fate is unknown; `not-found` without a target; else as [`Cluster::apply`].
    pub fn patch(&self, target: impl Into<ObjectRef>, operations: impl Serialize) -> Result<(), CallError> {
        self.patch_part(target, None, operations)
    }

    /// As [`Cluster::patch`], of a subresource: `status` or `scale`.
    ///
    /// # Errors
    /// As [`Cluster::patch`].
    pub fn patch_part(
        &self,
        target: impl Into<ObjectRef>,
        subresource: Option<&str>,
        operations: impl Serialize,
    ) -> Result<(), CallError> {
        let patch = text(&operations)?;
        one(self.patch_all(&[JsonPatch {
            target: target.into(),
            subresource: subresource.map(str::to_owned),
            patch,
        }]))
    }

    /// Many patches.
    pub fn patch_all(&self, patches: &[JsonPatch]) -> Vec<Result<(), CallError>> {
        self.calls.patch(patches)
    }

    /// Asks for deletion of exactly the object that has this UID, and says where it stands. To wait, yield and call again.
    ///
    /// # Errors
    /// `denied`, `not-found` for a kind that is not served, `unavailable`, `exhausted`.
    pub fn delete(
        &self,
        target: impl Into<ObjectRef>,
        uid: impl Into<String>,
        propagation: Propagation,
    ) -> Result<DeletionState, CallError> {
        one(self.delete_all(&[Deletion {
            target: target.into(),
            uid: uid.into(),
            propagation,
        }]))
    }

    /// Many deletions.
    pub fn delete_all(&self, deletions: &[Deletion]) -> Vec<Result<DeletionState, CallError>> {
        self.calls.delete(deletions)
    }

    /// Whether the object is ready, judged by the host from what it shows now.
    ///
    /// # Errors
    /// As [`Cluster::get`].
    pub fn assess(&self, target: impl Into<ObjectRef>) -> Result<Readiness, CallError> {
        one(self.assess_all([target.into()]))
    }

    /// Readiness of many objects.
    pub fn assess_all(&self, targets: impl IntoIterator<Item = ObjectRef>) -> Vec<Result<Readiness, CallError>> {
        let targets: Vec<_> = targets.into_iter().collect();
        self.calls.assess(&targets)
    }
}

fn one<T>(mut results: Vec<Result<T, CallError>>) -> Result<T, CallError> {
    results.pop().unwrap_or_else(|| Err(length_differs()))
}

fn text(document: &impl Serialize) -> Result<JsonText, CallError> {
    serde_json::to_string(document).map_err(unreadable)
}

/// Hands over those documents that can be written as JSON; each result goes to its own document's place.
fn each(
    documents: impl IntoIterator<Item = impl Serialize>,
    call: impl FnOnce(&[JsonText]) -> Vec<Result<(), CallError>>,
) -> Vec<Result<(), CallError>> {
    let mut texts = Vec::new();
    let mut results = Vec::new();
    for document in documents {
        results.push(text(&document).map(|text| texts.push(text)));
    }
    if texts.is_empty() {
        return results;
    }
    let mut answers = call(&texts).into_iter();
    for result in &mut results {
        if result.is_ok() {
            *result = answers.next().unwrap_or_else(|| Err(length_differs()));
        }
    }
    results
}
