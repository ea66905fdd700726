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
mod place;
mod sharing;
mod traces;

use std::sync::Mutex;

use chandlery_core::claim::{Rule, Rules};

use crate::host::Work;
use crate::host::Work::{Back, Bring, Collect, Drain, End, Protect, Register, Turn};
use crate::hub::Hub;
use crate::place::Place;
use crate::traces::Deed::{A, B, DeleteHolder, DeleteRemote};
use crate::traces::{Deed, Disturbance, Scene, Sequences, explore};

/// How many different sequences of calls are asked for each time: some 40 ms each, on all cores. `CHANDLERY_TRACES` asks for
/// another number.
const ALL: usize = 10_000;
/// The same on a real API server, where a trace takes seconds.
const SAMPLE: usize = 15;

fn asked_for() -> usize {
    let more = std::env::var("CHANDLERY_TRACES").ok();
    more.map_or(ALL, |more| more.parse().expect("CHANDLERY_TRACES is a number"))
}

/// Runs traces until there are so many different ones in all shares; each share has a thread.
fn nothing_breaks(hub: &Hub, enough: usize, shares: usize) {
    let seen = Mutex::new(Sequences::default());
    let run = |share: usize| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(explore(hub, Rules::default(), &seen, enough, (share, shares)))
    };
    std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = (0..shares).map(|share| scope.spawn(move || run(share))).collect();
        for share in running {
            assert_eq!(share.join().unwrap(), None);
        }
    });
    let all = seen.into_inner().unwrap();
    println!(
        "{} distinct call sequences of {} traces, {} calls",
        all.distinct(),
        all.traces,
        all.calls
    );
    assert!(all.distinct() >= enough, "{}", all.distinct());
}

#[test]
fn no_trace_on_the_real_code_breaks_a_property() {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    nothing_breaks(&Hub::new(), asked_for(), cores);
}

#[test]
fn a_sample_of_the_traces_breaks_nothing_on_a_real_api_server() {
    let place = Place::OnARealServer;
    let _turn = futures::executor::block_on(place.turn());
    nothing_breaks(&Hub::at(place), SAMPLE, 1);
}

/// That it is seen when a rule is left out: at one of its calls A's run stands still, and meanwhile this happens.
async fn is_caught(rule: Rule, beginning: &[Deed], work: Work, meanwhile: &'static [Deed]) {
    assert_eq!(what_breaks(Rules::default(), beginning, work, meanwhile).await, None);
    let broken = what_breaks(Rules::without(rule), beginning, work, meanwhile).await;
    println!("without {rule:?}: {broken:?}");
    assert!(broken.is_some(), "without {rule:?} nothing breaks");
}

async fn what_breaks(rules: Rules, beginning: &[Deed], work: Work, meanwhile: &'static [Deed]) -> Option<String> {
    let hub = Hub::new();
    for call in 0.. {
        let mut scene = Scene::new(&hub, rules);
        for deed in beginning {
            scene.act(*deed).await;
        }
        let was_made = scene.disturb(work, call, Disturbance::Stands(meanwhile)).await;
        let broken = scene.finish().await;
        if broken.is_some() || !was_made {
            return broken;
        }
    }
    None
}

#[tokio::test]
async fn a_list_before_the_fence_is_caught_on_the_real_code() {
    let beginning = [
        A(Protect),
        A(Bring("one")),
        A(Register),
        DeleteHolder("one"),
        A(Back("one")),
    ];
    is_caught(Rule::ListAfterFence, &beginning, Drain, &[B(Bring("two"))]).await;
}

#[tokio::test]
async fn a_count_in_memory_is_caught_on_the_real_code() {
    let beginning = [A(Protect), B(Bring("one")), B(Register)];
    is_caught(Rule::NothingIsCounted, &beginning, Drain, &[B(Bring("one"))]).await;
}

#[tokio::test]
async fn a_claim_after_the_fence_was_read_is_caught_on_the_real_code() {
    is_caught(
        Rule::ClaimBeforeFence,
        &[A(Protect)],
        Bring("one"),
        &[DeleteRemote, B(End)],
    )
    .await;
}

#[tokio::test]
async fn a_record_from_before_the_claim_is_caught_on_the_real_code() {
    // A has loaded its record, and is on the claim no more.
    let beginning = [A(Protect), A(Bring("one")), A(Collect("one"))];
    is_caught(Rule::RecordReadAgain, &beginning, Bring("one"), &[B(Turn("one"))]).await;
}

#[tokio::test]
async fn c1_a_release_under_another_user_is_caught_on_the_real_code() {
    is_caught(Rule::SoleUser, &[A(Protect)], Bring("one"), &[B(Collect("one"))]).await;
}

#[tokio::test]
async fn c2_a_used_claim_that_a_refused_take_gives_back_is_caught_on_the_real_code() {
    let beginning = [A(Protect), A(Bring("one"))];
    is_caught(Rule::UsedClaimStays, &beginning, Bring("one"), &[DeleteRemote]).await;
}

#[tokio::test]
async fn c3_a_remote_that_could_vanish_is_caught_on_the_real_code() {
    is_caught(Rule::RemoteIsProtected, &[], Bring("one"), &[]).await;
}

#[tokio::test]
async fn c5_a_registrar_that_nobody_knows_of_is_caught_on_the_real_code() {
    let meanwhile = &[DeleteHolder("one"), B(Back("one")), DeleteRemote, B(End)];
    let beginning = [A(Protect), B(Bring("one"))];
    is_caught(Rule::RegistrarsAreListed, &beginning, Register, meanwhile).await;
}
