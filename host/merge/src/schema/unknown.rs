//! Fields that a kind does not have: what strict validation complains of and lenient validation drops.

use serde_json::Value;

use super::Schema;
use super::nodes::{NodeId, Types};

/// A field that the schema does not declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Its path as servers write it: `spec.containers[0].foo`.
    pub path: String,
}

impl std::fmt::Display for UnknownField {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "unknown field \"{}\"", self.path)
    }
}

impl Schema {
    /// The fields of an object that are not declared, in the order of their names.
    #[must_use]
    pub fn unknown_fields(&self, object: &Value) -> Vec<UnknownField> {
        let mut found = Vec::new();
        let mut path = String::new();
        find(&self.types, self.root, object, &mut path, &mut found);
        found
    }

    /// Removes the fields of an object that are not declared.
    pub fn drop_unknown_fields(&self, object: &mut Value) {
        drop_unknown(&self.types, self.root, object);
    }
}

fn find(types: &Types, id: NodeId, value: &Value, path: &mut String, found: &mut Vec<UnknownField>) {
    let node = types.node(id);
    let length = path.len();
    match (value, &node.map, &node.list) {
        (Value::Object(object), Some(map), _) => {
            for (name, value) in object {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                match map.child(name) {
                    Some(child) => find(types, child, value, path, found),
                    None => found.push(UnknownField { path: path.clone() }),
                }
                path.truncate(length);
            }
        }
        (Value::Array(items), _, Some(list)) => {
            for (position, item) in items.iter().enumerate() {
                path.push_str(&format!("[{position}]"));
                find(types, list.element, item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn drop_unknown(types: &Types, id: NodeId, value: &mut Value) {
    let node = types.node(id);
    match (value, &node.map, &node.list) {
        (Value::Object(object), Some(map), _) => {
            object.retain(|name, value| match map.child(name) {
                Some(child) => {
                    drop_unknown(types, child, value);
                    true
                }
                None => false,
            });
        }
        (Value::Array(items), _, Some(list)) => {
            for item in items {
                drop_unknown(types, list.element, item);
            }
        }
        _ => {}
    }
}
