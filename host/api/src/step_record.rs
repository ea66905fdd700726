//! StepRecord: receipt, inventory, outputs and memory of one step. Written by the host only.

use chandlery_core::StepName;
use chandlery_core::record::{Entry, Record};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the host keeps of one step: what it was run with, and what it must clean up.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "chandlery.dev",
    version = "v1alpha1",
    kind = "StepRecord",
    namespaced,
    category = "chandlery",
    shortname = "chstep",
    doc = "What Chandlery keeps of one step: what it was last run with, and what must be cleaned up. Written by Chandlery only.",
    printcolumn = r#"{"name":"Provision","type":"string","jsonPath":".spec.provision.name"}"#,
    printcolumn = r#"{"name":"Step","type":"string","jsonPath":".spec.record.step"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".spec.record.phase"}"#,
    printcolumn = r#"{"name":"Plugin","type":"string","jsonPath":".spec.record.receipt.plugin"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.record) != has(self.more)", "message": "either the record of a step, or more of its inventory"},
    {"rule": "self.provision == oldSelf.provision && (has(self.record) ? has(oldSelf.record) && self.record.step == oldSelf.record.step : has(oldSelf.more) && self.more.step == oldSelf.more.step && self.more.part == oldSelf.more.part)", "message": "a record never changes its step"}
]))]
pub struct StepRecordSpec {
    /// The Provision the step belongs to.
    pub provision: ProvisionRef,
    /// What is kept, with the first objects of the inventory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// Further objects of the inventory, where the step owns more than one object of etcd takes. Instead of `record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<More>,
}

/// A further part of a step's inventory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct More {
    /// Which step.
    #[schemars(with = "String")]
    pub step: StepName,
    /// Which part, from 1 in the order of the inventory; the record itself has the first objects.
    pub part: u32,
    /// The objects.
    pub inventory: Vec<Entry>,
}

/// Names a Provision for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionRef {
    /// Its name, in the record's namespace.
    pub name: String,
    /// Its UID.
    pub uid: String,
}
