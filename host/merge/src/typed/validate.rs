//! Whether a value has the structure of its node.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::{Item, Mismatch, Shape, deduce, shape};
use crate::schema::{List, Map, NodeId, Scalar, Types};
use crate::value::{quoted, write_number, write_plain};

/// The way to a value, on the stack, so that a valid one costs no allocation.
#[derive(Clone, Copy)]
enum Trail<'a> {
    Root,
    Field(&'a Trail<'a>, &'a str),
    Item(&'a Trail<'a>, Item<'a>),
    Position(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.write(out);
                out.push('.');
                out.push_str(name);
            }
            Self::Item(parent, element) => {
                parent.write(out);
                element.element().write(out);
            }
            Self::Position(parent, position) => {
                parent.write(out);
                let _ = write!(out, "[{position}]");
            }
        }
    }
}

/// All mismatches of a value.
pub(crate) fn validate(types: &Types, root: NodeId, value: &Value) -> Result<(), Vec<Mismatch>> {
    let mut walk = Walk {
        types,
        found: Vec::new(),
    };
    walk.visit(root, value, &Trail::Root);
    if walk.found.is_empty() { Ok(()) } else { Err(walk.found) }
}

struct Walk<'a> {
    types: &'a Types,
    found: Vec<Mismatch>,
}

impl Walk<'_> {
    fn report(&mut self, trail: &Trail<'_>, message: String) {
        let mut path = String::new();
        trail.write(&mut path);
        self.found.push(Mismatch { path, message });
    }

    fn visit(&mut self, id: NodeId, value: &Value, trail: &Trail<'_>) {
        let node = self.types.node(id);
        match shape(node, deduce(node, value)) {
            Shape::Map(map) => self.map(map, value, trail),
            Shape::Scalar(scalar) => self.scalar(scalar, value, trail),
            Shape::List(list) => self.list(list, value, trail),
            Shape::Nothing => self.report(trail, "schema error: invalid atom: inlined".into()),
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value, trail: &Trail<'_>) {
        let is_scalar = matches!(value, Value::Number(_) | Value::String(_) | Value::Bool(_));
        let message = match (scalar, value) {
            (_, Value::Null)
            | (Scalar::Numeric, Value::Number(_))
            | (Scalar::Text, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_)) => return,
            (Scalar::Untyped, _) if is_scalar => return,
            (Scalar::Numeric, _) => format!("expected numeric (int or float), got {}", go_type(value)),
            (Scalar::Text, _) => format!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                go_syntax(value)
            ),
            (Scalar::Boolean, _) => format!("expected boolean, got {}", go_pointer(value)),
            (Scalar::Untyped, _) => format!("expected any scalar, got {}", go_pointer(value)),
        };
        self.report(trail, message);
    }

    fn map(&mut self, map: &Map, value: &Value, trail: &Trail<'_>) {
        let object = match value {
            Value::Null => return,
            Value::Object(object) => object,
            other => return self.report(trail, format!("expected map, got {}", go_pointer(other))),
        };
        for (name, value) in object {
            let trail = Trail::Field(trail, name);
            let Some(child) = map.child(name) else {
                self.report(&trail, "field not declared in schema".into());
                return;
            };
            self.visit(child, value, &trail);
        }
    }

    fn list(&mut self, list: &List, value: &Value, trail: &Trail<'_>) {
        let items = match value {
            Value::Null => return,
            Value::Array(items) => items,
            other => return self.report(trail, format!("expected list, got {}", go_pointer(other))),
        };
        if !list.associative {
            for (position, item) in items.iter().enumerate() {
                self.visit(list.element, item, &Trail::Position(trail, position));
            }
            return;
        }
        let mut seen = BTreeSet::new();
        for (position, value) in items.iter().enumerate() {
            let item = match Item::of(self.types, list, value) {
                Ok(item) => item,
                // Without its key nothing beneath an item can be named.
                Err(message) => return self.report(trail, format!("element {position}: {message}")),
            };
            if !seen.insert(item) {
                self.report(trail, format!("duplicate entries for key {}", item.element()));
            }
            self.visit(list.element, value, &Trail::Item(trail, item));
        }
    }
}

/// The type a value has in a Go server.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A wrapped value as Go prints it plainly.
fn go_pointer(value: &Value) -> String {
    let mut out = String::from("&{");
    write_plain(&mut out, value);
    out.push('}');
    out
}

/// A value as Go source.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => {
            let mut out = String::new();
            write_number(&mut out, number);
            out
        }
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(object) => {
            let entries: Vec<_> = object
                .iter()
                .map(|(name, value)| format!("{}:{}", quoted(name), go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
    }
}
