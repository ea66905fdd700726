//! CustomResourceDefinitions: names are accepted, the resource is served, and at the end its objects go first.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::namespaces::merge_conditions;
use super::{API_SERVER, News};
use crate::catalog::ResourceId;
use crate::custom::Custom;
use crate::object;
use crate::options::DeleteOptions;
use crate::store::Key;
use crate::world::World;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl World {
    pub(super) fn serve_definitions(&mut self, news: &News) {
        if !news.everything && !news.definitions {
            return;
        }
        let Some(resource) = self.resource(GROUP, PLURAL).map(|resource| resource.id) else {
            return;
        };
        let keys: Vec<Key> = self.store.list(resource, None).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let Some(stored) = self.store.get(&key) else { continue };
            let document = stored.document();
            if stored.deleting {
                self.end_definition(&key, &document);
            } else {
                self.establish(&key, &document);
            }
        }
    }

    fn establish(&mut self, key: &Key, document: &Value) {
        let names = document.pointer("/spec/names").cloned().unwrap_or_default();
        if document.pointer("/status/acceptedNames") != Some(&names) {
            if let Some(conflict) = self.name_conflict(key, document) {
                return self.refuse_names(key, conflict);
            }
            let is_established = has_condition(document, "Established");
            self.set_status(key, |status| {
                status.insert("acceptedNames".into(), names);
                let mut conditions = vec![condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")];
                if !is_established {
                    conditions.push(condition(
                        "Established",
                        "False",
                        "Installing",
                        "the initial names have been accepted",
                    ));
                }
                conditions
            });
            return;
        }
        if !has_condition(document, "Established") {
            let uid = object::uid(document).to_owned();
            let since = self.pending.establishing.get(&uid).copied();
            let since = since.unwrap_or_else(|| {
                self.pending.establishing.insert(uid, self.now);
                self.now
            });
            let ready = since.saturating_add(self.settings.crd_delay).unwrap_or(Timestamp::MAX);
            if self.now < ready {
                self.wake_at(ready);
            } else {
                self.set_status(key, |_| {
                    vec![condition(
                        "Established",
                        "True",
                        "InitialNamesAccepted",
                        "the initial names have been accepted",
                    )]
                });
            }
            return;
        }
        self.catalogue(document);
    }

    /// Makes what a definition declares a resource of this world, or renews it.
    fn catalogue(&mut self, document: &Value) {
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let place = (
            SmolStr::new(text("/spec/group")),
            SmolStr::new(text("/spec/names/plural")),
        );
        let generation = object::metadata(document)
            .get("generation")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let mark = (object::uid(document).to_owned(), generation);
        if self.pending.catalogued.get(&place) == Some(&mark) {
            return;
        }
        let known = self.custom.get(&place).map(|resource| resource.id);
        let is_revised = self
            .pending
            .catalogued
            .get(&place)
            .is_some_and(|(uid, _)| *uid == mark.0);
        let id = known.unwrap_or_else(|| {
            let id = ResourceId(self.next_resource);
            self.next_resource += 1;
            id
        });
        if let Some(resource) = Custom::resource(document, id, is_revised, &self.base().types) {
            self.custom.insert(place.clone(), Arc::new(resource));
        }
        self.pending.catalogued.insert(place, mark);
    }

    /// Forgets what a definition declared.
    pub(crate) fn withdraw(&mut self, document: &Value) {
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let place = (
            SmolStr::new(text("/spec/group")),
            SmolStr::new(text("/spec/names/plural")),
        );
        self.custom.remove(&place);
        self.pending.catalogued.remove(&place);
        self.pending.establishing.remove(object::uid(document));
    }

    fn end_definition(&mut self, key: &Key, document: &Value) {
        if !object::finalizers(document).any(|finalizer| finalizer == CLEANUP) {
            return;
        }
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let found = self
            .resource(text("/spec/group"), text("/spec/names/plural"))
            .map(|resource| resource.id);
        let Some(resource) = found.filter(|_| has_condition(document, "Established")) else {
            self.set_status(key, |_| {
                vec![condition(
                    "Terminating",
                    "False",
                    "NeverEstablished",
                    "resource was never established",
                )]
            });
            return self.let_go(key);
        };
        self.set_status(key, |_| {
            vec![condition(
                "Terminating",
                "True",
                "InstanceDeletionInProgress",
                "CustomResource deletion is in progress",
            )]
        });
        let objects: Vec<Key> = self.store.list(resource, None).map(|(key, _)| key.clone()).collect();
        for inner in &objects {
            if self.store.get(inner).is_some_and(|stored| !stored.deleting)
                && let Some(target) = self.target_of(inner)
            {
                // What cannot be deleted now is tried again.
                let _ = self.delete_one(&target, &inner.name, &DeleteOptions::default());
            }
        }
        if self.store.list(resource, None).next().is_none() {
            self.set_status(key, |_| {
                vec![condition(
                    "Terminating",
                    "False",
                    "InstanceDeletionCompleted",
                    "removed all instances",
                )]
            });
            self.let_go(key);
        }
    }

    /// Takes the server's own finalizer away; the definition goes if it was the last.
    fn let_go(&mut self, key: &Key) {
        // Not by its status: that way metadata stays as it is.
        self.act(key, API_SERVER, "", |document| {
            let left = object::finalizers(document)
                .filter(|finalizer| *finalizer != CLEANUP)
                .map(str::to_owned)
                .collect();
            object::set_finalizers(document, left);
        });
    }

    fn set_status(&mut self, key: &Key, edit: impl FnOnce(&mut serde_json::Map<String, Value>) -> Vec<Value>) {
        let now = self.timestamp();
        self.act(key, API_SERVER, "status", |document| {
            let status = object::map_mut(object::map_mut(document).entry("status").or_insert_with(|| json!({})));
            let conditions = edit(status);
            let merged = merge_conditions(status.get("conditions"), conditions, &now);
            status.insert("conditions".into(), merged);
        });
    }

    /// A name that another definition of the group has.
    fn name_conflict(&self, key: &Key, document: &Value) -> Option<(&'static str, String)> {
        let group = document.pointer("/spec/group")?;
        let own = document.pointer("/spec/names")?;
        let others: Vec<Value> = self
            .store
            .list(key.resource, None)
            .filter(|(other, _)| *other != key)
            .map(|(_, stored)| stored.document())
            .filter(|other| other.pointer("/spec/group") == Some(group))
            .filter_map(|other| other.pointer("/status/acceptedNames").cloned())
            .collect();
        let text = |names: &Value, field: &str| names.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let short = |names: &Value| -> Vec<String> {
            names
                .get("shortNames")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect()
        };
        let resources: Vec<String> = others
            .iter()
            .flat_map(|names| [vec![text(names, "plural"), text(names, "singular")], short(names)].concat())
            .collect();
        let kinds: Vec<String> = others
            .iter()
            .flat_map(|names| [text(names, "kind"), text(names, "listKind")])
            .collect();
        let taken = |name: &str, used: &[String]| !name.is_empty() && used.iter().any(|used| used == name);
        let mut conflict = None;
        let mut judge = |reason, name: &str, used: &[String]| {
            if taken(name, used) {
                conflict = Some((reason, format!("\"{name}\" is already in use")));
            }
        };
        judge("PluralConflict", &text(own, "plural"), &resources);
        judge("SingularConflict", &text(own, "singular"), &resources);
        for name in short(own) {
            judge("ShortNamesConflict", &name, &resources);
        }
        judge("KindConflict", &text(own, "kind"), &kinds);
        judge("ListKindConflict", &text(own, "listKind"), &kinds);
        conflict
    }

    fn refuse_names(&mut self, key: &Key, (reason, message): (&'static str, String)) {
        self.set_status(key, |_| {
            vec![
                condition("NamesAccepted", "False", reason, &message),
                condition("Established", "False", "NotAccepted", "not all names are accepted"),
            ]
        });
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

fn has_condition(document: &Value, kind: &str) -> bool {
    let conditions = document.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type").is_some_and(|found| found == kind)
            && condition.get("status").is_some_and(|status| status == "True")
    })
}
