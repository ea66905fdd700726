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

#[test]
fn a_claim_that_no_record_tells_of_goes_with_its_provision() {
    let team = team();
    let step = json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", "x")]}]);
    team.provision("p", &["east"], step);
    let uid = team.until_ready("p").uid().to_owned();
    // As a daemon leaves it that dies between closing a record and releasing its claim.
    let claims = || WORLD.hub.list(OURS, "RemoteClaim", &team.name);
    let mut left = claims().remove(0);
    let remote = left["spec"]["remote"]["uid"].as_str().unwrap().to_owned();
    left["metadata"] = json!({
        "name": format!("{remote}.{uid}.before"), "namespace": team.name, "labels": left["metadata"]["labels"],
        "finalizers": left["metadata"]["finalizers"],
    });
    left["spec"]["holder"]["step"] = json!("before");
    left["spec"]["instances"] = json!([]);
    WORLD.hub.create(&left).unwrap();
    assert_eq!(claims().len(), 2);
    team.remove("p");
}

/// The same component under another digest: with a custom section of a name.
fn with_section(mut bytes: Vec<u8>, name: &str) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    bytes.extend([0, length + 1, length]);
    bytes.extend(name.as_bytes());
    bytes
}

/// Names of the files that the daemon keeps of a digest.
fn cached(digest: &str) -> Vec<String> {
    let cache = WORLD.hub.plane.directory().join("daemon-cache");
    let hex = digest.trim_start_matches("sha256:");
    ["components", "compiled"]
        .iter()
        .flat_map(|kind| std::fs::read_dir(cache.join(kind)).unwrap())
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|file| file.starts_with(hex))
        .collect()
}

#[test]
fn what_the_disk_holds_of_a_plugin_goes_once_nobody_can_need_it() {
    let team = team();
    let plugin = format!("swept-of-{}", team.name);
    let bytes = std::fs::read(WORLD.plugin_dir().join("objects")).unwrap();
    let grants = json!({"remote": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]});
    let first = with_section(bytes.clone(), &format!("{plugin}-1"));
    let second = with_section(bytes.clone(), &format!("{plugin}-2"));
    let digests = [&bytes, &first, &second].map(|bytes| chandlery_core::Digest::of(bytes).to_string());
    let [objects, first_digest, second_digest] = &digests;
    WORLD.plugin(&plugin, &first, grants.clone(), json!({}));
    let with = json!({"objects": [team.config_map("c", "x")]});
    let step = json!([{"name": "config", "cluster": "east", "plugin": plugin, "with": with}]);
    team.provision("p", &["east"], step);
    team.until_ready("p");
    assert_eq!(cached(first_digest).len(), 3, "component, machine code, checksum");

    // The daemon may be told of the new digest before the step is: then its record still needs the old one.
    WORLD.plugin(&plugin, &second, grants.clone(), json!({}));
    wait_until("the new digest runs", || {
        let records = team.kept("p");
        records
            .iter()
            .any(|record| record.pointer("/spec/record/receipt/digest") == Some(&json!(second_digest)))
            .then_some(())
    });
    team.remove("p");
    WORLD.hub.delete(&at(OURS, "Plugin", &plugin));
    wait_until("nothing of the plugin is on the disk", || {
        (cached(first_digest).is_empty() && cached(second_digest).is_empty()).then_some(())
    });
    assert_eq!(cached(objects).len(), 3, "what others need stays");
}
