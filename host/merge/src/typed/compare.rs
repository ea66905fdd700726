//! What changed between two objects, field by field.

use std::cmp::Ordering;

use serde_json::{Map as Object, Value};

use super::{Deduced, Item, Positions, Shape, deduce, items, same_shape, shape};
use crate::fields::{Builder, FieldSet, PathElement};
use crate::schema::{List, Map, Node, NodeId, Types};
use crate::value;

/// No field is in more than one of the sets.
#[derive(Default)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

impl Comparison {
    /// Without some fields and all that is beneath them.
    pub(crate) fn without(self, fields: Option<&FieldSet>) -> Self {
        match fields {
            None => self,
            Some(fields) => Self {
                removed: self.removed.recursive_difference(fields),
                modified: self.modified.recursive_difference(fields),
                added: self.added.recursive_difference(fields),
            },
        }
    }
}

/// Compares two whole objects.
pub(crate) fn compare(types: &Types, root: NodeId, old: &Value, new: &Value) -> Comparison {
    let change = both(types, root, old, new);
    Comparison {
        removed: change.removed,
        modified: change.modified,
        added: change.added,
    }
}

/// What became of a value: of itself, and of what is beneath it.
///
/// An item can be removed and added at once: several of one key, owned as one value, gave way to one.
#[derive(Default)]
struct Change {
    is_removed: bool,
    is_modified: bool,
    is_added: bool,
    removed: FieldSet,
    modified: FieldSet,
    added: FieldSet,
}

impl Change {
    fn modified() -> Self {
        Self {
            is_modified: true,
            ..Self::default()
        }
    }

    fn is_nothing(&self) -> bool {
        !(self.is_removed || self.is_modified || self.is_added)
            && self.removed.is_empty()
            && self.modified.is_empty()
            && self.added.is_empty()
    }

    fn and(self, other: &Self) -> Self {
        Self {
            is_removed: self.is_removed || other.is_removed,
            is_modified: self.is_modified || other.is_modified,
            is_added: self.is_added || other.is_added,
            removed: self.removed.union(&other.removed),
            modified: self.modified.union(&other.modified),
            added: self.added.union(&other.added),
        }
    }
}

/// Collects the changes of one level.
#[derive(Default)]
struct Level {
    removed: Builder,
    modified: Builder,
    added: Builder,
}

impl Level {
    fn push(&mut self, element: PathElement, change: Change) {
        self.removed.push(element.clone(), change.is_removed, change.removed);
        self.modified.push(element.clone(), change.is_modified, change.modified);
        self.added.push(element, change.is_added, change.added);
    }

    fn build(self) -> Change {
        Change {
            removed: self.removed.build(),
            modified: self.modified.build(),
            added: self.added.build(),
            ..Change::default()
        }
    }
}

fn either(types: &Types, id: NodeId, old: Option<&Value>, new: Option<&Value>) -> Change {
    match (old, new) {
        (Some(old), Some(new)) => both(types, id, old, new),
        (Some(old), None) => Change {
            is_removed: true,
            removed: everything(types, id, old),
            ..Change::default()
        },
        (None, Some(new)) => Change {
            is_added: true,
            added: everything(types, id, new),
            ..Change::default()
        },
        (None, None) => Change::default(),
    }
}

/// All that is beneath a value, maps and items as well as leaves.
fn everything(types: &Types, id: NodeId, value: &Value) -> FieldSet {
    let node = types.node(id);
    match (shape(node, deduce(node, value)), value) {
        (Shape::Map(map), Value::Object(object)) if !map.atomic => {
            let mut builder = Builder::with_capacity(object.len());
            for (name, value) in object {
                let children = map
                    .child(name)
                    .map_or_else(FieldSet::default, |child| everything(types, child, value));
                builder.push(PathElement::field(name), true, children);
            }
            builder.build()
        }
        (Shape::List(list), Value::Array(items)) if list.associative => {
            let told_apart = Item::all(types, list, items);
            let positions = Positions::of(&told_apart);
            let mut builder = Builder::with_capacity(items.len());
            for (item, value) in told_apart.iter().zip(items) {
                let children = if positions.find(item).len() > 1 {
                    FieldSet::default()
                } else {
                    everything(types, list.element, value)
                };
                builder.push(item.element(), true, children);
            }
            builder.build()
        }
        _ => FieldSet::default(),
    }
}

