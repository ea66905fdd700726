//! The two servers behind one interface.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use chandlery_simulator::{Settings, Simulator, World};
use http::{HeaderMap, HeaderValue, Method, Request as HttpRequest, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::sequence::Request;
use crate::control_plane::ControlPlane;

/// An answer as it came.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) warnings: Vec<String>,
    pub(super) body: Value,
}

/// What a side saw of its objects.
#[derive(Default)]
pub(super) struct Memory {
    uid: BTreeMap<String, String>,
    version: BTreeMap<String, String>,
    first_version: BTreeMap<String, String>,
    continuation: String,
}

/// A server under comparison.
pub(super) trait Side {
    fn send(&mut self, method: &Method, path: &str, content_type: &str, accept: &str, body: Bytes) -> Result<Answer>;

    /// The events of a collection after a version, up to the one that made or changed the object of a UID.
    fn events(&mut self, path: &str, from: &str, until: &str) -> Result<Vec<Value>>;

    /// Lets the controllers do their work, as far as this side can see to it.
    fn settle(&mut self);
}

/// The simulator, without controllers but when it is told to settle.
pub(super) struct Simulated {
    simulator: Simulator,
    runtime: Runtime,
}

/// A real API server.
pub(super) struct Real {
    client: Client<hyper_rustls::HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    runtime: Runtime,
    cluster: Arc<ControlPlane>,
}

/// Whom both servers think they talk to.
const AGENT: &str = "compare/1";
/// A real server that says nothing for so long is broken.
const PATIENCE: Duration = Duration::from_secs(30);

impl Simulated {
    pub(super) fn new() -> Result<Self> {
        let settings = Settings {
            controllers: false,
            start: "2026-01-01T00:00:00Z".parse()?,
            ..Settings::default()
        };
        Ok(Self {
            simulator: Simulator::of(World::new(settings), chandlery_simulator::Clock::Virtual),
            runtime: runtime()?,
        })
    }

    /// A copy of the world as it is now.
    pub(super) fn fork(&self) -> Result<Self> {
        Ok(Self {
            simulator: self.simulator.fork(),
            runtime: runtime()?,
        })
    }
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")
}

impl Side for Simulated {
    fn send(&mut self, method: &Method, path: &str, content_type: &str, accept: &str, body: Bytes) -> Result<Answer> {
        let uri: Uri = path.parse().with_context(|| format!("reading the path {path}"))?;
        let response = self
            .simulator
            .respond(method, &uri, &headers(content_type, accept)?, body);
        // A second passes with each request, so that times that differ can be seen to differ.
        self.runtime.block_on(answer(response))
    }

    fn events(&mut self, path: &str, from: &str, until: &str) -> Result<Vec<Value>> {
        let uri: Uri = format!("{path}?watch=1&resourceVersion={from}").parse()?;
        let response = self
            .simulator
            .respond(&Method::GET, &uri, &HeaderMap::new(), Bytes::new());
        self.runtime.block_on(events(response, until))
    }

    fn settle(&mut self) {
        self.simulator.with_world(World::settle);
    }
}

impl Answer {
    /// A real server that stumbles within a request hangs up.
    fn broken_off() -> Self {
        Self {
            code: 0,
            warnings: Vec::new(),
            body: Value::Null,
        }
    }
}

fn is_broken_off(error: &hyper_util::client::legacy::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_incomplete_message)
        {
            return true;
        }
        source = error.source();
    }
    false
}

impl Real {
    pub(super) fn new(cluster: Arc<ControlPlane>) -> Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(cluster.ca_pem().as_bytes()) {
            roots.add(certificate.context("reading the authority's certificate")?)?;
        }
        let admin = cluster.admin();
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(admin.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .context("reading the client's certificate")?;
        let key = PrivateKeyDer::from_pem_slice(admin.key.as_bytes()).context("reading the client's key")?;
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .enable_http1()
            .build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            base: cluster.server_url(),
            runtime: runtime()?,
            cluster,
        })
    }

    /// Another client of the same server.
    pub(super) fn sibling(&self) -> Result<Self> {
        Self::new(Arc::clone(&self.cluster))
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        content_type: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<HttpRequest<Full<Bytes>>> {
        let mut request = HttpRequest::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        if let Some(all) = request.headers_mut() {
            *all = headers(content_type, accept)?;
        }
        request.body(Full::new(body)).context("building a request")
    }
}

impl Side for Real {
    fn send(&mut self, method: &Method, path: &str, content_type: &str, accept: &str, body: Bytes) -> Result<Answer> {
        let request = self.request(method, path, content_type, accept, body)?;
        self.runtime.block_on(async {
            let response = tokio::time::timeout(PATIENCE, self.client.request(request))
                .await
                .context("waiting for the real server")?;
            if response.as_ref().is_err_and(is_broken_off) {
                return Ok(Answer::broken_off());
            }
            answer(response.with_context(|| format!("asking the real server for {path}"))?).await
        })
    }

