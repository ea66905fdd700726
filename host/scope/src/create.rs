//! Making objects once: never sent again blindly, read back instead; secrets that nobody is shown are made here.

use std::collections::BTreeMap;

use chandlery_core::cluster::{CallError, Problem};
use chandlery_core::names::GENERATE_ANNOTATION;
use chandlery_core::object::{annotation, is_deleting, resource_version, uid};
use chandlery_core::record::{Entry, Mode};
use chandlery_core::{ObjectRef, order};
use http::Method;
use serde_json::{Value, json};

use crate::answers::Asked;
use crate::effects::{Results, Write, ordered, waits_for};
use crate::guard::Admitted;
use crate::scope::{ClusterScope, each};
use crate::wire::{Ask, METADATA_ONLY, NoAnswer, query};

/// Length of a generated secret: 32 of 62 characters are 190 bits.
const GENERATED: usize = 32;

impl ClusterScope {
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
                answer.expect(target)?;
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
