//! The command line as people call it: results, exit codes, and what it says when something is wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::{Value, json};
use xtask::consent::Consent;
use xtask::control_plane::ControlPlane;
use xtask::{guests, workspace};

static BINARY: LazyLock<PathBuf> = LazyLock::new(|| workspace::binary("chandlery").unwrap());
static OBJECTS: LazyLock<PathBuf> = LazyLock::new(|| guests::plugins(Consent::new(false)).unwrap()["objects"].clone());
static BAD: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| {
    let toolchain = guests::toolchain(Consent::new(false)).unwrap();
    guests::build(&toolchain, &workspace::root().join("tests/fixtures")).unwrap()
});
static CLUSTER: LazyLock<ControlPlane> = LazyLock::new(|| ControlPlane::builder().name("cli").start().unwrap());

/// Calls the program in a home of its own.
fn chandlery(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY.as_path());
    command
        .args(arguments)
        .env("HOME", home)
        .env_remove("XDG_CACHE_HOME")
        .env_remove("KUBECONFIG")
        .env("NO_COLOR", "1");
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", err(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_verb_has_help_and_nonsense_is_wrong_usage() {
    let home = tempfile::tempdir().unwrap();
    for verb in [
        "daemon",
        "demo",
        "crds",
        "manifests",
        "plugin check",
        "plugin run",
        "remote check",
        "wit",
        "uninstall",
        "version",
    ] {
        let arguments: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        let help = out(&chandlery(home.path(), &arguments));
        assert!(help.contains("Usage: chandlery"), "{help}");
    }
    assert_eq!(code(&chandlery(home.path(), &["plugin", "chekc"])), 2);
    assert_eq!(code(&chandlery(home.path(), &["daemon", "--lease-seconds", "1"])), 2);
    assert_eq!(code(&chandlery(home.path(), &["--log", "a=b=c", "version"])), 2);
}

