//! Clusters within clusters, on four real control planes: the hub, and three remotes each reached through the one before.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

use std::sync::LazyLock;

use chandlery_tests::{Cluster, Shape, Team, World, at, everything, wait_for, wait_until};
use serde_json::{Value, json};
use xtask::consent::Consent;
use xtask::{guests, workspace};

const OURS: &str = "chandlery.dev/v1alpha1";

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let world = World::start(Shape {
        remotes: &["outer", "middle", "inner"],
        lease_seconds: 15,
    });
    world.plugin("tells", &well_behaved(), json!({"remote": everything()}), json!({}));
    wait_until("the fixture is ready", || {
        world.seen_plugin("tells").is_ready().then_some(())
    });
    world
});

/// A plugin that makes the calls its spec lists, and tells what it is asked.
fn well_behaved() -> Vec<u8> {
    let toolchain = guests::toolchain(Consent::new(false)).unwrap();
    let fixtures = guests::build(&toolchain, &workspace::root().join("tests/fixtures")).unwrap();
    std::fs::read(&fixtures["well-behaved"]).unwrap()
}

fn cluster(name: &str) -> &'static Cluster {
    WORLD.remote(name)
}

/// A team whose remotes are nested: the kubeconfig of each but the first lies in the one before.
fn team() -> Team<'static> {
    let team = Team::on(&WORLD, &["outer"]);
    for (name, via) in [("middle", "outer"), ("inner", "middle")] {
        team.space(cluster(name));
        keep(&team, via, name, &cluster(name).guest_kubeconfig());
        within(&team, name, via);
    }
    team
}

/// Puts a kubeconfig into a cluster.
fn keep(team: &Team<'_>, cluster_name: &str, name: &str, kubeconfig: &str) {
    cluster(cluster_name).apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": team.metadata(name), "stringData": {"value": kubeconfig},
    }));
}

fn within_spec(team: &Team<'_>, name: &str, via: &str) -> Value {
    json!({"via": via, "source": {"secretRef": {"name": name, "namespace": team.name}}})
}

fn within(team: &Team<'_>, name: &str, via: &str) {
    team.remote_of(name, within_spec(team, name, via));
}

fn delete_remote(team: &Team<'_>, name: &str) {
    WORLD.hub.delete(&at(OURS, "RemoteCluster", &team.named(name)));
}

fn until_remote(team: &Team<'_>, name: &str, reason: &str) {
    wait_until(format!("remote {name} says {reason}"), || {
        (team.seen_remote(name).reason() == reason).then_some(())
    });
}

fn until_remote_gone(team: &Team<'_>, name: &str) {
    wait_for(|| match team.seen_remote(name) {
        seen if seen.0.is_null() => Ok(()),
        seen => Err(seen),
    })
    .unwrap_or_else(|seen| panic!("remote {name} stays: {seen:?}\n{}", WORLD.told_of(&team.name)));
}

/// Holders of the claims on a remote, as `kind/name`.
fn holders(team: &Team<'_>, remote: &str) -> Vec<String> {
    let claims = WORLD.hub.list(OURS, "RemoteClaim", &team.name);
    let of_remote = claims.iter().filter(|claim| claim["spec"]["remote"]["name"] == remote);
    let word = |claim: &Value, key: &str| claim["spec"]["holder"][key].as_str().unwrap_or_default().to_owned();
    let mut holders: Vec<String> = of_remote
        .map(|claim| format!("{}/{}", word(claim, "kind"), word(claim, "name")))
        .collect();
    holders.sort();
    holders
}

fn config(team: &Team<'_>, remote: &str) -> Value {
    json!({"name": remote, "cluster": remote, "objects": [team.config_map(remote, "x")]})
}

