//! The control plane itself, on the real thing: it works, it records, and it leaves nothing.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stop where they stand, like the tests themselves"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xtask::control_plane::{self, ControlPlane, Detached, Part};
use xtask::inventory::Inventory;

/// Ids of processes that name a directory in their arguments.
fn processes_of(directory: &Path) -> Vec<String> {
    let needle = directory.to_str().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&arguments).contains(needle)
        })
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_namespace_comes_and_goes_the_audit_log_tells_and_nothing_stays() {
    let started = Instant::now();
    let cluster = ControlPlane::builder().name("alone").audit_log(true).start().unwrap();
    eprintln!("ready after {:?}", started.elapsed());
    let directory = cluster.directory().to_owned();
    // Three servers and the guard.
    assert_eq!(processes_of(&directory).len(), 4);
    assert!(cluster.kubeconfig_yaml().contains(&cluster.server_url()));

    let client = cluster.client();
    let before = Inventory::take(&client).unwrap();
    assert!(before.len() > 100, "{}", before.len());
    client.text(["create", "namespace", "harbour"]).unwrap();
    client
        .text([
            "create",
            "configmap",
            "chart",
            "--namespace=harbour",
            "--from-literal=a=b",
        ])
        .unwrap();
    let between = before.compare(&Inventory::take(&client).unwrap()).to_string();
    assert!(between.contains("+ namespaces harbour (left over)"), "{between}");
    assert!(between.contains("+ configmaps harbour/chart (left over)"), "{between}");
    // Returns when the namespace controller has emptied it: garbage collection is real.
    client
        .text(["delete", "namespace", "harbour", "--timeout=30s"])
        .unwrap();
    let difference = before.compare(&Inventory::take(&client).unwrap());
    assert!(difference.is_empty(), "{difference}");

    let audit = fs::read_to_string(cluster.audit_log_path()).unwrap();
    for verb in ["create", "delete"] {
        let told = audit.lines().filter(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            event["verb"] == verb
                && event["objectRef"]["resource"] == "namespaces"
                && event["objectRef"]["name"] == "harbour"
                && event["user"]["username"] == "chandlery-test-admin"
        });
        assert_eq!(told.count(), 1, "{verb}");
    }
    let group = fs::read_dir(&directory).unwrap().count();
    assert!(group > 5);

    cluster.stop().unwrap();
    assert_eq!(processes_of(&directory), Vec::<String>::new());
    assert!(!directory.exists());
}

#[test]
fn two_in_one_process_do_not_know_each_other() {
    let start = |name: &'static str| move || ControlPlane::builder().name(name).start().unwrap();
    let (hub, remote) = std::thread::scope(|scope| {
        let hub = scope.spawn(start("hub"));
        let remote = scope.spawn(start("remote"));
        (hub.join().unwrap(), remote.join().unwrap())
    });
    hub.client().text(["create", "namespace", "only-in-hub"]).unwrap();
    assert!(
        !remote
            .kubectl(["get", "namespace", "only-in-hub"])
            .unwrap()
            .status
            .success()
    );
    // A credential of the one is worth nothing at the other.
    let foreign = hub.kubeconfig_yaml().replace(&hub.server_url(), &remote.server_url());
    let path = hub.directory().join("foreign.kubeconfig");
    fs::write(&path, foreign).unwrap();
    assert!(
        remote
            .client()
            .with_kubeconfig(&path)
            .text(["get", "namespaces"])
            .is_err()
    );

    let directories: Vec<PathBuf> = [&hub, &remote].map(|cluster| cluster.directory().to_owned()).into();
    drop(hub);
    remote.client().text(["get", "namespaces"]).unwrap();
    drop(remote);
    for directory in directories {
        assert_eq!(processes_of(&directory), Vec::<String>::new());
        assert!(!directory.exists());
    }
}

