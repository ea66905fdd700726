//! What must hold of the metadata of any object.

use serde_json::Value;

use crate::document::{list, object, text, texts};
use crate::fault::{Fault, FaultKind, quoted};
use crate::names;

/// All keys and values of the annotations together, in bytes.
const ANNOTATIONS_SIZE: usize = 256 * 1024;
const MANAGER_LENGTH: usize = 128;
const SUBRESOURCE_LENGTH: usize = 256;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What is wrong with the metadata of a new object; `name` judges a name, or the beginning of one.
pub fn validate(object: &Value, namespaced: bool, name: &dyn Fn(&str, bool) -> Vec<String>) -> Vec<Fault> {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let mut faults = Vec::new();
    let generate_name = text(metadata, "generateName");
    if !generate_name.is_empty() {
        faults.extend(Fault::each(
            "metadata.generateName",
            generate_name,
            name(generate_name, true),
        ));
    }
    let own = text(metadata, "name");
    if own.is_empty() {
        faults.push(Fault::required("metadata.name", "name or generateName is required"));
    } else {
        faults.extend(Fault::each("metadata.name", own, name(own, false)));
    }
    let namespace = text(metadata, "namespace");
    if namespaced && namespace.is_empty() {
        faults.push(Fault::required("metadata.namespace", ""));
    } else if namespaced {
        faults.extend(Fault::each(
            "metadata.namespace",
            namespace,
            names::label(namespace, false),
        ));
    } else if !namespace.is_empty() {
        faults.push(Fault::forbidden("metadata.namespace", "not allowed on this type"));
    }
    faults.extend(negative(metadata.get("generation"), "metadata.generation"));
    faults.extend(labels(metadata.get("labels"), "metadata.labels"));
    faults.extend(annotations(metadata.get("annotations"), "metadata.annotations"));
    faults.extend(owners(metadata));
    faults.extend(finalizers(metadata));
    faults.extend(managers(metadata));
    faults
}

/// Finalizers without a domain that the server does not know. Most kinds of the server's own, but not all, say this of
/// new objects after all else that is wrong with the metadata.
pub(crate) fn unknown_finalizers(object: &Value) -> Vec<Fault> {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    texts(metadata, "finalizers")
        .enumerate()
        .filter(|(_, name)| !name.contains('/') && !matches!(*name, "kubernetes" | ORPHAN | FOREGROUND))
        .map(|(index, name)| {
            Fault::invalid(
                format!("metadata.finalizers[{index}]"),
                &name.into(),
                "name is neither a standard finalizer name nor is it fully qualified",
            )
        })
        .collect()
}

/// [`validate`] and [`unknown_finalizers`], as kinds of the server's own repeat them in updates.
pub(crate) fn validate_again(object: &Value, namespaced: bool, name: &dyn Fn(&str, bool) -> Vec<String>) -> Vec<Fault> {
    let mut faults = validate(object, namespaced, name);
    faults.extend(unknown_finalizers(object));
    faults
}

/// What is wrong with the metadata of an update: first all that would be wrong in a new object too, then what changed
/// and may not.
pub fn validate_update(new: &Value, old: &Value) -> Vec<Fault> {
    let namespaced = new.pointer("/metadata/namespace").is_some();
    let mut faults = validate(new, namespaced, &names::path_segment);
    faults.extend(validate_change(new, old));
    faults
}

/// [`validate_change`] and [`unknown_finalizers`], as kinds of the server's own repeat them in updates.
pub(crate) fn validate_change_again(new: &Value, old: &Value) -> Vec<Fault> {
    let mut faults = validate_change(new, old);
    faults.extend(unknown_finalizers(new));
    faults
}

/// What changed in the metadata and may not. Kinds say this once more than [`validate_update`] does, and so does the
/// server's answer.
pub fn validate_change(new: &Value, old: &Value) -> Vec<Fault> {
    let (new, old) = (
        new.get("metadata").unwrap_or(&Value::Null),
        old.get("metadata").unwrap_or(&Value::Null),
    );
    let mut faults = Vec::new();
    if old.get("deletionTimestamp").is_some() {
        let before: Vec<&str> = texts(old, "finalizers").collect();
        let mut added: Vec<&str> = texts(new, "finalizers").filter(|name| !before.contains(name)).collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let added: Vec<String> = added.into_iter().map(quoted).collect();
            faults.push(Fault::forbidden(
                "metadata.finalizers",
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            ));
        }
    }
    if text(new, "resourceVersion").is_empty() {
        faults.push(Fault::invalid(
            "metadata.resourceVersion",
            &"".into(),
            "must be specified for an update",
        ));
    }
    let generation = |metadata: &Value| metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation(new) < generation(old) {
        faults.push(Fault::invalid(
            "metadata.generation",
            &generation(new).into(),
            "must not be decremented",
        ));
    }
    for field in ["name", "namespace", "uid"] {
        if text(new, field) != text(old, field) {
            faults.push(Fault::immutable(format!("metadata.{field}"), &text(new, field).into()));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new.get(field) != old.get(field) {
            let value = new.get(field).unwrap_or(&Value::Null);
            faults.push(Fault::immutable(format!("metadata.{field}"), value));
        }
    }
    faults.extend(labels(new.get("labels"), "metadata.labels"));
    faults.extend(annotations(new.get("annotations"), "metadata.annotations"));
    faults.extend(owners(new));
    faults.extend(managers(new));
    faults
}

