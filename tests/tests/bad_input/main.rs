//! Bad input, each on the real thing: it ends in a condition that names the step, the object and what to do, and every other
//! Provision goes on meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

mod deletions;
mod objects;
mod plugins;
mod remotes;
mod specs;

use std::sync::LazyLock;

use chandlery_tests::{Cluster, Seen, Shape, Team, World};

/// The `south` is for whoever takes a remote down; nobody else may stand on it.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    World::start(Shape {
        remotes: &["east", "south"],
        lease_seconds: 15,
    })
});

fn team() -> Team<'static> {
    Team::on(&WORLD, &["east"])
}

fn east() -> &'static Cluster {
    WORLD.remote("east")
}

/// That `Ready` is false for this reason and its message has all these parts, and that a healthy Provision goes on.
fn assert_told(team: &Team<'_>, provision: &str, reason: &str, parts: &[&str]) -> Seen {
    let seen = team.until_reason(provision, reason);
    assert_eq!(seen.condition("Ready").0, "False", "{seen:?}");
    for part in parts {
        assert!(seen.message().contains(part), "names \"{part}\": {seen:?}");
    }
    let kind = if seen.is_stalled() { "Stalled" } else { "Reconciling" };
    assert_eq!(seen.condition(kind).0, "True", "says who is to act: {seen:?}");
    team.assert_others_go_on("east");
    seen
}
