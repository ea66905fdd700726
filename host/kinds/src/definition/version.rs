//! The versions of a definition. What all of them have in common, the server holds once for all of them; that shows in
//! the fields it complains about.

use serde_json::Value;

use super::{schema, shown};
use crate::document::{at, is_true, list, text};
use crate::fault::{Fault, FaultKind};
use crate::names;

const PER_VERSION: [&str; 4] = ["subresources", "schema", "additionalPrinterColumns", "selectableFields"];
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
const MAX_SELECTABLE: usize = 8;
const WARNING_LENGTH: usize = 256;

/// What all versions have alike in a field, or null.
fn shared<'a>(spec: &'a Value, field: &str) -> &'a Value {
    let mut versions = list(spec, "versions").map(|version| at(version, &[field]));
    match versions.next() {
        Some(first) if versions.all(|other| other == first) => first,
        _ => &Value::Null,
    }
}

/// What a version has for itself in a field.
fn own<'a>(spec: &Value, version: &'a Value, field: &str) -> &'a Value {
    if shared(spec, field).is_null() {
        at(version, &[field])
    } else {
        &Value::Null
    }
}

fn has_status(spec: &Value, version: &Value) -> bool {
    let common = shared(spec, "subresources");
    let subresources = if common.is_null() {
        at(version, &["subresources"])
    } else {
        common
    };
    !at(subresources, &["status"]).is_null()
}

/// What is wrong with the versions one by one, and as a list.
pub(super) fn validate(spec: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    if at(shared(spec, "schema"), &["openAPIV3Schema"]).is_null() {
        for (index, version) in list(spec, "versions").enumerate() {
            if at(version, &["schema", "openAPIV3Schema"]).is_null() {
                faults.push(Fault::required(
                    format!("spec.versions[{index}].schema.openAPIV3Schema"),
                    "",
                ));
            }
        }
    }
    if is_true(spec, "preserveUnknownFields") && schema::has_defaults(spec) {
        faults.push(Fault::invalid(
            "spec.preserveUnknownFields",
            &true.into(),
            "must be false in order to use defaults in the schema",
        ));
    }
    for (index, version) in list(spec, "versions").enumerate() {
        let field = format!("spec.versions[{index}]");
        let name = text(version, "name");
        let wrong = names::dns_1035_label(name);
        if !wrong.is_empty() {
            faults.push(Fault::invalid(format!("{field}.name"), &name.into(), &wrong.join(",")));
        }
        faults.extend(validate_deprecation(version, &field));
        let part = |name: &str| own(spec, version, name);
        faults.extend(schema::validate(
            part("schema"),
            has_status(spec, version),
            &format!("{field}.schema"),
        ));
        faults.extend(validate_subresources(
            part("subresources"),
            &format!("{field}.subresources"),
        ));
        faults.extend(validate_columns(
            part("additionalPrinterColumns"),
            &format!("{field}.additionalPrinterColumns"),
        ));
        faults.extend(validate_selectable(
            part("selectableFields"),
            part("schema"),
            &format!("{field}.selectableFields"),
            "may only be set when `version.schema.openAPIV3Schema` is not included",
        ));
    }
    faults.extend(validate_list(spec));
    faults
}

fn validate_list(spec: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let all: Vec<&Value> = list(spec, "versions").collect();
    let all_names: Vec<&str> = all.iter().map(|version| text(version, "name")).collect();
    let is_unique = all_names
        .iter()
        .enumerate()
        .all(|(index, name)| !all_names.iter().take(index).any(|before| before == name));
    let stored = all.iter().filter(|version| is_true(version, "storage")).count();
    let mut refuse = |why: &str| {
        let value = match spec.get("versions") {
            Some(Value::Array(versions)) if !versions.is_empty() => {
                shown::versions(spec, &|version, field| own(spec, version, field).clone())
            }
            Some(Value::Array(_)) => "[]".to_owned(),
            _ => "null".to_owned(),
        };
        faults.push(Fault::shown_as(FaultKind::Invalid, "spec.versions", &value, why));
    };
    if !is_unique {
        refuse("must contain unique version names");
    }
    if stored != 1 {
        refuse("must have exactly one version marked as storage version");
    }
    // The name of the first version is also held where there once was only one.
    if let Some(first) = all_names.first() {
        let wrong = names::dns_1035_label(first);
        if !first.is_empty() && !wrong.is_empty() {
            faults.push(Fault::invalid("spec.version", &(*first).into(), &wrong.join(",")));
        }
    }
    faults
}

/// What is wrong with what all versions have alike.
pub(super) fn validate_shared(spec: &Value) -> Vec<Fault> {
    let any_status = list(spec, "versions").any(|version| has_status(spec, version));
    let mut faults = schema::validate(shared(spec, "schema"), any_status, "spec.validation");
    faults.extend(validate_subresources(shared(spec, "subresources"), "spec.subresources"));
    faults.extend(validate_columns(
        shared(spec, "additionalPrinterColumns"),
        "spec.additionalPrinterColumns",
    ));
    faults.extend(validate_selectable(
        shared(spec, PER_VERSION[3]),
        shared(spec, "schema"),
        "spec.selectableFields",
        "may only be set when validations.schema is included",
    ));
    faults
}

