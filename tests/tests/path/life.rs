//! From creation to deletion, and what people see of it.

use serde_json::json;

use super::{WORLD, east, team};

#[test]
fn a_provision_comes_and_goes_and_nothing_is_left() {
    let team = team();
    let before = [&WORLD.hub, east()].map(|cluster| (cluster, cluster.inventory()));
    let inner = format!("{}-inner", team.name);
    let mut config = team.config_map("c", "${inputs.word}");
    config["metadata"]["namespace"] = json!(inner);
    let steps = json!([
        {"name": "space", "cluster": "east", "objects": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": inner}}]},
        {"name": "config", "cluster": "east", "needs": ["space"], "objects": [config]},
    ]);
    team.provision_of("p", &["east"], steps, json!({"inputs": {"word": "hello"}}));
    let seen = team.until_ready("p");
    let place = chandlery_tests::at("v1", "ConfigMap", &format!("{inner}/c"));
    assert_eq!(east().get(&place).unwrap()["data"]["word"], "hello");
    assert_eq!(seen.0["status"]["stepsDone"], "2/2");
    for step in ["space", "config"] {
        let row = seen.row(step);
        assert_eq!(
            (&row["state"], &row["cluster"], &row["objects"]),
            (&json!("Done"), &json!("east"), &json!(1)),
            "{row}"
        );
    }
    for kind in ["Reconciling", "Stalled"] {
        assert_eq!(seen.condition(kind).0, "", "{kind} is there only while true");
    }
    team.remove("p");
    for (cluster, before) in before {
        // The RemoteCluster tells how many claims there are on it, and when it was looked at.
        let difference = team.difference(&before, &cluster.inventory()).to_string();
        let lines: Vec<_> = difference
            .lines()
            .filter(|line| line.starts_with(['-', '+', '!', '~']))
            .collect();
        assert!(
            lines.iter().all(|line| line.starts_with("~ remoteclusters")),
            "{difference}"
        );
    }
}

#[test]
fn kubectl_shows_where_things_stand() {
    let team = team();
    let steps = json!([
        {"name": "first", "cluster": "east", "objects": [team.config_map("c", "x")]},
        {"name": "second", "cluster": "east", "needs": ["first"], "objects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": format!("{}-missing", team.name)}}]},
    ]);
    team.provision("p", &["east"], steps);
    team.until("p", "waits with its second step", |seen| {
        seen.state("second") == "Waiting"
    });
    let kubectl = WORLD.hub.plane.client();
    let table = |kind: &str| kubectl.text(["get", kind, "--namespace", &team.name]).unwrap();
    let columns = |table: &str, line: usize| -> Vec<String> {
        table
            .lines()
            .nth(line)
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    let shown = table("chprov");
    assert_eq!(
        columns(&shown, 0),
        ["NAME", "READY", "STEPS", "REASON", "MESSAGE", "AGE"]
    );
    assert_eq!(
        columns(&shown, 1)[..4],
        ["p", "False", "1/2", "WaitingForDependency"],
        "{shown}"
    );
    assert!(
        shown.contains("second: ConfigMap"),
        "the message names step and object: {shown}"
    );
    let shown = table("chremote");
    assert_eq!(
        columns(&shown, 0),
        ["NAME", "READY", "VERSION", "ENDPOINT", "CLAIMS", "REASON", "AGE"]
    );
    assert_eq!(columns(&shown, 1)[..2], ["east", "True"], "{shown}");
    let shown = table("chclaim");
    assert_eq!(columns(&shown, 0), ["NAME", "REMOTE", "KIND", "HOLDER", "STEP", "AGE"]);
    assert!(
        shown.lines().any(|line| line.contains(" p ") && line.contains("first")),
        "{shown}"
    );
    let shown = table("chstep");
    assert_eq!(
        columns(&shown, 0),
        ["NAME", "PROVISION", "STEP", "PHASE", "PLUGIN", "AGE"]
    );
    assert!(
        shown
            .lines()
            .any(|line| line.contains("first") && line.contains("Done")),
        "{shown}"
    );
    let shown = table("chandlery");
    for name in ["provision", "remotecluster", "remoteclaim", "steprecord"] {
        assert!(shown.contains(name), "category chandlery lists {name}: {shown}");
    }
    let shown = kubectl.text(["get", "chplugin", "objects"]).unwrap();
    assert_eq!(
        columns(&shown, 0),
        ["NAME", "READY", "PLUGIN", "VERSION", "REASON", "AGE"]
    );
    assert_eq!(
        columns(&shown, 1)[..3],
        ["objects", "True", "chandlery.dev/objects"],
        "{shown}"
    );
    // What people wait with: it must pass neither too early nor never.
    let waited = kubectl.text([
        "wait",
        "--for=condition=Ready",
        "--timeout=1s",
        "--namespace",
        &team.name,
        "chprov/p",
    ]);
    assert!(waited.is_err(), "it is not ready");
    team.remove("p");
}

