//! Waiting is no error: it ends with the first change of what is waited for, and deletion never waits for it.

use std::time::{Duration, Instant};

use chandlery_tests::{Team, at, wait_until};
use serde_json::{Value, json};

use super::{WORLD, east, team};

/// A yield that names no delay is tried again after 10 s with a quarter of jitter: what comes earlier was woken.
const SOONER_THAN_ANY_TIMER: Duration = Duration::from_millis(7_400);

fn deployment(team: &Team<'_>) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": team.metadata("d"), "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}},
    }})
}

#[test]
fn a_step_that_waits_goes_on_with_the_first_change_of_what_it_waits_for() {
    let team = team();
    team.provision(
        "p",
        &["east"],
        json!([{"name": "run", "cluster": "east", "objects": [deployment(&team)]}]),
    );
    let waiting = team.until("p", "waits for its Deployment", |seen| seen.state("run") == "Waiting");
    let since = Instant::now();
    assert_eq!(waiting.reason(), "WaitingForReady");
    assert!(waiting.message().contains("Deployment"), "{waiting:?}");
    assert!(!waiting.is_stalled(), "waiting is no error");
    // There is no node: the administrator says in its place that the Pod runs.
    let pod = wait_until("the Deployment has a Pod", || {
        east().list("v1", "Pod", &team.name).into_iter().next()
    });
    let name = pod["metadata"]["name"].as_str().unwrap();
    let ready = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    east().merge_status(&at("v1", "Pod", &team.named(name)), &ready);
    team.until_ready("p");
    let took = since.elapsed();
    assert!(
        took < SOONER_THAN_ANY_TIMER,
        "it was found by a timer, not woken: {took:?}"
    );
    team.remove("p");
    assert!(east().get(&at("apps/v1", "Deployment", &team.named("d"))).is_none());
}

#[test]
fn a_namespace_that_comes_late_is_waited_for_by_name() {
    let team = team();
    let late = format!("{}-late", team.name);
    let mut config = team.config_map("c", "x");
    config["metadata"]["namespace"] = json!(late);
    team.provision(
        "p",
        &["east"],
        json!([{"name": "config", "cluster": "east", "objects": [config]}]),
    );
    let seen = team.until_reason("p", "WaitingForDependency");
    assert!(seen.message().contains(&late) && !seen.is_stalled(), "{seen:?}");
    east().apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": late}}));
    team.until_ready("p");
    team.remove("p");
}

#[test]
fn deletion_does_not_wait_for_what_a_step_waits_for() {
    let team = team();
    let steps = json!([{"name": "run", "cluster": "east", "objects": [deployment(&team), team.config_map("c", "x")]}]);
    team.provision("p", &["east"], steps);
    team.until_reason("p", "WaitingForReady");
    let since = Instant::now();
    assert!(team.find(east(), "c").is_some(), "what could be done was done");
    team.remove("p");
    let took = since.elapsed();
    assert!(
        took < SOONER_THAN_ANY_TIMER,
        "the deletion waited for a timer: {took:?}"
    );
    assert!(team.find(east(), "c").is_none());
}

#[test]
fn paused_provision_can_be_deleted() {
    let team = team();
    let step = |word: &str| json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", word)]}]);
    team.provision("p", &["east"], step("one"));
    team.until_ready("p");
    team.provision_of("p", &["east"], step("two"), json!({"paused": true}));
    let seen = team.until_reason("p", "Paused");
    assert_eq!(seen.condition("Ready").0, "False");
    assert_eq!(team.find(east(), "c").unwrap()["data"]["word"], "one");
    team.remove("p");
    assert!(team.find(east(), "c").is_none());
}

#[test]
fn deletion_is_done_only_when_what_is_deleted_was_seen_gone() {
    let team = team();
    let mut held = team.config_map("c", "x");
    held["metadata"]["namespace"] = json!(team.name);
    team.provision(
        "p",
        &["east"],
        json!([{"name": "config", "cluster": "east", "objects": [held]}]),
    );
    team.until_ready("p");
    let place = at("v1", "ConfigMap", &team.named("c"));
    east().merge(&place, &json!({"metadata": {"finalizers": ["test.example/holds"]}}));
    team.delete("p");
    let seen = team.until("p", "waits for what is held", |seen| {
        seen.state("config") == "Removing" && seen.message().contains("test.example/holds")
    });
    assert!(
        seen.message().contains("config") && seen.message().contains("ConfigMap"),
        "{seen:?}"
    );
    assert_eq!(seen.reason(), "WaitingForDeletion");
    assert!(
        !WORLD
            .hub
            .list("chandlery.dev/v1alpha1", "RemoteClaim", &team.name)
            .is_empty(),
        "the remote is still claimed"
    );
    east().merge(&place, &json!({"metadata": {"finalizers": null}}));
    team.until_gone("p");
    assert!(team.kept("p").is_empty());
}
