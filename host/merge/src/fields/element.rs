//! One step into an object.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use crate::value;

/// One step into an object. The order of the variants is the order in which a server writes them.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a map.
    Field(SmolStr),
    /// The item of a list whose fields have these values; sorted by name.
    Key(Arc<[(SmolStr, Value)]>),
    /// The item of a set with this value.
    Value(Value),
    /// The item of a list at this position.
    Index(i64),
}

impl PathElement {
    /// The field of this name.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(SmolStr::new(name))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push('.');
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push('[');
                for (position, (name, field)) in fields.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push('=');
                    value::write_in_path(out, field);
                }
                out.push(']');
            }
            Self::Value(item) => {
                out.push_str("[=");
                value::write_in_path(out, item);
                out.push(']');
            }
            Self::Index(position) => {
                out.push('[');
                out.push_str(&position.to_string());
                out.push(']');
            }
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(one), Self::Field(other)) => one.cmp(other),
            (Self::Key(one), Self::Key(other)) => {
                for ((name, field), (other_name, other_field)) in one.iter().zip(other.iter()) {
                    let order = name.cmp(other_name).then_with(|| value::compare(field, other_field));
                    if order.is_ne() {
                        return order;
                    }
                }
                one.len().cmp(&other.len())
            }
            (Self::Value(one), Self::Value(other)) => value::compare(one, other),
            (Self::Index(one), Self::Index(other)) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        formatter.write_str(&out)
    }
}

/// The way from an object to one of its fields, printed as `.spec.containers[name="a"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        for element in &self.0 {
            element.write(&mut out);
        }
        formatter.write_str(&out)
    }
}
