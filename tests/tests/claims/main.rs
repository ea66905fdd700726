//! The claim protocol as it runs: engine, records and claims of the product against a simulated hub, disturbed at every call.
//!
//! A trace is a beginning, one run that is disturbed at one of its calls (its host dies before or after it, its answer is
//! lost, or it stands still while the other host does something of its own), and the end: all is deleted, the hosts do
//! what they do, and nothing may be left. What must never be is looked for at each write.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests stop where an expectation fails, and tell what they saw"
)]

mod host;
mod hub;
mod sharing;
mod traces;

use chandlery_core::claim::{Rule, Rules};

use crate::host::Work;
use crate::traces::{RUNS, Sequences, explore};

/// How many different sequences of calls are asked for.
const ENOUGH: usize = 10_000;

#[tokio::test]
async fn no_trace_on_the_real_code_breaks_a_property() {
    let mut seen = Sequences::default();
    let broken = explore(Rules::default(), &mut seen, ENOUGH, RUNS).await;
    println!(
        "{} distinct call sequences of {} traces, {} calls",
        seen.distinct(),
        seen.traces,
        seen.calls
    );
    assert_eq!(broken, None);
    assert!(seen.distinct() >= ENOUGH, "{}", seen.distinct());
}

/// Whether it is seen that a rule is left out, where this is disturbed.
async fn is_caught(rule: Rule, disturbed: Work) {
    let mut seen = Sequences::default();
    let broken = explore(Rules::without(rule), &mut seen, usize::MAX, &[disturbed]).await;
    println!("without {rule:?}, after {} traces: {broken:?}", seen.traces);
    assert!(
        broken.is_some(),
        "without {rule:?} nothing breaks in {} traces",
        seen.traces
    );
}

#[tokio::test]
async fn a_list_before_the_fence_is_caught_on_the_real_code() {
    is_caught(Rule::ListAfterFence, Work::Drain).await;
}

#[tokio::test]
async fn a_count_in_memory_is_caught_on_the_real_code() {
    is_caught(Rule::NothingIsCounted, Work::Drain).await;
}

#[tokio::test]
async fn a_claim_after_the_fence_was_read_is_caught_on_the_real_code() {
    is_caught(Rule::ClaimBeforeFence, Work::Bring("one")).await;
}

#[tokio::test]
async fn c1_a_release_under_another_user_is_caught_on_the_real_code() {
    is_caught(Rule::SoleUser, Work::Collect("one")).await;
}

#[tokio::test]
async fn c2_a_used_claim_that_a_refused_take_gives_back_is_caught_on_the_real_code() {
    is_caught(Rule::UsedClaimStays, Work::Bring("one")).await;
}

#[tokio::test]
async fn c3_a_remote_that_could_vanish_is_caught_on_the_real_code() {
    is_caught(Rule::RemoteIsProtected, Work::Bring("one")).await;
}

#[tokio::test]
async fn c4_a_holder_that_is_not_asked_is_caught_on_the_real_code() {
    is_caught(Rule::HolderStillWants, Work::Bring("one")).await;
}

#[tokio::test]
async fn c5_a_registrar_that_nobody_knows_of_is_caught_on_the_real_code() {
    is_caught(Rule::RegistrarsAreListed, Work::Register).await;
}