/// What is wrong with labels.
pub(crate) fn labels(labels: Option<&Value>, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (key, value) in object(labels) {
        let value = value.as_str().unwrap_or_default();
        faults.extend(Fault::each(field, key, names::qualified_name(key)));
        faults.extend(Fault::each(field, value, names::label_value(value)));
    }
    faults
}

/// What is wrong with annotations.
pub(crate) fn annotations(annotations: Option<&Value>, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut size = 0;
    for (key, value) in object(annotations) {
        size += key.len() + value.as_str().unwrap_or_default().len();
        faults.extend(Fault::each(field, key, names::qualified_name(&key.to_lowercase())));
    }
    if size > ANNOTATIONS_SIZE {
        faults.push(Fault::too_long(field, ANNOTATIONS_SIZE));
    }
    faults
}

/// A number below zero.
pub(crate) fn negative(value: Option<&Value>, field: &str) -> Option<Fault> {
    let value = value?;
    (value.as_i64()? < 0).then(|| Fault::invalid(field, value, "must be greater than or equal to 0"))
}

fn owners(metadata: &Value) -> Vec<Fault> {
    const FIELD: &str = "metadata.ownerReferences";
    let mut faults = Vec::new();
    let mut controller: Option<String> = None;
    for owner in list(metadata, "ownerReferences") {
        let api_version = text(owner, "apiVersion");
        let version = api_version.rsplit('/').next().unwrap_or_default();
        // More than one slash is no group and version at all.
        if version.is_empty() || api_version.matches('/').count() > 1 {
            faults.push(Fault::invalid(
                format!("{FIELD}.apiVersion"),
                &api_version.into(),
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                faults.push(Fault::invalid(
                    format!("{FIELD}.{field}"),
                    &"".into(),
                    "must not be empty",
                ));
            }
        }
        if api_version == "v1" && text(owner, "kind") == "Event" {
            faults.push(Fault::shown_as(
                FaultKind::Invalid,
                FIELD,
                &shown_owner(owner),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let all: Vec<String> = list(metadata, "ownerReferences").map(shown_owner).collect();
                    faults.push(Fault::shown_as(
                        FaultKind::Invalid,
                        FIELD,
                        &format!("[{}]", all.join(",")),
                        &format!(
                            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                        ),
                    ));
                }
            }
        }
    }
    faults
}

/// An owner with its fields in the order in which the server writes them.
fn shown_owner(owner: &Value) -> String {
    let mut parts = Vec::new();
    for (field, always) in [
        ("apiVersion", true),
        ("kind", true),
        ("name", true),
        ("uid", true),
        ("controller", false),
        ("blockOwnerDeletion", false),
    ] {
        match owner.get(field) {
            Some(value) => parts.push(format!("\"{field}\":{value}")),
            None if always => parts.push(format!("\"{field}\":\"\"")),
            None => {}
        }
    }
    format!("{{{}}}", parts.join(","))
}

fn finalizers(metadata: &Value) -> Vec<Fault> {
    const FIELD: &str = "metadata.finalizers";
    let mut faults = Vec::new();
    for finalizer in texts(metadata, "finalizers") {
        faults.extend(Fault::each(FIELD, finalizer, names::qualified_name(finalizer)));
    }
    let has = |wanted: &str| texts(metadata, "finalizers").any(|finalizer| finalizer == wanted);
    if has(ORPHAN) && has(FOREGROUND) {
        let all = metadata.get("finalizers").unwrap_or(&Value::Null);
        faults.push(Fault::invalid(
            FIELD,
            all,
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    faults
}

fn managers(metadata: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, entry) in list(metadata, "managedFields").enumerate() {
        let field = |name: &str| format!("metadata.managedFields[{index}].{name}");
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            faults.push(Fault::invalid(
                field("operation"),
                &operation.into(),
                "must be `Apply` or `Update`",
            ));
        }
        let fields_type = text(entry, "fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            faults.push(Fault::invalid(
                field("fieldsType"),
                &fields_type.into(),
                "must be `FieldsV1`",
            ));
        }
        if text(entry, "manager").len() > MANAGER_LENGTH {
            faults.push(Fault::too_long(field("manager"), MANAGER_LENGTH));
        }
        if text(entry, "subresource").len() > SUBRESOURCE_LENGTH {
            faults.push(Fault::too_long(field("subresource"), SUBRESOURCE_LENGTH));
        }
    }
    faults
}
