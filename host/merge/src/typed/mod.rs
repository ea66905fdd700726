//! Values read by their structure: is it valid, which fields does it set, what changed, what do two make together.
//!
//! Each walk looks at a value and a node together. Where a node allows several shapes, the value decides; null decides
//! nothing and is taken for the first of map, scalar, list.

mod compare;
mod field_set;
mod merge;
mod reconcile;
mod remove;
mod validate;

use std::fmt;

use serde_json::Value;
use smol_str::SmolStr;

pub(crate) use compare::{Comparison, compare};
pub(crate) use field_set::field_set;
pub(crate) use merge::merge;
pub(crate) use reconcile::reconcile;
pub(crate) use remove::{remove, with_named_fields};
pub(crate) use validate::validate;

use crate::fields::PathElement;
use crate::schema::{List, Map, Node, Scalar, Types};

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

/// How an item of an associative list is told from the others.
fn item_element(types: &Types, list: &List, item: &Value) -> Result<PathElement, String> {
    if list.keys.is_empty() {
        return match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(PathElement::Value(scalar.clone())),
        };
    }
    let object = match item {
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        Value::Object(object) => object,
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let map = types.node(list.element).map.as_ref();
    let mut fields: Vec<(SmolStr, Value)> = Vec::with_capacity(list.keys.len());
    for key in &list.keys {
        let default = || map?.field(key)?.default.as_ref();
        if let Some(value) = object.get(key.as_str()).or_else(default) {
            fields.push((key.clone(), value.clone()));
        }
    }
    if fields.is_empty() {
        let keys: Vec<_> = list.keys.iter().map(|key| crate::value::quoted(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(PathElement::Key(fields.into()))
}

/// Path elements of the items of a list, found by value.
struct Positions {
    /// Positions in the list, sorted by element; equal elements in the order of the list.
    sorted: Vec<usize>,
}

impl Positions {
    fn of(elements: &[PathElement]) -> Self {
        let mut sorted: Vec<usize> = (0..elements.len()).collect();
        sorted.sort_by(|&one, &other| elements.get(one).cmp(&elements.get(other)));
        Self { sorted }
    }

    /// The positions at which the element is.
    fn find<'a>(&'a self, elements: &[PathElement], element: &PathElement) -> &'a [usize] {
        let below = |position: &usize| elements.get(*position).is_some_and(|found| found < element);
        let start = self.sorted.partition_point(below);
        let rest = self.sorted.get(start..).unwrap_or_default();
        let same = |position: &&usize| elements.get(**position) == Some(element);
        let count = rest.iter().take_while(same).count();
        rest.get(..count).unwrap_or_default()
    }
}