#[test]
fn nested_three_deep() {
    let team = team();
    let names = ["outer", "middle", "inner"];
    team.provision(
        "p",
        &names,
        Value::Array(names.map(|name| config(&team, name)).to_vec()),
    );
    team.until_ready("p");
    for name in names {
        for other in names {
            let found = team.find(cluster(other), name).is_some();
            assert_eq!(found, name == other, "{name} in {other}");
        }
    }
    let path = team.seen_remote("inner").0["status"]["path"].clone();
    assert_eq!(path, json!(names));
    assert_eq!(holders(&team, "outer"), ["Provision/p", "RemoteCluster/middle"]);
    assert_eq!(holders(&team, "middle"), ["Provision/p", "RemoteCluster/inner"]);

    // Whoever is led through stays, and says for whom; those within go on meanwhile, and come to their end.
    delete_remote(&team, "outer");
    delete_remote(&team, "middle");
    wait_until("the outer remote says who is within", || {
        let message = team.seen_remote("outer").message().to_owned();
        message.contains("RemoteCluster middle").then_some(())
    });
    // Another process comes after this one, and goes on.
    WORLD.daemons().last_mut().unwrap().kill().unwrap();
    WORLD.start_daemon();
    team.remove("p");
    for name in names {
        assert!(team.find(cluster(name), name).is_none(), "{name}");
    }
    assert!(!team.seen_remote("outer").0.is_null() && !team.seen_remote("middle").0.is_null());
    delete_remote(&team, "inner");
    for name in ["inner", "middle", "outer"] {
        until_remote_gone(&team, name);
    }
    let claims = WORLD.hub.list(OURS, "RemoteClaim", &team.name);
    assert_eq!(claims, Vec::<Value>::new());
}

/// What the steps of a Provision were told when they were taken away.
fn told_doomed(team: &Team<'_>, remote: &str) -> bool {
    let told = WORLD.told_of(&team.name);
    let line = told
        .lines()
        .find(|line| line.contains("is taken away") && line.contains(remote));
    let line = line.unwrap_or_else(|| panic!("nothing was told of {remote}:\n{told}"));
    assert!(line.contains("doomed"), "{line}");
    line.contains("true")
}

fn telling(team: &Team<'_>, remote: &str, background: bool) -> Value {
    json!({"name": format!("on-{remote}"), "cluster": remote, "plugin": "tells", "backgroundDeletion": background,
        "with": {"calls": [{"apply": [team.config_map(remote, "x")]}]}})
}

/// A Provision with a step on the outer and one on the middle remote, of which one is to go in the background; taken away with
/// both remotes. What each was told.
fn taken_away_with_both(background: &str) -> (bool, bool) {
    let team = team();
    let steps = ["outer", "middle"].map(|name| telling(&team, name, name == background));
    team.provision("p", &["outer", "middle"], Value::Array(steps.to_vec()));
    team.until_ready("p");
    delete_remote(&team, "inner");
    for name in ["middle", "outer"] {
        delete_remote(&team, name);
    }
    team.remove("p");
    let told = (told_doomed(&team, "outer"), told_doomed(&team, "middle"));
    for name in ["inner", "middle", "outer"] {
        until_remote_gone(&team, name);
    }
    told
}

#[test]
fn inner_background_outer_foreground() {
    assert_eq!(taken_away_with_both("middle"), (false, true));
}

#[test]
fn outer_background_inner_foreground() {
    assert_eq!(taken_away_with_both("outer"), (true, false));
}

#[test]
fn background_only_on_doomed_remote() {
    let team = team();
    team.provision("p", &["middle"], json!([telling(&team, "middle", true)]));
    team.until_ready("p");
    // Its way is doomed, itself it is not.
    delete_remote(&team, "outer");
    team.remove("p");
    assert!(!told_doomed(&team, "middle"));
    for name in ["inner", "middle"] {
        delete_remote(&team, name);
    }
    until_remote_gone(&team, "outer");
}

