//! The containers of a pod: those that run, those that prepare, and those that look in.

use serde_json::Value;

use super::{environment, resources, volumes};
use crate::document::{at, is_true, list, number, present, text};
use crate::fault::{Fault, FaultKind};
use crate::{meta, names};

/// What containers can refer to.
pub(super) struct Surroundings<'a> {
    /// The names of the volumes with which nothing is wrong.
    pub(super) volumes: Vec<&'a str>,
    /// The names of the pod's claims to resources.
    pub(super) claims: Vec<&'a str>,
    /// How long the pod may take to end, in seconds.
    pub(super) grace: Option<i64>,
}

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const MAX_ID: i64 = i32::MAX as i64;

/// What is wrong with the containers that run.
pub(super) fn validate(spec: &Value, around: &Surroundings<'_>, field: &str) -> Vec<Fault> {
    let all = format!("{field}.containers");
    if list(spec, "containers").len() == 0 {
        return vec![Fault::required(all, "")];
    }
    let mut faults = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (index, container) in list(spec, "containers").enumerate() {
        let field = format!("{all}[{index}]");
        faults.extend(validate_common(container, around, &field));
        let name = text(container, "name");
        if known.contains(&name) {
            faults.push(Fault::duplicate(format!("{field}.name"), &name.into()));
        } else {
            known.push(name);
        }
        faults.extend(validate_life(container, around, &field));
        if present(container, "restartPolicy").is_some() {
            faults.push(Fault::forbidden(
                format!("{field}.restartPolicy"),
                "may not be set for non-init containers",
            ));
        }
    }
    let containers: Vec<&Value> = list(spec, "containers").collect();
    faults.extend(host_ports(&containers, &all));
    faults
}

/// What is wrong with the containers that prepare.
pub(super) fn validate_initial(spec: &Value, around: &Surroundings<'_>, field: &str) -> Vec<Fault> {
    let all = format!("{field}.initContainers");
    let mut faults = Vec::new();
    let mut known: Vec<&str> = list(spec, "containers")
        .map(|container| text(container, "name"))
        .collect();
    for (index, container) in list(spec, "initContainers").enumerate() {
        let field = format!("{all}[{index}]");
        faults.extend(validate_common(container, around, &field));
        let policy = container.get("restartPolicy").and_then(Value::as_str);
        if let Some(policy) = policy
            && policy != "Always"
        {
            faults.push(Fault::not_supported(
                format!("{field}.restartPolicy"),
                &policy.into(),
                &["Always"],
            ));
        }
        let name = text(container, "name");
        if known.contains(&name) {
            faults.push(Fault::duplicate(format!("{field}.name"), &name.into()));
        } else if !name.is_empty() {
            known.push(name);
        }
        faults.extend(host_ports(&[container], &all));
        if policy == Some("Always") {
            faults.extend(validate_life(container, around, &field));
            continue;
        }
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if present(container, name).is_some() {
                faults.push(Fault::forbidden(
                    format!("{field}.{name}"),
                    "may not be set for init containers without restartPolicy=Always",
                ));
            }
        }
    }
    faults
}

fn validate_common(container: &Value, around: &Surroundings<'_>, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let name = text(container, "name");
    if name.is_empty() {
        faults.push(Fault::required(format!("{field}.name"), ""));
    } else {
        faults.extend(Fault::each(&format!("{field}.name"), name, names::dns_label(name)));
    }
    if text(container, "image").is_empty() {
        faults.push(Fault::required(format!("{field}.image"), ""));
    }
    let message = text(container, "terminationMessagePolicy");
    if !matches!(message, "File" | "FallbackToLogsOnError") {
        faults.push(Fault::not_supported(
            format!("{field}.terminationMessagePolicy"),
            &message.into(),
            &["File", "FallbackToLogsOnError"],
        ));
    }
    faults.extend(validate_ports(container, field));
    faults.extend(environment::validate(container, field));
    faults.extend(validate_mounts(container, around, field));
    let policy = text(container, "imagePullPolicy");
    if !PULL_POLICIES.contains(&policy) {
        faults.push(Fault::not_supported(
            format!("{field}.imagePullPolicy"),
            &policy.into(),
            &PULL_POLICIES,
        ));
    }
    faults.extend(resources::validate(
        at(container, &["resources"]),
        &around.claims,
        &format!("{field}.resources"),
    ));
    faults.extend(validate_security(
        at(container, &["securityContext"]),
        &format!("{field}.securityContext"),
    ));
    faults
}

