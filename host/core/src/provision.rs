//! What a Provision asks for: remotes, and a graph of steps on them. The shapes that people write.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A graph of steps and the remotes they run on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProvisionSpec {
    /// Free values for `when` and `${…}`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_object")]
    pub inputs: Map<String, Value>,
    /// Clusters the steps run on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub remotes: Vec<RemoteUse>,
    /// What is to be done. Steps without `needs` between them run at the same time.
    #[schemars(length(min = 1, max = 256))]
    pub steps: Vec<StepSpec>,
    /// ServiceAccount of this namespace that steps on the hub act as. Without it there are no steps on the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Nothing is run while true; deletion works all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// A cluster under the name by which steps know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteUse {
    /// Name within this provision. `hub` is taken.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// A RemoteCluster of the same namespace.
    #[serde(rename = "ref")]
    #[schemars(length(min = 1, max = 253))]
    pub reference: String,
}

/// One step: a plugin on a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepSpec {
    /// Name within this provision, a DNS label.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Steps that must be done first. Undone in the reverse order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub needs: Vec<String>,
    /// Where it runs: name of a remote of this provision, or `hub`. (Not `on`: kubectl reads YAML 1.1, where that is `true`.)
    #[schemars(length(min = 1, max = 63))]
    pub cluster: String,
    /// CEL over `inputs` and `steps.NAME.outputs` of the steps it needs. While false the step is skipped, or undone if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether the step may be left to go with its cluster, when both are deleted at once: its plugin is told so, and what it
    /// made there is not taken away object by object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background_deletion: bool,
    /// Name of a Plugin. Exactly one of `plugin` and `objects` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The plugin's settings; `${CEL}` within texts is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_value")]
    pub with: Option<Value>,
    /// Short form of the plugin `objects` with `{objects: […]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_objects")]
    pub objects: Option<Vec<Value>>,
}

fn free_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn free_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

fn free_objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 5000,
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    })
}
