//! What keeps pods running: Deployment, StatefulSet, DaemonSet and ReplicaSet.

mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;

use serde_json::Value;

pub(crate) use daemon_set::DaemonSet;
pub(crate) use deployment::Deployment;
pub(crate) use replica_set::ReplicaSet;
pub(crate) use stateful_set::StatefulSet;

use crate::document::{at, number, present, text};
use crate::fault::{Fault, FaultKind};
use crate::kind::Cell;
use crate::{meta, names, pods, selector, table};

const ALWAYS: &str = "Always";
/// Where these kinds have their template.
const TEMPLATE: &str = "spec.template";

/// What is wrong with numbers that may not be below nought.
fn not_negative(value: &Value, fields: &[&str], field: &str) -> Vec<Fault> {
    fields
        .iter()
        .filter_map(|name| meta::negative(value.get(*name), &format!("{field}.{name}")))
        .collect()
}

/// What is wrong with counts of a status that may not exceed others.
fn not_above(status: &Value, fields: &[(&str, &str, &str)]) -> Vec<Fault> {
    let count = |name: &str| number(status, name).unwrap_or_default();
    fields
        .iter()
        .filter(|(name, most, _)| count(name) > count(most))
        .map(|(name, _, why)| {
            Fault::invalid(
                format!("status.{name}"),
                &count(name).into(),
                &format!("cannot be greater than {why}"),
            )
        })
        .collect()
}

/// A count of collisions only grows.
fn not_fewer_collisions(new: &Value, old: &Value) -> Option<Fault> {
    let count = |object: &Value| at(object, &["status", "collisionCount"]).as_i64();
    let (now, before) = (count(new), count(old));
    let is_less = before.is_some_and(|before| now.is_none_or(|now| now < before));
    is_less.then(|| {
        Fault::invalid(
            "status.collisionCount",
            &now.unwrap_or_default().into(),
            "cannot be decremented",
        )
    })
}

/// What is wrong with a selector that must be there and select something.
fn validate_selector(spec: &Value, what: &str) -> Vec<Fault> {
    const FIELD: &str = "spec.selector";
    let Some(value) = present(spec, "selector") else {
        return vec![Fault::required(FIELD, "")];
    };
    let mut faults = selector::validate(value, FIELD);
    if selector::is_empty(value) {
        faults.push(empty_selector(value, what));
    }
    faults
}

fn empty_selector(value: &Value, what: &str) -> Fault {
    Fault::shown_as(
        FaultKind::Invalid,
        "spec.selector",
        &selector::shown(value),
        &format!("empty selector is invalid for {what}"),
    )
}

/// Whether a selector can be used at all.
fn is_usable(spec: &Value) -> bool {
    present(spec, "selector").is_none_or(|value| selector::validate(value, "").is_empty())
}

/// A template whose pods the selector would not find.
fn validate_labels(spec: &Value) -> Option<Fault> {
    let labels = at(spec, &["template", "metadata", "labels"]);
    // No selector at all selects nothing.
    let finds = present(spec, "selector").is_some_and(|value| selector::matches(value, Some(labels)));
    (!finds).then(|| {
        Fault::invalid(
            format!("{TEMPLATE}.metadata.labels"),
            labels,
            "`selector` does not match template `labels`",
        )
    })
}

/// Pods of these kinds run for ever.
fn validate_endless(spec: &Value, what: &str) -> Vec<Fault> {
    let template = at(spec, &["template", "spec"]);
    let mut faults = Vec::new();
    let policy = text(template, "restartPolicy");
    if policy != ALWAYS {
        faults.push(Fault::not_supported(
            format!("{TEMPLATE}.spec.restartPolicy"),
            &policy.into(),
            &[ALWAYS],
        ));
    }
    if present(template, "activeDeadlineSeconds").is_some() {
        faults.push(Fault::forbidden(
            format!("{TEMPLATE}.spec.activeDeadlineSeconds"),
            &format!("activeDeadlineSeconds in {what} is not Supported"),
        ));
    }
    faults
}

/// The template of a Deployment or a ReplicaSet, if its selector can be used.
fn validate_replicated(spec: &Value) -> Vec<Fault> {
    if !is_usable(spec) {
        let shown = selector::shown(at(spec, &["selector"]));
        return vec![Fault::shown_as(
            FaultKind::Invalid,
            "spec.selector",
            &shown,
            "invalid label selector",
        )];
    }
    let mut faults: Vec<Fault> = validate_labels(spec).into_iter().collect();
    faults.extend(pods::validate_template(at(spec, &["template"]), TEMPLATE));
    faults.extend(validate_endless(spec, "ReplicaSet"));
    faults
}

/// Drops what a template may not have.
fn prepare_template(object: &mut Value) {
    if let Some(spec) = object.pointer_mut("/spec/template/spec") {
        pods::drop_disabled(spec);
    }
}

/// A selector that changed.
fn immutable_selector(new: &Value, old: &Value) -> Option<Fault> {
    let value = |object| at(object, &["spec", "selector"]);
    let (now, before) = (value(new), value(old));
    let shown = if now.is_null() {
        "null".to_owned()
    } else {
        selector::shown(now)
    };
    (now != before).then(|| Fault::shown_as(FaultKind::Invalid, "spec.selector", &shown, "field is immutable"))
}

/// What is wrong with a number, or a share of one.
fn number_or_percent(value: &Value, field: &str) -> Vec<Fault> {
    match value {
        Value::String(share) => Fault::each(field, share, names::percent(share)),
        other => meta::negative(Some(other), field).into_iter().collect(),
    }
}

fn percent_of(value: &Value) -> Option<i64> {
    value.as_str()?.strip_suffix('%')?.parse().ok()
}

/// The number in a number, or in a share of one.
fn amount(value: &Value) -> i64 {
    percent_of(value)
        .or_else(|| value.as_i64())
        .or_else(|| value.as_str()?.parse().ok())
        .unwrap_or_default()
}

/// A share of more than all.
fn above_all(value: &Value, field: &str) -> Option<Fault> {
    percent_of(value)
        .is_some_and(|share| share > 100)
        .then(|| Fault::invalid(field, value, "must not be greater than 100%"))
}

/// A strategy as the server's inner types show it; `fields` are those of its rolling update.
fn shown_strategy(strategy: &Value, fields: &[(&str, &str)]) -> String {
    let rolling =
        present(strategy, "rollingUpdate").map_or_else(|| "null".to_owned(), |rolling| shown_rolling(rolling, fields));
    format!(
        "{{\"Type\":{},\"RollingUpdate\":{rolling}}}",
        Value::from(text(strategy, "type"))
    )
}

fn shown_rolling(rolling: &Value, fields: &[(&str, &str)]) -> String {
    let parts: Vec<String> = fields
        .iter()
        .map(|(shown, name)| format!("\"{shown}\":{}", at(rolling, &[name])))
        .collect();
    format!("{{{}}}", parts.join(","))
}

/// Whether a write changed what the generation counts.
fn is_new_generation(new: &Value, old: Option<&Value>) -> bool {
    let generation = |object: &Value| at(object, &["metadata", "generation"]).clone();
    old.is_none_or(|old| generation(new) != generation(old))
}

/// What the server warns of in the template of a new object, or of one whose spec changed.
fn template_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    if !is_new_generation(new, old) {
        return Vec::new();
    }
    pods::template_warnings(at(new, &["spec", "template"]), &format!("{TEMPLATE}."))
}

/// The names and images of a template's containers.
fn container_cells(object: &Value) -> [Cell; 2] {
    let (names, images) = table::containers(at(object, &["spec", "template", "spec"]));
    [names.into(), images.into()]
}
