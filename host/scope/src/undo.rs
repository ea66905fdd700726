//! Taking away what an inventory shows, last written first, each seen gone before what it may depend on.

use std::collections::BTreeMap;

use chandlery_core::cluster::{CallError, DeletionState, Propagation, Watched};
use chandlery_core::grant::{Grant, Verb};
use chandlery_core::names::OWNER_ANNOTATION;
use chandlery_core::object::{annotation, uid};
use chandlery_core::ports::TakenAway;
use chandlery_core::record::{Entry, Mode};
use chandlery_core::{ObjectRef, Setback, order};
use http::Method;
use serde_json::{Value, json};

use crate::answers::Asked;
use crate::guard::{Admitted, Guard};
use crate::scope::{ClusterScope, each};
use crate::wire::{Ask, METADATA_ONLY, NoAnswer, query};

/// Where one entry stands.
enum Undone {
    Gone,
    Waiting(String),
}

impl ClusterScope {
    /// Undoes entries from the highest wave down. Within a wave built-in kinds go together; an object of a custom kind is
    /// seen gone before the next, for the next may be its controller.
    pub(crate) async fn undo_entries(&self, entries: Vec<Entry>) -> Result<TakenAway, Setback> {
        let mut waves: BTreeMap<u32, Vec<Entry>> = BTreeMap::new();
        for entry in entries {
            waves.entry(entry.wave).or_default().push(entry);
        }
        for (_, wave) in waves.into_iter().rev() {
            let mut batch: Vec<Entry> = Vec::new();
            for entry in wave.into_iter().rev() {
                if order::is_built_in(&entry.object.gvk) {
                    batch.push(entry);
                    continue;
                }
                // A custom object after built-in ones in this order: they are asked for first, not waited for.
                let before = self.undo_batch(std::mem::take(&mut batch)).await?;
                let own = self.undo_batch(vec![entry]).await?;
                if let (TakenAway::Waiting { .. }, _) | (_, TakenAway::Waiting { .. }) = (&before, &own) {
                    return Ok(both(before, own));
                }
            }
            let rest = self.undo_batch(batch).await?;
            if rest != TakenAway::Gone {
                return Ok(rest);
            }
        }
        Ok(TakenAway::Gone)
    }

    async fn undo_batch(&self, entries: Vec<Entry>) -> Result<TakenAway, Setback> {
        let results = each(entries, |entry| async move {
            let result = self.undo_one(&entry).await;
            (entry, result)
        })
        .await;
        let (mut on, mut messages, mut worst) = (Vec::new(), Vec::new(), None);
        for (entry, result) in results {
            match result {
                Ok(Undone::Gone) => self.ledger.forget(&entry.object),
                Ok(Undone::Waiting(message)) => {
                    let seen = chandlery_core::ports::Scope::seen(self)
                        .into_iter()
                        .find(|w| w.target == entry.object);
                    on.push(seen.unwrap_or(Watched {
                        target: entry.object.clone(),
                        seen: None,
                    }));
                    messages.push(message);
                }
                Err(error) => {
                    let setback = error.into_setback();
                    let message = format!("{} cannot be taken away: {}", entry.object, setback.message);
                    worst = Some(Setback { message, ..setback });
                }
            }
        }
        match worst {
            Some(setback) => Err(setback),
            None if on.is_empty() => Ok(TakenAway::Gone),
            None => Ok(TakenAway::Waiting {
                on,
                message: summary(&messages),
            }),
        }
    }

    async fn undo_one(&self, entry: &Entry) -> Result<Undone, CallError> {
        let served = match self.connection.served(&entry.object.gvk).await {
            Ok(served) => served,
            // With its kind every object of it is gone.
            Err(CallError::NotFound(_)) => return Ok(Undone::Gone),
            Err(error) => return Err(error),
        };
        // The host undoes what was done under a grant, whatever the grant is by now.
        let host = Guard {
            scope: self.guard.scope.clone(),
            grant: Grant::everything(),
            sealed_secrets: Vec::new(),
        };
        let admitted = host.admit(served, &entry.object, Verb::Delete, None)?;
        let outcome = self.undo_found(&admitted, entry).await;
        admitted.record(outcome)
    }

