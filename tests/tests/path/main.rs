//! The whole path on real clusters: a Provision reaches a remote, follows every change of mind, and leaves it as it was.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

mod changes;
mod identity;
mod in_use;
mod life;
mod on_the_hub;
mod proxy;
mod quiet;
mod remotes;
mod waits;

use std::sync::LazyLock;

use chandlery_tests::{Shape, Team, World};

static WORLD: LazyLock<World> = LazyLock::new(|| {
    World::start(Shape {
        remotes: &["east"],
        lease_seconds: 15,
    })
});

fn team() -> Team<'static> {
    Team::on(&WORLD, &["east"])
}

fn east() -> &'static chandlery_tests::Cluster {
    WORLD.remote("east")
}
