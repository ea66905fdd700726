//! What the API server's own admission does to requests, beyond the rules of a kind.

use chandlery_kinds::{Fault, FaultKind};
use serde_json::{Value, json};

use crate::actors::definitions;
use crate::catalog::Resource;
use crate::delete::terminating;
use crate::object;
use crate::request::Call;
use crate::status::{Cause, Failure};
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
    pub(crate) fn admit_create(
        &mut self,
        call: Option<&Call>,
        change: &Change<'_>,
        document: &mut Value,
    ) -> Result<(), Failure> {
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
        if resource.is("rbac.authorization.k8s.io", "rolebindings")
            || resource.is("rbac.authorization.k8s.io", "clusterrolebindings")
        {
            // Escalation is judged only for users who are not administrators, and is not simulated for them.
            let _ = call;
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

    /// The last hand on a new object that is valid.
    pub(crate) fn complete_create(&mut self, change: &Change<'_>, document: &mut Value) -> Result<(), Failure> {
        if change.target.resource.is("", "services") {
            return self.allocate_address(change, document);
        }
        Ok(())
    }

    /// The last hand on an update that is valid.
    pub(crate) fn complete_update(&mut self, change: &Change<'_>, new: &mut Value, old: &Value) -> Result<(), Failure> {
        if change.target.resource.is("", "services") && change.subresource.is_empty() {
            let had_address = old
                .pointer("/spec/clusterIP")
                .and_then(Value::as_str)
                .is_some_and(|address| !address.is_empty());
            let is_external = new.pointer("/spec/type").and_then(Value::as_str) == Some("ExternalName");
            if !had_address && !is_external {
                return self.allocate_address(change, new);
            }
        }
        Ok(())
    }

    /// A Service gets the next address that nobody has.
    fn allocate_address(&mut self, change: &Change<'_>, document: &mut Value) -> Result<(), Failure> {
        let kind = document
            .pointer("/spec/type")
            .and_then(Value::as_str)
            .unwrap_or("ClusterIP")
            .to_owned();
        if kind == "ExternalName" {
            return Ok(());
        }
        let resource = &change.target.resource;
        let taken: Vec<(Option<String>, Vec<i64>)> = self
            .store
            .list(resource.id, None)
            .map(|(_, stored)| {
                let document = stored.document();
                let address = document
                    .pointer("/spec/clusterIP")
                    .and_then(Value::as_str)
                    .map(str::to_owned);
                let ports = document
                    .pointer("/spec/ports")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten();
                (
                    address,
                    ports
                        .filter_map(|port| port.get("nodePort").and_then(Value::as_i64))
                        .collect(),
                )
            })
            .collect();
        let is_taken = |address: &str| taken.iter().any(|(known, _)| known.as_deref() == Some(address));
        let name = object::name(document).to_owned();
        let spec = object::map_mut(object::map_mut(document).entry("spec").or_insert_with(|| json!({})));
        let wanted = spec
            .get("clusterIP")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let address = match wanted.as_str() {
            "None" => "None".to_owned(),
            "" => (1..255)
                .map(|last| format!("10.0.0.{last}"))
                .find(|address| !is_taken(address))
                .ok_or_else(|| Failure::unclassified("failed to allocate a serviceIP: range is full"))?,
            wanted if is_taken(wanted) => {
                let fault = Fault {
                    kind: FaultKind::Invalid,
                    field: "spec.clusterIPs".to_owned(),
                    message: format!(
                        "Invalid value: [\"{wanted}\"]: failed to allocate IP {wanted}: provided IP is already allocated"
                    ),
                };
                let cause = Cause::new(fault.kind.reason(), &fault.field, fault.message);
                return Err(Failure::invalid(&resource.kind, &resource.group, &name, vec![cause]));
            }
            wanted => wanted.to_owned(),
        };
        spec.insert("clusterIPs".into(), json!([address]));
        spec.insert("clusterIP".into(), address.into());
        spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
        spec.entry("ipFamilyPolicy").or_insert_with(|| "SingleStack".into());
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            let mut used: Vec<i64> = taken.into_iter().flat_map(|(_, ports)| ports).collect();
            for port in spec
                .get_mut("ports")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                let has_one = port
                    .get("nodePort")
                    .and_then(Value::as_i64)
                    .is_some_and(|port| port != 0);
                if let Some(free) = (30_000..32_768).find(|free| !used.contains(free)).filter(|_| !has_one) {
                    used.push(free);
                    object::map_mut(port).insert("nodePort".into(), free.into());
                }
            }
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

    /// What follows at once from a write.
    pub(crate) fn after_write(&mut self, _resource: &Resource, _document: &Value) {}

    /// What follows at once from a removal.
    pub(crate) fn after_removal(&mut self, resource: &Resource, document: &Value) {
        if resource.is(definitions::GROUP, definitions::PLURAL) {
            self.withdraw(document);
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
