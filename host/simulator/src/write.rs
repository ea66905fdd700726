//! Create, update and patch: what a write must pass before it is one.

use chandlery_kinds::Fault;
use chandlery_merge::patch::PatchError;
use chandlery_merge::{ApplyError, ApplyRequest, FieldSet, Managed, Schema, UpdateRequest, Writer};
use http::StatusCode;
use serde_json::Value;

use crate::catalog::{Resource, Version};
use crate::decode;
use crate::json::Parsed;
use crate::object;
use crate::options::WriteOptions;
use crate::reply::Answer;
use crate::request::Call;
use crate::status::{Cause, Failure};
use crate::store::Key;
use crate::world::{Target, World};

/// What came of a write.
pub(crate) struct Written {
    pub(crate) code: StatusCode,
    pub(crate) document: Value,
}

/// A write that is under way.
pub(crate) struct Change<'a> {
    pub(crate) target: &'a Target,
    pub(crate) version: &'a Version,
    /// Empty for the main resource.
    pub(crate) subresource: &'a str,
    pub(crate) options: WriteOptions,
    pub(crate) manager: String,
}

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// A name is generated again this often if it is taken.
const GENERATED_NAMES: u8 = 8;

impl World {
    pub(crate) fn create(&mut self, call: &Call, target: &Target) -> Result<Answer, Failure> {
        let options = WriteOptions::parse(call, "CreateOptions", false)?;
        let version = target.version()?;
        let mut document = self.decode_body(call, &target.resource, version, options.strictness)?;
        let mut change = Change {
            target,
            version,
            subresource: "",
            options,
            manager: call.manager(),
        };
        adopt_namespace(&mut document, target)?;
        let zero = self.empty(&target.resource, version);
        let managed = self.managed_after_update(&change, &zero, &document);
        managed.write_to(&mut document);
        let document = self.insert(Some(call), &mut change, document)?;
        self.written(
            call,
            target,
            Written {
                code: StatusCode::CREATED,
                document,
            },
        )
    }

    pub(crate) fn update(&mut self, call: &Call, target: &Target, subresource: &str) -> Result<Answer, Failure> {
        let options = WriteOptions::parse(call, "UpdateOptions", false)?;
        let version = target.version()?;
        let mut document = self.decode_body(call, &target.resource, version, options.strictness)?;
        let name = target.path.name.as_deref().unwrap_or_default();
        check_name(&document, name, target)?;
        adopt_namespace(&mut document, target)?;
        let mut change = Change {
            target,
            version,
            subresource,
            options,
            manager: call.manager(),
        };
        let key = target.key(name);
        let Some(old) = self.live(&key, &target.resource, version) else {
            let creates = target
                .resource
                .built_in_kind()
                .is_some_and(|kind| kind.allows_create_on_update());
            if !creates || !subresource.is_empty() {
                return Err(target.not_found(name));
            }
            let wanted = object::uid(&document);
            if !wanted.is_empty() {
                return Err(self.uid_precondition(&change, name, wanted, ""));
            }
            let zero = self.empty(&target.resource, version);
            let managed = self.managed_after_update(&change, &zero, &document);
            managed.write_to(&mut document);
            if !change.options.dry_run {
                object::set(&mut document, "resourceVersion", None);
            }
            let document = self.insert(Some(call), &mut change, document)?;
            return self.written(
                call,
                target,
                Written {
                    code: StatusCode::CREATED,
                    document,
                },
            );
        };
        let wanted = object::uid(&document);
        if !wanted.is_empty() && wanted != object::uid(&old) {
            return Err(self.uid_precondition(&change, name, wanted, object::uid(&old)));
        }
        let managed = self.managed_after_update(&change, &old, &document);
        managed.write_to(&mut document);
        let document = self.replace(&mut change, key, &old, document, &managed)?;
        self.written(
            call,
            target,
            Written {
                code: StatusCode::OK,
                document,
            },
        )
    }

