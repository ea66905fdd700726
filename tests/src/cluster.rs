//! A cluster as its administrator sees it: the judge of what the code under test did.

use std::sync::LazyLock;
use std::time::Duration;

use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;
use xtask::control_plane::ControlPlane;
use xtask::inventory::Inventory;

use crate::audit::Audit;

/// Tests block; the clients they block on run here.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    // One provider for all of TLS; whoever comes second finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
});

/// A control plane and its administrator.
pub struct Cluster {
    /// The control plane itself.
    pub plane: ControlPlane,
    /// User name of the credential that daemons are given for it, in its audit log.
    pub guest: String,
    client: Client,
}

/// Where an object is.
#[derive(Clone, Debug)]
pub struct At {
    kind: GroupVersionKind,
    namespace: Option<String>,
    name: String,
}

/// `at("apps/v1", "Deployment", "namespace/name")`; without namespace for objects of the cluster.
pub fn at(api_version: &str, kind: &str, name: &str) -> At {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (namespace, name) = name
        .split_once('/')
        .map_or((None, name), |(namespace, name)| (Some(namespace), name));
    At {
        kind: GroupVersionKind::gvk(group, version, kind),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

impl At {
    /// Where this document is to be.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = match text("/metadata/namespace") {
            "" => text("/metadata/name").to_owned(),
            namespace => format!("{namespace}/{}", text("/metadata/name")),
        };
        at(text("/apiVersion"), text("/kind"), &name)
    }
}

impl Cluster {
    /// Starts one with an audit log.
    pub fn start(name: &str) -> Self {
        let plane = ControlPlane::builder().name(name).audit_log(true).start().unwrap();
        let client = RUNTIME.block_on(async {
            let kubeconfig = Kubeconfig::from_yaml(plane.kubeconfig_yaml()).unwrap();
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            config.read_timeout = Some(Duration::from_secs(30));
            Client::try_from(config).unwrap()
        });
        Self {
            plane,
            guest: format!("chandlery-on-{name}"),
            client,
        }
    }

    /// A kubeconfig for daemons: may do everything, under a name of its own.
    pub fn guest_kubeconfig(&self) -> String {
        self.plane.kubeconfig_for(&self.guest, &["system:masters"]).unwrap()
    }

    /// Its audit log.
    pub fn audit(&self) -> Audit {
        Audit::of(&self.plane)
    }

    /// Everything in it, as kubectl lists it.
    pub fn inventory(&self) -> Inventory {
        Inventory::take(&self.plane.client()).unwrap()
    }

    fn api(&self, at: &At) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&at.kind);
        match &at.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// The object, if it is there.
    pub fn get(&self, at: &At) -> Option<Value> {
        let found = RUNTIME.block_on(self.api(at).get_opt(&at.name)).unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// All objects of a kind in a namespace.
    pub fn list(&self, api_version: &str, kind: &str, namespace: &str) -> Vec<Value> {
        let at = at(api_version, kind, &format!("{namespace}/"));
        let found = RUNTIME.block_on(self.api(&at).list(&ListParams::default())).unwrap();
        found
            .items
            .into_iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    /// Brings an object to this content by a server-side apply that takes over what is in its way.
    pub fn apply(&self, object: &Value) -> Value {
        self.try_apply(object).unwrap()
    }

    /// The same where a refusal is looked for.
    ///
    /// # Errors
    /// What the server answers.
    pub fn try_apply(&self, object: &Value) -> Result<Value, kube::Error> {
        let at = At::of(object);
        let parameters = PatchParams::apply("a-person").force();
        let stored = RUNTIME.block_on(self.api(&at).patch(&at.name, &parameters, &Patch::Apply(object)))?;
        Ok(serde_json::to_value(stored).unwrap())
    }

    /// Creates an object.
    ///
    /// # Errors
    /// What the server answers.
    pub fn create(&self, object: &Value) -> Result<Value, kube::Error> {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let at = At::of(&serde_json::to_value(&object).unwrap());
        let stored = RUNTIME.block_on(self.api(&at).create(&PostParams::default(), &object))?;
        Ok(serde_json::to_value(stored).unwrap())
    }

    /// Merges a patch into an object.
    pub fn merge(&self, at: &At, patch: &Value) {
        RUNTIME
            .block_on(
                self.api(at)
                    .patch(&at.name, &PatchParams::default(), &Patch::Merge(patch)),
            )
            .unwrap();
    }

    /// Merges a patch into the status of an object.
    pub fn merge_status(&self, at: &At, patch: &Value) {
        let (api, parameters) = (self.api(at), PatchParams::default());
        RUNTIME
            .block_on(api.patch_status(&at.name, &parameters, &Patch::Merge(patch)))
            .unwrap();
    }

    /// Asks for the deletion of an object that may be gone already.
    pub fn delete(&self, at: &At) {
        match RUNTIME.block_on(self.api(at).delete(&at.name, &DeleteParams::background())) {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("deleting {at:?}: {error}"),
        }
    }
}