#[test]
fn a_remote_that_would_be_reached_through_itself_is_refused_at_admission_and_again_when_it_is_looked_at() {
    let team = Team::new(&WORLD);
    let remote = |name: &str, via: &str| json!({"apiVersion": OURS, "kind": "RemoteCluster", "metadata": team.metadata(name), "spec": within_spec(&team, name, via)});
    let refused = |object: &Value| WORLD.hub.try_apply(object).unwrap_err().to_string();
    assert!(refused(&remote("a", "a")).contains("not reached through itself"));
    WORLD.hub.apply(&remote("a", "c"));
    WORLD.hub.apply(&remote("b", "a"));
    wait_until("the way to b is told", || {
        (team.seen_remote("b").0["status"]["path"] == json!(["c", "a", "b"])).then_some(())
    });
    // c is to be reached through b, which is reached through a, which is reached through c. The API server takes a moment to see it.
    let message = wait_until("the circle is refused", || {
        let refusal = WORLD.hub.create(&remote("c", "b")).err();
        if refusal.is_none() {
            delete_remote(&team, "c");
            until_remote_gone(&team, "c");
        }
        refusal.map(|refusal| refusal.to_string())
    });
    assert!(
        message.contains("remote c would be reached through itself"),
        "{message}"
    );
    // Too quick for that: both at once, before either has a status.
    for (name, via) in [("x", "y"), ("y", "x")] {
        WORLD.hub.apply(&remote(name, via));
    }
    until_remote(&team, "x", "RemoteCycle");
    let seen = team.seen_remote("y");
    assert!(seen.is_stalled() && seen.message().contains("y < x < y"), "{seen:?}");
    for name in ["a", "b", "x", "y"] {
        delete_remote(&team, name);
        until_remote_gone(&team, name);
    }
}

#[test]
fn what_is_within_a_remote_out_of_reach_is_waited_for_and_not_given_up() {
    let team = team();
    team.provision("p", &["middle"], json!([config(&team, "middle")]));
    team.until_ready("p");
    let mut dead: Value = serde_saphyr::from_str(&cluster("outer").guest_kubeconfig()).unwrap();
    dead["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    team.secret("outer", &dead.to_string());
    team.delete("p");
    team.until("p", "waits for its remote", |seen| {
        seen.row("middle")["reason"] == "RemoteUnreachable"
    });
    let seen = team.seen("p").unwrap();
    assert!(
        seen.row("middle")["message"]
            .as_str()
            .unwrap()
            .contains("reached through outer"),
        "{seen:?}"
    );
    assert!(team.find(cluster("middle"), "middle").is_some());
    team.secret("outer", &cluster("outer").guest_kubeconfig());
    team.until_gone("p");
    assert!(team.find(cluster("middle"), "middle").is_none());
}

#[test]
fn a_credential_that_is_rotated_within_another_cluster_is_taken_up() {
    let team = team();
    team.provision("p", &["middle"], json!([config(&team, "middle")]));
    team.until_ready("p");
    let before = team.seen_remote("middle").0["status"]["credentialHash"].clone();
    keep(&team, "outer", "middle", &cluster("middle").guest_kubeconfig());
    team.provision(
        "q",
        &["middle"],
        json!([{"name": "other", "cluster": "middle", "objects": [team.config_map("other", "x")]}]),
    );
    team.until_ready("q");
    // A touch has the remote itself looked at, too.
    WORLD.hub.merge(
        &at(OURS, "RemoteCluster", &team.named("middle")),
        &json!({"spec": {"whenUnreachable": "Wait"}}),
    );
    wait_until("the new credential is told", || {
        (team.seen_remote("middle").0["status"]["credentialHash"] != before).then_some(())
    });
    for name in ["p", "q"] {
        team.remove(name);
    }
}

#[test]
fn a_plugin_does_not_read_what_opens_a_remote_within() {
    let team = team();
    let read = json!([{"name": "reads", "cluster": "outer", "plugin": "reads", "with": {"calls": [
        {"get": [{"apiVersion": "v1", "kind": "Secret", "namespace": team.name, "name": "middle"}]}]}}]);
    let grants = json!({"remote": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    WORLD.plugin("reads", &well_behaved(), grants, json!({}));
    team.provision("p", &["outer"], read);
    let seen = team.until_ready("p");
    let answers = WORLD.hub.list(OURS, "StepRecord", &team.name);
    let told = answers.iter().map(Value::to_string).collect::<String>();
    assert!(
        told.contains("Denied") && !told.contains("kind: Config"),
        "{seen:?} {told}"
    );
    team.remove("p");
}
