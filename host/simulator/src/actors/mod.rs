//! The controllers of a cluster, one step at a time: each looks at the world, does the next thing, and is asked again until
//! none has anything to do.

mod api_services;
pub(crate) mod definitions;
mod garbage;
mod jobs;
mod namespaces;
mod pods;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use smol_str::SmolStr;

use crate::object;
use crate::options::WriteOptions;
use crate::request::ResourcePath;
use crate::script::Script;
use crate::store::{Happened, Key};
use crate::world::{Target, World};
use crate::write::Change;

/// What controllers remember between steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    /// Which definition, in which generation, is served at a group and plural.
    pub(crate) catalogued: imbl::OrdMap<(SmolStr, SmolStr), (String, i64)>,
    /// When definitions will be served, by UID.
    pub(crate) establishing: imbl::OrdMap<String, Timestamp>,
    /// The version of the store up to which all controllers have nothing to do until the time below.
    settled: Option<u64>,
    /// The version up to which what happened was looked at.
    seen: Option<u64>,
    /// When a controller will have something to do again without anybody writing.
    due: Option<Timestamp>,
    /// The Jobs of which a pod was deleted as their script says, by UID.
    pub(crate) replaced: imbl::OrdMap<String, ()>,
}

/// What the controllers have to look at.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// All there is: nobody remembers what happened, or it may concern anything.
    pub(crate) everything: bool,
    /// The definitions.
    pub(crate) definitions: bool,
    /// These namespaces.
    pub(crate) namespaces: BTreeSet<SmolStr>,
    /// These objects, because of their owners.
    pub(crate) dependents: BTreeSet<Key>,
}

/// Who the controllers are to those who read managed fields.
pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const API_SERVER: &str = "kube-apiserver";

/// A world in which controllers never come to rest is a fault of a controller; nobody waits for it.
const MAX_ROUNDS: usize = 1_000;

impl World {
    /// Lets the controllers act until none has anything left to do at this time.
    pub fn settle(&mut self) {
        for _ in 0..MAX_ROUNDS {
            let before = self.store.version();
            if self.pending.settled == Some(before) && self.pending.due.is_none_or(|due| self.now < due) {
                return;
            }
            let news = self.news();
            self.pending.seen = Some(before);
            self.pending.due = None;
            self.serve_definitions(&news);
            self.tend_namespaces(&news);
            self.tend_jobs();
            self.run_pods();
            self.tend_api_services();
            self.collect_garbage(&news);
            if self.store.version() == before {
                self.pending.settled = Some(before);
                return;
            }
        }
    }

    /// What happened since it was looked at last.
    fn news(&self) -> News {
        let place = |group: &str, plural: &str| self.resource(group, plural).map(|resource| resource.id);
        let definitions = place(definitions::GROUP, definitions::PLURAL);
        let (namespaces, maps) = (place("", "namespaces"), place("", "configmaps"));
        let accounts = place("", "serviceaccounts");
        let events = self.pending.seen.and_then(|seen| self.store.events_after(seen));
        let Some(events) = events else {
            return News {
                everything: true,
                ..News::default()
            };
        };
        let is_due = self.pending.due.is_some_and(|due| self.now >= due);
        let mut news = News {
            definitions: is_due,
            ..News::default()
        };
        for event in events {
            let resource = Some(event.key.resource);
            let is_gone = event.happened == Happened::Deleted;
            if resource == definitions {
                // What it defines may be an owner that could not be judged before.
                news.definitions = true;
                news.everything |= !is_gone && event.before.is_some();
            }
            if resource == namespaces {
                news.namespaces.insert(event.key.name.clone());
            } else if is_gone && (resource == maps || resource == accounts) {
                news.namespaces.insert(event.key.namespace.clone());
            }
            if !event.object.owners.is_empty() {
                news.dependents.insert(event.key.clone());
            }
            if is_gone || event.object.deleting {
                news.dependents.extend(self.store.dependents_of(&event.object.uid));
            }
        }
        for key in self.store.deleting() {
            news.definitions |= Some(key.resource) == definitions;
            if Some(key.resource) == namespaces {
                news.namespaces.insert(key.name.clone());
            }
        }
        news
    }

    /// From now on, this is how Jobs and APIServices fare.
    pub fn script(&mut self, script: Script) {
        self.script = Arc::new(script);
        self.pending.settled = None;
        self.settle();
    }

    /// Asks to be looked at again at that time, if nothing happens before.
    pub(crate) fn wake_at(&mut self, time: Timestamp) {
        self.pending.due = Some(self.pending.due.map_or(time, |due| due.min(time)));
    }

    /// When something will happen by itself.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.pending.due
    }

    /// The path to an object, for a controller that goes to it like any client.
    pub(crate) fn target_of(&self, key: &Key) -> Option<Target> {
        let resource = Arc::clone(self.resource_by_id(key.resource)?);
        let version = resource.versions.first()?.name.to_string();
        let path = ResourcePath {
            group: resource.group.to_string(),
            version,
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.to_string()),
            resource: resource.plural.to_string(),
            name: Some(key.name.to_string()),
            subresource: None,
        };
        Some(Target { resource, path })
    }

    /// Changes an object as a controller does: with all rules of an update, and as a manager of its own.
    pub(crate) fn act(&mut self, key: &Key, manager: &str, subresource: &str, edit: impl FnOnce(&mut Value)) {
        let Some(target) = self.target_of(key) else { return };
        let Ok(version) = target.version() else { return };
        let Some(old) = self.live(key, &target.resource, version) else {
            return;
        };
        let mut new = old.clone();
        edit(&mut new);
        let mut change = Change {
            target: &target,
            version,
            subresource,
            options: WriteOptions::default(),
            manager: manager.to_owned(),
        };
        let managed = self.managed_after_update(&change, &old, &new);
        managed.write_to(&mut new);
        // A controller whose write is refused looks again later.
        let _ = self.replace(&mut change, key.clone(), &old, new, &managed);
    }

    /// Makes an object as a controller does, of that name or with a generated one; one that is there already stays.
    pub(crate) fn make(&mut self, group: &str, plural: &str, manager: &str, mut document: Value) {
        let Some(key) = self.key(group, plural, object::namespace(&document), object::name(&document)) else {
            return;
        };
        if self.store.get(&key).is_some() {
            return;
        }
        let Some(target) = self.target_of(&key) else { return };
        let Ok(version) = target.version() else { return };
        if self.settle_structure(&mut document, &target.resource, version).is_err() {
            return;
        }
        let mut change = Change {
            target: &target,
            version,
            subresource: "",
            options: WriteOptions::default(),
            manager: manager.to_owned(),
        };
        let zero = self.empty(&target.resource, version);
        let managed = self.managed_after_update(&change, &zero, &document);
        managed.write_to(&mut document);
        // As above.
        let _ = self.insert(&mut change, document);
    }
}

/// A time that stands in a document.
fn time_of(document: &Value, pointer: &str) -> Option<Timestamp> {
    document.pointer(pointer)?.as_str()?.parse().ok()
}
