//! `chandlery demo`

mod follow;
mod story;
mod witness;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use chandlery::core::Digest;
use chandlery_daemon::{Identity, Settings};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::embedded::{Cluster, Embedded};
use crate::failure::Failure;
use follow::Follow;
use story::{Story, table};
use witness::Inventory;

/// The plugin `objects`, if it was built into this program.
const OBJECTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/objects.wasm"));
const REMOTE_CLUSTER: &str = include_str!("../../../../../examples/harbour/remote-cluster.yaml");
const PLUGIN: &str = include_str!("../../../../../examples/harbour/plugin.yaml");
const PROVISION: &str = include_str!("../../../../../examples/harbour/provision.yaml");

const NAMESPACE: &str = "team-a";
const SECRET: &str = "east-kubeconfig";
const COLLECTIONS: &str = "/apis/chandlery.dev/v1alpha1";

/// Watch a Provision come and go: a hub and a remote in memory, and the daemon, all in this process. Nothing is installed, and
/// nothing is left.
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Leave everything running until Ctrl-C once the Provision is there, and print the kubeconfigs.
    #[arg(long)]
    keep: bool,
    /// The plugin `objects`, where this program was built without it.
    #[arg(long)]
    component: Option<PathBuf>,
}

impl Demo {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let component = match &self.component {
            Some(path) => std::fs::read(path).with_context(|| format!("reading {}", path.display()))?,
            None if OBJECTS.is_empty() => {
                return Err(Failure::usage(
                    "this program was built without the plugin `objects`: name its file with --component",
                )
                .help(
                    "in a checkout, `cargo xtask demo` builds it and does so; `cargo xtask plugins` only builds it",
                ));
            }
            None => OBJECTS.to_vec(),
        };
        let directory = tempfile::tempdir().context("making a directory for the kubeconfigs")?;
        perform(directory.path(), &component, self.keep).await?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn perform(directory: &Path, component: &[u8], keep: bool) -> anyhow::Result<()> {
    let story = Story::begin();
    story.chapter("A hub and a remote in memory, and the daemon in the hub under its own ServiceAccount")?;
    let plugin_dir = directory.join("plugins");
    std::fs::create_dir_all(&plugin_dir)?;
    std::fs::write(plugin_dir.join("objects.wasm"), component)?;
    let embedded = Embedded::start(directory).await?;
    story.say(&format!("hub      {}", embedded.hub.url()))?;
    story.say(&format!("remote   {}", embedded.remote.url()))?;
    let end = CancellationToken::new();
    let settings = embedded.settings(Settings {
        kubeconfig: None,
        identity: Identity::Process,
        plugin_dir: Some(plugin_dir),
        cache_dir: directory.join("cache"),
        namespace: String::new(),
        lease: Duration::from_secs(15),
        listen: None,
        allow_loopback: true,
        allow_proxy: false,
        concurrent_provisions: 64,
        concurrent_steps: 8,
        compiler: std::env::current_exe().ok(),
        grace: Duration::from_secs(20),
    });
    let mut daemon = tokio::spawn(chandlery_daemon::run(settings, end.clone()));
    let stage = Stage {
        story,
        embedded,
        plugin: PLUGIN.replace("@DIGEST@", Digest::of(component).hex()),
    };
    tokio::select! {
        told = stage.tell(keep) => told?,
        ended = &mut daemon => {
            ended??;
            bail!("the daemon has ended by itself");
        }
    }
    end.cancel();
    daemon.await??;
    stage.story.say("daemon   has ended")
}

struct Stage {
    story: Story,
    embedded: Embedded,
    plugin: String,
}

impl Stage {
    async fn tell(&self, keep: bool) -> anyhow::Result<()> {
        let Embedded { hub, remote, .. } = &self.embedded;
        let story = &self.story;
        let (hub_before, remote_before) = (
            Inventory::take(&hub.client).await?,
            Inventory::take(&remote.client).await?,
        );
        story.say(&format!(
            "witness  has counted {} objects in the hub, {} in the remote",
            hub_before.len(),
            remote_before.len()
        ))?;
        let mut follow = self.provision().await?;
        self.views().await?;
        if keep {
            return self.keep().await;
        }
        story.chapter("Deleting the Provision: it is gone when the last object in the remote is seen gone")?;
        delete(hub, "provisions", Some(NAMESPACE), "harbour").await?;
        follow.until_gone(story).await?;
        judge(story, "remote", &remote_before, remote).await?;
        story.chapter("Deleting RemoteCluster, Plugin and namespace in the hub")?;
        delete(hub, "remoteclusters", Some(NAMESPACE), "east").await?;
        delete(hub, "plugins", None, "objects").await?;
        let namespaces: Api<Namespace> = Api::all(hub.client.clone());
        namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
        judge(story, "hub", &hub_before, hub).await
    }

