//! The volumes of a pod.

use serde_json::Value;

use super::environment;
use crate::document::{list, number, present, text};
use crate::fault::Fault;
use crate::names;
use crate::quantity::Quantity;

/// The kinds of volumes, in the order in which the server looks for them, with the fields that must not be empty.
const SOURCES: [(&str, &[&str]); 30] = [
    ("emptyDir", &[]),
    ("hostPath", &[]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &["registry", "volume"]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &[]),
    ("projected", &[]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &["driver"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &[]),
];
const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// What is wrong with the volumes, and the names of those with which nothing is.
pub(super) fn validate<'a>(spec: &'a Value, field: &str) -> (Vec<&'a str>, Vec<Fault>) {
    let mut faults = Vec::new();
    let mut good: Vec<&str> = Vec::new();
    for (index, volume) in list(spec, "volumes").enumerate() {
        let field = format!("{field}.volumes[{index}]");
        let mut wrong = validate_source(volume, &field);
        let name = text(volume, "name");
        let field = format!("{field}.name");
        if name.is_empty() {
            wrong.push(Fault::required(field.as_str(), ""));
        } else {
            wrong.extend(Fault::each(&field, name, names::dns_label(name)));
        }
        if good.contains(&name) {
            wrong.push(Fault::duplicate(field, &name.into()));
        }
        if wrong.is_empty() {
            good.push(name);
        }
        faults.extend(wrong);
    }
    (good, faults)
}

fn validate_source(volume: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut has_source = false;
    for (kind, required) in SOURCES {
        let Some(source) = present(volume, kind) else { continue };
        let field = format!("{field}.{kind}");
        if has_source {
            faults.push(Fault::forbidden(field, "may not specify more than 1 volume type"));
            continue;
        }
        has_source = true;
        for name in required {
            let is_empty = match source.get(*name) {
                None | Some(Value::Null) => true,
                Some(Value::String(text)) => text.is_empty(),
                Some(Value::Array(items)) => items.is_empty(),
                Some(_) => false,
            };
            if is_empty {
                faults.push(Fault::required(format!("{field}.{name}"), ""));
            }
        }
        faults.extend(validate_kind(kind, source, &field));
    }
    if !has_source {
        faults.push(Fault::required(field, "must specify a volume type"));
    }
    faults
}

fn validate_kind(kind: &str, source: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    match kind {
        "emptyDir" => {
            let limit = Quantity::parse(text(source, "sizeLimit"));
            if limit.is_some_and(Quantity::is_negative) {
                faults.push(Fault::forbidden(
                    format!("{field}.sizeLimit"),
                    "SizeLimit field must be a valid resource quantity",
                ));
            }
        }
        "hostPath" => {
            let path = text(source, "path");
            if path.is_empty() {
                return vec![Fault::required(format!("{field}.path"), "")];
            }
            faults.extend(no_steps_back(path, &format!("{field}.path")));
            let kind = text(source, "type");
            if !HOST_PATH_TYPES.contains(&kind) {
                faults.push(Fault::not_supported(
                    format!("{field}.type"),
                    &kind.into(),
                    &HOST_PATH_TYPES,
                ));
            }
        }
        "secret" | "configMap" => {
            faults.extend(validate_mode(source, "defaultMode", field));
            for (index, item) in list(source, "items").enumerate() {
                faults.extend(validate_item(item, &format!("{field}.items[{index}]")));
            }
        }
        "downwardAPI" => {
            faults.extend(validate_mode(source, "defaultMode", field));
            for (index, file) in list(source, "items").enumerate() {
                // The server does not say which of the files it means.
                let _ = index;
                faults.extend(validate_file(file, field));
            }
        }
        "projected" => faults.extend(validate_projected(source, field)),
        _ => {}
    }
    faults
}

