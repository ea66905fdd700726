//! Short ways into JSON documents: what is absent, or of another type, is empty.

use serde_json::{Map, Value};

/// The text of a member, or nothing.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The number of a member, if there is one.
pub(crate) fn number(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

/// Whether a member is true.
pub(crate) fn is_true(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// The elements of a member.
pub(crate) fn list<'a>(value: &'a Value, field: &str) -> std::slice::Iter<'a, Value> {
    value
        .get(field)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
}

/// The elements of a member that are texts.
pub(crate) fn texts<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    list(value, field).filter_map(Value::as_str)
}

/// The members of a value.
pub(crate) fn object(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// A member that is there and not empty.
pub(crate) fn present<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

/// What is at a path of members, or null.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter()
        .try_fold(value, |value, field| value.get(*field))
        .unwrap_or(&Value::Null)
}

/// A value as a map to write into; what is none becomes one.
pub(crate) fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        // Just made an object.
        _ => unreachable!(),
    }
}

/// A member as a map to write into, which is made if it is not there.
pub(crate) fn member_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    map_mut(value)
        .entry(field.to_owned())
        .or_insert_with(|| Value::Object(Map::new()))
}

/// The elements of a member to write into.
pub(crate) fn elements_mut<'a>(value: &'a mut Value, field: &str) -> std::slice::IterMut<'a, Value> {
    value
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .map(Vec::as_mut_slice)
        .unwrap_or_default()
        .iter_mut()
}

/// Sets a member that is absent, null or an empty text.
pub(crate) fn default(value: &mut Value, field: &str, to: impl Into<Value>) {
    let map = map_mut(value);
    let is_there = map
        .get(field)
        .is_some_and(|value| !value.is_null() && value.as_str() != Some(""));
    if !is_there {
        map.insert(field.to_owned(), to.into());
    }
}

/// Sets a member, or removes it.
pub(crate) fn set(value: &mut Value, field: &str, to: Option<Value>) {
    match to {
        Some(to) => {
            map_mut(value).insert(field.to_owned(), to);
        }
        None => {
            if let Some(map) = value.as_object_mut() {
                map.remove(field);
            }
        }
    }
}

/// Makes a member of `new` what it is in `old`.
pub(crate) fn keep(new: &mut Value, old: &Value, field: &str) {
    set(new, field, old.get(field).cloned());
}
