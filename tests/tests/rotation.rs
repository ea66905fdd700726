//! A credential that is rotated while it is in use: hub and remotes are in memory, served as real ones are.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

use std::sync::Arc;

use chandlery_api::RemoteCluster;
use chandlery_core::cluster::{CallError, ClusterAccess as _, Facts};
use chandlery_core::grant::Grant;
use chandlery_core::memory::MemoryLedger;
use chandlery_core::record::{Receipt, Record, Target};
use chandlery_core::{Digest, ObjectRef};
use chandlery_scope::kubeconfig::Policy;
use chandlery_scope::{
    ClaimStore, ClusterScope, Connection, Hub, InstanceIdentity, ScopeOptions, Sight, WriteFence, connect_config,
};
use chandlery_simulator::{Clock, Server, Settings, Simulator, User, World};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{GroupVersionKind, ObjectMeta};
use kube::runtime::{reflector, watcher};
use kube::{Api, Client, Config, discovery};
use serde_json::{Value, json};

/// A cluster in memory behind a port, and its administrator.
struct Cluster {
    server: Server,
    config: Config,
    client: Client,
}

impl Cluster {
    async fn start(seed: u64) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        let server = Server::start(&Simulator::of(World::new(settings), Clock::Wall), 0)
            .await
            .unwrap();
        let kubeconfig: Kubeconfig = serde_saphyr::from_str(&server.kubeconfig("c", User::admin()).unwrap()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let client = Client::try_from(config.clone()).unwrap();
        Self { server, config, client }
    }

    async fn apply(&self, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let (resource, capabilities) = discovery::pinned_kind(&self.client, &kind).await.unwrap();
        let api: Api<DynamicObject> = match capabilities.scope {
            discovery::Scope::Namespaced => Api::namespaced_with(self.client.clone(), "default", &resource),
            discovery::Scope::Cluster => Api::all_with(self.client.clone(), &resource),
        };
        let parameters = PatchParams::apply("a-person").force();
        api.patch(
            object.metadata.name.as_deref().unwrap(),
            &parameters,
            &Patch::Apply(&object),
        )
        .await
        .unwrap();
    }

    /// A kubeconfig of an account that may do everything, until the account goes.
    async fn account(&self, name: &str) -> String {
        let metadata = json!({"name": name});
        self.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}))
            .await;
        self.apply(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata,
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]}))
            .await;
        self.apply(
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]}),
        )
        .await;
        self.token(name).await
    }

    /// A kubeconfig with a new token of an account.
    async fn token(&self, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::default_namespaced(self.client.clone());
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &Default::default())
            .await
            .unwrap();
        self.server
            .kubeconfig_with_token("c", &answer.status.unwrap().token.unwrap())
    }

    async fn dismiss(&self, account: &str) {
        let accounts: Api<ServiceAccount> = Api::default_namespaced(self.client.clone());
        accounts.delete(account, &Default::default()).await.unwrap();
    }

    async fn has(&self, name: &str) -> bool {
        let api: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::default_namespaced(self.client.clone());
        api.get_opt(name).await.unwrap().is_some()
    }
}

/// A hub with one RemoteCluster, and what a daemon makes of both.
struct Bench {
    hub_cluster: Cluster,
    hub: Arc<Hub>,
    remote: RemoteCluster,
}

impl Bench {
    async fn start(kubeconfig: &str) -> Self {
        let hub_cluster = Cluster::start(1).await;
        let mut remote = RemoteCluster::new(
            "east",
            serde_json::from_value(json!({"source": {"secretRef": {"name": "east"}}})).unwrap(),
        );
        remote.metadata.namespace = Some("default".into());
        remote.metadata.uid = Some("uid-of-east".into());
        let (remotes, mut writer) = reflector::store();
        writer.apply_watcher_event(&watcher::Event::Apply(remote.clone()));
        let fence = WriteFence::open();
        let connection = connect_config(hub_cluster.config.clone(), &fence).unwrap();
        let policy = Policy {
            allow_loopback: true,
            ..Policy::default()
        };
        let claims = ClaimStore::new(hub_cluster.client.clone(), InstanceIdentity::of_process());
        let hub = Hub::new(connection, hub_cluster.config.clone(), remotes, claims, fence, policy);
        let bench = Self {
            hub_cluster,
            hub,
            remote,
        };
        bench.keep(kubeconfig).await;
        bench
    }