#[test]
fn an_api_server_is_killed_paused_and_comes_back_with_its_data() {
    let cluster = ControlPlane::builder().name("restart").start().unwrap();
    let client = cluster.client();
    client.text(["create", "namespace", "kept"]).unwrap();
    let first = cluster.pid(Part::ApiServer).unwrap();

    cluster.kill_api_server().unwrap();
    let refused = client.text(["get", "namespace", "kept"]).unwrap_err().to_string();
    assert!(refused.contains("refused"), "{refused}");
    assert!(cluster.kill_api_server().is_err());
    cluster.restart_api_server().unwrap();
    assert_ne!(cluster.pid(Part::ApiServer).unwrap(), first);
    client.text(["get", "namespace", "kept"]).unwrap();

    cluster.pause_api_server().unwrap();
    let silent = client.text(["get", "namespace", "kept", "--request-timeout=1s"]);
    assert!(silent.is_err(), "a paused server answered: {silent:?}");
    cluster.resume_api_server().unwrap();
    client.text(["get", "namespace", "kept"]).unwrap();

    // A paused one is stopped all the same.
    cluster.pause_api_server().unwrap();
    let directory = cluster.directory().to_owned();
    drop(cluster);
    assert_eq!(processes_of(&directory), Vec::<String>::new());
    assert!(!directory.exists());
}

#[test]
fn others_than_the_administrator_are_let_in_as_themselves() {
    let cluster = ControlPlane::builder().name("identities").start().unwrap();
    let client = cluster.client();
    let token = client
        .text(["create", "token", "default", "--namespace=default"])
        .unwrap();
    for (kubeconfig, name) in [
        (
            cluster.kubeconfig_with_token(token.trim()),
            "system:serviceaccount:default:default",
        ),
        (cluster.kubeconfig_for("pilot", &["harbour"]).unwrap(), "pilot"),
    ] {
        let path = cluster.directory().join("other.kubeconfig");
        fs::write(&path, kubeconfig).unwrap();
        let other = client.with_kubeconfig(&path);
        assert!(other.text(["auth", "whoami"]).unwrap().contains(name));
        let denied = other.text(["get", "secrets"]).unwrap_err().to_string();
        assert!(denied.contains("Forbidden"), "{denied}");
    }
}

#[test]
fn a_wrong_flag_is_told_with_the_log_and_leaves_nothing() {
    let before = directories_named("chandlery-wrong-");
    let error = ControlPlane::builder()
        .name("wrong")
        .api_server_flag("--no-such-flag")
        .start()
        .err()
        .unwrap();
    let error = format!("{error:#}");
    assert!(
        error.contains("kube-apiserver of control plane wrong has ended"),
        "{error}"
    );
    assert!(error.contains("no-such-flag"), "{error}");
    assert_eq!(directories_named("chandlery-wrong-"), before);
}

fn directories_named(prefix: &str) -> usize {
    let entries = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .count()
}

#[test]
fn it_ends_with_its_owner_even_if_that_is_killed() {
    let mut owner = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["control-plane", "run", "orphan"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(owner.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let directory = Path::new(line.trim()).parent().unwrap().to_owned();
    assert_eq!(processes_of(&directory).len(), 4);

    // SIGKILL: no destructor, no handler.
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("its processes are gone", || processes_of(&directory).is_empty());
    wait_until("its directory is gone", || !directory.exists());
}

#[test]
fn a_panic_takes_it_along() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let panicked = std::thread::spawn(move || {
        let cluster = ControlPlane::builder().name("panic").start().unwrap();
        sender.send(cluster.directory().to_owned()).unwrap();
        panic!("on purpose");
    })
    .join();
    assert!(panicked.is_err());
    let directory = receiver.recv().unwrap();
    assert_eq!(processes_of(&directory), Vec::<String>::new());
    assert!(!directory.exists());
}

#[test]
fn a_kept_one_outlives_its_value_until_it_is_taken_down() {
    let name = format!("kept-{}", std::process::id());
    let cluster = ControlPlane::builder().name(&name).start().unwrap();
    let directory = cluster.directory().to_owned();
    let kept = cluster.keep().unwrap();
    kept.client().unwrap().text(["get", "namespaces"]).unwrap();
    // The guard is gone, the servers are not.
    assert_eq!(processes_of(&directory).len(), 3);
    assert_eq!(Detached::find(&name).unwrap().kubeconfig_path(), kept.kubeconfig_path());

    assert!(control_plane::down(&name).unwrap());
    assert!(!directory.exists());
    assert!(
        Detached::find(&name)
            .unwrap_err()
            .to_string()
            .contains("control-plane up")
    );
    assert!(!control_plane::down(&name).unwrap());
}
