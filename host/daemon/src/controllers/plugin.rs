//! Plugin: fetches, verifies, loads, asks the component what it is, and tells it. Stays until no step was done with it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chandlery::core::task::Failure;
use chandlery::core::{Class, Digest, Setback, backoff};
use chandlery::{PluginState, Registered, read_source};
use chandlery_api::condition::{READY, RECONCILING, STALLED, State, merge};
use chandlery_api::{Plugin, PluginStatus, StepRecord};
use jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::controller::Action;
use serde_json::json;

use super::{Failed, Shared, ended, timed};
use chandlery::scope::finalizer;

/// What is remembered of plugins: which generation was loaded, how often it failed, what was last written.
#[derive(Default)]
pub(crate) struct Loads(Mutex<HashMap<String, Remembered>>);

#[derive(Default, Clone)]
struct Remembered {
    uid: String,
    generation: Option<i64>,
    round: u32,
    status: Option<PluginStatus>,
}

impl Loads {
    fn with<T>(&self, name: &str, act: impl FnOnce(&mut Remembered) -> T) -> T {
        act(self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(name.to_owned())
            .or_default())
    }
}

/// What was learnt of a component, whether or not it can be used.
#[derive(Default)]
struct Learnt {
    verified: Option<State>,
    compatible: Option<State>,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// One look at one Plugin.
pub(crate) async fn reconcile(plugin: Arc<Plugin>, shared: Arc<Shared>, loads: Arc<Loads>) -> Result<Action, Failed> {
    let name = plugin.metadata.name.clone().unwrap_or_default();
    let uid = plugin.metadata.uid.clone().unwrap_or_default();
    loads.with(&name, |r| {
        if r.uid != uid {
            *r = Remembered {
                uid,
                ..Remembered::default()
            };
        }
    });
    let one = One {
        plugin: &plugin,
        name,
        api: Api::all(shared.client.clone()),
        shared: &shared,
        loads: &loads,
    };
    ended(if plugin.metadata.deletion_timestamp.is_some() {
        one.close().await
    } else {
        one.load().await
    })
}

struct One<'a> {
    plugin: &'a Plugin,
    name: String,
    api: Api<Plugin>,
    shared: &'a Shared,
    loads: &'a Loads,
}

