//! Tests that need several rooms stand on one [`World`]: a hub, remotes, and a daemon under its own identity, all real.
//!
//! A test takes a [`Team`] of its own, which is a namespace of a random name on every cluster, and asks the clusters as an
//! administrator, never through the code under test. It waits for states with [`wait_until`]. What the world consists of
//! ends with the process of the tests, however that ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

pub mod audit;
pub mod cluster;
pub mod seen;
pub mod team;
pub mod wait;
pub mod world;

pub use audit::{Audit, Call};
pub use cluster::{At, Cluster, at};
pub use seen::Seen;
pub use team::Team;
pub use wait::{wait_for, wait_until};
pub use world::{Shape, World, everything};
