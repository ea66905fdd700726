//! The addresses of a Service: what a client that knows only some of the fields means, which families follow, and what
//! may not change. Of a cluster with addresses of one family, IPv4; which address a Service gets is the caller's to say.

use serde_json::{Value, json};

use super::{BALANCED, EXTERNAL_NAME, is_headless, is_type, needs_health_check, takes_node_ports};
use crate::addresses::not_an_address;
use crate::document::{at, elements_mut, keep, list, member_mut, number, present, set, text, texts};
use crate::fault::Fault;

const FIELD: &str = "spec.clusterIPs";
const FAMILY: &str = "IPv4";
const OTHER_FAMILY: &str = "IPv6";
const POLICY_FIELD: &str = "spec.ipFamilyPolicy";
const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Settles the fields that hang together, before anything else is looked at.
pub(super) fn settle(new: &mut Value, old: Option<&Value>) -> Vec<Fault> {
    let before = old.map(|old| at(old, &["spec"]));
    let now = member_mut(new, "spec");
    if let Some(before) = before {
        keep_allocated(now, before);
    }
    sync(now, before);
    settle_families(now, before)
}

/// Who sends a Service again as it was written means what was allocated for it.
fn keep_allocated(now: &mut Value, before: &Value) {
    if !is_type(now, EXTERNAL_NAME) && !is_type(before, EXTERNAL_NAME) {
        if text(now, "clusterIP").is_empty() {
            keep(now, before, "clusterIP");
        }
        if list(now, "clusterIPs").len() == 0 && list(before, "clusterIPs").len() > 0 {
            keep(now, before, "clusterIPs");
        }
    }
    if takes_node_ports(now) && takes_node_ports(before) {
        let of = |port: &Value| number(port, "nodePort").unwrap_or_default();
        let kept: Vec<i64> = list(now, "ports").map(of).filter(|port| *port != 0).collect();
        let taken: Vec<i64> = list(before, "ports")
            .map(of)
            .filter(|port| kept.contains(port))
            .collect();
        for port in elements_mut(now, "ports") {
            let was = list(before, "ports").rfind(|was| text(was, "name") == text(port, "name"));
            if let Some(was) = was.filter(|was| of(port) == 0 && !taken.contains(&of(was))) {
                keep(port, was, "nodePort");
            }
        }
    }
    if needs_health_check(now)
        && needs_health_check(before)
        && number(now, "healthCheckNodePort").unwrap_or_default() == 0
    {
        keep(now, before, "healthCheckNodePort");
    }
}

/// One address and the list of them say the same.
fn sync(now: &mut Value, before: Option<&Value>) {
    let own = text(now, "clusterIP").to_owned();
    let Some(before) = before else {
        if !own.is_empty() && list(now, "clusterIPs").len() == 0 {
            set(now, "clusterIPs", Some(json!([own])));
        }
        return;
    };
    let was = text(before, "clusterIP");
    if own == was {
        if list(before, "clusterIPs").len() > 0 && list(now, "clusterIPs").len() == 0 {
            keep(now, before, "clusterIPs");
        }
    } else if same(now, before, "clusterIPs") {
        let only = (!own.is_empty()).then(|| json!([own]));
        // From none to one, and from one to another; taken away with it if it is taken away.
        if only.is_some() || !was.is_empty() {
            set(now, "clusterIPs", only);
        }
    }
}

fn same(now: &Value, before: &Value, field: &str) -> bool {
    texts(now, field).eq(texts(before, field))
}

