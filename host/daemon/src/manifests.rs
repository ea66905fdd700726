//! What an operator applies to run the daemon: namespace, identity, rights, Deployment. Made from what the code does.

use serde_json::{Value, json};

use crate::access::{Access, HUB_ACCESS, OWN_NAMESPACE_ACCESS, REGISTRATION_ACCESS};

/// What may differ between installations.
#[derive(Debug, Clone)]
pub struct ManifestOptions {
    /// Namespace of the daemon.
    pub namespace: String,
    /// Its image.
    pub image: String,
    /// How many stand by beside the one that leads, itself included.
    pub replicas: u32,
    /// Namespaces of Argo CDs with which remotes may be registered.
    pub argocd: Vec<String>,
}

impl Default for ManifestOptions {
    fn default() -> Self {
        Self {
            namespace: "chandlery-system".into(),
            image: concat!("chandlery:", env!("CARGO_PKG_VERSION")).into(),
            replicas: 2,
            argocd: Vec::new(),
        }
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
/// Refuses remotes that would be reached through themselves. What it asks is the path that the daemon tells in their status; what
/// comes together too quickly for that is refused by the daemon.
const WAY_POLICY: &str = "chandlery-remote-way";

fn rules(table: &[Access]) -> Vec<Value> {
    table
        .iter()
        .map(|access| {
            let mut rule = json!({"apiGroups": [access.group], "resources": access.resources, "verbs": access.verbs});
            if let Some(map) = rule.as_object_mut().filter(|_| !access.names.is_empty()) {
                map.insert("resourceNames".into(), json!(access.names));
            }
            rule
        })
        .collect()
}

/// All objects, in an order in which they can be applied.
pub fn manifests(options: &ManifestOptions) -> Vec<Value> {
    let ManifestOptions {
        namespace,
        image,
        replicas,
        argocd,
    } = options;
    let name = "chandlery";
    let labels = json!({"app.kubernetes.io/name": name});
    let subject = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {
            "app.kubernetes.io/name": name, "pod-security.kubernetes.io/enforce": "restricted"}}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace, "labels": labels}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": rules(HUB_ACCESS)}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}, "subjects": subject}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "rules": rules(OWN_NAMESPACE_ACCESS)}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}, "subjects": subject}),
        json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": WAY_POLICY, "labels": labels}, "spec": {
            "paramKind": {"apiVersion": "chandlery.dev/v1alpha1", "kind": "RemoteCluster"},
            "matchConstraints": {"resourceRules": [{"apiGroups": ["chandlery.dev"], "apiVersions": ["*"], "resources": ["remoteclusters"],
                "operations": ["CREATE"]}]},
            "matchConditions": [{"name": "is-within-another", "expression": "has(object.spec.via)"}],
            "validations": [{
                "expression": "params.metadata.name != object.spec.via || !has(params.status) || !has(params.status.path) || \
                    !(object.metadata.name in params.status.path)",
                "messageExpression": "'remote ' + object.metadata.name + ' would be reached through itself: ' + object.spec.via + \
                    ' is reached through ' + params.status.path.join(', ')",
                "reason": "Invalid",
            }],
        }}),
        // Asked once for each RemoteCluster of the namespace.
        json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": WAY_POLICY, "labels": labels}, "spec": {
            "policyName": WAY_POLICY, "validationActions": ["Deny"],
            "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"},
        }}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": name,
                "terminationGracePeriodSeconds": 30,
                "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": name,
                    "image": image,
                    "args": ["daemon", "--cache-dir=/var/cache/chandlery", "--listen=0.0.0.0:8080"],
                    "env": [
                        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                        {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                    ],
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "livenessProbe": {"httpGet": {"path": "/livez", "port": "http"}},
                    "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
                    "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "cache", "mountPath": "/var/cache/chandlery"}, {"name": "tmp", "mountPath": "/tmp"}],
                }],
                "volumes": [{"name": "cache", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
            }},
        }}),
    ];
    for place in argocd {
        let metadata = json!({"name": "chandlery-registrations", "namespace": place, "labels": labels});
        objects.push(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules(REGISTRATION_ACCESS)}));
        objects.push(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "chandlery-registrations"}, "subjects": subject}));
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_names_no_wildcard_and_lists_no_secret() {
        for access in HUB_ACCESS.iter().chain(OWN_NAMESPACE_ACCESS) {
            assert!(!access.resources.contains(&"*") && !access.verbs.contains(&"*") && !access.why.is_empty());
            assert!(!access.resources.contains(&"secrets") || access.verbs == ["get"]);
        }
    }
}
