//! Guarded changes and deletions: what the host never undoes. Each names the object it means.

use chandlery_core::cluster::{CallError, Deletion, DeletionState, JsonPatch, Problem};
use chandlery_core::grant::Verb;
use chandlery_core::names::KEEP_ANNOTATION;
use chandlery_core::object::{annotation, finalizers, is_deleting, resource_version, uid};
use http::Method;
use serde_json::{Value, json};

use crate::answers::Asked;
use crate::guard::Admitted;
use crate::scope::{ClusterScope, each};
use crate::wire::{Ask, METADATA_ONLY, NoAnswer, query};

impl ClusterScope {
    pub(crate) async fn patch_all(&self, patches: Vec<JsonPatch>) -> Vec<Result<(), CallError>> {
        // Not in the inventory, but the receipt must say that the cluster was written to.
        if let Err(error) = self.intend(Vec::new()).await {
            return patches.iter().map(|_| Err(error.clone())).collect();
        }
        each(patches, |patch| self.patch_one(patch)).await
    }

    async fn patch_one(&self, patch: JsonPatch) -> Result<(), CallError> {
        let JsonPatch {
            target,
            subresource,
            patch,
        } = patch;
        if !matches!(subresource.as_deref(), None | Some("status" | "scale")) {
            return Err(CallError::Invalid(vec![Problem {
                path: "/subresource".into(),
                message: "only `status` and `scale` can be patched".into(),
            }]));
        }
        let admitted = self.admit(&target, Verb::Patch, subresource.as_deref()).await?;
        let target = admitted.target.clone();
        self.guard.check_patch(&admitted.served, &target, &patch)?;
        let tail = subresource.map(|s| format!("/{s}")).unwrap_or_default();
        let manager = query(&[("fieldManager", &self.field_manager)]);
        let uri = format!("{}{tail}?{manager}", admitted.served.object(&target));
        let ask = Ask::write(Method::PATCH, uri, &patch)
            .content_type("application/json-patch+json")
            .accept(METADATA_ONLY);
        let outcome = match self.connection.send(ask).await {
            Ok(answer) => {
                let verdict = self.judge(&admitted, "patch", &answer, Asked::Patch).await;
                if verdict.is_ok() {
                    self.saw(&target, resource_version(&answer.body));
                }
                verdict
            }
            Err(NoAnswer::Lost(why)) => Err(CallError::Conflict(format!(
                "whether the patch of {target} was taken is not known: {why}"
            ))),
            Err(other) => Err(other.into_call_error()),
        };
        admitted.record(outcome)
    }

    pub(crate) async fn delete_all(&self, deletions: Vec<Deletion>) -> Vec<Result<DeletionState, CallError>> {
        if let Err(error) = self.intend(Vec::new()).await {
            return deletions.iter().map(|_| Err(error.clone())).collect();
        }
        each(deletions, |deletion| async move {
            let admitted = self.admit(&deletion.target, Verb::Delete, None).await?;
            let outcome = self.delete_one(&admitted, &deletion.uid, deletion.propagation).await;
            admitted.record(outcome)
        })
        .await
    }

    /// Asks for the deletion of exactly this object, once; where it is already asked for, only looks.
    pub(crate) async fn delete_one(
        &self,
        admitted: &Admitted,
        wanted: &chandlery_core::Uid,
        propagation: chandlery_core::cluster::Propagation,
    ) -> Result<DeletionState, CallError> {
        match self.fetch(admitted, METADATA_ONLY).await? {
            None => return Ok(DeletionState::Gone),
            Some(object) if uid(&object).as_ref() != Some(wanted) => return Ok(DeletionState::Gone),
            Some(object) if is_deleting(&object) => return Ok(DeletionState::Deleting(finalizers(&object))),
            Some(_) => {}
        }
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": wanted}, "propagationPolicy": propagation.as_str(),
        });
        let ask = Ask::write(Method::DELETE, admitted.served.object(&admitted.target), &options).accept(METADATA_ONLY);
        let answer = self.connection.send(ask).await.map_err(NoAnswer::into_call_error)?;
        match self.judge(admitted, "delete", &answer, Asked::Delete).await {
            Ok(()) if !is_success(&answer.body) && !answer.is_of(&admitted.target) => Err(CallError::Unavailable(
                format!("the cluster does not say what became of {}", admitted.target),
            )),
            // A status answer tells of absence, an object that it still stays.
            Ok(()) if answer.body.pointer("/metadata/deletionTimestamp").is_none() => {
                self.saw(&admitted.target, None);
                Ok(DeletionState::Gone)
            }
            Ok(()) => {
                self.saw(&admitted.target, resource_version(&answer.body));
                Ok(DeletionState::Deleting(finalizers(&answer.body)))
            }
            // Absent, or another object by now: the one that was meant is gone.
            Err(CallError::NotFound(_)) => Ok(DeletionState::Gone),
            Err(CallError::Conflict(_)) if matches!(self.fetch(admitted, METADATA_ONLY).await?, Some(object) if uid(&object).as_ref() == Some(wanted)) => {
                Err(CallError::Conflict(answer.message()))
            }
            Err(CallError::Conflict(_)) => Ok(DeletionState::Gone),
            Err(error) => Err(error),
        }
    }

    /// Whether an object bears the mark that exempts it from being taken away.
    pub(crate) fn is_kept(object: &Value) -> bool {
        annotation(object, KEEP_ANNOTATION) == Some("true")
    }
}

/// Whether this is the status by which a server says that a deletion is done.
fn is_success(body: &Value) -> bool {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    text("kind") == Some("Status") && text("status") == Some("Success")
}
