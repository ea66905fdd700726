//! What a real API server 1.34 made of objects, and what this crate makes of them: one file of recordings a kind.

// A test ends at the first thing it did not expect.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::PathBuf;

use chandlery_kinds::{Fault, Kind, meta, of};
use serde_json::{Map, Value, json};

/// The recordings of a kind.
struct Truth {
    kind: &'static dyn Kind,
    name: String,
    namespaced: bool,
    recorded: Value,
}

fn truths() -> Vec<Truth> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/truth");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert_eq!(paths.len(), 21, "every kind whose objects are known has its recordings");
    paths
        .iter()
        .map(|path| {
            let recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            let (group, kind) = (recorded["group"].as_str().unwrap(), recorded["kind"].as_str().unwrap());
            Truth {
                kind: of(group, kind).unwrap(),
                name: kind.to_owned(),
                namespaced: recorded["namespaced"].as_bool().unwrap(),
                recorded,
            }
        })
        .collect()
}

impl Truth {
    fn entries(&self, part: &str) -> impl Iterator<Item = (usize, &Value)> {
        self.recorded[part].as_array().unwrap().iter().enumerate()
    }

    /// What the server does with a new object before it judges it.
    fn prepared(&self, sent: &Value, uid: &Value) -> (Value, Vec<Fault>) {
        let mut object = sent.clone();
        if self.namespaced {
            object["metadata"]["namespace"] = "truth".into();
        }
        drop_nulls(&mut object);
        self.kind.default(&mut object);
        if self.name == "Pod" && object["spec"]["serviceAccountName"].is_null() {
            // Admission has seen to it that a pod has an account.
            object["spec"]["serviceAccountName"] = "default".into();
            object["spec"]["serviceAccount"] = "default".into();
        }
        let faults = self.kind.settle(&mut object, None);
        object["metadata"]["uid"] = if uid.is_null() { "5".into() } else { uid.clone() };
        self.kind.prepare_create(&mut object);
        (object, faults)
    }

