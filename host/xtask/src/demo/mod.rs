//! The whole path once, in front of your eyes: a remote is brought to a declared state, and is left as it was.
//!
//! Who judges is never Chandlery itself: kubectl tells what is there, the API server's audit log what was asked for, and
//! [`Inventory`] whether anything is left.

mod follow;
mod quickstart;
mod story;

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::consent::Consent;
use crate::control_plane::{Binaries, ControlPlane, Detached, Kubectl, Part};
use crate::daemon::{self, Daemon, DaemonOptions};
use crate::inventory::Inventory;
use crate::stage::{self, Stage};
use crate::watch::Change;
use crate::{guests, workspace};

use follow::Follow;
use quickstart::Quickstart;
use story::Story;

const NAMESPACE: &str = "team-a";
const SECRET: &str = "east-kubeconfig";
const PREFIX: &str = "demo";
/// What `--keep` leaves, in the order in which it is stopped.
const KEPT: [&str; 3] = ["demo-daemon", "demo-hub", "demo-remote"];
/// How much of the daemon's log is shown when something goes wrong.
const LOG_LINES: usize = 40;
/// Discovery may still name a kind for a moment after its definition is gone; then it cannot be listed.
const LISTED_WITHIN: Duration = Duration::from_secs(10);

/// How the demo is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Stop when the Provision is Ready and leave everything running.
    pub keep: bool,
    /// Who agrees to changes outside the cache.
    pub consent: Consent,
}

/// Runs the demo; whatever happens, nothing of it is left on this machine unless it is to be kept.
///
/// # Errors
/// If something cannot be built or started, a state is not reached, or something is left or missing at the end.
pub fn run(options: Options) -> Result<()> {
    if let Some(name) = KEPT.iter().find(|name| Detached::find(name).is_ok()) {
        bail!("{name} of an earlier demo is kept: stop it with `{}`", stop_command());
    }
    let story = Story::begin();
    story.chapter("Building what is missing: Kubernetes, the plugin, the chandlery binary");
    // What may ask comes before what takes minutes.
    let plugins = guests::plugins(options.consent).context("preparing the plugins")?;
    Binaries::prepare().context("preparing the control plane")?;
    let component = plugins.get("objects").context("finding the plugin `objects`")?;
    let binary = workspace::binary("chandlery")?;
    let quickstart = Quickstart::read(component)?;
    story.say("all is there");

    story.chapter("Starting a hub and a remote, and the daemon in the hub under its own ServiceAccount");
    let stage = Stage::start(PREFIX)?;
    story.say(&format!("hub      {}", stage.hub.server_url()));
    story.say(&format!("remote   {}", stage.remote.server_url()));
    daemon::install(&stage.hub, &binary)?;
    let daemon = Daemon::start(
        &stage.hub,
        DaemonOptions {
            binary,
            plugin_dir: workspace::root().join("target/plugins"),
            cache_dir: Cache::open()?.directory("daemon")?,
            lease_seconds: 15,
            extra_args: Vec::new(),
            log: "info,chandlery=debug".into(),
        },
    )?;
    story.say(&format!("daemon   is ready as {}", daemon::USER));
    let mut demo = Demo {
        story,
        quickstart,
        stage,
        daemon,
    };
    let outcome = demo.perform(options.keep);
    if outcome.is_err() {
        eprintln!("\nThe end of the daemon's log:\n{}", demo.daemon.log_tail(LOG_LINES));
    }
    if options.keep && outcome.is_ok() {
        return demo.keep();
    }
    outcome
}

