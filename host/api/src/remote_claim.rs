//! RemoteClaim: that a step, or a remote within, uses a remote. Written by the host only; `kubectl get remoteclaims` shows who holds what.

use chandlery_core::claim::Instance;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// That a step of a Provision or of another program's object, or a remote that is reached through it, uses a remote, and which host processes act on it.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "chandlery.dev",
    version = "v1alpha1",
    kind = "RemoteClaim",
    namespaced,
    category = "chandlery",
    shortname = "chclaim",
    doc = "That a step of a Provision or of another program's object, or a remote that is reached through it, uses a remote. Written by Chandlery only; the remote lives while claims on it exist.",
    printcolumn = r#"{"name":"Remote","type":"string","jsonPath":".spec.remote.name"}"#,
    printcolumn = r#"{"name":"Kind","type":"string","jsonPath":".spec.holder.kind"}"#,
    printcolumn = r#"{"name":"Holder","type":"string","jsonPath":".spec.holder.name"}"#,
    printcolumn = r#"{"name":"Step","type":"string","jsonPath":".spec.holder.step"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{"rule": "self.remote == oldSelf.remote && self.holder == oldSelf.holder", "message": "remote and holder of a claim never change"}]))]
pub struct RemoteClaimSpec {
    /// The remote that is used.
    pub remote: ClaimedRemote,
    /// Who uses it.
    pub holder: ClaimHolder,
    /// Host processes that act under this claim.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub instances: Vec<Instance>,
}

/// The remote of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedRemote {
    /// `metadata.name` of the RemoteCluster, in the claim's namespace.
    pub name: String,
    /// `metadata.uid` of the RemoteCluster.
    pub uid: String,
}

/// The holder of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimHolder {
    /// `Provision`, `RemoteCluster` for one that is reached through the remote, or the kind of another program's object.
    pub kind: String,
    /// Of another program's object: its `apiVersion` and the plural of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<ForeignKind>,
    /// Its name, in the claim's namespace.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Which of its steps; none for a RemoteCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// A kind that is not Chandlery's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForeignKind {
    /// `group/version`, or `v1`.
    pub api_version: String,
    /// Plural, as in a URL.
    pub resource: String,
}