    async fn undo_found(&self, admitted: &Admitted, entry: &Entry) -> Result<Undone, CallError> {
        let object = match self.fetch(admitted, METADATA_ONLY).await {
            Ok(Some(object)) => object,
            Ok(None) => return Ok(Undone::Gone),
            Err(CallError::NotFound(_)) => return Ok(Undone::Gone),
            Err(error) => return Err(error),
        };
        let there = uid(&object);
        if entry.uid.is_some() && entry.uid != there {
            // A successor of the same name is somebody else's.
            return Ok(Undone::Gone);
        }
        if annotation(&object, OWNER_ANNOTATION) != Some(&self.owner_mark) {
            // Never came to be the step's, or was taken over: not the step's to take away.
            return Ok(if entry.mode == Mode::Made && entry.uid.is_some() {
                self.delete_made(admitted, there).await?
            } else {
                Undone::Gone
            });
        }
        if Self::is_kept(&object) {
            self.unmark(admitted, there.as_ref()).await?;
            return Ok(Undone::Gone);
        }
        match entry.mode {
            Mode::Made => self.delete_made(admitted, there).await,
            Mode::Joined => self.withdraw(admitted, there.as_ref()).await,
            // The write came to pass, its answer did not. Had somebody else a hand in the object, it is theirs.
            Mode::Pending if self.is_sole_manager(&object) => self.delete_made(admitted, there).await,
            Mode::Pending => self.withdraw(admitted, there.as_ref()).await,
        }
    }

    async fn delete_made(&self, admitted: &Admitted, uid: Option<chandlery_core::Uid>) -> Result<Undone, CallError> {
        let Some(uid) = uid else {
            return Err(CallError::Other("the cluster shows an object without a UID".into()));
        };
        Ok(match self.delete_one(admitted, &uid, Propagation::Background).await? {
            DeletionState::Gone => Undone::Gone,
            DeletionState::Deleting(finalizers) if finalizers.is_empty() => {
                Undone::Waiting(format!("{} is ending", admitted.target))
            }
            DeletionState::Deleting(finalizers) => {
                Undone::Waiting(format!("{} is held by {}", admitted.target, finalizers.join(", ")))
            }
        })
    }

    /// Whether nobody else has written to the object's own fields. The control plane's own controllers do so to what others
    /// made (a claim is bound, a revision counted), and do not count.
    pub(crate) fn is_sole_manager(&self, object: &Value) -> bool {
        const CONTROL_PLANE: [&str; 4] = ["kube-controller-manager", "kube-scheduler", "kube-apiserver", "kubelet"];
        let text = |entry: &Value, name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        managers
            .into_iter()
            .flatten()
            .filter(|entry| text(entry, "subresource").is_empty())
            .map(|entry| text(entry, "manager"))
            .all(|manager| manager == self.field_manager || CONTROL_PLANE.contains(&manager.as_str()))
    }

    /// Withdraws the step's fields: an apply with none of them, by the same manager, for this very object.
    async fn withdraw(&self, admitted: &Admitted, uid: Option<&chandlery_core::Uid>) -> Result<Undone, CallError> {
        let target = &admitted.target;
        let mut document =
            json!({"apiVersion": target.gvk.api_version, "kind": target.gvk.kind, "metadata": {"name": target.name}});
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            if let Some(namespace) = &target.namespace {
                metadata.insert("namespace".into(), namespace.clone().into());
            }
            if let Some(uid) = uid {
                metadata.insert("uid".into(), uid.as_str().into());
            }
        }
        let manager = query(&[("fieldManager", &self.field_manager), ("force", "true")]);
        let ask = Ask::write(
            Method::PATCH,
            format!("{}?{manager}", admitted.served.object(target)),
            &document,
        )
        .content_type("application/apply-patch+yaml")
        .accept(METADATA_ONLY);
        let answer = self.connection.send(ask).await.map_err(NoAnswer::into_call_error)?;
        match self.judge(admitted, "patch", &answer, Asked::Write).await {
            Ok(()) => Ok(Undone::Gone),
            Err(CallError::NotFound(_)) => Ok(Undone::Gone),
            Err(CallError::Conflict(_)) if !matches!(self.fetch(admitted, METADATA_ONLY).await?, Some(object) if chandlery_core::object::uid(&object).as_ref() == uid) => {
                Ok(Undone::Gone)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the owner mark off an object that is kept, so that another step may have it.
    async fn unmark(&self, admitted: &Admitted, uid: Option<&chandlery_core::Uid>) -> Result<(), CallError> {
        let patch = json!({"metadata": {"uid": uid, "annotations": {OWNER_ANNOTATION: null}}});
        let ask = Ask::write(Method::PATCH, admitted.served.object(&admitted.target), &patch)
            .content_type("application/merge-patch+json")
            .accept(METADATA_ONLY);
        let answer = self.connection.send(ask).await.map_err(NoAnswer::into_call_error)?;
        match self.judge(admitted, "patch", &answer, Asked::Patch).await {
            // Gone, or another object by now: what was kept is not there any more.
            Err(CallError::NotFound(_) | CallError::Conflict(_)) => Ok(()),
            other => other,
        }
    }
}

fn both(one: TakenAway, other: TakenAway) -> TakenAway {
    match (one, other) {
        (
            TakenAway::Waiting { mut on, message },
            TakenAway::Waiting {
                on: more,
                message: also,
            },
        ) => {
            on.extend(more);
            TakenAway::Waiting {
                on,
                message: format!("{message}; {also}"),
            }
        }
        (TakenAway::Gone, other) => other,
        (one, TakenAway::Gone) => one,
    }
}

fn summary(messages: &[String]) -> String {
    let mut text = messages.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    if messages.len() > 3 {
        text.push_str(&format!("; and {} more", messages.len() - 3));
    }
    text
}

/// For a sentence on what of an inventory is left behind.
pub(crate) fn names(entries: &[Entry]) -> String {
    let list: Vec<&ObjectRef> = entries.iter().map(|entry| &entry.object).collect();
    let mut text = list
        .iter()
        .take(20)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if list.len() > 20 {
        text.push_str(&format!(" and {} more", list.len() - 20));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use chandlery_core::Digest;
    use chandlery_core::cluster::Facts;
    use chandlery_core::grant::Grant;
    use chandlery_core::memory::MemoryLedger;
    use chandlery_core::names::KEEP_ANNOTATION;
    use chandlery_core::ports::Scope as _;
    use chandlery_core::record::{Receipt, Record, Target};
    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::Client;
    use kube::client::Body;
    use tower::BoxError;

    use super::*;
    use crate::connection::Connection;
    use crate::scope::ScopeOptions;

    fn kept(uid: &str, mark: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "namespace": "default", "name": "c", "uid": uid, "resourceVersion": "1",
            "annotations": {KEEP_ANNOTATION: "true", OWNER_ANNOTATION: mark}}})
    }

