//! A thousand remotes: what dead ones cost the others, what idle ones cost the daemon, what is left after many came and went,
//! and what a rotation of credentials costs the steps that run. Hub and remotes are in memory, in this process; the daemon is
//! the real one, in its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;

use super::cluster::InMemory;
use super::measure;
use super::table::{self, Figures};
use crate::consent::Consent;
use crate::daemon::{Daemon, DaemonOptions, printed_objects};
use crate::progress::Progress;
use crate::{guests, workspace};

const NAMESPACE: &str = "bench";
const OURS: &str = "/apis/chandlery.dev/v1alpha1/namespaces/bench";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REMOTES: usize = 1_000;
const DEAD: usize = 20;
/// Steps in one round of the comparison of latencies.
const STEPS: usize = 100;
/// Provisions that run while the credential of their remotes is rotated.
const ROTATED: usize = 200;
const CYCLES: usize = 10;
/// Far beyond what a thousand remotes take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(4);
/// How long a connection is kept that nobody uses, and a little.
const KEEP_ALIVE: Duration = Duration::from_secs(100);

/// For six minutes the daemon remembers what events it told, so as to count those that come again.
const TOLD: Duration = Duration::from_secs(370);

/// One of the things that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// What idle remotes cost.
    Idle,
    /// What dead remotes cost the others.
    Dead,
    /// What a rotation of all credentials costs the steps that run.
    Rotation,
    /// What is left after many came and went.
    Growth,
}

/// Takes all figures, or those of one part, prints them as one table and writes `target/bench/scopes.json`.
///
/// # Errors
/// If something cannot be built or started, or does not come to its end within five minutes.
pub fn run(rounds: usize, only: Option<Part>, binary: Option<PathBuf>, consent: Consent) -> Result<()> {
    let component = guests::plugins(consent)?
        .remove("objects")
        .context("finding the plugin `objects`")?;
    let binary = match binary {
        Some(given) => given,
        None => workspace::release_binary(&component)?,
    };
    let progress = Progress::start("measuring a thousand remotes");
    let runtime = Runtime::new().context("starting a runtime")?;
    let hub = InMemory::start(runtime.handle(), 1)?;
    for object in printed_objects(&binary, &["crds"])?
        .iter()
        .chain(&printed_objects(&binary, &["manifests"])?)
    {
        hub.apply(path_of(object)?, object)?;
    }
    let kubeconfig = hub
        .server
        .kubeconfig_with_token("hub", &hub.token("chandlery-system", "chandlery")?);
    let cache = tempfile::tempdir().context("creating a temporary directory")?;
    let mut daemon = Daemon::start_by(
        &kubeconfig,
        &DaemonOptions {
            binary,
            plugin_dir: workspace::root().join("target/plugins"),
            cache_dir: cache.path().to_owned(),
            lease_seconds: 60,
            extra_args: Vec::new(),
            log: "warn".into(),
        },
    )?;
    let bench = Bench {
        remote: InMemory::start(runtime.handle(), 2)?,
        hub,
        hole: TcpListener::bind("127.0.0.1:0").context("opening a port")?,
        daemon: &daemon,
        progress: &progress,
        rounds,
        only,
    };
    let mut figures = Figures::default();
    let outcome = bench.take(&fs::read(&component)?, &mut figures);
    if outcome.is_err() {
        eprintln!("The end of the daemon's log:\n{}", daemon.log_tail(40));
    }
    outcome?;
    drop(progress);
    let ended = daemon.stop()?;
    ensure!(ended.success(), "the daemon ended with {ended}");
    table::report("scopes", &figures)
}

/// Where an object of what `chandlery crds` and `manifests` print is applied.
fn path_of(object: &Value) -> Result<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (version, kind) = (
        text("/apiVersion").unwrap_or_default(),
        text("/kind").unwrap_or_default(),
    );
    let root = if version == "v1" { "/api" } else { "/apis" };
    // English is kind to the kinds that are there.
    let plural = match kind.to_lowercase() {
        kind if kind.ends_with('y') => format!("{}ies", kind.trim_end_matches('y')),
        kind => format!("{kind}s"),
    };
    let name = text("/metadata/name").context("reading the name of an object")?;
    Ok(match text("/metadata/namespace") {
        Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("{root}/{version}/{plural}/{name}"),
    })
}

