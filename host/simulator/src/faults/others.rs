//! What somebody else does to the cluster meanwhile: writes, and things deleted and made again. They go through the API like
//! the caller's own requests, so that they are as real on a real cluster as on a simulated one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::BoxError;

use crate::access::Attributes;
use crate::object;

/// A request of somebody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// Path and query; without it, the object that the caller's request is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// The media type of the body.
    pub content_type: String,
    /// The body; null for none.
    pub body: Value,
}

/// What is deleted and made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The object the request is about, with the same content.
    Object,
    /// The object the request is about, by one of that name with its spec, but without its labels, annotations, finalizers and
    /// owners.
    Stranger,
    /// The namespace of the request, with nothing in it.
    Namespace,
}

/// How requests of others are sent.
pub(super) type Sender =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, BoxError>> + Send + Sync>;

/// How often a real cluster is asked whether something is gone.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

impl Write {
    /// Leaves an annotation on the object: its version is another, and nothing else.
    #[must_use]
    pub fn note() -> Self {
        Self::patch(json!({"metadata": {"annotations": {"example.com/third-party": "was here"}}}))
    }

    /// Changes the object by a merge patch.
    #[must_use]
    pub fn patch(body: Value) -> Self {
        Self {
            method: Method::PATCH.to_string(),
            uri: None,
            content_type: MERGE_PATCH.to_owned(),
            body,
        }
    }

    /// Deletes the object.
    #[must_use]
    pub fn delete() -> Self {
        Self {
            method: Method::DELETE.to_string(),
            uri: None,
            content_type: JSON.to_owned(),
            body: Value::Null,
        }
    }
}

/// The caller's request, as those who interfere with it see it.
pub(super) struct Scene<'a> {
    pub(super) what: &'a Attributes,
    pub(super) uri: &'a http::Uri,
    pub(super) body: &'a [u8],
}

impl Scene<'_> {
    /// The path of the object that the request is about, also if it is to be made by it.
    fn object(&self) -> Result<String, String> {
        let path = self.uri.path().trim_end_matches('/');
        if self.what.resource.is_empty() {
            return Err("the request is about no object".to_owned());
        }
        if !self.what.name.is_empty() {
            let own = path.strip_suffix(&format!("/{}", self.what.subresource));
            return Ok(own
                .filter(|_| !self.what.subresource.is_empty())
                .unwrap_or(path)
                .to_owned());
        }
        let body: Value = serde_json::from_slice(self.body).unwrap_or_default();
        match object::name(&body) {
            "" => Err("the request is about no object of a known name".to_owned()),
            name => Ok(format!("{path}/{name}")),
        }
    }

    /// The path of the collection that the object is in.
    fn collection(&self) -> Result<String, String> {
        let object = self.object()?;
        let (collection, _) = object.rsplit_once('/').unwrap_or_default();
        Ok(collection.to_owned())
    }
}

/// Sends one request of somebody else.
///
/// # Errors
/// Why it did nothing.
pub(super) async fn write(sender: &Sender, scene: &Scene<'_>, write: &Write) -> Result<(), String> {
    let uri = match &write.uri {
        Some(uri) => uri.clone(),
        None => scene.object()?,
    };
    let (code, answer) = send(sender, &write.method, &uri, &write.content_type, &write.body).await?;
    if code < 300 {
        Ok(())
    } else {
        Err(refused(code, &answer))
    }
}

/// Deletes something and makes it again.
///
/// # Errors
/// Why it is not another now.
pub(super) async fn replace(sender: &Sender, scene: &Scene<'_>, what: Replacement) -> Result<(), String> {
    if what == Replacement::Namespace {
        return replace_namespace(sender, &scene.what.namespace).await;
    }
    let path = scene.object()?;
    let (code, found) = send(sender, "GET", &path, JSON, &Value::Null).await?;
    if code != 200 {
        return Err(refused(code, &found));
    }
    remove(sender, &path).await?;
    let again = made_again(found, what == Replacement::Stranger);
    let (code, answer) = send(sender, "POST", &scene.collection()?, JSON, &again).await?;
    if code == 201 {
        Ok(())
    } else {
        Err(refused(code, &answer))
    }
}

