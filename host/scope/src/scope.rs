//! One cluster for one call of one step: what stands behind the handle that a plugin gets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chandlery_core::cluster::{
    CallError, ClusterAccess, Deletion, DeletionState, Facts, JsonPatch, Page, Problem, Query, Readiness, Watched,
};
use chandlery_core::grant::{Act, Namespaces, Verb};
use chandlery_core::ports::{Ledger, Scope, TakenAway};
use chandlery_core::record::Entry;
use chandlery_core::{ObjectRef, Setback, readiness};
use futures::StreamExt as _;
use serde_json::Value;

use crate::answers::{Answer, Asked, Verdict};
use crate::connection::Connection;
use crate::effects::How;
use crate::guard::{Admitted, Guard};
use crate::wire::{Ask, METADATA_ONLY_LIST};

/// Items of one list that are on the wire at the same time.
pub(crate) const AT_ONCE: usize = 16;
/// Objects of one page.
const PAGE: usize = 250;

/// What a scope is made of.
pub struct ScopeOptions {
    /// What the plugin may do.
    pub grant: chandlery_core::grant::Grant,
    /// Field manager of the step.
    pub field_manager: String,
    /// Owner mark of the step.
    pub owner_mark: String,
    /// Secrets (`namespace`, `name`) that hold credentials of remotes.
    pub sealed_secrets: Vec<(String, String)>,
}

/// One cluster for one call of one step.
pub struct ClusterScope {
    pub(crate) connection: Arc<Connection>,
    pub(crate) facts: Facts,
    pub(crate) guard: Guard,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) field_manager: String,
    pub(crate) owner_mark: String,
    doomed: bool,
    state: Mutex<CallState>,
}

/// What one call did so far.
#[derive(Default)]
struct CallState {
    named: Vec<ObjectRef>,
    seen: BTreeMap<ObjectRef, Option<String>>,
}

impl ClusterScope {
    /// A scope on a cluster whose facts were just read.
    pub fn new(connection: Arc<Connection>, facts: Facts, ledger: Arc<dyn Ledger>, options: ScopeOptions) -> Self {
        let ScopeOptions {
            grant,
            field_manager,
            owner_mark,
            sealed_secrets,
        } = options;
        let scope = if facts.path.is_empty() {
            facts.name.clone()
        } else {
            facts.path.join("/")
        };
        Self {
            connection,
            guard: Guard {
                scope,
                grant,
                sealed_secrets,
            },
            facts,
            ledger,
            field_manager,
            owner_mark,
            doomed: false,
            state: Mutex::default(),
        }
    }

    /// The same where the cluster is itself about to go, in the very deletion that takes the step away.
    #[must_use]
    pub fn doomed(self, doomed: bool) -> Self {
        Self { doomed, ..self }
    }

