//! What a real API server of 1.34 answered to sequences of requests, and what this crate makes of the same ones.
//!
//! Each step starts from the object the server had, so that what is not of this crate (defaults, controllers, generated
//! metadata) comes from the record and does not add up.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use chandlery_merge::patch::{PatchError, json_patch, merge_patch, strategic_merge_patch};
use chandlery_merge::{
    ApplyError, ApplyRequest, FieldSet, Managed, Schema, TypeTable, UpdateRequest, Writer, apply, update,
};
use serde_json::{Value, json};

const TRUTH: &str = include_str!("data/truth.json");
const OPENAPI: &str = include_str!("data/openapi.json");

struct World {
    table: TypeTable,
    thing: Schema,
    main_resets: FieldSet,
    status_resets: FieldSet,
    nothing: FieldSet,
}

impl World {
    fn new(truth: &Value) -> Self {
        let openapi: Value = serde_json::from_str(OPENAPI).unwrap();
        Self {
            table: TypeTable::from_openapi_v3([&openapi]).unwrap(),
            thing: Schema::from_structural(&truth["schema"]).unwrap(),
            main_resets: FieldSet::of_names([&["status"][..]]),
            status_resets: FieldSet::of_names([&["spec"][..]]),
            nothing: FieldSet::of_names([]),
        }
    }

    fn schema(&self, kind: &str) -> (Schema, &'static str) {
        match kind {
            "Thing" => (self.thing.clone(), "merge.test/v1"),
            "ThingV2" => (self.thing.clone(), "merge.test/v2"),
            "Deployment" => (self.table.get("apps", "v1", kind).unwrap(), "apps/v1"),
            _ => (self.table.get("", "v1", kind).unwrap(), "v1"),
        }
    }

    fn resets(&self, kind: &str, subresource: &str) -> &FieldSet {
        match (kind, subresource) {
            ("ConfigMap", _) => &self.nothing,
            (_, "") => &self.main_resets,
            ("Thing" | "ThingV2", _) => &self.status_resets,
            _ => &self.nothing,
        }
    }
}

/// The object without what a server puts into it.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in [
            "managedFields",
            "resourceVersion",
            "generation",
            "uid",
            "creationTimestamp",
            "namespace",
        ] {
            metadata.remove(field);
        }
        // Metadata is of a server's own types, also that of custom resources.
        metadata.retain(|_, value| !is_nothing(value));
    }
    if let Some(ports) = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut) {
        for port in ports {
            port.as_object_mut().unwrap().entry("protocol").or_insert(json!("TCP"));
        }
    }
    object
}

/// Whether a server's own types would leave it out.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}

/// What defaults add is no difference, nor what a server's own types leave out or write as text.
fn is_within(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Null, theirs) => is_nothing(theirs),
        (Value::Object(ours), Value::Object(theirs)) => ours.iter().all(|(name, value)| match theirs.get(name) {
            None => is_nothing(value),
            Some(theirs) => is_within(value, theirs),
        }),
        (Value::Number(ours), Value::String(theirs)) => ours.to_string() == *theirs,
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(one, other)| is_within(one, other))
        }
        _ => ours == theirs,
    }
}

fn managers(object: &Value) -> Value {
    object.pointer("/metadata/managedFields").cloned().unwrap_or(json!([]))
}

/// The time the server gave the manager of a step, if it gave any.
fn time_of<'a>(answer: &'a Value, manager: &str, operation: &str) -> Option<&'a str> {
    let entries = answer.pointer("/metadata/managedFields")?.as_array()?;
    let times = entries.iter().filter(|entry| {
        entry["manager"] == manager && entry["operation"] == operation || entry["manager"] == "before-first-apply"
    });
    times.filter_map(|entry| entry["time"].as_str()).max()
}