fn settle_families(now: &mut Value, before: Option<&Value>) -> Vec<Fault> {
    if is_type(now, EXTERNAL_NAME) || before.is_some_and(|before| stays_preferring(now, before)) {
        return Vec::new();
    }
    let is_selectorless =
        text(now, "clusterIP") == "None" && crate::document::object(now.get("selector")).next().is_none();
    if present(now, "ipFamilyPolicy").is_none() {
        let was = before.and_then(|before| present(before, "ipFamilyPolicy")).cloned();
        let policy = was.unwrap_or_else(|| if is_selectorless { REQUIRE } else { SINGLE }.into());
        set(now, "ipFamilyPolicy", Some(policy));
    }
    let faults = validate(now, before);
    if !faults.is_empty() {
        return faults;
    }
    let faults = settle_stacks(now, before);
    if !faults.is_empty() {
        return faults;
    }
    let policy = text(now, "ipFamilyPolicy").to_owned();
    if !is_selectorless {
        let faults = validate_configured(now, &policy);
        if !faults.is_empty() {
            return faults;
        }
    }
    let mut families: Vec<String> = texts(now, "ipFamilies").map(str::to_owned).collect();
    if families.is_empty() {
        families.push(FAMILY.to_owned());
    }
    if is_selectorless && families.len() < 2 && policy != SINGLE {
        // Nobody knows where such a Service leads to.
        let other = if families.iter().any(|family| family == FAMILY) {
            OTHER_FAMILY
        } else {
            FAMILY
        };
        families.push(other.to_owned());
    }
    set(now, "ipFamilies", Some(json!(families)));
    Vec::new()
}

/// Whether nothing changed of a Service that takes what it can get.
fn stays_preferring(now: &Value, before: &Value) -> bool {
    let prefers = |spec: &Value| matches!(text(spec, "ipFamilyPolicy"), PREFER | "");
    let has_address = matches!(text(now, "type"), "ClusterIP" | "NodePort" | BALANCED);
    present(now, "ipFamilyPolicy").is_some()
        && text(now, "type") == text(before, "type")
        && has_address
        && prefers(now)
        && prefers(before)
        && same(now, before, "clusterIPs")
        && same(now, before, "ipFamilies")
}

/// Makes the lists suit the policy, and families follow from addresses.
fn settle_stacks(now: &mut Value, before: Option<&Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let policy = at(now, &["ipFamilyPolicy"]).clone();
    let is_single = policy == SINGLE;
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let Some(before) = before else { break };
        let first = list(now, field).next().cloned();
        if is_single {
            if same(now, before, field) && list(now, field).len() > 1 {
                set(now, field, Some(json!([first])));
            }
        } else if list(now, field).len() > 0 && list(now, field).len() < list(before, field).len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            faults.push(Fault::invalid(POLICY_FIELD, &policy, &why));
        }
    }
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if is_single && list(now, field).len() == 2 {
            let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            faults.push(Fault::invalid(POLICY_FIELD, &policy, &why));
        }
    }
    let mut families: Vec<Value> = list(now, "ipFamilies").cloned().collect();
    let addresses: Vec<String> = texts(now, "clusterIPs").map(str::to_owned).collect();
    for (index, address) in addresses.iter().enumerate().skip(families.len()) {
        if address == "None" {
            break;
        }
        if address.contains(':') {
            let why = format!("{OTHER_FAMILY} is not configured on this cluster");
            faults.push(Fault::invalid(
                format!("{FIELD}[{index}]"),
                at(now, &["clusterIPs"]),
                &why,
            ));
        } else {
            families.push(FAMILY.into());
        }
    }
    if !families.is_empty() {
        set(now, "ipFamilies", Some(families.into()));
    }
    faults
}

fn validate_configured(now: &Value, policy: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    if policy == REQUIRE {
        faults.push(Fault::invalid(
            POLICY_FIELD,
            &policy.into(),
            "this cluster is not configured for dual-stack services",
        ));
    }
    for (index, family) in texts(now, "ipFamilies").enumerate() {
        if family != FAMILY {
            faults.push(Fault::invalid(
                format!("spec.ipFamilies[{index}]"),
                &family.into(),
                "not configured on this cluster",
            ));
        }
    }
    faults
}

