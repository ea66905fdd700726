//! The words and the rules as pure functions; if it needs `await`, it is not here.
//!
//! Everything else in Chandlery speaks in these types. The traits in [`ports`] and [`cluster`] are the seams: they are
//! declared here, so that the rooms that implement them need not know each other. Their methods are `async`, but nothing
//! in this crate awaits, opens, spawns or sleeps.

pub mod backoff;
pub mod claim;
pub mod class;
pub mod cluster;
pub mod grant;
pub mod ids;
pub mod install;
pub mod limits;
pub mod memory;
pub mod names;
pub mod nesting;
pub mod object;
pub mod order;
pub mod ports;
pub mod provision;
pub mod readiness;
pub mod record;
pub mod remote;
pub mod task;

pub use class::{Class, Setback};
pub use ids::{Digest, StepName, Uid};
pub use object::{Gvk, ObjectRef};