    pub(crate) fn patch(&mut self, call: &Call, target: &Target, subresource: &str) -> Result<Answer, Failure> {
        let media_type = call.media_type().to_owned();
        let is_custom = target.resource.custom().is_some();
        match media_type.as_str() {
            MERGE | JSON_PATCH | APPLY => {}
            STRATEGIC if !is_custom => {}
            STRATEGIC => {
                return Err(Failure::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types include: {JSON_PATCH}, {MERGE}, {APPLY}"
                )));
            }
            _ => return Err(Failure::unsupported_patch()),
        }
        let is_apply = media_type == APPLY;
        let options = WriteOptions::parse(call, "PatchOptions", is_apply)?;
        let version = target.version()?;
        let name = target.path.name.as_deref().unwrap_or_default();
        let key = target.key(name);
        let mut change = Change {
            target,
            version,
            subresource,
            options,
            manager: call.manager(),
        };
        let old = self.live(&key, &target.resource, version);
        let written = if is_apply {
            self.apply(call, &mut change, key, old)?
        } else {
            let old = match old {
                Some(old) => old,
                // A patch that is none is told of before an object that is not there.
                None => return Err(target.not_found(name)),
            };
            let document = self.patched(call, &change, &media_type, &old)?;
            let managed = self.managed_after_update(&change, &old, &document);
            let mut document = document;
            managed.write_to(&mut document);
            let document = self.replace(&mut change, key, &old, document, &managed)?;
            Written {
                code: StatusCode::OK,
                document,
            }
        };
        self.written(call, target, Written { ..written })
    }

    /// The object after one of the patches that are no apply.
    fn patched(&mut self, call: &Call, change: &Change<'_>, media_type: &str, old: &Value) -> Result<Value, Failure> {
        let resource = &change.target.resource;
        let parsed = decode_patch(call)?;
        let patched = match media_type {
            JSON_PATCH => chandlery_merge::patch::json_patch(old, &parsed.value),
            MERGE => chandlery_merge::patch::merge_patch(old, &parsed.value),
            _ => chandlery_merge::patch::strategic_merge_patch(old, &parsed.value, &change.version.schema),
        };
        let patched = patched.map_err(refused_patch)?;
        let text = |key: &str| patched.get(key).and_then(Value::as_str).unwrap_or_default();
        if resource.custom().is_none() && text("kind") != resource.kind {
            return Err(Failure::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: the patch changes the kind",
                text("kind"),
                change.version.name,
                resource.kind
            )));
        }
        let parsed = Parsed {
            value: patched,
            duplicates: parsed.duplicates,
        };
        let decoded = self
            .decode(parsed, resource, change.version, change.options.strictness)
            .map_err(|failure| match resource.custom() {
                Some(_) => failure,
                None => Failure::unprocessable_patch(&failure.message),
            })?;
        check_name(&decoded, object::name(old), change.target)?;
        Ok(decoded)
    }

    /// Server-side apply, which also creates.
    fn apply(
        &mut self,
        call: &Call,
        change: &mut Change<'_>,
        key: Key,
        old: Option<Value>,
    ) -> Result<Written, Failure> {
        let target = change.target;
        let resource = &target.resource;
        let Parsed { value, .. } = decode::yaml(&call.body)?;
        if !value.is_object() {
            return Err(Failure::bad_request("error decoding YAML: the body must be an object"));
        }
        let name = key.name.to_string();
        if old.is_none() && !change.subresource.is_empty() {
            return Err(target.not_found(&name));
        }
        let api_version = resource.api_version(&change.version.name);
        let zero = self.empty(resource, change.version);
        let time = self.timestamp();
        let others: Vec<(String, &Schema)> = other_versions(resource, change.version);
        let others: Vec<(&str, &Schema)> = others
            .iter()
            .map(|(version, schema)| (version.as_str(), *schema))
            .collect();
        let reset = reset_fields(resource, change);
        let request = ApplyRequest {
            schema: &change.version.schema,
            other_versions: &others,
            live: old.as_ref().unwrap_or(&zero),
            empty: &zero,
            live_managed: None,
            configuration: &value,
            writer: Writer {
                manager: &change.manager,
                api_version: &api_version,
                subresource: change.subresource,
                time: &time,
                reset_fields: reset.as_ref(),
            },
            force: change.options.force,
        };
        let applied = chandlery_merge::apply(&request).map_err(refused_apply)?;
        let mut document = match (applied.object, &old) {
            (Some(object), _) => object,
            (None, Some(old)) => old.clone(),
            (None, None) => zero.clone(),
        };
        self.settle_structure(&mut document, resource, change.version)
            .map_err(|why| unreadable(&value, resource, &change.version.name, &why))?;
        object::metadata_mut(&mut document);
        check_name(&document, &name, target)?;
        applied.managed.write_to(&mut document);
        let Some(old) = old else {
            let uid = object::uid(&document);
            if !uid.is_empty() {
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(Failure::conflict(&resource.plural, &resource.group, &name, &why));
            }
            adopt_namespace(&mut document, target)?;
            object::set(&mut document, "resourceVersion", None);
            let document = self.insert(Some(call), change, document)?;
            return Ok(Written {
                code: StatusCode::CREATED,
                document,
            });
        };
        let document = self.replace(change, key, &old, document, &applied.managed)?;
        Ok(Written {
            code: StatusCode::OK,
            document,
        })
    }

    pub(crate) fn managed_after_update(&self, change: &Change<'_>, live: &Value, new: &Value) -> Managed {
        let resource = &change.target.resource;
        let api_version = resource.api_version(&change.version.name);
        let time = self.timestamp();
        let others: Vec<(String, &Schema)> = other_versions(resource, change.version);
        let others: Vec<(&str, &Schema)> = others
            .iter()
            .map(|(version, schema)| (version.as_str(), *schema))
            .collect();
        let reset = reset_fields(resource, change);
        chandlery_merge::update(&UpdateRequest {
            schema: &change.version.schema,
            other_versions: &others,
            live,
            live_managed: None,
            new,
            writer: Writer {
                manager: &change.manager,
                api_version: &api_version,
                subresource: change.subresource,
                time: &time,
                reset_fields: reset.as_ref(),
            },
        })
    }

    /// An object before anything was put into it: what ownership of a new object is measured by.
    pub(crate) fn empty(&self, resource: &Resource, version: &Version) -> Value {
        let api_version = resource.api_version(&version.name);
        if resource.custom().is_some() {
            return version.schema.zero_object(&api_version, &resource.kind);
        }
        let mut empty = Value::Object(serde_json::Map::new());
        self.base().structures.normalise(&version.schema, &mut empty);
        object::set_type(&mut empty, &api_version, &resource.kind);
        empty
    }

    /// The object of a key as a write at this version sees it.
    pub(crate) fn live(&self, key: &Key, resource: &Resource, version: &Version) -> Option<Value> {
        let stored = self.store.get(key)?;
        let mut document = stored.document();
        object::set_type(&mut document, &resource.api_version(&version.name), &resource.kind);
        if resource.custom().is_some_and(|custom| custom.revised) {
            // What was stored under an older schema is seen through this one.
            let _ = self.settle_structure(&mut document, resource, version);
        }
        Some(document)
    }

    /// Puts a new object into the store.
    pub(crate) fn insert(
        &mut self,
        call: Option<&Call>,
        change: &mut Change<'_>,
        mut document: Value,
    ) -> Result<Value, Failure> {
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
        self.admit_create(call, change, &mut document)?;
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
        self.complete_create(change, &mut document)?;
        self.store_form(change, &mut document);
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
        let stored = self.write(key, document.clone());
        object::set_resource_version(&mut document, stored.version);
        self.after_write(resource, &document);
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
        prepare_update(resource, change, &mut new, old);
        self.validate_update(change, &new, old)?;
        self.warn(change, &new, Some(old));
        self.complete_update(change, &mut new, old)?;
        self.store_form(change, &mut new);
        let same_managers = Managed::of_object(old).is_ok_and(|before| managed.is_same_but_for_times(&before));
        if same_managers && equal_but_for_managers(&new, old) {
            return Ok(old.clone());
        }
        if change.options.dry_run {
            return Ok(new);
        }
        if object::is_deleting(old) && object::finalizers(&new).next().is_none() && self.may_go_now(resource, &new) {
            self.store.remove(&key);
            self.after_removal(resource, &new);
            return Ok(new);
        }
        let stored = self.write(key, new.clone());
        object::set_resource_version(&mut new, stored.version);
        self.after_write(resource, &new);
        Ok(new)
    }

    /// Built-in kinds lose what their stored form cannot tell; definitions are stored as JSON, like what they define.
    fn store_form(&self, change: &Change<'_>, document: &mut Value) {
        let resource = &change.target.resource;
        if resource.custom().is_none() && resource.group != crate::actors::definitions::GROUP {
            self.base().structures.store(&change.version.schema, document);
        }
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

    fn uid_precondition(&self, change: &Change<'_>, name: &str, wanted: &str, there: &str) -> Failure {
        let (target, resource) = (change.target, &change.target.resource);
        let prefix = storage_prefix(resource);
        let root = if change.options.dry_run { "" } else { "/registry" };
        let place = if target.namespace().is_empty() {
            String::new()
        } else {
            format!("{}/", target.namespace())
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {root}/{prefix}/{place}{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {there}"
        );
        Failure::conflict(&resource.plural, &resource.group, name, &why)
    }

    fn validate_create(&self, change: &Change<'_>, document: &Value) -> Result<(), Failure> {
        let resource = &change.target.resource;
        check_kind(change, document)?;
        let mut faults = chandlery_kinds::meta::validate(document, resource.namespaced, &|name, prefix| match resource
            .built_in_kind()
        {
            Some(kind) => kind.validate_name(name, prefix),
            None => chandlery_kinds::names::subdomain(name, prefix),
        });
        match resource.custom() {
            Some(custom) => custom.validate(change.version, document, None, false, &mut faults),
            None => faults.extend(
                resource
                    .built_in_kind()
                    .map(|kind| kind.validate(document))
                    .unwrap_or_default(),
            ),
        }
        refuse(resource, object::name(document), faults)
    }

    fn validate_update(&self, change: &Change<'_>, new: &Value, old: &Value) -> Result<(), Failure> {
        let resource = &change.target.resource;
        check_kind(change, new)?;
        let mut faults = chandlery_kinds::meta::validate_update(new, old);
        match (resource.custom(), resource.built_in_kind()) {
            (Some(custom), _) => {
                faults.extend(chandlery_kinds::meta::validate_change(new, old));
                custom.validate(
                    change.version,
                    new,
                    Some(old),
                    change.subresource == "status",
                    &mut faults,
                );
            }
            (_, Some(kind)) if change.subresource == "status" => faults.extend(kind.validate_status_update(new, old)),
            (_, Some(kind)) => faults.extend(kind.validate_update(new, old)),
            (None, None) => {}
        }
        refuse(resource, object::name(old), faults)
    }

    fn warn(&mut self, change: &Change<'_>, new: &Value, old: Option<&Value>) {
        let resource = &change.target.resource;
        if let Some(kind) = resource.built_in_kind() {
            self.warned.extend(kind.warnings(new, old));
        }
        if resource.custom().is_some() {
            self.warned.extend(finalizer_warnings(new, old));
        }
        if resource.structure_only {
            self.warned.push(format!(
                "the simulator knows only the structure of {}: nothing is defaulted and little is validated",
                resource.kind
            ));
        }
    }
}

/// A custom object of another kind than its path's: little else is looked at.
fn check_kind(change: &Change<'_>, document: &Value) -> Result<(), Failure> {
    let resource = &change.target.resource;
    let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
    let Some(custom) = resource.custom().filter(|_| kind != resource.kind) else {
        return Ok(());
    };
    let why = format!("Invalid value: \"{kind}\": must be {}", resource.kind);
    let mut causes = vec![Cause::new("FieldValueInvalid", "kind", why)];
    let faults = custom.validate_lists(change.version, document);
    causes.extend(
        faults
            .into_iter()
            .map(|fault| Cause::new(fault.kind.reason(), &fault.field, fault.message)),
    );
    Err(Failure::invalid(kind, &resource.group, object::name(document), causes))
}

/// A finalizer of a custom object that could be anybody's.
fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let had: Vec<&str> = old.into_iter().flat_map(object::finalizers).collect();
    let mut added: Vec<&str> = object::finalizers(new)
        .filter(|finalizer| !had.contains(finalizer) && !finalizer.contains('/'))
        .filter(|finalizer| !matches!(*finalizer, "orphan" | "foregroundDeletion" | "kubernetes"))
        .collect();
    added.sort_unstable();
    added.dedup();
    added
        .into_iter()
        .map(|finalizer| {
            format!("metadata.finalizers: \"{finalizer}\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
        })
        .collect()
}

fn refuse(resource: &Resource, name: &str, faults: Vec<Fault>) -> Result<(), Failure> {
    if faults.is_empty() {
        return Ok(());
    }
    let causes = faults
        .into_iter()
        .map(|fault| Cause::new(fault.kind.reason(), &fault.field, fault.message))
        .collect();
    Err(Failure::invalid(&resource.kind, &resource.group, name, causes))
}

/// The versions of a resource beside the one that is asked for.
fn other_versions<'a>(resource: &'a Resource, version: &Version) -> Vec<(String, &'a Schema)> {
    let others = resource.versions.iter().filter(|other| other.name != version.name);
    others
        .map(|other| (resource.api_version(&other.name), &other.schema))
        .collect()
}

