//! Remotes that cannot be reached, and kubeconfigs that are refused.

use chandlery_tests::{Team, wait_until};
use serde_json::json;

use super::{WORLD, assert_told, east, team};

/// That the RemoteCluster says what is wrong, and that a Provision on it does so too.
fn assert_unusable(team: &Team<'_>, remote: &str, reason: &str, parts: &[&str]) {
    let seen = wait_until(format!("RemoteCluster {remote} says {reason}"), || {
        Some(team.seen_remote(remote)).filter(|seen| seen.reason() == reason)
    });
    assert_eq!(seen.condition("Ready").0, "False");
    for part in parts {
        assert!(seen.message().contains(part), "names \"{part}\": {seen:?}");
    }
    team.provision(
        "p",
        &[remote],
        json!([{"name": "config", "cluster": remote, "objects": [team.config_map("c", "x")]}]),
    );
    let mut named = vec!["config: ", remote];
    named.extend(parts);
    assert_told(team, "p", reason, &named);
    team.remove("p");
}

#[test]
fn a_remote_that_nobody_answers_for_is_unreachable() {
    let team = team();
    // A port that was free a moment ago: the connection is refused.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let server = format!("https://127.0.0.1:{port}");
    let kubeconfig = east().guest_kubeconfig().replace(&east().plane.server_url(), &server);
    team.remote("nowhere", &kubeconfig);
    assert_unusable(&team, "nowhere", "RemoteUnreachable", &[&port.to_string()]);
}

#[test]
fn empty_kubeconfig_never_falls_back_to_in_cluster() {
    let team = team();
    team.remote("empty", "");
    assert_unusable(&team, "empty", "KubeconfigEmpty", &["empty"]);
    assert!(
        team.find(&WORLD.hub, "c").is_none(),
        "never the cluster the daemon runs in"
    );
}

#[test]
fn a_kubeconfig_that_would_run_a_program_is_refused() {
    let team = team();
    let mut kubeconfig: serde_json::Value = serde_saphyr::from_str(&east().guest_kubeconfig()).unwrap();
    kubeconfig["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/touch", "args": ["/tmp/chandlery-exec"], "interactiveMode": "Never"}});
    team.remote("exec", &kubeconfig.to_string());
    assert_unusable(
        &team,
        "exec",
        "KubeconfigExecPlugin",
        &["exec", "put a token or a client certificate"],
    );
    assert!(!std::path::Path::new("/tmp/chandlery-exec").exists());
}

#[test]
fn a_context_that_is_not_there_is_named_with_those_that_are() {
    let team = team();
    team.secret("contexts", &east().guest_kubeconfig());
    team.remote_of(
        "contexts",
        json!({"source": {"secretRef": {"name": "contexts"}}, "context": "production"}),
    );
    let kubeconfig: serde_json::Value = serde_saphyr::from_str(&east().guest_kubeconfig()).unwrap();
    let there = kubeconfig["contexts"][0]["name"].as_str().unwrap();
    assert_unusable(&team, "contexts", "KubeconfigContext", &["production", there]);
}

#[test]
fn a_secret_that_comes_late_is_waited_for() {
    let team = team();
    team.remote_of("late", json!({"source": {"secretRef": {"name": "late"}}}));
    team.provision(
        "p",
        &["late"],
        json!([{"name": "config", "cluster": "late", "objects": [team.config_map("c", "x")]}]),
    );
    let seen = team.until("p", "waits for its remote", |seen| seen.state("config") == "Waiting");
    assert!(
        !seen.is_stalled() && seen.message().contains("config: ") && seen.message().contains("late"),
        "{seen:?}"
    );
    team.secret("late", &east().guest_kubeconfig());
    team.until_ready("p");
    team.remove("p");
}
