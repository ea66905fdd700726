//! Plugins that cannot be loaded, and plugins that break their contract.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use chandlery_tests::{Seen, Team, wait_until};
use serde_json::{Value, json};
use xtask::consent::Consent;
use xtask::{guests, workspace};

use super::{WORLD, assert_told, team};

static GUESTS: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| {
    let toolchain = guests::toolchain(Consent::new(false)).unwrap();
    guests::build(&toolchain, &workspace::root().join("tests/fixtures")).unwrap()
});

/// A Plugin of one of the bad guests, under a name of this team's own.
fn bad_guest(team: &Team<'_>, guest: &str) -> String {
    let name = format!("{guest}-of-{}", team.name);
    let grant = json!({"remote": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]});
    WORLD.plugin(&name, &std::fs::read(&GUESTS[guest]).unwrap(), grant, json!({}));
    name
}

fn step(plugin: &str) -> Value {
    json!([{"name": "bad", "cluster": "east", "plugin": plugin, "with": {}}])
}

/// That the Plugin says what is wrong with it, and that a Provision that wants it says so too.
fn assert_unusable(team: &Team<'_>, plugin: &str, reason: &str, parts: &[&str]) -> Seen {
    let seen = wait_until(format!("Plugin {plugin} says {reason}"), || {
        Some(WORLD.seen_plugin(plugin)).filter(|seen| seen.reason() == reason)
    });
    assert_eq!(seen.condition("Ready").0, "False");
    for part in parts {
        assert!(seen.message().contains(part), "names \"{part}\": {seen:?}");
    }
    team.provision("p", &["east"], step(plugin));
    let mut named = vec!["bad: ", plugin];
    named.extend(parts);
    assert_told(team, "p", "PluginNotReady", &named);
    team.remove("p");
    seen
}

fn plugin_object(name: &str, file: &str, digest: &str) -> Value {
    json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name},
        "spec": {"source": {"file": {"path": file}}, "digest": digest}})
}

#[test]
fn a_plugin_whose_file_is_missing_says_which_and_comes_once_it_is_there() {
    let team = team();
    let name = format!("missing-of-{}", team.name);
    let bytes = std::fs::read(WORLD.plugin_dir().join("objects")).unwrap();
    let digest = chandlery_core::Digest::of(&bytes).to_string();
    WORLD.hub.apply(&plugin_object(&name, &name, &digest));
    assert_unusable(&team, &name, "FileMissing", &[&name]);
    std::fs::write(WORLD.plugin_dir().join(&name), bytes).unwrap();
    wait_until("the plugin is ready once its file is there", || {
        WORLD.seen_plugin(&name).is_ready().then_some(())
    });
}

#[test]
fn a_plugin_that_is_no_component_says_so() {
    let team = team();
    let name = format!("text-of-{}", team.name);
    WORLD.plugin(&name, b"#!/bin/sh\necho hello\n", json!({}), json!({}));
    assert_unusable(&team, &name, "NotAComponent", &["component"]);
}

#[test]
fn a_plugin_of_another_digest_is_refused_and_names_both() {
    let team = team();
    let name = format!("digest-of-{}", team.name);
    let pinned = format!("sha256:{}", "0".repeat(64));
    let found = chandlery_core::Digest::of(&std::fs::read(WORLD.plugin_dir().join("objects")).unwrap()).to_string();
    WORLD.hub.apply(&plugin_object(&name, "objects", &pinned));
    let seen = assert_unusable(&team, &name, "DigestMismatch", &[&pinned, &found, "spec.digest"]);
    assert_eq!(seen.condition("Verified").0, "False");
}

#[test]
fn a_plugin_that_imports_something_unknown_names_it() {
    let team = team();
    let name = bad_guest(&team, "imports-unknown");
    let seen = assert_unusable(&team, &name, "Incompatible", &["test:foreign/files@1.0.0"]);
    assert_eq!(seen.condition("Compatible").0, "False");
}

/// That a Provision with this guest ends so, and can be taken away all the same.
fn assert_breaks(guest: &str, reason: &str, parts: &[&str]) {
    let team = team();
    let name = bad_guest(&team, guest);
    wait_until(format!("Plugin {name} is ready"), || {
        WORLD.seen_plugin(&name).is_ready().then_some(())
    });
    team.provision("p", &["east"], step(&name));
    let mut named = vec!["bad: "];
    named.extend(parts);
    let seen = assert_told(&team, "p", reason, &named);
    assert!(seen.is_stalled(), "{seen:?}");
    team.remove("p");
}

#[test]
fn a_plugin_that_panics_fails_its_step_and_nothing_else() {
    assert_breaks("panics", "Panicked", &["panicked", "the spec is odd"]);
}

#[test]
fn a_plugin_that_loops_is_stopped() {
    assert_breaks("loops", "OutOfTime", &["2000 ms"]);
}

#[test]
fn a_plugin_that_eats_memory_is_stopped() {
    assert_breaks("eats-memory", "OutOfMemory", &["64 MiB of memory"]);
}

#[test]
fn a_plugin_that_answers_nonsense_is_told_what_was_wrong() {
    assert_breaks("outputs-are-no-json", "InvalidAnswer", &["outputs is not JSON"]);
}

#[test]
fn a_plugin_that_asks_for_more_than_its_grant_is_denied_and_told_what() {
    assert_breaks("asks-for-what-is-denied", "Denied", &["secrets", "grant"]);
}
