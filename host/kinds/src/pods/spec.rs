//! What must hold of the spec of a pod, and of the template of one.

use serde_json::Value;

use super::containers::{self, Surroundings};
use super::volumes;
use crate::document::{at, is_true, list, number, object, present, text};
use crate::fault::Fault;
use crate::{meta, names};

const MAX_SECONDS: i64 = i32::MAX as i64;
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What is wrong with a template of pods.
pub(crate) fn validate_template(template: &Value, field: &str) -> Vec<Fault> {
    let metadata = at(template, &["metadata"]);
    let spec = at(template, &["spec"]);
    let mut faults = meta::labels(metadata.get("labels"), &format!("{field}.labels"));
    let annotations = format!("{field}.annotations");
    faults.extend(meta::annotations(metadata.get("annotations"), &annotations));
    faults.extend(validate_annotations(template, &annotations));
    faults.extend(validate_spec(spec, false, &format!("{field}.spec")));
    if list(spec, "ephemeralContainers").len() > 0 {
        faults.push(Fault::forbidden(
            format!("{field}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
    faults
}

/// What is wrong with the annotations that mean something in a pod.
pub(super) fn validate_annotations(pod: &Value, field: &str) -> Vec<Fault> {
    let annotations = at(pod, &["metadata", "annotations"]);
    let mut faults = Vec::new();
    if let Some(value) = annotations.get(MIRROR)
        && text(at(pod, &["spec"]), "nodeName").is_empty()
    {
        faults.push(Fault::invalid(
            format!("{field}[{MIRROR}]"),
            value,
            "must set spec.nodeName if mirror pod annotation is set",
        ));
    }
    if let Some(cost) = annotations.get(DELETION_COST).and_then(Value::as_str) {
        let is_plain = !cost.starts_with('+') && (cost == "0" || !cost.starts_with('0')) && cost.parse::<i32>().is_ok();
        if !is_plain {
            faults.push(Fault::invalid(
                format!("{field}[{DELETION_COST}]"),
                &cost.into(),
                "must be a 32bit integer",
            ));
        }
    }
    faults
}

/// What is wrong with the spec of a pod, or of a template.
pub(super) fn validate_spec(spec: &Value, is_pod: bool, field: &str) -> Vec<Fault> {
    let (volume_names, mut faults) = volumes::validate(spec, field);
    let around = Surroundings {
        volumes: volume_names,
        claims: list(spec, "resourceClaims").map(|claim| text(claim, "name")).collect(),
        grace: number(spec, "terminationGracePeriodSeconds"),
    };
    faults.extend(containers::validate(spec, &around, field));
    faults.extend(containers::validate_initial(spec, &around, field));
    faults.extend(validate_host_network(spec, is_pod, field));
    faults.extend(one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], field));
    faults.extend(one_of(
        spec,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        field,
    ));
    faults.extend(meta::labels(spec.get("nodeSelector"), &format!("{field}.nodeSelector")));
    faults.extend(validate_security(spec, &format!("{field}.securityContext")));
    for (index, gate) in list(spec, "readinessGates").enumerate() {
        let kind = text(gate, "conditionType");
        faults.extend(Fault::each(
            &format!("{field}.readinessGates[{index}].conditionType"),
            kind,
            names::qualified_name(kind),
        ));
    }
    faults.extend(validate_gates(spec, field));
    faults.extend(validate_spread(spec, field));
    faults.extend(validate_names(spec, field));
    faults.extend(validate_tolerations(spec, &format!("{field}.tolerations")));
    faults.extend(validate_aliases(spec, &format!("{field}.hostAliases")));
    for (name, rule) in [("priorityClassName", spec), ("runtimeClassName", spec)] {
        let value = text(rule, name);
        if !value.is_empty() {
            faults.extend(Fault::each(
                &format!("{field}.{name}"),
                value,
                names::subdomain(value, false),
            ));
        }
    }
    if let Some(policy) = spec.get("preemptionPolicy").and_then(Value::as_str)
        && !matches!(policy, "PreemptLowerPriority" | "Never")
    {
        faults.push(Fault::not_supported(
            format!("{field}.preemptionPolicy"),
            &policy.into(),
            &["PreemptLowerPriority", "Never"],
        ));
    }
    faults
}

fn one_of(spec: &Value, name: &str, known: &[&str], field: &str) -> Option<Fault> {
    let value = text(spec, name);
    (!known.contains(&value)).then(|| Fault::not_supported(format!("{field}.{name}"), &value.into(), known))
}

fn validate_host_network(spec: &Value, is_pod: bool, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !is_true(spec, "hostNetwork") {
        return faults;
    }
    for (index, container) in list(spec, "containers").enumerate() {
        for (position, port) in list(container, "ports").enumerate() {
            let host = number(port, "hostPort").unwrap_or_default();
            let own = number(port, "containerPort").unwrap_or_default();
            if (is_pod || host != 0) && host != own {
                faults.push(Fault::invalid(
                    format!("{field}.containers[{index}].ports[{position}].hostPort"),
                    &host.into(),
                    "must match `containerPort` when `hostNetwork` is true",
                ));
            }
        }
    }
    faults
}

fn validate_security(spec: &Value, field: &str) -> Vec<Fault> {
    let context = at(spec, &["securityContext"]);
    let mut faults = Vec::new();
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        faults.extend(containers::validate_id(context, name, field));
    }
    for (index, group) in list(context, "supplementalGroups").enumerate() {
        let id = group.as_i64().unwrap_or_default();
        if !(0..=MAX_SECONDS).contains(&id) {
            faults.push(Fault::invalid(
                format!("{field}.supplementalGroups[{index}]"),
                group,
                &names::out_of_range(0, MAX_SECONDS),
            ));
        }
    }
    if is_true(spec, "shareProcessNamespace") && is_true(spec, "hostPID") {
        faults.push(Fault::invalid(
            format!("{field}.shareProcessNamespace"),
            &true.into(),
            "ShareProcessNamespace and HostPID cannot both be enabled",
        ));
    }
    for (name, known) in [
        ("fsGroupChangePolicy", ["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", ["Merge", "Strict"]),
    ] {
        if let Some(policy) = context.get(name).and_then(Value::as_str)
            && !known.contains(&policy)
        {
            faults.push(Fault::not_supported(format!("{field}.{name}"), &policy.into(), &known));
        }
    }
    faults.extend(containers::validate_seccomp(context, field));
    faults
}

fn validate_gates(spec: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (index, gate) in list(spec, "schedulingGates").enumerate() {
        let name = text(gate, "name");
        let field = format!("{field}.schedulingGates[{index}]");
        faults.extend(Fault::each(&field, name, names::qualified_name(name)));
        if known.contains(&name) {
            faults.push(Fault::duplicate(field, &name.into()));
        }
        known.push(name);
    }
    faults
}

fn validate_spread(spec: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, constraint) in list(spec, "topologySpreadConstraints").enumerate() {
        let at_field = |name: &str| format!("{field}.topologySpreadConstraints[{index}].{name}");
        let skew = number(constraint, "maxSkew").unwrap_or_default();
        if skew <= 0 {
            faults.push(Fault::invalid(
                at_field("maxSkew"),
                &skew.into(),
                "must be greater than zero",
            ));
        }
        if text(constraint, "topologyKey").is_empty() {
            faults.push(Fault::required(at_field("topologyKey"), "can not be empty"));
        }
        const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
        let action = text(constraint, "whenUnsatisfiable");
        if !ACTIONS.contains(&action) {
            faults.push(Fault::not_supported(
                at_field("whenUnsatisfiable"),
                &action.into(),
                &ACTIONS,
            ));
        }
        if let Some(selector) = present(constraint, "labelSelector") {
            faults.extend(crate::selector::validate(selector, &at_field("labelSelector")));
        }
    }
    faults
}

/// The names of other things that a pod refers to, and those by which it is known.
fn validate_names(spec: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for name in ["serviceAccountName", "nodeName"] {
        let value = text(spec, name);
        if !value.is_empty() {
            faults.extend(Fault::each(
                &format!("{field}.{name}"),
                value,
                names::subdomain(value, false),
            ));
        }
    }
    if let Some(seconds) = number(spec, "activeDeadlineSeconds")
        && !(1..=MAX_SECONDS).contains(&seconds)
    {
        faults.push(Fault::invalid(
            format!("{field}.activeDeadlineSeconds"),
            &seconds.into(),
            &names::out_of_range(1, MAX_SECONDS),
        ));
    }
    for name in ["hostname", "subdomain"] {
        let value = text(spec, name);
        if !value.is_empty() {
            faults.extend(Fault::each(&format!("{field}.{name}"), value, names::dns_label(value)));
        }
    }
    faults
}

fn validate_tolerations(spec: &Value, field: &str) -> Vec<Fault> {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut faults = Vec::new();
    for (index, toleration) in list(spec, "tolerations").enumerate() {
        let at_field = |name: &str| format!("{field}[{index}].{name}");
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
        if !key.is_empty() {
            faults.extend(Fault::each(&at_field("key"), key, names::qualified_name(key)));
        } else if operator != "Exists" {
            faults.push(Fault::invalid(
                at_field("operator"),
                &operator.into(),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if present(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            faults.push(Fault::invalid(
                at_field("effect"),
                &effect.into(),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ));
        }
        match operator {
            "Equal" | "" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    faults.push(Fault::invalid(at_field("operator"), &value.into(), &wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => faults.push(Fault::invalid(
                at_field("operator"),
                &value.into(),
                "value must be empty when `operator` is 'Exists'",
            )),
            "Exists" => {}
            _ => faults.push(Fault::not_supported(
                at_field("operator"),
                &operator.into(),
                &["Equal", "Exists"],
            )),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            faults.push(Fault::not_supported(at_field("effect"), &effect.into(), &EFFECTS));
        }
    }
    faults
}

fn validate_aliases(spec: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, alias) in list(spec, "hostAliases").enumerate() {
        let ip = text(alias, "ip");
        if ip.parse::<std::net::IpAddr>().is_err() {
            faults.push(Fault::invalid(
                format!("{field}[{index}].ip"),
                &ip.into(),
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ));
        }
        for (position, name) in list(alias, "hostnames").enumerate() {
            let name = name.as_str().unwrap_or_default();
            faults.extend(Fault::each(
                &format!("{field}[{index}].hostnames[{position}]"),
                name,
                names::dns_subdomain(name),
            ));
        }
    }
    faults
}

/// What is asked of pods and not of templates.
pub(super) fn validate_only_pods(spec: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    if text(spec, "serviceAccountName").is_empty() {
        for (index, volume) in list(spec, "volumes").enumerate() {
            for (position, source) in list(at(volume, &["projected"]), "sources").enumerate() {
                if object(Some(source)).any(|(kind, _)| kind == "serviceAccountToken") {
                    faults.push(Fault::forbidden(
                        format!("spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    ));
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for (index, container) in list(spec, field).enumerate() {
            let image = text(container, "image");
            if image != image.trim() {
                faults.push(Fault::invalid(
                    format!("spec.{field}[{index}].image"),
                    &image.into(),
                    "must not have leading or trailing whitespace",
                ));
            }
        }
    }
    faults
}
