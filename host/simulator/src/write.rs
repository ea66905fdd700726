//! Create, update and patch: what a write must pass before it is one.

use chandlery_merge::patch::PatchError;
use chandlery_merge::{ApplyError, ApplyRequest, Schema, Writer};
use http::StatusCode;
use serde_json::Value;

use crate::catalog::{Resource, Version};
use crate::decode;
use crate::json::Parsed;
use crate::object;
use crate::options::WriteOptions;
use crate::ownership::{other_versions, reset_fields};
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
        let document = self.insert(&mut change, document)?;
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
            let document = self.insert(&mut change, document)?;
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
            _ if is_custom => {
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
                Some(_)
                    if !failure.message.contains("strict decoding error")
                        && !failure.message.contains("json: cannot unmarshal") =>
                {
                    failure
                }
                _ => Failure::unprocessable_patch(&failure.message),
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
            // What is not stored may say what it likes.
            if !change.options.dry_run {
                object::set(&mut document, "resourceVersion", None);
            }
            let document = self.insert(change, document)?;
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
        // Served by other servers in the same process.
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", plural) => format!("{}/{plural}", resource.group),
        (group, plural) if resource.custom().is_some() => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    }
}

fn decode_patch(call: &Call) -> Result<Parsed, Failure> {
    crate::json::parse(&call.body).map_err(|error| {
        let why = crate::json::complaint(&call.body, &error);
        Failure::bad_request(if call.media_type() == STRATEGIC {
            why
        } else {
            format!("error decoding patch: {why}")
        })
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
