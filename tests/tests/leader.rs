//! One daemon leads. One that was stopped past its Lease starts no further write; one that is asked to end gives way at once.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chandlery_tests::{Call, Shape, Team, World, at, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use xtask::daemon::USER;

const SHAPE: Shape = Shape {
    remotes: &["east"],
    lease_seconds: 4,
};
const PROVISIONS: usize = 20;
/// What `chandlery daemon` allows itself after SIGTERM by default.
const GRACE: Duration = Duration::from_secs(20);

fn lease(world: &World) -> Value {
    world
        .hub
        .get(&at("coordination.k8s.io/v1", "Lease", "chandlery-system/chandlery"))
        .unwrap()
}

fn holder(world: &World) -> String {
    lease(world)["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn come(team: &Team<'_>, from: usize) {
    for at in from..from + PROVISIONS {
        let object = team.config_map(&format!("c{at}"), "x");
        team.provision(
            &format!("p{at}"),
            &["east"],
            json!([{"name": "config", "cluster": "east", "objects": [object]}]),
        );
    }
}

/// The daemon's writes on the hub since a mark, but for those to the Lease.
fn writes(world: &World, mark: u64) -> Vec<Call> {
    let calls = world.hub.audit().since(mark).into_iter();
    calls
        .filter(|call| call.user == USER && call.is_write() && !call.is_lease())
        .collect()
}

#[test]
fn a_leader_that_was_stopped_past_its_lease_starts_no_further_write() {
    let world = World::start(SHAPE);
    let team = Team::on(&world, &["east"]);
    wait_until("the remote is ready", || {
        team.seen_remote("east").is_ready().then_some(())
    });
    world.daemons()[0].wait_until_leading().unwrap();
    let first = holder(&world);
    world.start_daemon();
    assert_eq!(holder(&world), first, "the second stands by");
    let mark = world.hub.audit().mark();
    come(&team, 0);
    // Stopped in the middle of its work, not in a rest.
    wait_until("the leader works", || {
        (writes(&world, mark).len() > PROVISIONS).then_some(())
    });
    world.daemons()[0].signal(Signal::SIGSTOP).unwrap();
    let old: BTreeSet<_> = writes(&world, mark).into_iter().map(|call| call.credential).collect();
    assert_eq!(old.len(), 1, "one daemon wrote: {old:?}");

    wait_until("the other takes over", || (holder(&world) != first).then_some(()));
    come(&team, PROVISIONS);
    for at in 0..2 * PROVISIONS {
        team.until_ready(&format!("p{at}"));
    }
    let remote_taken_over = world.remote("east").audit().mark();
    // Work that the old one knows of, and would do if it could: its objects are gone.
    for at in 0..PROVISIONS {
        team.delete(&format!("p{at}"));
    }
    world.daemons()[0].signal(Signal::SIGCONT).unwrap();
    let status = wait_until("the old leader ends", || world.daemons()[0].has_ended().unwrap());
    assert!(!status.success(), "who lost the Lease ends with an error: {status}");
    for at in 0..PROVISIONS {
        team.until_gone(&format!("p{at}"));
    }
    // What it had sent before it was stopped may be answered late; what counts is when it arrived.
    let calls = writes(&world, mark);
    let is_old = |call: &&Call| old.contains(&call.credential);
    let first_of_new = calls
        .iter()
        .filter(|call| !is_old(call))
        .min_by_key(|call| &call.at)
        .unwrap();
    let late: Vec<_> = calls
        .iter()
        .filter(is_old)
        .filter(|call| call.at > first_of_new.at)
        .collect();
    assert!(
        late.is_empty(),
        "the old leader wrote to the hub: {late:#?}\nafter {first_of_new:#?}"
    );
    // Both have the same credential for the remote: what was done there was done once.
    let remote = world.remote("east");
    let deletions = remote.audit().since(remote_taken_over).into_iter();
    let deletions: Vec<_> = deletions
        .filter(|call| call.user == remote.guest && call.verb == "delete")
        .collect();
    let names: BTreeSet<_> = deletions.iter().map(|call| &call.name).collect();
    assert_eq!(
        (deletions.len(), names.len()),
        (PROVISIONS, PROVISIONS),
        "{deletions:#?}"
    );
}

#[test]
fn a_daemon_that_is_asked_to_end_does_so_within_its_grace_and_gives_the_lease_up() {
    // Long enough that nobody could wait for its end here.
    let world = World::start(Shape {
        lease_seconds: 600,
        ..SHAPE
    });
    let team = Team::on(&world, &["east"]);
    wait_until("the remote is ready", || {
        team.seen_remote("east").is_ready().then_some(())
    });
    let mark = world.hub.audit().mark();
    come(&team, 0);
    wait_until("the daemon works", || {
        (writes(&world, mark).len() > PROVISIONS).then_some(())
    });
    let asked = Instant::now();
    let status = world.daemons()[0].stop().unwrap();
    assert!(status.success(), "{status}");
    assert!(asked.elapsed() < GRACE, "{:?}", asked.elapsed());
    assert_eq!(holder(&world), "");
    world.start_daemon();
    for at in 0..PROVISIONS {
        team.until_ready(&format!("p{at}"));
        team.remove(&format!("p{at}"));
    }
}
