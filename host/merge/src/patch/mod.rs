//! The three kinds of patch that are not an apply; each answers with the errors of a server.

mod json;
mod merge;
mod strategic;

use thiserror::Error;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

/// Why a patch was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The patch is no patch; 400.
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not fit the object; 422 with this message.
    #[error("{0}")]
    Unprocessable(String),
    /// The server fails on it; 500.
    #[error("{0}")]
    Internal(String),
}
