//! The life of one daemon: reach the hub, stand by, lead, end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, bail};
use chandlery::core::limits::Limits;
use chandlery::runtime::{Compiler, Config as RuntimeConfig, Runtime};
use chandlery::scope::{
    ClaimStore, Hub, InstanceIdentity, RecordStore, Subscriber, Watches, WriteFence, connect_config, kubeconfig::Policy,
};
use chandlery::{Host, HostOptions, Plugins};
use chandlery_api::{Plugin, Provision, RemoteClaim, RemoteCluster};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::Config as ApplierConfig;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, applier, watcher};
use kube::{Api, Config};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controllers::{Shared, after_failure, plugin, provision, remote_cluster};
use crate::events::Teller;
use crate::http::Health;
use crate::lease::Leadership;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::settings::{Identity, Settings};

/// Hidden verb of the command line by which components are compiled in a process of their own.
pub const COMPILE_VERB: &str = "compile-component";

/// Runs until `end` or until something cannot go on. A dead task ends the process with its reason.
///
/// # Errors
/// The hub's configuration is not usable; a port is taken; the Lease was lost; a task ended that must not.
pub async fn run(settings: Settings, end: CancellationToken) -> anyhow::Result<()> {
    settings.validate().map_err(anyhow::Error::msg)?;
    let metrics = Arc::new(Metrics::new());
    let health = Arc::new(Health::default());
    let mut serving = JoinSet::new();
    if let Some(address) = settings.listen {
        let listener = crate::http::bind(address)
            .await
            .with_context(|| format!("serving probes at {address}"))?;
        tracing::info!(address = %listener.local_addr().unwrap_or(address), "serves probes and metrics");
        serving.spawn(crate::http::serve(
            listener,
            health.clone(),
            metrics.clone(),
            end.clone(),
        ));
    }
    let config = hub_config(&settings).await?;
    let fence = WriteFence::closed();
    let connection = connect_config(config.clone(), &fence).context("connecting to the hub")?;
    let instance = match &settings.identity {
        Identity::Pod { namespace, name, uid } => InstanceIdentity::of_pod(&format!("{namespace}/{name}"), uid),
        Identity::Process => InstanceIdentity::of_process(),
    };
    let unfenced = connect_config(config.clone(), &WriteFence::open()).context("connecting to the hub")?;
    let mut leadership = Leadership::new(
        unfenced.client().clone(),
        &settings.namespace,
        instance.clone(),
        settings.lease,
        fence.clone(),
    );
    health.ready.store(true, Ordering::SeqCst);
    if !leadership.acquire(&end).await {
        return Ok(());
    }
    metrics.leading.set(1);
    let leading = end.child_token();
    let work = lead(
        &settings,
        Arc::clone(&metrics),
        config,
        connection,
        instance,
        fence.clone(),
        leading.clone(),
    );
    let outcome = tokio::select! {
        outcome = work => outcome,
        lost = async {
            let lost = leadership.keep(&end).await;
            if !lost {
                // The signal to end: the Lease is kept while what runs comes to its end.
                std::future::pending::<()>().await;
            }
        } => { let () = lost; Err(anyhow::anyhow!("the lease was lost")) }
    };
    leading.cancel();
    leadership.release().await;
    metrics.leading.set(0);
    outcome
}

async fn hub_config(settings: &Settings) -> anyhow::Result<Config> {
    match &settings.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("reading the hub's kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .context("understanding the hub's kubeconfig")
        }
        None => Config::incluster().context("there is no --kubeconfig, and this is not a Pod"),
    }
}

/// A store filled by a watch; the task that fills it ends only with the process.
fn watched<K>(
    api: Api<K>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    mut on_touch: impl FnMut(&K) + Send + 'static,
) -> Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let (reader, writer) = reflector::store();
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(writer);
    tasks.spawn(async move {
        let mut stream = std::pin::pin!(stream.touched_objects());
        while let Some(event) = stream.next().await {
            match event {
                Ok(object) => on_touch(&object),
                Err(error) => tracing::warn!(kind = %K::kind(&()), error = %chandlery::core::readiness::one_line(&error.to_string()), "a watch on the hub is interrupted"),
            }
        }
        bail!("the watch of {} has ended", K::kind(&()))
    });
    reader
}

