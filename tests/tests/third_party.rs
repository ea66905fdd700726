//! Somebody else, elsewhere: SDK and first plugin are copied out of this repository, and are built, checked and run there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

#[path = "runtime/stub.rs"]
#[expect(dead_code, reason = "the tests of the runtime use the rest of it")]
mod stub;

use std::fs;
use std::path::Path;

use chandlery_artifact::inspect;
use chandlery_core::Digest;
use chandlery_core::limits::Limits;
use chandlery_core::task::{Export, Failure, Outcome, Request};
use chandlery_runtime::{Config, Runtime};
use serde_json::{Value, json};
use stub::Stub;
use xtask::consent::Consent;
use xtask::{guests, workspace};

const MANIFEST: &str = r#"
[package]
name = "namespace-with-quota"
version = "1.2.3"
edition = "2024"

[lib]
crate-type = ["cdylib"]

[dependencies]
chandlery-plugin = { path = "../sdk" }
schemars = "1"
serde = { version = "1", features = ["derive"] }
"#;

/// The plugin as the SDK's own test has it, without the test.
fn plugin_source() -> String {
    let test = fs::read_to_string(workspace::root().join("plugins/sdk/tests/namespace_with_quota.rs")).unwrap();
    let (plugin, _) = test.split_once("fn task(").unwrap();
    let source = plugin.replace("use chandlery_plugin::testing::Fake;\n", "");
    assert!(source.lines().count() < 100, "a useful plugin is under 100 lines");
    source
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true if entry.file_name() == "target" => {}
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// A workspace of their own, with what they took from us and a plugin that they wrote.
fn elsewhere() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let plugins = workspace::root().join("plugins");
    for name in ["sdk", "objects"] {
        copy(&plugins.join(name), &place.path().join(name));
    }
    let manifest = fs::read_to_string(plugins.join("Cargo.toml")).unwrap();
    let manifest = manifest.replace("\"objects\"]", "\"objects\", \"quota\"]");
    assert!(manifest.contains("quota"));
    fs::write(place.path().join("Cargo.toml"), manifest).unwrap();
    // The same versions of the same libraries: the bytes are compared below.
    fs::copy(plugins.join("Cargo.lock"), place.path().join("Cargo.lock")).unwrap();
    fs::create_dir_all(place.path().join("quota/src")).unwrap();
    fs::write(place.path().join("quota/Cargo.toml"), MANIFEST).unwrap();
    fs::write(place.path().join("quota/src/lib.rs"), plugin_source()).unwrap();
    place
}

fn request(spec: Value) -> Request {
    Request {
        provision_uid: "u".parse().unwrap(),
        provision: "team-a/p".into(),
        step: "s".parse().unwrap(),
        spec,
        memory: None,
        now: "2026-01-01T00:00:00Z".into(),
        round: 0,
    }
}

#[tokio::test]
async fn a_third_party_builds_checks_and_runs_plugins_from_copies() {
    let toolchain = guests::toolchain(Consent::new(false)).unwrap();
    let place = elsewhere();
    let theirs = guests::build(&toolchain, place.path()).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(Config {
        concurrent_calls: 1,
        ..Config::new(cache.path())
    })
    .unwrap();
    let run = async |name: &str, spec: Value, on: &std::sync::Arc<Stub>| -> Result<Outcome, Failure> {
        let bytes = fs::read(&theirs[name]).unwrap();
        assert!(inspect(&bytes).unwrap().is_compatible());
        let plugin = runtime.load(&Digest::of(&bytes), &bytes).await.unwrap();
        let description = runtime.describe(&plugin).await.unwrap();
        assert!(description.name.ends_with(name) && description.spec_schema["properties"].is_object());
        assert_eq!(runtime.check(&plugin, &spec, &Limits::default()).await.unwrap(), []);
        runtime
            .call(
                &plugin,
                name,
                Export::Provision,
                on.clone(),
                &request(spec),
                &Limits::default(),
            )
            .await
    };

    let cluster = Stub::new();
    let Ok(Outcome::Yield(wait)) = run("namespace-with-quota", json!({"team": "a", "cpu": "2"}), &cluster).await else {
        panic!()
    };
    assert_eq!(
        (wait.reason.as_str(), wait.watch[0].to_string().as_str()),
        ("QuotaPending", "ResourceQuota a/cpu")
    );
    assert_eq!(
        cluster.objects.lock().unwrap()["ResourceQuota a/cpu"]["spec"]["hard"]["limits.cpu"],
        "2"
    );

    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "a"}});
    let Ok(Outcome::Done(done)) = run("objects", json!({"objects": [object]}), &cluster).await else {
        panic!()
    };
    assert_eq!(done.outputs.unwrap()["count"], 1);

    let ours = guests::build(&toolchain, &workspace::root().join("plugins")).unwrap();
    let digest = |path| Digest::of(&fs::read(path).unwrap());
    assert_eq!(
        digest(&theirs["objects"]),
        digest(&ours["objects"]),
        "the same sources give the same bytes at any place"
    );
    let home = std::env::home_dir().unwrap();
    for foreign in [home.as_path(), workspace::root(), place.path()] {
        let foreign = foreign.to_str().unwrap().as_bytes();
        let bytes = fs::read(&theirs["objects"]).unwrap();
        assert!(
            !bytes.windows(foreign.len()).any(|window| window == foreign),
            "a path of this machine is in the component"
        );
    }
}

#[test]
fn the_sdk_has_the_contract_as_it_stands() {
    let read = |directory: &str| {
        let files = fs::read_dir(workspace::root().join(directory))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files
            .filter(|path| path.extension().is_some_and(|end| end == "wit"))
            .map(|path| (path.file_name().unwrap().to_owned(), fs::read_to_string(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    assert_eq!(
        read("wit"),
        read("plugins/sdk/wit"),
        "copy wit/*.wit to plugins/sdk/wit"
    );
}