/// What is wrong with the addresses and families by themselves.
pub(super) fn validate(spec: &Value, before: Option<&Value>) -> Vec<Fault> {
    const FAMILIES: [&str; 2] = [FAMILY, OTHER_FAMILY];
    const POLICIES: [&str; 3] = [PREFER, REQUIRE, SINGLE];
    let all = at(spec, &["clusterIPs"]);
    let addresses: Vec<&str> = texts(spec, "clusterIPs").collect();
    let mut faults = Vec::new();
    match (text(spec, "clusterIP"), addresses.first()) {
        ("", Some(_)) => faults.push(Fault::invalid(
            FIELD,
            all,
            "must be empty when `clusterIP` is not specified",
        )),
        ("", None) => {}
        (_, None) => faults.push(Fault::required(FIELD, "")),
        (own, Some(other)) if own != *other => {
            faults.push(Fault::invalid(FIELD, all, "first value must match `clusterIP`"));
        }
        _ => {}
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, family) in texts(spec, "ipFamilies").enumerate() {
        let field = format!("spec.ipFamilies[{index}]");
        if !FAMILIES.contains(&family) {
            faults.push(Fault::not_supported(field.as_str(), &family.into(), &FAMILIES));
        }
        if seen.contains(&family) {
            faults.push(Fault::duplicate(field, &family.into()));
        }
        seen.push(family);
    }
    if let Some(policy) = spec.get("ipFamilyPolicy").and_then(Value::as_str)
        && !POLICIES.contains(&policy)
    {
        faults.push(Fault::not_supported(POLICY_FIELD, &policy.into(), &POLICIES));
    }
    let mut has_wrong = false;
    let known: Vec<&str> = before
        .map(|before| texts(before, "clusterIPs").collect())
        .unwrap_or_default();
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && *address == "None" {
            if addresses.len() > 1 {
                has_wrong = true;
                faults.push(Fault::invalid(FIELD, all, "'None' must be the first and only value"));
            }
            continue;
        }
        let wrong = not_an_address(&format!("{FIELD}[{index}]"), address).filter(|_| !known.contains(address));
        has_wrong |= wrong.is_some();
        faults.extend(wrong);
    }
    if addresses.len() > 2 {
        faults.push(Fault::invalid(FIELD, all, "may only hold up to 2 values"));
    }
    if has_wrong {
        return faults;
    }
    let is_dual = addresses.len() == 2 && addresses.iter().filter(|address| address.contains(':')).count() == 1;
    if addresses.len() > 1 && !is_dual {
        faults.push(Fault::invalid(
            FIELD,
            all,
            "may specify no more than one IP for each IP family",
        ));
    }
    if !is_headless(spec) {
        for (index, (address, family)) in addresses.iter().zip(texts(spec, "ipFamilies")).enumerate() {
            let is_other = address.contains(':');
            if family == FAMILY && is_other || family == OTHER_FAMILY && !is_other {
                let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
                faults.push(Fault::invalid(format!("{FIELD}[{index}]"), &(*address).into(), &why));
            }
        }
    }
    faults
}

/// An address, once there, stays; so does its family.
pub(super) fn validate_kept(new: &Value, old: &Value) -> Vec<Fault> {
    let (now, before) = (at(new, &["spec"]), at(old, &["spec"]));
    if is_type(now, EXTERNAL_NAME) || is_type(before, EXTERNAL_NAME) || is_headless(now) && is_headless(before) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (field, name) in [("clusterIPs", "clusterIP"), ("ipFamilies", "ipFamily")] {
        if field == "ipFamilies" && is_headless(now) != is_headless(before) {
            break;
        }
        let (own, was): (Vec<&str>, Vec<&str>) = (texts(now, field).collect(), texts(before, field).collect());
        let path = format!("spec.{field}[0]");
        match (own.first(), was.first()) {
            (None, Some(_)) => {
                let why = format!("primary {name} can not be unset");
                faults.push(Fault::invalid(path, at(now, &[field]), &why));
            }
            (Some(one), Some(other)) if one != other => {
                faults.push(Fault::invalid(path, at(now, &[field]), "may not change once set"));
            }
            _ => {}
        }
    }
    faults
}