#[test]
fn version_tells_host_and_contract() {
    let home = tempfile::tempdir().unwrap();
    let version: Value = serde_json::from_str(&out(&chandlery(home.path(), &["version", "--output", "json"]))).unwrap();
    assert_eq!(version["contract"], "chandlery:provision@0.1.0");
    assert_eq!(version["host"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn wit_writes_the_contract_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("deep/wit");
    out(&chandlery(home.path(), &["wit", path(&directory)]));
    for entry in std::fs::read_dir(workspace::root().join("wit")).unwrap() {
        let original = entry.unwrap().path();
        if original.extension().is_some_and(|e| e == "wit") {
            let written = directory.join(original.file_name().unwrap());
            assert_eq!(std::fs::read(written).unwrap(), std::fs::read(original).unwrap());
        }
    }
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = chandlery(home.path(), &["wit", path(&file.join("below"))]);
    assert!(
        code(&refused) == 1 && err(&refused).contains("writing to"),
        "{}",
        err(&refused)
    );
}

#[test]
fn check_tells_what_a_plugin_is() {
    let home = tempfile::tempdir().unwrap();
    let text = out(&chandlery(home.path(), &["plugin", "check", path(&OBJECTS)]));
    assert!(
        text.contains("chandlery.dev/objects") && text.contains("can be called by this host"),
        "{text}"
    );
    let spec = home.path().join("spec.yaml");
    std::fs::write(&spec, "objects: {}\n").unwrap();
    let refused = chandlery(
        home.path(),
        &["plugin", "check", path(&OBJECTS), "--spec", path(&spec), "-o", "json"],
    );
    assert_eq!(code(&refused), 5);
    let told: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(
        (&told["compatible"], &told["specProblems"][0]["path"]),
        (&json!(true), &json!("/objects"))
    );
    std::fs::write(&spec, "objects: [\n").unwrap();
    let unread = chandlery(home.path(), &["plugin", "check", path(&OBJECTS), "--spec", path(&spec)]);
    assert!(
        code(&unread) == 2 && err(&unread).contains("spec.yaml"),
        "{}",
        err(&unread)
    );
}

#[test]
fn check_says_what_is_wrong_and_how_to_mend_it() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("x.wasm");
    let missing = chandlery(home.path(), &["plugin", "check", path(&file)]);
    assert!(
        code(&missing) == 1 && err(&missing).contains("reading"),
        "{}",
        err(&missing)
    );
    std::fs::write(&file, "text").unwrap();
    let text = chandlery(home.path(), &["plugin", "check", path(&file)]);
    assert!(code(&text) != 0 && err(&text).contains("component"), "{}", err(&text));
    std::fs::write(&file, b"\0asm\x01\0\0\0").unwrap();
    let module = chandlery(home.path(), &["plugin", "check", path(&file)]);
    assert!(
        code(&module) != 0 && err(&module).contains("module"),
        "{}",
        err(&module)
    );
    let (_, unknown) = BAD
        .iter()
        .find(|(name, _)| name.contains("imports"))
        .expect("a guest that imports something unknown");
    let incompatible = chandlery(home.path(), &["plugin", "check", path(unknown), "-o", "json"]);
    assert_eq!(code(&incompatible), 5);
    let told: Value = serde_json::from_slice(&incompatible.stdout).unwrap();
    assert_eq!(told["compatible"], false);
    assert!(!told["problems"].as_array().unwrap().is_empty());
    let error: Value = serde_json::from_str(&err(&incompatible)).unwrap();
    assert_eq!(error["error"]["reason"], "Incompatible");
}

#[test]
fn run_calls_a_plugin_within_its_grant_and_takes_away_what_it_made() {
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    std::fs::write(&kubeconfig, CLUSTER.kubeconfig_yaml()).unwrap();
    let state = home.path().join("state.json");
    let spec = json!({"objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "by-hand"}, "data": {"a": "1"}}]}).to_string();
    let run = |more: &[&str]| {
        let mut arguments = vec![
            "plugin",
            "run",
            path(&OBJECTS),
            "--kubeconfig",
            path(&kubeconfig),
            "--spec",
            &spec,
            "--state",
            path(&state),
        ];
        arguments.extend(more);
        chandlery(home.path(), &arguments)
    };
    let loopback = run(&["--allow-everything"]);
    assert!(
        code(&loopback) == 5 && err(&loopback).contains("loopback"),
        "{}",
        err(&loopback)
    );
    let nothing = run(&["--allow-loopback"]);
    assert!(
        code(&nothing) == 5 && err(&nothing).contains("does not cover"),
        "{}",
        err(&nothing)
    );
    let grant = home.path().join("grant.yaml");
    std::fs::write(
        &grant,
        "- {apiGroups: [''], resources: [configmaps], verbs: [get, patch, create]}\n",
    )
    .unwrap();
    let told = out(&run(&["--allow-loopback", "--grant", path(&grant)]));
    assert!(
        told.starts_with("done") && told.contains("owns ConfigMap default/by-hand"),
        "{told}"
    );
    CLUSTER
        .client()
        .text(["-n", "default", "get", "configmap", "by-hand"])
        .unwrap();
    out(&run(&["--allow-loopback", "--grant", path(&grant), "--deprovision"]));
    let left = CLUSTER
        .client()
        .text(["-n", "default", "get", "configmap", "by-hand", "--ignore-not-found"])
        .unwrap();
    assert_eq!(left, "");
}

#[test]
fn a_hub_that_is_in_use_cannot_be_left_unless_what_it_stands_for_is_given_up() {
    let home = tempfile::tempdir().unwrap();
    let hub = ControlPlane::builder().name("leaving").start().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    std::fs::write(&kubeconfig, hub.kubeconfig_yaml()).unwrap();
    let uninstall = |more: &[&str]| {
        let mut arguments = vec!["uninstall", "--kubeconfig", path(&kubeconfig)];
        arguments.extend(more);
        chandlery(home.path(), &arguments)
    };
    assert!(
        out(&uninstall(&[])).contains("can be deleted"),
        "before anything is installed"
    );
    xtask::daemon::install(&hub, &BINARY).unwrap();
    let remote = json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "RemoteCluster",
        "metadata": {"name": "east", "namespace": "default", "finalizers": ["example.com/theirs", "chandlery.dev/teardown"]},
        "spec": {"source": {"secretRef": {"name": "x"}}}});
    hub.client()
        .text_with_input(["apply", "-f", "-"], &remote.to_string())
        .unwrap();
    let refused = uninstall(&[]);
    assert!(
        code(&refused) == 5 && err(&refused).contains("RemoteCluster default/east"),
        "{}",
        err(&refused)
    );
    assert!(out(&uninstall(&["--abandon"])).contains("RemoteCluster default/east"));
    let left = hub
        .client()
        .text(["get", "remotecluster", "east", "-o", "jsonpath={.metadata.finalizers}"])
        .unwrap();
    assert_eq!(left, r#"["example.com/theirs"]"#, "others' finalizers stay");
    assert!(out(&uninstall(&[])).contains("can be deleted"));
}

#[test]
fn the_demo_in_memory_comes_and_goes_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let text = out(&chandlery(home.path(), &["demo", "--component", path(&OBJECTS)]));
    for told in [
        "provision  Ready=True",
        "harbour   True    3/3",
        "first   Pequod   34",
        "provision  gone",
        "the remote is as it was",
        "the hub is as it was",
        "daemon   has ended",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    let refused = chandlery(home.path(), &["demo"]);
    assert!(
        code(&refused) == 2 && err(&refused).contains("--component"),
        "{}",
        err(&refused)
    );
}

/// A process that ends with the test, however that ends.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_embedded_daemon_works_for_whoever_has_its_kubeconfigs_until_it_is_ended() {
    use std::io::{BufRead as _, BufReader};
    let home = tempfile::tempdir().unwrap();
    let daemon = Command::new(BINARY.as_path())
        .args(["daemon", "--embedded", "--log", "error"])
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut daemon = Ended(daemon);
    let mut lines = BufReader::new(daemon.0.stdout.take().unwrap()).lines();
    let mut kubeconfig = || {
        let line = lines.next().unwrap().unwrap();
        PathBuf::from(line.split_once('=').unwrap().1)
    };
    let (hub, remote) = (kubeconfig(), kubeconfig());
    let kubectl = |kubeconfig: &Path, arguments: &[&str]| {
        CLUSTER
            .client()
            .with_kubeconfig(kubeconfig)
            .text(arguments.iter().copied())
    };
    assert!(
        kubectl(&remote, &["get", "namespaces"])
            .unwrap()
            .contains("kube-system")
    );
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "east", "namespace": "team"},
        "stringData": {"value": std::fs::read_to_string(&remote).unwrap()},
    });
    let cluster = json!({
        "apiVersion": "chandlery.dev/v1alpha1", "kind": "RemoteCluster", "metadata": {"name": "east", "namespace": "team"},
        "spec": {"source": {"secretRef": {"name": "east"}}},
    });
    for object in [namespace, secret, cluster] {
        let file = home.path().join("object.json");
        std::fs::write(&file, object.to_string()).unwrap();
        kubectl(&hub, &["apply", "--server-side", "--filename", path(&file)]).unwrap();
    }
    let ready = [
        "wait",
        "remotecluster/east",
        "--namespace=team",
        "--for=condition=Ready",
        "--timeout=60s",
    ];
    kubectl(&hub, &ready).unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(daemon.0.id().try_into().unwrap()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    assert!(daemon.0.wait().unwrap().success());
    assert!(!hub.exists(), "what it wrote went with it");
}
