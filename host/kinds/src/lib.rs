//! What an API server knows of its built-in kinds beyond their structure: defaults, validation, what a write may change,
//! and what `kubectl get` shows. Pure functions on JSON documents; it knows no store, no HTTP and no clock.

mod fault;
mod kind;
pub mod meta;
pub mod names;

pub use fault::{Fault, FaultKind};
pub use kind::{Cell, Column, Kind, Plain, of};

/// How long ago something was, as `kubectl` tells it: `42s`, `5m3s`, `2d4h`.
pub fn age(seconds: i64) -> String {
    format!("{seconds}s")
}
