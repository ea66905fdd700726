//! The garbage collector: an object goes when the last of its owners is gone, by UID.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CONTROLLER_MANAGER, News};
use crate::delete::{FOREGROUND, ORPHAN};
use crate::object;
use crate::options::{DeleteOptions, Propagation};
use crate::store::Key;
use crate::world::World;

/// What an owner reference leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// An object of that UID.
    There { waits_for_dependents: bool },
    /// Nothing, or an object of another UID.
    Gone,
    /// A reference that cannot be judged, such as from the cluster into a namespace: what it holds is let be.
    Unknown,
}

impl World {
    pub(super) fn collect_garbage(&mut self, news: &News) {
        let deleting: Vec<Key> = self.store.deleting().cloned().collect();
        for key in deleting {
            self.process_deletion(&key);
        }
        let owned: BTreeSet<Key> = if news.everything {
            self.store.owned().cloned().collect()
        } else {
            news.dependents.clone()
        };
        for key in owned {
            self.judge_dependent(&key);
        }
    }

    /// An object that waits for the collector to see to its dependents.
    fn process_deletion(&mut self, key: &Key) {
        let Some(stored) = self.store.get(key) else { return };
        let document = stored.document();
        let uid = stored.uid.clone();
        let has = |wanted: &str| object::finalizers(&document).any(|finalizer| finalizer == wanted);
        if has(ORPHAN) {
            for dependent in self.store.dependents_of(&uid) {
                self.act(&dependent, CONTROLLER_MANAGER, "", |document| {
                    drop_owner(document, &uid)
                });
            }
            self.drop_finalizer(key, ORPHAN);
        } else if has(FOREGROUND) {
            let dependents = self.store.dependents_of(&uid);
            let blocking = dependents
                .iter()
                .filter(|dependent| self.blocks(dependent, &uid))
                .count();
            for dependent in &dependents {
                if self.store.get(dependent).is_some_and(|stored| !stored.deleting) {
                    self.collect(dependent, Some(Propagation::Foreground));
                }
            }
            let left = self
                .store
                .dependents_of(&uid)
                .iter()
                .filter(|dependent| self.blocks(dependent, &uid))
                .count();
            if left == 0 && (blocking == 0 || left < blocking) {
                self.drop_finalizer(key, FOREGROUND);
            }
        }
    }

    fn blocks(&self, dependent: &Key, owner: &str) -> bool {
        let Some(stored) = self.store.get(dependent) else {
            return false;
        };
        object::owners(&stored.document()).any(|reference| {
            reference.get("uid").is_some_and(|uid| uid == owner)
                && reference
                    .get("blockOwnerDeletion")
                    .and_then(Value::as_bool)
                    .unwrap_or_default()
        })
    }

    fn judge_dependent(&mut self, key: &Key) {
        let Some(stored) = self.store.get(key).filter(|stored| !stored.deleting) else {
            return;
        };
        let document = stored.document();
        let mut owners: Vec<(String, Owner)> = Vec::new();
        for reference in object::owners(&document) {
            let uid = reference
                .get("uid")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            owners.push((uid, self.owner(key, reference)));
        }
        if owners.iter().any(|(_, owner)| *owner == Owner::Unknown) {
            return;
        }
        let solid = owners.iter().any(|(_, owner)| {
            *owner
                == Owner::There {
                    waits_for_dependents: false,
                }
        });
        let waiting = owners.iter().any(|(_, owner)| {
            *owner
                == Owner::There {
                    waits_for_dependents: true,
                }
        });
        let gone: Vec<&String> = owners
            .iter()
            .filter(|(_, owner)| *owner == Owner::Gone)
            .map(|(uid, _)| uid)
            .collect();
        if solid {
            let superfluous: Vec<String> = owners
                .iter()
                .filter(|(_, owner)| {
                    *owner
                        != Owner::There {
                            waits_for_dependents: false,
                        }
                })
                .map(|(uid, _)| uid.clone())
                .collect();
            if !superfluous.is_empty() {
                self.act(key, CONTROLLER_MANAGER, "", |document| {
                    superfluous.iter().for_each(|uid| drop_owner(document, uid))
                });
            }
        } else if waiting {
            let has_dependents = !self.store.dependents_of(&stored.uid.clone()).is_empty();
            self.collect(key, has_dependents.then_some(Propagation::Foreground));
        } else if !gone.is_empty() {
            let has = |wanted: &str| object::finalizers(&document).any(|finalizer| finalizer == wanted);
            let propagation = if has(ORPHAN) {
                Propagation::Orphan
            } else if has(FOREGROUND) {
                Propagation::Foreground
            } else {
                Propagation::Background
            };
            self.collect(key, Some(propagation));
        }
    }

    fn owner(&self, dependent: &Key, reference: &Value) -> Owner {
        let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        let (group, _) = crate::catalog::split(text("apiVersion"));
        let Some(resource) = self.resource_by_kind(group, text("kind")) else {
            return Owner::Unknown;
        };
        if resource.namespaced && dependent.namespace.is_empty() {
            return Owner::Unknown;
        }
        let namespace = if resource.namespaced {
            dependent.namespace.clone()
        } else {
            smol_str::SmolStr::default()
        };
        let key = Key {
            resource: resource.id,
            namespace,
            name: text("name").into(),
        };
        match self.store.get(&key) {
            Some(stored) if stored.uid == text("uid") => {
                let waits_for_dependents =
                    stored.deleting && object::finalizers(&stored.document()).any(|finalizer| finalizer == FOREGROUND);
                Owner::There { waits_for_dependents }
            }
            _ => Owner::Gone,
        }
    }

    fn collect(&mut self, key: &Key, propagation: Option<Propagation>) {
        let Some(target) = self.target_of(key) else { return };
        let options = DeleteOptions {
            uid: self.store.get(key).map(|stored| stored.uid.to_string()),
            propagation,
            ..DeleteOptions::default()
        };
        // What cannot be deleted now is tried again.
        let _ = self.delete_one(&target, &key.name, &options);
    }

    fn drop_finalizer(&mut self, key: &Key, finalizer: &str) {
        self.act(key, CONTROLLER_MANAGER, "", |document| {
            let left = object::finalizers(document)
                .filter(|known| *known != finalizer)
                .map(str::to_owned)
                .collect();
            object::set_finalizers(document, left);
        });
    }
}

fn drop_owner(document: &mut Value, uid: &str) {
    let left: Vec<Value> = object::owners(document)
        .filter(|reference| reference.get("uid").is_none_or(|found| found != uid))
        .cloned()
        .collect();
    object::set(document, "ownerReferences", (!left.is_empty()).then(|| json!(left)));
}