/// The fields nobody comes to own through this endpoint.
fn reset_fields(resource: &Resource, change: &Change<'_>) -> Option<FieldSet> {
    let of_status = change.subresource == "status";
    let names: Vec<&str> = match (resource.custom(), resource.built_in_kind()) {
        (Some(custom), _) => custom.reset_fields(change.version, of_status),
        (_, Some(kind)) if of_status => kind.reset_by_status().to_vec(),
        (_, Some(kind)) => kind.reset_by_main().to_vec(),
        (None, None) => Vec::new(),
    };
    if names.is_empty() {
        return None;
    }
    let paths: Vec<Vec<&str>> = names.iter().map(|name| name.split('.').collect()).collect();
    Some(FieldSet::of_names(paths.iter().map(Vec::as_slice)))
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
            *new = old.clone();
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

/// What was applied does not fit the kind.
fn unreadable(document: &Value, resource: &Resource, version: &str, why: &str) -> Failure {
    let (group, kind) = (&resource.group, &resource.kind);
    if resource.custom().is_some() {
        return Failure::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ));
    }
    Failure::unclassified(format!(
        "failed to convert new object ({}/{}; {group}/{version}, Kind={kind}) to proper version: unable to convert unstructured object to {group}/{version}, Kind={kind}: {}{why}",
        object::namespace(document),
        object::name(document),
        if why.starts_with("illegal base64") {
            "error decoding from json: "
        } else {
            ""
        }
    ))
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