/// What one queue is fed with.
type Feed<K> = (
    mpsc::UnboundedSender<ObjectRef<K>>,
    mpsc::UnboundedReceiver<ObjectRef<K>>,
);

async fn lead(
    settings: &Settings,
    metrics: Arc<Metrics>,
    config: Config,
    connection: Arc<chandlery::scope::Connection>,
    instance: InstanceIdentity,
    fence: WriteFence,
    end: CancellationToken,
) -> anyhow::Result<()> {
    let client = connection.client().clone();
    let mut tasks: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let (provision_feed, provision_queue): Feed<Provision> = mpsc::unbounded_channel();
    let (remote_feed, remote_queue): Feed<RemoteCluster> = mpsc::unbounded_channel();
    let (plugin_feed, plugin_queue): Feed<Plugin> = mpsc::unbounded_channel();

    let memory = Arc::new(Memory::default());
    let provisions = {
        let (feed, memory) = (provision_feed.clone(), memory.clone());
        watched(Api::<Provision>::all(client.clone()), &mut tasks, move |provision| {
            if provision.metadata.deletion_timestamp.is_some()
                && let Some(uid) = provision.metadata.uid.as_deref().and_then(|uid| uid.parse().ok())
            {
                memory.cancel(&uid);
            }
            let _ = feed.send(ObjectRef::from_obj(provision));
        })
    };
    let remotes = {
        let feed = remote_feed.clone();
        watched(Api::<RemoteCluster>::all(client.clone()), &mut tasks, move |remote| {
            let _ = feed.send(ObjectRef::from_obj(remote));
        })
    };
    let claims = {
        let feed = remote_feed.clone();
        watched(Api::<RemoteClaim>::all(client.clone()), &mut tasks, move |claim| {
            let namespace = claim.metadata.namespace.clone().unwrap_or_default();
            let _ = feed.send(ObjectRef::new(&claim.spec.remote.name).within(&namespace));
        })
    };
    let plugin_objects = {
        let feed = plugin_feed.clone();
        watched(Api::<Plugin>::all(client.clone()), &mut tasks, move |plugin| {
            let _ = feed.send(ObjectRef::from_obj(plugin));
        })
    };
    let namespaces = watched(
        Api::<PartialObjectMeta<Namespace>>::all(client.clone()),
        &mut tasks,
        |_| {},
    );

    let compiler = settings
        .compiler
        .clone()
        .map_or(Compiler::InProcess, |program| Compiler::Subprocess {
            program,
            arguments: vec![COMPILE_VERB.to_owned()],
        });
    let mut runtime = RuntimeConfig::new(&settings.cache_dir);
    runtime.compiler = compiler;
    let runtime = Arc::new(Runtime::new(runtime).context("setting up the WebAssembly runtime")?);
    let claim_store = ClaimStore::new(client.clone(), instance);
    let policy = Policy {
        allow_loopback: settings.allow_loopback,
        allow_proxy: settings.allow_proxy,
    };
    let hub = Hub::new(connection, config, remotes.clone(), claim_store.clone(), fence, policy);
    let (watches, woken) = Watches::new();
    let plugins = Arc::new(Plugins::default());
    let host = Host::new(HostOptions {
        runtime,
        plugins: plugins.clone(),
        hub,
        records: RecordStore::new(client.clone()),
        watches: watches.clone(),
        namespaces: namespaces.clone(),
    });
    let shared = Arc::new(Shared {
        host,
        client: client.clone(),
        plugins,
        watches,
        plugin_dir: settings.plugin_dir.clone(),
        memory,
        metrics,
        teller: Teller::new(client),
        provisions: provisions.clone(),
        claims: claims.clone(),
        nudge: provision_feed.clone(),
        nudge_remote: remote_feed.clone(),
        concurrent_steps: settings.concurrent_steps.into(),
    });
    tracing::debug!(limits = ?Limits::default(), "limits of a call where a Plugin sets none");

    let filled = async {
        provisions.wait_until_ready().await?;
        remotes.wait_until_ready().await?;
        claims.wait_until_ready().await?;
        plugin_objects.wait_until_ready().await?;
        namespaces.wait_until_ready().await
    };
    tokio::select! {
        filled = filled => filled.context("filling the caches")?,
        () = end.cancelled() => return Ok(()),
        Some(ended) = tasks.join_next() => return ended?.context("while filling the caches"),
    }
    if let Err(setback) = claim_store.strike_off_predecessors().await {
        tracing::warn!(%setback, "earlier processes of this home are still on their claims");
    }
    // Every plugin has its say before the first step: else what was done would for a moment seem to lack its plugin.
    let loads = Arc::new(plugin::Loads::default());
    futures::stream::iter(plugin_objects.state())
        .for_each_concurrent(4, |object| {
            let (shared, loads) = (shared.clone(), loads.clone());
            async move {
                if let Err(error) = plugin::reconcile(object, shared, loads).await {
                    tracing::warn!(%error, "a plugin could not be looked at");
                }
            }
        })
        .await;
    tracing::info!(
        provisions = provisions.len(),
        plugins = plugin_objects.len(),
        remotes = remotes.len(),
        "works"
    );

    let mut controllers: JoinSet<()> = JoinSet::new();
    controllers.spawn({
        let (shared, loads) = (shared.clone(), loads.clone());
        drive(
            plugin_objects,
            plugin_queue,
            4,
            shared.clone(),
            end.clone(),
            move |object, shared| plugin::reconcile(object, shared, loads.clone()),
        )
    });
    controllers.spawn({
        let looks = Arc::new(remote_cluster::Looks::default());
        drive(
            remotes,
            remote_queue,
            16,
            shared.clone(),
            end.clone(),
            move |object, shared| remote_cluster::reconcile(object, shared, claims.clone(), looks.clone()),
        )
    });
    controllers.spawn(drive(
        provisions.clone(),
        provision_queue,
        settings.concurrent_provisions,
        shared.clone(),
        end.clone(),
        provision::reconcile,
    ));
    tasks.spawn(wake(woken, shared.clone(), provision_feed));

    loop {
        tokio::select! {
            Some(ended) = tasks.join_next() => return ended.context("a task has panicked")?.context("a task has ended"),
            Some(ended) = controllers.join_next() => {
                ended.context("a controller has panicked")?;
                if !end.is_cancelled() {
                    bail!("a controller has ended");
                }
                if controllers.is_empty() {
                    return Ok(());
                }
            }
            () = async { end.cancelled().await; tokio::time::sleep(settings.grace).await } => {
                tracing::warn!("what still runs is ended");
                return Ok(());
            }
        }
    }
}

