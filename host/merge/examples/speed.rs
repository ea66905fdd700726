//! How long an apply takes, by what it changes: `cargo run --release -p chandlery-merge --example speed`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for the eye")]

use std::hint::black_box;
use std::time::Instant;

use chandlery_merge::{ApplyRequest, Managed, Schema, TypeTable, Writer, apply};
use serde_json::{Value, json};

const ROUNDS: u32 = 20_000;

fn request<'a>(schema: &'a Schema, live: &'a Value, managed: &'a Managed, wanted: &'a Value) -> ApplyRequest<'a> {
    ApplyRequest {
        schema,
        other_versions: &[],
        live,
        empty: live,
        live_managed: Some(managed),
        configuration: wanted,
        writer: Writer {
            manager: "speed",
            api_version: wanted.get("apiVersion").and_then(Value::as_str).unwrap_or_default(),
            subresource: "",
            time: "2026-01-01T00:00:00Z",
            reset_fields: None,
        },
        force: false,
    }
}

fn measure(name: &str, schema: &Schema, wanted: &Value, change: impl Fn(&mut Value, u32)) {
    let empty = json!({});
    let applied = apply(&request(schema, &empty, &Managed::default(), wanted)).unwrap();
    let (live, managed) = (applied.object.unwrap(), applied.managed);
    let variants: Vec<Value> = (0..2)
        .map(|round| {
            let mut variant = wanted.clone();
            change(&mut variant, round);
            variant
        })
        .collect();
    let begun = Instant::now();
    for variant in variants.iter().cycle().take(ROUNDS as usize) {
        black_box(apply(&request(schema, &live, &managed, variant)).unwrap());
    }
    let each = begun.elapsed() / ROUNDS;
    let size = wanted.to_string().len();
    println!("{name} of {size} bytes: {each:?}");
}

fn main() {
    let openapi: Value = serde_json::from_str(include_str!("../tests/data/openapi.json")).unwrap();
    let table = TypeTable::from_openapi_v3([&openapi]).unwrap();
    let data: serde_json::Map<_, _> = (0..40)
        .map(|entry| (format!("key-{entry}"), json!("v".repeat(36))))
        .collect();
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data });
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry/image:1", "args": ["--one", "--two=three"],
            "ports": [{ "containerPort": 80, "protocol": "TCP" }, { "containerPort": 443, "protocol": "TCP" }],
            "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }, { "name": "C", "value": "3" }],
            "resources": { "limits": { "cpu": "1", "memory": "1Gi" } },
            "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
        })
    };
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "a", "labels": { "app": "a", "tier": "b" } },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": {
                    "containers": [container("a"), container("b"), container("c"), container("d")],
                    "volumes": [{ "name": "v", "emptyDir": {} }],
                },
            },
        },
    });
    for (name, kind, version, group, wanted) in [
        ("ConfigMap", "ConfigMap", "v1", "", &map),
        ("Deployment", "Deployment", "v1", "apps", &deployment),
    ] {
        let schema = table.get(group, version, kind).unwrap();
        measure(&format!("nothing new, {name}"), &schema, wanted, |_, _| {});
        measure(&format!("one label, {name}"), &schema, wanted, |object, round| {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert(
                    "labels".into(),
                    json!({ "round": round.to_string(), "app": "a", "tier": "b" }),
                );
            }
        });
        measure(&format!("one field less, {name}"), &schema, wanted, |object, _| {
            if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
                data.remove("key-1");
            }
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                spec.remove("replicas");
            }
        });
    }
}
