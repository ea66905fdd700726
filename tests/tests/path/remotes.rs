//! A remote's own life: registered while it is used, given up when its owner says so.

use chandlery_tests::{at, wait_until};
use serde_json::{Value, json};

use super::{WORLD, east, team};

const OURS: &str = "chandlery.dev/v1alpha1";

/// Lets the daemon write registrations into the team's own namespace, as an operator lets it into Argo CD's.
fn admit(namespace: &str) {
    let binary = xtask::workspace::binary("chandlery").unwrap();
    let printed = xtask::daemon::printed_objects(&binary, &["manifests", "--argocd-namespace", namespace]).unwrap();
    for object in printed
        .iter()
        .filter(|object| object["metadata"]["namespace"] == namespace)
    {
        WORLD.hub.apply(object);
    }
}

fn registrations(namespace: &str) -> Vec<Value> {
    let mut secrets = WORLD.hub.list("v1", "Secret", namespace);
    secrets.retain(|secret| secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "cluster");
    secrets
}

#[test]
fn a_remote_is_registered_from_its_first_claim_until_after_its_last() {
    let team = team();
    admit(&team.name);
    team.secret("shared", &east().guest_kubeconfig());
    team.remote_of(
        "shared",
        json!({"source": {"secretRef": {"name": "shared"}}, "controller": true,
            "registration": {"argocd": {"namespace": team.name, "name": "the-shared-one"}}}),
    );
    let step = |name: &str| json!([{"name": "config", "cluster": "shared", "objects": [team.config_map(name, "x")]}]);
    assert!(registrations(&team.name).is_empty(), "nobody uses it yet");
    team.provision("one", &["shared"], step("one"));
    team.provision("two", &["shared"], step("two"));
    team.until_ready("one");
    team.until_ready("two");
    let there = wait_until("the remote is registered", || registrations(&team.name).pop());
    let name = there["metadata"]["name"].as_str().unwrap();
    assert_eq!(name, format!("chandlery-{}", team.seen_remote("shared").uid()));
    team.remove("one");
    let still = registrations(&team.name);
    assert_eq!(still.len(), 1);
    assert_eq!(
        still[0]["metadata"]["uid"], there["metadata"]["uid"],
        "one user is left"
    );
    team.remove("two");
    wait_until("the registration goes after the last user", || {
        registrations(&team.name).is_empty().then_some(())
    });
    wait_until("the remote can be used again", || {
        let seen = team.seen_remote("shared");
        seen.0["status"]["phase"].is_null().then_some(())
    });
    team.provision("one", &["shared"], step("one"));
    team.until_ready("one");
    let anew = wait_until("the remote is registered anew", || registrations(&team.name).pop());
    assert_ne!(anew["metadata"]["uid"], there["metadata"]["uid"]);
    WORLD.hub.delete(&at(OURS, "RemoteCluster", &team.named("shared")));
    team.remove("one");
    wait_until("remote and registration go", || {
        (team.seen_remote("shared").0.is_null() && registrations(&team.name).is_empty()).then_some(())
    });
}

/// A kubeconfig whose address nobody answers at.
fn dead(kubeconfig: &str) -> String {
    let mut kubeconfig: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    kubeconfig.to_string()
}

#[test]
fn what_is_on_a_remote_out_of_reach_is_given_up_only_by_policy_and_recorded() {
    let team = team();
    let steps = json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", "x")]}]);
    team.provision("p", &["east"], steps);
    team.until_ready("p");
    team.secret("east", &dead(&east().guest_kubeconfig()));
    team.delete("p");
    team.until("p", "waits for its remote", |seen| {
        seen.row("config")["reason"] == "RemoteUnreachable"
    });
    WORLD.hub.merge(
        &at(OURS, "RemoteCluster", &team.named("east")),
        &json!({"spec": {"whenUnreachable": "Abandon", "abandonAfter": "1s"}}),
    );
    team.until_gone("p");
    let seen = wait_until("the remote says that it was given up", || {
        Some(team.seen_remote("east")).filter(|seen| seen.reason() == "Abandoned")
    });
    let left = &seen.0["status"]["leftBehind"][0];
    assert_eq!(
        (left["step"].as_str(), left["count"].as_u64()),
        (Some("config"), Some(1)),
        "{seen:?}"
    );
    assert!(left["objects"][0].as_str().unwrap().contains("ConfigMap"), "{left}");
    let told = WORLD.hub.list("events.k8s.io/v1", "Event", &team.name);
    assert!(
        told.iter().any(|event| event["reason"] == "RemoteAbandoned"),
        "{told:?}"
    );
    assert!(team.find(east(), "c").is_some(), "nothing was written there");
    // It came back, and stays given up.
    team.secret("east", &east().guest_kubeconfig());
    let steps = json!([{"name": "config", "cluster": "east", "objects": [team.config_map("d", "x")]}]);
    team.provision("q", &["east"], steps);
    team.until_reason("q", "RemoteAbandoned");
    team.remove("q");
}