fn validate_ports(container: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (index, port) in list(container, "ports").enumerate() {
        let at_field = |name: &str| format!("{field}.ports[{index}].{name}");
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if !wrong.is_empty() {
                faults.extend(Fault::each(&at_field("name"), name, wrong));
            } else if known.contains(&name) {
                faults.push(Fault::duplicate(at_field("name"), &name.into()));
            } else {
                known.push(name);
            }
        }
        let number_of = |name: &str| number(port, name).unwrap_or_default();
        let mut number_faults = |name: &str| {
            let value = number_of(name);
            for why in names::port_number(value) {
                faults.push(Fault::invalid(at_field(name), &value.into(), &why));
            }
        };
        if number_of("containerPort") != 0 {
            number_faults("containerPort");
        }
        if number_of("hostPort") != 0 {
            number_faults("hostPort");
        }
        if number_of("containerPort") == 0 {
            faults.push(Fault::required(at_field("containerPort"), ""));
        }
        let protocol = text(port, "protocol");
        if !PROTOCOLS.contains(&protocol) {
            faults.push(Fault::not_supported(at_field("protocol"), &protocol.into(), &PROTOCOLS));
        }
    }
    faults
}

fn host_ports(containers: &[&Value], field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        for (position, port) in list(container, "ports").enumerate() {
            let host_port = number(port, "hostPort").unwrap_or_default();
            if host_port == 0 {
                continue;
            }
            let key = format!("{}/{}/{host_port}", text(port, "protocol"), text(port, "hostIP"));
            if taken.contains(&key) {
                faults.push(Fault::duplicate(
                    format!("{field}[{index}].ports[{position}].hostPort"),
                    &key.into(),
                ));
            } else {
                taken.push(key);
            }
        }
    }
    faults
}

fn validate_mounts(container: &Value, around: &Surroundings<'_>, field: &str) -> Vec<Fault> {
    let all = format!("{field}.volumeMounts");
    let mut faults = Vec::new();
    let mut taken: Vec<&str> = Vec::new();
    for (index, mount) in list(container, "volumeMounts").enumerate() {
        let at_field = |name: &str| format!("{all}[{index}].{name}");
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            faults.push(Fault::required(at_field("name"), ""));
        }
        if !around.volumes.contains(&name) {
            faults.push(Fault::not_found(at_field("name"), &name.into()));
        }
        if path.is_empty() {
            faults.push(Fault::required(at_field("mountPath"), ""));
        }
        if taken.contains(&path) {
            faults.push(Fault::invalid(at_field("mountPath"), &path.into(), "must be unique"));
        }
        taken.push(path);
        let (below, computed) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        // The server does not say which of the mounts it means here.
        if !below.is_empty() {
            faults.extend(volumes::descending_path(below, &format!("{all}.subPath")));
        }
        if !computed.is_empty() {
            if !below.is_empty() {
                faults.push(Fault::invalid(
                    at_field("subPathExpr"),
                    &computed.into(),
                    "subPathExpr and subPath are mutually exclusive",
                ));
            }
            faults.extend(volumes::descending_path(computed, &format!("{all}.subPathExpr")));
        }
        if let Some(propagation) = mount.get("mountPropagation").and_then(Value::as_str) {
            let field = format!("{all}.mountPropagation");
            const KNOWN: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
            if !KNOWN.contains(&propagation) {
                faults.push(Fault::not_supported(field.as_str(), &propagation.into(), &KNOWN));
            }
            let is_privileged = is_true(at(container, &["securityContext"]), "privileged");
            if propagation == "Bidirectional" && !is_privileged {
                faults.push(Fault::forbidden(
                    field,
                    "Bidirectional mount propagation is available only to privileged containers",
                ));
            }
        }
    }
    faults
}

