//! A hub and a remote within this process, each a cluster in memory behind a loopback port, and a daemon on them.
//!
//! The daemon is not told: it gets the kubeconfig of its own ServiceAccount and rights, as in a real hub.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use chandlery_daemon::{Identity, ManifestOptions, Settings, manifests};
use chandlery_simulator::{Clock, Server, Settings as WorldSettings, Simulator, User, World};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};
use serde_json::Value;

/// Who applies what comes with the program.
const MANAGER: &str = "chandlery-embedded";
/// A day, which is longer than anybody looks at a cluster in memory.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// One cluster in memory.
pub(crate) struct Cluster {
    server: Server,
    /// As its administrator.
    pub(crate) client: Client,
    /// Kubeconfig of its administrator.
    pub(crate) kubeconfig: PathBuf,
}

/// Hub and remote. They end with this value.
pub(crate) struct Embedded {
    pub(crate) hub: Cluster,
    pub(crate) remote: Cluster,
    daemon_kubeconfig: PathBuf,
    namespace: String,
}

impl Embedded {
    /// Starts both, and puts into the hub what a daemon needs. Kubeconfigs go into the directory.
    pub(crate) async fn start(directory: &Path) -> anyhow::Result<Self> {
        let hub = Cluster::start("hub", directory, 1).await?;
        let remote = Cluster::start("remote", directory, 2).await?;
        let options = ManifestOptions::default();
        for definition in chandlery_api::crds() {
            hub.apply(&serde_json::to_value(definition)?).await?;
        }
        // There is no node that could run a Pod: this process is the daemon.
        let needed = |object: &&Value| object.get("kind").and_then(Value::as_str) != Some("Deployment");
        for object in manifests(&options).iter().filter(needed) {
            hub.apply(object).await?;
        }
        let token = hub.token(&options.namespace, ACCOUNT).await?;
        let daemon_kubeconfig = directory.join("daemon.kubeconfig");
        write_private(&daemon_kubeconfig, &hub.server.kubeconfig_with_token("hub", &token))?;
        Ok(Self {
            hub,
            remote,
            daemon_kubeconfig,
            namespace: options.namespace,
        })
    }

    /// These settings for a daemon on this hub.
    pub(crate) fn settings(&self, settings: Settings) -> Settings {
        Settings {
            kubeconfig: Some(self.daemon_kubeconfig.clone()),
            identity: Identity::Process,
            namespace: self.namespace.clone(),
            allow_loopback: true,
            ..settings
        }
    }
}

/// Name of the ServiceAccount in what `chandlery manifests` prints.
const ACCOUNT: &str = "chandlery";

impl Cluster {
    async fn start(name: &str, directory: &Path, seed: u64) -> anyhow::Result<Self> {
        let settings = WorldSettings {
            seed,
            start: jiff::Timestamp::now(),
            ..WorldSettings::default()
        };
        let simulator = Simulator::of(World::new(settings), Clock::Wall);
        let server = Server::start(&simulator, 0).await?;
        let text = server.kubeconfig(name, User::admin())?;
        let kubeconfig = directory.join(format!("{name}.kubeconfig"));
        write_private(&kubeconfig, &text)?;
        let parsed: Kubeconfig = serde_json::from_str(&text)?;
        let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
        Ok(Self {
            server,
            client: Client::try_from(config)?,
            kubeconfig,
        })
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.server.address())
    }

    /// Server-side apply of an object of any kind that is served.
    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let types = object.types.clone().unwrap_or_default();
        let kind = GroupVersionKind::try_from(&types)?;
        let doing = || format!("applying {} {name}", kind.kind);
        let (resource, capabilities) = kube::discovery::pinned_kind(&self.client, &kind)
            .await
            .with_context(doing)?;
        let api: Api<DynamicObject> = match (&object.metadata.namespace, capabilities.scope) {
            (Some(namespace), kube::discovery::Scope::Namespaced) => {
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
            _ => Api::all_with(self.client.clone(), &resource),
        };
        let parameters = PatchParams::apply(MANAGER).force();
        api.patch(&name, &parameters, &Patch::Apply(&object))
            .await
            .with_context(doing)?;
        Ok(())
    }

    async fn token(&self, namespace: &str, account: &str) -> anyhow::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await
            .context("asking for a token of the daemon's ServiceAccount")?;
        answer
            .status
            .and_then(|status| status.token)
            .context("the hub gave no token")
    }
}

/// A file with a credential in it: for its owner only.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("writing {}", path.display()))
}
