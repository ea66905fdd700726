//! The runtime with real components: what a guest may do, and that a bad one hurts nothing but its own call.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

mod bad_guests;
mod calls;
mod loading;
mod stub;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use chandlery_core::Digest;
use chandlery_core::limits::Limits;
use chandlery_core::task::{Export, Failure, Outcome, Request};
use chandlery_runtime::{Config, LoadError, Plugin, Runtime};
use serde_json::{Value, json};
use stub::Stub;
use xtask::consent::Consent;
use xtask::guests;

static GUESTS: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| {
    let toolchain = guests::toolchain(Consent::new(false)).unwrap();
    guests::build(&toolchain, &xtask::workspace::root().join("tests/fixtures")).unwrap()
});

/// One for the whole program, as in a host.
static RUNTIME: LazyLock<(Runtime, tempfile::TempDir)> = LazyLock::new(|| {
    let cache = tempfile::tempdir().unwrap();
    (Runtime::new(Config::new(cache.path())).unwrap(), cache)
});

fn runtime() -> &'static Runtime {
    &RUNTIME.0
}

fn component(guest: &str) -> Vec<u8> {
    std::fs::read(&GUESTS[&guest.replace('_', "-")]).unwrap()
}

async fn load(guest: &str) -> Result<Arc<Plugin>, LoadError> {
    let bytes = component(guest);
    runtime().load(&Digest::of(&bytes), &bytes).await
}

fn request(spec: Value) -> Request {
    Request {
        provision_uid: "6a1ff7a0-0000-4000-8000-000000000000".parse().unwrap(),
        provision: "team-a/p".into(),
        step: "s".parse().unwrap(),
        spec,
        memory: None,
        now: "2026-01-01T00:00:00Z".into(),
        round: 0,
    }
}

/// Half a second is enough for any guest here, and short enough to wait for one that loops.
fn limits() -> Limits {
    Limits {
        own_time: Duration::from_millis(500),
        call_time: Duration::from_secs(10),
        ..Limits::default()
    }
}

async fn provision(guest: &str, on: &Arc<Stub>, spec: Value, limits: &Limits) -> Result<Outcome, Failure> {
    let plugin = load(guest).await.unwrap();
    runtime()
        .call(&plugin, guest, Export::Provision, on.clone(), &request(spec), limits)
        .await
}

/// What the well-behaved guest answers to a list of calls.
async fn answers(on: &Arc<Stub>, calls: Value, limits: &Limits) -> Vec<Value> {
    match provision("well_behaved", on, json!({"calls": calls}), limits)
        .await
        .unwrap()
    {
        Outcome::Done(done) => done.outputs.unwrap()["answers"].as_array().unwrap().clone(),
        other => panic!("{other:?}"),
    }
}
