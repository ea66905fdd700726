//! What must hold of the metadata of any object.

use serde_json::Value;

use crate::fault::Fault;

/// What is wrong with the metadata of a new object; `name` judges a name, or the beginning of one.
pub fn validate(_object: &Value, _namespaced: bool, _name: &dyn Fn(&str, bool) -> Vec<String>) -> Vec<Fault> {
    Vec::new()
}

/// What is wrong with the metadata of an update.
pub fn validate_update(_new: &Value, _old: &Value) -> Vec<Fault> {
    Vec::new()
}
