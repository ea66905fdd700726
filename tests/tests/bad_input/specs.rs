//! Provisions that cannot be understood: everything wrong is told at once, with its place, and nothing was written.

use chandlery_tests::{Team, at};
use serde_json::{Value, json};

use super::{WORLD, assert_told, team};

fn step(team: &Team<'_>, name: &str, needs: &[&str]) -> Value {
    json!({"name": name, "cluster": "east", "needs": needs, "objects": [team.config_map(name, "x")]})
}

fn assert_refused(team: &Team<'_>, steps: Value, parts: &[&str]) {
    team.provision("p", &["east"], steps);
    let seen = assert_told(team, "p", "InvalidSpec", parts);
    assert!(seen.is_stalled());
    assert!(team.kept("p").is_empty(), "nothing was begun");
    // A spec that is mended is taken up at once.
    team.provision("p", &["east"], json!([step(team, "good", &[])]));
    team.until_ready("p");
    team.remove("p");
}

#[test]
fn a_cycle_is_told_with_its_steps() {
    let team = team();
    let steps = json!([
        step(&team, "one", &["two"]),
        step(&team, "two", &["three"]),
        step(&team, "three", &["one"])
    ]);
    assert_refused(&team, steps, &["one", "two", "three", "needs"]);
}

#[test]
fn an_unknown_remote_is_told_with_the_place_that_names_it() {
    let team = team();
    let mut bad = step(&team, "one", &[]);
    bad["cluster"] = json!("nowhere");
    assert_refused(&team, json!([bad]), &["nowhere", "/spec/steps/0/cluster", "east"]);
}

#[test]
fn a_remote_without_a_remote_cluster_is_waited_for_by_name() {
    let team = team();
    team.provision(
        "p",
        &["nowhere"],
        json!([{"name": "one", "cluster": "nowhere", "objects": [team.config_map("c", "x")]}]),
    );
    assert_told(
        &team,
        "p",
        "WaitingForRemote",
        &["one: ", "RemoteCluster nowhere", &team.name],
    );
    team.remove("p");
}

#[test]
fn a_step_that_is_there_twice_is_told() {
    let team = team();
    assert_refused(
        &team,
        json!([step(&team, "one", &[]), step(&team, "one", &[])]),
        &["one", "/spec/steps/1/name"],
    );
}

#[test]
fn settings_that_the_plugins_schema_refuses_are_told_with_their_place() {
    let team = team();
    let with = json!({"objects": "none", "wait": true});
    team.provision(
        "p",
        &["east"],
        json!([{"name": "one", "cluster": "east", "plugin": "objects", "with": with}]),
    );
    let seen = assert_told(&team, "p", "InvalidSpec", &["one: ", "/objects", "wait"]);
    assert!(seen.is_stalled(), "{seen:?}");
    team.remove("p");
}

#[test]
fn a_step_with_both_plugin_and_objects_does_not_get_into_the_cluster() {
    let team = team();
    let mut both = step(&team, "one", &[]);
    both["plugin"] = json!("objects");
    let object = team.provision_object("p", &["east"], json!([both]), json!({}));
    let error = WORLD.hub.try_apply(&object).unwrap_err().to_string();
    assert!(
        error.contains("each step has exactly one of plugin and objects"),
        "{error}"
    );
    assert!(
        WORLD
            .hub
            .get(&at("chandlery.dev/v1alpha1", "Provision", &team.named("p")))
            .is_none()
    );
}

#[test]
fn a_step_on_the_hub_without_an_account_is_told_what_to_set() {
    let team = team();
    team.provision(
        "p",
        &[],
        json!([{"name": "one", "cluster": "hub", "objects": [team.config_map("c", "x")]}]),
    );
    assert_told(
        &team,
        "p",
        "InvalidSpec",
        &["/spec/steps/0/cluster", "serviceAccountName"],
    );
    assert!(team.find(&WORLD.hub, "c").is_none());
    team.remove("p");
}
