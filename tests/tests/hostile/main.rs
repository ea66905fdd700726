//! API servers that mean no good, through the real connection and the real scope: each thing that they do ends in a typed
//! error or in a normal answer, takes bounded time and memory, and leaves other clusters' steps alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

mod answers;
mod server;
mod watches;
mod wire;

use std::time::{Duration, Instant};

/// Asks again and again until it is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < chandlery_tests::wait::DEADLINE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
