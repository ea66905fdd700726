//! Who a remote is, and by what one is let in: neither is taken for granted while it lasts.

use std::io;
use std::net::{TcpListener, TcpStream};

use chandlery_tests::{Cluster, Team, at, wait_until};
use serde_json::{Value, json};

use super::proxy::Proxy;
use super::{WORLD, east, team};

fn config(team: &Team<'_>, remote: &str, name: &str) -> Value {
    json!([{"name": "config", "cluster": remote, "objects": [team.config_map(name, "x")]}])
}

/// A kubeconfig of the east with other values in its cluster.
fn with_cluster(values: Value) -> String {
    let mut kubeconfig: Value = serde_saphyr::from_str(&east().guest_kubeconfig()).unwrap();
    let cluster = kubeconfig["clusters"][0]["cluster"].as_object_mut().unwrap();
    cluster.extend(values.as_object().cloned().unwrap());
    kubeconfig.to_string()
}

#[test]
fn same_name_remote_recreated_is_replaced() {
    let team = team();
    team.provision("p", &["east"], config(&team, "east", "c"));
    team.until_ready("p");
    // The name leads to another cluster: the hub serves as one.
    team.secret("east", &WORLD.hub.guest_kubeconfig());
    team.provision("p", &["east"], config(&team, "east", "d"));
    let seen = team.until_reason("p", "RemoteReplaced");
    assert!(seen.message().contains("another cluster"), "{seen:?}");
    for name in ["c", "d"] {
        assert!(team.find(&WORLD.hub, name).is_none(), "nothing is written there");
    }
    // What was in the old cluster is gone with it, as far as anybody can tell.
    team.remove("p");
    assert!(team.find(east(), "c").is_some(), "which was not touched either");
}

#[test]
fn missing_secret_key_is_typed() {
    let team = team();
    WORLD.hub.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": team.metadata("keys"),
        "stringData": {"config": east().guest_kubeconfig()},
    }));
    team.remote_of("keys", json!({"source": {"secretRef": {"name": "keys"}}}));
    team.provision("p", &["keys"], config(&team, "keys", "c"));
    let seen = team.until_reason("p", "SecretKeyMissing");
    assert!(seen.is_stalled(), "{seen:?}");
    assert!(seen.message().contains("no key \"value\"; it has: config"), "{seen:?}");
    team.remote_of(
        "keys",
        json!({"source": {"secretRef": {"name": "keys", "key": "config"}}}),
    );
    team.until_ready("p");
    team.remove("p");
}

#[test]
fn ipv6_endpoint() {
    let team = team();
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = east().plane.server_url().trim_start_matches("https://").to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(&server).unwrap();
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || io::copy(&mut up, &mut down));
            std::thread::spawn(move || io::copy(&mut &server, &mut &client));
        }
    });
    let kubeconfig = with_cluster(json!({"server": format!("https://[::1]:{port}/"), "tls-server-name": "kubernetes"}));
    team.remote("six", &kubeconfig);
    team.provision("p", &["six"], config(&team, "six", "c"));
    team.until_ready("p");
    let seen = team.seen_remote("six");
    assert_eq!(seen.0["status"]["endpoint"]["host"], "::1", "{seen:?}");
    assert!(team.find(east(), "c").is_some());
    team.remove("p");
}

#[test]
fn blackholed_remote_does_not_delay_others() {
    let team = team();
    // Takes connections and never says a word.
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", hole.local_addr().unwrap());
    team.remote("hole", &with_cluster(json!({"server": server})));
    let lost: Vec<String> = (0..5).map(|number| format!("lost-{number}")).collect();
    for name in &lost {
        team.provision(name, &["hole"], config(&team, "hole", name));
    }
    team.until_reason("lost-0", "RemoteUnreachable");
    team.assert_others_go_on("east");
    for name in &lost {
        team.remove(name);
    }
}