/// The object as somebody would create it who has it in a file.
fn made_again(mut document: Value, is_stranger: bool) -> Value {
    object::map_mut(&mut document).remove("status");
    let metadata = object::metadata_mut(&mut document);
    metadata.retain(|field, _| match field.as_str() {
        "name" | "namespace" => true,
        "labels" | "annotations" | "finalizers" | "ownerReferences" => !is_stranger,
        _ => false,
    });
    document
}

async fn remove(sender: &Sender, path: &str) -> Result<(), String> {
    let body = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
    for _ in 0..TRIES {
        let no_finalizers = json!({"metadata": {"finalizers": null}});
        let (code, _) = send(sender, "PATCH", path, MERGE_PATCH, &no_finalizers).await?;
        if code == 404 {
            return Ok(());
        }
        send(sender, "DELETE", path, JSON, &body).await?;
        if send(sender, "GET", path, JSON, &Value::Null).await?.0 == 404 {
            return Ok(());
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    Err(format!("{path} does not go"))
}

async fn replace_namespace(sender: &Sender, name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the request is about no namespace".to_owned());
    }
    let path = format!("/api/v1/namespaces/{name}");
    let (code, found) = send(sender, "GET", &path, JSON, &Value::Null).await?;
    if code != 200 {
        return Err(refused(code, &found));
    }
    send(sender, "DELETE", &path, JSON, &Value::Null).await?;
    for _ in 0..TRIES {
        let (code, left) = send(sender, "GET", &path, JSON, &Value::Null).await?;
        if code == 404 {
            let (code, answer) = send(sender, "POST", "/api/v1/namespaces", JSON, &made_again(found, false)).await?;
            return if code == 201 {
                Ok(())
            } else {
                Err(refused(code, &answer))
            };
        }
        for resource in remaining(&left) {
            release(sender, name, &resource).await?;
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    Err(format!("namespace {name} does not go"))
}

/// The resources that a namespace which is to go says it still has, such as `configmaps.` and `jobs.batch`.
fn remaining(namespace: &Value) -> Vec<String> {
    let conditions = namespace.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .filter(|condition| {
            condition
                .get("type")
                .is_some_and(|kind| kind == "NamespaceContentRemaining")
        })
        .filter_map(|condition| condition.get("message")?.as_str()?.split_once(": "))
        .flat_map(|(_, list)| list.split(", "))
        .filter_map(|part| part.split_once(" has ").map(|(resource, _)| resource.to_owned()))
        .collect()
}

/// Takes the finalizers from all objects of a resource in a namespace.
async fn release(sender: &Sender, namespace: &str, resource: &str) -> Result<(), String> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let prefix = if group.is_empty() {
        "/api/v1".to_owned()
    } else {
        let (_, found) = send(sender, "GET", &format!("/apis/{group}"), JSON, &Value::Null).await?;
        let preferred = found.pointer("/preferredVersion/groupVersion").and_then(Value::as_str);
        format!("/apis/{}", preferred.unwrap_or_default())
    };
    let collection = format!("{prefix}/namespaces/{namespace}/{plural}");
    let (_, list) = send(sender, "GET", &collection, JSON, &Value::Null).await?;
    for item in list.get("items").and_then(Value::as_array).into_iter().flatten() {
        let path = format!("{collection}/{}", object::name(item));
        let body = json!({"metadata": {"finalizers": null}});
        send(sender, "PATCH", &path, MERGE_PATCH, &body).await?;
    }
    Ok(())
}

async fn send(
    sender: &Sender,
    method: &str,
    uri: &str,
    content_type: &str,
    body: &Value,
) -> Result<(u16, Value), String> {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(http::header::CONTENT_TYPE, content_type)
        .header(http::header::ACCEPT, JSON)
        .header(http::header::USER_AGENT, "somebody-else")
        .body(body)
        .map_err(|error| format!("{method} {uri}: {error}"))?;
    let answer = sender(request)
        .await
        .map_err(|error| format!("{method} {uri}: {error}"))?;
    let code = answer.status().as_u16();
    Ok((code, serde_json::from_slice(answer.body()).unwrap_or_default()))
}

fn refused(code: u16, answer: &Value) -> String {
    let message = answer.get("message").and_then(Value::as_str).unwrap_or_default();
    format!("{code} {message}").trim_end().to_owned()
}
