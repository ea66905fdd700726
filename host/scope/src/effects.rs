//! Writes: the ledger entry first, then the wire, then the read-back of a lost answer.

use std::collections::BTreeMap;

use chandlery_core::cluster::{CallError, Problem};
use chandlery_core::grant::Verb;
use chandlery_core::names::OWNER_ANNOTATION;
use chandlery_core::object::{annotation, finalizers, is_deleting, resource_version, uid};
use chandlery_core::record::{Entry, Mode};
use chandlery_core::{ObjectRef, order};
use http::Method;
use serde_json::{Value, json};

use crate::answers::{Answer, Asked};
use crate::guard::Admitted;
use crate::scope::{ClusterScope, each};
use crate::wire::{Ask, METADATA_ONLY, NoAnswer, query};

/// One object on its way to be written.
pub(crate) struct Write {
    /// Its place in the list it came in.
    pub(crate) at: usize,
    pub(crate) admitted: Admitted,
    pub(crate) document: Value,
    /// As found before the write; `None` where there is none.
    pub(crate) found: Option<Found>,
}

/// What is known of an object before it is written.
#[derive(Clone)]
pub(crate) struct Found {
    uid: Option<chandlery_core::Uid>,
    /// By the ledger alone; nothing was read.
    by_ledger: bool,
    /// It bears the step's mark, and nobody else has written to it: a write whose answer was lost made it.
    made: bool,
}

/// How objects are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Made once.
    Create,
    /// By server-side apply.
    Apply {
        /// Fields of somebody else are taken over.
        force: bool,
    },
}

/// What looking at an object came to.
pub(crate) enum Looked {
    /// It may be written; as it was found.
    ToWrite(Option<Found>),
    /// There is nothing to do.
    There,
}

pub(crate) type Results = BTreeMap<usize, Result<(), CallError>>;

pub(crate) fn ordered(results: Results, length: usize) -> Vec<Result<(), CallError>> {
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
    pub(crate) fn mark(&self, document: &mut Value) {
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

    pub(crate) fn is_ours(&self, object: &Value) -> bool {
        annotation(object, OWNER_ANNOTATION) == Some(&self.owner_mark)
    }

    /// Enters objects in the ledger, durable when this returns.
    pub(crate) async fn intend(&self, entries: Vec<Entry>) -> Result<(), CallError> {
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
    pub(crate) async fn prepare(&self, objects: Vec<Value>, create: bool) -> (Vec<(usize, Admitted, Value)>, Results) {
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

    /// Writes objects, those first that others of the list may need.
    pub(crate) async fn write_all(&self, objects: Vec<Value>, how: How) -> Vec<Result<(), CallError>> {
        let length = objects.len();
        let (good, mut results) = self.prepare(objects, how == How::Create).await;
        let mut ranks: BTreeMap<u8, Vec<(usize, Admitted, Value)>> = BTreeMap::new();
        for item in good {
            ranks.entry(order::rank(&item.1.target.gvk)).or_default().push(item);
        }
        for (_, items) in ranks {
            results.extend(self.write_rank(items, how).await);
        }
        ordered(results, length)
    }

    /// Writes objects of one rank: look, enter, write.
    async fn write_rank(&self, items: Vec<(usize, Admitted, Value)>, how: How) -> Results {
        let mut results = Results::new();
        let looked = each(items, |(at, admitted, document)| async move {
            let looked = match how {
                How::Create => self.look_before_create(&admitted).await,
                How::Apply { .. } => self.look(&admitted).await.map(Looked::ToWrite),
            };
            (at, admitted, document, looked)
        })
        .await;
        let mut writes = Vec::new();
        for (at, admitted, document, looked) in looked {
            match looked {
                Ok(Looked::ToWrite(found)) => writes.push(Write {
                    at,
                    admitted,
                    document,
                    found,
                }),
                Ok(Looked::There) => {
                    results.insert(at, admitted.record(Ok(())));
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
                let outcome = match how {
                    How::Create => self.create_one(&write).await,
                    How::Apply { force } => self.apply_one(&write, force).await,
                };
                if outcome.is_ok() {
                    self.name(&write.admitted.target);
                }
                (write.at, write.admitted.record(outcome))
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
    pub(crate) async fn enter(&self, writes: &[Write]) -> Result<(), CallError> {
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
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            let given = metadata.remove("uid").filter(|given| !given.is_null());
            let known = found.and_then(|f| f.uid.as_ref());
            // With a UID an apply never creates: what was looked at is what is written, whatever the plugin says.
            match (given, known) {
                (Some(given), Some(known)) if given.as_str() != Some(known.as_str()) => {
                    return Err(CallError::Conflict(format!("{target} has UID {known}, not {given}")));
                }
                (_, Some(known)) => {
                    metadata.insert("uid".into(), known.as_str().into());
                }
                (Some(given), None) => {
                    metadata.insert("uid".into(), given);
                }
                (None, None) => {}
            }
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
        answer.expect(target)?;
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
}

/// What a deletion waits for, in words.
pub(crate) fn waits_for(object: &Value) -> String {
    match finalizers(object) {
        list if list.is_empty() => "its grace period".to_owned(),
        list => list.join(", "),
    }
}
