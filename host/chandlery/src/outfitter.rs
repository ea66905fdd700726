//! The host without Provisions and without the daemon: trees of Provisioners, for owners of a program's own.
//!
//! An owner is any object of the hub. What is kept of its steps (StepRecords, RemoteClaims) is in its namespace, beside the
//! RemoteClusters that its trees name; any process may go on where another ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chandlery_api::RemoteCluster;
use chandlery_core::claim::{Registered, TornDown, Trigger};
use chandlery_core::cluster::{Problem, join_problems};
use chandlery_core::grant::Grant;
use chandlery_core::ports::Ports;
use chandlery_core::{Class, Setback, StepName, Uid};
use chandlery_engine::{Graph, Look, Pass, Provisioners, Tree};
use chandlery_scope::kubeconfig::Policy;
use chandlery_scope::{
    ArgoCd, ClaimStore, Hub, InstanceIdentity, Owner, RecordStore, Registrar, RemoteKey, Remotes, StepContext,
    Unregistered, WriteFence, connect_config, finalizer, waits,
};
use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Config};
use serde_json::{Map, Value};
use tokio::task::JoinHandle;

/// How often remotes are looked at that this process keeps, beside each change of theirs.
const KEEP: Duration = Duration::from_secs(2);

/// What may differ between programs.
#[derive(Debug, Clone)]
pub struct OutfitterOptions {
    /// What kubeconfigs may say beyond the default.
    pub policy: Policy,
    /// How this process is known on claims.
    pub instance: InstanceIdentity,
    /// How many steps of one owner run at the same time, at least 1.
    pub concurrent_steps: usize,
    /// Whether this process keeps RemoteClusters: stores the finalizer, registers what is claimed, tears down what is being
    /// deleted. Where a daemon runs on the hub, it does that.
    pub keeps_remotes: bool,
}

impl Default for OutfitterOptions {
    /// A process of its own, that keeps the RemoteClusters.
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            instance: InstanceIdentity::of_process(),
            concurrent_steps: 8,
            keeps_remotes: true,
        }
    }
}

