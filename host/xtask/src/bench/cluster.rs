//! A cluster in memory and behind a port, for what needs a thousand of something. Its administrator asks it without the port.

use std::fmt::Display;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use chandlery_simulator::{Clock, Server, Settings, Simulator, User, World};
use http::{HeaderMap, HeaderValue, Method, Uri};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::runtime::Handle;

/// One cluster; it ends with this value.
pub(super) struct InMemory {
    simulator: Simulator,
    pub(super) server: Server,
    runtime: Handle,
}

impl InMemory {
    pub(super) fn start(runtime: &Handle, seed: u64) -> Result<Self> {
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        let simulator = Simulator::of(World::new(settings), Clock::Wall);
        let server = runtime
            .block_on(Server::start(&simulator, 0))
            .context("serving a cluster")?;
        Ok(Self {
            simulator,
            server,
            runtime: runtime.clone(),
        })
    }

    /// A kubeconfig of its administrator.
    pub(super) fn kubeconfig(&self) -> Result<String> {
        Ok(self.server.kubeconfig("cluster", User::admin())?)
    }

    /// Sends a request and reads its answer.
    pub(super) fn send(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let _entered = self.runtime.enter();
        let uri: Uri = path.parse().with_context(|| format!("reading the path {path}"))?;
        let mut headers = HeaderMap::new();
        let content_type = if method == Method::PATCH {
            "application/apply-patch+yaml"
        } else {
            "application/json"
        };
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let response = self.simulator.respond(method, &uri, &headers, body);
        let status = response.status();
        let collected = self
            .runtime
            .block_on(response.into_body().collect())
            .context("reading an answer")?;
        let answer: Value = serde_json::from_slice(&collected.to_bytes()).context("reading an answer")?;
        if !status.is_success() {
            bail!("{method} {path}: {}", answer.get("message").unwrap_or(&Value::Null));
        }
        Ok(answer)
    }

    /// Server-side apply.
    pub(super) fn apply(&self, path: impl Display, object: &Value) -> Result<Value> {
        self.send(
            &Method::PATCH,
            &format!("{path}?fieldManager=bench&force=true"),
            Some(object),
        )
    }

    /// All objects of a collection.
    pub(super) fn list(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.send(&Method::GET, path, None)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// A token of an account that lasts for hours.
    pub(super) fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 8 * 3600}});
        let answer = self.send(&Method::POST, &path, Some(&request))?;
        let token = answer.pointer("/status/token").and_then(Value::as_str);
        Ok(token.context("reading a token")?.to_owned())
    }
}
