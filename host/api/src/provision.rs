//! Provision: a graph of steps and the remotes they run on.

use chandlery_core::provision::ProvisionSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The spec as the object carries it; its shape is [`ProvisionSpec`].
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "chandlery.dev",
    version = "v1alpha1",
    kind = "Provision",
    namespaced,
    status = "ProvisionStatus",
    category = "chandlery",
    shortname = "chprov",
    doc = "A graph of steps that bring remotes to a declared state, and take it away again on deletion.",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Steps","type":"string","jsonPath":".status.stepsDone"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(transparent)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.steps.all(s, has(s.plugin) != has(s.objects))", "message": "each step has exactly one of plugin and objects"}
]))]
pub struct ProvisionObjectSpec(
    /// What is asked for.
    pub ProvisionSpec,
);

/// Where a Provision stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionStatus {
    /// Generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`; `Reconciling` and `Stalled` while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Steps done of all, as `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_done: Option<String>,
    /// One row per step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepStatus>,
}

/// Where one step stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub cluster: String,
    /// `Done`, `Skipped`, `Pending`, `Waiting`, `Failed` or `Removing`.
    pub state: String,
    /// One CamelCase word.
    pub reason: String,
    /// One sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when it stands there.
    pub since: Time,
    /// How often in a row it had been tried when this row was written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// How many objects it owns.
    pub objects: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
