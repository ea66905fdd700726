//! Strategic merge patch: a merge patch that knows lists, and has directives of its own.
//!
//! Directives: `$patch: replace|delete` in a map or an item, `$retainKeys`, `$setElementOrder/list` and
//! `$deleteFromPrimitiveList/list` beside a list. What is taken from the patch unmerged loses its nulls and whatever bears
//! a directive.

mod lists;

use serde_json::{Map, Value};

use super::{PatchError, go_kind};
use crate::schema::{Map as MapNode, NodeId, Property, Schema, Types};
use crate::value::write_plain_map;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// Merges a patch into an object by the merge keys of its kind.
///
/// # Errors
/// If the patch is not an object, or a directive in it is wrong.
pub fn strategic_merge_patch(object: &Value, patch: &Value, schema: &Schema) -> Result<Value, PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => Object::new(),
        other => {
            return Err(PatchError::BadRequest(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go_kind(other)
            )));
        }
    };
    let original = object.as_object().cloned().unwrap_or_default();
    let level = Level {
        types: &schema.types,
        node: Some(schema.root),
    };
    level.merge(original, patch).map(Value::Object)
}

fn internal<T>(message: String) -> Result<T, PatchError> {
    Err(PatchError::Internal(message))
}

fn bad_format<T>(of: &str) -> Result<T, PatchError> {
    Err(PatchError::BadRequest(format!("invalid patch format of {of}")))
}

fn bad_argument<T>(expected: &str, given: &Value) -> Result<T, PatchError> {
    let given = match given {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    internal(format!("expected a {expected}, but received a {given}"))
}

fn unknown_directive<T>(directive: &Value, patch: &Object) -> Result<T, PatchError> {
    let mut out = String::from("unknown patch type: ");
    crate::value::write_plain(&mut out, directive);
    out.push_str(" in map: ");
    write_plain_map(&mut out, patch);
    internal(out)
}

fn no_merge_key<T>(item: &Object, merge_key: &str) -> Result<T, PatchError> {
    let mut out = String::from("map: ");
    write_plain_map(&mut out, item);
    out.push_str(" does not contain declared merge key: ");
    out.push_str(merge_key);
    internal(out)
}

/// What follows the slash of a directive that names a field.
fn named_field<'a>(key: &'a str, prefix: &str, of: &str) -> Result<&'a str, PatchError> {
    match key.split_once('/') {
        Some((found, name)) if found == prefix => Ok(name),
        _ => bad_format(of),
    }
}

/// A value of the patch as it is taken over: without nulls, and without what bears a directive.
fn taken(value: &Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(DIRECTIVE) => None,
        Value::Object(object) => Some(
            object
                .iter()
                .filter(|(_, value)| !value.is_null())
                .filter_map(|(name, value)| Some((name.clone(), taken(value)?)))
                .collect(),
        ),
        Value::Array(items) => Some(items.iter().filter_map(taken).collect()),
        scalar => Some(scalar.clone()),
    }
}

/// One map of the object, with what is known of its fields.
#[derive(Clone, Copy)]
struct Level<'a> {
    types: &'a Types,
    /// Nothing is known beneath lists of which nothing is known.
    node: Option<NodeId>,
}

/// A list field with its strategy.
struct ListField<'a> {
    items: Level<'a>,
    merges: bool,
    merge_key: &'a str,
}

