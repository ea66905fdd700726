//! The controllers of a cluster, one step at a time: each looks at the world, does the next thing, and is asked again until
//! none has anything to do.

mod api_services;
pub(crate) mod definitions;
mod garbage;
mod jobs;
mod namespaces;
mod pods;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use smol_str::SmolStr;

use crate::object;
use crate::options::WriteOptions;
use crate::request::ResourcePath;
use crate::script::Script;
use crate::store::Key;
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
    /// When a controller will have something to do again without anybody writing.
    due: Option<Timestamp>,
    /// The Jobs of which a pod was deleted as their script says, by UID.
    pub(crate) replaced: imbl::OrdMap<String, ()>,
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
            self.pending.due = None;
            self.serve_definitions();
            self.tend_namespaces();
            self.tend_jobs();
            self.run_pods();
            self.tend_api_services();
            self.collect_garbage();
            if self.store.version() == before {
                self.pending.settled = Some(before);
                return;
            }
        }
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