fn validate_deprecation(version: &Value, field: &str) -> Vec<Fault> {
    let field = format!("{field}.deprecationWarning");
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return Vec::new();
    };
    if !is_true(version, "deprecated") {
        return Fault::each(
            &field,
            warning,
            vec!["can only be set for deprecated versions".to_owned()],
        );
    }
    let mut wrong = Vec::new();
    if warning.len() > WARNING_LENGTH {
        wrong.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        wrong.push("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| character.is_control()) {
        wrong.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
    Fault::each(&field, warning, wrong)
}

fn validate_subresources(subresources: &Value, field: &str) -> Vec<Fault> {
    let scale = at(subresources, &["scale"]);
    if scale.is_null() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (name, roots, of, required) in [
        ("specReplicasPath", &[".spec."][..], ".spec", true),
        ("statusReplicasPath", &[".status."][..], ".status", true),
        (
            "labelSelectorPath",
            &[".spec.", ".status."][..],
            "either .spec or .status",
            false,
        ),
    ] {
        let path = text(scale, name);
        let field = format!("{field}.scale.{name}");
        if path.is_empty() {
            if required {
                faults.push(Fault::required(field, ""));
            }
        } else if !path.starts_with('.') {
            faults.push(not_simple(&field, path));
        } else if !roots.iter().any(|root| path.starts_with(root)) {
            faults.push(Fault::invalid(
                field,
                &path.into(),
                &format!("should be a json path under {of}"),
            ));
        }
    }
    faults
}

fn not_simple(field: &str, path: &str) -> Fault {
    Fault::invalid(field, &path.into(), "must be a simple json path starting with .")
}

fn validate_columns(columns: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = |name: &str| format!("{field}[{index}].{name}");
        if text(column, "name").is_empty() {
            faults.push(Fault::required(at("name"), ""));
        }
        let kind = text(column, "type");
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        if kind.is_empty() {
            faults.push(Fault::required(at("type"), &types));
        } else if !COLUMN_TYPES.contains(&kind) {
            faults.push(Fault::invalid(at("type"), &kind.into(), &types));
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            faults.push(Fault::invalid(
                at("format"),
                &format.into(),
                &format!("must be one of {}", COLUMN_FORMATS.join(",")),
            ));
        }
        let path = text(column, "jsonPath");
        if path.is_empty() {
            faults.push(Fault::required(at("JSONPath"), ""));
        } else if !path.starts_with('.') {
            faults.push(not_simple(&at("JSONPath"), path));
        }
    }
    faults
}

fn validate_selectable(fields: &Value, schema: &Value, field: &str, without: &str) -> Vec<Fault> {
    let all: Vec<&Value> = fields.as_array().into_iter().flatten().collect();
    if all.is_empty() {
        return Vec::new();
    }
    let schema = at(schema, &["openAPIV3Schema"]);
    if schema.is_null() {
        return vec![Fault::invalid(field, &"".into(), without)];
    }
    let mut faults = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, selectable) in all.iter().enumerate() {
        let field = format!("{field}[{index}].jsonPath");
        let path = text(selectable, "jsonPath");
        let value = Value::from(path);
        if path.is_empty() {
            faults.push(Fault::required(field, ""));
            continue;
        }
        let found = match follow(path, schema) {
            Ok(found) => found,
            Err(why) => {
                faults.push(Fault::invalid(field, &value, &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if path.starts_with(".metadata") {
            faults.push(Fault::invalid(
                field.as_str(),
                &value,
                "must not point to fields in metadata",
            ));
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            faults.push(Fault::invalid(
                field.as_str(),
                &value,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            ));
        }
        if seen.contains(&path) {
            faults.push(Fault::duplicate(field, &value));
        } else {
            seen.push(path);
        }
    }
    if seen.len() > MAX_SELECTABLE {
        faults.push(Fault::too_many(field, seen.len(), MAX_SELECTABLE));
    }
    faults
}

/// The schema of the field at a path, or why there is none.
fn follow<'a>(path: &str, schema: &'a Value) -> Result<&'a Value, String> {
    let Some(rest) = path.strip_prefix('.') else {
        let start = path.split(['.', '[']).next().unwrap_or_default();
        return Err(format!("expected [ or . but got: {start}"));
    };
    rest.split('.').try_fold(schema, |schema, step| {
        if step.contains('[') {
            return Err("array notation is not allowed".to_owned());
        }
        at(schema, &["properties"])
            .get(step)
            .ok_or_else(|| "does not refer to a valid field".to_owned())
    })
}