    /// What is wrong with an object; what cannot be settled keeps the server from looking further.
    fn judged(&self, (object, unsettled): &(Value, Vec<Fault>)) -> Vec<Fault> {
        if !unsettled.is_empty() {
            return unsettled.clone();
        }
        let name = |name: &str, prefix: bool| self.kind.validate_name(name, prefix);
        let mut faults = meta::validate(object, self.namespaced, &name);
        faults.extend(self.kind.validate(object));
        faults
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The object without what is empty: which empty fields are written is said by the structure of a kind, not by its rules.
fn substance(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().map(|(name, value)| (name.clone(), substance(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(substance).collect()),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) => false,
    }
}

/// Causes in an order that does not depend on that of maps.
fn sorted(causes: impl Iterator<Item = [String; 3]>) -> Vec<[String; 3]> {
    let mut causes: Vec<[String; 3]> = causes.collect();
    causes.sort();
    causes
}

fn recorded_causes(entry: &Value) -> Vec<[String; 3]> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let causes = entry["causes"].as_array().unwrap().iter();
    sorted(causes.map(|cause| [text(&cause["field"]), text(&cause["reason"]), text(&cause["message"])]))
}

fn own_causes(faults: Vec<Fault>) -> Vec<[String; 3]> {
    sorted(
        faults
            .into_iter()
            .map(|fault| [fault.field, fault.kind.reason().to_owned(), fault.message]),
    )
}

/// What one side says and the other does not.
fn difference(truth: &Truth, index: usize, own: &[[String; 3]], real: &[[String; 3]]) -> String {
    let only = |one: &[[String; 3]], other: &[[String; 3]]| {
        let count = |all: &[[String; 3]], cause: &[String; 3]| all.iter().filter(|known| *known == cause).count();
        let mut rest: Vec<_> = one
            .iter()
            .filter(|cause| count(one, cause) > count(other, cause))
            .cloned()
            .collect();
        rest.dedup();
        rest
    };
    format!(
        "{} {index}:\n  only own  {:#?}\n  only real {:#?}",
        truth.name,
        only(own, real),
        only(real, own)
    )
}

#[test]
fn a_new_object_is_stored_as_the_real_server_stores_it() {
    let mut wrong = Vec::new();
    for truth in truths() {
        for (index, entry) in truth.entries("created") {
            let mut stored = entry["stored"].clone();
            let prepared = truth.prepared(&entry["sent"], &stored["metadata"]["uid"]);
            let mut own = prepared.0.clone();
            truth.kind.default_stored(&mut own);
            for document in [&mut stored, &mut own] {
                let map = document.as_object_mut().unwrap();
                map.retain(|name, _| name != "kind" && name != "apiVersion");
                let metadata: &mut Map<String, Value> = map["metadata"].as_object_mut().unwrap();
                metadata.retain(|name, _| !matches!(name.as_str(), "uid" | "generation" | "namespace"));
                // What admission and allocation add is not recorded.
                if let Some(spec) = document["spec"].as_object_mut() {
                    spec.retain(|name, value| !name.starts_with("serviceAccount") || value != "default");
                    spec.retain(|name, _| !name.starts_with("ipFamil"));
                }
                // The caller has the time of this one.
                if let Some(condition) = document.pointer_mut("/status/conditions/0") {
                    condition["lastTransitionTime"] = Value::Null;
                }
            }
            let (own, stored) = (substance(&own), substance(&stored));
            if own != stored {
                wrong.push(format!("{} {index}:\n  own  {own}\n  real {stored}", truth.name));
            }
            let faults = truth.judged(&prepared);
            let object = prepared.0;
            if !faults.is_empty() {
                wrong.push(format!("{} {index} is refused: {faults:?}", truth.name));
            }
            let warnings = truth.kind.warnings(&object, None);
            let expected: Vec<&str> = entry["warnings"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            if warnings != expected {
                wrong.push(format!("{} {index} warns {warnings:?}, not {expected:?}", truth.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_new_object_is_refused_for_the_reasons_of_the_real_server() {
    let mut wrong = Vec::new();
    for truth in truths() {
        for (index, entry) in truth.entries("refused") {
            let object = truth.prepared(&entry["sent"], &Value::Null);
            let (own, real) = (own_causes(truth.judged(&object)), recorded_causes(entry));
            if own != real {
                wrong.push(difference(&truth, index, &own, &real));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_change_is_refused_for_the_reasons_of_the_real_server() {
    let mut wrong = Vec::new();
    for truth in truths() {
        for (index, entry) in truth.entries("changes") {
            let old = &entry["old"];
            let mut new = entry["sent"].clone();
            truth.kind.default(&mut new);
            let of_status = entry["subresource"] == json!("status");
            let unsettled = if of_status {
                Vec::new()
            } else {
                truth.kind.settle(&mut new, Some(old))
            };
            if of_status {
                truth.kind.prepare_status_update(&mut new, old);
            } else {
                truth.kind.prepare_update(&mut new, old);
            }
            let mut faults = meta::validate_update(&new, old);
            if !unsettled.is_empty() {
                faults.clear();
            }
            faults.extend(if !unsettled.is_empty() {
                unsettled
            } else if of_status {
                truth.kind.validate_status_update(&new, old)
            } else {
                truth.kind.validate_update(&new, old)
            });
            let (own, real) = (own_causes(faults), recorded_causes(entry));
            if own != real {
                wrong.push(difference(&truth, index, &own, &real));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_object_is_shown_as_the_real_server_shows_it() {
    let mut wrong = Vec::new();
    let mut kinds = 0;
    for truth in truths() {
        let mut rows = 0;
        for (index, entry) in truth.entries("rows") {
            rows += 1;
            let object = &entry["object"];
            let created: jiff::Timestamp = object["metadata"]["creationTimestamp"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            let now = created.as_second() + entry["age"].as_i64().unwrap();
            let own = Value::Array(truth.kind.row(object, now));
            if own != entry["cells"] {
                wrong.push(format!(
                    "{} {index}:\n  own  {own}\n  real {}",
                    truth.name, entry["cells"]
                ));
            }
            let columns = truth.kind.columns().unwrap();
            assert_eq!(
                columns.len(),
                own.as_array().unwrap().len(),
                "{} has a cell a column",
                truth.name
            );
        }
        kinds += usize::from(rows > 0);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(kinds >= 15, "rows of {kinds} kinds are recorded");
}
