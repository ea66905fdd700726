//! Real ports, put together for one pass over one Provision.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use chandlery_api::{Provision, ProvisionObjectSpec, RemoteClaim};
use chandlery_core::cluster::ClusterAccess;
use chandlery_core::ports::{self, Call, Ports};
use chandlery_core::provision::ProvisionSpec;
use chandlery_core::record::Receipt;
use chandlery_core::task::{Export, Failure, Outcome, Request};
use chandlery_core::{Class, Digest, Setback, Uid};
use chandlery_engine::{Graph, Look, Pass};
use chandlery_runtime::Runtime;
use chandlery_scope::{
    ClaimKey, Holder, Hub, Left, Owner, OwnerKind, RecordStore, Remotes, StepContext, Subscriber, Watches,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef as StoreRef, Store};

use crate::plugins::{PluginState, Plugins};

/// What a host is made of.
pub struct HostOptions {
    /// Components.
    pub runtime: Arc<Runtime>,
    /// Plugins by name.
    pub plugins: Arc<Plugins>,
    /// Clusters.
    pub hub: Arc<Hub>,
    /// StepRecords.
    pub records: Arc<RecordStore>,
    /// Wake-ups.
    pub watches: Arc<Watches>,
    /// Labels of namespaces, by a watch.
    pub namespaces: Store<PartialObjectMeta<Namespace>>,
}

/// The parts of one process.
pub struct Host {
    /// What it is made of.
    pub parts: HostOptions,
    /// One pass at a time over one provision, whoever asked for it.
    passes: Mutex<HashMap<Uid, Arc<tokio::sync::Mutex<()>>>>,
}

/// What a pass came to.
pub struct PassReport {
    /// Rows of the steps.
    pub pass: Pass,
    /// What steps left on remotes that were given up or replaced.
    pub left: Vec<Left>,
}

/// Whether a deletion pass left nothing to be undone.
pub fn finished(report: &PassReport) -> bool {
    report.pass.rows.is_empty()
}

impl Host {
    /// A host of these parts.
    pub fn new(parts: HostOptions) -> Arc<Self> {
        Arc::new(Self {
            parts,
            passes: Mutex::default(),
        })
    }

    /// One pass: towards the spec with a graph, or undoing everything without one. Watches are set anew for each step that
    /// was tried.
    ///
    /// Cancel safety: may be dropped at any await; the next pass goes on from what is durable.
    ///
    /// # Errors
    /// If the records cannot be read, or the object has no UID.
    pub async fn pass(&self, provision: &Provision, graph: Option<&Graph>, look: &Look) -> Result<PassReport, Setback> {
        let meta = &provision.metadata;
        let uid: Uid = meta
            .uid
            .as_deref()
            .and_then(|uid| uid.parse().ok())
            .ok_or_else(|| Setback::new(Class::Bug, "NoUid", "a Provision without UID"))?;
        let turn = self.turn(&uid);
        let _turn = turn.lock().await;
        self.pass_in_turn(provision, &uid, graph, look).await
    }

    fn turn(&self, uid: &Uid) -> Arc<tokio::sync::Mutex<()>> {
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes.entry(uid.clone()).or_default().clone()
    }

