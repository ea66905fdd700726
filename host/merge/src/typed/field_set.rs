//! Which fields an object sets: what a manager that applies it comes to own.

use serde_json::Value;

use super::{Item, Positions, Shape, deduce, shape};
use crate::fields::{Builder, FieldSet, PathElement};
use crate::schema::{List, Map, NodeId, Schema, Types};

impl FieldSet {
    /// The fields an object sets, by its structure.
    #[must_use]
    pub fn of_object(object: &Value, schema: &Schema) -> Self {
        field_set(&schema.types, schema.root, object)
    }
}

pub(crate) fn field_set(types: &Types, root: NodeId, value: &Value) -> FieldSet {
    collect(types, root, value).1
}

/// Whether the value itself is owned, and what is beneath it.
fn collect(types: &Types, id: NodeId, value: &Value) -> (bool, FieldSet) {
    let node = types.node(id);
    match (shape(node, deduce(node, value)), value) {
        (Shape::Scalar(_), _) => (true, FieldSet::default()),
        (Shape::List(list), _) if !list.associative => (true, FieldSet::default()),
        (Shape::Map(map), _) if map.atomic => (true, FieldSet::default()),
        (Shape::List(list), Value::Array(items)) => (false, of_items(types, list, items)),
        (Shape::Map(map), Value::Object(object)) => (false, of_map(types, map, object)),
        _ => (false, FieldSet::default()),
    }
}

fn of_map(types: &Types, map: &Map, object: &serde_json::Map<String, Value>) -> FieldSet {
    let mut builder = Builder::with_capacity(object.len());
    for (name, value) in object {
        let field = map.field(name);
        let Some(child) = field.map(|field| field.node).or(map.element) else {
            continue;
        };
        let (leaf, children) = collect(types, child, value);
        let empty = match value {
            Value::Null => true,
            Value::Object(object) => object.is_empty(),
            _ => false,
        };
        let member = leaf || empty || field.is_none();
        builder.push(PathElement::field(name), member, children);
    }
    builder.build()
}

fn of_items(types: &Types, list: &List, items: &[Value]) -> FieldSet {
    let told_apart = Item::all(types, list, items);
    let positions = Positions::of(&told_apart);
    let mut builder = Builder::with_capacity(items.len());
    for (item, value) in told_apart.iter().zip(items) {
        if matches!(item, Item::Position(_)) {
            continue;
        }
        // Several items of one key are owned as one value.
        let children = if positions.find(item).len() > 1 {
            FieldSet::default()
        } else {
            collect(types, list.element, value).1
        };
        builder.push(item.element(), true, children);
    }
    builder.build()
}
