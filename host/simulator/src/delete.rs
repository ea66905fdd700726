//! Deletion: at once, or marked and waiting for finalizers, for a grace period, or for the garbage collector.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::actors::definitions::{self, CLEANUP};
use crate::catalog::Resource;
use crate::object;
use crate::options::{DeleteOptions, Propagation};
use crate::reply::Answer;
use crate::request::Call;
use crate::status::{Cause, Failure};
use crate::store::Key;
use crate::world::{Target, World};

pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// What came of a deletion.
pub(crate) struct Deleted {
    pub(crate) document: Value,
    pub(crate) is_gone: bool,
}

impl World {
    pub(crate) fn delete(&mut self, call: &Call, target: &Target) -> Result<Answer, Failure> {
        let options = DeleteOptions::parse(call)?;
        self.warn_of_deletion(target, &options);
        let name = target.path.name.as_deref().unwrap_or_default();
        let version = target.version()?;
        let deleted = self.delete_one(target, name, &options)?;
        let resource = &target.resource;
        let returns_object = resource.built_in_kind().is_some_and(|kind| kind.returns_deleted());
        if deleted.is_gone && !returns_object {
            let mut details = Map::new();
            details.insert("name".into(), name.into());
            if !resource.group.is_empty() {
                details.insert("group".into(), resource.group.as_str().into());
            }
            details.insert("kind".into(), resource.plural.as_str().into());
            details.insert("uid".into(), object::uid(&deleted.document).into());
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
            return Ok(Answer::value(StatusCode::OK, &status));
        }
        // The only way to learn from the status that it is not over yet, and only with the oldest of the three options.
        let code = if !deleted.is_gone && options.orphan == Some(false) {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        };
        let mut document = deleted.document;
        object::set_type(&mut document, &resource.api_version(&version.name), &resource.kind);
        self.object_answer(call, target, code, &document)
    }

    pub(crate) fn delete_collection(&mut self, call: &Call, target: &Target) -> Result<Answer, Failure> {
        let options = DeleteOptions::parse(call)?;
        self.warn_of_deletion(target, &options);
        let (selection, keys) = self.selected(call, target)?;
        let version = target.version()?;
        let mut items = Vec::new();
        for key in keys {
            let Some(stored) = self.store.get(&key) else { continue };
            if !self.shows(&target.resource, &selection, &key, stored) {
                continue;
            }
            let mut document = stored.document();
            let inner = Target {
                resource: target.resource.clone(),
                path: crate::request::ResourcePath {
                    namespace: (!key.namespace.is_empty()).then(|| key.namespace.to_string()),
                    ..target.path.clone()
                },
            };
            match self.delete_one(&inner, &key.name, &options) {
                // The answer shows them as they were listed.
                Ok(_) => {}
                Err(failure) if failure.code == StatusCode::NOT_FOUND => {}
                Err(failure) => return Err(failure),
            }
            if target.resource.custom().is_some() {
                object::set_type(
                    &mut document,
                    &target.resource.api_version(&version.name),
                    &target.resource.kind,
                );
            } else {
                let map = object::map_mut(&mut document);
                map.remove("apiVersion");
                map.remove("kind");
            }
            items.push(document);
        }
        let mut metadata = json!({"resourceVersion": self.store.version().to_string()});
        if target.resource.custom().is_some() {
            // As in every list of custom resources.
            object::map_mut(&mut metadata).insert("continue".into(), "".into());
        }
        let list = json!({
            "kind": target.resource.list_kind.as_str(),
            "apiVersion": target.resource.api_version(&version.name),
            "metadata": metadata,
            "items": items,
        });
        Ok(Answer::value(StatusCode::OK, &list))
    }

    fn warn_of_deletion(&mut self, target: &Target, options: &DeleteOptions) {
        let warning = target
            .resource
            .built_in_kind()
            .and_then(|kind| kind.careless_deletion());
        let is_careless = options.orphan.is_none() && options.propagation.is_none();
        self.warned.extend(warning.filter(|_| is_careless).map(str::to_owned));
    }

