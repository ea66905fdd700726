//! What is compiled from published schemas, and what follows when a schema changes.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use chandlery_merge::schema::{JsonKind, ListKind, SchemaError};
use chandlery_merge::{ApplyRequest, Managed, Schema, TypeTable, Writer, apply};
use serde_json::{Value, json};

fn table() -> TypeTable {
    let openapi: Value = serde_json::from_str(include_str!("data/openapi.json")).unwrap();
    TypeTable::from_openapi_v3([&openapi]).unwrap()
}

#[test]
fn a_recorded_table_is_the_table_it_was_recorded_from() {
    let recorded = serde_json::to_string(&table()).unwrap();
    let read: TypeTable = serde_json::from_str(&recorded).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), recorded);
    let service = read.get("", "v1", "Service").unwrap();
    let ports = service.property("spec").unwrap().property("ports").unwrap();
    assert_eq!(
        ports.list_kind(),
        Some(ListKind::Map(&["port".into(), "protocol".into()]))
    );
    assert_eq!(ports.items().unwrap().default_of("protocol"), Some(&json!("TCP")));
    let port = ports.items().unwrap().property("targetPort").unwrap();
    assert_eq!(port.json_kind(), JsonKind::IntOrText);
    assert!(
        service
            .property("spec")
            .unwrap()
            .property("selector")
            .unwrap()
            .is_atomic_map()
    );
}

#[test]
fn an_object_before_anything_is_put_into_it_has_its_structures() {
    let zero = table()
        .get("apps", "v1", "Deployment")
        .unwrap()
        .zero_object("apps/v1", "Deployment");
    assert_eq!(zero["status"], json!({}));
    assert_eq!(zero["spec"]["strategy"], json!({}));
    assert_eq!(zero["spec"].get("selector"), Some(&Value::Null));
    assert_eq!(zero["spec"]["template"]["spec"].get("containers"), Some(&Value::Null));
}

#[test]
fn fields_that_are_not_declared_are_named_by_their_path() {
    let schema = table().get("apps", "v1", "Deployment").unwrap();
    let mut object =
        json!({ "foo": 1, "spec": { "template": { "spec": { "containers": [{ "name": "a", "bar": {} }] } } } });
    let unknown: Vec<_> = schema.unknown_fields(&object).iter().map(ToString::to_string).collect();
    assert_eq!(
        unknown,
        [
            "unknown field \"foo\"",
            "unknown field \"spec.template.spec.containers[0].bar\""
        ]
    );
    schema.drop_unknown_fields(&mut object);
    assert_eq!(
        object,
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "a" }] } } } })
    );
}

#[test]
fn a_schema_that_cannot_be_merged_by_says_where() {
    let bad = |field: Value| {
        let schema =
            json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": { "x": field } } } });
        Schema::from_structural(&schema).unwrap_err()
    };
    let list = json!({ "type": "array", "x-kubernetes-list-type": "heap", "items": { "type": "string" } });
    assert_eq!(
        bad(list),
        SchemaError::ListType {
            at: "spec.x".into(),
            given: "\"heap\"".into()
        }
    );
    let list = json!({ "type": "array", "x-kubernetes-list-type": "map", "items": { "type": "object" } });
    assert_eq!(bad(list), SchemaError::MapKeys { at: "spec.x".into() });
}

#[test]
fn fields_of_a_map_or_list_that_became_one_value_are_owned_through_it() {
    let schema = |kind: &str| {
        let map =
            json!({ "type": "object", "x-kubernetes-map-type": kind, "additionalProperties": { "type": "string" } });
        let list_type = if kind == "atomic" { "atomic" } else { "set" };
        let list = json!({ "type": "array", "x-kubernetes-list-type": list_type, "items": { "type": "string" } });
        Schema::from_structural(&json!({
            "type": "object",
            "properties": { "spec": { "type": "object", "properties": { "map": map, "list": list, "text": { "type": "string" } } } },
        }))
        .unwrap()
    };
    let empty = json!({ "apiVersion": "merge.test/v1", "kind": "Thing" });
    let applied = |schema: &Schema, live: &Value, managed: &Managed, manager: &str, spec: Value| {
        let configuration =
            json!({ "apiVersion": "merge.test/v1", "kind": "Thing", "metadata": { "name": "a" }, "spec": spec });
        apply(&ApplyRequest {
            schema,
            other_versions: &[],
            live,
            empty: &empty,
            live_managed: Some(managed),
            configuration: &configuration,
            writer: Writer {
                manager,
                api_version: "merge.test/v1",
                subresource: "",
                time: "2026-01-01T00:00:00Z",
                reset_fields: None,
            },
            force: false,
        })
    };
    let granular = applied(
        &schema("granular"),
        &empty,
        &Managed::default(),
        "a",
        json!({ "map": { "x": "1" }, "list": ["x"] }),
    )
    .unwrap();
    let live = granular.object.unwrap();
    let other = applied(&schema("atomic"), &live, &granular.managed, "b", json!({ "text": "t" })).unwrap();
    let entries = other.managed.to_value();
    assert_eq!(entries[0]["manager"], "a");
    assert_eq!(
        entries[0]["fieldsV1"],
        json!({ "f:spec": { "f:map": {}, "f:list": {} } })
    );
    let refused = applied(
        &schema("atomic"),
        &live,
        &granular.managed,
        "b",
        json!({ "map": { "y": "1" } }),
    )
    .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.map"
    );
}

#[test]
fn managers_at_a_version_that_is_no_longer_served_are_forgotten() {
    let schema = Schema::deduced();
    let live = json!({
        "apiVersion": "merge.test/v1", "kind": "Thing",
        "metadata": { "name": "a", "managedFields": [{
            "manager": "old", "operation": "Update", "apiVersion": "merge.test/v0",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { "f:x": {} } },
        }] },
        "spec": { "x": 1 },
    });
    let applied = apply(&ApplyRequest {
        schema: &schema,
        other_versions: &[],
        live: &live,
        empty: &json!({}),
        live_managed: None,
        configuration: &json!({ "apiVersion": "merge.test/v1", "kind": "Thing", "metadata": { "name": "a" }, "spec": { "x": 2 } }),
        writer: Writer {
            manager: "new",
            api_version: "merge.test/v1",
            subresource: "",
            time: "2026-01-01T00:00:00Z",
            reset_fields: None,
        },
        force: false,
    })
    .unwrap();
    let entries = applied.managed.to_value();
    assert_eq!(entries.as_array().unwrap().len(), 1);
    assert_eq!(entries[0]["manager"], "new");
}

#[test]
fn what_nobody_owns_stays_when_an_owner_beside_it_lets_go() {
    let entry = |manager: &str, key: &str| {
        json!({
            "manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:data": { format!("f:{key}"): {} } },
        })
    };
    let schema = table().get("", "v1", "ConfigMap").unwrap();
    let live = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "a", "managedFields": [entry("a", "of-a"), entry("b", "of-b")] },
        "data": { "of-a": "1", "of-b": "1", "of-nobody": "1" },
    });
    let applied = apply(&ApplyRequest {
        schema: &schema,
        other_versions: &[],
        live: &live,
        empty: &json!({}),
        live_managed: None,
        configuration: &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }),
        writer: Writer {
            manager: "a",
            api_version: "v1",
            subresource: "",
            time: "2026-01-01T00:00:00Z",
            reset_fields: None,
        },
        force: false,
    })
    .unwrap();
    assert_eq!(
        applied.object.unwrap()["data"],
        json!({ "of-b": "1", "of-nobody": "1" })
    );
}
