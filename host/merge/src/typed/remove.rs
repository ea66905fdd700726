//! An object without some of its fields.

use serde_json::Value;

use super::{Item, Shape, deduce, shape};
use crate::fields::{Builder, FieldSet, PathElement};
use crate::schema::{NodeId, Types};

/// A value without the fields of a set. What has nothing left becomes null, as does an atomic value that a field of the
/// set is within.
pub(crate) fn remove(types: &Types, id: NodeId, value: &Value, fields: &FieldSet) -> Value {
    if fields.is_empty() {
        return value.clone();
    }
    let node = types.node(id);
    match (shape(node, deduce(node, value)), value) {
        (Shape::Scalar(_), _) => value.clone(),
        (Shape::List(list), Value::Array(items)) if list.associative => {
            let mut kept = Vec::with_capacity(items.len());
            for item in items {
                let found = Item::of(types, list, item)
                    .ok()
                    .and_then(|item| fields.find(&item.element()));
                match found {
                    None => kept.push(item.clone()),
                    Some(entry) if entry.member => {}
                    Some(entry) => kept.push(remove(types, list.element, item, &entry.children)),
                }
            }
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        (Shape::Map(map), Value::Object(object)) if !map.atomic => {
            let mut kept = serde_json::Map::new();
            for (name, value) in object {
                let value = match fields.find(&PathElement::field(name)) {
                    None => value.clone(),
                    Some(entry) if entry.member => continue,
                    Some(entry) => match map.child(name) {
                        Some(child) => remove(types, child, value, &entry.children),
                        None => value.clone(),
                    },
                };
                kept.insert(name.clone(), value);
            }
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        _ => Value::Null,
    }
}

/// A set with the declared fields on the way to its members as members: who owns `.spec.replicas` has `.spec` as well.
pub(crate) fn with_named_fields(types: &Types, id: NodeId, fields: &FieldSet) -> FieldSet {
    let node = types.node(id);
    let mut builder = Builder::with_capacity(fields.entries().len());
    for entry in fields.entries() {
        let (named, child) = match (&entry.element, &node.map, &node.list) {
            (PathElement::Field(name), Some(map), _) => (map.field(name).is_some(), map.child(name)),
            (PathElement::Key(_), _, Some(list)) => (false, Some(list.element)),
            _ => (false, None),
        };
        let children = match child {
            Some(child) => with_named_fields(types, child, &entry.children),
            None => entry.children.clone(),
        };
        let member = entry.member || named && !entry.children.is_empty();
        builder.push(entry.element.clone(), member, children);
    }
    builder.build()
}
