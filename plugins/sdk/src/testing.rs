//! A cluster in memory, for a plugin's unit tests on the author's machine. No API server: what is applied is there, at once.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::bindings::chandlery::provision::cluster::Page;
use crate::calls::JsonText;
use crate::errors::unreadable;
use crate::{
    CallError, Calls, Cluster, Deletion, DeletionState, Facts, Json, JsonPatch, ObjectRef, Query, Readiness, Result,
};

/// A fake cluster. Objects are kept as they were applied; readiness and errors are as a test sets them.
#[derive(Default)]
pub struct Fake {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Json>,
    refusals: BTreeMap<String, CallError>,
    readiness: BTreeMap<String, Readiness>,
    written: Vec<String>,
}

impl Fake {
    /// The handle to give to `provision`.
    pub fn cluster(&self) -> Cluster<'_> {
        Cluster::new(self)
    }

    /// From now on writes of this object (as it displays: `Kind namespace/name`) end in this error.
    pub fn refuse(&self, object: &str, error: CallError) {
        self.state.borrow_mut().refusals.insert(object.to_owned(), error);
    }

    /// From now on writes of this object go well again.
    pub fn allow(&self, object: &str) {
        self.state.borrow_mut().refusals.remove(object);
    }

    /// From now on this object is judged so; otherwise it is ready if it is there.
    pub fn judge(&self, object: &str, readiness: Readiness) {
        self.state.borrow_mut().readiness.insert(object.to_owned(), readiness);
    }

    /// All writes that went well, in their order, and forgets them.
    pub fn written(&self) -> Vec<String> {
        std::mem::take(&mut self.state.borrow_mut().written)
    }

    /// The object as it is now.
    pub fn object(&self, object: &str) -> Option<Json> {
        self.state.borrow().objects.get(object).cloned()
    }

    fn write(&self, objects: &[JsonText]) -> Vec<Result<(), CallError>> {
        objects.iter().map(|text| self.write_one(text)).collect()
    }

    fn write_one(&self, text: &str) -> Result<(), CallError> {
        let object: Json = serde_json::from_str(text).map_err(unreadable)?;
        let name = ObjectRef::of(&object)
            .ok_or_else(|| unreadable("not an object"))?
            .to_string();
        let mut state = self.state.borrow_mut();
        if let Some(error) = state.refusals.get(&name) {
            return Err(error.clone());
        }
        state.objects.insert(name.clone(), object);
        state.written.push(name);
        Ok(())
    }
}

impl Calls for Fake {
    fn facts(&self) -> Facts {
        Facts {
            name: "fake".to_owned(),
            identity: "00000000-0000-0000-0000-000000000000".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 6443,
            version: "1.37.2".to_owned(),
            path: Vec::new(),
        }
    }

    fn get(&self, targets: &[ObjectRef]) -> Vec<Result<Option<JsonText>, CallError>> {
        targets
            .iter()
            .map(|target| Ok(self.object(&target.to_string()).map(|object| object.to_string())))
            .collect()
    }

    fn list(&self, query: &Query) -> Result<Page, CallError> {
        // One object a page, so that a test goes through several. The token is the number of those seen.
        let seen = query
            .continue_
            .as_deref()
            .map_or(Ok(0), str::parse::<usize>)
            .map_err(unreadable)?;
        let state = self.state.borrow();
        let fits = |object: &&Json| {
            object["kind"] == query.kind.as_str()
                && query
                    .namespace
                    .as_ref()
                    .is_none_or(|namespace| object["metadata"]["namespace"] == namespace.as_str())
        };
        let mut rest = state.objects.values().filter(fits).skip(seen);
        let items = rest.next().map(Json::to_string).into_iter().collect();
        Ok(Page {
            items,
            continue_: rest.next().map(|_| (seen + 1).to_string()),
        })
    }

    fn apply(&self, objects: &[JsonText], _force: bool) -> Vec<Result<(), CallError>> {
        self.write(objects)
    }

    fn create(&self, objects: &[JsonText]) -> Vec<Result<(), CallError>> {
        self.write(objects)
    }

    fn patch(&self, patches: &[JsonPatch]) -> Vec<Result<(), CallError>> {
        patches
            .iter()
            .map(|_| Err(unreadable("this fake knows no JSON Patch")))
            .collect()
    }

    fn delete(&self, deletions: &[Deletion]) -> Vec<Result<DeletionState, CallError>> {
        let mut state = self.state.borrow_mut();
        let mut remove = |deletion: &Deletion| {
            state.objects.remove(&deletion.target.to_string());
            Ok(DeletionState::Gone)
        };
        deletions.iter().map(&mut remove).collect()
    }

    fn assess(&self, targets: &[ObjectRef]) -> Vec<Result<Readiness, CallError>> {
        let state = self.state.borrow();
        let judge = |target: &ObjectRef| {
            let name = target.to_string();
            let there = if state.objects.contains_key(&name) {
                Readiness::Ready
            } else {
                Readiness::Absent
            };
            Ok(state.readiness.get(&name).cloned().unwrap_or(there))
        };
        targets.iter().map(judge).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::All;
    use serde_json::json;

    #[test]
    fn a_list_goes_through_all_pages() {
        let fake = Fake::default();
        let on = fake.cluster();
        let config =
            |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}});
        on.apply_all(["x", "y", "z"].map(config)).all().unwrap();
        let names: Vec<_> = on
            .list(Query::of("v1", "ConfigMap").namespace("a"))
            .map(|o| o.unwrap()["metadata"]["name"].clone())
            .collect();
        assert_eq!(names, ["x", "y", "z"]);
    }

    #[test]
    fn an_unwritable_document_fails_alone_in_its_place() {
        #[derive(serde::Serialize)]
        #[serde(untagged)]
        enum Document {
            Odd(BTreeMap<(u8, u8), u8>),
            Good(Json),
        }
        let good = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
        let documents = [Document::Odd(BTreeMap::from([((1, 2), 3)])), Document::Good(good)];
        let results = Fake::default().cluster().apply_all(documents);
        assert!(results[0].is_err() && results[1].is_ok(), "{results:?}");
    }
}
