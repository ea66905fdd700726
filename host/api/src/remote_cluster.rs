//! RemoteCluster: a cluster that Chandlery may provision into, by a kubeconfig in a Secret.

use chandlery_core::claim::Instance;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cluster that Chandlery may provision into.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "chandlery.dev",
    version = "v1alpha1",
    kind = "RemoteCluster",
    namespaced,
    status = "RemoteClusterStatus",
    category = "chandlery",
    shortname = "chremote",
    doc = "A cluster that Chandlery may provision into, by a kubeconfig in a Secret.",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.kubernetesVersion"}"#,
    printcolumn = r#"{"name":"Endpoint","type":"string","jsonPath":".status.endpoint.host"}"#,
    printcolumn = r#"{"name":"Via","type":"string","jsonPath":".spec.via","priority":1}"#,
    printcolumn = r#"{"name":"Claims","type":"integer","jsonPath":".status.claims"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.registration) || (has(self.controller) && self.controller)", "message": "only the remote's controller registers it: registration needs controller: true"},
    {"rule": "(has(self.whenUnreachable) && self.whenUnreachable == 'Abandon') == has(self.abandonAfter)", "message": "whenUnreachable: Abandon and abandonAfter go together"},
    {"rule": "has(self.registration) == has(oldSelf.registration) && (!has(self.registration) || self.registration.argocd.__namespace__ == oldSelf.registration.argocd.__namespace__)", "message": "where a remote is registered never changes: delete the RemoteCluster and make it anew"},
    {"rule": "has(self.via) == has(self.source.secretRef.__namespace__)", "message": "via and source.secretRef.namespace go together: without via the Secret is in the RemoteCluster's own namespace"},
    {"rule": "has(self.via) == has(oldSelf.via) && (!has(self.via) || self.via == oldSelf.via)", "message": "the remote through which another is reached never changes: delete the RemoteCluster and make it anew"}
]))]
pub struct RemoteClusterSpec {
    /// Where the kubeconfig is.
    pub source: RemoteSource,
    /// Another RemoteCluster of this namespace, in whose cluster the Secret lives: a cluster within a cluster. While this one
    /// exists, the other is not torn down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub via: Option<String>,
    /// Context of the kubeconfig; its `current-context` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub context: Option<String>,
    /// Whether Chandlery owns the remote's registration. Who only uses a remote never registers it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub controller: bool,
    /// Where the remote is registered from the first claim on it until after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<RegistrationSpec>,
    /// What becomes of steps that are to be taken away while it is out of reach: they wait (the default), or what they have
    /// there is given up after `abandonAfter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unreachable: Option<WhenUnreachable>,
    /// How long it must have been out of reach before what is on it is given up: a number with s, m, h or d, such as `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9]{1,6}[smhd]$"))]
    pub abandon_after: Option<String>,
}

/// What becomes of what is on a remote that is out of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnreachable {
    /// It is waited for.
    Wait,
    /// It is given up after `abandonAfter`, and recorded.
    Abandon,
}

/// Where a remote is registered. Exactly one is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistrationSpec {
    /// As a declarative cluster Secret of Argo CD.
    pub argocd: ArgoCdSpec,
}

/// A cluster of Argo CD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArgoCdSpec {
    /// Namespace of Argo CD. What lets the daemon in there is printed by `chandlery manifests --argocd-namespace`.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Name of the cluster as Argo CD shows it; the RemoteCluster's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
}

/// Where a kubeconfig is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteSource {
    /// A Secret of the RemoteCluster's namespace, or with `via` one of the other remote's.
    pub secret_ref: SecretKeyRef,
}

/// One key of one Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its key. Cluster API writes `value`, vcluster `config`.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// Its namespace, in the cluster of `via` and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

fn default_key() -> String {
    "value".to_owned()
}

/// What is known of a remote.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteClusterStatus {
    /// Generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`; `CredentialExpires` while the credential in use has no more than seven days left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Where its API server is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
    /// Names of the remotes on the way to it from the hub, its own the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 33))]
    pub path: Vec<String>,
    /// `major.minor.patch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// UID of its `kube-system` namespace, as first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// SHA-256 of the credential in use, cut to 16 hex digits: tells rotations apart and tells nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_hash: Option<String>,
    /// When the credential in use ends, where it says so: the earlier of client certificate and token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_expires: Option<Time>,
    /// `Draining` while its registration is being removed after the last claim; then nobody may begin to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RemotePhase>,
    /// Since when it has been out of reach; absent while it is in reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Time>,
    /// When what is on it was given up. That is for good: nothing runs on it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned_at: Option<Time>,
    /// What steps had on it when it was given up, or was another cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["provision", "step"]))]
    pub left_behind: Vec<LeftBehind>,
    /// Its registration, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<String>,
    /// Host processes that are writing its registration just now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub registrars: Vec<Instance>,
    /// How many claims there are on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<i64>,
}

/// What one step left on a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftBehind {
    /// UID of the Provision.
    pub provision: String,
    /// Name of the step.
    pub step: String,
    /// How many objects.
    pub count: u32,
    /// The first of them, as `apiVersion Kind namespace/name`.
    #[schemars(length(max = 50))]
    pub objects: Vec<String>,
}

/// What of a remote's life fences its use, beside its deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RemotePhase {
    /// Its registration is being removed.
    Draining,
}

/// Where an API server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}
