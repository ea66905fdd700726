//! One request and its answer: bounded in time and size, its reads retried here and nowhere else, its writes never.

use std::time::{Duration, Instant};

use bytes::Bytes;
use chandlery_core::cluster::{CallError, REQUEST_TIMEOUT};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::answers::Answer;
use crate::connection::Connection;
use crate::fence::Fenced;
use crate::kubeconfig::KubeconfigError;

/// Largest answer that is taken in: a page of 500 large objects. A hostile server could send for ever.
const LARGEST_ANSWER: usize = 32 * 1024 * 1024;
/// Longest pause that a server's Retry-After is heeded for within one call; beyond, the step waits instead.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often a read is sent at most.
const READ_TRIES: u32 = 3;

/// Asks for `metadata` only; a plain object is taken where the server does not know it.
pub(crate) const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The same for lists.
pub(crate) const METADATA_ONLY_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Name and value pairs as a query.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish()
}

/// One request to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) uri: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Option<Bytes>,
}

impl Ask {
    pub(crate) fn get(uri: String) -> Self {
        Self {
            method: Method::GET,
            uri,
            accept: "application/json",
            content_type: "application/json",
            body: None,
        }
    }

    pub(crate) fn write(method: Method, uri: String, body: &Value) -> Self {
        Self {
            method,
            uri,
            accept: "application/json",
            content_type: "application/json",
            body: Some(Bytes::from(body.to_string())),
        }
    }

    pub(crate) fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    pub(crate) fn content_type(self, content_type: &'static str) -> Self {
        Self { content_type, ..self }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The fence is down: nothing was sent.
    Fenced,
    /// The request is none: nothing was sent.
    NotSent(String),
    /// The server's name leads to an address that no remote has: nothing was sent.
    Refused(KubeconfigError),
    /// The cluster could not be reached several times in a row and is not asked for a while: nothing was sent.
    Resting(String),
    /// The connection failed or the time passed: whether the server acted is not known.
    Lost(String),
}

impl NoAnswer {
    pub(crate) fn into_call_error(self) -> CallError {
        match self {
            NoAnswer::Fenced => CallError::Fenced,
            NoAnswer::NotSent(why) => CallError::Other(why),
            NoAnswer::Refused(error) => CallError::Denied(error.to_string()),
            NoAnswer::Resting(why) | NoAnswer::Lost(why) => CallError::Unavailable(why),
        }
    }
}

impl Connection {
    /// Sends a read, up to three times while the cluster is not available.
    pub(crate) async fn read(&self, ask: Ask) -> Result<Answer, NoAnswer> {
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = self.send(ask.clone()).await;
            let pause = match &answer {
                Ok(answer) if matches!(answer.status, 429 | 500 | 502 | 503 | 504) => answer
                    .retry_after
                    .unwrap_or(Duration::from_millis(100 << tries))
                    .min(LONGEST_PAUSE),
                Err(NoAnswer::Lost(_)) => Duration::from_millis(100 << tries),
                _ => return answer,
            };
            if tries == READ_TRIES {
                return answer;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends a request once; once more with a credential that was rotated meanwhile.
    pub(crate) async fn send(&self, ask: Ask) -> Result<Answer, NoAnswer> {
        let _permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| NoAnswer::NotSent("the connection is closed".into()))?;
        let (client, turn) = self.client_in_turn();
        let answer = self.send_by(&client, ask.clone()).await;
        if let Ok(Answer { status: 401, .. }) = &answer
            && let Some(client) = self.renewed(turn).await
        {
            return self.send_by(&client, ask).await;
        }
        answer
    }

    async fn send_by(&self, client: &Client, ask: Ask) -> Result<Answer, NoAnswer> {
        let request = Request::builder()
            .method(ask.method)
            .uri(&ask.uri)
            .header(http::header::ACCEPT, ask.accept)
            .header(http::header::CONTENT_TYPE, ask.content_type)
            .body(ask.body.map_or_else(Body::empty, Body::from))
            .map_err(|error| NoAnswer::NotSent(format!("{} is no request: {error}", ask.uri)))?;
        let exchange = async {
            let response = client.send(request).await.map_err(lost)?;
            let status = response.status().as_u16();
            let retry_after = response
                .headers()
                .get(http::header::RETRY_AFTER)
                .and_then(|value| value.to_str().ok())
                .and_then(|text| text.trim().parse::<u64>().ok())
                .map(Duration::from_secs);
            let body = Limited::new(response.into_body(), LARGEST_ANSWER)
                .collect()
                .await
                .map_err(|error| NoAnswer::Lost(format!("the answer was cut or too large: {}", chain(error.as_ref()))))?
                .to_bytes();
            let body = serde_json::from_slice(&body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).chars().take(300).collect()));
            Ok(Answer {
                status,
                body,
                retry_after,
            })
        };
        let leave = self.breaker.enter(Instant::now()).map_err(|pause| {
            let seconds = pause.as_secs() + 1;
            NoAnswer::Resting(format!(
                "{}:{} could not be reached several times in a row and is asked again within {seconds} s",
                self.host(),
                self.port()
            ))
        })?;
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| {
                Err(NoAnswer::Lost(format!(
                    "{}:{} did not answer within {} s",
                    self.host(),
                    self.port(),
                    REQUEST_TIMEOUT.as_secs()
                )))
            });
        match &answer {
            Ok(_) => leave.answered(),
            Err(NoAnswer::Lost(_)) => leave.failed(Instant::now()),
            Err(_) => {}
        }
        answer
    }
}

fn lost(error: kube::Error) -> NoAnswer {
    if is_fenced(&error) {
        NoAnswer::Fenced
    } else if let Some(refusal) = cause::<KubeconfigError>(&error) {
        NoAnswer::Refused(refusal.clone())
    } else {
        NoAnswer::Lost(format!("the cluster cannot be reached: {}", chain(&error)))
    }
}

/// Whether the fence around the client, or the gate beneath TLS, refused.
pub(crate) fn is_fenced(error: &(dyn std::error::Error + 'static)) -> bool {
    cause::<Fenced>(error).is_some()
}

/// The error of this type among the causes of another. An I/O error does not name what it wraps as its source, and may wrap
/// another.
pub(crate) fn cause<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let inner = wrapped.map(|inner| inner as &(dyn std::error::Error + 'static));
    error
        .downcast_ref()
        .or_else(|| inner.or_else(|| error.source()).and_then(cause))
}

/// The causes of an error from the inside, the innermost only: the outer ones say where, not what.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    chandlery_core::readiness::one_line(&innermost.to_string())
}
