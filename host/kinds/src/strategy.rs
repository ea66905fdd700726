//! The table of how the server treats each built-in kind, apart from what is in its objects: one line a kind.

use serde_json::{Value, json};

use crate::document::{at, text};
use crate::kind::Kind;
use crate::names;

/// How the server treats a kind.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// Its API group.
    pub group: &'static str,
    /// Its name.
    pub kind: &'static str,
    /// The parts of an object whose change raises `metadata.generation`; `None` if the kind has no generation.
    pub generation: Option<&'static [&'static str]>,
    /// Whether a PUT without a resource version is taken.
    pub unconditional: bool,
    /// Whether a PUT on a name that does not exist creates.
    pub create_on_update: bool,
    /// Fields that a write to the main resource never owns.
    pub reset_by_main: &'static [&'static str],
    /// Fields that a write to the status never owns.
    pub reset_by_status: &'static [&'static str],
    /// What may be a name.
    pub name: NameRule,
    /// Field selectors beside name and namespace.
    pub selectors: &'static [&'static str],
    /// Whether the answer to a deletion is the object.
    pub returns_deleted: bool,
}

/// What may be the name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain.
    Subdomain,
    /// A DNS label.
    Label,
    /// A DNS label that begins with a letter.
    Label1035,
    /// Whatever can be a segment of a path.
    PathSegment,
}

impl NameRule {
    /// Why `name` breaks the rule.
    pub fn complaints(self, name: &str, prefix: bool) -> Vec<String> {
        match self {
            Self::Subdomain => names::subdomain(name, prefix),
            Self::Label => names::label(name, prefix),
            Self::Label1035 => names::label_1035(name, prefix),
            Self::PathSegment => names::path_segment(name, prefix),
        }
    }
}

const SPEC: Option<&[&str]> = Some(&["spec"]);
const STATUS: &[&str] = &["status"];

impl Strategy {
    /// A kind without anything of its own: updates need a resource version.
    pub const fn new(group: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            kind,
            generation: None,
            unconditional: false,
            create_on_update: false,
            reset_by_main: &[],
            reset_by_status: &[],
            name: NameRule::Subdomain,
            selectors: &[],
            returns_deleted: false,
        }
    }

    /// With a generation that counts changes of the spec.
    pub(crate) const fn counts_spec(self) -> Self {
        Self {
            generation: SPEC,
            ..self
        }
    }

    /// With a generation that counts changes of these parts.
    pub(crate) const fn counts(self, parts: &'static [&'static str]) -> Self {
        Self {
            generation: Some(parts),
            ..self
        }
    }

    /// With updates without a resource version.
    pub(crate) const fn unconditional(self) -> Self {
        Self {
            unconditional: true,
            ..self
        }
    }

    /// With updates that create.
    pub(crate) const fn creates_on_update(self) -> Self {
        Self {
            create_on_update: true,
            ..self
        }
    }

    /// With a status that only its subresource writes, which in turn writes none of `fields`.
    pub(crate) const fn status_apart(self, fields: &'static [&'static str]) -> Self {
        Self {
            reset_by_main: STATUS,
            reset_by_status: fields,
            ..self
        }
    }

    /// With names of this form.
    pub(crate) const fn named(self, name: NameRule) -> Self {
        Self { name, ..self }
    }

    /// With these field selectors.
    pub(crate) const fn selected_by(self, selectors: &'static [&'static str]) -> Self {
        Self { selectors, ..self }
    }

    /// With the object as the answer to its deletion.
    pub(crate) const fn answers_with_deleted(self) -> Self {
        Self {
            returns_deleted: true,
            ..self
        }
    }
}

/// The rule of a kind of which nothing is known.
pub(crate) static PLAIN: Strategy = Strategy::new("", "").unconditional();

