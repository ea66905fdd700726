//! The hub as this process reaches it: remotes by name, their connections by credential, tenants by short-lived token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use chandlery_api::RemoteCluster;
use chandlery_core::{Class, Setback, Uid};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::runtime::reflector::{ObjectRef as StoreRef, Store};
use kube::{Api, Config};

use crate::claims::ClaimStore;
use crate::connection::{Connection, connect_config};
use crate::fence::WriteFence;
use crate::kubeconfig::Policy;
use crate::look::{Known, identity_of};

/// Life of a ServiceAccount's token for steps on the hub; the shortest the API gives.
const TOKEN_SECONDS: i64 = 600;
/// When a token is replaced: well before its end, so that no call outlives it.
const TOKEN_USE: Duration = Duration::from_secs(400);

/// The hub as this process reaches it, and the connections it keeps.
pub struct Hub {
    /// Connection with the daemon's own credential.
    pub connection: Arc<Connection>,
    /// The configuration it was made of; a tenant's connection takes address and authority from it.
    pub config: Config,
    /// All RemoteClusters, by a watch.
    pub remotes: Store<RemoteCluster>,
    /// Claims.
    pub claims: Arc<ClaimStore>,
    /// What all clients of this process stand behind.
    pub fence: WriteFence,
    /// What kubeconfigs may say beyond the default.
    pub policy: Policy,
    pub(crate) own: Weak<Hub>,
    pub(crate) known: Mutex<HashMap<Uid, Known>>,
    tenants: Mutex<HashMap<(String, String), Tenant>>,
    identity: tokio::sync::OnceCell<String>,
}

#[derive(Clone)]
struct Tenant {
    since: Instant,
    connection: Arc<Connection>,
}

impl Hub {
    /// The hub of this process.
    pub fn new(
        connection: Arc<Connection>,
        config: Config,
        remotes: Store<RemoteCluster>,
        claims: Arc<ClaimStore>,
        fence: WriteFence,
        policy: Policy,
    ) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            connection,
            config,
            remotes,
            claims,
            fence,
            policy,
            known: Mutex::default(),
            tenants: Mutex::default(),
            identity: tokio::sync::OnceCell::new(),
        })
    }

    /// A RemoteCluster from memory.
    pub fn remote(&self, namespace: &str, name: &str) -> Option<Arc<RemoteCluster>> {
        self.remotes.get(&StoreRef::new(name).within(namespace))
    }

    /// Drops what is kept of a remote that is gone.
    pub fn forget(&self, uid: &Uid) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    pub(crate) async fn own_identity(&self) -> Result<String, Setback> {
        self.identity
            .get_or_try_init(|| async { identity_of(&self.connection).await })
            .await
            .cloned()
            .map_err(|error| Setback::new(Class::Retry, "HubUnreachable", error.to_string()))
    }

    /// Secrets that RemoteClusters refer to and that are in the cluster of this identity: no plugin reads them. One of which
    /// is not known yet where it is counts everywhere.
    ///
    /// # Errors
    /// If the hub does not answer.
    pub(crate) async fn sealed_in(&self, identity: &str) -> Result<Vec<(String, String)>, Setback> {
        let own = self.own_identity().await?;
        let remotes = self.remotes.state();
        let sealed = remotes.iter().filter_map(|remote| {
            let (spec, namespace) = (&remote.spec, remote.metadata.namespace.clone().unwrap_or_default());
            let (place, namespace) = match &spec.via {
                None => (Some(own.clone()), namespace),
                Some(via) => {
                    let outer = self.remote(&namespace, via);
                    let place = outer.and_then(|outer| outer.status.clone()?.identity);
                    (place, spec.source.secret_ref.namespace.clone()?)
                }
            };
            let is_there = place.is_none_or(|place| place == identity);
            is_there.then(|| (namespace, spec.source.secret_ref.name.clone()))
        });
        Ok(sealed.collect())
    }

    /// A connection to the hub as a ServiceAccount, by a token of ten minutes.
    pub(crate) async fn tenant(
        &self,
        namespace: &str,
        service_account: &str,
    ) -> Result<Option<Arc<Connection>>, Setback> {
        let key = (namespace.to_owned(), service_account.to_owned());
        let known = self
            .tenants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if let Some(tenant) = known
            && tenant.since.elapsed() < TOKEN_USE
        {
            return Ok(Some(tenant.connection));
        }
        let api: Api<ServiceAccount> = Api::namespaced(self.connection.client(), namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let since = Instant::now();
        let answer =
            crate::records::timed_raw(api.create_token_request(service_account, &PostParams::default(), &request))
                .await;
        let token = match answer {
            Ok(answer) => answer.status.and_then(|status| status.token).unwrap_or_default(),
            Err(crate::records::Failed::Api(404)) => return Ok(None),
            Err(failed) => {
                return Err(failed.into_setback(&format!("the token of ServiceAccount {namespace}/{service_account}")));
            }
        };
        let mut config = Config::new(self.config.cluster_url.clone());
        config.root_cert = self.config.root_cert.clone();
        config.root_cert_file = self.config.root_cert_file.clone();
        config.tls_server_name = self.config.tls_server_name.clone();
        config.auth_info.token = Some(token.into());
        let connection = connect_config(config, &self.fence)
            .map_err(|error| Setback::new(Class::Retry, "HubUnreachable", error.to_string()))?;
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).insert(
            key,
            Tenant {
                since,
                connection: connection.clone(),
            },
        );
        Ok(Some(connection))
    }
}