    async fn provision(&self) -> anyhow::Result<Follow> {
        let Embedded { hub, remote, .. } = &self.embedded;
        self.story.chapter("Applying examples/harbour")?;
        let kubeconfig = std::fs::read_to_string(&remote.kubeconfig)?;
        let follow = Follow::start(&hub.client, NAMESPACE, "harbour");
        hub.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await?;
        hub.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE},
            "stringData": {"value": kubeconfig},
        }))
        .await?;
        for text in [REMOTE_CLUSTER, &self.plugin, PROVISION] {
            let object: Value = serde_saphyr::from_str(text).context("reading the example")?;
            let pointer = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            self.story
                .say(&format!("apply    {} {}", pointer("/kind"), pointer("/metadata/name")))?;
            hub.apply(&object).await?;
        }
        let mut follow = follow;
        follow.until_ready(&self.story).await?;
        Ok(follow)
    }

    async fn views(&self) -> anyhow::Result<()> {
        let Embedded { hub, remote, .. } = &self.embedded;
        let story = &self.story;
        story.chapter("The hub, as `kubectl get` shows it")?;
        for kind in ["provisions", "remoteclusters", "remoteclaims", "steprecords"] {
            let path = format!("{COLLECTIONS}/namespaces/{NAMESPACE}/{kind}");
            story.view(kind, &table(&hub.client, &path).await?)?;
        }
        story.view("plugins", &table(&hub.client, &format!("{COLLECTIONS}/plugins")).await?)?;
        story.chapter("The remote: what the steps put there")?;
        for (kind, path) in [
            ("berths", "/apis/harbour.example/v1/namespaces/harbour/berths"),
            ("configmaps", "/api/v1/namespaces/harbour/configmaps"),
        ] {
            story.view(kind, &table(&remote.client, path).await?)?;
        }
        Ok(())
    }

    async fn keep(&self) -> anyhow::Result<()> {
        let Embedded { hub, remote, .. } = &self.embedded;
        self.story
            .chapter("Kept running until Ctrl-C; then all of it is gone")?;
        for (name, cluster) in [("hub", hub), ("remote", remote)] {
            self.story
                .show(&format!("{name:<8} export KUBECONFIG={}", cluster.kubeconfig.display()))?;
        }
        tokio::signal::ctrl_c().await.context("waiting for Ctrl-C")
    }
}

async fn delete(cluster: &Cluster, kind: &str, namespace: Option<&str>, name: &str) -> anyhow::Result<()> {
    let place = namespace
        .map(|namespace| format!("/namespaces/{namespace}"))
        .unwrap_or_default();
    let request = http::Request::delete(format!("{COLLECTIONS}{place}/{kind}/{name}")).body(Vec::new())?;
    let _: Value = cluster
        .client
        .request(request)
        .await
        .with_context(|| format!("deleting {kind}/{name}"))?;
    Ok(())
}

/// Whether a cluster is as it was before; what controllers still do a moment after is waited for.
async fn judge(story: &Story, name: &str, before: &Inventory, cluster: &Cluster) -> anyhow::Result<()> {
    let left = before.until_again(&cluster.client).await?;
    ensure!(
        left.is_empty(),
        "the {name} is not as it was before:\n{}",
        left.join("\n")
    );
    story.say(&format!(
        "witness  the {name} is as it was: the same {} objects by UID and content, nothing left, nothing missing",
        before.len()
    ))
}
