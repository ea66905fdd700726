//! Pruning: what the schema does not declare does not stay.

use serde_json::{Map, Value};

/// Prunes a whole object; its type and metadata are every object's.
pub(super) fn root(structure: &Value, document: &mut Value) {
    let Value::Object(map) = document else { return };
    let mut kept: Vec<(String, Value)> = Vec::new();
    for name in ["apiVersion", "kind", "metadata"] {
        if let Some(value) = map.remove(name) {
            kept.push((name.to_owned(), value));
        }
    }
    prune(structure, document);
    if let Value::Object(map) = document {
        map.extend(kept);
    }
}

fn prune(structure: &Value, value: &mut Value) {
    match value {
        Value::Array(items) => {
            if let Some(of) = structure.get("items") {
                items.iter_mut().for_each(|item| prune(of, item));
            }
        }
        Value::Object(map) => {
            if is_set(structure, "x-kubernetes-embedded-resource") {
                return embedded(structure, value);
            }
            let properties = structure.get("properties").and_then(Value::as_object);
            let additional = structure.get("additionalProperties");
            let preserves = is_set(structure, "x-kubernetes-preserve-unknown-fields");
            let takes_all = preserves || matches!(additional, Some(Value::Object(_) | Value::Bool(true)));
            map.retain(|name, _| takes_all || properties.is_some_and(|properties| properties.contains_key(name)));
            for (name, value) in map.iter_mut() {
                match (properties.and_then(|properties| properties.get(name)), additional) {
                    (Some(of), _) => prune(of, value),
                    (None, Some(of @ Value::Object(_))) => prune(of, value),
                    (None, _) => {}
                }
            }
        }
        _ => {}
    }
}

/// An object within an object keeps its type and its metadata.
fn embedded(structure: &Value, value: &mut Value) {
    let mut plain = structure.as_object().cloned().unwrap_or_default();
    plain.remove("x-kubernetes-embedded-resource");
    let mut kept: Map<String, Value> = Map::new();
    if let Value::Object(map) = value {
        for name in ["apiVersion", "kind", "metadata"] {
            if let Some(value) = map.remove(name) {
                kept.insert(name.to_owned(), value);
            }
        }
    }
    prune(&Value::Object(plain), value);
    if let Value::Object(map) = value {
        map.extend(kept);
    }
}

pub(super) fn is_set(structure: &Value, flag: &str) -> bool {
    structure.get(flag).and_then(Value::as_bool).unwrap_or_default()
}
