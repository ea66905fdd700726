//! Label selectors within objects.

use serde_json::Value;

use crate::document::{list, text, texts};
use crate::fault::Fault;
use crate::{meta, names};

/// What is wrong with a label selector.
pub(crate) fn validate(selector: &Value, field: &str) -> Vec<Fault> {
    let mut faults = meta::labels(selector.get("matchLabels"), &format!("{field}.matchLabels"));
    for (index, requirement) in list(selector, "matchExpressions").enumerate() {
        faults.extend(validate_requirement(
            requirement,
            &format!("{field}.matchExpressions[{index}]"),
        ));
    }
    faults
}

fn validate_requirement(requirement: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let operator = text(requirement, "operator");
    let has_values = list(requirement, "values").len() > 0;
    match operator {
        "In" | "NotIn" if !has_values => faults.push(Fault::required(
            format!("{field}.values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if has_values => faults.push(Fault::forbidden(
            format!("{field}.values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => faults.push(Fault::invalid(
            format!("{field}.operator"),
            &operator.into(),
            "not a valid selector operator",
        )),
    }
    let key = text(requirement, "key");
    faults.extend(Fault::each(&format!("{field}.key"), key, names::qualified_name(key)));
    for (index, value) in texts(requirement, "values").enumerate() {
        faults.extend(Fault::each(
            &format!("{field}.values[{index}]"),
            value,
            names::label_value(value),
        ));
    }
    faults
}

/// Whether a selector selects nothing in particular.
pub(crate) fn is_empty(selector: &Value) -> bool {
    let no_labels = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .is_none_or(serde_json::Map::is_empty);
    no_labels && list(selector, "matchExpressions").len() == 0
}

/// Whether a selector matches labels.
pub(crate) fn matches(selector: &Value, labels: Option<&Value>) -> bool {
    let value_of = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let equal = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .all(|(key, value)| value_of(key) == value.as_str());
    equal
        && list(selector, "matchExpressions").all(|requirement| {
            let value = value_of(text(requirement, "key"));
            let is_among = |value: &str| texts(requirement, "values").any(|known| known == value);
            match text(requirement, "operator") {
                "In" => value.is_some_and(is_among),
                "NotIn" => !value.is_some_and(is_among),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// A selector as the server shows it in messages: its fields in the order of their Go type.
pub(crate) fn shown(selector: &Value) -> String {
    if selector.is_null() {
        return "null".to_owned();
    }
    let mut parts = Vec::new();
    if let Some(labels) = selector
        .get("matchLabels")
        .filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty()))
    {
        parts.push(format!("\"matchLabels\":{labels}"));
    }
    let expressions: Vec<String> = list(selector, "matchExpressions")
        .map(|requirement| {
            let null = Value::Null;
            let mut shown = format!(
                "{{\"key\":{},\"operator\":{}",
                requirement.get("key").unwrap_or(&null),
                requirement.get("operator").unwrap_or(&null)
            );
            if let Some(values) = requirement.get("values") {
                shown.push_str(&format!(",\"values\":{values}"));
            }
            shown.push('}');
            shown
        })
        .collect();
    if !expressions.is_empty() {
        parts.push(format!("\"matchExpressions\":[{}]", expressions.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}
