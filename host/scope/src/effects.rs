//! Writes: the ledger entry first, then the wire, then the read-back of a lost answer.

use std::collections::BTreeMap;

use chandlery_core::cluster::{CallError, Deletion, DeletionState, JsonPatch, Problem};
use chandlery_core::grant::Verb;
use chandlery_core::names::{GENERATE_ANNOTATION, KEEP_ANNOTATION, OWNER_ANNOTATION};
use chandlery_core::object::{annotation, finalizers, is_deleting, resource_version, uid};
use chandlery_core::record::{Entry, Mode};
use chandlery_core::{ObjectRef, order};
use http::Method;
use serde_json::{Value, json};

use crate::answers::{Answer, Asked};
use crate::guard::Admitted;
use crate::scope::{ClusterScope, each};
use crate::wire::{Ask, METADATA_ONLY, NoAnswer, query};

/// Length of a generated secret: 32 of 62 characters are 190 bits.
const GENERATED: usize = 32;

/// One object on its way to be written.
struct Write {
    /// Its place in the list it came in.
    at: usize,
    admitted: Admitted,
    document: Value,
    /// As found before the write; `None` where there is none.
    found: Option<Found>,
}

/// What is known of an object before it is written.
#[derive(Clone)]
struct Found {
    uid: Option<chandlery_core::Uid>,
    /// By the ledger alone; nothing was read.
    by_ledger: bool,
    /// It bears the step's mark, and nobody else has written to it: a write whose answer was lost made it.
    made: bool,
}

type Results = BTreeMap<usize, Result<(), CallError>>;

fn ordered(results: Results, length: usize) -> Vec<Result<(), CallError>> {
    let mut results = results;
    (0..length)
        .map(|at| {
            results
                .remove(&at)
                .unwrap_or_else(|| Err(CallError::Other("nothing became of this item".into())))
        })
        .collect()
}

