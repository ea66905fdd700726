//! A field set recorded when a list or map was granular, read when it has become one value.

use crate::fields::{Builder, FieldSet, PathElement};
use crate::schema::{DEDUCED, Map, Node, NodeId, Scalar, Types};

/// The set as it would be recorded today; nothing if that is the same.
pub(crate) fn reconcile(types: &Types, root: NodeId, fields: &FieldSet) -> Option<FieldSet> {
    match visit(types, root, fields, false, true) {
        Outcome::Same => None,
        Outcome::Collapsed => Some(FieldSet::default()),
        Outcome::Changed(fields) => Some(fields),
    }
}

enum Outcome {
    Same,
    /// The value itself is owned, nothing beneath it.
    Collapsed,
    Changed(FieldSet),
}

fn visit(types: &Types, id: NodeId, fields: &FieldSet, owned_as_one: bool, is_root: bool) -> Outcome {
    let node = types.node(id);
    match node {
        Node { map: Some(map), .. } => {
            if says_nothing(types, map) {
                return Outcome::Same;
            }
            if map.atomic && !owned_as_one && !is_root {
                return if fields.is_empty() {
                    Outcome::Same
                } else {
                    Outcome::Collapsed
                };
            }
        }
        Node { scalar: Some(_), .. } => return Outcome::Same,
        Node { list: Some(list), .. } => {
            if !list.associative && !owned_as_one && !is_root {
                return Outcome::Collapsed;
            }
        }
        _ => return Outcome::Same,
    }
    beneath(types, node, fields)
}

fn beneath(types: &Types, node: &Node, fields: &FieldSet) -> Outcome {
    let mut changed = false;
    let mut outcomes = Vec::with_capacity(fields.entries().len());
    for entry in fields.entries() {
        let child = match (&node.map, &node.list, &entry.element) {
            (Some(map), _, PathElement::Field(name)) => map.child(name),
            (Some(map), _, _) => map.element,
            (None, Some(list), _) => Some(list.element),
            _ => None,
        };
        let owned_as_one = entry.member && entry.children.is_empty();
        let outcome = match child {
            Some(child) if !owned_as_one => visit(types, child, &entry.children, owned_as_one, false),
            _ => Outcome::Same,
        };
        changed |= !matches!(outcome, Outcome::Same);
        outcomes.push(outcome);
    }
    if !changed {
        return Outcome::Same;
    }
    let mut builder = Builder::with_capacity(outcomes.len());
    for (entry, outcome) in fields.entries().iter().zip(outcomes) {
        let (member, children) = match outcome {
            Outcome::Same => (entry.member, entry.children.clone()),
            Outcome::Collapsed => (true, FieldSet::default()),
            Outcome::Changed(children) => (entry.member, children),
        };
        builder.push(entry.element.clone(), member, children);
    }
    Outcome::Changed(builder.build())
}

/// Maps of which nothing is declared cannot have changed.
fn says_nothing(types: &Types, map: &Map) -> bool {
    map.fields.is_empty()
        && map.element.is_some_and(|element| {
            let node = types.node(element);
            element == DEDUCED || node.scalar == Some(Scalar::Untyped) && node.name.is_none()
        })
}
