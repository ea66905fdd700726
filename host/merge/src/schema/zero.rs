//! What an API server writes although nobody said it: structures that are no pointers are always there.

use serde_json::{Map as Object, Value};

use super::nodes::{NodeId, Types};
use super::{JsonKind, Schema};

/// Definitions that refer to themselves end here at the latest.
const MAX_DEPTH: u8 = 32;

impl Schema {
    /// An object of this kind before anything was put into it, as ownership of a created object is compared with.
    ///
    /// Derived from what the published schema defaults to `{}` or requires; of a custom resource only `apiVersion` and
    /// `kind` are given.
    #[must_use]
    pub fn zero_object(&self, api_version: &str, kind: &str) -> Value {
        let mut object = match zero(&self.types, self.root, 0) {
            Value::Object(object) => object,
            _ => Object::new(),
        };
        object.insert("apiVersion".into(), Value::from(api_version));
        object.insert("kind".into(), Value::from(kind));
        Value::Object(object)
    }
}

fn is_structure(default: Option<&Value>) -> bool {
    default.is_some_and(|default| default.as_object().is_some_and(Object::is_empty))
}

fn zero(types: &Types, id: NodeId, depth: u8) -> Value {
    let mut object = Object::new();
    if let (Some(map), true) = (&types.node(id).map, depth < MAX_DEPTH) {
        for field in &map.fields {
            if is_structure(field.default.as_ref()) && types.node(field.node).map.is_some() {
                object.insert(field.name.to_string(), zero(types, field.node, depth + 1));
            } else if field.required {
                let value = match types.node(field.node).json {
                    JsonKind::Array | JsonKind::Object => Value::Null,
                    _ => field.default.clone().unwrap_or(Value::Null),
                };
                object.insert(field.name.to_string(), value);
            }
        }
    }
    Value::Object(object)
}
