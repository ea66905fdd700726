//! Tasks stand above everything: they may use any crate and the outside world, and nothing in the product uses them.
//!
//! The library half is for tests: [`control_plane::ControlPlane`] is a real Kubernetes control plane on loopback, and
//! [`inventory::Inventory`] says what is in it. Everything here blocks; there is no async runtime.

pub mod audit;
pub mod bench;
pub mod cache;
pub mod codegen;
pub mod compare;
pub mod consent;
pub mod control_plane;
pub mod daemon;
pub mod demo;
pub mod floors;
pub mod guests;
pub mod inventory;
pub mod model;
pub mod packages;
pub mod progress;
pub mod record;
pub mod stage;
pub mod test;
pub mod watch;
pub mod workspace;
