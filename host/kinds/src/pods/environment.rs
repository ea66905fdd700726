//! Variables of containers, and the fields of a pod that they and files may show.

use serde_json::Value;

use crate::document::{at, list, present, text};
use crate::fault::Fault;
use crate::names;

/// The fields that a variable may show.
const OF_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields that a file may show.
pub(super) const OF_FILES: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
/// The fields that are known at all.
const KNOWN: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// What is wrong with the variables of a container.
pub(super) fn validate(container: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, variable) in list(container, "env").enumerate() {
        let field = format!("{field}.env[{index}]");
        let name = text(variable, "name");
        if name.is_empty() {
            faults.push(Fault::required(format!("{field}.name"), ""));
        } else {
            faults.extend(Fault::each(
                &format!("{field}.name"),
                name,
                names::environment_name(name),
            ));
        }
        if let Some(source) = present(variable, "valueFrom") {
            faults.extend(validate_source(
                source,
                !text(variable, "value").is_empty(),
                &format!("{field}.valueFrom"),
            ));
        }
    }
    let all = format!("{field}.envFrom");
    for (index, source) in list(container, "envFrom").enumerate() {
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            faults.extend(Fault::each(
                &format!("{all}[{index}].prefix"),
                prefix,
                names::environment_name(prefix),
            ));
        }
        let mut sources = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = present(source, kind) else {
                continue;
            };
            sources += 1;
            let field = format!("{all}[{index}].{kind}.name");
            match text(reference, "name") {
                "" => faults.push(Fault::required(field, "")),
                name => faults.extend(Fault::each(&field, name, names::subdomain(name, true))),
            }
        }
        match sources {
            0 => faults.push(Fault::invalid(
                all.as_str(),
                &"".into(),
                "must specify one of: `configMapRef` or `secretRef`",
            )),
            1 => {}
            _ => faults.push(more_than_one(&all)),
        }
    }
    faults
}

fn more_than_one(field: &str) -> Fault {
    Fault::invalid(
        field,
        &"".into(),
        "may not have more than one field specified at a time",
    )
}

fn validate_source(source: &Value, has_value: bool, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut sources = 0;
    if let Some(reference) = present(source, "fieldRef") {
        sources += 1;
        faults.extend(validate_field(reference, &OF_VARIABLES, &format!("{field}.fieldRef")));
    }
    if let Some(reference) = present(source, "resourceFieldRef") {
        sources += 1;
        faults.extend(validate_resource(
            reference,
            false,
            &format!("{field}.resourceFieldRef"),
        ));
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let Some(reference) = present(source, kind) else {
            continue;
        };
        sources += 1;
        let (name, key) = (text(reference, "name"), text(reference, "key"));
        faults.extend(Fault::each(
            &format!("{field}.{kind}.name"),
            name,
            names::subdomain(name, false),
        ));
        let field = format!("{field}.{kind}.key");
        if key.is_empty() {
            faults.push(Fault::required(field, ""));
        } else {
            faults.extend(Fault::each(&field, key, names::config_key(key)));
        }
    }
    if sources == 0 {
        faults.push(Fault::invalid(
            field,
            &"".into(),
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        ));
    } else if has_value {
        faults.push(Fault::invalid(
            field,
            &"".into(),
            "may not be specified when `value` is not empty",
        ));
    } else if sources > 1 {
        faults.push(more_than_one(field));
    }
    faults
}

/// What is wrong with a reference to a field of the pod.
pub(super) fn validate_field(reference: &Value, allowed: &[&str], field: &str) -> Vec<Fault> {
    let path = text(reference, "fieldPath");
    if path.is_empty() {
        return vec![Fault::required(format!("{field}.fieldPath"), "")];
    }
    let subscript = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    let base = subscript.map_or(path, |(base, _)| base);
    // A field with a key is known if the field is one of the two that have keys.
    if !KNOWN.contains(&base) {
        return vec![Fault::invalid(
            format!("{field}.fieldPath"),
            &path.into(),
            &format!("error converting fieldPath: field label not supported: {path}"),
        )];
    }
    match subscript {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            Fault::each(field, &key, names::qualified_name(&key))
        }
        Some(("metadata.labels", key)) => Fault::each(field, key, names::qualified_name(key)),
        Some((base, _)) => vec![Fault::invalid(field, &base.into(), "does not support subscript")],
        None if !allowed.contains(&path) => {
            vec![Fault::not_supported(
                format!("{field}.fieldPath"),
                &path.into(),
                allowed,
            )]
        }
        None => Vec::new(),
    }
}

/// What is wrong with a reference to a resource of a container.
pub(super) fn validate_resource(reference: &Value, is_file: bool, field: &str) -> Vec<Fault> {
    let resource = text(reference, "resource");
    let is_huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    let mut faults = Vec::new();
    if is_file && text(reference, "containerName").is_empty() {
        faults.push(Fault::required(format!("{field}.containerName"), ""));
    } else if resource.is_empty() {
        faults.push(Fault::required(format!("{field}.resource"), ""));
    } else if !RESOURCES.contains(&resource) && !is_huge {
        faults.push(Fault::not_supported(
            format!("{field}.resource"),
            &resource.into(),
            &RESOURCES,
        ));
    }
    let divisor = at(reference, &["divisor"]);
    let allowed: &[&str] = if resource.ends_with(".cpu") {
        &["1m", "1"]
    } else {
        &[
            "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
        ]
    };
    let shown = divisor.as_str().unwrap_or("0");
    if shown != "0" && RESOURCES.contains(&resource) && !allowed.contains(&shown) {
        let why = match resource {
            _ if resource.ends_with(".cpu") => "only divisor's values 1m and 1 are supported with the cpu resource",
            _ if resource.ends_with(".memory") => {
                "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"
            }
            _ => {
                "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource"
            }
        };
        // The server shows the resource here, and not the divisor.
        faults.push(Fault::invalid(format!("{field}.divisor"), &resource.into(), why));
    }
    faults
}
