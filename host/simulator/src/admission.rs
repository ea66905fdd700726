//! What the API server's own admission does to requests, beyond the rules of a kind.

use serde_json::{Value, json};

use crate::actors::definitions;
use crate::catalog::Resource;
use crate::delete::terminating;
use crate::object;
use crate::status::Failure;
use crate::store::Key;
use crate::world::{Target, World};
use crate::write::Change;

/// Namespaces that stay.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl World {
    /// What is created in a namespace needs one that is there and stays.
    pub(crate) fn admit_namespace(&self, target: &Target) -> Result<(), Failure> {
        let namespace = target.namespace();
        if namespace.is_empty() {
            return Ok(());
        }
        let key = self.key("", "namespaces", "", namespace);
        let stored = key
            .and_then(|key| self.store.get(&key))
            .ok_or_else(|| Failure::not_found("namespaces", "", namespace))?;
        if stored.deleting {
            let name = target.path.name.as_deref().unwrap_or_default();
            return Err(terminating(&target.resource, name, namespace));
        }
        Ok(())
    }

    /// Admission of a new object, before its rules.
    pub(crate) fn admit_create(&mut self, change: &Change<'_>, document: &mut Value) -> Result<(), Failure> {
        let resource = &change.target.resource;
        if resource.is("", "namespaces") {
            let name = object::name(document).to_owned();
            let labels = object::map_mut(
                object::metadata_mut(document)
                    .entry("labels")
                    .or_insert_with(|| json!({})),
            );
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
        if resource.is("", "pods") {
            self.admit_pod(change, document)?;
        }
        Ok(())
    }

    /// A pod runs as an account of its namespace, which must be there.
    fn admit_pod(&mut self, change: &Change<'_>, document: &mut Value) -> Result<(), Failure> {
        let namespace = change.target.namespace().to_owned();
        let spec = object::map_mut(object::map_mut(document).entry("spec").or_insert_with(|| json!({})));
        let account = spec
            .get("serviceAccountName")
            .and_then(Value::as_str)
            .filter(|account| !account.is_empty())
            .unwrap_or("default")
            .to_owned();
        spec.insert("serviceAccountName".into(), account.clone().into());
        spec.insert("serviceAccount".into(), account.clone().into());
        spec.entry("priority").or_insert_with(|| 0.into());
        spec.entry("preemptionPolicy")
            .or_insert_with(|| "PreemptLowerPriority".into());
        tolerate(spec);
        let Some(found) = self.read("", "serviceaccounts", &namespace, &account) else {
            let why = format!(
                "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
            );
            return Err(Failure::forbidden("pods", "", object::name(document), &why));
        };
        let spec = object::map_mut(object::map_mut(document).entry("spec").or_insert_with(|| json!({})));
        let mounts = spec
            .get("automountServiceAccountToken")
            .or_else(|| found.get("automountServiceAccountToken"))
            .and_then(Value::as_bool)
            .unwrap_or(true);
        if mounts {
            let name = format!("kube-api-access-{}", self.ids.suffix());
            mount_token(spec, &name);
        }
        Ok(())
    }

    pub(crate) fn admit_delete(&self, resource: &Resource, key: &Key) -> Result<(), Failure> {
        if resource.is("", "namespaces") && IMMORTAL.contains(&key.name.as_str()) {
            return Err(Failure::forbidden(
                "namespaces",
                "",
                &key.name,
                "this namespace may not be deleted",
            ));
        }
        Ok(())
    }

    /// What follows at once from a removal.
    pub(crate) fn after_removal(&mut self, resource: &Resource, document: &Value) {
        if resource.is(definitions::GROUP, definitions::PLURAL) {
            self.withdraw(document);
        }
    }
}

/// Admission of a change.
pub(crate) fn admit_update(resource: &Resource, new: &mut Value, old: &Value) {
    if !resource.is("", "pods") {
        return;
    }
    let spec = object::map_mut(object::map_mut(new).entry("spec").or_insert_with(|| json!({})));
    tolerate(spec);
    for field in ["priority", "preemptionPolicy"] {
        if let (None, Some(before)) = (spec.get(field), old.pointer(&format!("/spec/{field}"))) {
            spec.insert(field.to_owned(), before.clone());
        }
    }
}

/// A pod tolerates the trouble of a node for five minutes.
fn tolerate(spec: &mut serde_json::Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = tolerations.iter().any(|toleration| {
            let text = |name: &str| toleration.get(name).and_then(Value::as_str).unwrap_or_default();
            (text("key") == key || text("key").is_empty()) && matches!(text("effect"), "NoExecute" | "")
        });
        if !tolerates {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

fn mount_token(spec: &mut serde_json::Map<String, Value>, name: &str) {
    const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = object::map_mut(container)
                .entry("volumeMounts")
                .or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if !mounts
                .iter()
                .any(|mount| mount.get("mountPath").is_some_and(|path| path == PLACE))
            {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": PLACE}));
                mounted = true;
            }
        }
    }
    if !mounted {
        return;
    }
    let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]}}));
    }
}