/// Runs `chandlery demo`: hub and remote are clusters in memory. Answers its exit code.
///
/// # Errors
/// If something cannot be built or started.
pub fn in_memory(options: Options) -> Result<ExitCode> {
    let plugins = guests::plugins(options.consent).context("preparing the plugins")?;
    let component = plugins.get("objects").context("finding the plugin `objects`")?;
    let mut demo = Command::new(workspace::binary("chandlery")?);
    demo.arg("demo").arg("--component").arg(component);
    if options.keep {
        demo.arg("--keep");
    }
    // Ctrl-C is for it, too, and we are there until it has ended.
    let status = demo.status().context("starting chandlery demo")?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

struct Demo {
    story: Story,
    quickstart: Quickstart,
    stage: Stage,
    daemon: Daemon,
}

impl Demo {
    fn perform(&mut self, keep: bool) -> Result<()> {
        let (hub_before, remote_before) = (take(&self.stage.hub)?, take(&self.stage.remote)?);
        self.story.say(&format!(
            "witness  has counted {} objects in the hub, {} in the remote",
            hub_before.len(),
            remote_before.len()
        ));
        let follow = self.provision()?;
        self.views()?;
        if keep {
            return Ok(());
        }
        self.deprovision(follow)?;
        self.judge("remote", &remote_before, &self.stage.remote)?;
        self.clear_hub()?;
        self.judge("hub", &hub_before, &self.stage.hub)?;
        self.end_daemon()
    }

    fn provision(&self) -> Result<Follow<'_>> {
        let Self {
            story,
            stage,
            quickstart,
            ..
        } = self;
        story.chapter("kubectl apply --server-side: examples/quickstart");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let secret = stage.secret(NAMESPACE, SECRET)?;
        let mut follow = Follow::start(story, &stage.hub, &stage.remote, NAMESPACE)?;
        let documents = [
            &namespace,
            &secret,
            &quickstart.remote_cluster,
            &quickstart.plugin,
            &quickstart.provision,
        ];
        story.show(&stage::apply(&stage.hub.client(), documents)?);
        follow.until("Ready", Change::is_ready)?;
        Ok(follow)
    }

    fn views(&self) -> Result<()> {
        let Self {
            story,
            stage,
            quickstart,
            ..
        } = self;
        let hub = stage.hub.client();
        story.chapter("The hub, as kubectl shows it");
        for resource in ["provisions", "remoteclusters", "remoteclaims", "steprecords"] {
            story.view(&hub, &["get", resource, "--namespace", NAMESPACE])?;
        }
        story.view(&hub, &["get", "plugins"])?;
        story.chapter("The remote: what the steps put there");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": quickstart.objects()}).to_string();
        let names = stage
            .remote
            .client()
            .text_with_input(["get", "--output=name", "--filename=-"], &list)?;
        let (found, wanted) = (names.lines().count(), quickstart.objects().len());
        story.show(&names);
        ensure!(found == wanted, "{found} objects of {wanted} are there");
        story.view(&stage.remote.client(), &["get", "volumesnapshotclasses"])
    }

    fn deprovision(&self, mut follow: Follow<'_>) -> Result<()> {
        let Self {
            story,
            stage,
            quickstart,
            ..
        } = self;
        story.chapter("kubectl delete provision: returns when the last object in the remote is seen gone");
        let name = name_of(&quickstart.provision)?;
        let mut delete = stage
            .hub
            .client()
            .command(["delete", "provision", name, "--namespace", NAMESPACE])
            .stdout(Stdio::null())
            .spawn()
            .context("starting kubectl delete")?;
        let followed = follow.until("gone", Change::is_deletion);
        if followed.is_err() {
            // It would wait for ever.
            delete.kill().context("ending kubectl delete")?;
        }
        let status = delete.wait().context("waiting for kubectl delete")?;
        followed?;
        ensure!(status.success(), "kubectl delete ended with {status}");
        story.say("kubectl delete has returned");
        Ok(())
    }

    /// Takes away what only the demo put into the hub.
    fn clear_hub(&self) -> Result<()> {
        let Self {
            story,
            stage,
            quickstart,
            ..
        } = self;
        story.chapter("Deleting RemoteCluster, Plugin and namespace in the hub");
        let hub = stage.hub.client();
        for (kind, object) in [
            ("remotecluster", &quickstart.remote_cluster),
            ("plugin", &quickstart.plugin),
        ] {
            let namespace = format!("--namespace={NAMESPACE}");
            let arguments = ["delete", kind, name_of(object)?, &namespace, "--timeout=60s"];
            story.show(&hub.text(arguments)?);
        }
        story.show(&hub.text(["delete", "namespace", NAMESPACE, "--timeout=60s"])?);
        for resource in ["provisions", "remoteclusters", "plugins", "remoteclaims", "steprecords"] {
            let left = hub.text(["get", resource, "--all-namespaces", "--output=name"])?;
            ensure!(left.is_empty(), "left in the hub:\n{left}");
        }
        Ok(())
    }

    fn judge(&self, name: &str, before: &Inventory, cluster: &ControlPlane) -> Result<()> {
        let after = take(cluster)?;
        let difference = before.compare(&after);
        ensure!(
            difference.is_empty(),
            "the {name} is not as it was before:\n{difference}"
        );
        self.story.say(&format!(
            "witness  the {name} is as it was: the same {} objects by UID and content, nothing left, nothing missing",
            after.len()
        ));
        Ok(())
    }

    fn end_daemon(&mut self) -> Result<()> {
        let asked = Instant::now();
        let status = self.daemon.stop()?;
        ensure!(status.success(), "the daemon ended with {status} after SIGTERM");
        self.story.say(&format!(
            "daemon   ended by itself {:.1} s after SIGTERM",
            asked.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    fn keep(self) -> Result<()> {
        let Self {
            story, stage, daemon, ..
        } = self;
        let [daemon_name, ..] = KEPT;
        let pid = daemon.pid();
        let daemon = daemon.keep(daemon_name)?;
        let (hub, remote) = (stage.hub.keep()?, stage.remote.keep()?);
        // The machine may have no kubectl; the one that told this story is in the cache.
        let kubectl = Binaries::prepare()?.command(Part::Kubectl);
        let kubectl: Vec<_> = std::iter::once(kubectl.get_program())
            .chain(kubectl.get_args())
            .map(|word| word.to_string_lossy())
            .collect();
        story.chapter("Kept running");
        story.show(&format!(
            "hub      export KUBECONFIG={}\nremote   export KUBECONFIG={}\nkubectl  alias kubectl='{}'\ndaemon   process {pid}, its log is in {}\nstop all with\n  {}",
            hub.kubeconfig_path().display(),
            remote.kubeconfig_path().display(),
            kubectl.join(" "),
            daemon.directory.display(),
            stop_command()
        ));
        Ok(())
    }
}

fn stop_command() -> String {
    format!("cargo xtask control-plane down {}", KEPT.join(" "))
}

fn name_of(object: &Value) -> Result<&str> {
    object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .context("finding the name of an object")
}

fn take(cluster: &ControlPlane) -> Result<Inventory> {
    let kubectl: Kubectl = cluster.client();
    let deadline = Instant::now() + LISTED_WITHIN;
    loop {
        match Inventory::take(&kubectl) {
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => {}
            taken => return taken,
        }
    }
}