    /// A cluster whose ConfigMap is another step's new one as soon as it has been looked at.
    fn cluster(object: &Arc<Mutex<Value>>) -> Client {
        let object = object.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let object = object.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let (status, answer) = match (head.method.as_str(), head.uri.path()) {
                    ("GET", "/api/v1") => (
                        200,
                        json!({"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]}),
                    ),
                    ("GET", _) => (
                        200,
                        std::mem::replace(&mut *object.lock().unwrap(), kept("2", "other/step")),
                    ),
                    _ => {
                        let patch: Value = serde_json::from_slice(&body)?;
                        let mut object = object.lock().unwrap();
                        // As a real server takes a merge patch with a UID.
                        if patch
                            .pointer("/metadata/uid")
                            .is_some_and(|uid| uid != &object["metadata"]["uid"])
                        {
                            (409, json!({"kind": "Status", "message": "another UID"}))
                        } else {
                            object["metadata"]["annotations"]
                                .as_object_mut()
                                .unwrap()
                                .remove(OWNER_ANNOTATION);
                            (200, object.clone())
                        }
                    }
                };
                let response = Response::builder()
                    .status(status)
                    .body(Body::from(answer.to_string().into_bytes()))?;
                Ok::<_, BoxError>(response)
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn the_mark_is_taken_off_the_very_object_that_was_looked_at_and_off_no_other() {
        let object = Arc::new(Mutex::new(kept("1", "uid/step")));
        let receipt = Receipt {
            plugin: "p".into(),
            digest: Digest::of(b"p"),
            spec: json!({}),
            target: Target::Remote {
                name: "r".into(),
                uid: "r".parse().unwrap(),
            },
            cluster_identity: String::new(),
            background_deletion: false,
            needs: vec![],
        };
        let ledger = Arc::new(MemoryLedger::new(Record::new("step".parse().unwrap(), receipt)));
        let facts = Facts {
            name: "remote".into(),
            identity: "an-identity".into(),
            host: "test".into(),
            port: 443,
            version: "1.34.4".into(),
            path: vec![],
        };
        let options = ScopeOptions {
            grant: Grant::everything(),
            field_manager: "chandlery/uid/step".into(),
            owner_mark: "uid/step".into(),
            sealed_secrets: vec![],
        };
        let scope = ClusterScope::new(Connection::to(cluster(&object)), facts, ledger, options);
        let entry = Entry {
            object: ObjectRef::new("v1", "ConfigMap", Some("default"), "c"),
            uid: Some("1".parse().unwrap()),
            mode: Mode::Made,
            wave: 0,
        };
        assert_eq!(scope.take_away(vec![entry]).await, Ok(TakenAway::Gone));
        assert_eq!(*object.lock().unwrap(), kept("2", "other/step"));
    }
}