/// Why a tree did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum OutfitError {
    /// The tree is none: see [`Tree::compile`].
    #[error("the tree is wrong: {}", join_problems(.0))]
    Tree(Vec<Problem>),
    /// The hub cannot be reached, or does not let this process in.
    #[error("reaching the hub")]
    Hub(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What is kept of the owner's steps cannot be read.
    #[error(transparent)]
    Setback(#[from] Setback),
    /// Only a person can help with some step.
    #[error("{}", stalled(.0))]
    Stalled(Pass),
}

fn stalled(pass: &Pass) -> String {
    let row = |row: &&chandlery_engine::StepRow| format!("step {} on {}: {}", row.step, row.on, row.message);
    let rows: Vec<String> = pass.troubles().iter().map(row).collect();
    rows.join("; ")
}

/// The hub and its remotes, for the trees of one program.
pub struct Outfitter {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    hub: Arc<Hub>,
    records: Arc<RecordStore>,
    concurrent_steps: usize,
    owners: Mutex<HashMap<Uid, Arc<tokio::sync::Mutex<Rounds>>>>,
}

/// How often in a row steps have not come to their end.
type Rounds = BTreeMap<StepName, u32>;

impl Drop for Outfitter {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Outfitter {
    /// Reaches the hub, and knows its RemoteClusters when this returns.
    ///
    /// # Errors
    /// [`OutfitError::Hub`].
    pub async fn connect(config: Config, options: OutfitterOptions) -> Result<Self, OutfitError> {
        let fence = WriteFence::open();
        let connection = connect_config(config.clone(), &fence).map_err(|error| OutfitError::Hub(error.into()))?;
        let client = connection.client();
        let (remotes, writer) = reflector::store();
        let (seen, mut changed) = tokio::sync::mpsc::channel::<()>(1);
        let events = watcher(Api::<RemoteCluster>::all(client.clone()), watcher::Config::default())
            .default_backoff()
            .reflect(writer);
        let watching = tokio::spawn(async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                if let Err(error) = event {
                    let error = chandlery_core::readiness::one_line(&error.to_string());
                    tracing::warn!(error, "the watch of RemoteClusters is interrupted");
                }
                // Whoever is to look has something to look at already.
                let _ = seen.try_send(());
            }
        });
        let mut tasks = vec![watching];
        let claims = ClaimStore::new(client.clone(), options.instance);
        let shared = Arc::new(Shared {
            hub: Hub::new(connection, config, remotes, claims, fence, options.policy),
            records: RecordStore::new(client),
            concurrent_steps: options.concurrent_steps,
            owners: Mutex::default(),
        });
        shared
            .hub
            .remotes
            .wait_until_ready()
            .await
            .map_err(|error| OutfitError::Hub(error.into()))?;
        shared.hub.claims.strike_off_predecessors().await?;
        if options.keeps_remotes {
            shared.keep_all().await;
            let keeper = shared.clone();
            tasks.push(tokio::spawn(async move {
                loop {
                    let _ = tokio::time::timeout(KEEP, changed.recv()).await;
                    keeper.keep_all().await;
                }
            }));
        }
        Ok(Self { shared, tasks })
    }

    /// One pass towards a tree. Steps of the owner that are not in it are undone.
    ///
    /// Cancel safety: may be dropped at any await; the next pass goes on from what is durable.
    ///
    /// # Errors
    /// [`OutfitError::Tree`], [`OutfitError::Setback`].
    pub async fn pass(&self, owner: &Owner, tree: &Tree, inputs: Map<String, Value>) -> Result<Pass, OutfitError> {
        let graph = tree.compile(inputs).map_err(OutfitError::Tree)?;
        self.shared.pass(owner, &tree.provisioners(), Some(&graph)).await
    }

    /// Passes towards a tree until all of it is done; between them it waits as long as the steps ask for.
    ///
    /// # Errors
    /// As [`Outfitter::pass`], and [`OutfitError::Stalled`].
    pub async fn bring(&self, owner: &Owner, tree: &Tree, inputs: Map<String, Value>) -> Result<Pass, OutfitError> {
        let graph = tree.compile(inputs).map_err(OutfitError::Tree)?;
        self.shared.until_done(owner, &tree.provisioners(), Some(&graph)).await
    }

    /// Passes that undo all steps of an owner, until the last of them is seen gone. `known` has every Provisioner that they may
    /// have been run with.
    ///
    /// # Errors
    /// As [`Outfitter::bring`].
    pub async fn take_away(&self, owner: &Owner, known: &Provisioners) -> Result<(), OutfitError> {
        self.shared.until_done(owner, known, None).await?;
        let mut owners = self.shared.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.remove(&owner.uid);
        self.shared.records.forget(&owner.uid);
        Ok(())
    }
}

impl Shared {
    async fn until_done(
        &self,
        owner: &Owner,
        known: &Provisioners,
        graph: Option<&Graph>,
    ) -> Result<Pass, OutfitError> {
        loop {
            let pass = self.pass(owner, known, graph).await?;
            if pass.is_done() {
                return Ok(pass);
            }
            let needs_a_person = |class| matches!(class, Some(Class::UserFix | Class::Bug));
            if pass.rows.iter().any(|row| needs_a_person(row.class)) {
                return Err(OutfitError::Stalled(pass));
            }
            let rounds = self.turn(&owner.uid);
            let rounds = rounds.lock().await.clone();
            let round = |step: &StepName| rounds.get(step).map_or(0, |tried| tried.saturating_sub(1));
            let delays = pass.troubles().into_iter().map(|row| row.delay(round(&row.step), 0.5));
            tokio::time::sleep(delays.min().unwrap_or(KEEP)).await;
        }
    }

