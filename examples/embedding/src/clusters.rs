//! Hub and remote in memory, with what the program finds in the hub: a RemoteCluster `quay`, and its own object.

use anyhow::{Context as _, Result};
use chandlery::core::Uid;
use chandlery_simulator::{Clock, Server, Settings, Simulator, User, World};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, ResourceExt as _, discovery};
use serde_json::{Value, json};

/// Both, until they are dropped.
pub(crate) struct Clusters {
    pub(crate) hub_config: Config,
    hub: Client,
    quay: Client,
    _servers: [Server; 2],
}

async fn start(seed: u64) -> Result<(Server, Config, String)> {
    let settings = Settings {
        seed,
        ..Settings::default()
    };
    let server = Server::start(&Simulator::of(World::new(settings), Clock::Wall), 0).await?;
    let text = server.kubeconfig("cluster", User::admin())?;
    let kubeconfig: Kubeconfig = serde_json::from_str(&text)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok((server, config, text))
}

async fn apply(client: &Client, object: Value) -> Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let kind = GroupVersionKind::try_from(object.types.as_ref().context("an object without kind")?)?;
    let (resource, capabilities) = discovery::pinned_kind(client, &kind).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        discovery::Scope::Namespaced => Api::namespaced_with(client.clone(), "default", &resource),
        discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
    };
    let parameters = PatchParams::apply("example").force();
    Ok(api
        .patch(&object.name_any(), &parameters, &Patch::Apply(&object))
        .await?)
}

impl Clusters {
    pub(crate) async fn start() -> Result<Self> {
        let (hub_server, hub_config, _) = start(1).await?;
        let (quay_server, quay_config, kubeconfig) = start(2).await?;
        let hub = Client::try_from(hub_config.clone())?;
        for definition in chandlery::api::crds() {
            apply(&hub, serde_json::to_value(definition)?).await?;
        }
        apply(
            &hub,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "quay"}, "stringData": {"value": kubeconfig}}),
        )
        .await?;
        apply(
            &hub,
            json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "RemoteCluster", "metadata": {"name": "quay"},
                "spec": {"source": {"secretRef": {"name": "quay"}}}}),
        )
        .await?;
        Ok(Self {
            hub_config,
            hub,
            quay: Client::try_from(quay_config)?,
            _servers: [hub_server, quay_server],
        })
    }

    /// The program's own object, whose steps they are.
    pub(crate) async fn owner(&self) -> Result<Uid> {
        let object = apply(
            &self.hub,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}}),
        )
        .await?;
        Ok(object.metadata.uid.context("an object without UID")?.parse()?)
    }

    /// Names of the ConfigMaps in the quay.
    pub(crate) async fn words(&self) -> Result<String> {
        let configs: Api<ConfigMap> = Api::namespaced(self.quay.clone(), "harbour");
        let mut names: Vec<String> = configs
            .list(&Default::default())
            .await?
            .iter()
            .map(|c| c.name_any())
            .collect();
        names.retain(|name| name != "kube-root-ca.crt");
        Ok(names.join(", "))
    }

    /// What is left of the program's work anywhere.
    pub(crate) async fn left(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let spaces: Api<Namespace> = Api::all(self.quay.clone());
        if spaces.get_opt("harbour").await?.is_some() {
            left.push("the namespace harbour".to_owned());
        }
        for kind in ["StepRecord", "RemoteClaim"] {
            let kind = GroupVersionKind::gvk("chandlery.dev", "v1alpha1", kind);
            let (resource, _) = discovery::pinned_kind(&self.hub, &kind).await?;
            let api: Api<DynamicObject> = Api::all_with(self.hub.clone(), &resource);
            let names = api.list(&Default::default()).await?;
            left.extend(
                names
                    .iter()
                    .map(|object| format!("{} {}", kind.kind, object.name_any())),
            );
        }
        Ok(left)
    }
}
