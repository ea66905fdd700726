//! Validation of custom objects: the schema's own words, then its CEL rules.

use chandlery_kinds::{Fault, FaultKind};
use kube_cel::CompiledSchema;
use serde_json::Value;

use super::prune::is_set;

/// Whether there is a CEL rule anywhere.
pub(super) fn has_rules(structure: &Value) -> bool {
    match structure {
        Value::Object(map) => map.contains_key("x-kubernetes-validations") || map.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

/// Whether an object is so wrong that its rules would stumble over it.
pub(super) fn keeps_from_rules(fault: &Fault) -> bool {
    matches!(
        fault.kind,
        FaultKind::NotSupported
            | FaultKind::Required
            | FaultKind::TooLong
            | FaultKind::TooMany
            | FaultKind::TypeInvalid
    )
}

/// Says that the rules were not asked.
pub(super) fn rules_unchecked() -> Fault {
    let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    Fault::invalid("<nil>", &Value::Null, why)
}

/// What the CEL rules say.
pub(super) fn rules(rules: &CompiledSchema, document: &Value, old: Option<&Value>) -> Vec<Fault> {
    let Err(errors) = kube_cel::Validator::new().validate_compiled(rules, document, old) else {
        return Vec::new();
    };
    errors
        .into_vec()
        .into_iter()
        .map(|error| {
            let field = error.field_path.trim_start_matches('.').to_owned();
            match error.reason.as_deref() {
                Some("FieldValueForbidden") => Fault::forbidden(field, &error.message),
                Some("FieldValueRequired") => Fault::required(field, &error.message),
                Some("FieldValueDuplicate") => Fault::duplicate(field, &Value::Null),
                _ => {
                    // The server names the type of what breaks a rule, not its value.
                    let shown = match super::path::first(document, &field).unwrap_or(&Value::Null) {
                        Value::Object(_) => "object",
                        Value::Array(_) => "array",
                        Value::String(_) => "string",
                        Value::Bool(_) => "boolean",
                        Value::Number(number) if number.is_f64() => "number",
                        Value::Number(_) => "integer",
                        Value::Null => "object",
                    };
                    let field = if field.is_empty() { "<nil>".to_owned() } else { field };
                    Fault::invalid(field, &shown.into(), &error.message)
                }
            }
        })
        .collect()
}

/// What the schema itself says. What was wrong before an update and did not change is let be (ratcheting).
pub(super) fn structure(structure: &Value, document: &Value, old: Option<&Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    check(structure, document, old, &mut String::new(), &mut faults, true);
    faults
}

/// As [`structure`] for the status alone, of which the server speaks as if it were the object.
pub(super) fn status(structure: &Value, document: &Value, old: Option<&Value>) -> Vec<Fault> {
    let (Some(of), Some(status)) = (structure.pointer("/properties/status"), document.get("status")) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    check(
        of,
        status,
        old.and_then(|old| old.get("status")),
        &mut "status".to_owned(),
        &mut faults,
        false,
    );
    for fault in &mut faults {
        fault.message = fault.message.replace("status.", "");
    }
    faults
}

fn check(
    structure: &Value,
    value: &Value,
    old: Option<&Value>,
    path: &mut String,
    faults: &mut Vec<Fault>,
    is_root: bool,
) {
    if old == Some(value) && !is_root {
        return;
    }
    if value.is_null() && is_set(structure, "nullable") {
        return;
    }
    if !check_type(structure, value, path, faults) {
        return;
    }
    check_enum(structure, value, path, faults);
    match value {
        Value::String(text) => check_text(structure, text, path, faults),
        Value::Number(number) => check_number(structure, value, number.as_f64().unwrap_or_default(), path, faults),
        Value::Array(items) => check_items(structure, items, old, path, faults),
        Value::Object(map) => {
            let length = path.len();
            for name in structure
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
            {
                let is_given = is_root && matches!(name, "apiVersion" | "kind" | "metadata");
                if !is_given && !map.contains_key(name) {
                    enter(path, name);
                    faults.push(Fault::required(path.clone(), ""));
                    path.truncate(length);
                }
            }
            if let Some(least) = number(structure, "minProperties").filter(|least| count(map.len()) < *least) {
                faults.push(Fault::invalid(
                    path.clone(),
                    &count(map.len()).into(),
                    &format!("{path} in body should have at least {least} properties"),
                ));
            }
            if let Some(most) = number(structure, "maxProperties").filter(|most| count(map.len()) > *most) {
                faults.push(Fault {
                    kind: FaultKind::TooMany,
                    field: path.clone(),
                    message: format!("Too many: {}: must have at most {most} items", map.len()),
                });
            }
            let properties = structure.get("properties").and_then(Value::as_object);
            let additional = structure.get("additionalProperties").filter(|of| of.is_object());
            for (name, value) in map {
                if is_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                let Some(of) = properties.and_then(|properties| properties.get(name)).or(additional) else {
                    continue;
                };
                enter(path, name);
                check(of, value, old.and_then(|old| old.get(name)), path, faults, false);
                path.truncate(length);
            }
        }
        _ => {}
    }
    check_combinations(structure, value, path, faults);
}

fn enter(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

fn check_type(structure: &Value, value: &Value, path: &str, faults: &mut Vec<Fault>) -> bool {
    if is_set(structure, "x-kubernetes-int-or-string") {
        let fits = value.is_string() || value.as_i64().is_some();
        if !fits {
            faults.push(wrong_type(path, value, "integer,string"));
        }
        return fits;
    }
    let Some(wanted) = structure.get("type").and_then(Value::as_str) else {
        return true;
    };
    let fits = match wanted {
        "string" => value.is_string(),
        "integer" => {
            value.as_i64().is_some()
                || value.as_u64().is_some()
                || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    if !fits {
        faults.push(wrong_type(path, value, wanted));
    }
    fits
}

fn wrong_type(path: &str, value: &Value, wanted: &str) -> Fault {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Fault {
        kind: FaultKind::TypeInvalid,
        field: path.to_owned(),
        message: format!("Invalid value: \"{found}\": {path} in body must be of type {wanted}: \"{found}\""),
    }
}

fn check_enum(structure: &Value, value: &Value, path: &str, faults: &mut Vec<Fault>) {
    let Some(values) = structure.get("enum").and_then(Value::as_array) else {
        return;
    };
    if !values.contains(value) {
        let supported: Vec<String> = values.iter().map(super::path::text).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        faults.push(Fault::not_supported(path, value, &supported));
    }
}

fn check_text(structure: &Value, text: &str, path: &str, faults: &mut Vec<Fault>) {
    let length = count(text.chars().count());
    if let Some(most) = number(structure, "maxLength").filter(|most| length > *most) {
        faults.push(Fault {
            kind: FaultKind::TooLong,
            field: path.to_owned(),
            message: format!("Too long: may not be more than {most} bytes"),
        });
    }
    if let Some(least) = number(structure, "minLength").filter(|least| length < *least) {
        faults.push(Fault::invalid(
            path,
            &text.into(),
            &format!("{path} in body should be at least {least} chars long"),
        ));
    }
    if let Some(pattern) = structure.get("pattern").and_then(Value::as_str)
        && regex::Regex::new(pattern).is_ok_and(|form| !form.is_match(text))
    {
        faults.push(Fault::invalid(
            path,
            &text.into(),
            &format!("{path} in body should match '{pattern}'"),
        ));
    }
    if let Some(format) = structure.get("format").and_then(Value::as_str)
        && !fits_format(format, text)
    {
        faults.push(Fault::invalid(
            path,
            &text.into(),
            &format!("{path} in body must be of type {format}: {text:?}"),
        ));
    }
}

fn fits_format(format: &str, text: &str) -> bool {
    use base64::Engine as _;
    match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "uuid" | "uuid4" => {
            text.len() == 36
                && text.bytes().enumerate().all(|(at, byte)| {
                    if [8, 13, 18, 23].contains(&at) {
                        byte == b'-'
                    } else {
                        byte.is_ascii_hexdigit()
                    }
                })
        }
        // Others are not checked by the server either, or not by this one: its README says so.
        _ => true,
    }
}

fn check_number(structure: &Value, value: &Value, found: f64, path: &str, faults: &mut Vec<Fault>) {
    let bound = |key: &str| structure.get(key).and_then(Value::as_f64);
    let shown = |key: &str| structure.get(key).map(ToString::to_string).unwrap_or_default();
    let excludes = |key: &str| is_set(structure, key);
    if let Some(least) = bound("minimum") {
        if excludes("exclusiveMinimum") && found <= least {
            faults.push(Fault::invalid(
                path,
                value,
                &format!("{path} in body should be greater than {}", shown("minimum")),
            ));
        } else if found < least {
            faults.push(Fault::invalid(
                path,
                value,
                &format!("{path} in body should be greater than or equal to {}", shown("minimum")),
            ));
        }
    }
    if let Some(most) = bound("maximum") {
        if excludes("exclusiveMaximum") && found >= most {
            faults.push(Fault::invalid(
                path,
                value,
                &format!("{path} in body should be less than {}", shown("maximum")),
            ));
        } else if found > most {
            faults.push(Fault::invalid(
                path,
                value,
                &format!("{path} in body should be less than or equal to {}", shown("maximum")),
            ));
        }
    }
    if let Some(of) = bound("multipleOf").filter(|of| *of != 0.0 && (found / of).fract() != 0.0) {
        faults.push(Fault::invalid(
            path,
            value,
            &format!("{path} in body should be a multiple of {of}"),
        ));
    }
}

fn check_items(structure: &Value, items: &[Value], old: Option<&Value>, path: &mut String, faults: &mut Vec<Fault>) {
    if let Some(most) = number(structure, "maxItems").filter(|most| count(items.len()) > *most) {
        faults.push(Fault {
            kind: FaultKind::TooMany,
            field: path.clone(),
            message: format!("Too many: {}: must have at most {most} items", items.len()),
        });
    }
    if let Some(least) = number(structure, "minItems").filter(|least| count(items.len()) < *least) {
        faults.push(Fault::invalid(
            path.clone(),
            &count(items.len()).into(),
            &format!("{path} in body should have at least {least} items"),
        ));
    }
    let length = path.len();
    if let Some(of) = structure.get("items") {
        for (position, item) in items.iter().enumerate() {
            path.push_str(&format!("[{position}]"));
            check(of, item, old.and_then(|old| old.get(position)), path, faults, false);
            path.truncate(length);
        }
    }
    check_keys(structure, items, path, faults);
}

fn check_keys(structure: &Value, items: &[Value], path: &str, faults: &mut Vec<Fault>) {
    match structure.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => check_distinct(items, path, faults, Value::clone),
        Some("map") => {
            let keys: Vec<&str> = structure
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            check_distinct(items, path, faults, |item| {
                keys.iter()
                    .filter_map(|key| item.get(key).map(|value| ((*key).to_owned(), value.clone())))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            });
        }
        _ => {}
    }
}

/// Whether the items of lists can be told apart, and nothing else.
pub(super) fn lists(structure: &Value, document: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    visit_lists(structure, document, &mut String::new(), &mut faults);
    faults
}

fn visit_lists(structure: &Value, value: &Value, path: &mut String, faults: &mut Vec<Fault>) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let of = structure
                    .pointer(&format!("/properties/{name}"))
                    .or_else(|| structure.get("additionalProperties"));
                if let Some(of) = of {
                    enter(path, name);
                    visit_lists(of, value, path, faults);
                    path.truncate(length);
                }
            }
        }
        Value::Array(items) => check_keys(structure, items, path, faults),
        _ => {}
    }
}

