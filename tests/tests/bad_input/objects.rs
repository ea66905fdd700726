//! Objects that a cluster refuses, does not know yet, or has given to somebody else.

use chandlery_tests::{At, Team, at, wait_until};
use serde_json::{Value, json};

use super::{assert_told, east, team};

fn steps(objects: &[Value]) -> Value {
    json!([{"name": "bad", "cluster": "east", "objects": objects}])
}

fn definition(team: &Team<'_>) -> Value {
    let group = format!("{}.example", team.name);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn thing(team: &Team<'_>) -> Value {
    json!({"apiVersion": format!("{}.example/v1", team.name), "kind": "Thing", "metadata": team.metadata("t")})
}

#[test]
fn an_object_that_is_too_large_is_named() {
    let team = team();
    // The Provision itself fits; what it is to make of its inputs does not.
    let input = "x".repeat(600 * 1024);
    let mut large = team.config_map("large", "${inputs.text}");
    large["data"]["again"] = json!("${inputs.text}");
    team.provision_of("p", &["east"], steps(&[large]), json!({"inputs": {"text": input}}));
    let seen = assert_told(
        &team,
        "p",
        "InvalidSpec",
        &["bad: ", "/objects/0", "large", "1 MiB at most"],
    );
    assert!(seen.is_stalled());
    team.remove("p");
}

#[test]
fn an_object_that_the_cluster_refuses_is_named_with_the_field() {
    let team = team();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": team.metadata("s"), "spec": {"ports": [{"port": 99999}]}});
    team.provision("p", &["east"], steps(&[service, team.config_map("good", "x")]));
    let seen = assert_told(
        &team,
        "p",
        "InvalidSpec",
        &["bad: ", "Service", "/objects/0/spec/ports/0/port"],
    );
    assert!(seen.is_stalled());
    assert!(team.find(east(), "good").is_some(), "its neighbour was applied");
    team.remove("p");
    assert!(team.find(east(), "good").is_none());
}

#[test]
fn a_kind_that_is_not_served_is_waited_for_by_name() {
    let team = team();
    team.provision("p", &["east"], steps(&[thing(&team), team.config_map("good", "x")]));
    let seen = assert_told(&team, "p", "WaitingForDependency", &["bad: ", "Thing", &team.name]);
    assert!(!seen.is_stalled(), "somebody may be about to define it");
    assert!(team.find(east(), "good").is_some());
    east().apply(&definition(&team));
    team.until_ready("p");
    team.remove("p");
    east().delete(&At::of(&definition(&team)));
}

#[test]
fn a_definition_and_its_objects_may_come_together() {
    let team = team();
    team.provision("p", &["east"], steps(&[thing(&team), definition(&team)]));
    team.until_ready("p");
    assert!(east().get(&At::of(&thing(&team))).is_some());
    team.remove("p");
    assert!(east().get(&At::of(&definition(&team))).is_none());
}

#[test]
fn a_namespace_that_is_ending_is_waited_for() {
    let team = team();
    let ending = format!("{}-ending", team.name);
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ending}});
    let holds = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "holds", "namespace": ending, "finalizers": ["test.example/holds"]}});
    east().apply(&space);
    east().apply(&holds);
    east().delete(&At::of(&space));
    let mut config = team.config_map("c", "x");
    config["metadata"]["namespace"] = json!(ending);
    team.provision("p", &["east"], steps(&[config]));
    let seen = assert_told(&team, "p", "Unavailable", &["bad: ", "ConfigMap", &ending, "terminat"]);
    assert!(!seen.is_stalled());
    east().merge(&At::of(&holds), &json!({"metadata": {"finalizers": null}}));
    wait_until("the namespace is gone", || {
        east().get(&At::of(&space)).is_none().then_some(())
    });
    east().apply(&space);
    team.until_ready("p");
    team.remove("p");
}

#[test]
fn a_field_that_is_somebody_elses_is_named_with_its_owner() {
    let team = team();
    let theirs = east().apply(&team.config_map("c", "theirs"));
    team.provision("p", &["east"], steps(&[team.config_map("c", "ours")]));
    assert_told(
        &team,
        "p",
        "Conflict",
        &["bad: ", "ConfigMap", "a-person", ".data.word", "force"],
    );
    assert_eq!(team.find(east(), "c").unwrap()["data"]["word"], "theirs");
    team.remove("p");
    let after = team.find(east(), "c").unwrap();
    assert_eq!(after["metadata"]["uid"], theirs["metadata"]["uid"]);
    assert_eq!(after["data"]["word"], "theirs");
}

#[test]
fn an_object_of_another_step_is_never_taken_over() {
    let team = team();
    team.provision(
        "owner",
        &["east"],
        json!([{"name": "mine", "cluster": "east", "objects": [team.config_map("c", "owner")]}]),
    );
    let owner = team.until_ready("owner");
    let with = json!({"objects": [team.config_map("c", "thief")], "force": true});
    team.provision(
        "p",
        &["east"],
        json!([{"name": "bad", "cluster": "east", "plugin": "objects", "with": with}]),
    );
    let mark = format!("{}/mine", owner.uid());
    assert_told(&team, "p", "Conflict", &["bad: ", "ConfigMap", &mark]);
    team.remove("p");
    assert_eq!(team.find(east(), "c").unwrap()["data"]["word"], "owner");
    team.remove("owner");
    assert!(east().get(&at("v1", "ConfigMap", &team.named("c"))).is_none());
}