impl<'a> Level<'a> {
    fn map(&self) -> Option<&'a MapNode> {
        self.types.node(self.node?).map.as_ref()
    }

    fn field(&self, name: &str) -> Result<&'a Property, PatchError> {
        let Some(map) = self.map().filter(|map| !map.fields.is_empty()) else {
            let message = "merging an object in json but data type is not struct, instead is: map";
            return internal(message.into());
        };
        match map.field(name) {
            Some(field) => Ok(field),
            None => {
                let full = self.node.and_then(|node| self.types.node(node).name.as_deref());
                let kind = full.and_then(|full| full.rsplit('.').next()).unwrap_or_default();
                let name = crate::value::quoted(name);
                internal(format!(
                    "unable to find api field in struct {kind} for the json field {name}"
                ))
            }
        }
    }

    fn at(&self, node: NodeId) -> Self {
        Self {
            types: self.types,
            node: Some(node),
        }
    }

    fn list(&self, name: &str) -> Result<ListField<'a>, PatchError> {
        let field = self.field(name)?;
        let Some(list) = &self.types.node(field.node).list else {
            return internal("expected slice or array type, but got: struct".into());
        };
        Ok(ListField {
            items: self.at(list.element),
            merges: field.patch.merge,
            merge_key: field.merge_key.as_deref().unwrap_or_default(),
        })
    }

    fn merge(&self, mut original: Object, mut patch: Object) -> Result<Object, PatchError> {
        if let Some(directive) = patch.get(DIRECTIVE) {
            return match directive.as_str() {
                Some("replace") => {
                    patch.remove(DIRECTIVE);
                    Ok(patch)
                }
                Some("delete") => Ok(Object::new()),
                _ => unknown_directive(directive, &patch),
            };
        }
        retain_keys(&mut original, &mut patch)?;
        self.merge_ordered_lists(&mut original, &mut patch)?;
        for (key, wanted) in patch {
            let deletes = key.starts_with(DELETE_FROM_LIST);
            let name = if deletes {
                named_field(&key, DELETE_FROM_LIST, "primitive list")?
            } else {
                &key
            };
            if wanted.is_null() {
                original.remove(name);
                continue;
            }
            let merged = match (original.get_mut(name), &wanted) {
                (Some(Value::Object(before)), Value::Object(_)) => {
                    let field = self.field(name)?;
                    let (before, Value::Object(wanted)) = (std::mem::take(before), wanted) else {
                        continue;
                    };
                    let merged = if field.patch.replace {
                        wanted
                    } else {
                        self.at(field.node).merge(before, wanted)?
                    };
                    Some(Value::Object(merged))
                }
                (Some(Value::Array(before)), Value::Array(_)) => {
                    let field = self.list(name)?;
                    let (before, Value::Array(wanted)) = (std::mem::take(before), wanted) else {
                        continue;
                    };
                    Some(Value::Array(field.merge(before, wanted, deletes)?))
                }
                _ if deletes => continue,
                _ => taken(&wanted),
            };
            match merged {
                Some(value) => {
                    original.insert(name.to_owned(), value);
                }
                None => {
                    original.remove(name);
                }
            }
        }
        Ok(original)
    }

    /// Lists with a given order are merged and put in order, and leave nothing in the patch.
    fn merge_ordered_lists(&self, original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
        let keys: Vec<String> = patch
            .keys()
            .filter(|key| key.starts_with(ELEMENT_ORDER))
            .cloned()
            .collect();
        for key in keys {
            let order = match patch.remove(&key) {
                Some(Value::Array(order)) => order,
                Some(other) => return bad_argument("[]interface {}", &other),
                None => continue,
            };
            let name = named_field(&key, ELEMENT_ORDER, "setElementOrder list")?;
            let list_of = |value: Option<&Value>| match value {
                None => Ok(None),
                Some(Value::Array(items)) => Ok(Some(items.clone())),
                Some(other) => bad_argument("[]interface {}", other),
            };
            let before = list_of(original.get(name))?;
            let wanted = list_of(patch.get(name))?;
            let field = self.list(name)?;
            let ordered = field.merge_in_order(before, wanted, &order)?;
            if let Some(ordered) = ordered {
                original.insert(name.to_owned(), Value::Array(ordered));
                patch.remove(name);
            }
        }
        Ok(())
    }
}

/// Clears what the patch does not list, if it lists anything.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let retained = match patch.remove(RETAIN_KEYS) {
        None => return Ok(()),
        Some(Value::Array(retained)) => retained,
        Some(_) => return bad_format("retainKeys"),
    };
    let is_retained = |name: &str| retained.iter().any(|retained| retained == name);
    for (name, value) in &*patch {
        let directive = name.starts_with(DELETE_FROM_LIST) || name.starts_with(ELEMENT_ORDER);
        if !value.is_null() && !directive && !is_retained(name) {
            return bad_format("retainKeys");
        }
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}
