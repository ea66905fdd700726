//! The same objects twice: asked for by Provisions, and as kubectl would apply them itself.

use serde_json::{Value, json};

/// The namespace of the Provisions in the hub, and of all objects in the remote.
pub(super) const NAMESPACE: &str = "bench";
pub(super) const REMOTE: &str = "east";
pub(super) const SECRET: &str = "east-kubeconfig";
/// Objects of one Provision.
const OBJECTS: usize = 3;

/// Namespace, RemoteCluster and Plugin, with the one right that is needed.
pub(super) fn surroundings(digest: &str) -> Vec<Value> {
    let ours = "chandlery.dev/v1alpha1";
    vec![
        namespace(),
        json!({"apiVersion": ours, "kind": "RemoteCluster", "metadata": {"name": REMOTE, "namespace": NAMESPACE},
            "spec": {"source": {"secretRef": {"name": SECRET}}}}),
        json!({"apiVersion": ours, "kind": "Plugin", "metadata": {"name": "objects"},
            "spec": {"source": {"file": {"path": "objects.wasm"}}, "digest": digest, "grants": {"remote": [
                {"apiGroups": [""], "resources": ["configmaps"], "namespaces": [NAMESPACE], "verbs": ["get", "create", "patch"]}]}}}),
    ]
}

pub(super) fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// So many Provisions of one step.
pub(super) fn provisions(count: usize) -> Vec<Value> {
    let one = |index: usize| {
        json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "Provision",
            "metadata": {"name": format!("p{index}"), "namespace": NAMESPACE},
            "spec": {"remotes": [{"name": REMOTE, "ref": REMOTE}],
                "steps": [{"name": "objects", "cluster": REMOTE, "objects": objects("p", index)}]}})
    };
    (0..count).map(one).collect()
}

/// What so many Provisions ask for, under other names.
pub(super) fn twins(count: usize) -> Vec<Value> {
    (0..count).flat_map(|index| objects("twin", index)).collect()
}

fn objects(prefix: &str, index: usize) -> Vec<Value> {
    let one = |object: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("{prefix}{index}-{object}"), "namespace": NAMESPACE},
            "data": {"text": "the quick brown fox jumps over the lazy dog".repeat(10)}})
    };
    (0..OBJECTS).map(one).collect()
}
