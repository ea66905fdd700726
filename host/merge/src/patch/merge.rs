//! JSON merge patch, RFC 7386.

use serde_json::{Map, Value};

use super::{PatchError, go_kind};

/// Merges a patch into an object: null removes, maps are merged, all else replaces.
///
/// # Errors
/// If the patch is not an object.
pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Err(PatchError::BadRequest("Invalid JSON Patch".into())),
        other => {
            return Err(PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go_kind(other)
            )));
        }
    };
    let mut out = object.clone();
    match &mut out {
        Value::Object(object) => merge(object, patch),
        other => *other = without_nulls(&Value::Object(patch.clone())),
    }
    Ok(out)
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, wanted) in patch {
        match (object.get_mut(name), wanted) {
            (_, Value::Null) => {
                object.remove(name);
            }
            (Some(Value::Object(object)), Value::Object(patch)) => merge(object, patch),
            // A list that replaces an object comes as it is; whatever replaces anything else loses its nulls.
            (Some(Value::Object(_)), other) => {
                object.insert(name.clone(), other.clone());
            }
            (_, other) => {
                object.insert(name.clone(), without_nulls(other));
            }
        }
    }
}

/// Fields that are null are left out; items that are null stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_remove_and_never_arrive() {
        let object = json!({ "a": { "b": 1, "c": 2 }, "d": [1], "e": { "f": 1 } });
        let patch =
            json!({ "a": { "b": null, "x": { "y": null, "z": 1 } }, "d": [null, { "q": null }], "e": [{ "q": null }] });
        assert_eq!(
            merge_patch(&object, &patch).unwrap(),
            json!({ "a": { "c": 2, "x": { "z": 1 } }, "d": [null, {}], "e": [{ "q": null }] })
        );
    }
}
