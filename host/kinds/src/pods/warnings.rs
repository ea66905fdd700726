//! What the server warns of in pods and templates: what is valid and seldom meant.

use serde_json::Value;

use crate::document::{at, list, number, present, text};
use crate::fault::quoted;
use crate::names;
use crate::quantity::Quantity;

/// Volumes whose plugins are gone or going.
const VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Warns of the name of an object whose pods are named after it.
pub(crate) fn hostname_warning(object: &Value, used_in: &str) -> Option<String> {
    let wrong = names::dns_label(text(at(object, &["metadata"]), "name"));
    (!wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        )
    })
}

/// Warns of what is in a template, or in a pod; `field` is where that is, with a dot after it if it is not the root.
pub(crate) fn template_warnings(template: &Value, field: &str) -> Vec<String> {
    let spec = at(template, &["spec"]);
    let field = format!("{field}spec");
    let mut warnings = Vec::new();
    for (index, constraint) in list(spec, "topologySpreadConstraints").enumerate() {
        if present(constraint, "labelSelector").is_none() {
            warnings.push(format!(
                "{field}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
    for (index, volume) in list(spec, "volumes").enumerate() {
        for (kind, why) in VOLUMES {
            if present(volume, kind).is_some() {
                let shown = if kind == "storageos" { "storageOS" } else { kind };
                warnings.push(format!("{field}.volumes[{index}].{shown}: {why}"));
            }
        }
    }
    let mut secrets: Vec<&str> = Vec::new();
    for (index, secret) in list(spec, "imagePullSecrets").enumerate() {
        let name = text(secret, "name");
        if secrets.contains(&name) {
            warnings.push(format!(
                "{field}.imagePullSecrets[{index}].name: duplicate name {}",
                quoted(name)
            ));
        }
        secrets.push(name);
    }
    for (index, name) in secrets.iter().enumerate() {
        if name.is_empty() {
            warnings.push(format!(
                "{field}.imagePullSecrets[{index}].name: invalid empty name \"\""
            ));
        }
    }
    let mut ports = Ports::default();
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in list(spec, kind).enumerate() {
            let field = format!("{field}.{kind}[{index}]");
            warnings.extend(container_warnings(container, &field));
            ports.see(container, &field);
        }
    }
    warnings.extend(ports.overlaps);
    warnings.extend(ports.names);
    if number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{field}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    warnings
}

fn container_warnings(container: &Value, field: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for name in ["memory", "ephemeral-storage"] {
        for kind in ["limits", "requests"] {
            let amount = at(container, &["resources", kind, name]).as_str().unwrap_or_default();
            if Quantity::parse(amount).is_some_and(|parsed| !parsed.is_whole()) {
                warnings.push(format!(
                    "{field}.resources.{kind}[{name}]: fractional byte value {} is invalid, must be an integer",
                    quoted(amount)
                ));
            }
        }
    }
    let mut known: Vec<&str> = Vec::new();
    for (index, variable) in list(container, "env").enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        if !known.contains(&name) {
            known.push(name);
            continue;
        }
        let reference = format!("$({name})");
        let hides = present(variable, "valueFrom").is_some() || value == reference || !value.contains(&reference);
        if hides {
            warnings.push(format!(
                "{field}.env[{index}]: hides previous definition of {}, which may be dropped when using apply",
                quoted(name)
            ));
        }
    }
    warnings
}

/// The ports of all containers so far.
#[derive(Default)]
struct Ports<'a> {
    seen: Vec<(String, &'a Value)>,
    overlaps: Vec<String>,
    names: Vec<String>,
}

impl<'a> Ports<'a> {
    fn see(&mut self, container: &'a Value, field: &str) {
        for (index, port) in list(container, "ports").enumerate() {
            let field = format!("{field}.ports[{index}]");
            let host_port = |port: &Value| number(port, "hostPort").unwrap_or_default();
            for (other_field, other) in &self.seen {
                let same = |name: &str| port.get(name) == other.get(name);
                if !same("containerPort") || !same("protocol") {
                    continue;
                }
                let (one, two) = (text(port, "hostIP").is_empty(), text(other, "hostIP").is_empty());
                let how = if same("hostIP") && host_port(port) == host_port(other) {
                    "duplicate"
                } else if host_port(port) == 0 || host_port(other) == 0 {
                    "overlapping"
                } else if host_port(port) == host_port(other) && one != two {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                self.overlaps
                    .push(format!("{field}: {how} port definition with {other_field}"));
            }
            let name = text(port, "name");
            let first = self
                .seen
                .iter()
                .find(|(_, other)| !name.is_empty() && text(other, "name") == name);
            if let Some((first, _)) = first {
                self.names.push(format!(
                    "{field}: duplicate port name {} with {first}, services and probes that select ports by name will use {first}",
                    quoted(name)
                ));
            }
            self.seen.push((field, port));
        }
    }
}
