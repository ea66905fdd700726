//! Defaults of a structural schema.

use serde_json::Value;

use super::prune::is_set;

/// Fills in what is missing and has a default.
pub(super) fn fill(structure: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, of) in structure
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                let Some(default) = of.get("default") else { continue };
                // A null where none may be is as good as nothing, if there is something better.
                let is_missing = map
                    .get(name)
                    .is_none_or(|value| value.is_null() && !is_set(of, "nullable"));
                if is_missing {
                    map.insert(name.clone(), default.clone());
                }
            }
            let properties = structure.get("properties");
            let additional = structure.get("additionalProperties").filter(|of| of.is_object());
            for (name, value) in map {
                if let Some(of) = properties.and_then(|properties| properties.get(name)).or(additional) {
                    if value.is_null()
                        && !is_set(of, "nullable")
                        && additional == Some(of)
                        && let Some(default) = of.get("default")
                    {
                        *value = default.clone();
                    }
                    fill(of, value);
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = structure.get("items") else { return };
            for item in items {
                if item.is_null()
                    && !is_set(of, "nullable")
                    && let Some(default) = of.get("default")
                {
                    *item = default.clone();
                }
                fill(of, item);
            }
        }
        _ => {}
    }
}
