//! Values read by their structure: is it valid, which fields does it set, what changed, what do two make together.
//!
//! Each walk looks at a value and a node together. Where a node allows several shapes, the value decides; null decides
//! nothing and is taken for the first of map, scalar, list.

mod compare;
mod field_set;
mod item;
mod merge;
mod reconcile;
mod remove;
mod validate;

use std::fmt;

use serde_json::Value;

use item::{Item, Positions};

pub(crate) use compare::{Comparison, compare};
pub(crate) use field_set::field_set;
pub(crate) use merge::merge;
pub(crate) use reconcile::reconcile;
pub(crate) use remove::{remove, with_named_fields};
pub(crate) use validate::validate;

use crate::schema::{List, Map, Node, Scalar};

/// One way in which a value does not have its structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) path: String,
    pub(crate) message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return formatter.write_str(&self.message);
        }
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// All mismatches as one message.
pub(crate) fn message(mismatches: &[Mismatch]) -> String {
    if let [only] = mismatches {
        return only.to_string();
    }
    let mut out = String::from("errors:");
    for mismatch in mismatches {
        out.push_str("\n  ");
        out.push_str(&mismatch.to_string());
    }
    out
}

/// The shape of a node that applies to a value.
#[derive(Clone, Copy)]
enum Shape<'a> {
    Map(&'a Map),
    Scalar(Scalar),
    List(&'a List),
    Nothing,
}

/// Which shapes are left of a node once a value was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deduced {
    Scalar,
    List,
    Map,
    /// The value is null, or of a shape the node does not allow.
    Any,
}

fn deduce(node: &Node, value: &Value) -> Deduced {
    match value {
        Value::Number(_) | Value::String(_) | Value::Bool(_) if node.scalar.is_some() => Deduced::Scalar,
        Value::Array(_) if node.list.is_some() => Deduced::List,
        Value::Object(_) if node.map.is_some() => Deduced::Map,
        _ => Deduced::Any,
    }
}

fn shape<'a>(node: &'a Node, deduced: Deduced) -> Shape<'a> {
    let map = || node.map.as_ref().map(Shape::Map);
    let scalar = || node.scalar.map(Shape::Scalar);
    let list = || node.list.as_ref().map(Shape::List);
    let found = match deduced {
        Deduced::Map => map(),
        Deduced::Scalar => scalar(),
        Deduced::List => list(),
        Deduced::Any => map().or_else(scalar).or_else(list),
    };
    found.unwrap_or(Shape::Nothing)
}

/// Whether two values of a node are of the same shape as far as the node tells them apart.
fn same_shape(node: &Node, one: Deduced, other: Deduced) -> bool {
    let shapes = u8::from(node.map.is_some()) + u8::from(node.scalar.is_some()) + u8::from(node.list.is_some());
    shapes <= 1 || one == other
}

/// The items of a list; none of anything else.
fn items(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}
