//! What tests stand on: a hub with Chandlery's kinds, remotes, and a daemon under the rights that `chandlery manifests` gives.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chandlery_core::Digest;
use serde_json::{Value, json};
use xtask::consent::Consent;
use xtask::daemon::{Daemon, DaemonOptions, install};
use xtask::{guests, workspace};

use crate::cluster::{Cluster, at};
use crate::seen::Seen;
use crate::wait::wait_until;

/// What a world is to have.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Names of its remotes.
    pub remotes: &'static [&'static str],
    /// How long a daemon's Lease lasts, 3 or more.
    pub lease_seconds: u64,
}

/// A hub, remotes, and at first one daemon. All of it ends with the process.
pub struct World {
    /// The cluster the daemon works for.
    pub hub: Cluster,
    /// Where to the audit log of the hub had grown before the daemon started.
    pub started: u64,
    remotes: Vec<(&'static str, Cluster)>,
    daemons: Mutex<Vec<Daemon>>,
    shape: Shape,
    binary: PathBuf,
}

impl World {
    /// Starts everything; about five seconds.
    pub fn start(shape: Shape) -> Self {
        let binary = workspace::binary("chandlery").unwrap();
        let (hub, remotes) = std::thread::scope(|scope| {
            let hub = scope.spawn(|| Cluster::start("hub"));
            let remotes: Vec<_> = shape
                .remotes
                .iter()
                .map(|name| (*name, scope.spawn(move || Cluster::start(name))))
                .collect();
            let remotes = remotes
                .into_iter()
                .map(|(name, started)| (name, started.join().unwrap()))
                .collect();
            (hub.join().unwrap(), remotes)
        });
        install(&hub.plane, &binary).unwrap();
        let started = hub.audit().mark();
        let world = Self {
            hub,
            started,
            remotes,
            daemons: Mutex::default(),
            shape,
            binary,
        };
        fs::create_dir_all(world.plugin_dir()).unwrap();
        world.start_daemon();
        for (name, component) in guests::plugins(Consent::new(false)).unwrap() {
            let bytes = fs::read(component).unwrap();
            world.plugin(
                &name,
                &bytes,
                json!({"remote": everything(), "hub": everything()}),
                json!({}),
            );
        }
        wait_until("the plugins are ready", || {
            world.seen_plugin("objects").is_ready().then_some(())
        });
        world
    }

    /// A remote by name.
    pub fn remote(&self, name: &str) -> &Cluster {
        let found = self.remotes.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, cluster)| cluster)
            .unwrap_or_else(|| panic!("this world has no remote {name}"))
    }

    /// Starts one more daemon, and waits until it leads or stands by.
    pub fn start_daemon(&self) {
        let options = DaemonOptions {
            binary: self.binary.clone(),
            plugin_dir: self.plugin_dir(),
            cache_dir: self.hub.plane.directory().join("daemon-cache"),
            lease_seconds: self.shape.lease_seconds,
            extra_args: Vec::new(),
            log: "info,chandlery=debug".into(),
        };
        let started = Daemon::start(&self.hub.plane, options).unwrap();
        self.daemons().push(started);
    }

    /// The daemons, in the order in which they were started.
    pub fn daemons(&self) -> MutexGuard<'_, Vec<Daemon>> {
        // A test that panicked while it held them must not keep the others from looking.
        self.daemons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where Plugins of source `file` lie; goes with the hub.
    pub fn plugin_dir(&self) -> PathBuf {
        self.hub.plane.directory().join("plugins")
    }

    /// Puts a file into the plugin directory and makes a Plugin of it. `more` is merged into its spec.
    pub fn plugin(&self, name: &str, bytes: &[u8], grants: Value, more: Value) {
        // Renamed into place: the daemon must never read half a file.
        let (path, partial) = (self.plugin_dir().join(name), self.plugin_dir().join(format!(".{name}")));
        fs::write(&partial, bytes).unwrap();
        fs::rename(&partial, path).unwrap();
        let mut spec = json!({
            "source": {"file": {"path": name}},
            "digest": Digest::of(bytes).to_string(),
            "grants": grants,
        });
        let more = more.as_object().cloned().unwrap_or_default();
        spec.as_object_mut().unwrap().extend(more);
        self.hub.apply(&json!({
            "apiVersion": "chandlery.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name}, "spec": spec,
        }));
    }

    /// A Plugin as it is now.
    pub fn seen_plugin(&self, name: &str) -> Seen {
        Seen(
            self.hub
                .get(&at("chandlery.dev/v1alpha1", "Plugin", name))
                .unwrap_or_default(),
        )
    }

    /// What the daemons told of something, the last lines of it.
    pub fn told_of(&self, something: &str) -> String {
        let mut told = String::new();
        for daemon in self.daemons().iter() {
            let log = fs::read(daemon.log_path()).unwrap_or_default();
            let log = String::from_utf8_lossy(&log).into_owned();
            let lines: Vec<_> = log.lines().filter(|line| line.contains(something)).collect();
            told.push_str(&lines[lines.len().saturating_sub(25)..].join("\n"));
        }
        told
    }
}

/// A grant of all there is.
pub fn everything() -> Value {
    json!([{"apiGroups": ["*"], "resources": ALL, "verbs": ["*"]}])
}

/// `*` covers neither cluster-scoped nor escalating resources, nor subresources: they must be named.
const ALL: &[&str] = &[
    "*",
    "namespaces",
    "secrets",
    "customresourcedefinitions",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
];