const ADMISSION: &str = "admissionregistration.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const EVENT_SELECTORS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// The kinds of which nothing more is known than what stands here.
pub(crate) static STRUCTURE_ONLY: &[Strategy] = &[
    Strategy::new("", "Endpoints").unconditional().creates_on_update(),
    Strategy::new("", "Event")
        .unconditional()
        .creates_on_update()
        .selected_by(EVENT_SELECTORS),
    Strategy::new("events.k8s.io", "Event")
        .unconditional()
        .creates_on_update()
        .selected_by(EVENT_SELECTORS),
    Strategy::new("", "LimitRange").unconditional().creates_on_update(),
    Strategy::new("", "Node")
        .unconditional()
        .status_apart(&["spec"])
        .selected_by(&["spec.unschedulable"]),
    Strategy::new("", "PersistentVolume")
        .unconditional()
        .status_apart(&["spec"])
        .answers_with_deleted(),
    Strategy::new("", "PodTemplate")
        .counts(&["template"])
        .unconditional()
        .answers_with_deleted(),
    Strategy::new("", "ReplicationController")
        .counts_spec()
        .unconditional()
        .status_apart(&["spec"])
        .selected_by(&["status.replicas"]),
    Strategy::new("apps", "ControllerRevision").unconditional(),
    Strategy::new("autoscaling", "HorizontalPodAutoscaler")
        .unconditional()
        .status_apart(&["spec"]),
    Strategy::new(ADMISSION, "MutatingWebhookConfiguration").counts(&["webhooks"]),
    Strategy::new(ADMISSION, "ValidatingWebhookConfiguration").counts(&["webhooks"]),
    Strategy::new(ADMISSION, "ValidatingAdmissionPolicy")
        .counts_spec()
        .status_apart(&["spec", "metadata"]),
    Strategy::new(ADMISSION, "ValidatingAdmissionPolicyBinding").counts_spec(),
    Strategy::new(ADMISSION, "MutatingAdmissionPolicy").counts_spec(),
    Strategy::new(ADMISSION, "MutatingAdmissionPolicyBinding").counts_spec(),
    Strategy::new("apiregistration.k8s.io", "APIService")
        .status_apart(&["spec", "metadata"])
        .named(NameRule::PathSegment),
    Strategy {
        reset_by_main: &["spec", "status"],
        reset_by_status: &["spec", "status.conditions"],
        ..Strategy::new(CERTIFICATES, "CertificateSigningRequest")
            .unconditional()
            .named(NameRule::PathSegment)
            .selected_by(&["spec.signerName"])
    },
    Strategy::new(CERTIFICATES, "ClusterTrustBundle").selected_by(&["spec.signerName"]),
    Strategy::new("coordination.k8s.io", "LeaseCandidate").creates_on_update(),
    Strategy::new("discovery.k8s.io", "EndpointSlice")
        .counts(&["endpoints", "ports", "addressType", "labels"])
        .unconditional(),
    Strategy::new(FLOW, "FlowSchema")
        .counts_spec()
        .unconditional()
        .status_apart(&["metadata", "spec"]),
    Strategy::new(FLOW, "PriorityLevelConfiguration")
        .counts_spec()
        .unconditional()
        .status_apart(&["spec", "metadata"]),
    Strategy::new(NETWORKING, "Ingress")
        .counts_spec()
        .unconditional()
        .status_apart(&["spec"]),
    Strategy::new(NETWORKING, "IngressClass").counts_spec().unconditional(),
    Strategy::new(NETWORKING, "IPAddress")
        .unconditional()
        .named(NameRule::PathSegment),
    Strategy::new(NETWORKING, "ServiceCIDR")
        .unconditional()
        .status_apart(&["spec"]),
    Strategy::new("node.k8s.io", "RuntimeClass").creates_on_update(),
    Strategy::new("policy", "PodDisruptionBudget")
        .counts_spec()
        .status_apart(&["spec"])
        .named(NameRule::PathSegment),
    Strategy::new(RESOURCE, "DeviceClass")
        .counts_spec()
        .unconditional()
        .answers_with_deleted(),
    Strategy::new(RESOURCE, "ResourceClaim")
        .unconditional()
        .status_apart(&["spec"])
        .answers_with_deleted(),
    Strategy::new(RESOURCE, "ResourceClaimTemplate")
        .unconditional()
        .answers_with_deleted(),
    Strategy::new(RESOURCE, "ResourceSlice")
        .counts_spec()
        .unconditional()
        .selected_by(&["spec.nodeName", "spec.driver"])
        .answers_with_deleted(),
    // Its generation is set once and never raised.
    Strategy::new("scheduling.k8s.io", "PriorityClass")
        .counts(&[])
        .unconditional(),
    Strategy::new(STORAGE, "CSIDriver").answers_with_deleted(),
    Strategy::new(STORAGE, "CSINode").answers_with_deleted(),
    Strategy::new(STORAGE, "CSIStorageCapacity"),
    Strategy::new(STORAGE, "StorageClass")
        .unconditional()
        .answers_with_deleted(),
    Strategy::new(STORAGE, "VolumeAttachment")
        .status_apart(&["metadata", "spec"])
        .answers_with_deleted(),
    Strategy::new(STORAGE, "VolumeAttributesClass")
        .unconditional()
        .answers_with_deleted(),
];

impl Kind for Strategy {
    fn strategy(&self) -> &Strategy {
        self
    }

    fn knows_only_structure(&self) -> bool {
        true
    }
}

/// What Go writes of a status that is empty.
pub(crate) fn empty_status(kind: &str) -> Value {
    match kind {
        "ReplicaSet" | "ReplicationController" => json!({"replicas": 0}),
        "StatefulSet" => json!({"replicas": 0, "availableReplicas": 0}),
        "DaemonSet" => json!({
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        }),
        "Service" | "Ingress" => json!({"loadBalancer": {}}),
        "HorizontalPodAutoscaler" => json!({"desiredReplicas": 0, "currentMetrics": null}),
        "PodDisruptionBudget" => json!({
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }),
        "PersistentVolume" => json!({"phase": "Pending"}),
        "VolumeAttachment" => json!({"attached": false}),
        _ => json!({}),
    }
}

/// Whether one of the parts differs; labels are in the metadata.
pub(crate) fn differs(parts: &[&str], new: &Value, old: &Value) -> bool {
    parts.iter().any(|part| match *part {
        "labels" | "annotations" => at(new, &["metadata", part]) != at(old, &["metadata", part]),
        _ => new.get(*part) != old.get(*part),
    })
}

/// The value of a field selector: what is at the path, with what is absent as its empty value.
pub(crate) fn selected(object: &Value, selector: &str) -> String {
    match selector {
        "source" => {
            let source = at(object, &["source"]);
            let component = text(source, "component");
            if component.is_empty() {
                text(object, "reportingComponent").to_owned()
            } else {
                component.to_owned()
            }
        }
        // An older name.
        "spec.host" => selected(object, "spec.nodeName"),
        _ => {
            let path: Vec<&str> = selector.split('.').collect();
            match at(object, &path) {
                Value::Null if selector == "spec.unschedulable" || selector == "spec.hostNetwork" => "false".to_owned(),
                Value::Null if selector == "status.replicas" || selector == "status.successful" => "0".to_owned(),
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            }
        }
    }
}
