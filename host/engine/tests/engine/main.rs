//! The engine over ports of a few lines: no cluster, no component.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

mod pass;
mod tree;
mod world;
