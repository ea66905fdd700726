//! The last part of every write: what a client may not set goes, what it may not change comes back, and what is right and
//! new is stored.

use chandlery_merge::Managed;
use serde_json::Value;

use crate::admission::admit_update;
use crate::catalog::{Resource, Version};
use crate::object;
use crate::status::{Cause, Failure};
use crate::store::Key;
use crate::world::World;
use crate::write::Change;

/// A name is generated again this often if it is taken.
const GENERATED_NAMES: u8 = 8;

impl World {
    /// Puts a new object into the store.
    pub(crate) fn insert(&mut self, change: &mut Change<'_>, mut document: Value) -> Result<Value, Failure> {
        let resource = &change.target.resource;
        self.admit_namespace(change.target)?;
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            object::set(&mut document, field, None);
        }
        let generate_name = object::metadata(&document)
            .get("generateName")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let generates = object::name(&document).is_empty() && !generate_name.is_empty();
        if generates {
            let name = self.generated(&generate_name);
            object::set(&mut document, "name", Some(name.into()));
        }
        self.settle_kind(change, &mut document, None)?;
        self.allocate(change, &mut document, None)?;
        self.admit_create(change, &mut document)?;
        let uid = self.ids.uid();
        object::set(&mut document, "uid", Some(uid.into()));
        object::set(&mut document, "creationTimestamp", Some(self.timestamp().into()));
        // Some kinds write the object's UID into its spec.
        prepare_create(resource, change.version, &mut document);
        self.validate_create(change, &document)?;
        self.warn(change, &document, None);
        // What is not stored may say what it likes.
        if !change.options.dry_run && !matches!(object::resource_version(&document), "" | "0") {
            return Err(Failure::unclassified(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let is_raw = self.store_form(change, &mut document);
        let mut key = change.target.key(object::name(&document));
        for _ in 1..GENERATED_NAMES {
            if !generates || self.store.get(&key).is_none() {
                break;
            }
            let name = self.generated(&generate_name);
            object::set(&mut document, "name", Some(name.into()));
            key = change.target.key(object::name(&document));
        }
        if let Some(existing) = self.store.get(&key) {
            let mut failure = Failure::already_exists(&resource.plural, &resource.group, &key.name);
            if existing.deleting {
                failure.message = format!("object is being deleted: {}", failure.message);
            }
            return Err(failure);
        }
        if change.options.dry_run {
            return Ok(document);
        }
        let stored = self.write_stored(key, document.clone(), is_raw);
        object::set_resource_version(&mut document, stored.version);
        Ok(document)
    }

    fn generated(&mut self, base: &str) -> String {
        // A name has room for 63 characters, five of them generated.
        let base: String = base.chars().take(58).collect();
        format!("{base}{}", self.ids.suffix())
    }

    /// Puts a changed object in the place of the old one, or removes it if it only waited for its last finalizer.
    pub(crate) fn replace(
        &mut self,
        change: &mut Change<'_>,
        key: Key,
        old: &Value,
        mut new: Value,
        managed: &Managed,
    ) -> Result<Value, Failure> {
        let resource = &change.target.resource;
        self.check_version(change, old, &new)?;
        inherit_metadata(&mut new, old);
        if change.subresource.is_empty() {
            admit_update(resource, &mut new, old);
            self.settle_kind(change, &mut new, Some(old))?;
            self.allocate(change, &mut new, Some(old))?;
        }
        prepare_update(resource, change, &mut new, old);
        self.validate_update(change, &new, old)?;
        self.warn(change, &new, Some(old));
        let goes =
            object::is_deleting(old) && object::finalizers(&new).next().is_none() && self.may_go_now(resource, &new);
        if goes && !change.options.dry_run {
            // It is answered with as it was sent, since nobody reads it from the store.
            self.store.remove(&key);
            self.after_removal(resource, &new);
            return Ok(new);
        }
        let is_raw = self.store_form(change, &mut new);
        let was_raw = self.store.get(&key).is_some_and(|stored| stored.is_raw);
        let same_managers = if change.subresource == "scale" {
            object::metadata(old).get("managedFields") == object::metadata(&new).get("managedFields")
        } else {
            Managed::of_object(old).is_ok_and(|before| managed.is_same_but_for_times(&before))
        };
        if same_managers && !was_raw && equal_but_for_managers(&new, old) {
            return Ok(old.clone());
        }
        if change.options.dry_run {
            return Ok(new);
        }
        let stored = self.write_stored(key, new.clone(), is_raw);
        object::set_resource_version(&mut new, stored.version);
        Ok(new)
    }

    /// Built-in kinds lose what their stored form cannot tell; definitions are stored as JSON, like what they define. Answers
    /// whether something was filled in that is not stored.
    fn store_form(&self, change: &Change<'_>, document: &mut Value) -> bool {
        let resource = &change.target.resource;
        if resource.custom().is_none() && resource.group != crate::actors::definitions::GROUP {
            self.base().structures.store(&change.version.schema, document);
        }
        resource
            .built_in_kind()
            .is_some_and(|kind| kind.default_stored(document))
    }

    /// What comes before everything else.
    fn settle_kind(&self, change: &Change<'_>, document: &mut Value, old: Option<&Value>) -> Result<(), Failure> {
        let resource = &change.target.resource;
        let faults = resource.built_in_kind().map(|kind| kind.settle(document, old));
        crate::judge::refuse(resource, object::name(document), faults.unwrap_or_default())
    }

    fn check_version(&self, change: &Change<'_>, old: &Value, new: &Value) -> Result<(), Failure> {
        let resource = &change.target.resource;
        let (wanted, there) = (object::resource_version(new), object::resource_version(old));
        if matches!(wanted, "" | "0") {
            let unconditional = resource
                .built_in_kind()
                .is_some_and(|kind| kind.allows_unconditional_update());
            if unconditional {
                return Ok(());
            }
            let cause = Cause::new(
                "FieldValueInvalid",
                "metadata.resourceVersion",
                "Invalid value: 0: must be specified for an update",
            );
            return Err(Failure::invalid(
                &resource.plural,
                &resource.group,
                object::name(old),
                vec![cause],
            ));
        }
        if wanted == there {
            return Ok(());
        }
        if wanted.parse::<u64>().is_err() {
            return Err(Failure::bad_request(format!(
                "resourceVersion: Invalid value: \"{wanted}\": strconv.ParseUint: parsing \"{wanted}\": invalid syntax"
            )));
        }
        Err(Failure::conflict(
            &resource.plural,
            &resource.group,
            object::name(old),
            "the object has been modified; please apply your changes to the latest version and try again",
        ))
    }
}

fn prepare_create(resource: &Resource, version: &Version, document: &mut Value) {
    match (resource.custom(), resource.built_in_kind()) {
        (Some(custom), _) => custom.prepare_create(version, document),
        (_, Some(kind)) => {
            kind.prepare_create(document);
            if kind.has_generation() {
                object::set(document, "generation", Some(1.into()));
            }
        }
        (None, None) => {}
    }
}

fn prepare_update(resource: &Resource, change: &Change<'_>, new: &mut Value, old: &Value) {
    let generation = object::metadata(old).get("generation").cloned();
    object::set(new, "generation", generation.clone());
    let of_status = change.subresource == "status";
    let raises = match (resource.custom(), resource.built_in_kind()) {
        (Some(custom), _) => custom.prepare_update(change.version, new, old, of_status),
        (_, Some(kind)) if of_status => {
            kind.prepare_status_update(new, old);
            false
        }
        // Only its finalizers change.
        (_, Some(_)) if change.subresource == "finalize" => {
            let finalizers = new.pointer("/spec/finalizers").cloned();
            let managed = object::metadata(new).get("managedFields").cloned();
            *new = old.clone();
            object::set(new, "managedFields", managed);
            let spec = object::map_mut(
                object::map_mut(new)
                    .entry("spec")
                    .or_insert_with(|| serde_json::json!({})),
            );
            match finalizers.filter(|finalizers| finalizers.as_array().is_some_and(|list| !list.is_empty())) {
                Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers),
                None => spec.remove("finalizers"),
            };
            false
        }
        (_, Some(kind)) => {
            kind.prepare_update(new, old);
            kind.has_generation() && kind.raises_generation(new, old)
        }
        (None, None) => false,
    };
    if raises {
        let next = generation
            .and_then(|generation| generation.as_i64())
            .unwrap_or_default()
            + 1;
        object::set(new, "generation", Some(next.into()));
    }
}

/// What an update cannot change, it keeps.
fn inherit_metadata(new: &mut Value, old: &Value) {
    let old = object::metadata(old);
    if object::uid(new).is_empty() {
        object::set(new, "uid", old.get("uid").cloned());
    }
    object::set(new, "creationTimestamp", old.get("creationTimestamp").cloned());
    object::set(new, "resourceVersion", old.get("resourceVersion").cloned());
    object::set(new, "selfLink", None);
    if old.contains_key("deletionTimestamp") {
        object::set(new, "deletionTimestamp", old.get("deletionTimestamp").cloned());
    }
    if old.contains_key("deletionGracePeriodSeconds")
        && !object::metadata(new).contains_key("deletionGracePeriodSeconds")
    {
        object::set(
            new,
            "deletionGracePeriodSeconds",
            old.get("deletionGracePeriodSeconds").cloned(),
        );
    }
}

/// Whether nothing changed, as far as anybody but the managers is concerned.
fn equal_but_for_managers(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return one == other;
    };
    one.len() == other.len()
        && one.iter().all(|(key, value)| match (key.as_str(), other.get(key)) {
            (_, None) => false,
            ("metadata", Some(there)) => equal_metadata(value, there),
            (_, Some(there)) => value == there,
        })
}

fn equal_metadata(one: &Value, other: &Value) -> bool {
    let without = |value: &Value| -> usize {
        value
            .as_object()
            .map_or(0, |map| map.keys().filter(|key| *key != "managedFields").count())
    };
    without(one) == without(other)
        && one
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| key == "managedFields" || other.get(key) == Some(value))
}