fn both(types: &Types, id: NodeId, old: &Value, new: &Value) -> Change {
    if value::equal(old, new) {
        return Change::default();
    }
    let node = types.node(id);
    let (of_old, of_new) = (deduce(node, old), deduce(node, new));
    if same_shape(node, of_old, of_new) {
        return as_shape(types, node, of_new, old, new);
    }
    as_shape(types, node, of_old, old, new).and(&as_shape(types, node, of_new, old, new))
}

fn as_shape(types: &Types, node: &Node, deduced: Deduced, old: &Value, new: &Value) -> Change {
    match shape(node, deduced) {
        Shape::Map(map) => {
            let (old, new) = (old.as_object(), new.as_object());
            let empty = |object: Option<&Object<String, Value>>| object.is_none_or(Object::is_empty);
            if map.atomic || empty(old) && empty(new) {
                return Change::modified();
            }
            maps(types, map, old, new)
        }
        Shape::List(list) => {
            let (old, new) = (items(Some(old)), items(Some(new)));
            if !list.associative || old.is_empty() && new.is_empty() {
                return Change::modified();
            }
            lists(types, list, old, new)
        }
        Shape::Scalar(_) => Change::modified(),
        Shape::Nothing => Change::default(),
    }
}

fn maps(types: &Types, map: &Map, old: Option<&Object<String, Value>>, new: Option<&Object<String, Value>>) -> Change {
    let mut level = Level::default();
    let mut old = old.into_iter().flatten().peekable();
    let mut new = new.into_iter().flatten().peekable();
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some((one, _)), Some((other, _))) => one.cmp(other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        let Some((name, _)) = before.or(after) else { break };
        let Some(child) = map.child(name) else { continue };
        let change = either(
            types,
            child,
            before.map(|(_, value)| value),
            after.map(|(_, value)| value),
        );
        if !change.is_nothing() {
            level.push(PathElement::field(name), change);
        }
    }
    level.build()
}

fn lists(types: &Types, list: &List, old: &[Value], new: &[Value]) -> Change {
    let (old_items, new_items) = (Item::all(types, list, old), Item::all(types, list, new));
    let (old_positions, new_positions) = (Positions::of(&old_items), Positions::of(&new_items));
    let mut level = Level::default();
    for (position, told_apart) in old_items.iter().enumerate() {
        let before = old_positions.find(told_apart);
        if before.first() != Some(&position) {
            continue;
        }
        let change = item(types, list, before, old, new_positions.find(told_apart), new);
        if !change.is_nothing() {
            level.push(told_apart.element(), change);
        }
    }
    for (position, told_apart) in new_items.iter().enumerate() {
        let after = new_positions.find(told_apart);
        if after.first() == Some(&position) && old_positions.find(told_apart).is_empty() {
            level.push(told_apart.element(), item(types, list, &[], old, after, new));
        }
    }
    level.build()
}

/// Items of one key: usually one or none on each side. Several are one value.
fn item(types: &Types, list: &List, before: &[usize], old: &[Value], after: &[usize], new: &[Value]) -> Change {
    let first = |positions: &[usize], values| positions.first().and_then(|&position| <[Value]>::get(values, position));
    match (before.len(), after.len()) {
        (0 | 1, 0 | 1) => either(types, list.element, first(before, old), first(after, new)),
        (2.., 2..) => {
            let same = before.len() == after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|(&one, &other)| match (old.get(one), new.get(other)) {
                        (Some(one), Some(other)) => value::equal(one, other),
                        _ => false,
                    });
            if same { Change::default() } else { Change::modified() }
        }
        (2.., _) => {
            let mut change = either(types, list.element, None, first(after, new));
            change.is_removed = true;
            change
        }
        _ => {
            let mut change = either(types, list.element, first(before, old), None);
            change.is_added = true;
            change
        }
    }
}