    async fn pass_in_turn(
        &self,
        provision: &Provision,
        uid: &Uid,
        graph: Option<&Graph>,
        look: &Look,
    ) -> Result<PassReport, Setback> {
        let meta = &provision.metadata;
        let (namespace, name) = (
            meta.namespace.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        );
        let records = self.parts.records.of(&namespace, &name, uid);
        let spec = &provision.spec.0;
        let context = StepContext {
            owner: Owner {
                kind: OwnerKind::Provision,
                namespace: namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
            },
            service_account: spec.service_account_name.clone(),
            deleting: meta.deletion_timestamp.is_some(),
            name_to_remote: spec
                .remotes
                .iter()
                .map(|remote| (remote.name.clone(), remote.reference.clone()))
                .collect(),
        };
        let plugins = self.parts.plugins.clone();
        let remotes = Remotes::new(
            self.parts.hub.clone(),
            context,
            Box::new(move |plugin, on_hub| plugins.grant(plugin, on_hub)),
        );
        let calls = ProvisionPlugins {
            host: self,
            namespace: &namespace,
            provision: format!("{namespace}/{name}"),
            uid: uid.clone(),
        };
        let ports = Ports {
            records: &records,
            remotes: &remotes,
            plugins: &calls,
        };
        let pass = match graph {
            Some(graph) => chandlery_engine::pass(graph, ports, look).await?,
            None => chandlery_engine::undo_all(ports, look).await?,
        };
        for row in pass.rows.iter().filter(|row| row.tried) {
            let subscriber = Subscriber {
                namespace: namespace.clone(),
                provision: name.clone(),
                uid: uid.clone(),
                step: row.step.clone(),
            };
            if let Some(connection) = remotes.connection_of(&row.step) {
                self.parts
                    .watches
                    .set(&subscriber, &connection, row.watch.clone())
                    .await;
            }
        }
        self.parts
            .watches
            .drop_step(uid, |step| pass.rows.iter().any(|row| row.step == *step));
        Ok(PassReport {
            pass,
            left: remotes.left(),
        })
    }

    /// Collects a claim whose holder may be gone: what the holder's steps left is taken away as their records say, and a claim
    /// under which nothing was done is given back.
    ///
    /// # Errors
    /// What it waits for.
    pub async fn collect(&self, claim: &RemoteClaim) -> Result<(), Setback> {
        // Whatever somebody else wrote in our name is not ours to collect, and must not hold up what is.
        let Some(key) = ClaimKey::of(claim) else {
            return Ok(());
        };
        let (name, uid) = match &key.holder {
            // A remote has nothing on the one it is reached through; what is on itself is under other claims.
            Holder::Remote { .. } => return self.parts.hub.claims.release(&key).await,
            Holder::Step {
                owner: OwnerKind::Provision,
                name,
                uid,
                ..
            } => (name, uid),
            // Only the program that knows its steps can undo them.
            Holder::Step { .. } => return Ok(()),
        };
        let turn = self.turn(uid);
        let _turn = turn.lock().await;
        let is_held_by_nobody = self.parts.hub.claims.is_held_by_nobody(&key).await?;
        if is_held_by_nobody {
            let mut remnant = Provision::new(name, ProvisionObjectSpec(ProvisionSpec::default()));
            remnant.metadata.namespace = Some(key.namespace.clone());
            remnant.metadata.uid = Some(uid.to_string());
            let look = Look {
                concurrency: 1,
                ..Look::default()
            };
            let report = self.pass_in_turn(&remnant, uid, None, &look).await?;
            if let Some(row) = report.pass.worst() {
                let class = row.class.unwrap_or(Class::Wait);
                return Err(Setback::new(class, row.reason.clone(), row.message.clone()));
            }
        }
        self.parts.hub.claims.release(&key).await?;
        if is_held_by_nobody {
            self.forget(uid);
        }
        Ok(())
    }

    /// Forgets what is kept in memory of a Provision that is gone.
    pub fn forget(&self, uid: &Uid) {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.parts.records.forget(uid);
        self.parts.watches.drop_step(uid, |_| false);
    }

    fn labels_of(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        self.parts
            .namespaces
            .get(&StoreRef::new(namespace))
            .map(|found| found.metadata.labels.clone().unwrap_or_default())
    }
}

/// The components of one Provision's steps.
struct ProvisionPlugins<'a> {
    host: &'a Host,
    namespace: &'a str,
    provision: String,
    uid: Uid,
}

impl ProvisionPlugins<'_> {
    /// The component a step is to be undone with: the one it was run with if it is still to be had, else what the Plugin has now.
    async fn as_it_was(&self, plugin: &str, digest: &Digest) -> Result<Arc<chandlery_runtime::Plugin>, Setback> {
        let runtime = &self.host.parts.runtime;
        if let Some(loaded) = runtime.loaded(digest) {
            return Ok(loaded);
        }
        if let Ok(Some(bytes)) = runtime.store().get(digest)
            && let Ok(loaded) = runtime.load(digest, &bytes).await
        {
            return Ok(loaded);
        }
        match self.host.parts.plugins.state(plugin) {
            Some(PluginState::Ready(registered)) => Ok(registered.plugin.clone()),
            Some(PluginState::Unready(setback)) => Err(setback),
            None => Err(Setback::new(
                Class::Wait,
                "PluginMissing",
                format!("there is no Plugin {plugin}, which this step was done with"),
            )),
        }
    }
}

