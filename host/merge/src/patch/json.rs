//! JSON patch, RFC 6902, with the leniency of an API server.
//!
//! No library for it is used, because they keep to the standard: a server replaces a key that is not there, copies one
//! that is not there as null, and counts negative positions from the end of a list.

use serde_json::{Map, Value};

use super::{PatchError, go_kind};

/// Lists of operations that are longer are refused.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Why an operation does not fit, in words that a server keeps to itself.
type Misfit = String;

/// Applies a list of operations to an object.
///
/// # Errors
/// If it is no list of operations, is longer than [`MAX_JSON_PATCH_OPERATIONS`], or one of them does not fit the object.
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = operations(patch)?;
    if operations.len() > MAX_JSON_PATCH_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut out = object.clone();
    for operation in operations {
        operate(&mut out, operation).map_err(PatchError::Unprocessable)?;
    }
    Ok(out)
}

/// Members of operations that mean nothing, as strict validation names them.
#[must_use]
pub fn json_patch_unknown_fields(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    operations
        .flat_map(|(position, operation)| {
            let names = operation.as_object().into_iter().flat_map(Map::keys);
            names
                .filter(|name| !["op", "path", "from", "value"].contains(&name.as_str()))
                .map(move |name| format!("json patch unknown field \"[{position}].{name}\""))
        })
        .collect()
}

fn operations(patch: &Value) -> Result<Vec<&Map<String, Value>>, PatchError> {
    let refuse = |given: &Value, place: &str| {
        Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go {place}",
            go_kind(given)
        )))
    };
    let list = match patch {
        Value::Array(list) => list,
        Value::Null => return Ok(Vec::new()),
        other => return refuse(other, "value of type []handlers.jsonPatchOp"),
    };
    let mut operations = Vec::with_capacity(list.len());
    for operation in list {
        let Value::Object(operation) = operation else {
            return refuse(operation, "value of type handlers.jsonPatchOp");
        };
        for name in ["op", "path", "from"] {
            match operation.get(name) {
                None | Some(Value::String(_) | Value::Null) => {}
                Some(other) => return refuse(other, &format!("struct field jsonPatchOp.{name} of type string")),
            }
        }
        operations.push(operation);
    }
    Ok(operations)
}

fn text<'a>(operation: &'a Map<String, Value>, name: &str) -> Result<&'a str, Misfit> {
    let found = operation.get(name).and_then(Value::as_str);
    found.ok_or_else(|| format!("operation missing {name} field"))
}

