//! Pure functions on JSON documents: schemas, patches and field ownership; it knows no store, no HTTP and no clock.
//!
//! What is here answers as a Kubernetes API server does, to the letter of its error messages, because an in-memory API
//! is compared with a real one. Times and names of managers come from the caller; objects are [`serde_json::Value`]s and
//! are never validated beyond what a merge needs.

pub mod apply;
pub mod fields;
pub mod managed;
mod ownership;
pub mod patch;
pub mod scale;
pub mod schema;
mod typed;
pub mod update;
mod value;

pub use apply::{Applied, ApplyError, ApplyRequest, Conflict, apply};
pub use fields::{FieldSet, PathElement};
pub use managed::{Managed, Operation, Writer};
pub use scale::{Scaled, scale};
pub use schema::{Schema, TypeTable};
pub use update::{UpdateRequest, update};
