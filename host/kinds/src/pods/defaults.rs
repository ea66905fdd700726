//! What the server fills into the spec of a pod, whether it is a pod's or a template's.

use serde_json::{Value, json};

use crate::document::{default, elements_mut, map_mut, member_mut, present, set, text};
use crate::quantity::{self, Quantity};

const MODE: i64 = 0o644;

/// Fills in the spec of a pod or of a template.
pub(crate) fn default_spec(spec: &mut Value) {
    // One account under two names, of which one is older.
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    }
    .to_owned();
    if !account.is_empty() {
        set(spec, "serviceAccountName", Some(account.clone().into()));
        set(spec, "serviceAccount", Some(account.into()));
    }
    for volume in elements_mut(spec, "volumes") {
        default_volume(volume);
    }
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in elements_mut(spec, field) {
            default_container(container);
        }
    }
    resource_list(spec, "overhead");
    if let Some(resources) = spec.get_mut("resources") {
        resource_list(resources, "limits");
        resource_list(resources, "requests");
    }
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "securityContext", json!({}));
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "schedulerName", "default-scheduler");
}

/// Drops the fields of features that are off unless asked for.
pub(crate) fn drop_disabled(spec: &mut Value) {
    for container in elements_mut(spec, "containers") {
        set(container, "restartPolicy", None);
        set(container, "restartPolicyRules", None);
    }
    for container in elements_mut(spec, "initContainers") {
        set(container, "restartPolicyRules", None);
        if text(container, "restartPolicy") != "Always" {
            set(container, "restartPolicy", None);
        }
    }
}

/// Writes the amounts of a list of resources as the server does.
pub(crate) fn resource_list(value: &mut Value, field: &str) {
    let Some(list) = value.get_mut(field).and_then(Value::as_object_mut) else {
        return;
    };
    for (_, amount) in list.iter_mut() {
        if let Some(parsed) = Quantity::parse(&as_text(amount)) {
            *amount = parsed.in_thousandths().canonical().into();
        }
    }
}

/// An amount may also be sent as a number.
fn as_text(amount: &Value) -> String {
    match amount {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn amount(value: &mut Value, field: &str) {
    if let Some(sent) = present(value, field) {
        let canonical = quantity::canonical(&as_text(sent));
        set(value, field, Some(canonical.into()));
    }
}

fn default_container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    default(container, "imagePullPolicy", policy);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    for port in elements_mut(container, "ports") {
        default(port, "protocol", "TCP");
    }
    for variable in elements_mut(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            default_source(source);
            if let Some(file) = source.get_mut("fileKeyRef") {
                default(file, "optional", false);
            }
        }
    }
    if let Some(resources) = container.get_mut("resources") {
        resource_list(resources, "limits");
        resource_list(resources, "requests");
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(field).filter(|probe| probe.is_object()) else {
            continue;
        };
        for (field, value) in [
            ("timeoutSeconds", 1),
            ("periodSeconds", 10),
            ("successThreshold", 1),
            ("failureThreshold", 3),
        ] {
            if probe.get(field).and_then(Value::as_i64).unwrap_or_default() == 0 {
                set(probe, field, Some(value.into()));
            }
        }
        default_handler(probe);
        if let Some(call) = probe.get_mut("grpc").filter(|call| call.is_object())
            && present(call, "service").is_none()
        {
            set(call, "service", Some("".into()));
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle") {
        for field in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.get_mut(field) {
                default_handler(handler);
            }
        }
    }
}

fn default_handler(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
}

/// Where a variable or a file gets its value from.
fn default_source(source: &mut Value) {
    if let Some(field) = source.get_mut("fieldRef").filter(|field| field.is_object()) {
        default(field, "apiVersion", "v1");
    }
    if let Some(resource) = source.get_mut("resourceFieldRef").filter(|field| field.is_object()) {
        default(resource, "divisor", "0");
        amount(resource, "divisor");
    }
}

/// What is tagged `latest`, or not at all, is pulled always; a digest never changes.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag);
    let is_name = |part: &str| {
        !part.is_empty()
            && part.chars().all(|character| {
                character.is_ascii_lowercase() || character.is_ascii_digit() || "._-/:".contains(character)
            })
    };
    match tag {
        // What is no image at all has no tag either.
        _ if !is_name(last.split(':').next().unwrap_or_default()) => "IfNotPresent",
        Some("latest") => "Always",
        Some(_) => "IfNotPresent",
        None if digest.is_empty() => "Always",
        None => "IfNotPresent",
    }
}

fn default_volume(volume: &mut Value) {
    let has_source = volume
        .as_object()
        .is_some_and(|volume| volume.iter().any(|(field, value)| field != "name" && !value.is_null()));
    if !has_source {
        set(volume, "emptyDir", Some(json!({})));
    }
    for field in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(field).filter(|source| source.is_object()) {
            default(source, "defaultMode", MODE);
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|path| path.is_object())
        && path.get("type").is_none()
    {
        set(path, "type", Some("".into()));
    }
    if let Some(directory) = volume.get_mut("emptyDir") {
        amount(directory, "sizeLimit");
    }
    if let Some(disk) = volume.get_mut("rbd").filter(|disk| disk.is_object()) {
        default(disk, "pool", "rbd");
        default(disk, "user", "admin");
        default(disk, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = volume.get_mut("iscsi").filter(|disk| disk.is_object()) {
        default(disk, "iscsiInterface", "default");
    }
    if let Some(disk) = volume.get_mut("azureDisk").filter(|disk| disk.is_object()) {
        default(disk, "cachingMode", "ReadWrite");
        default(disk, "fsType", "ext4");
        default(disk, "readOnly", false);
        default(disk, "kind", "Shared");
    }
    if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
        let policy = pull_policy(text(image, "reference"));
        default(image, "pullPolicy", policy);
    }
    if let Some(files) = volume.get_mut("downwardAPI") {
        elements_mut(files, "items").for_each(default_source);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in elements_mut(projected, "sources") {
            if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
                default(token, "expirationSeconds", 3600);
            }
            if let Some(files) = source.get_mut("downwardAPI") {
                elements_mut(files, "items").for_each(default_source);
            }
        }
    }
    if let Some(template) = volume.pointer_mut("/ephemeral/volumeClaimTemplate")
        && template.is_object()
    {
        claim_spec(member_mut(template, "spec"));
    }
}

/// Fills in the spec of a claim to a volume.
pub(crate) fn claim_spec(spec: &mut Value) {
    default(map_mut_of(spec), "volumeMode", "Filesystem");
    if let Some(resources) = spec.get_mut("resources") {
        resource_list(resources, "limits");
        resource_list(resources, "requests");
    }
}

fn map_mut_of(value: &mut Value) -> &mut Value {
    map_mut(value);
    value
}
