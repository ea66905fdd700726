//! Namespaces: what each comes with, and how it ends.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{CONTROLLER_MANAGER, News};
use crate::object;
use crate::options::DeleteOptions;
use crate::store::Key;
use crate::world::World;

const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_NOTE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

impl World {
    pub(super) fn tend_namespaces(&mut self, news: &News) {
        let Some(namespaces) = self.resource("", "namespaces").map(|resource| resource.id) else {
            return;
        };
        let keys: Vec<(Key, bool)> = self
            .store
            .list(namespaces, None)
            .filter(|(key, _)| news.everything || news.namespaces.contains(&key.name))
            .map(|(key, stored)| (key.clone(), stored.deleting))
            .collect();
        for (key, ends) in keys {
            if ends {
                self.end_namespace(&key);
            } else {
                self.furnish(&key.name);
            }
        }
    }

    /// The account and the certificates that are in every namespace.
    fn furnish(&mut self, namespace: &str) {
        let missing = |world: &Self, plural: &str, name: &str| {
            world
                .key("", plural, namespace, name)
                .is_some_and(|key| world.store.get(&key).is_none())
        };
        if missing(self, "configmaps", ROOT_CA) {
            let document = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "namespace": namespace, "annotations": {"kubernetes.io/description": ROOT_CA_NOTE}},
                "data": {"ca.crt": self.signer.certificate()},
            });
            self.make("", "configmaps", CONTROLLER_MANAGER, document);
        }
        if missing(self, "serviceaccounts", "default") {
            let document = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}});
            self.make("", "serviceaccounts", CONTROLLER_MANAGER, document);
        }
    }

    /// Puts the certificate of now into every namespace.
    pub(crate) fn renew_certificates(&mut self) {
        let Some(resource) = self.resource("", "configmaps").map(|resource| resource.id) else {
            return;
        };
        let keys: Vec<Key> = self
            .store
            .list(resource, None)
            .map(|(key, _)| key)
            .filter(|key| key.name == ROOT_CA)
            .cloned()
            .collect();
        let certificate = self.signer.certificate().to_owned();
        for key in keys {
            self.act(&key, CONTROLLER_MANAGER, "", |document| {
                object::map_mut(document).insert("data".into(), json!({"ca.crt": certificate}));
            });
        }
    }

    fn end_namespace(&mut self, key: &Key) {
        let namespace = key.name.clone();
        let inside: Vec<Key> = self
            .store
            .all()
            .map(|(key, _)| key)
            .filter(|key| key.namespace == namespace)
            .cloned()
            .collect();
        for inner in &inside {
            if self.store.get(inner).is_some_and(|stored| !stored.deleting)
                && let Some(target) = self.target_of(inner)
            {
                // What cannot be deleted now is tried again.
                let _ = self.delete_one(&target, &inner.name, &DeleteOptions::default());
            }
        }
        let left: Vec<Key> = inside.into_iter().filter(|key| self.store.get(key).is_some()).collect();
        let conditions = self.conditions(&left);
        let now = self.timestamp();
        self.act(key, CONTROLLER_MANAGER, "status", |namespace| {
            let old = namespace.pointer("/status/conditions").cloned();
            let status = object::map_mut(object::map_mut(namespace).entry("status").or_insert_with(|| json!({})));
            status.insert("conditions".into(), merge_conditions(old.as_ref(), conditions, &now));
        });
        if left.is_empty() {
            self.act(key, CONTROLLER_MANAGER, "finalize", |namespace| {
                if let Some(finalizers) = namespace.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
                    finalizers.retain(|finalizer| finalizer != "kubernetes");
                }
            });
        }
    }

    /// What a namespace that cannot end yet says of it.
    fn conditions(&self, left: &[Key]) -> Vec<Value> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
        for key in left {
            if let Some(resource) = self.resource_by_id(key.resource) {
                *counts
                    .entry(format!("{}.{}", resource.plural, resource.group))
                    .or_default() += 1;
            }
            let document = self.store.get(key).map(|stored| stored.document()).unwrap_or_default();
            for finalizer in object::finalizers(&document) {
                *finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
        let remain: Vec<String> = counts
            .iter()
            .map(|(resource, count)| format!("{resource} has {count} resource instances"))
            .collect();
        let holders: Vec<String> = finalizers
            .iter()
            .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
            .collect();
        let condition = |kind: &str, status: &str, reason: &str, message: String| json!({"type": kind, "status": status, "reason": reason, "message": message});
        let content = if remain.is_empty() {
            ("False", "ContentRemoved", "All content successfully removed".to_owned())
        } else {
            (
                "True",
                "SomeResourcesRemain",
                format!("Some resources are remaining: {}", remain.join(", ")),
            )
        };
        let held = if holders.is_empty() {
            (
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            )
        } else {
            let holders = holders.join(", ");
            (
                "True",
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {holders}"),
            )
        };
        vec![
            condition(
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered".into(),
            ),
            condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed".into(),
            ),
            condition(
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization".into(),
            ),
            condition("NamespaceContentRemaining", content.0, content.1, content.2),
            condition("NamespaceFinalizersRemaining", held.0, held.1, held.2),
        ]
    }
}

/// New conditions over old ones: the time of a condition is when its status last changed.
pub(super) fn merge_conditions(old: Option<&Value>, new: Vec<Value>, now: &str) -> Value {
    let mut merged: Vec<Value> = old.and_then(Value::as_array).cloned().unwrap_or_default();
    for mut condition in new {
        let kind = condition.get("type").cloned();
        let existing = merged.iter_mut().find(|known| known.get("type") == kind.as_ref());
        let since = existing
            .as_ref()
            .filter(|known| known.get("status") == condition.get("status"))
            .and_then(|known| known.get("lastTransitionTime").cloned())
            .unwrap_or_else(|| now.into());
        object::map_mut(&mut condition).insert("lastTransitionTime".into(), since);
        match existing {
            Some(known) => *known = condition,
            None => merged.push(condition),
        }
    }
    Value::Array(merged)
}
