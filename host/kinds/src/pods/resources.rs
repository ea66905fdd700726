//! What containers ask for and what they may use at most.

use serde_json::Value;

use crate::document::{at, list, object, text};
use crate::fault::Fault;
use crate::names;
use crate::quantity::Quantity;

const STANDARD: [&str; 5] = ["cpu", "memory", "ephemeral-storage", "storage", "pods"];
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const QUOTA: [&str; 16] = [
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "limits.storage",
];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Resources that are the server's own, with or without a domain.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether more of a resource may be promised than there is.
fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether an amount of a resource must be whole.
fn is_counted(name: &str) -> bool {
    const COUNTED: [&str; 9] = [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    COUNTED.contains(&name) || is_extended(name)
}

fn validate_name(name: &str, field: &str) -> Vec<Fault> {
    let mut faults = Fault::each(field, name, names::qualified_name(name));
    if !faults.is_empty() {
        return faults;
    }
    let value = Value::from(name);
    if !name.contains('/') {
        let is_known = STANDARD.contains(&name) || QUOTA.contains(&name) || is_huge_page(name);
        if !is_known {
            faults.push(Fault::invalid(
                field,
                &value,
                "must be a standard resource type or fully qualified",
            ));
        }
        if !OF_CONTAINERS.contains(&name) && !is_huge_page(name) {
            faults.push(Fault::invalid(
                field,
                &value,
                "must be a standard resource for containers",
            ));
        }
    } else if !is_native(name) && !is_extended(name) {
        faults.push(Fault::invalid(
            field,
            &value,
            "doesn't follow extended resource name standard",
        ));
    }
    faults
}

/// What is wrong with an amount of a resource.
pub(crate) fn validate_amount(name: &str, amount: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Some(parsed) = Quantity::parse(amount.as_str().unwrap_or_default()) else {
        return faults;
    };
    if parsed.is_negative() {
        faults.push(Fault::invalid(field, amount, "must be greater than or equal to 0"));
    }
    if is_counted(name) && !parsed.is_whole() {
        faults.push(Fault::invalid(field, amount, "must be an integer"));
    }
    faults
}

/// Pages come in whole numbers.
fn validate_pages(name: &str, amount: &Value, field: &str) -> Option<Fault> {
    let page = Quantity::parse(name.strip_prefix("hugepages-")?)?.nano();
    let shown = amount.as_str().unwrap_or_default();
    let asked = Quantity::parse(shown)?.nano();
    let fits = asked > 0 && page > 0 && asked % page == 0;
    (!fits).then(|| {
        Fault::invalid(
            field,
            amount,
            &format!("{shown} is not positive integer multiple of {name}"),
        )
    })
}

/// What is wrong with the resources of a container.
pub(super) fn validate(resources: &Value, claims: &[&str], field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let (limits, requests) = (at(resources, &["limits"]), at(resources, &["requests"]));
    for (name, amount) in object(Some(limits)) {
        let field = format!("{field}.limits[{name}]");
        faults.extend(validate_name(name, &field));
        faults.extend(validate_amount(name, amount, &field));
        faults.extend(validate_pages(name, amount, &field));
    }
    for (name, amount) in object(Some(requests)) {
        let field_of = format!("{field}.requests[{name}]");
        faults.extend(validate_name(name, &field_of));
        faults.extend(validate_amount(name, amount, &field_of));
        let nano = |amount: &Value| Quantity::parse(amount.as_str().unwrap_or_default()).map(Quantity::nano);
        match limits.get(name) {
            Some(limit) => {
                let (asked, most) = (nano(amount), nano(limit));
                let shown = limit.as_str().unwrap_or_default();
                let field = format!("{field}.requests");
                if asked != most && !may_be_overcommitted(name) {
                    faults.push(Fault::invalid(
                        field,
                        amount,
                        &format!("must be equal to {name} limit of {shown}"),
                    ));
                } else if asked > most {
                    faults.push(Fault::invalid(
                        field,
                        amount,
                        &format!("must be less than or equal to {name} limit of {shown}"),
                    ));
                }
            }
            None if !may_be_overcommitted(name) => faults.push(Fault::required(
                format!("{field}.limits"),
                "Limit must be set for non overcommitable resources",
            )),
            None => {}
        }
    }
    for (name, amount) in object(Some(requests)) {
        faults.extend(validate_pages(name, amount, &format!("{field}.requests[{name}]")));
    }
    let names_of = || {
        object(Some(limits))
            .chain(object(Some(requests)))
            .map(|(name, _)| name.as_str())
    };
    if names_of().any(is_huge_page) && !names_of().any(|name| matches!(name, "cpu" | "memory")) {
        faults.push(Fault::forbidden(field, "HugePages require cpu or memory"));
    }
    for (index, claim) in list(resources, "claims").enumerate() {
        let name = text(claim, "name");
        let field = format!("{field}.claims[{index}]");
        if name.is_empty() {
            faults.push(Fault::required(field.as_str(), ""));
        }
        if !claims.contains(&name) {
            let mut fault = Fault::not_found(field, &name.into());
            fault
                .message
                .push_str(": must be one of the names in pod.spec.resourceClaims");
            if claims.is_empty() {
                fault.message.push_str(" which is empty");
            } else {
                fault.message.push_str(&format!(": {}", claims.join(", ")));
            }
            faults.push(fault);
        }
    }
    faults
}