#[test]
fn every_change_of_state_is_an_event() {
    let team = team();
    team.provision(
        "p",
        &["east"],
        json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", "x")]}]),
    );
    team.until_ready("p");
    let told = |name: &str, reason: &str| {
        chandlery_tests::wait_until(format!("an event {reason} of {name}"), || {
            let events = WORLD.hub.list("events.k8s.io/v1", "Event", &team.name);
            events
                .into_iter()
                .find(|event| event["regarding"]["name"] == name && event["reason"] == reason)
        })
    };
    let event = told("p", "Done");
    assert_eq!(
        (&event["type"], &event["reportingController"]),
        (&json!("Normal"), &json!("chandlery"))
    );
    told("east", "Reachable");
    let missing = json!([{"name": "config", "cluster": "east", "objects": [{"apiVersion": "v1", "kind": "Nothing", "metadata": team.metadata("n")}]}]);
    team.provision("p", &["east"], missing);
    let seen = team.until("p", "is not ready", |seen| {
        seen.is_current() && seen.condition("Ready").0 == "False"
    });
    let event = told("p", seen.reason());
    assert!(event["note"].as_str().unwrap().contains("Nothing"), "{event}");
    team.remove("p");
}

#[test]
fn the_status_says_which_generation_it_speaks_of() {
    let team = team();
    let step = |word: &str| json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", word)]}]);
    for (generation, word) in [(1, "one"), (2, "two")] {
        team.provision("p", &["east"], step(word));
        let seen = team.until_ready("p");
        assert_eq!(seen.0["metadata"]["generation"], generation);
        let conditions = seen.0["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions
                .iter()
                .all(|condition| condition["observedGeneration"] == generation),
            "{seen:?}"
        );
        assert_eq!(team.find(east(), "c").unwrap()["data"]["word"], word);
    }
    team.remove("p");
}

#[test]
fn the_same_name_made_again_at_once_is_another_provision() {
    let team = team();
    let step = |word: &str| json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", word)]}]);
    team.provision("p", &["east"], step("one"));
    let first = team.until_ready("p");
    let old = team.find(east(), "c").unwrap();
    team.delete("p");
    let successor = team.provision_object("p", &["east"], step("two"), json!({}));
    // While the old one is there it cannot be made; the first moment it can is the one that is wanted.
    let made = chandlery_tests::wait_until("the successor can be made", || WORLD.hub.create(&successor).ok());
    let second = team.until_ready("p");
    assert_eq!(second.0["metadata"]["uid"], made["metadata"]["uid"]);
    assert_ne!(first.uid(), second.uid());
    let new = team.find(east(), "c").unwrap();
    assert_eq!(new["data"]["word"], "two");
    assert_ne!(
        old["metadata"]["uid"], new["metadata"]["uid"],
        "what the old one made went with it"
    );
    team.remove("p");
    assert!(team.find(east(), "c").is_none());
}