    fn turn(&self, uid: &Uid) -> Arc<tokio::sync::Mutex<Rounds>> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.entry(uid.clone()).or_default().clone()
    }

    /// One pass at a time over one owner.
    async fn pass(&self, owner: &Owner, known: &Provisioners, graph: Option<&Graph>) -> Result<Pass, OutfitError> {
        let turn = self.turn(&owner.uid);
        let mut rounds = turn.lock().await;
        let names = graph.into_iter().flat_map(Graph::nodes).map(|node| node.on.clone());
        let context = StepContext {
            owner: owner.clone(),
            service_account: None,
            deleting: graph.is_none(),
            name_to_remote: names.map(|name| (name.clone(), name)).collect(),
        };
        let grants = known.clone();
        let grant_of = move |name: &str, on_hub| grants.get(name).map_or_else(Grant::default, |one| one.grant(on_hub));
        let remotes = Remotes::new(self.hub.clone(), context, Box::new(grant_of));
        let records = self.records.of(&owner.namespace, &owner.name, &owner.uid);
        let called = known.of(
            &format!("{}/{}", owner.namespace, owner.name),
            &owner.uid,
            crate::wire::now(),
        );
        let ports = Ports {
            records: &records,
            remotes: &remotes,
            plugins: &called,
        };
        let look = Look {
            rounds: rounds.clone(),
            concurrency: self.concurrent_steps,
            ..Look::default()
        };
        let pass = match graph {
            Some(graph) => chandlery_engine::pass(graph, ports, &look).await?,
            None => chandlery_engine::undo_all(ports, &look).await?,
        };
        for row in pass.rows.iter().filter(|row| row.tried) {
            if row.severity() == 0 {
                rounds.remove(&row.step);
            } else {
                *rounds.entry(row.step.clone()).or_insert(0) += 1;
            }
        }
        Ok(pass)
    }

    async fn keep_all(&self) {
        for remote in self.hub.remotes.state() {
            match self.keep(&remote).await {
                Ok(()) => {}
                Err(setback) if setback.class == Class::Wait => {
                    tracing::debug!(remote = remote.metadata.name, %setback, "a remote waits");
                }
                Err(setback) => tracing::warn!(remote = remote.metadata.name, %setback, "a remote is looked at again"),
            }
        }
    }

    /// Protects a remote, registers it while it is claimed, and tears it down when it is being deleted.
    async fn keep(&self, remote: &RemoteCluster) -> Result<(), Setback> {
        let metadata = &remote.metadata;
        let (Some(namespace), Some(name), Some(uid)) = (&metadata.namespace, &metadata.name, &metadata.uid) else {
            return Ok(());
        };
        let key = RemoteKey {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid
                .parse()
                .map_err(|_| Setback::new(Class::Bug, "NoUid", "a RemoteCluster without UID"))?,
        };
        let client = self.hub.connection.client();
        let argocd = ArgoCd::of(client.clone(), remote);
        let claims = &self.hub.claims;
        if metadata.deletion_timestamp.is_some() {
            if !finalizer::has(remote) {
                return Ok(());
            }
            let registrar: &dyn Registrar = match &argocd {
                Some(argocd) => argocd,
                None => &Unregistered,
            };
            return match claims.tear_down(&key, Trigger::Deletion, registrar).await? {
                TornDown::Done | TornDown::Nothing => {
                    self.hub.forget(&key.uid);
                    claims.release_all_of(&key.namespace, &key.uid).await
                }
                torn_down => Err(waits(torn_down)),
            };
        }
        if !finalizer::has(remote) {
            finalizer::add(&Api::<RemoteCluster>::namespaced(client, namespace), remote).await?;
        }
        let Some(argocd) = argocd else {
            return Ok(());
        };
        if claims.users(&key).await?.is_empty() {
            return match claims.tear_down(&key, Trigger::LastClaim, &argocd).await? {
                TornDown::Done | TornDown::Nothing => Ok(()),
                torn_down => Err(waits(torn_down)),
            };
        }
        let argocd = argocd.saying(self.hub.endpoint(remote).await?.as_ref());
        match claims.register(&key, &argocd).await? {
            Registered::Current | Registered::Closed => Ok(()),
            Registered::Foreign => Err(argocd.is_foreign()),
        }
    }
}
