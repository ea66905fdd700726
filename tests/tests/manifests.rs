//! Real input: every manifest of the Kubernetes module's add-ons and end-to-end tests, one after another through the plugin
//! `objects`, on a control plane without nodes. What becomes of each is in `manifests.tsv`; all of it goes again.
//!
//! `CHANDLERY_WRITE_MANIFESTS=1` writes the table anew, for a reader to judge.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chandlery::core::grant::Grant;
use chandlery::core::limits::Limits;
use chandlery::core::record::Entry;
use chandlery::core::task::{Export, Outcome};
use chandlery::core::{Digest, Setback};
use chandlery::runtime::{Config, Plugin, Runtime};
use chandlery::scope::kubeconfig::{self, Policy};
use chandlery::scope::{Connection, WriteFence, connect};
use chandlery::{Once, OnceError, call_once};
use serde_json::{Value, json};
use xtask::consent::Consent;
use xtask::control_plane::ControlPlane;
use xtask::inventory::{Inventory, Place};
use xtask::{guests, workspace};

/// How many there are; a server-side dry run accepts 176 of them.
const MANIFESTS: usize = 187;
const REFUSED: usize = 11;
/// Who waits and says the same for this long has come to rest: what controllers can do without a node takes milliseconds.
const AT_REST: Duration = Duration::from_secs(1);
/// A definition is served a second or two after it was applied, and its objects are cleaned up as soon as it goes; on a busy
/// machine the API server tries that again after pauses that double.
const DEADLINE: Duration = Duration::from_secs(240);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// What tells our objects from those that controllers made.
const OWNER: &str = "/metadata/annotations/chandlery.dev~1owner";

#[test]
fn every_manifest_of_the_kubernetes_module_ends_as_the_table_says_and_goes_without_residue() {
    let bench = Bench::start();
    let before = bench.inventory();
    let files = manifests();
    assert_eq!(files.len(), MANIFESTS);
    let root = module();
    let mut table = String::from("# manifest\toutcome\twhy\n");
    let mut refused = 0;
    for file in &files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let (fate, why) = bench.through(file).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
        // A kind that nobody defined is waited for, and no refusal; all else that keeps a manifest out counts.
        let kept_out = ["refused", "waits for what is not there"].contains(&fate);
        refused += usize::from(kept_out && !why.contains("does not serve"));
        writeln!(table, "{name}\t{fate}\t{why}").unwrap();
    }
    let committed = workspace::root().join("tests/manifests.tsv");
    if std::env::var_os("CHANDLERY_WRITE_MANIFESTS").is_some() {
        std::fs::write(&committed, &table).unwrap();
    }
    let deadline = Instant::now() + DEADLINE;
    loop {
        // What controllers made of ours goes a moment after it.
        let mut after = bench.inventory();
        // Claims that the StatefulSet controller makes outlive their StatefulSet: Kubernetes keeps people's data.
        let is_claim = |place: &Place| place.resource == "persistentvolumeclaims";
        after
            .place_to_object
            .retain(|place, object| !is_claim(place) || object.content.pointer(OWNER).is_some());
        let difference = before.compare(&after);
        if difference.is_empty() {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "left behind, missing or changed:\n{difference}"
        );
    }
    let expected = std::fs::read_to_string(&committed).unwrap_or_default();
    let differing: Vec<_> = table
        .lines()
        .filter(|line| !expected.lines().any(|known| known == *line))
        .collect();
    assert!(
        differing.is_empty(),
        "not as in {}:\n{}",
        committed.display(),
        differing.join("\n")
    );
    assert_eq!(expected.lines().count(), table.lines().count());
    assert!(refused <= REFUSED, "{refused} are refused");
}

/// The Kubernetes module, where Go keeps it.
fn module() -> PathBuf {
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"]);
    let answer = list
        .current_dir(workspace::root().join("tests/control-plane"))
        .output()
        .unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    PathBuf::from(String::from_utf8(answer.stdout).unwrap().trim())
}

fn manifests() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![
        module().join("cluster/addons"),
        module().join("test/e2e/testing-manifests"),
    ];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A control plane and the plugin.
struct Bench {
    runtime: tokio::runtime::Runtime,
    host: Runtime,
    plugin: Arc<Plugin>,
    connection: Arc<Connection>,
    /// Whether objects of (group, kind) live in a namespace.
    namespaced: BTreeMap<(String, String), bool>,
    plane: ControlPlane,
}

