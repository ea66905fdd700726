//! Sets of fields: who owns what is written as such sets, and every question of ownership is an operation on two of them.
//!
//! A set is a tree of sorted vectors; subtrees are shared, so that a copy or an unchanged half of a union costs nothing.
//! Membership is not inherited: owning `.spec` says nothing of `.spec.replicas`.

mod element;
mod json;
mod set;

pub use element::{Path, PathElement};
pub use json::FieldsError;
pub use set::FieldSet;
pub(crate) use set::{Builder, Entry};