    /// The connection it acts by.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    fn state(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn saw(&self, target: &ObjectRef, version: Option<&str>) {
        self.state().seen.insert(target.clone(), version.map(str::to_owned));
    }

    pub(crate) fn name(&self, target: &ObjectRef) {
        self.state().named.push(target.clone());
    }

    /// Finds the kind and passes the guard.
    pub(crate) async fn admit(
        &self,
        target: &ObjectRef,
        verb: Verb,
        subresource: Option<&str>,
    ) -> Result<Admitted, CallError> {
        let served = self.connection.served(&target.gvk).await?;
        self.guard.admit(served, target, verb, subresource)
    }

    /// What an answer comes to; a 403 is told apart by asking the cluster whether RBAC is the reason.
    pub(crate) async fn judge(
        &self,
        admitted: &Admitted,
        verb: &str,
        answer: &Answer,
        asked: Asked,
    ) -> Result<(), CallError> {
        match answer.verdict(asked) {
            Verdict::Good => Ok(()),
            Verdict::Bad(error) => {
                if let CallError::NotFound(_) = error
                    && answer.body.pointer("/details/kind").is_none()
                {
                    self.connection.discovery.forget(&admitted.target.gvk);
                }
                Err(error)
            }
            Verdict::Forbidden(message) => {
                if self.rbac_allows(admitted, verb).await {
                    // RBAC would let it pass, so an admission plugin stands in the way (quota, a missing ServiceAccount, …).
                    Err(CallError::Unavailable(message))
                } else {
                    Err(CallError::Denied(message))
                }
            }
        }
    }

    async fn rbac_allows(&self, admitted: &Admitted, verb: &str) -> bool {
        let review = serde_json::json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "group": admitted.served.gvk.group(), "resource": admitted.served.resource, "verb": verb,
                "namespace": admitted.target.namespace, "name": admitted.target.name,
            }},
        });
        let ask = Ask::write(
            http::Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".into(),
            &review,
        );
        matches!(self.connection.send(ask).await, Ok(answer) if answer.body.pointer("/status/allowed") == Some(&Value::Bool(true)))
    }

    /// Reads one object whole; `None` where there is none.
    pub(crate) async fn fetch(&self, admitted: &Admitted, accept: &'static str) -> Result<Option<Value>, CallError> {
        let ask = Ask::get(admitted.served.object(&admitted.target)).accept(accept);
        let answer = self
            .connection
            .read(ask)
            .await
            .map_err(crate::wire::NoAnswer::into_call_error)?;
        match self.judge(admitted, "get", &answer, Asked::Read).await {
            Ok(()) => {
                answer.expect(&admitted.target)?;
                self.saw(&admitted.target, chandlery_core::object::resource_version(&answer.body));
                Ok(Some(answer.body))
            }
            // The object's own absence; a kind that is not served has no details.
            Err(CallError::NotFound(_)) if answer.body.pointer("/details/kind").is_some() => {
                self.saw(&admitted.target, None);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn get_one(&self, target: ObjectRef) -> Result<Option<Value>, CallError> {
        let admitted = self.admit(&target, Verb::Get, None).await?;
        let outcome = self
            .fetch(&admitted, "application/json")
            .await
            .map(|object| object.map(tidied));
        admitted.record(outcome)
    }

    async fn assess_one(&self, target: ObjectRef) -> Result<Readiness, CallError> {
        let admitted = self.admit(&target, Verb::Get, None).await?;
        let outcome = self
            .fetch(&admitted, "application/json")
            .await
            .map(|object| object.as_ref().map_or(Readiness::Absent, readiness::of));
        admitted.record(outcome)
    }

    /// The namespaces a list goes through: `None` is one request over all of them.
    fn list_places(&self, served: &crate::discovery::Served, query: &Query) -> Result<Vec<Option<String>>, CallError> {
        let act = Act {
            verb: Verb::List,
            group: served.gvk.group(),
            resource: &served.resource,
            subresource: None,
            namespaced: served.namespaced,
            namespace: query.namespace.as_deref(),
            name: None,
        };
        let denied = || CallError::Denied(format!("the plugin's grant does not cover: {act}"));
        match (&query.namespace, served.namespaced) {
            (Some(_), false) => Err(CallError::Invalid(vec![Problem {
                path: "/namespace".into(),
                message: format!("{} does not live in a namespace", query.gvk.kind),
            }])),
            (Some(namespace), true) if !chandlery_core::object::is_path_segment(namespace) => {
                Err(CallError::Invalid(vec![Problem {
                    path: "/namespace".into(),
                    message: "no namespace has this name".into(),
                }]))
            }
            (Some(_), true) | (None, false) => {
                if self.guard.grant.allows(&act) {
                    Ok(vec![query.namespace.clone()])
                } else {
                    Err(denied())
                }
            }
            (None, true) => match self.guard.grant.namespaces_for(&act) {
                Namespaces::All => Ok(vec![None]),
                Namespaces::Only(places) if places.is_empty() => Err(denied()),
                Namespaces::Only(places) => Ok(places.into_iter().map(Some).collect()),
            },
        }
    }

    async fn list_recorded(&self, query: Query) -> Result<Page, CallError> {
        let span = crate::guard::span(&self.guard.scope, Verb::List, &query.gvk);
        let outcome = self.list_page(query).await;
        let result = outcome.as_ref().err().map_or("ok", CallError::reason);
        span.record("result", result);
        tracing::debug!(target: "chandlery::journal", parent: &span, "acted");
        outcome
    }

    async fn list_page(&self, query: Query) -> Result<Page, CallError> {
        let served = self.connection.served(&query.gvk).await?;
        let places = self.list_places(&served, &query)?;
        let (index, token) = match &query.continue_token {
            None => (0, None),
            Some(text) => text
                .split_once(':')
                .and_then(|(index, token)| {
                    Some((
                        index.parse::<usize>().ok()?,
                        Some(token.to_owned()).filter(|t| !t.is_empty()),
                    ))
                })
                .ok_or_else(|| {
                    CallError::Invalid(vec![Problem {
                        path: "/continue".into(),
                        message: "this token was not given by this host".into(),
                    }])
                })?,
        };
        let place = places
            .get(index)
            .ok_or_else(|| CallError::Conflict("the list has changed; begin again".into()))?;
        let page = PAGE.to_string();
        let given = [
            ("limit", page.as_str()),
            ("labelSelector", &query.label_selector),
            ("fieldSelector", &query.field_selector),
            ("continue", token.as_deref().unwrap_or_default()),
        ];
        let parameters: Vec<(&str, &str)> = given.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let uri = format!(
            "{}?{}",
            served.collection(place.as_deref()),
            crate::wire::query(&parameters)
        );
        let accept = if query.metadata_only {
            METADATA_ONLY_LIST
        } else {
            "application/json"
        };
        let answer = self
            .connection
            .read(Ask::get(uri).accept(accept))
            .await
            .map_err(crate::wire::NoAnswer::into_call_error)?;
        match answer.verdict(Asked::Read) {
            Verdict::Good => {}
            Verdict::Bad(error) => return Err(error),
            Verdict::Forbidden(message) => return Err(CallError::Denied(message)),
        }
        let items = match answer.body.get("items") {
            Some(Value::Array(items)) => items.as_slice(),
            // An empty list of metadata comes with `null`.
            Some(Value::Null) => &[],
            _ => {
                return Err(CallError::Unavailable(
                    "the cluster answered with something that is no list".into(),
                ));
            }
        };
        let sealed =
            |item: &Value| {
                let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                served.resource == "secrets"
                    && self.guard.sealed_secrets.iter().any(|(namespace, name)| {
                        namespace == text("/metadata/namespace") && name == text("/metadata/name")
                    })
            };
        let items = items
            .iter()
            .filter(|item| !sealed(item))
            .cloned()
            .map(|item| tidied(with_kind(item, &query)))
            .collect();
        let next = answer
            .body
            .pointer("/metadata/continue")
            .and_then(Value::as_str)
            .filter(|token| !token.is_empty());
        let continue_token = match next {
            Some(token) => Some(format!("{index}:{token}")),
            None if index + 1 < places.len() => Some(format!("{}:", index + 1)),
            None => None,
        };
        Ok(Page { items, continue_token })
    }
}

/// Items of a list come without their kind.
fn with_kind(mut item: Value, query: &Query) -> Value {
    if let Some(map) = item.as_object_mut() {
        map.insert("apiVersion".into(), query.gvk.api_version.clone().into());
        map.insert("kind".into(), query.gvk.kind.clone().into());
    }
    item
}

/// An object without what no plugin needs: managed fields and kubectl's copy of an older self.
fn tidied(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    object
}

/// Runs one list concurrently; results in its order.
pub(crate) async fn each<I, T, F: Future<Output = T>>(items: Vec<I>, act: impl Fn(I) -> F) -> Vec<T> {
    futures::stream::iter(items.into_iter().map(act))
        .buffered(AT_ONCE)
        .collect()
        .await
}

#[async_trait]
impl ClusterAccess for ClusterScope {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn get(&self, targets: Vec<ObjectRef>) -> Vec<Result<Option<Value>, CallError>> {
        each(targets, |target| self.get_one(target)).await
    }

    async fn list(&self, query: Query) -> Result<Page, CallError> {
        self.list_recorded(query).await
    }

    async fn apply(&self, objects: Vec<Value>, force: bool) -> Vec<Result<(), CallError>> {
        self.write_all(objects, How::Apply { force }).await
    }

    async fn create(&self, objects: Vec<Value>) -> Vec<Result<(), CallError>> {
        self.write_all(objects, How::Create).await
    }

    async fn patch(&self, patches: Vec<JsonPatch>) -> Vec<Result<(), CallError>> {
        self.patch_all(patches).await
    }

    async fn delete(&self, deletions: Vec<Deletion>) -> Vec<Result<DeletionState, CallError>> {
        self.delete_all(deletions).await
    }

    async fn assess(&self, targets: Vec<ObjectRef>) -> Vec<Result<Readiness, CallError>> {
        each(targets, |target| self.assess_one(target)).await
    }
}

#[async_trait]
impl Scope for ClusterScope {
    fn named(&self) -> Vec<ObjectRef> {
        self.state().named.clone()
    }

    fn is_doomed(&self) -> bool {
        self.doomed
    }

    fn seen(&self) -> Vec<Watched> {
        self.state()
            .seen
            .iter()
            .map(|(target, seen)| Watched {
                target: target.clone(),
                seen: seen.clone(),
            })
            .collect()
    }

    async fn watched(&self, targets: Vec<ObjectRef>) -> Vec<Watched> {
        let mut watched = Vec::new();
        for target in targets {
            // To be told that an object changed is to read of it.
            if let Ok(admitted) = self.admit(&target, Verb::Get, None).await {
                let target = admitted.target;
                let seen = self.state().seen.get(&target).cloned().flatten();
                watched.push(Watched { target, seen });
            }
        }
        watched
    }

    async fn take_away(&self, entries: Vec<Entry>) -> Result<TakenAway, Setback> {
        self.undo_entries(entries).await
    }
}
