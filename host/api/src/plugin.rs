//! Plugin: a component by digest, what it may do, and who may use it.

use std::collections::BTreeMap;

use chandlery_core::grant::GrantRule;
use chandlery_core::limits::LimitsSpec;
use chandlery_core::task::Rule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A WebAssembly component that provisions, and what it may do.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "chandlery.dev",
    version = "v1alpha1",
    kind = "Plugin",
    status = "PluginStatus",
    category = "chandlery",
    shortname = "chplugin",
    doc = "A WebAssembly component that provisions, pinned by digest, with what it may do.",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Plugin","type":"string","jsonPath":".status.name"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.version"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Digest","type":"string","jsonPath":".spec.digest","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginSpec {
    /// Where the component's bytes are. Exactly one kind of source.
    pub source: PluginSource,
    /// SHA-256 of the component (after unpacking), `sha256:` and 64 hex digits. Other bytes are refused.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// What it may do. Nothing when absent.
    #[serde(default)]
    pub grants: Grants,
    /// Whose Provisions may use it; those of all namespaces when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// What one call may use.
    #[serde(default)]
    pub limits: LimitsSpec,
}

/// Where a component's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{"rule": "has(self.configMap) != has(self.file)", "message": "give exactly one of configMap and file"}]))]
pub struct PluginSource {
    /// Keys of a ConfigMap, joined in order, unpacked if gzip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSource>,
    /// A file in the daemon's plugin directory; only where it was started with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSource>,
}

/// Keys of one ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMapSource {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Keys of `binaryData`, in the order in which their bytes follow each other.
    #[schemars(length(min = 1, max = 64))]
    pub keys: Vec<String>,
}

/// A file of the plugin directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileSource {
    /// Path within the plugin directory; may not leave it.
    #[schemars(length(min = 1, max = 255))]
    pub path: String,
}

/// What a plugin may do, on remotes and on the hub apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Grants {
    /// On remotes. There the remote's credential is the outer bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub remote: Vec<GrantRule>,
    /// On the hub. There the Provision's ServiceAccount is the outer bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub hub: Vec<GrantRule>,
}

/// Whose Provisions may use a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllowedNamespaces {
    /// Labels of the namespaces; an empty selector is all of them.
    pub selector: LabelSelector,
}

/// What became of a Plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`, `Verified` (the digest), `Compatible` (imports and exports), and `InUse` while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Name by its own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version by its own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// One sentence by its own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Digest that is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What the component imports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
    /// What the component exports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<String>,
    /// What it says it may ask for. Decides nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules_schema")]
    pub needs: Vec<Rule>,
}

fn rules_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let texts = serde_json::json!({"type": "array", "items": {"type": "string"}});
    schemars::json_schema!({"type": "array", "items": {"type": "object",
        "properties": {"apiGroups": texts, "resources": texts, "verbs": texts}}})
}

impl AllowedNamespaces {
    /// Whether a namespace with these labels is among them.
    ///
    /// # Errors
    /// One sentence if the selector has an operator there is not.
    pub fn allows(&self, labels: &BTreeMap<String, String>) -> Result<bool, String> {
        let selector: kube::core::Selector = self
            .selector
            .clone()
            .try_into()
            .map_err(|error| format!("allowedNamespaces: {error}"))?;
        Ok(kube::core::SelectorExt::matches(&selector, labels))
    }
}