    /// Deletes one object as far as it goes now.
    pub(crate) fn delete_one(
        &mut self,
        target: &Target,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Failure> {
        let key = target.key(name);
        let resource = &target.resource;
        let Some(stored) = self.store.get(&key) else {
            return Err(target.not_found(name));
        };
        let old = stored.document();
        check_preconditions(resource, name, &old, options)?;
        self.admit_delete(resource, &key)?;
        if resource.is("", "namespaces") {
            return Ok(self.delete_namespace(resource, key, old, options));
        }
        if resource.is(definitions::GROUP, definitions::PLURAL) && !object::is_deleting(&old) {
            return Ok(self.delete_definition(key, old, options));
        }
        let mut document = old.clone();
        let grace = self.grace(resource, &old, options);
        let finalizers = finalizers_after(resource, &old, options);
        let waits = grace > 0 || !finalizers.is_empty();
        if !waits {
            if resource.built_in_kind().is_some_and(|kind| kind.grace(&old).is_some()) {
                // What could have waited is marked all the same, and watchers see it.
                self.mark_deleting(&mut document, 0);
                if !options.dry_run && document != old {
                    self.write(key.clone(), document.clone());
                }
            }
            if !options.dry_run {
                self.store.remove(&key);
                object::set_resource_version(&mut document, self.store.version());
                self.after_removal(resource, &old);
            }
            return Ok(Deleted {
                document,
                is_gone: true,
            });
        }
        let had: Vec<String> = object::finalizers(&old).map(str::to_owned).collect();
        if had != finalizers {
            object::set_finalizers(&mut document, finalizers);
        }
        self.mark_deleting(&mut document, grace);
        let changed = document != old;
        if changed && !options.dry_run {
            let stored = self.write(key, document.clone());
            object::set_resource_version(&mut document, stored.version);
        }
        Ok(Deleted {
            document,
            is_gone: false,
        })
    }

    /// Sets when an object goes, if that is not set yet or is sooner now.
    pub(crate) fn mark_deleting(&self, document: &mut Value, grace: i64) {
        let metadata = object::metadata(document);
        let before = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
        if object::is_deleting(document) && before.is_none_or(|before| before <= grace) {
            if before.is_none() {
                object::set(document, "deletionGracePeriodSeconds", Some(grace.into()));
            }
            return;
        }
        let when = self
            .now
            .saturating_add(jiff::SignedDuration::from_secs(grace))
            .unwrap_or(jiff::Timestamp::MAX);
        let when = when.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        if let (Some(generation), false) = (
            metadata.get("generation").and_then(Value::as_i64),
            object::is_deleting(document),
        ) {
            object::set(document, "generation", Some((generation + 1).into()));
        }
        object::set(document, "deletionTimestamp", Some(when.into()));
        object::set(document, "deletionGracePeriodSeconds", Some(grace.into()));
    }

    fn grace(&self, resource: &Resource, document: &Value, options: &DeleteOptions) -> i64 {
        let Some(default) = resource.built_in_kind().and_then(|kind| kind.grace(document)) else {
            return 0;
        };
        match options.grace {
            Some(seconds) if seconds < 0 => 1,
            // Nothing waits longer than it would by itself if it does not even run.
            Some(seconds) if default > 0 => seconds,
            Some(_) | None => default,
        }
    }

    /// Whether an object without finalizers is removed by the update that took the last one away.
    pub(crate) fn may_go_now(&self, resource: &Resource, document: &Value) -> bool {
        if resource.is("", "namespaces") {
            let finalizers = document.pointer("/spec/finalizers").and_then(Value::as_array);
            return finalizers.is_none_or(Vec::is_empty);
        }
        object::metadata(document)
            .get("deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or_default()
            == 0
    }

    fn delete_namespace(&mut self, resource: &Resource, key: Key, old: Value, options: &DeleteOptions) -> Deleted {
        let mut document = old.clone();
        self.mark_deleting(&mut document, 0);
        object::set(&mut document, "deletionGracePeriodSeconds", None);
        let finalizers = finalizers_after(resource, &old, options);
        object::set_finalizers(&mut document, finalizers);
        let status = object::map_mut(&mut document)
            .entry("status")
            .or_insert_with(|| json!({}));
        object::map_mut(status).insert("phase".into(), "Terminating".into());
        if document != old && !options.dry_run {
            let stored = self.write(key, document.clone());
            object::set_resource_version(&mut document, stored.version);
        }
        Deleted {
            document,
            is_gone: false,
        }
    }

    /// A definition goes after its objects; the finalizer that sees to it is the server's own.
    fn delete_definition(&mut self, key: Key, old: Value, options: &DeleteOptions) -> Deleted {
        let mut document = old.clone();
        if !object::is_deleting(&old) {
            object::set(&mut document, "deletionTimestamp", Some(self.timestamp().into()));
            let mut finalizers: Vec<String> = object::finalizers(&old).map(str::to_owned).collect();
            finalizers.push(CLEANUP.to_owned());
            object::set_finalizers(&mut document, finalizers);
            let now = self.timestamp();
            let status = object::map_mut(
                object::map_mut(&mut document)
                    .entry("status")
                    .or_insert_with(|| json!({})),
            );
            let conditions = status.entry("conditions").or_insert_with(|| json!([]));
            if let Some(conditions) = conditions.as_array_mut() {
                conditions.push(json!({
                    "type": "Terminating",
                    "status": "True",
                    "lastTransitionTime": now,
                    "reason": "InstanceDeletionPending",
                    "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
                }));
            }
        }
        if document != old && !options.dry_run {
            let stored = self.write(key, document.clone());
            object::set_resource_version(&mut document, stored.version);
        }
        Deleted {
            document,
            is_gone: false,
        }
    }
}

fn check_preconditions(
    resource: &Resource,
    name: &str,
    document: &Value,
    options: &DeleteOptions,
) -> Result<(), Failure> {
    let (uid, version) = (object::uid(document), object::resource_version(document));
    if resource.is("", "namespaces") || resource.is(definitions::GROUP, definitions::PLURAL) {
        // These two look before the store does, in words of their own.
        let refuse = |what: &str, wanted: &str, there: &str| {
            let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {there}");
            Err(Failure::conflict(&resource.plural, &resource.group, name, &why))
        };
        return match (&options.uid, &options.resource_version) {
            (Some(wanted), _) if wanted != uid => refuse("UID", wanted, uid),
            (_, Some(wanted)) if wanted != version => refuse("ResourceVersion", wanted, version),
            _ => Ok(()),
        };
    }
    let refuse = |why: String| Err(Failure::conflict(&resource.kind, &resource.group, name, &why));
    match (&options.uid, &options.resource_version) {
        (Some(wanted), _) if wanted != uid => refuse(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )),
        (_, Some(wanted)) if wanted != version => refuse(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        )),
        _ => Ok(()),
    }
}