impl ClusterScope {
    fn mark(&self, document: &mut Value) {
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if !annotations.is_object() {
                *annotations = json!({});
            }
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(OWNER_ANNOTATION.into(), self.owner_mark.clone().into());
            }
        }
    }

    fn is_ours(&self, object: &Value) -> bool {
        annotation(object, OWNER_ANNOTATION) == Some(&self.owner_mark)
    }

    /// Enters objects in the ledger, durable when this returns.
    async fn intend(&self, entries: Vec<Entry>) -> Result<(), CallError> {
        self.ledger
            .intend(&self.facts.identity, entries)
            .await
            .map_err(|setback| match setback.reason.as_str() {
                "InventoryFull" => CallError::Exhausted(setback.message),
                _ => CallError::Unavailable(format!(
                    "the host could not note what is about to be written: {}",
                    setback.message
                )),
            })
    }

    /// Parses and admits a list of documents; what is refused has its result already.
    async fn prepare(&self, objects: Vec<Value>, create: bool) -> (Vec<(usize, Admitted, Value)>, Results) {
        let mut results = Results::new();
        let mut good = Vec::new();
        let mut twice = std::collections::HashSet::new();
        for (at, document) in objects.into_iter().enumerate() {
            let admitted = match ObjectRef::of(&document) {
                Err(wrong) => Err(CallError::Invalid(vec![Problem {
                    path: wrong.path,
                    message: wrong.message,
                }])),
                Ok(target) if !twice.insert(target.clone()) => Err(CallError::Invalid(vec![Problem {
                    path: String::new(),
                    message: format!("{target} is there twice in this list"),
                }])),
                Ok(target) => self.admit_write(&target, &document, create).await,
            };
            match admitted {
                Ok(admitted) => good.push((at, admitted, document)),
                Err(error) => {
                    results.insert(at, Err(error));
                }
            }
        }
        (good, results)
    }

    async fn admit_write(&self, target: &ObjectRef, document: &Value, create: bool) -> Result<Admitted, CallError> {
        let verb = if create { Verb::Create } else { Verb::Patch };
        let admitted = self.admit(target, verb, None).await?;
        self.guard
            .check_document(&admitted.served, &admitted.target, document)?;
        Ok(admitted)
    }

    pub(crate) async fn apply_all(&self, objects: Vec<Value>, force: bool) -> Vec<Result<(), CallError>> {
        let length = objects.len();
        let (good, mut results) = self.prepare(objects, false).await;
        let mut ranks: BTreeMap<u8, Vec<(usize, Admitted, Value)>> = BTreeMap::new();
        for item in good {
            ranks.entry(order::rank(&item.1.target.gvk)).or_default().push(item);
        }
        for (_, items) in ranks {
            results.extend(self.apply_rank(items, force).await);
        }
        ordered(results, length)
    }

    /// Applies objects of one rank: look, enter, write.
    async fn apply_rank(&self, items: Vec<(usize, Admitted, Value)>, force: bool) -> Results {
        let mut results = Results::new();
        let looked = each(items, |(at, admitted, document)| async move {
            let found = self.look(&admitted).await;
            (at, admitted, document, found)
        })
        .await;
        let mut writes = Vec::new();
        for (at, admitted, document, found) in looked {
            match found {
                Ok(found) => writes.push(Write {
                    at,
                    admitted,
                    document,
                    found,
                }),
                Err(error) => {
                    results.insert(at, admitted.record(Err(error)));
                }
            }
        }
        if let Err(error) = self.enter(&writes).await {
            results.extend(writes.into_iter().map(|write| (write.at, Err(error.clone()))));
            return results;
        }
        results.extend(
            each(writes, |write| async move {
                let at = write.at;
                let outcome = self.apply_one(&write, force).await;
                if outcome.is_ok() {
                    self.name(&write.admitted.target);
                }
                (at, write.admitted.record(outcome))
            })
            .await,
        );
        results
    }

    /// Whether the object may be written, and what it is before. What the ledger knows to be the step's own is not read: the
    /// write itself bears the UID and fails where that is no longer true.
    async fn look(&self, admitted: &Admitted) -> Result<Option<Found>, CallError> {
        if let Some(Entry {
            uid: Some(uid),
            mode: Mode::Made | Mode::Joined,
            ..
        }) = self.ledger.entry(&admitted.target)
        {
            return Ok(Some(Found {
                uid: Some(uid),
                by_ledger: true,
                made: false,
            }));
        }
        self.look_there(admitted).await
    }

    /// The same, by reading the object.
    async fn look_there(&self, admitted: &Admitted) -> Result<Option<Found>, CallError> {
        let target = &admitted.target;
        let Some(object) = self.fetch(admitted, METADATA_ONLY).await? else {
            self.guard.check(&admitted.served, target, Verb::Create, None)?;
            return Ok(None);
        };
        if is_deleting(&object) {
            return Err(CallError::Conflict(format!(
                "{target} is being deleted; it waits for {}",
                waits_for(&object)
            )));
        }
        match annotation(&object, OWNER_ANNOTATION) {
            Some(mark) if mark != self.owner_mark => Err(CallError::Conflict(format!(
                "{target} belongs to another step ({mark})"
            ))),
            _ => Ok(Some(Found {
                uid: uid(&object),
                by_ledger: false,
                made: self.is_ours(&object) && self.is_sole_manager(&object),
            })),
        }
    }

    /// Ledger entries for what is about to be written; what is entered already stays as it is.
    async fn enter(&self, writes: &[Write]) -> Result<(), CallError> {
        let wave = self
            .ledger
            .record()
            .inventory
            .iter()
            .map(|entry| entry.wave + 1)
            .max()
            .unwrap_or(0);
        let entries = writes
            .iter()
            .filter(|write| !write.found.as_ref().is_some_and(|found| found.by_ledger))
            .map(|write| self.entry_for(&write.admitted.target, write.found.as_ref(), wave))
            .collect();
        self.intend(entries).await
    }

    fn entry_for(&self, target: &ObjectRef, found: Option<&Found>, wave: u32) -> Entry {
        let known = self.ledger.entry(target);
        let wave = known.as_ref().map_or(wave, |entry| entry.wave);
        match (found, known) {
            // An object of another UID than the one that was made: what was made is gone, this one is somebody's.
            (Some(found), Some(known)) if known.uid.is_some() && known.uid != found.uid => Entry {
                object: target.clone(),
                uid: found.uid.clone(),
                mode: Mode::Joined,
                wave,
            },
            (Some(_), Some(known)) => known,
            (Some(found), None) => Entry {
                object: target.clone(),
                uid: found.uid.clone(),
                mode: Mode::Joined,
                wave,
            },
            (None, _) => Entry {
                object: target.clone(),
                uid: None,
                mode: Mode::Pending,
                wave,
            },
        }
    }

    async fn apply_one(&self, write: &Write, force: bool) -> Result<(), CallError> {
        let outcome = self.apply_found(write, write.found.as_ref(), force).await;
        let by_ledger = write.found.as_ref().is_some_and(|found| found.by_ledger);
        match outcome {
            // The ledger was behind: the object is gone or another. Look, enter anew, and write once more.
            Err(CallError::Conflict(_) | CallError::NotFound(_)) if by_ledger => {
                let found = self.look_there(&write.admitted).await?;
                let same = matches!((&found, &write.found), (Some(there), Some(known)) if there.uid == known.uid);
                if same {
                    return outcome;
                }
                self.intend(vec![self.entry_for(&write.admitted.target, found.as_ref(), 0)])
                    .await?;
                self.apply_found(write, found.as_ref(), force).await
            }
            outcome => outcome,
        }
    }

    async fn apply_found(&self, write: &Write, found: Option<&Found>, force: bool) -> Result<(), CallError> {
        let target = &write.admitted.target;
        let mut document = write.document.clone();
        self.mark(&mut document);
        if let (Some(metadata), Some(known)) = (
            document.get_mut("metadata").and_then(Value::as_object_mut),
            found.and_then(|f| f.uid.as_ref()),
        ) {
            // With a UID an apply never creates: what was looked at is what is written.
            metadata.entry("uid").or_insert_with(|| known.as_str().into());
        }
        let parameters = query(&[
            ("fieldManager", &self.field_manager),
            ("force", if force { "true" } else { "false" }),
            ("fieldValidation", "Strict"),
        ]);
        let uri = format!("{}?{parameters}", write.admitted.served.object(target));
        let ask = Ask::write(Method::PATCH, uri, &document)
            .content_type("application/apply-patch+yaml")
            .accept(METADATA_ONLY);
        let answer = self
            .connection
            .send(ask.clone())
            .await
            .map_err(NoAnswer::into_call_error)?;
        if answer.status == 500 && self.refuses_always(&write.admitted, ask, &answer).await {
            return Err(CallError::Invalid(vec![Problem {
                path: String::new(),
                message: answer.message(),
            }]));
        }
        self.judge(&write.admitted, "patch", &answer, Asked::Write).await?;
        self.saw(target, resource_version(&answer.body));
        if is_deleting(&answer.body) {
            return Err(CallError::Conflict(format!(
                "{target} is being deleted; it waits for {}",
                waits_for(&answer.body)
            )));
        }
        let entry = self.ledger.entry(target);
        let before = entry.as_ref().map(|entry| entry.mode);
        let mode = match (answer.status, before) {
            (201, _) | (_, Some(Mode::Made)) => Mode::Made,
            (_, Some(Mode::Pending)) if found.is_some_and(|found| found.made) => Mode::Made,
            // It was absent when looked at, and now an older one was found: somebody else was quicker.
            _ => Mode::Joined,
        };
        self.ledger.observe(Entry {
            object: target.clone(),
            uid: uid(&answer.body),
            mode,
            wave: entry.map_or(0, |entry| entry.wave),
        });
        Ok(())
    }

    /// Whether a 500 is the document's fault: the server answers an apply with a field it does not know by a 500 without a
    /// reason (seen on 1.34). Then the object can be read, and a dry run of the same apply has the same answer.
    async fn refuses_always(&self, admitted: &Admitted, ask: Ask, answer: &Answer) -> bool {
        let reason = answer.body.get("reason").and_then(Value::as_str).unwrap_or_default();
        if !reason.is_empty() || self.fetch(admitted, METADATA_ONLY).await.is_err() {
            return false;
        }
        let dry = Ask {
            uri: format!("{}&dryRun=All", ask.uri),
            ..ask
        };
        matches!(self.connection.send(dry).await, Ok(again) if again.status == answer.status && again.message() == answer.message())
    }

    pub(crate) async fn create_all(&self, objects: Vec<Value>) -> Vec<Result<(), CallError>> {
        let length = objects.len();
        let (good, mut results) = self.prepare(objects, true).await;
        let mut ranks: BTreeMap<u8, Vec<(usize, Admitted, Value)>> = BTreeMap::new();
        for item in good {
            ranks.entry(order::rank(&item.1.target.gvk)).or_default().push(item);
        }
        for (_, items) in ranks {
            results.extend(self.create_rank(items).await);
        }
        ordered(results, length)
    }

    async fn create_rank(&self, items: Vec<(usize, Admitted, Value)>) -> Results {
        let mut results = Results::new();
        let looked = each(items, |(at, admitted, document)| async move {
            let there = self.fetch(&admitted, METADATA_ONLY).await;
            (at, admitted, document, there)
        })
        .await;
        let mut writes = Vec::new();
        for (at, admitted, document, there) in looked {
            match there {
                Ok(None) => writes.push(Write {
                    at,
                    admitted,
                    document,
                    found: None,
                }),
                Ok(Some(object)) => {
                    let outcome = self.created_before(&admitted.target, &object);
                    results.insert(at, admitted.record(outcome));
                }
                Err(error) => {
                    results.insert(at, admitted.record(Err(error)));
                }
            }
        }
        if let Err(error) = self.enter(&writes).await {
            results.extend(writes.into_iter().map(|write| (write.at, Err(error.clone()))));
            return results;
        }
        results.extend(
            each(writes, |write| async move {
                let at = write.at;
                let outcome = self.create_one(&write).await;
                (at, write.admitted.record(outcome))
            })
            .await,
        );
        results
    }

    /// What an object that is already there means to a create.
    fn created_before(&self, target: &ObjectRef, object: &Value) -> Result<(), CallError> {
        if is_deleting(object) {
            return Err(CallError::Conflict(format!(
                "{target} is being deleted; it waits for {}",
                waits_for(object)
            )));
        }
        if !self.is_ours(object) {
            return Err(CallError::Conflict(format!(
                "{target} is there already and is not this step's"
            )));
        }
        let wave = self.ledger.entry(target).map_or(0, |entry| entry.wave);
        self.ledger.observe(Entry {
            object: target.clone(),
            uid: uid(object),
            mode: Mode::Made,
            wave,
        });
        self.name(target);
        Ok(())
    }

    async fn create_one(&self, write: &Write) -> Result<(), CallError> {
        let target = &write.admitted.target;
        let mut document = write.document.clone();
        generate(&mut document)?;
        self.mark(&mut document);
        let parameters = query(&[("fieldManager", &self.field_manager), ("fieldValidation", "Strict")]);
        let uri = format!(
            "{}?{parameters}",
            write.admitted.served.collection(target.namespace.as_deref())
        );
        match self
            .connection
            .send(Ask::write(Method::POST, uri, &document).accept(METADATA_ONLY))
            .await
        {
            Ok(answer) if answer.status != 409 => {
                self.judge(&write.admitted, "create", &answer, Asked::Write).await?;
                self.saw(target, resource_version(&answer.body));
                self.created_before(target, &answer.body)
            }
            Err(NoAnswer::Fenced) => Err(CallError::Fenced),
            // Already there, or the answer was lost: never sent again blindly, read back instead.
            answered => match self.fetch(&write.admitted, METADATA_ONLY).await? {
                Some(object) => self.created_before(target, &object),
                None => Err(match answered {
                    Ok(answer) => CallError::Conflict(answer.message()),
                    Err(lost) => lost.into_call_error(),
                }),
            },
        }
    }

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