/// Hands woken steps to the queue of Provisions.
async fn wake(
    mut woken: mpsc::UnboundedReceiver<Subscriber>,
    shared: Arc<Shared>,
    feed: mpsc::UnboundedSender<ObjectRef<Provision>>,
) -> anyhow::Result<()> {
    while let Some(Subscriber {
        namespace,
        provision,
        uid,
        step,
    }) = woken.recv().await
    {
        shared.memory.wake(&uid, &step);
        let _ = feed.send(ObjectRef::new(&provision).within(&namespace));
        shared
            .metrics
            .provisions
            .set(i64::try_from(shared.provisions.len()).unwrap_or(i64::MAX));
    }
    bail!("the watches have ended")
}

/// One controller: takes names from its queue, one at a time per name, until `end`; then lets what runs come to its end.
async fn drive<K, F>(
    store: Store<K>,
    queue: mpsc::UnboundedReceiver<ObjectRef<K>>,
    concurrency: u16,
    shared: Arc<Shared>,
    end: CancellationToken,
    reconcile: impl Fn(Arc<K>, Arc<Shared>) -> F + Send + 'static,
) where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
    F: Future<Output = Result<kube::runtime::controller::Action, crate::controllers::Failed>> + Send + 'static,
{
    let names = futures::stream::unfold(queue, |mut queue| async move {
        queue.recv().await.map(|name| (name, queue))
    })
    .take_until(end.cancelled_owned())
    .map(Ok::<_, std::convert::Infallible>);
    applier(
        move |object, shared| Box::pin(reconcile(object, shared)),
        after_failure::<K>,
        shared,
        store,
        names,
        // Events of one object come in bursts; a few milliseconds make one look of them.
        ApplierConfig::default()
            .concurrency(concurrency)
            .debounce(Duration::from_millis(5)),
    )
    .map_err(|error| tracing::trace!(%error, "a look did not come to its end"))
    .for_each(|_| std::future::ready(()))
    .await;
}
