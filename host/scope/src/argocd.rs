//! Argo CD's declarative cluster Secret: what Argo CD reads of a cluster it may deploy to.
//!
//! The Secret is named from the RemoteCluster's UID and bears our label with it. One of that name without the label is
//! somebody else's, and so is every other Secret for the same server: none of them is adopted, changed or deleted.

use std::collections::BTreeMap;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chandlery_api::RemoteCluster;
use chandlery_core::claim::Registration;
use chandlery_core::{Class, Setback, Uid};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::claims::REMOTE_LABEL;
use crate::desk::{OnHub, Registrar};
use crate::kubeconfig::{Credential, RemoteEndpoint};
use crate::records::{Failed, timed_raw};

/// By this label and value Argo CD finds its clusters.
const TYPE_LABEL: (&str, &str) = ("argocd.argoproj.io/secret-type", "cluster");

/// The registration of one remote with one Argo CD.
pub struct ArgoCd {
    api: Api<Secret>,
    namespace: String,
    name: String,
    remote: Uid,
    /// What it is to say; nothing where it is only to be deleted.
    wanted: Option<BTreeMap<String, String>>,
}

impl ArgoCd {
    /// The registration of a remote, where it is only looked at or deleted. None for one that is not to be registered, or not
    /// by us: who only uses a remote never registers it.
    pub fn of(client: Client, remote: &RemoteCluster) -> Option<Self> {
        let spec = &remote.spec;
        let argocd = &spec.registration.as_ref().filter(|_| spec.controller)?.argocd;
        let name = argocd.name.clone().or_else(|| remote.metadata.name.clone());
        let remote = remote.metadata.uid.as_deref()?.parse().ok()?;
        Some(Self::new(client, &argocd.namespace, remote, &name.unwrap_or_default()))
    }

    /// The registration in Argo CD's namespace; `name` is the cluster's as Argo CD shows it.
    pub fn new(client: Client, namespace: &str, remote: Uid, name: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            remote,
            wanted: None,
        }
    }

    /// The same, to say where the cluster is.
    #[must_use]
    pub fn saying(self, endpoint: &RemoteEndpoint) -> Self {
        let wanted = [
            ("name", self.name.clone()),
            ("server", endpoint.server.as_str().trim_end_matches('/').to_owned()),
            ("config", config(endpoint).to_string()),
        ];
        Self {
            wanted: Some(wanted.map(|(key, value)| (key.to_owned(), value)).into()),
            ..self
        }
    }

    /// That there is one of its name that is not ours.
    pub fn is_foreign(&self) -> Setback {
        let message = format!(
            "Secret {} is not Chandlery's, and has the registration's name",
            self.path()
        );
        Setback::new(Class::UserFix, "RegistrationForeign", message)
    }

    /// `namespace/name` of the Secret.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.secret_name())
    }

    fn secret_name(&self) -> String {
        format!("chandlery-{}", self.remote)
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let (key, value) = TYPE_LABEL;
        [
            (key.to_owned(), value.to_owned()),
            (REMOTE_LABEL.to_owned(), self.remote.to_string()),
        ]
        .into()
    }

    fn data(&self) -> BTreeMap<String, ByteString> {
        self.wanted
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), ByteString(value.clone().into_bytes())))
            .collect()
    }

    fn is_ours(&self, secret: &Secret) -> bool {
        let label = secret
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(REMOTE_LABEL));
        label.map(String::as_str) == Some(self.remote.as_str())
    }

    /// Whether it says what it is to say; what others added (a project, shards) is theirs.
    fn is_current(&self, secret: &Secret) -> bool {
        let has_labels = self
            .labels()
            .iter()
            .all(|(key, value)| secret.metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value));
        let has_data = self
            .data()
            .iter()
            .all(|(key, value)| secret.data.as_ref().and_then(|data| data.get(key)) == Some(value));
        has_labels && has_data
    }

    fn setback(&self, failed: Failed) -> Setback {
        let what = format!("the registration Secret {}", self.path());
        match failed {
            Failed::Refused(403, message) => Setback::new(
                Class::UserFix,
                "RegistrationForbidden",
                format!(
                    "{what}: {message}; a Role in namespace {} must let the daemon get, create, patch and delete secrets there",
                    self.namespace
                ),
            ),
            failed => failed.into_setback(&what),
        }
    }
}

/// What Argo CD's `config` says of how to be let in.
fn config(endpoint: &RemoteEndpoint) -> Value {
    let mut tls = json!({"insecure": false});
    let mut config = json!({});
    let mut set = |key: &str, value: String| {
        if let Some(tls) = tls.as_object_mut() {
            tls.insert(key.to_owned(), value.into());
        }
    };
    if let Some(authority) = &endpoint.certificate_authority {
        set("caData", STANDARD.encode(authority));
    }
    if let Some(name) = &endpoint.tls_server_name {
        set("serverName", name.clone());
    }
    match &endpoint.credential {
        Credential::Token(token) => config = json!({"bearerToken": token}),
        Credential::Certificate { certificate, key } => {
            set("certData", STANDARD.encode(certificate));
            set("keyData", STANDARD.encode(key));
        }
    }
    if let Some(config) = config.as_object_mut() {
        if let Some(proxy) = &endpoint.proxy {
            config.insert("proxyUrl".to_owned(), proxy.as_str().into());
        }
        config.insert("tlsClientConfig".to_owned(), tls);
    }
    config
}

#[async_trait]
impl Registrar for ArgoCd {
    async fn look(&self) -> Result<Registration<OnHub>, Setback> {
        let found = timed_raw(self.api.get_opt(&self.secret_name())).await;
        Ok(match found.map_err(|failed| self.setback(failed))? {
            None => Registration::Absent,
            Some(secret) if self.is_ours(&secret) => Registration::Ours {
                current: self.is_current(&secret),
                uid: secret.metadata.uid.unwrap_or_default(),
            },
            Some(_) => Registration::Foreign,
        })
    }

    async fn write(&self, there: Option<&str>) -> Result<bool, Setback> {
        let written = match there {
            None => {
                let mut secret = Secret {
                    data: Some(self.data()),
                    type_: Some("Opaque".to_owned()),
                    ..Secret::default()
                };
                secret.metadata.name = Some(self.secret_name());
                secret.metadata.labels = Some(self.labels());
                timed_raw(self.api.create(&PostParams::default(), &secret)).await
            }
            Some(uid) => {
                let patch = json!({"metadata": {"uid": uid, "labels": self.labels()}, "data": self.data()});
                timed_raw(
                    self.api
                        .patch(&self.secret_name(), &PatchParams::default(), &Patch::Merge(&patch)),
                )
                .await
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(Failed::Api(404 | 409 | 422)) => Ok(false),
            Err(failed) => Err(self.setback(failed)),
        }
    }

    async fn delete(&self, uid: &str) -> Result<(), Setback> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match timed_raw(self.api.delete(&self.secret_name(), &parameters)).await {
            // A conflict: another UID by now, so this one is gone.
            Ok(_) | Err(Failed::Api(404 | 409)) => Ok(()),
            Err(failed) => Err(self.setback(failed)),
        }
    }
}