fn check_distinct(items: &[Value], path: &str, faults: &mut Vec<Fault>, key: impl Fn(&Value) -> Value) {
    let mut seen: Vec<Value> = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let key = key(item);
        if seen.contains(&key) {
            faults.push(Fault::duplicate(format!("{path}[{position}]"), &key));
        } else {
            seen.push(key);
        }
    }
}

fn check_combinations(structure: &Value, value: &Value, path: &mut String, faults: &mut Vec<Fault>) {
    let fits = |of: &Value| {
        let mut faults = Vec::new();
        check(of, value, None, &mut path.clone(), &mut faults, false);
        faults.is_empty()
    };
    let list = |key: &str| {
        structure
            .get(key)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let mut found = Vec::new();
    if !list("anyOf").is_empty() && !list("anyOf").iter().any(fits) {
        found.push("must validate at least one schema (anyOf)");
    }
    if !list("oneOf").is_empty() && list("oneOf").iter().filter(|of| fits(of)).count() != 1 {
        found.push("must validate one and only one schema (oneOf)");
    }
    if !list("allOf").is_empty() && !list("allOf").iter().all(fits) {
        found.push("must validate all the schemas (allOf)");
    }
    if structure.get("not").is_some_and(fits) {
        found.push("must not validate the schema (not)");
    }
    let field = if path.is_empty() {
        "<nil>".to_owned()
    } else {
        path.clone()
    };
    for why in found {
        faults.push(Fault::invalid(
            field.clone(),
            &Value::from(""),
            &format!("\"{path}\" {why}"),
        ));
    }
}

fn number(structure: &Value, key: &str) -> Option<i64> {
    structure.get(key).and_then(Value::as_i64)
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