/// What a process has.
#[derive(Clone, Copy)]
struct Holdings {
    kibibytes: f64,
    sockets: usize,
    threads: usize,
}

struct Bench<'a> {
    hub: InMemory,
    remote: InMemory,
    hole: TcpListener,
    daemon: &'a Daemon,
    progress: &'a Progress,
    rounds: usize,
    only: Option<Part>,
}

impl Bench<'_> {
    fn take(&self, component: &[u8], figures: &mut Figures) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        for cluster in [&self.hub, &self.remote] {
            cluster.apply(format!("/api/v1/namespaces/{NAMESPACE}"), &namespace)?;
        }
        let hex: String = Sha256::digest(component)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let plugin = json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "objects"},
            "spec": {"source": {"file": {"path": "objects.wasm"}}, "digest": format!("sha256:{hex}"), "grants": {"remote": [
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]}}});
        self.hub
            .apply("/apis/chandlery.dev/v1alpha1/plugins/objects", &plugin)?;
        self.keep("east", &self.remote.kubeconfig()?)?;
        let mut dead: Value = serde_json::from_str(&self.remote.kubeconfig()?).context("reading a kubeconfig")?;
        let server = dead
            .pointer_mut("/clusters/0/cluster/server")
            .context("reading a kubeconfig")?;
        *server = format!("https://{}", self.hole.local_addr()?).into();
        self.keep("hole", &dead.to_string())?;
        let is_wanted = |part: Part| self.only.is_none_or(|only| only == part);
        if is_wanted(Part::Idle) {
            self.idle(figures)?;
        }
        if is_wanted(Part::Dead) {
            self.beside_dead_ones(figures)?;
        }
        if is_wanted(Part::Rotation) {
            self.rotated(figures)?;
        }
        if is_wanted(Part::Growth) {
            self.coming_and_going(figures)?;
        }
        Ok(())
    }

    /// All remotes, each Ready; those that are there stay as they are.
    fn remotes(&self) -> Result<()> {
        for index in 0..REMOTES {
            self.remote(&format!("r{index}"), "east")?;
        }
        self.until("all remotes are ready", || Ok(self.ready("remoteclusters")? >= REMOTES))
    }

    /// A Secret with a kubeconfig.
    fn keep(&self, name: &str, kubeconfig: &str) -> Result<()> {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
            "stringData": {"value": kubeconfig}});
        self.hub
            .apply(format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}"), &secret)?;
        Ok(())
    }

    fn remote(&self, name: &str, secret: &str) -> Result<()> {
        let remote = json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "RemoteCluster", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"source": {"secretRef": {"name": secret}}}});
        self.hub.apply(format!("{OURS}/remoteclusters/{name}"), &remote)?;
        Ok(())
    }

    fn provision(&self, name: &str, on: &str) -> Result<()> {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}});
        let provision = json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "Provision", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"remotes": [{"name": "r", "ref": on}], "steps": [{"name": "s", "cluster": "r", "objects": [object]}]}});
        self.hub.apply(format!("{OURS}/provisions/{name}"), &provision)?;
        Ok(())
    }

    fn delete_all(&self, what: &str) -> Result<()> {
        for object in self.hub.list(&format!("{OURS}/{what}"))? {
            let name = object
                .pointer("/metadata/name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            self.hub.send(&Method::DELETE, &format!("{OURS}/{what}/{name}"), None)?;
        }
        self.until(&format!("no {what} are left"), || {
            Ok(self.hub.list(&format!("{OURS}/{what}"))?.is_empty())
        })
    }

    fn until(&self, what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
        self.progress.detail(what);
        let deadline = Instant::now() + PATIENCE;
        while !holds()? {
            if Instant::now() > deadline {
                bail!("not within {} s: {what}", PATIENCE.as_secs());
            }
            std::thread::sleep(ASK_AGAIN_AFTER);
        }
        Ok(())
    }

    /// How many of a kind are Ready.
    fn ready(&self, what: &str) -> Result<usize> {
        let all = self.hub.list(&format!("{OURS}/{what}"))?;
        Ok(all.iter().filter(|object| is_ready(object)).count())
    }

    fn holdings(&self) -> Result<Holdings> {
        let process = format!("/proc/{}", self.daemon.pid());
        let files = fs::read_dir(format!("{process}/fd")).context("reading the daemon's files")?;
        let is_socket = |file: &fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
        };
        Ok(Holdings {
            kibibytes: measure::pss(self.daemon.pid())? * 1024.0,
            sockets: files.filter_map(Result::ok).filter(is_socket).count(),
            threads: fs::read_dir(format!("{process}/task"))
                .context("reading the daemon's threads")?
                .count(),
        })
    }

    /// What remotes cost that nobody uses: after the keep-alive window, so that no connection is counted that is about to go.
    fn idle(&self, figures: &mut Figures) -> Result<()> {
        let before = self.holdings()?;
        self.remotes()?;
        self.progress.detail("the keep-alive window passes");
        std::thread::sleep(KEEP_ALIVE);
        let after = self.holdings()?;
        let each = (after.kibibytes - before.kibibytes) / REMOTES as f64;
        figures.add(
            format!("{REMOTES} idle remotes: memory of each"),
            "KiB",
            Some(128.0),
            [each],
        );
        let sockets = after.sockets.saturating_sub(before.sockets) as f64;
        figures.add(
            format!("{REMOTES} idle remotes: sockets of all"),
            "",
            Some(0.0),
            [sockets],
        );
        Ok(())
    }

    /// The 99th percentile of the time from a Provision to its readiness, with Provisions on dead remotes and without.
    fn beside_dead_ones(&self, figures: &mut Figures) -> Result<()> {
        self.remotes()?;
        for index in 0..DEAD {
            self.remote(&format!("dead{index}"), "hole")?;
        }
        // The first round pays for connections and discovery.
        self.steps()?;
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            without.push(self.steps()?);
            for index in 0..DEAD {
                self.provision(&format!("lost{index}"), &format!("dead{index}"))?;
            }
            self.until("the dead remotes are waited for", || {
                let all = self.hub.list(&format!("{OURS}/provisions"))?;
                Ok(all
                    .iter()
                    .filter(|object| object.pointer("/status/steps/0/reason").is_some())
                    .count()
                    >= DEAD)
            })?;
            with.push(self.steps()?);
            self.delete_all("provisions")?;
        }
        let ratios: Vec<f64> = with
            .iter()
            .zip(&without)
            .map(|(with, without)| with / without)
            .collect();
        figures.add(
            format!("{STEPS} steps, 99 %, no dead remote in use"),
            "ms",
            None,
            without,
        );
        figures.add(
            format!("{STEPS} steps, 99 %, {DEAD} dead remotes in use"),
            "ms",
            None,
            with,
        );
        figures.add("ratio", "", Some(1.1), ratios);
        Ok(())
    }

    /// Makes so many Provisions, each on a remote of its own, and takes them away; milliseconds within which 99 % got ready.
    fn steps(&self) -> Result<f64> {
        let mut begun = BTreeMap::new();
        for index in 0..STEPS {
            let name = format!("p{index}");
            self.provision(&name, &format!("r{index}"))?;
            begun.insert(name, Instant::now());
        }
        let mut taken: Vec<f64> = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while !begun.is_empty() {
            ensure!(Instant::now() < deadline, "steps did not get ready: {:?}", begun.keys());
            for object in self.hub.list(&format!("{OURS}/provisions"))? {
                let name = object
                    .pointer("/metadata/name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                if is_ready(&object)
                    && let Some(since) = begun.remove(name)
                {
                    taken.push(since.elapsed().as_secs_f64() * 1e3);
                }
            }
            std::thread::sleep(ASK_AGAIN_AFTER);
        }
        for index in 0..STEPS {
            self.hub
                .send(&Method::DELETE, &format!("{OURS}/provisions/p{index}"), None)?;
        }
        self.until("the steps are gone", || {
            let all = self.hub.list(&format!("{OURS}/provisions"))?;
            let name = |object: &Value| {
                object
                    .pointer("/metadata/name")
                    .and_then(Value::as_str)
                    .map(str::to_owned)
            };
            Ok(!all.iter().filter_map(name).any(|name| name.starts_with('p')))
        })?;
        taken.sort_by(f64::total_cmp);
        taken.get(STEPS * 99 / 100 - 1).copied().context("counting steps")
    }

    /// Rotates the credential of all remotes in the middle of many Provisions; those that ever said that they failed.
    fn rotated(&self, figures: &mut Figures) -> Result<()> {
        self.remotes()?;
        self.account("first")?;
        self.keep(
            "east",
            &self
                .remote
                .server
                .kubeconfig_with_token("east", &self.remote.token("default", "first")?),
        )?;
        for index in 0..ROTATED {
            self.provision(&format!("p{index}"), &format!("r{index}"))?;
        }
        let provisions = || self.hub.list(&format!("{OURS}/provisions"));
        self.until("a quarter is done", || Ok(self.ready("provisions")? >= ROTATED / 4))?;
        self.account("second")?;
        let done = self.ready("provisions")?;
        self.keep(
            "east",
            &self
                .remote
                .server
                .kubeconfig_with_token("east", &self.remote.token("default", "second")?),
        )?;
        self.remote.send(&Method::DELETE, &format!("{ACCOUNTS}/first"), None)?;
        let failed = std::cell::RefCell::new(std::collections::BTreeSet::new());
        self.until("all are done with the new credential", || {
            let all = provisions()?;
            for object in &all {
                let state = object
                    .pointer("/status/steps/0/state")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                if state == "Failed" {
                    failed
                        .borrow_mut()
                        .insert(object.pointer("/metadata/name").map(Value::to_string));
                }
            }
            Ok(all.iter().filter(|object| is_ready(object)).count() == ROTATED)
        })?;
        figures.add(
            format!("{ROTATED} provisions, done before the rotation"),
            "",
            None,
            [done as f64],
        );
        figures.add(
            format!("{ROTATED} provisions, failed by the rotation"),
            "",
            Some(0.0),
            [failed.borrow().len() as f64],
        );
        self.delete_all("provisions")
    }

    /// An account of the remote that may do everything.
    fn account(&self, name: &str) -> Result<()> {
        let metadata = json!({"name": name});
        let rbac = "rbac.authorization.k8s.io";
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}});
        self.remote.apply(format!("{ACCOUNTS}/{name}"), &account)?;
        let role = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": metadata,
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]});
        self.remote
            .apply(format!("/apis/{rbac}/v1/clusterroles/{name}"), &role)?;
        let binding = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]});
        self.remote
            .apply(format!("/apis/{rbac}/v1/clusterrolebindings/{name}"), &binding)?;
        Ok(())
    }

    /// Makes and deletes all remotes again and again: what the daemon has after the first time, and after the last.
    fn coming_and_going(&self, figures: &mut Figures) -> Result<()> {
        let mut held = Vec::new();
        for cycle in 1..=CYCLES {
            self.progress
                .detail(&format!("{REMOTES} remotes come and go, {cycle} of {CYCLES}"));
            self.remotes()?;
            self.delete_all("remoteclusters")?;
            held.push(self.holdings()?);
        }
        self.progress.detail("what the daemon told passes out of its memory");
        std::thread::sleep(TOLD);
        // What is told next takes the rest away.
        self.remote("r0", "east")?;
        self.until("a remote is ready", || Ok(self.ready("remoteclusters")? >= 1))?;
        self.delete_all("remoteclusters")?;
        held.push(self.holdings()?);
        let claims = self.hub.list(&format!("{OURS}/remoteclaims"))?.len();
        let (Some(first), Some(last)) = (held.first(), held.last()) else {
            return Ok(());
        };
        let growth = |of: fn(&Holdings) -> f64| [of(last) - of(first)];
        let what = format!("{REMOTES} remotes came and went {CYCLES} times: growth since the first");
        figures.add(
            format!("{what}: memory"),
            "KiB",
            Some(1024.0),
            growth(|held| held.kibibytes),
        );
        figures.add(
            format!("{what}: sockets"),
            "",
            Some(0.0),
            growth(|held| held.sockets as f64),
        );
        figures.add(
            format!("{what}: threads"),
            "",
            Some(0.0),
            growth(|held| held.threads as f64),
        );
        figures.add(format!("{what}: claims"), "", Some(0.0), [claims as f64]);
        Ok(())
    }
}

fn is_ready(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let generation = object.pointer("/metadata/generation");
    object.pointer("/status/observedGeneration") == generation
        && conditions.into_iter().flatten().any(|condition| {
            condition.get("type").is_some_and(|kind| kind == "Ready")
                && condition.get("status").is_some_and(|status| status == "True")
        })
}
