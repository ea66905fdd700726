//! The example of a program that embeds the library does what it says.

#![allow(clippy::unwrap_used, reason = "helpers of tests may stop where they stand, too")]

use std::process::Command;
use std::sync::Arc;

use chandlery::core::Digest;
use chandlery::runtime::{Config, Runtime};
use chandlery::{Component, ComponentError};
use serde_json::json;
use xtask::consent::Consent;
use xtask::{guests, workspace};

#[test]
fn the_example_of_an_embedding_outfits_changes_its_mind_and_leaves_nothing() {
    let objects = guests::plugins(Consent::new(false)).unwrap().remove("objects").unwrap();
    let program = workspace::binary("embedding").unwrap();
    let output = Command::new(program).arg("--objects").arg(objects).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let words: Vec<&str> = told
        .lines()
        .filter_map(|line| line.trim().strip_prefix("in the quay: "))
        .collect();
    assert_eq!(
        words,
        ["by-a-plugin, east, lighthouse, west", "by-a-plugin, east, west"],
        "{told}"
    );
    assert!(
        told.ends_with("taken away: nothing is left, on the hub neither\n"),
        "{told}"
    );
}

#[tokio::test]
async fn settings_that_a_component_does_not_take_are_told_before_there_is_a_step() {
    let cache = tempfile::tempdir().unwrap();
    let runtime = Arc::new(Runtime::new(Config::new(cache.path())).unwrap());
    let objects = guests::plugins(Consent::new(false)).unwrap().remove("objects").unwrap();
    let bytes = std::fs::read(objects).unwrap();
    let plugin = runtime.load(&Digest::of(&bytes), &bytes).await.unwrap();
    let refused = |settings| Component::new(runtime.clone(), plugin.clone(), "step", settings);
    for (settings, part) in [
        (json!({"objects": 3}), "/objects"),
        (json!({"objects": [{"kind": "ConfigMap"}]}), "/objects/0"),
    ] {
        match refused(settings).await.err().unwrap() {
            error @ ComponentError::Settings(..) => assert!(error.to_string().contains(part), "{error}"),
            error => panic!("{error}"),
        }
    }
}