/// The name in the body must be that of the path.
fn check_name(document: &Value, name: &str, target: &Target) -> Result<(), Failure> {
    let own = object::name(document);
    if own.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if own != name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({own}) does not match the name on the URL ({name})"
        )));
    }
    let namespace = object::namespace(document);
    if !namespace.is_empty() && namespace != target.namespace() {
        return Err(Failure::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
            target.namespace()
        )));
    }
    Ok(())
}

/// An object is in the namespace of its path.
fn adopt_namespace(document: &mut Value, target: &Target) -> Result<(), Failure> {
    let own = object::namespace(document).to_owned();
    if !target.resource.namespaced {
        object::set(document, "namespace", None);
        return Ok(());
    }
    if !own.is_empty() && own != target.namespace() {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object::set(document, "namespace", Some(target.namespace().into()));
    Ok(())
}

/// Where the real server keeps a resource, as it tells in some errors.
fn storage_prefix(resource: &Resource) -> String {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (group, plural) if resource.custom().is_some() => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    }
}

fn decode_patch(call: &Call) -> Result<Parsed, Failure> {
    crate::json::parse(&call.body).map_err(|error| {
        let why = crate::json::complaint(&call.body, &error);
        Failure::bad_request(format!("error decoding patch: {why}"))
    })
}

fn refused_patch(error: PatchError) -> Failure {
    match error {
        PatchError::BadRequest(message) => Failure::bad_request(message),
        // The real server keeps to itself what does not fit.
        PatchError::Unprocessable(_) => {
            Failure::unprocessable("the server rejected our request due to an error in our request")
        }
        PatchError::TooLarge(message) => Failure::too_many_operations(message),
        PatchError::Internal(message) => Failure::unclassified(message),
    }
}

fn refused_apply(error: ApplyError) -> Failure {
    match error {
        ApplyError::Conflicts { message, conflicts } => {
            let causes = conflicts
                .iter()
                .map(|conflict| Cause::new("FieldManagerConflict", &conflict.field, conflict.message()))
                .collect();
            Failure::apply_conflict(message, causes)
        }
        ApplyError::BadRequest(message) => Failure::bad_request(message),
        ApplyError::Typed(message) => Failure::unclassified(message),
        ApplyError::Managed(error) => Failure::unclassified(error.to_string()),
    }
}