fn check_apply(world: &World, context: &str, kind: &str, step: &Value, live: &Value) {
    let (schema, version) = world.schema(kind);
    let (answer, code) = (&step["answer"], step["code"].as_u64().unwrap());
    let subresource = step["subresource"].as_str().unwrap_or_default();
    let manager = step["manager"].as_str().unwrap();
    let others = [("merge.test/v1", &world.thing), ("merge.test/v2", &world.thing)];
    let result = apply(&ApplyRequest {
        schema: &schema,
        other_versions: &others,
        live,
        empty: &schema.zero_object(version, step["body"]["kind"].as_str().unwrap()),
        live_managed: None,
        configuration: &step["body"],
        writer: Writer {
            manager,
            api_version: version,
            subresource,
            time: time_of(answer, manager, "Apply").unwrap_or("2026-12-01T00:12:01Z"),
            reset_fields: Some(world.resets(kind, subresource)),
        },
        force: step["force"] == true,
    });
    match (code, result) {
        (200 | 201, Ok(applied)) => {
            assert_eq!(applied.managed.to_value(), managers(answer), "{context}: managers");
            let ours = bare(applied.object.as_ref().unwrap_or(live));
            if ["ConfigMap", "Thing", "ThingV2"].contains(&kind) {
                let (mut ours, mut theirs) = (ours, bare(answer));
                // Versions of one structure differ in nothing else.
                for object in [&mut ours, &mut theirs] {
                    object.as_object_mut().unwrap().remove("apiVersion");
                }
                if kind == "ConfigMap" {
                    settle_nulls(&mut ours);
                }
                // The main resource keeps its status, whatever is applied to it.
                if let Some(status) = theirs.get("status").filter(|_| subresource.is_empty()) {
                    ours["status"] = status.clone();
                }
                assert_eq!(ours, theirs, "{context}: object");
            } else {
                assert!(is_within(&ours, &bare(answer)), "{context}: object\n{ours}\n{answer}");
            }
        }
        // What is merged is judged by others.
        (422, Ok(_)) => {}
        (409, Err(ApplyError::Conflicts { message, conflicts })) => {
            assert_eq!(answer["message"], message, "{context}");
            let causes: Value = conflicts
                .iter()
                .map(|conflict| {
                    json!({ "reason": "FieldManagerConflict", "message": conflict.message(), "field": conflict.field })
                })
                .collect();
            assert_eq!(sorted(&answer["causes"]), sorted(&causes), "{context}");
        }
        (400, Err(ApplyError::BadRequest(message))) | (500, Err(ApplyError::Typed(message))) => {
            // A server reports several mismatches in no order.
            let lines = |message: &str| {
                message
                    .lines()
                    .map(str::to_owned)
                    .collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(lines(answer["message"].as_str().unwrap()), lines(&message), "{context}");
        }
        (_, result) => panic!("{context}: the server said {code} {answer}, this is {result:?}"),
    }
}

fn sorted(causes: &Value) -> Vec<String> {
    let mut causes: Vec<_> = causes.as_array().unwrap().iter().map(Value::to_string).collect();
    causes.sort();
    causes
}

/// Null in a map of texts is an empty text to a server's own types, and nothing elsewhere.
fn settle_nulls(object: &mut Value) {
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        data.values_mut()
            .filter(|value| value.is_null())
            .for_each(|value| *value = json!(""));
    }
    object.as_object_mut().unwrap().retain(|_, value| !value.is_null());
}

fn patched(step: &Value, live: &Value, schema: &Schema) -> Option<Result<Value, PatchError>> {
    let body = &step["body"];
    match step["how"].as_str().unwrap() {
        "json" => Some(json_patch(live, body)),
        "merge" => Some(merge_patch(live, body)),
        "strategic" => Some(strategic_merge_patch(live, body, schema)),
        _ => None,
    }
}

