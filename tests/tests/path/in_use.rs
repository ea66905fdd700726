//! What is in use stays, and says by whom.

use chandlery_tests::{at, wait_until};
use serde_json::json;

use super::{WORLD, team};

const OURS: &str = "chandlery.dev/v1alpha1";

#[test]
fn a_remote_in_use_is_not_deleted_and_names_its_users() {
    let team = team();
    team.provision(
        "p",
        &["east"],
        json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", "x")]}]),
    );
    team.until_ready("p");
    WORLD.hub.delete(&at(OURS, "RemoteCluster", &team.named("east")));
    let seen = wait_until("the remote says that it is in use", || {
        Some(team.seen_remote("east")).filter(|seen| seen.reason() == "InUse")
    });
    assert!(seen.message().contains("Provision p step config"), "{seen:?}");
    assert_eq!(seen.0["status"]["claims"], 1);
    // Nobody new may begin to use it.
    team.provision(
        "late",
        &["east"],
        json!([{"name": "config", "cluster": "east", "objects": [team.config_map("late", "x")]}]),
    );
    team.until_reason("late", "RemoteClosing");
    team.delete("late");
    team.until_gone("late");
    assert!(
        team.find(WORLD.remote("east"), "c").is_some(),
        "what stands there stays"
    );
    team.remove("p");
    wait_until("the remote goes after its last user", || {
        team.seen_remote("east").0.is_null().then_some(())
    });
}

#[test]
fn a_plugin_in_use_is_not_deleted_and_names_its_users() {
    let team = team();
    let plugin = format!("objects-of-{}", team.name);
    let bytes = std::fs::read(WORLD.plugin_dir().join("objects")).unwrap();
    let grants = json!({"remote": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]});
    WORLD.plugin(&plugin, &bytes, grants, json!({}));
    let with = json!({"objects": [team.config_map("c", "x")]});
    team.provision(
        "p",
        &["east"],
        json!([{"name": "config", "cluster": "east", "plugin": plugin, "with": with}]),
    );
    team.until_ready("p");
    WORLD.hub.delete(&at(OURS, "Plugin", &plugin));
    let seen = wait_until("the plugin says that it is in use", || {
        Some(WORLD.seen_plugin(&plugin)).filter(|seen| seen.condition("InUse").0 == "True")
    });
    let user = format!("Provision {}/p step config", team.name);
    assert!(seen.condition("InUse").2.contains(&user), "{seen:?}");
    team.remove("p");
    wait_until("the plugin goes after its last user", || {
        WORLD.seen_plugin(&plugin).0.is_null().then_some(())
    });
}