/// What happens to a container while it lives.
fn validate_life(container: &Value, around: &Surroundings<'_>, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for name in ["postStart", "preStop"] {
        if let Some(handler) = present(at(container, &["lifecycle"]), name) {
            faults.extend(validate_handler(handler, around, &format!("{field}.lifecycle.{name}")));
        }
    }
    for name in PROBES {
        let Some(probe) = present(container, name) else {
            continue;
        };
        let field = format!("{field}.{name}");
        faults.extend(validate_handler(probe, around, &field));
        for number in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            faults.extend(meta::negative(probe.get(number), &format!("{field}.{number}")));
        }
        let grace = present(probe, "terminationGracePeriodSeconds");
        if let Some(seconds) = grace
            && seconds.as_i64().is_some_and(|seconds| seconds <= 0)
        {
            faults.push(Fault::invalid(
                format!("{field}.terminationGracePeriodSeconds"),
                seconds,
                "must be greater than 0",
            ));
        }
        if name == "readinessProbe" {
            if let Some(seconds) = grace {
                faults.push(Fault::invalid(
                    format!("{field}.terminationGracePeriodSeconds"),
                    seconds,
                    "must not be set for readinessProbes",
                ));
            }
        } else if number(probe, "successThreshold") != Some(1) {
            faults.push(Fault::invalid(
                format!("{field}.successThreshold"),
                at(probe, &["successThreshold"]),
                "must be 1",
            ));
        }
    }
    faults
}

fn validate_handler(handler: &Value, around: &Surroundings<'_>, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut has_one = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = present(handler, kind) else { continue };
        let field = format!("{field}.{kind}");
        if has_one {
            faults.push(Fault::forbidden(field, "may not specify more than 1 handler type"));
            continue;
        }
        has_one = true;
        match kind {
            "exec" if list(action, "command").len() == 0 => {
                faults.push(Fault::required(format!("{field}.command"), ""));
            }
            "httpGet" => faults.extend(validate_request(action, &field)),
            "tcpSocket" | "grpc" => faults.extend(port_or_name(at(action, &["port"]), &format!("{field}.port"))),
            "sleep" => {
                let seconds = number(action, "seconds").unwrap_or_default();
                let longest = around.grace.unwrap_or_default();
                if seconds < 0 || seconds > longest {
                    faults.push(Fault::invalid(
                        field,
                        &seconds.into(),
                        &format!("must be non-negative and less than terminationGracePeriodSeconds ({longest})"),
                    ));
                }
            }
            _ => {}
        }
    }
    if !has_one {
        faults.push(Fault::required(field, "must specify a handler type"));
    }
    faults
}

fn validate_request(request: &Value, field: &str) -> Vec<Fault> {
    let mut faults = port_or_name(at(request, &["port"]), &format!("{field}.port"));
    let scheme = text(request, "scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        faults.push(Fault::not_supported(
            format!("{field}.scheme"),
            &scheme.into(),
            &["HTTP", "HTTPS"],
        ));
    }
    for header in list(request, "httpHeaders") {
        let name = text(header, "name");
        faults.extend(Fault::each(
            &format!("{field}.httpHeaders"),
            name,
            names::header_name(name),
        ));
    }
    faults
}

/// What is wrong with a port that is a number or a name.
fn port_or_name(port: &Value, field: &str) -> Vec<Fault> {
    match port {
        Value::String(name) => Fault::each(field, name, names::port_name(name)),
        other => {
            let number = other.as_i64().unwrap_or_default();
            names::port_number(number)
                .iter()
                .map(|why| Fault::invalid(field, &number.into(), why))
                .collect()
        }
    }
}

/// An account's or a group's number.
pub(super) fn validate_id(context: &Value, name: &str, field: &str) -> Vec<Fault> {
    match number(context, name) {
        Some(id) if !(0..=MAX_ID).contains(&id) => vec![Fault::invalid(
            format!("{field}.{name}"),
            &id.into(),
            &names::out_of_range(0, MAX_ID),
        )],
        _ => Vec::new(),
    }
}