    fn events(&mut self, path: &str, from: &str, until: &str) -> Result<Vec<Value>> {
        let path = format!("{path}?watch=1&timeoutSeconds=10&resourceVersion={from}");
        let request = self.request(&Method::GET, &path, "", "", Bytes::new())?;
        self.runtime.block_on(async {
            let response = self.client.request(request).await.context("watching the real server")?;
            tokio::time::timeout(PATIENCE, events(response, until))
                .await
                .context("waiting for the real server's events")?
        })
    }

    fn settle(&mut self) {}
}

fn headers(content_type: &str, accept: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::USER_AGENT, HeaderValue::from_static(AGENT));
    let accept = if accept.is_empty() { "application/json" } else { accept };
    headers.insert(http::header::ACCEPT, HeaderValue::from_str(accept)?);
    if !content_type.is_empty() {
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_str(content_type)?);
    }
    Ok(headers)
}

async fn answer<B>(response: Response<B>) -> Result<Answer>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.context("reading an answer")?.to_bytes();
    let mut warnings: Vec<String> = parts
        .headers
        .get_all(http::header::WARNING)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect();
    warnings.sort();
    let body =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Ok(Answer {
        code: parts.status.as_u16(),
        warnings,
        body,
    })
}

async fn events<B>(response: Response<B>, until: &str) -> Result<Vec<Value>>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let mut body = response.into_body();
    let mut buffer = Vec::new();
    let mut events = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("reading events")?.into_data() else {
            continue;
        };
        buffer.extend_from_slice(&data);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).context("reading an event")?;
            if event.pointer("/object/metadata/uid").and_then(Value::as_str) == Some(until) {
                return Ok(events);
            }
            events.push(event);
        }
    }
    bail!("the events ended before the one that was waited for")
}

impl Memory {
    /// Fills the holes of a text.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((hole, after)) = after.split_once('}') else {
                out.push('{');
                rest = after;
                continue;
            };
            let known =
                |map: &BTreeMap<String, String>, key: &str| map.get(key).cloned().unwrap_or_else(|| "1".to_owned());
            match hole.split_once(':') {
                Some(("uid", key)) => out.push_str(&known(&self.uid, key)),
                Some(("rv", key)) => out.push_str(&known(&self.version, key)),
                Some(("first-rv", key)) => out.push_str(&known(&self.first_version, key)),
                None if hole == "continue" => out.push_str(&self.continuation),
                _ => {
                    out.push('{');
                    out.push_str(hole);
                    out.push('}');
                }
            }
            rest = after;
        }
        out + rest
    }

    pub(super) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if text.contains('{') => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(key, value)| (key.clone(), self.fill_value(value)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    /// The version of the object of a request as it was seen last.
    pub(super) fn version_of(&self, request: &Request) -> Option<String> {
        let path = request.path.split('?').next().unwrap_or_default();
        self.version
            .get(path.trim_end_matches("/status").trim_end_matches("/scale"))
            .cloned()
    }

    /// Whether a write to an object that was known before made a new version of it.
    pub(super) fn has_changed(&self, request: &Request, before: Option<&str>) -> Option<bool> {
        let writes = matches!(request.method.as_str(), "PUT" | "PATCH");
        let before = before.filter(|_| writes)?;
        self.version_of(request).map(|now| now != before)
    }

    /// Remembers what an answer says of an object.
    pub(super) fn learn(&mut self, request: &Request, answer: &Answer) {
        let text = |pointer: &str| {
            answer
                .body
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        if request.verb == "list" {
            self.continuation = text("/metadata/continue");
            return;
        }
        if answer.code >= 300 || text("/kind") == "Status" {
            return;
        }
        let path = request.path.split('?').next().unwrap_or_default();
        let key = match request.verb.as_str() {
            "create" => format!("{path}/{}", text("/metadata/name")),
            _ => path.trim_end_matches("/status").trim_end_matches("/scale").to_owned(),
        };
        let (uid, version) = (text("/metadata/uid"), text("/metadata/resourceVersion"));
        if !uid.is_empty() {
            self.uid.insert(key.clone(), uid);
        }
        if !version.is_empty() {
            self.first_version.entry(key.clone()).or_insert_with(|| version.clone());
            self.version.insert(key, version);
        }
    }
}

/// Asks again until an answer is as it should be, or time is up; the last answer in any case.
pub(super) fn until<T>(patience: Duration, mut ask: impl FnMut() -> Result<T>, good: impl Fn(&T) -> bool) -> Result<T> {
    let started = Instant::now();
    loop {
        let answer = ask()?;
        if good(&answer) || started.elapsed() > patience {
            return Ok(answer);
        }
        // The real controllers need a moment; there is no event that says that nothing more will come.
        std::thread::sleep(Duration::from_millis(15));
    }
}
