//! A program that outfits clusters by itself: steps in Rust and a plugin, put together by combinators, for an owner that is
//! no Provision. `cargo run -p embedding` needs nothing: hub and remote are in memory.

#![allow(clippy::print_stdout, reason = "a program's answers go to standard output")]

mod clusters;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use chandlery::core::Setback;
use chandlery::core::cluster::ClusterAccess;
use chandlery::core::grant::{Grant, GrantRule};
use chandlery::core::task::{Done, Outcome, Request};
use chandlery::engine::{Pass, Provisioner, Tree, concurrent, remote, serial, step, when};
use chandlery::runtime::{Config as RuntimeConfig, Runtime};
use chandlery::scope::kubeconfig::Policy;
use chandlery::scope::{Owner, OwnerKind};
use chandlery::{Component, Outfitter, OutfitterOptions};
use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;
use serde_json::{Map, Value, json};

use crate::clusters::Clusters;

/// Outfits a cluster in memory, changes its mind, and takes everything away again.
#[derive(Parser)]
struct Arguments {
    /// A component of the plugin `objects`: one step of the tree. Without it the tree has only steps in Rust.
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,
}

/// A namespace and what is in it.
struct Space {
    name: &'static str,
    objects: Vec<Value>,
}

#[async_trait]
impl Provisioner for Space {
    fn name(&self) -> &str {
        self.name
    }

    fn settings(&self) -> Value {
        json!({"objects": self.objects})
    }

    /// What is applied is taken away by the host, in reverse order, and seen gone: there is no `deprovision` to write.
    async fn provision(&self, scope: &Arc<dyn ClusterAccess>, task: &Request) -> Result<Outcome, Setback> {
        let objects = task
            .spec
            .get("objects")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let applied = objects.len();
        for result in scope.apply(objects, false).await {
            result.map_err(chandlery::core::cluster::CallError::into_setback)?;
        }
        Ok(Outcome::Done(Done {
            outputs: Some(json!({"applied": applied})),
            ..Done::default()
        }))
    }
}

fn config(name: &str, word: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "harbour", "name": name}, "data": {"word": word}})
}

/// Everything this program ever makes, for these inputs.
async fn tree(objects: Option<&PathBuf>, runtime: &Arc<Runtime>) -> Result<Tree> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "harbour"}});
    let mut berths = vec![
        step(Space {
            name: "east-berth",
            objects: vec![config("east", "rope")],
        }),
        step(Space {
            name: "west-berth",
            objects: vec![config("west", "canvas")],
        }),
    ];
    if let Some(file) = objects {
        let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let plugin = runtime.load(&chandlery::core::Digest::of(&bytes), &bytes).await?;
        let settings = json!({"objects": [config("by-a-plugin", "tar")]});
        let configs: GrantRule =
            serde_json::from_value(json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}))?;
        let component = Component::new(runtime.clone(), plugin, "by-a-plugin", settings).await?;
        berths.push(step(component.granted(Grant::new(vec![configs]), Grant::default())));
    }
    Ok(remote("quay").provision_on(serial([
        step(Space {
            name: "space",
            objects: vec![namespace],
        }),
        concurrent(berths),
        when(
            "inputs.lit",
            step(Space {
                name: "lighthouse",
                objects: vec![config("lighthouse", "oil")],
            }),
        ),
    ])))
}

fn tell(what: &str, pass: &Pass) {
    println!("{what}");
    for row in &pass.rows {
        println!("  {:<12} on {:<5} {:?}", row.step.to_string(), row.on, row.state);
    }
}

fn inputs(lit: bool) -> Map<String, Value> {
    Map::from_iter([("lit".to_owned(), json!(lit))])
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let clusters = Clusters::start().await?;
    let cache = tempfile::tempdir()?;
    let runtime = Arc::new(Runtime::new(RuntimeConfig::new(cache.path()))?);

    let owner = Owner {
        kind: OwnerKind::Foreign(ApiResource::erase::<ConfigMap>(&())),
        namespace: "default".into(),
        name: "app".into(),
        uid: clusters.owner().await?,
    };
    let options = OutfitterOptions {
        policy: Policy {
            allow_loopback: true,
            ..Policy::default()
        },
        ..OutfitterOptions::default()
    };
    let outfitter = Outfitter::connect(clusters.hub_config.clone(), options).await?;
    let tree = tree(arguments.objects.as_ref(), &runtime).await?;

    tell("lit:", &outfitter.bring(&owner, &tree, inputs(true)).await?);
    println!("  in the quay: {}", clusters.words().await?);
    tell("dark:", &outfitter.bring(&owner, &tree, inputs(false)).await?);
    println!("  in the quay: {}", clusters.words().await?);
    outfitter.take_away(&owner, &tree.provisioners()).await?;
    let left = clusters.left().await?;
    ensure!(left.is_empty(), "left behind: {}", left.join(", "));
    println!("taken away: nothing is left, on the hub neither");
    Ok(())
}
