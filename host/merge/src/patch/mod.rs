//! The three kinds of patch that are not an apply; each answers with the errors of a server.

mod json;
mod merge;
mod strategic;

use serde_json::Value;
use thiserror::Error;

pub use json::{MAX_JSON_PATCH_OPERATIONS, json_patch, json_patch_unknown_fields};
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

/// Why a patch was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The patch is no patch; 400 with this message.
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not fit the object; 422. A server says only that it rejects the request, this says why.
    #[error("{0}")]
    Unprocessable(String),
    /// The patch has too many operations; 413 with this message.
    #[error("{0}")]
    TooLarge(String),
    /// The patch is wrong in a way that a server does not expect; 500 with this message.
    #[error("{0}")]
    Internal(String),
}

/// What a Go server calls a JSON value that it did not expect.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
