//! Every change of mind: what leaves the spec leaves the cluster, and nothing else does.

use chandlery_tests::{At, wait_until};
use serde_json::{Value, json};

use super::{WORLD, east, team};

fn uid(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

#[test]
fn an_object_that_leaves_the_spec_is_pruned_and_its_neighbour_stays() {
    let team = team();
    let step = |objects: &[Value]| json!([{"name": "config", "cluster": "east", "objects": objects}]);
    let (a, b) = (team.config_map("a", "x"), team.config_map("b", "x"));
    team.provision("p", &["east"], step(&[a.clone(), b]));
    team.until_ready("p");
    let neighbour = team.find(east(), "a").unwrap();
    team.provision("p", &["east"], step(&[a]));
    let seen = team.until_ready("p");
    assert!(team.find(east(), "b").is_none());
    assert_eq!(uid(&neighbour), uid(&team.find(east(), "a").unwrap()));
    assert_eq!(seen.row("config")["objects"], 1);
    team.remove("p");
    assert!(team.find(east(), "a").is_none());
}

#[test]
fn an_object_that_is_to_be_kept_survives_pruning_and_deletion_without_our_mark() {
    let team = team();
    let kept = |name: &str| {
        let mut object = team.config_map(name, "x");
        object["metadata"]["annotations"] = json!({"chandlery.dev/keep": "true"});
        object
    };
    let step = |objects: &[Value]| json!([{"name": "config", "cluster": "east", "objects": objects}]);
    team.provision("p", &["east"], step(&[kept("a"), kept("b"), team.config_map("c", "x")]));
    team.until_ready("p");
    team.provision("p", &["east"], step(&[kept("b"), team.config_map("c", "x")]));
    team.until_ready("p");
    assert!(team.find(east(), "a").is_some(), "pruning leaves it");
    team.remove("p");
    assert!(team.find(east(), "c").is_none());
    for name in ["a", "b"] {
        let object = team.find(east(), name).unwrap();
        assert_eq!(object["data"]["word"], "x");
        assert!(
            object["metadata"]["annotations"].get("chandlery.dev/owner").is_none(),
            "another step may have it: {object}"
        );
    }
}

#[test]
fn an_object_that_was_there_before_loses_only_our_fields() {
    let team = team();
    let mut theirs = team.config_map("c", "x");
    theirs["data"] = json!({"theirs": "1"});
    let before = east().apply(&theirs);
    team.provision(
        "p",
        &["east"],
        json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", "ours")]}]),
    );
    team.until_ready("p");
    assert_eq!(
        team.find(east(), "c").unwrap()["data"],
        json!({"theirs": "1", "word": "ours"})
    );
    team.remove("p");
    let after = team.find(east(), "c").unwrap();
    assert_eq!(uid(&before), uid(&after));
    assert_eq!(after["data"], json!({"theirs": "1"}));
    assert!(after["metadata"].get("annotations").is_none(), "{after}");
}

#[test]
fn a_condition_that_turns_false_undoes_its_step_and_releases_its_claim() {
    let team = team();
    let steps = json!([
        {"name": "always", "cluster": "east", "objects": [team.config_map("always", "x")]},
        {"name": "maybe", "cluster": "east", "when": "inputs.wanted", "objects": [team.config_map("maybe", "x")]},
    ]);
    let claims = || -> Vec<String> {
        let claims = WORLD.hub.list("chandlery.dev/v1alpha1", "RemoteClaim", &team.name);
        claims
            .iter()
            .map(|claim| claim["spec"]["holder"]["step"].as_str().unwrap().to_owned())
            .collect()
    };
    for wanted in [true, false, true, false] {
        team.provision_of("p", &["east"], steps.clone(), json!({"inputs": {"wanted": wanted}}));
        let seen = team.until_ready("p");
        assert_eq!(seen.state("maybe"), if wanted { "Done" } else { "Skipped" });
        assert_eq!(team.find(east(), "maybe").is_some(), wanted);
        assert!(team.find(east(), "always").is_some());
        let holds = claims();
        assert_eq!(holds.contains(&"maybe".to_owned()), wanted, "{holds:?}");
        assert!(holds.contains(&"always".to_owned()), "{holds:?}");
    }
    team.remove("p");
}

#[test]
fn a_step_that_leaves_the_spec_is_undone_and_its_row_goes() {
    let team = team();
    let step = |name: &str| json!({"name": name, "cluster": "east", "objects": [team.config_map(name, "x")]});
    team.provision("p", &["east"], json!([step("stays"), step("leaves")]));
    team.until_ready("p");
    team.provision("p", &["east"], json!([step("stays")]));
    let seen = team.until("p", "has one step", |seen| {
        seen.is_ready() && seen.row("leaves").is_null()
    });
    assert_eq!(seen.0["status"]["stepsDone"], "1/1");
    assert!(team.find(east(), "leaves").is_none() && team.find(east(), "stays").is_some());
    team.remove("p");
}

#[test]
fn a_step_that_moves_to_another_remote_is_undone_where_it_was() {
    let team = team();
    // The hub serves as a second remote here: by a kubeconfig, as any other.
    team.remote("west", &WORLD.hub.guest_kubeconfig());
    let step = |cluster: &str| json!([{"name": "config", "cluster": cluster, "objects": [team.config_map("c", "x")]}]);
    team.provision("p", &["east", "west"], step("east"));
    team.until_ready("p");
    assert!(team.find(east(), "c").is_some() && team.find(&WORLD.hub, "c").is_none());
    team.provision("p", &["east", "west"], step("west"));
    team.until_ready("p");
    assert!(team.find(east(), "c").is_none() && team.find(&WORLD.hub, "c").is_some());
    team.remove("p");
    assert!(team.find(&WORLD.hub, "c").is_none());
}

#[test]
fn what_somebody_deletes_in_the_remote_comes_back() {
    let team = team();
    team.provision(
        "p",
        &["east"],
        json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", "ours")]}]),
    );
    team.until_ready("p");
    let first = team.find(east(), "c").unwrap();
    east().delete(&At::of(&first));
    let second = wait_until("the deleted object is back", || {
        team.find(east(), "c").filter(|object| uid(object) != uid(&first))
    });
    assert_eq!(second["data"]["word"], "ours");
    // The new one is the step's own as the old one was.
    team.remove("p");
    wait_until("the object that came back went with its provision", || {
        team.find(east(), "c").is_none().then_some(())
    });
}