#[async_trait]
impl ports::Plugins for ProvisionPlugins<'_> {
    fn digest(&self, plugin: &str) -> Result<Digest, Setback> {
        let registered = self
            .host
            .parts
            .plugins
            .usable(plugin, self.namespace, || self.host.labels_of(self.namespace))?;
        Ok(registered.plugin.digest().clone())
    }

    async fn call(&self, call: Call<'_>) -> Result<Outcome, Setback> {
        let Call {
            record,
            export,
            scope,
            round,
        } = call;
        let receipt = &record.receipt;
        let request = Request {
            provision_uid: self.uid.clone(),
            provision: self.provision.clone(),
            step: record.step.clone(),
            spec: receipt.spec.clone(),
            memory: record.memory.clone(),
            now: now(),
            round,
        };
        let runtime = &self.host.parts.runtime;
        let on: Arc<dyn ClusterAccess> = scope;
        let result = match export {
            Export::Provision => {
                let registered = self
                    .host
                    .parts
                    .plugins
                    .usable(&receipt.plugin, self.namespace, || self.host.labels_of(self.namespace))?;
                same_digest(registered.plugin.digest(), receipt)?;
                let mut problems = registered.schema_problems(&request.spec);
                if problems.is_empty() {
                    problems = runtime
                        .check(&registered.plugin, &request.spec, &registered.limits)
                        .await
                        .map_err(Failure::into_setback)?;
                }
                if !problems.is_empty() {
                    return Err(Failure::Invalid(problems).into_setback());
                }
                runtime
                    .call(
                        &registered.plugin,
                        &receipt.plugin,
                        export,
                        on,
                        &request,
                        &registered.limits,
                    )
                    .await
            }
            Export::Deprovision { .. } => {
                if let Some(PluginState::Unready(setback)) = self.host.parts.plugins.state(&receipt.plugin)
                    && setback.class == Class::Wait
                {
                    // Its grant is not known yet, and without one everything would be denied.
                    return Err(crate::plugins::not_ready(&receipt.plugin, setback));
                }
                let plugin = self.as_it_was(&receipt.plugin, &receipt.digest).await?;
                let limits = match self.host.parts.plugins.state(&receipt.plugin) {
                    Some(PluginState::Ready(registered)) => registered.limits.clone(),
                    _ => chandlery_core::limits::Limits::default(),
                };
                runtime
                    .call(&plugin, &receipt.plugin, export, on, &request, &limits)
                    .await
            }
        };
        result.map_err(Failure::into_setback)
    }
}

/// That what is about to be called is what the receipt says. The Plugin may have got another digest since the receipt was
/// stored, and would then do what nothing durable tells of.
fn same_digest(now: &Digest, receipt: &Receipt) -> Result<(), Setback> {
    if *now == receipt.digest {
        return Ok(());
    }
    let message = format!("Plugin {} has changed while the step was about to run", receipt.plugin);
    Err(Setback::new(Class::Wait, "PluginChanged", message))
}

/// The time, as plugins are told it.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use chandlery_core::record::Target;

    use super::*;

    #[test]
    fn another_digest_than_the_receipts_is_not_called() {
        let receipt = Receipt {
            plugin: "objects".into(),
            digest: Digest::of(b"old"),
            spec: serde_json::json!({}),
            target: Target::Hub {
                service_account: "a".into(),
            },
            cluster_identity: String::new(),
            background_deletion: false,
            needs: vec![],
        };
        assert!(same_digest(&Digest::of(b"old"), &receipt).is_ok());
        let setback = same_digest(&Digest::of(b"new"), &receipt).unwrap_err();
        assert_eq!((setback.class, setback.reason.as_str()), (Class::Wait, "PluginChanged"));
    }
}