/// What a deletion waits for, in words.
pub(crate) fn waits_for(object: &Value) -> String {
    match finalizers(object) {
        list if list.is_empty() => "its grace period".to_owned(),
        list => list.join(", "),
    }
}

/// Fills the keys that a Secret asks to be generated.
fn generate(document: &mut Value) -> Result<(), CallError> {
    let Some(keys) = annotation(document, GENERATE_ANNOTATION).map(str::to_owned) else {
        return Ok(());
    };
    let bad = |message: &str| {
        CallError::Invalid(vec![Problem {
            path: "/metadata/annotations/chandlery.dev~1generate".into(),
            message: message.to_owned(),
        }])
    };
    if document.get("kind").and_then(Value::as_str) != Some("Secret")
        || document.get("apiVersion").and_then(Value::as_str) != Some("v1")
    {
        return Err(bad("only a Secret can have keys generated"));
    }
    let Some(map) = document.as_object_mut() else {
        return Err(bad("only a Secret can have keys generated"));
    };
    let data = map.entry("stringData").or_insert_with(|| json!({}));
    let Some(data) = data.as_object_mut() else {
        return Err(bad("stringData is not a map"));
    };
    for key in keys.split(',').map(str::trim) {
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
            return Err(bad("names a key that no Secret has"));
        }
        data.insert(key.to_owned(), random_text().into());
    }
    Ok(())
}

fn random_text() -> String {
    use rand::Rng as _;
    rand::rng()
        .sample_iter(rand::distr::Alphanumeric)
        .take(GENERATED)
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_keys_are_filled_and_differ() {
        let secret = || json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"annotations": {"chandlery.dev/generate": "a, b"}}});
        let mut one = secret();
        generate(&mut one).unwrap();
        let (a, b) = (
            one["stringData"]["a"].as_str().unwrap(),
            one["stringData"]["b"].as_str().unwrap(),
        );
        assert!(a.len() == GENERATED && a != b);
        let mut other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {"chandlery.dev/generate": "a"}}});
        assert!(generate(&mut other).is_err());
        let mut climbing = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"annotations": {"chandlery.dev/generate": "a/b"}}});
        assert!(generate(&mut climbing).is_err());
    }
}
