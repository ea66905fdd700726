//! Making objects once: never sent again blindly, read back instead; secrets that nobody is shown are made here.

use chandlery_core::ObjectRef;
use chandlery_core::cluster::{CallError, Problem};
use chandlery_core::names::GENERATE_ANNOTATION;
use chandlery_core::object::{annotation, is_deleting, resource_version, uid};
use chandlery_core::record::{Entry, Mode};
use http::Method;
use serde_json::{Value, json};

use crate::answers::Asked;
use crate::effects::{Looked, Write, waits_for};
use crate::guard::Admitted;
use crate::scope::ClusterScope;
use crate::wire::{Ask, METADATA_ONLY, NoAnswer, query};

/// Length of a generated secret: 32 of 62 characters are 190 bits.
const GENERATED: usize = 32;

impl ClusterScope {
    /// Whether the object is to be made, or was made before.
    pub(crate) async fn look_before_create(&self, admitted: &Admitted) -> Result<Looked, CallError> {
        match self.fetch(admitted, METADATA_ONLY).await? {
            None => Ok(Looked::ToWrite(None)),
            Some(object) => {
                self.created_before(&admitted.target, &object)?;
                self.name(&admitted.target);
                Ok(Looked::There)
            }
        }
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
        Ok(())
    }

    pub(crate) async fn create_one(&self, write: &Write) -> Result<(), CallError> {
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
