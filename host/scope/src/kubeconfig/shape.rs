//! A kubeconfig as it is written: every field that is judged, and nothing is judged here.

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct File {
    #[serde(default, rename = "current-context")]
    pub(super) current_context: Option<String>,
    #[serde(default)]
    pub(super) clusters: Option<Vec<Named<ClusterBox>>>,
    #[serde(default)]
    pub(super) users: Option<Vec<Named<UserBox>>>,
    #[serde(default)]
    pub(super) contexts: Option<Vec<Named<ContextBox>>>,
}

#[derive(Deserialize)]
pub(super) struct Named<T> {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) content: T,
}

#[derive(Deserialize)]
pub(super) struct ClusterBox {
    pub(super) cluster: Option<serde_json::Value>,
}

#[derive(Deserialize)]
pub(super) struct UserBox {
    pub(super) user: Option<serde_json::Value>,
}

#[derive(Deserialize)]
pub(super) struct ContextBox {
    pub(super) context: Option<Context>,
}

#[derive(Deserialize)]
pub(super) struct Context {
    pub(super) cluster: String,
    #[serde(default)]
    pub(super) user: Option<String>,
    #[serde(default)]
    pub(super) namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Cluster {
    #[serde(default)]
    pub(super) server: String,
    #[serde(default)]
    pub(super) certificate_authority_data: Option<String>,
    #[serde(default)]
    pub(super) certificate_authority: Option<String>,
    #[serde(default)]
    pub(super) tls_server_name: Option<String>,
    #[serde(default)]
    pub(super) insecure_skip_tls_verify: bool,
    #[serde(default)]
    pub(super) proxy_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct User {
    #[serde(default)]
    pub(super) token: Option<String>,
    #[serde(default, rename = "tokenFile")]
    pub(super) token_file: Option<String>,
    #[serde(default)]
    pub(super) client_certificate: Option<String>,
    #[serde(default)]
    pub(super) client_certificate_data: Option<String>,
    #[serde(default)]
    pub(super) client_key: Option<String>,
    #[serde(default)]
    pub(super) client_key_data: Option<String>,
    #[serde(default)]
    pub(super) username: Option<String>,
    #[serde(default)]
    pub(super) password: Option<String>,
    #[serde(default)]
    pub(super) exec: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) auth_provider: Option<serde_json::Value>,
    #[serde(default, rename = "as")]
    pub(super) as_user: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) as_uid: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) as_groups: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) as_user_extra: Option<serde_json::Value>,
}