/// The finalizers a deletion leaves on an object: its own, and that of the garbage collector if it has work to do first.
fn finalizers_after(resource: &Resource, document: &Value, options: &DeleteOptions) -> Vec<String> {
    let has = |wanted: &str| object::finalizers(document).any(|finalizer| finalizer == wanted);
    let orphan = match (options.orphan, options.propagation) {
        (Some(orphan), _) => orphan,
        (None, Some(propagation)) => propagation == Propagation::Orphan,
        // A few old kinds leave what they own behind unless they are told otherwise.
        (None, None) => {
            let by_default = resource.built_in_kind().is_some_and(|kind| kind.orphans_by_default());
            has(ORPHAN) || by_default && !has(FOREGROUND)
        }
    };
    let foreground = match (options.orphan, options.propagation) {
        // Only a Namespace takes the oldest option at its word.
        (Some(orphan), _) => !orphan && resource.is("", "namespaces"),
        (None, Some(propagation)) => propagation == Propagation::Foreground,
        (None, None) => has(FOREGROUND),
    };
    let own = object::finalizers(document).filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND);
    let mut finalizers: Vec<String> = own.map(str::to_owned).collect();
    if orphan {
        finalizers.push(ORPHAN.to_owned());
    }
    if foreground {
        finalizers.push(FOREGROUND.to_owned());
    }
    finalizers
}

/// A namespace that goes takes nothing new.
pub(crate) fn terminating(resource: &Resource, name: &str, namespace: &str) -> Failure {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut failure = Failure::forbidden(&resource.plural, &resource.group, name, &why);
    failure.details.get_or_insert_default().causes = vec![Cause::new(
        "NamespaceTerminating",
        "metadata.namespace",
        format!("namespace {namespace} is being terminated"),
    )];
    failure
}