impl One<'_> {
    async fn load(&self) -> Result<Action, Setback> {
        if !finalizer::has(self.plugin) {
            finalizer::add(&self.api, self.plugin).await?;
        }
        let generation = self.plugin.metadata.generation;
        let known = self
            .loads
            .with(&self.name, |r| r.generation == generation && r.round == 0);
        if known && self.shared.plugins.state(&self.name).is_some() {
            return Ok(Action::await_change());
        }
        if self.shared.plugins.state(&self.name).is_none() {
            // Compiling may take a minute, and who wants it meanwhile waits.
            let loading = Setback::new(Class::Wait, "Loading", "it is being loaded for the first time");
            self.shared.plugins.set(&self.name, PluginState::Unready(loading));
        }
        let before = self.before();
        if before.conditions.is_empty() {
            let states = [State::unknown(READY, "Reconciling", "not looked at yet")];
            self.write(PluginStatus {
                conditions: merge(&[], &states, None, Timestamp::now()),
                ..before
            })
            .await?;
        }
        let mut learnt = Learnt::default();
        let made = self.make(&mut learnt).await;
        let mut states = vec![match &made {
            Ok(_) => State::new(READY, true, "Loaded", ""),
            Err(setback) => State::new(READY, false, setback.reason.clone(), setback.message.clone()),
        }];
        if let Err(setback) = &made {
            let kind = if setback.class.effect().stalled {
                STALLED
            } else {
                RECONCILING
            };
            states.push(State::new(kind, true, setback.reason.clone(), setback.message.clone()));
        }
        states.extend(learnt.verified.take());
        states.extend(learnt.compatible.take());
        let before = self.before();
        let described = made.as_ref().ok().map(|registered| &registered.description);
        let status = PluginStatus {
            observed_generation: generation,
            conditions: merge(&before.conditions, &states, generation, Timestamp::now()),
            name: described.map(|d| d.name.clone()),
            version: described.map(|d| d.version.clone()),
            summary: described.map(|d| d.summary.clone()),
            digest: made
                .as_ref()
                .ok()
                .map(|registered| registered.plugin.digest().to_string()),
            imports: learnt.imports,
            exports: learnt.exports,
            needs: described.map(|d| d.needs.clone()).unwrap_or_default(),
        };
        let (state, action) = match made {
            Ok(registered) => {
                self.loads
                    .with(&self.name, |r| (r.generation, r.round) = (generation, 0));
                (PluginState::Ready(Arc::new(registered)), Action::await_change())
            }
            Err(setback) => {
                let round = self.loads.with(&self.name, |r| {
                    r.generation = generation;
                    r.round = r.round.saturating_add(1);
                    r.round
                });
                let slow = if setback.class == Class::Retry { 0 } else { 5 };
                (
                    PluginState::Unready(setback),
                    Action::requeue(backoff::retry(round.min(6).saturating_add(slow), rand::random())),
                )
            }
        };
        self.shared.plugins.set(&self.name, state);
        let changed = before.digest.is_some() && status.digest.is_some() && before.digest != status.digest;
        self.write(status).await?;
        let keep = self.shared.plugins.digests();
        self.shared.host.parts.runtime.retain(|digest| keep.contains(digest));
        self.shared.nudge_all(|provision| {
            provision
                .spec
                .0
                .steps
                .iter()
                .any(|step| step.plugin.as_deref().unwrap_or(chandlery::core::names::OBJECTS_PLUGIN) == self.name)
        });
        if changed {
            self.sweep().await;
        }
        Ok(action)
    }

    async fn make(&self, learnt: &mut Learnt) -> Result<Registered, Setback> {
        let spec = &self.plugin.spec;
        let fix = |reason: &str, message: String| Setback::new(Class::UserFix, reason, message);
        let wanted: Digest = spec
            .digest
            .parse()
            .map_err(|error: chandlery::core::ids::InvalidId| fix("InvalidDigest", error.to_string()))?;
        let bytes = read_source(&spec.source, &self.shared.client, self.shared.plugin_dir.as_deref())
            .await
            .map_err(|error| Setback::new(error.class(), error.reason(), error.to_string()))?;
        let found = Digest::of(&bytes);
        if found != wanted {
            let message = format!(
                "the source holds {found}, the Plugin pins {wanted}: put the right bytes there, or set spec.digest to what you trust"
            );
            learnt.verified = Some(State::new("Verified", false, "DigestMismatch", message.clone()));
            return Err(fix("DigestMismatch", message));
        }
        learnt.verified = Some(State::new("Verified", true, "DigestMatches", ""));
        if let Ok(compatibility) = chandlery::artifact::inspect(&bytes) {
            let problems = compatibility.problems();
            learnt.compatible = Some(if problems.is_empty() {
                State::new("Compatible", true, "ContractMet", "")
            } else {
                State::new("Compatible", false, "Incompatible", problems.join("; "))
            });
            learnt.imports = compatibility.imports;
            learnt.exports = compatibility.exports;
        }
        let runtime = &self.shared.host.parts.runtime;
        // Kept by digest: a step may have to be undone with these bytes when the source has others.
        if let Err(error) = runtime.store().put(&bytes) {
            tracing::warn!(%error, plugin = self.name, "the component could not be kept");
        }
        let plugin = runtime.load(&wanted, &bytes).await.map_err(|error| {
            let message = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(": ");
            Setback::new(error.class(), error.reason(), message)
        })?;
        let description = runtime.describe(&plugin).await.map_err(Failure::into_setback)?.clone();
        Registered::new(
            plugin,
            description,
            spec.grants.clone(),
            spec.limits.resolve(),
            spec.allowed_namespaces.clone(),
        )
        .map_err(|message| Setback::new(Class::Bug, "InvalidSchema", message))
    }

    async fn records(&self) -> Result<Vec<StepRecord>, Setback> {
        let records: Api<StepRecord> = Api::all(self.shared.client.clone());
        Ok(timed("the step records", records.list(&ListParams::default()))
            .await?
            .items)
    }

    /// Removes from disk what no Plugin names and no step is to be undone with. Should a component be on its way to be loaded
    /// just now, it is compiled once more. The disk fills more slowly than that a failure should hold anybody up: the next
    /// Plugin that changes or goes has it tried again.
    async fn sweep(&self) {
        if let Err(setback) = self.try_sweep().await {
            tracing::warn!(%setback, "components that nobody uses could not be removed");
        }
    }

    async fn try_sweep(&self) -> Result<(), Setback> {
        let plugins = timed("the plugins", self.api.list(&ListParams::default())).await?;
        let named = plugins
            .items
            .iter()
            .filter_map(|plugin| plugin.spec.digest.parse().ok());
        let records = self.records().await?;
        let kept = records
            .iter()
            .filter_map(|object| Some(object.spec.record.as_ref()?.receipt.digest.clone()));
        let keep: HashSet<String> = named
            .chain(kept)
            .map(|digest: Digest| digest.hex().to_owned())
            .collect();
        let store = self.shared.host.parts.runtime.store();
        store
            .retain(|hex| keep.contains(hex))
            .map_err(|error| Setback::new(Class::Retry, "CacheFailed", error.to_string()))
    }

    async fn close(&self) -> Result<Action, Setback> {
        if !finalizer::has(self.plugin) {
            return Ok(Action::await_change());
        }
        let records = self.records().await?;
        let mut users: Vec<String> = records
            .iter()
            .filter_map(|object| Some((object, object.spec.record.as_ref()?)))
            .filter(|(_, record)| record.receipt.plugin == self.name)
            .map(|(object, record)| {
                let namespace = object.metadata.namespace.clone().unwrap_or_default();
                let provision = &object.spec.provision.name;
                format!("Provision {namespace}/{provision} step {}", record.step)
            })
            .collect();
        if users.is_empty() {
            finalizer::remove(&self.api, self.plugin).await?;
            self.shared.plugins.remove(&self.name);
            self.loads
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&self.name);
            self.sweep().await;
            return Ok(Action::await_change());
        }
        users.sort();
        let more = users.len().saturating_sub(10);
        users.truncate(10);
        let mut message = format!("deletion waits: in use by {}", users.join(", "));
        if more > 0 {
            message.push_str(&format!(" and {more} more"));
        }
        let before = self.before();
        let ready = chandlery_api::condition::is_ready(&before.conditions);
        let states = [
            State::new(READY, ready, "InUse", message.clone()),
            State::new("InUse", true, "InUse", message),
        ];
        let generation = self.plugin.metadata.generation;
        self.write(PluginStatus {
            conditions: merge(&before.conditions, &states, generation, Timestamp::now()),
            ..before
        })
        .await?;
        Ok(Action::requeue(Duration::from_secs(5)))
    }

    fn before(&self) -> PluginStatus {
        let written = self.loads.with(&self.name, |r| r.status.clone());
        written.or_else(|| self.plugin.status.clone()).unwrap_or_default()
    }

    async fn write(&self, after: PluginStatus) -> Result<(), Setback> {
        let before = self.before();
        if before == after {
            return Ok(());
        }
        let patch = json!({
            "apiVersion": "chandlery.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": self.name, "uid": self.plugin.metadata.uid}, "status": after,
        });
        timed(
            "the status",
            self.api.patch_status(
                &self.name,
                &PatchParams::apply("chandlery").force(),
                &Patch::Apply(&patch),
            ),
        )
        .await?;
        let ready = |status: &PluginStatus| {
            status
                .conditions
                .iter()
                .find(|c| c.type_ == READY)
                .map(|c| (c.status.clone(), c.reason.clone()))
        };
        if let Some(condition) = after.conditions.iter().find(|c| c.type_ == READY)
            && ready(&before) != ready(&after)
        {
            tracing::info!(
                plugin = self.name,
                ready = condition.status,
                reason = condition.reason,
                message = condition.message,
                "state"
            );
            self.shared
                .teller
                .tell(
                    self.plugin,
                    condition.status != "False",
                    &condition.reason,
                    &condition.message,
                )
                .await;
        }
        self.loads.with(&self.name, |r| r.status = Some(after));
        Ok(())
    }
}
