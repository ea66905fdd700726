//! The claim protocol, exhaustively: whole it holds, and without any one of its rules it breaks.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests stop where an expectation fails, and tell what they saw"
)]

use chandlery_core::claim::Rule;
use xtask::model;

fn breaks(without: Rule) -> String {
    let trace = model::broken(without).unwrap();
    println!("without {without:?}: {trace}");
    trace.what
}

#[test]
fn with_all_its_rules_the_protocol_holds_in_every_state() {
    println!("{}", model::claims().unwrap());
}

#[test]
fn a_list_before_the_fence_is_caught() {
    breaks(Rule::ListAfterFence);
}

#[test]
fn a_count_in_memory_is_caught() {
    breaks(Rule::NothingIsCounted);
}

#[test]
fn a_claim_after_the_fence_was_read_is_caught() {
    breaks(Rule::ClaimBeforeFence);
}

#[test]
fn a_registration_read_after_the_fence_is_caught() {
    breaks(Rule::RegistrationReadFirst);
}

#[test]
fn a_record_from_before_the_claim_is_caught() {
    breaks(Rule::RecordReadAgain);
}

#[test]
fn c1_a_release_under_another_user_is_caught() {
    breaks(Rule::SoleUser);
}

#[test]
fn c2_a_used_claim_that_a_refused_take_gives_back_is_caught() {
    breaks(Rule::UsedClaimStays);
}

#[test]
fn c3_a_remote_that_could_vanish_is_caught() {
    breaks(Rule::RemoteIsProtected);
}

#[test]
fn c4_a_holder_that_is_not_asked_is_caught() {
    breaks(Rule::HolderStillWants);
}

#[test]
fn c5_a_registrar_that_nobody_knows_of_is_caught() {
    breaks(Rule::RegistrarsAreListed);
}

#[test]
fn c6_an_end_at_another_version_than_the_fences_is_caught() {
    breaks(Rule::EndAtTheFence);
}

#[test]
fn c7_a_claim_that_a_namespace_takes_along_is_caught() {
    breaks(Rule::ClaimIsProtected);
}