impl Bench {
    fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let plane = ControlPlane::builder().name("manifests").start().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let host = Runtime::new(Config::new(plane.directory().join("cache"))).unwrap();
        let bytes = std::fs::read(&guests::plugins(Consent::new(false)).unwrap()["objects"]).unwrap();
        let (plugin, connection) = runtime.block_on(async {
            let policy = Policy {
                allow_loopback: true,
                ..Policy::default()
            };
            let endpoint =
                kubeconfig::parse(plane.kubeconfig_yaml().as_bytes(), None, policy, jiff::Timestamp::now()).unwrap();
            let connection = connect(&endpoint, &WriteFence::open()).unwrap();
            (host.load(&Digest::of(&bytes), &bytes).await.unwrap(), connection)
        });
        let kinds = plane.client().text(["api-resources", "--no-headers"]).unwrap();
        let namespaced = kinds.lines().map(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let [.., version, namespaced, kind] = columns.as_slice() else {
                panic!("{line}")
            };
            ((group(version).to_owned(), (*kind).to_owned()), *namespaced == "true")
        });
        let namespaced = namespaced.collect();
        Self {
            runtime,
            host,
            plugin,
            connection,
            namespaced,
            plane,
        }
    }

    fn inventory(&self) -> Inventory {
        Inventory::take(&self.plane.client()).unwrap()
    }

    /// Applies a manifest, lets it come to rest, and takes it away. Answers what became of it and why.
    fn through(&self, file: &Path) -> Result<(&'static str, String), String> {
        let text = std::fs::read_to_string(file).unwrap();
        let objects = match self.read(&text) {
            Ok(objects) => objects,
            Err(why) => return Ok(("refused", one_line(&why))),
        };
        let spec = json!({"objects": objects});
        let mut inventory = Vec::new();
        let (fate, why) = self.apply(&spec, &mut inventory);
        let deadline = Instant::now() + DEADLINE;
        loop {
            let waiting = match self.call(&spec, Export::Deprovision { doomed: false }, &mut inventory) {
                Ok((Outcome::Done(_), None)) => break,
                Ok((_, waiting)) => waiting.unwrap_or_default(),
                Err(setback) => setback.message,
            };
            if Instant::now() > deadline {
                return Err(format!("is not gone: {waiting}"));
            }
            std::thread::sleep(ASK_AGAIN_AFTER);
        }
        Ok((fate, one_line(&why)))
    }

    fn apply(&self, spec: &Value, inventory: &mut Vec<Entry>) -> (&'static str, String) {
        let started = Instant::now();
        let (mut last, mut since) = (String::new(), started);
        loop {
            let told = match self.call(spec, Export::Provision, inventory) {
                Ok((Outcome::Done(_), _)) => return ("done", String::new()),
                Ok((Outcome::Yield(wait), _)) => {
                    let rests = last == wait.message && since.elapsed() > AT_REST;
                    match wait.reason.as_str() {
                        "WaitingForReady" if rests => return ("waits for pods", String::new()),
                        "WaitingForDependency" if rests => return ("waits for what is not there", wait.message),
                        "WaitingForReady" | "WaitingForDependency" | "WaitingForKind" => wait.message,
                        other => panic!("{other}: {}", wait.message),
                    }
                }
                Err(setback) => return ("refused", format!("{}: {}", setback.reason, setback.message)),
            };
            if told != last {
                (last, since) = (told, Instant::now());
            }
            assert!(started.elapsed() < DEADLINE, "does not come to rest: {last}");
            std::thread::sleep(ASK_AGAIN_AFTER);
        }
    }

    /// One call. Answers its outcome and what is not gone yet.
    fn call(
        &self,
        spec: &Value,
        export: Export,
        inventory: &mut Vec<Entry>,
    ) -> Result<(Outcome, Option<String>), Setback> {
        let once = Once {
            plugin: self.plugin.clone(),
            connection: self.connection.clone(),
            grant: Grant::everything(),
            spec: spec.clone(),
            export,
            inventory: inventory.clone(),
            memory: None,
            provision_uid: "6a1ff7a0-0000-4000-8000-000000000000".parse().unwrap(),
            step: "manifest".parse().unwrap(),
            limits: Limits::default(),
        };
        let (owns, result) = match self.runtime.block_on(call_once(&self.host, once)) {
            Ok(report) => (report.inventory, Ok((report.outcome, report.waiting))),
            Err(OnceError::Failure { failure, inventory }) => (inventory, Err(failure.into_setback())),
            Err(OnceError::Undo { setback, inventory }) => (inventory, Err(setback)),
            Err(OnceError::Cluster(error)) => panic!("{error:?}"),
            Err(OnceError::Schema(message)) => panic!("{message}"),
        };
        *inventory = owns;
        result
    }

    /// The objects of a manifest, each in a namespace if it is of a kind that lives in one, as kubectl would have it.
    fn read(&self, text: &str) -> Result<Vec<Value>, String> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)
            .map_err(|error| format!("no YAML: {}", error.to_string().lines().next().unwrap_or_default()))?;
        let mut objects: Vec<Value> = documents.into_iter().filter(|document| !document.is_null()).collect();
        if objects.is_empty() {
            return Err("nothing is in it".into());
        }
        let mut namespaced = self.namespaced.clone();
        for object in &objects {
            let text = |pointer| {
                object
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            if object["kind"] == "CustomResourceDefinition" {
                namespaced.insert(
                    (text("/spec/group"), text("/spec/names/kind")),
                    text("/spec/scope") == "Namespaced",
                );
            }
        }
        objects.iter_mut().for_each(|object| place(object, &namespaced));
        Ok(objects)
    }
}

fn place(object: &mut Value, namespaced: &BTreeMap<(String, String), bool>) {
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        return items.iter_mut().for_each(|item| place(item, namespaced));
    }
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let key = (group(text("apiVersion")).to_owned(), text("kind").to_owned());
    let lives_in_one = namespaced.get(&key).copied().unwrap_or(false);
    if let Some(metadata) = object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .filter(|_| lives_in_one)
    {
        metadata.entry("namespace").or_insert_with(|| "default".into());
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(300)
        .collect()
}