fn validate_projected(projected: &Value, whole: &str) -> Vec<Fault> {
    let mut faults = validate_mode(projected, "defaultMode", whole);
    for (index, source) in list(projected, "sources").enumerate() {
        let field = format!("{whole}.sources[{index}]");
        let mut sources = 0;
        for kind in ["secret", "configMap"] {
            let Some(source) = present(source, kind) else { continue };
            sources += 1;
            let field = format!("{field}.{kind}");
            if text(source, "name").is_empty() {
                faults.push(Fault::required(format!("{field}.name"), ""));
            }
            for (index, item) in list(source, "items").enumerate() {
                faults.extend(validate_item(item, &format!("{field}.items[{index}]")));
            }
        }
        if let Some(files) = present(source, "downwardAPI") {
            sources += 1;
            for file in list(files, "items") {
                faults.extend(validate_file(file, &format!("{field}.downwardAPI")));
            }
        }
        if let Some(token) = present(source, "serviceAccountToken") {
            sources += 1;
            let field = format!("{field}.serviceAccountToken");
            let seconds = number(token, "expirationSeconds").unwrap_or_default();
            if seconds < 600 {
                faults.push(Fault::invalid(
                    format!("{field}.expirationSeconds"),
                    &seconds.into(),
                    "may not specify a duration less than 10 minutes",
                ));
            } else if seconds > 1 << 32 {
                faults.push(Fault::invalid(
                    format!("{field}.expirationSeconds"),
                    &seconds.into(),
                    "may not specify a duration larger than 2^32 seconds",
                ));
            }
            // The server says this of the whole volume.
            let path = text(token, "path");
            if path.is_empty() {
                faults.push(Fault::required(format!("{whole}.path"), ""));
            } else {
                faults.extend(local_path(path, &format!("{whole}.path")));
            }
        }
        if sources > 1 {
            faults.push(Fault::forbidden(field, "may not specify more than 1 volume type"));
        }
    }
    faults
}

fn validate_mode(source: &Value, name: &str, field: &str) -> Vec<Fault> {
    match number(source, name) {
        Some(mode) if !(0..=0o777).contains(&mode) => vec![Fault::invalid(
            format!("{field}.{name}"),
            &mode.into(),
            "must be a number between 0 and 0777 (octal), both inclusive",
        )],
        _ => Vec::new(),
    }
}

/// A key and the path of the file that has its value.
fn validate_item(item: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for name in ["key", "path"] {
        if text(item, name).is_empty() {
            faults.push(Fault::required(format!("{field}.{name}"), ""));
        }
    }
    faults.extend(local_path(text(item, "path"), &format!("{field}.path")));
    faults.extend(validate_mode(item, "mode", field));
    faults
}

fn validate_file(file: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let path = text(file, "path");
    if path.is_empty() {
        faults.push(Fault::required(format!("{field}.path"), ""));
    }
    faults.extend(local_path(path, &format!("{field}.path")));
    match (present(file, "fieldRef"), present(file, "resourceFieldRef")) {
        (Some(reference), other) => {
            faults.extend(environment::validate_field(
                reference,
                &environment::OF_FILES,
                &format!("{field}.fieldRef"),
            ));
            if other.is_some() {
                faults.push(Fault::invalid(
                    field,
                    &"resource".into(),
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                ));
            }
        }
        (None, Some(reference)) => faults.extend(environment::validate_resource(
            reference,
            true,
            &format!("{field}.resourceFieldRef"),
        )),
        (None, None) => faults.push(Fault::required(
            field,
            "one of fieldRef and resourceFieldRef is required",
        )),
    }
    faults.extend(validate_mode(file, "mode", field));
    faults
}

fn no_steps_back(path: &str, field: &str) -> Option<Fault> {
    path.split('/')
        .any(|step| step == "..")
        .then(|| Fault::invalid(field, &path.into(), "must not contain '..'"))
}

/// A path below a place.
pub(super) fn descending_path(path: &str, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    if path.starts_with('/') {
        faults.push(Fault::invalid(field, &path.into(), "must be a relative path"));
    }
    faults.extend(no_steps_back(path, field));
    faults
}

/// A path below a place that does not look as if it left it.
fn local_path(path: &str, field: &str) -> Vec<Fault> {
    let mut faults = descending_path(path, field);
    if path.starts_with("..") && !path.starts_with("../") {
        faults.push(Fault::invalid(field, &path.into(), "must not start with '..'"));
    }
    faults
}