fn operate(document: &mut Value, operation: &Map<String, Value>) -> Result<(), Misfit> {
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or("unknown");
    let path = || text(operation, "path");
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match kind {
        "add" => add(document, path()?, value()),
        "remove" => remove(document, path()?),
        "replace" => replace(document, path()?, value()),
        "test" => test(document, path()?, operation.get("value")),
        "move" => {
            let from = text(operation, "from")?;
            let moved = get(document, from)?.cloned().unwrap_or(Value::Null);
            remove(document, from)?;
            add(document, path()?, moved)
        }
        "copy" => {
            let copied = get(document, text(operation, "from")?)?.cloned().unwrap_or(Value::Null);
            add(document, path()?, copied)
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn decoded(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// The parts of a path: those of the container, and the key in it.
fn split(path: &str) -> Option<(impl Iterator<Item = String>, String)> {
    let (_, rest) = path.split_once('/')?;
    let (parents, key) = match rest.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, rest),
    };
    let parts = parents.into_iter().flat_map(|parents| parents.split('/')).map(decoded);
    Some((parts, decoded(key)))
}

fn missing(path: &str) -> Misfit {
    format!("operation does not apply: doc is missing path: {path}: missing value")
}

/// A position in a list of this length.
fn position(key: &str, length: usize) -> Result<usize, Misfit> {
    let index: i64 = key
        .parse()
        .map_err(|_| format!("value was not a proper array index: '{key}'"))?;
    let invalid = || format!("Unable to access invalid index: {index}");
    let from_end = usize::try_from(index.unsigned_abs()).ok().filter(|_| index < 0);
    match from_end {
        Some(from_end) => length.checked_sub(from_end).ok_or_else(invalid),
        None => usize::try_from(index).map_err(|_| invalid()),
    }
}

fn container<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), Misfit> {
    let (parts, key) = split(path).ok_or_else(|| missing(path))?;
    let mut found = document;
    for part in parts {
        found = match found {
            Value::Object(object) => object.get_mut(&part),
            Value::Array(items) => match position(&part, items.len()) {
                Ok(position) => items.get_mut(position),
                Err(_) => None,
            },
            _ => None,
        }
        .ok_or_else(|| missing(path))?;
    }
    if found.is_object() || found.is_array() {
        Ok((found, key))
    } else {
        Err(missing(path))
    }
}

/// What is at a path; nothing if only the last key is not there.
fn get<'a>(document: &'a mut Value, path: &str) -> Result<Option<&'a Value>, Misfit> {
    let (container, key) = container(document, path)?;
    match container {
        Value::Array(items) => {
            let position = position(&key, items.len())?;
            let found = items.get(position);
            found
                .map(Some)
                .ok_or_else(|| format!("Unable to access invalid index: {key}"))
        }
        other => Ok(other.get(&key)),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), Misfit> {
    let (container, key) = container(document, path)?;
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let position = position(&key, items.len() + 1)?;
            if position > items.len() {
                return Err(format!("Unable to access invalid index: {key}"));
            }
            items.insert(position, value);
        }
        Value::Object(object) => {
            object.insert(key, value);
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<(), Misfit> {
    let (container, key) = container(document, path)?;
    match container {
        Value::Array(items) => {
            let position = position(&key, items.len())?;
            if position >= items.len() {
                return Err(format!("Unable to access invalid index: {key}"));
            }
            items.remove(position);
        }
        Value::Object(object) if object.contains_key(&key) => {
            object.remove(&key);
        }
        _ => return Err(format!("Unable to remove nonexistent key: {key}: missing value")),
    }
    Ok(())
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), Misfit> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".into());
        }
        *document = value;
        return Ok(());
    }
    let (container, key) = container(document, path)?;
    match container {
        Value::Array(items) => {
            let position = position(&key, items.len())?;
            let slot = items.get_mut(position);
            *slot.ok_or_else(|| format!("Unable to access invalid index: {key}"))? = value;
        }
        Value::Object(object) => {
            object.insert(key, value);
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, wanted: Option<&Value>) -> Result<(), Misfit> {
    let wanted = wanted.unwrap_or(&Value::Null);
    let same = if path.is_empty() {
        document == wanted
    } else {
        get(document, path)?.unwrap_or(&Value::Null) == wanted
    };
    if same {
        Ok(())
    } else {
        Err(format!("testing value {path} failed: test failed"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_standard_refuses_and_a_server_does_is_done() {
        let object = json!({ "a": [1, 2, 3] });
        let patch = json!([
            { "op": "replace", "path": "/new", "value": 1 },
            { "op": "copy", "from": "/nothing", "path": "/null" },
            { "op": "remove", "path": "/a/-1" },
            { "op": "add", "path": "/a/-1", "value": 9 },
        ]);
        assert_eq!(
            json_patch(&object, &patch).unwrap(),
            json!({ "a": [1, 2, 9], "new": 1, "null": null })
        );
    }

    #[test]
    fn a_patch_that_is_too_long_is_refused_as_a_whole() {
        let operation = json!({ "op": "add", "path": "/a", "value": 1 });
        let patch: Value = std::iter::repeat_n(operation, MAX_JSON_PATCH_OPERATIONS + 1).collect();
        assert!(matches!(json_patch(&json!({}), &patch), Err(PatchError::TooLarge(_))));
    }

    #[test]
    fn members_that_mean_nothing_are_named() {
        let patch = json!([{ "op": "add", "path": "/a", "foo": 1 }]);
        assert_eq!(
            json_patch_unknown_fields(&patch),
            ["json patch unknown field \"[0].foo\""]
        );
    }
}
