//! A custom kind in OpenAPI v3, as much of it as clients read: the schema, and which parameters a patch takes.

use serde_json::{Value, json};

use crate::catalog::Resource;
use crate::object::map_mut;

pub(super) fn add(resource: &Resource, version: &str, structure: &Value, document: &mut Value) {
    let definition = definition(resource, version);
    let mut schema = structure.clone();
    let group_version_kind =
        json!([{"group": resource.group.as_str(), "version": version, "kind": resource.kind.as_str()}]);
    let map = map_mut(&mut schema);
    map.insert("x-kubernetes-group-version-kind".into(), group_version_kind.clone());
    let properties = map_mut(map.entry("properties").or_insert_with(|| json!({})));
    properties.insert("apiVersion".into(), json!({"type": "string"}));
    properties.insert("kind".into(), json!({"type": "string"}));
    let metadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    properties.insert(
        "metadata".into(),
        json!({"allOf": [{"$ref": format!("#/components/schemas/{metadata}")}]}),
    );
    let document = map_mut(document);
    let components = map_mut(document.entry("components").or_insert_with(|| json!({})));
    let schemas = map_mut(components.entry("schemas").or_insert_with(|| json!({})));
    schemas.insert(metadata.into(), json!({"type": "object"}));
    schemas.insert(definition.clone(), schema);
    let place = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let path = format!("/apis/{}/{version}{place}/{}/{{name}}", resource.group, resource.plural);
    let parameters = ["dryRun", "fieldManager", "fieldValidation"]
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}));
    let kind = group_version_kind.get(0).cloned().unwrap_or_default();
    let operation = |action: &str| {
        json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{definition}")}}}}},
        })
    };
    let paths = map_mut(document.entry("paths").or_insert_with(|| json!({})));
    paths.insert(
        path,
        json!({"get": operation("get"), "put": operation("put"), "patch": operation("patch")}),
    );
}

/// `com.example.v1.Widget`
fn definition(resource: &Resource, version: &str) -> String {
    let mut domain: Vec<&str> = resource.group.split('.').collect();
    domain.reverse();
    format!("{}.{version}.{}", domain.join("."), resource.kind)
}