/// A token of a new ServiceAccount that may do everything in a cluster.
fn master(team: &Team<'_>, cluster: &Cluster) -> String {
    let kubectl = cluster.plane.client();
    let home = format!("--namespace={}", team.name);
    kubectl.text(["create", "serviceaccount", "master", &home]).unwrap();
    let who = format!("--serviceaccount={}:master", team.name);
    kubectl
        .text([
            "create",
            "clusterrolebinding",
            &team.name,
            "--clusterrole=cluster-admin",
            &who,
        ])
        .unwrap();
    kubectl
        .text(["create", "token", "master", &home])
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn two_clusters_behind_one_proxy_path() {
    let team = team();
    // The hub serves as the second cluster.
    let proxy = Proxy::start(east(), &WORLD.hub);
    team.remote("a", &proxy.kubeconfig("/a", &master(&team, east())));
    team.remote("b", &proxy.kubeconfig("/b", &master(&team, &WORLD.hub)));
    for name in ["a", "b"] {
        team.provision(name, &[name], config(&team, name, name));
    }
    for name in ["a", "b"] {
        team.until_ready(name);
    }
    let (a, b) = (team.seen_remote("a"), team.seen_remote("b"));
    assert_eq!(
        a.0["status"]["endpoint"], b.0["status"]["endpoint"],
        "one host and port"
    );
    assert_ne!(a.0["status"]["identity"], b.0["status"]["identity"], "two clusters");
    let places = |name: &str| (team.find(east(), name).is_some(), team.find(&WORLD.hub, name).is_some());
    assert_eq!((places("a"), places("b")), ((true, false), (false, true)));
    for name in ["a", "b"] {
        team.remove(name);
    }
    assert_eq!((places("a"), places("b")), ((false, false), (false, false)));
}

/// A ServiceAccount of the east that may look at namespaces and do all in the given one; a token of it.
fn account(team: &Team<'_>, name: &str, namespace: &str) -> String {
    let kubectl = east().plane.client();
    let home = format!("--namespace={}", team.name);
    kubectl.text(["create", "serviceaccount", name, &home]).unwrap();
    let who = format!("--serviceaccount={}:{name}", team.name);
    let unique = format!("{}-{name}", team.name);
    let look = ["--verb=get", "--resource=namespaces"];
    kubectl
        .text(["create", "clusterrole", &unique, look[0], look[1]])
        .unwrap();
    let role = format!("--clusterrole={unique}");
    kubectl
        .text(["create", "clusterrolebinding", &unique, &role, &who])
        .unwrap();
    let place = format!("--namespace={namespace}");
    kubectl
        .text(["create", "rolebinding", name, "--clusterrole=admin", &who, &place])
        .unwrap();
    let token = kubectl.text(["create", "token", name, &home]).unwrap();
    east().plane.kubeconfig_with_token(token.trim())
}

#[test]
fn two_registrations_one_url_two_tokens() {
    let team = team();
    let other = Team::on(&WORLD, &["east"]);
    let (mine, theirs) = (
        account(&team, "mine", &team.name),
        account(&team, "theirs", &other.name),
    );
    team.remote("mine", &mine);
    team.remote("theirs", &theirs);
    let into = |remote: &str, of: &Team<'_>, name: &str| json!([{"name": "config", "cluster": remote, "objects": [of.config_map(name, "x")]}]);
    team.provision("a", &["mine"], into("mine", &team, "a"));
    team.provision("b", &["theirs"], into("theirs", &other, "b"));
    // Each with the other's credential.
    team.provision("c", &["theirs"], into("theirs", &team, "c"));
    team.provision("d", &["mine"], into("mine", &other, "d"));
    for name in ["a", "b"] {
        team.until_ready(name);
    }
    for name in ["c", "d"] {
        team.until(name, "is denied", |seen| seen.state("config") == "Failed");
    }
    assert!(team.find(east(), "c").is_none() && other.find(east(), "d").is_none());
    for name in ["a", "b", "c", "d"] {
        team.remove(name);
    }
}

#[test]
fn the_end_of_a_credential_is_told_seven_days_and_one_day_ahead() {
    let team = team();
    let kubectl = east().plane.client();
    let home = format!("--namespace={}", team.name);
    master(&team, east());
    let lasting = |duration: &str| {
        let token = kubectl.text(["create", "token", "master", &home, duration]).unwrap();
        east().plane.kubeconfig_with_token(token.trim())
    };
    let touch = |word: &str| {
        // A remote that nobody uses is looked at again when its spec changes.
        WORLD.hub.merge(
            &at("chandlery.dev/v1alpha1", "RemoteCluster", &team.named("brief")),
            &json!({"spec": {"source": {"secretRef": {"name": word}}}}),
        );
    };
    let until = |reason: &str| {
        wait_until(format!("the remote says {reason:?} of its credential"), || {
            let seen = team.seen_remote("brief");
            (seen.is_ready() && seen.condition("CredentialExpires").1 == reason).then_some(seen)
        })
    };
    team.remote("brief", &lasting("--duration=72h"));
    let seen = until("WithinSevenDays");
    let end = seen.0["status"]["credentialExpires"].as_str().unwrap();
    assert!(seen.condition("CredentialExpires").2.contains(end), "{seen:?}");
    team.secret("briefer", &lasting("--duration=1h"));
    touch("briefer");
    until("WithinOneDay");
    team.secret("lasting", &east().guest_kubeconfig());
    touch("lasting");
    until("");
    let told = WORLD.hub.list("events.k8s.io/v1", "Event", &team.name);
    for word in ["CredentialWithinSevenDays", "CredentialWithinOneDay"] {
        assert!(told.iter().any(|event| event["reason"] == word), "{word}: {told:?}");
    }
}