fn check_update(world: &World, context: &str, kind: &str, step: &Value, live: &Value) {
    let (schema, version) = world.schema(kind);
    let (answer, code) = (&step["answer"], step["code"].as_u64().unwrap());
    let subresource = step["subresource"].as_str().unwrap_or_default();
    let manager = step["manager"].as_str().unwrap();
    let mut sent = step["body"].pointer("/metadata/managedFields").cloned();
    // No body at all is refused before it is a patch.
    if step["body"].is_null() {
        return;
    }
    let mut asked = step["body"].clone();
    if let Some(result) = patched(step, live, &schema) {
        match (code, result) {
            (200, Ok(mut ours)) => {
                sent = ours.pointer("/metadata/managedFields").cloned();
                ours["apiVersion"] = answer["apiVersion"].clone();
                schema.drop_unknown_fields(&mut ours);
                asked = ours.clone();
                // A subresource keeps the rest of the object as it is, whatever the patch says.
                let ours = if subresource.is_empty() {
                    bare(&ours)
                } else {
                    json!({ subresource: ours[subresource] })
                };
                assert!(is_within(&ours, &bare(answer)), "{context}: object\n{ours}\n{answer}");
            }
            (422, Ok(_)) => {}
            (422, Err(PatchError::Unprocessable(_))) => {}
            (400, Err(PatchError::BadRequest(message))) | (500, Err(PatchError::Internal(message))) => {
                assert_eq!(answer["message"], message, "{context}");
            }
            (_, result) => panic!("{context}: the server said {code} {answer}, this is {result:?}"),
        }
    }
    if code >= 300 {
        return;
    }
    // Ownership is settled before an endpoint puts back what it does not let change.
    let mut new = answer.clone();
    let put_back = if subresource.is_empty() { "status" } else { "spec" };
    if kind.starts_with("Thing") {
        let object = new.as_object_mut().unwrap();
        object.remove(put_back);
        object.extend(asked.get(put_back).map(|asked| (put_back.to_owned(), asked.clone())));
    }
    let metadata = new["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    // Metadata of a custom resource loses what is empty before anyone sees it.
    let sent = sent.filter(|sent| !kind.starts_with("Thing") || !is_nothing(sent));
    metadata.extend(sent.map(|sent| ("managedFields".to_owned(), sent)));
    let others = [("merge.test/v1", &world.thing), ("merge.test/v2", &world.thing)];
    let managed = update(&UpdateRequest {
        schema: &schema,
        other_versions: &others,
        live,
        live_managed: None,
        new: &new,
        writer: Writer {
            manager,
            api_version: version,
            subresource,
            time: time_of(answer, manager, "Update").unwrap_or("2026-12-01T00:12:01Z"),
            reset_fields: Some(world.resets(kind, subresource)),
        },
    });
    assert_eq!(managed.to_value(), managers(answer), "{context}: managers");
    assert_eq!(
        Managed::of_object(answer).unwrap(),
        managed,
        "{context}: managers as read"
    );
}

#[test]
fn the_answers_are_those_of_a_real_server() {
    let truth: Value = serde_json::from_str(TRUTH).unwrap();
    let world = World::new(&truth);
    let (mut steps, mut differing) = (0, 0);
    for case in truth["cases"].as_array().unwrap() {
        let case_kind = case["kind"].as_str().unwrap();
        let mut live: Option<Value> = None;
        for (position, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let kind = step["kind"].as_str().unwrap_or(case_kind);
            let context = format!(
                "{}, step {position}: {} by {}",
                case["name"], step["how"], step["manager"]
            );
            if step["before"].is_object() {
                live = Some(step["before"].clone());
            }
            let (schema, version) = world.schema(kind);
            let mut before = live.clone().unwrap_or_else(|| schema.zero_object(version, case_kind));
            before["apiVersion"] = json!(version);
            let check = std::panic::AssertUnwindSafe(|| {
                if step["how"] == "apply" {
                    check_apply(&world, &context, kind, step, &before);
                } else {
                    check_update(&world, &context, kind, step, &before);
                }
            });
            // One report of all that differs says more than the first difference.
            differing += usize::from(std::panic::catch_unwind(check).is_err());
            if step["code"].as_u64().unwrap() < 300 {
                live = Some(step["answer"].clone());
            }
            steps += 1;
        }
    }
    assert_eq!(differing, 0, "of {steps} steps");
    assert!(steps > 150, "only {steps} steps are recorded");
}