/// How system calls are filtered.
pub(super) fn validate_seccomp(context: &Value, field: &str) -> Vec<Fault> {
    let Some(profile) = present(context, "seccompProfile") else {
        return Vec::new();
    };
    let field = format!("{field}.seccompProfile");
    let (kind, local) = (text(profile, "type"), profile.get("localhostProfile"));
    match kind {
        "Localhost" => match local.and_then(Value::as_str) {
            None => vec![Fault::required(
                format!("{field}.localhostProfile"),
                "must be set when seccomp type is Localhost",
            )],
            Some(path) => volumes::descending_path(path, &format!("{field}.localhostProfile")),
        },
        _ if local.is_some() => vec![Fault::invalid(
            format!("{field}.localhostProfile"),
            at(profile, &["localhostProfile"]),
            "can only be set when seccomp type is Localhost",
        )],
        "RuntimeDefault" | "Unconfined" => Vec::new(),
        "" => vec![Fault::required(
            format!("{field}.type"),
            "type is required when seccompProfile is set",
        )],
        _ => vec![Fault::not_supported(
            format!("{field}.type"),
            &kind.into(),
            &["Localhost", "RuntimeDefault", "Unconfined"],
        )],
    }
}

fn validate_security(context: &Value, field: &str) -> Vec<Fault> {
    if context.is_null() {
        return Vec::new();
    }
    let mut faults = validate_id(context, "runAsUser", field);
    faults.extend(validate_id(context, "runAsGroup", field));
    if let Some(kind) = context.get("procMount").and_then(Value::as_str)
        && !matches!(kind, "Default" | "Unmasked")
    {
        faults.push(Fault::not_supported(
            format!("{field}.procMount"),
            &kind.into(),
            &["Default", "Unmasked"],
        ));
    }
    faults.extend(validate_seccomp(context, field));
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let shown = shown_security(context);
        let refuse = |why: &str| Fault::shown_as(FaultKind::Invalid, field, &shown, why);
        if is_true(context, "privileged") {
            faults.push(refuse(
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ));
        }
        let adds = list(at(context, &["capabilities"]), "add").any(|name| name.as_str() == Some("CAP_SYS_ADMIN"));
        if adds {
            faults.push(refuse(
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ));
        }
    }
    faults
}

/// A security context with the names that the server's inner type gives its fields.
fn shown_security(context: &Value) -> String {
    let plain = |name: &str| context.get(name).map_or_else(|| "null".to_owned(), ToString::to_string);
    let profile = |name: &str| {
        present(context, name).map_or_else(
            || "null".to_owned(),
            |profile| {
                format!(
                    "{{\"Type\":{},\"LocalhostProfile\":{}}}",
                    at(profile, &["type"]),
                    at(profile, &["localhostProfile"])
                )
            },
        )
    };
    let capabilities = present(context, "capabilities").map_or_else(
        || "null".to_owned(),
        |capabilities| {
            let part = |name: &str| {
                capabilities
                    .get(name)
                    .map_or_else(|| "null".to_owned(), ToString::to_string)
            };
            format!("{{\"Add\":{},\"Drop\":{}}}", part("add"), part("drop"))
        },
    );
    format!(
        "{{\"Capabilities\":{capabilities},\"Privileged\":{},\"SELinuxOptions\":{},\"WindowsOptions\":{},\"RunAsUser\":{},\"RunAsGroup\":{},\"RunAsNonRoot\":{},\"ReadOnlyRootFilesystem\":{},\"AllowPrivilegeEscalation\":{},\"ProcMount\":{},\"SeccompProfile\":{},\"AppArmorProfile\":{}}}",
        plain("privileged"),
        plain("seLinuxOptions"),
        plain("windowsOptions"),
        plain("runAsUser"),
        plain("runAsGroup"),
        plain("runAsNonRoot"),
        plain("readOnlyRootFilesystem"),
        plain("allowPrivilegeEscalation"),
        plain("procMount"),
        profile("seccompProfile"),
        profile("appArmorProfile"),
    )
}
