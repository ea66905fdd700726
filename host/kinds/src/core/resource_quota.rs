//! ResourceQuota.

use serde_json::Value;

use crate::document::{at, list, member_mut, object, text, texts};
use crate::fault::Fault;
use crate::kind::{Cell, Kind};
use crate::pods::{resource_list, validate_amount};
use crate::strategy::Strategy;
use crate::{meta, names, table};

/// The kind.
pub(crate) struct ResourceQuota;

static STRATEGY: Strategy = Strategy::new("", "ResourceQuota")
    .unconditional()
    .status_apart(&["spec"])
    .answers_with_deleted();
const RESOURCES: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// Known to the server, and not to quotas.
const OTHERS: [&str; 2] = ["storage", "limits.storage"];
const COMPUTE: [&str; 6] = [
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

fn validate_name(name: &str, field: &str) -> Vec<Fault> {
    let mut faults = Fault::each(field, name, names::qualified_name(name));
    let is_pages = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    let is_quota = RESOURCES.contains(&name) || is_pages;
    if !name.contains('/') {
        let value = Value::from(name);
        if faults.is_empty() && !is_quota && !OTHERS.contains(&name) {
            faults.push(Fault::invalid(
                field,
                &value,
                "must be a standard resource type or fully qualified",
            ));
        }
        if !is_quota {
            faults.push(Fault::invalid(field, &value, "must be a standard resource for quota"));
        }
    }
    faults
}

fn validate_list(amounts: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (name, amount) in object(Some(amounts)) {
        let field = format!("{field}[{name}]");
        faults.extend(validate_name(name, &field));
        faults.extend(validate_amount(name, amount, &field));
    }
    faults
}

/// Whether a scope can be asked of a resource.
fn suits(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            resource == "pods" || COMPUTE.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn validate_spec(spec: &Value) -> Vec<Fault> {
    const FIELD: &str = "spec.scopes";
    let mut faults = validate_list(at(spec, &["hard"]), "spec.hard");
    let scopes = at(spec, &["scopes"]);
    let all: Vec<&str> = texts(spec, "scopes").collect();
    for scope in &all {
        if !SCOPES.contains(scope) {
            faults.push(Fault::invalid(FIELD, scopes, "unsupported scope"));
        }
        for (resource, _) in object(spec.get("hard")) {
            if RESOURCES.contains(&resource.as_str()) && !suits(scope, resource) {
                faults.push(Fault::invalid(FIELD, scopes, "unsupported scope applied to resource"));
            }
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| all.contains(scope)) {
            faults.push(Fault::invalid(FIELD, scopes, "conflicting scopes"));
        }
    }
    faults.extend(validate_selector(spec));
    faults
}

fn validate_selector(spec: &Value) -> Vec<Fault> {
    const FIELD: &str = "spec.scopeSelector.matchExpressions";
    let mut faults = Vec::new();
    for requirement in list(at(spec, &["scopeSelector"]), "matchExpressions") {
        let (scope, operator) = (text(requirement, "scopeName"), text(requirement, "operator"));
        let values = at(requirement, &["values"]);
        let has_values = list(requirement, "values").len() > 0;
        if !SCOPES.contains(&scope) {
            faults.push(Fault::invalid(
                format!("{FIELD}.scopeName"),
                &scope.into(),
                "unsupported scope",
            ));
        }
        if SCOPES.contains(&scope)
            && !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && operator != "Exists"
        {
            faults.push(Fault::invalid(
                format!("{FIELD}.operator"),
                &operator.into(),
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            ));
        }
        match operator {
            "In" | "NotIn" if !has_values => faults.push(Fault::required(
                format!("{FIELD}.values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "Exists" | "DoesNotExist" if has_values => faults.push(Fault::invalid(
                format!("{FIELD}.values"),
                values,
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => faults.push(Fault::invalid(
                format!("{FIELD}.operator"),
                &operator.into(),
                "not a valid selector operator",
            )),
        }
    }
    faults
}

impl Kind for ResourceQuota {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        resource_list(member_mut(object, "spec"), "hard");
        if let Some(status) = object.get_mut("status") {
            resource_list(status, "hard");
            resource_list(status, "used");
        }
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate_spec(at(object, &["spec"])));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(validate_spec(at(new, &["spec"])));
        let scopes = |quota| {
            let mut scopes: Vec<&str> = texts(at(quota, &["spec"]), "scopes").collect();
            scopes.sort_unstable();
            scopes.dedup();
            scopes
        };
        if scopes(new) != scopes(old) {
            faults.push(Fault::immutable("spec.scopes", at(new, &["spec", "scopes"])));
        }
        faults
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(validate_list(at(new, &["status", "hard"]), "status.hard"));
        faults.extend(validate_list(at(new, &["status", "used"]), "status.used"));
        faults
    }

    fn row(&self, quota: &Value, now: i64) -> Vec<Cell> {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (name, hard) in object(Some(at(quota, &["status", "hard"]))) {
            let used = at(quota, &["status", "used", name]).as_str().unwrap_or("0");
            let shown = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
            if name.starts_with("limits.") {
                limits.push(shown);
            } else {
                requests.push(shown);
            }
        }
        vec![
            table::name(quota),
            requests.join(", ").into(),
            limits.join(", ").into(),
            table::created(quota, now),
        ]
    }
}