    async fn keep(&self, kubeconfig: &str) {
        let secrets: Api<Secret> = Api::default_namespaced(self.hub_cluster.client.clone());
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some("east".into()),
                ..ObjectMeta::default()
            },
            string_data: Some([("value".to_owned(), kubeconfig.to_owned())].into()),
            ..Secret::default()
        };
        let parameters = PatchParams::apply("a-person").force();
        secrets
            .patch("east", &parameters, &Patch::Apply(&secret))
            .await
            .unwrap();
    }

    async fn scope(&self) -> ClusterScope {
        let (connection, sight) = self.hub.look(&self.remote).await.unwrap();
        scope(connection, &sight)
    }
}

/// As a call of a step gets it.
fn scope(connection: Arc<Connection>, sight: &Sight) -> ClusterScope {
    let receipt = Receipt {
        plugin: "p".into(),
        digest: Digest::of(b"p"),
        spec: json!({}),
        target: Target::Remote {
            name: "east".into(),
            uid: "uid-of-east".parse().unwrap(),
        },
        cluster_identity: String::new(),
        background_deletion: false,
        needs: vec![],
    };
    let options = ScopeOptions {
        grant: Grant::everything(),
        field_manager: "chandlery/uid/step".into(),
        owner_mark: "uid/step".into(),
        sealed_secrets: vec![],
    };
    let facts = Facts {
        name: "east".into(),
        identity: sight.identity.clone(),
        host: sight.host.clone(),
        port: sight.port,
        version: sight.version.clone(),
        path: sight.path.clone(),
    };
    let ledger = Arc::new(MemoryLedger::new(Record::new("step".parse().unwrap(), receipt)));
    ClusterScope::new(connection, facts, ledger, options)
}

async fn apply(scope: &ClusterScope, name: &str) -> Result<(), CallError> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    scope.apply(vec![object], false).await.remove(0)
}

#[tokio::test]
async fn token_rotation_mid_provision() {
    let east = Cluster::start(2).await;
    let bench = Bench::start(&east.account("first").await).await;
    let scope = bench.scope().await;
    apply(&scope, "before").await.unwrap();
    bench.keep(&east.account("second").await).await;
    east.dismiss("first").await;
    // The same call goes on: reads and writes, and many at once ask for one new credential.
    let names: Vec<String> = (0..20).map(|number| format!("after-{number}")).collect();
    let all = futures::future::join_all(names.iter().map(|name| apply(&scope, name))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    let read = scope
        .get(vec![ObjectRef::new("v1", "ConfigMap", Some("default"), "before")])
        .await
        .remove(0);
    assert!(read.unwrap().is_some());
    assert!(east.has("after-19").await);
}

#[tokio::test]
async fn a_credential_that_is_refused_and_not_rotated_is_refused() {
    let east = Cluster::start(2).await;
    let bench = Bench::start(&east.account("first").await).await;
    let scope = bench.scope().await;
    east.dismiss("first").await;
    assert!(apply(&scope, "c").await.is_err());
    // It comes later, and is taken up by the next look.
    bench.keep(&east.account("second").await).await;
    apply(&bench.scope().await, "c").await.unwrap();
}

#[tokio::test]
async fn a_new_credential_for_another_place_is_not_taken_up_in_the_middle_of_a_call() {
    let (east, west) = (Cluster::start(2).await, Cluster::start(3).await);
    let bench = Bench::start(&east.account("first").await).await;
    let scope = bench.scope().await;
    bench.keep(&west.account("theirs").await).await;
    east.dismiss("first").await;
    assert!(apply(&scope, "c").await.is_err());
    assert!(!west.has("c").await && !east.has("c").await);
}

/// Open files of this process, sockets among them.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn a_thousand_rotations_leave_no_socket_open() {
    let east = Cluster::start(2).await;
    let bench = Bench::start(&east.account("first").await).await;
    let mut seen = std::collections::BTreeSet::new();
    let mut most = 0;
    for _ in 0..1_000 {
        bench.keep(&east.token("first").await).await;
        let (_, sight) = bench.hub.look(&bench.remote).await.unwrap();
        seen.insert(sight.credential_hash);
        most = most.max(open_files());
    }
    assert!(seen.len() > 900, "{} credentials", seen.len());
    // Both ends of each are in this process; what is given up is closed as soon as its task runs.
    assert!(most < open_files() + 100 && most < 200, "{most} open files");
}
