//! Deletion in a bad moment.

use chandlery_tests::{Team, wait_until};
use serde_json::json;

use super::{WORLD, assert_told, east, team};

#[test]
fn a_provision_deleted_before_its_remote_was_ever_ready_goes_at_once() {
    let team = team();
    team.remote_of("never", json!({"source": {"secretRef": {"name": "never"}}}));
    team.provision(
        "p",
        &["never"],
        json!([{"name": "config", "cluster": "never", "objects": [team.config_map("c", "x")]}]),
    );
    team.until("p", "waits for its remote", |seen| seen.state("config") == "Waiting");
    team.remove("p");
    WORLD.hub.delete(&chandlery_tests::at(
        "chandlery.dev/v1alpha1",
        "RemoteCluster",
        &team.named("never"),
    ));
    wait_until("the remote goes as well", || {
        team.seen_remote("never").0.is_null().then_some(())
    });
}

#[test]
fn a_provision_deleted_while_a_step_yields_takes_away_what_was_done() {
    let team = team();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": team.metadata("d"), "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    team.provision(
        "p",
        &["east"],
        json!([{"name": "run", "cluster": "east", "objects": [deployment, team.config_map("c", "x")]}]),
    );
    assert_told(
        &team,
        "p",
        "WaitingForReady",
        &["run: ", "Deployment", &team.named("d")],
    );
    team.remove("p");
    assert!(team.find(east(), "c").is_none());
    for kind in ["Deployment", "ReplicaSet"] {
        wait_until(format!("no {kind} is left"), || {
            east().list("apps/v1", kind, &team.name).is_empty().then_some(())
        });
    }
}

#[test]
fn a_provision_deleted_while_its_remote_is_down_waits_and_then_leaves_nothing() {
    let team = Team::on(&WORLD, &["east", "south"]);
    let south = WORLD.remote("south");
    team.provision(
        "p",
        &["south"],
        json!([{"name": "config", "cluster": "south", "objects": [team.config_map("c", "x")]}]),
    );
    team.until_ready("p");
    south.plane.kill_api_server().unwrap();
    team.delete("p");
    let seen = assert_told(&team, "p", "RemoteUnreachable", &["config: ", "south", "being deleted"]);
    assert!(!seen.is_stalled(), "it is tried again: {seen:?}");
    south.plane.restart_api_server().unwrap();
    team.until_gone("p");
    assert!(team.kept("p").is_empty());
    assert!(team.find(south, "c").is_none());
}
