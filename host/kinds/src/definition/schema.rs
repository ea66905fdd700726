//! What OpenAPI has and the server does not take, and what its own extensions ask of a schema.

use serde_json::Value;

use super::{shown, structural};
use crate::document::{at, is_true, list, object, present, text, texts};
use crate::fault::{Fault, FaultKind};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// What may stand beside a status of its own, by the names in the server's message and those in a schema.
const AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];
const FORMATS: [&str; 24] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
];

/// What holds of a schema because of where it is.
#[derive(Clone, Copy)]
struct Place<'a> {
    is_root: bool,
    /// Why there may be no defaults, if there may be none.
    no_defaults: Option<&'a str>,
    inside_metadata: bool,
}

/// Every schema within a schema, itself first.
fn visit<'a>(schema: &'a Value, each: &mut dyn FnMut(&'a Value)) {
    each(schema);
    for field in ["items", "additionalProperties", "additionalItems", "not"] {
        match schema.get(field) {
            Some(Value::Array(many)) => many.iter().for_each(|one| visit(one, each)),
            Some(one) if one.is_object() => visit(one, each),
            _ => {}
        }
    }
    for field in ["allOf", "oneOf", "anyOf"] {
        list(schema, field).for_each(|one| visit(one, each));
    }
    for field in ["properties", "patternProperties", "definitions"] {
        object(schema.get(field)).for_each(|(_, one)| visit(one, each));
    }
}

fn schemas(spec: &Value) -> impl Iterator<Item = &Value> {
    list(spec, "versions").map(|version| at(version, &["schema", "openAPIV3Schema"]))
}

/// Whether a schema of the definition has a default anywhere.
pub(super) fn has_defaults(spec: &Value) -> bool {
    let mut found = false;
    for schema in schemas(spec) {
        visit(schema, &mut |schema| found |= present(schema, "default").is_some());
    }
    found
}

/// The formats of texts that mean nothing to the server.
pub(super) fn unknown_formats(definition: &Value) -> Vec<String> {
    let spec = at(definition, &["spec"]);
    let mut found = Vec::new();
    let mut all: Vec<&Value> = schemas(spec).collect();
    // What all versions have alike is looked at once.
    all.dedup();
    for schema in all {
        visit(schema, &mut |schema| {
            let format = text(schema, "format");
            let is_known = FORMATS.contains(&format.replace('-', "").as_str());
            if text(schema, "type") == "string" && !format.is_empty() && !is_known {
                found.push(format.to_owned());
            }
        });
    }
    found
}

/// What is wrong with the schema of a version.
pub(super) fn validate(validation: &Value, has_status: bool, field: &str) -> Vec<Fault> {
    let schema = at(validation, &["openAPIV3Schema"]);
    if schema.is_null() {
        return Vec::new();
    }
    let field = format!("{field}.openAPIV3Schema");
    let mut faults = Vec::new();
    if has_status {
        faults.extend(validate_root(schema, &field));
    }
    if is_true(schema, "nullable") {
        faults.push(Fault::forbidden(
            format!("{field}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    if structural::is_readable(schema) {
        faults.extend(structural::validate(schema, &field));
    }
    let place = Place {
        is_root: true,
        no_defaults: None,
        inside_metadata: false,
    };
    faults.extend(validate_schema(schema, &field, place));
    faults
}

/// Where there is a status of its own, the root can say little.
fn validate_root(schema: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let kind = text(schema, "type");
    let mut is_odd = false;
    for (name, value) in object(Some(schema)) {
        let is_empty = match value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        if !is_empty && name != "type" && !AT_ROOT.iter().any(|(_, allowed)| allowed == name) {
            is_odd = true;
        }
    }
    if !kind.is_empty() && kind != "object" {
        faults.push(Fault::invalid(
            format!("{field}.type"),
            &kind.into(),
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
    } else if is_odd {
        let allowed: Vec<&str> = AT_ROOT.iter().map(|(name, _)| *name).collect();
        faults.push(Fault::shown_as(
            FaultKind::Invalid,
            field,
            &shown::schema(schema),
            &format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                allowed.join(" ")
            ),
        ));
    }
    faults
}

fn validate_schema(schema: &Value, field: &str, place: Place<'_>) -> Vec<Fault> {
    let mut faults = validate_words(schema, field, place);
    if is_true(schema, "uniqueItems") {
        faults.push(Fault::forbidden(
            format!("{field}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    faults.extend(validate_below(schema, field, place));
    faults.extend(validate_extensions(schema, field));
    faults.extend(validate_list_items(schema, field));
    faults.extend(validate_rules(schema, field));
    faults
}

/// The words of JSON Schema that are not taken.
fn validate_words(schema: &Value, field: &str, place: Place<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        faults.push(Fault::not_supported(format!("{field}.type"), &kind.into(), &TYPES));
    }
    if present(schema, "default").is_some()
        && let Some(why) = place.no_defaults
    {
        faults.push(Fault::forbidden(
            format!("{field}.default"),
            &format!("must not be set {why}"),
        ));
    }
    let mut refuse = |word: &str, is_there: bool| {
        if is_there {
            faults.push(Fault::forbidden(
                format!("{field}.{word}"),
                &format!("{word} is not supported"),
            ));
        }
    };
    let has_members = |word: &str| object(schema.get(word)).next().is_some();
    refuse("id", !text(schema, "id").is_empty());
    refuse("additionalItems", present(schema, "additionalItems").is_some());
    refuse("patternProperties", has_members("patternProperties"));
    refuse("definitions", has_members("definitions"));
    refuse("dependencies", present(schema, "dependencies").is_some());
    refuse("$ref", present(schema, "$ref").is_some());
    if kind == "null" {
        faults.push(Fault::forbidden(
            format!("{field}.type"),
            "type cannot be set to null, use nullable as an alternative",
        ));
    }
    if list(schema, "items").len() > 0 {
        faults.push(Fault::forbidden(
            format!("{field}.items"),
            "items must be a schema object and not an array",
        ));
    }
    if place.inside_metadata && is_true(schema, "x-kubernetes-embedded-resource") {
        faults.push(Fault::forbidden(
            format!("{field}.x-kubernetes-embedded-resource"),
            "must not be used inside of resource meta",
        ));
    }
    faults
}

/// The schemas within a schema.
fn validate_below(schema: &Value, field: &str, place: Place<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let below = Place {
        is_root: false,
        ..place
    };
    let has_properties = object(schema.get("properties")).next().is_some();
    if let Some(additional) = present(schema, "additionalProperties") {
        let field = format!("{field}.additionalProperties");
        if has_properties && additional != &Value::Bool(true) {
            faults.push(Fault::forbidden(
                field.as_str(),
                "additionalProperties and properties are mutual exclusive",
            ));
        }
        if additional.is_object() {
            let place = if place.inside_metadata {
                Place {
                    no_defaults: Some("inside additionalProperties applying to object metadata"),
                    ..below
                }
            } else {
                below
            };
            faults.extend(validate_schema(additional, &field, place));
        }
    }
    for (name, property) in object(schema.get("properties")) {
        let is_resource = place.is_root || is_true(schema, "x-kubernetes-embedded-resource");
        let why = format!("in top-level {name}");
        let mut of_property = below;
        if is_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            of_property.inside_metadata = true;
            if place.is_root {
                of_property.no_defaults = Some(&why);
            }
        }
        faults.extend(validate_schema(
            property,
            &format!("{field}.properties[{name}]"),
            of_property,
        ));
    }
    if let Some(not) = present(schema, "not") {
        faults.extend(validate_schema(not, &format!("{field}.not"), below));
    }
    for word in ["allOf", "oneOf", "anyOf"] {
        for (index, one) in list(schema, word).enumerate() {
            faults.extend(validate_schema(one, &format!("{field}.{word}[{index}]"), below));
        }
    }
    for (name, one) in object(schema.get("definitions")) {
        faults.extend(validate_schema(one, &format!("{field}.definitions[{name}]"), below));
    }
    match schema.get("items") {
        Some(Value::Array(many)) => {
            for (index, one) in many.iter().enumerate() {
                faults.extend(validate_schema(one, &format!("{field}.items[{index}]"), below));
            }
        }
        Some(one) if one.is_object() => faults.extend(validate_schema(one, &format!("{field}.items"), below)),
        _ => {}
    }
    faults
}

fn validate_extensions(schema: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let at_field = |name: &str| format!("{field}.{name}");
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        faults.push(Fault::invalid(
            at_field("x-kubernetes-preserve-unknown-fields"),
            &false.into(),
            "must be true or undefined",
        ));
    }
    let kind = text(schema, "type");
    let must_be = |wanted: &str, because: &str| {
        let why = format!("must be {wanted} if {because} is specified");
        if kind.is_empty() {
            Fault::required(at_field("type"), &why)
        } else {
            Fault::invalid(at_field("type"), &kind.into(), &why)
        }
    };
    let map_type = schema.get("x-kubernetes-map-type").and_then(Value::as_str);
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    if map_type.is_some() && kind != "object" {
        faults.push(must_be("object", "x-kubernetes-map-type"));
    }
    if let Some(map_type) = map_type
        && !matches!(map_type, "atomic" | "granular")
    {
        faults.push(Fault::not_supported(
            at_field("x-kubernetes-map-type"),
            &map_type.into(),
            &["atomic", "granular"],
        ));
    }
    let items = at(schema, &["items"]);
    if list_type.is_some() && kind != "array" {
        faults.push(must_be("array", "x-kubernetes-list-type"));
    } else if list_type == Some("set") && items.is_object() {
        const WHY: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let inner = present(items, "x-kubernetes-list-type").unwrap_or(&Value::Null);
        if text(items, "type") == "array" && !matches!(inner.as_str(), None | Some("atomic")) {
            faults.push(Fault::invalid(at_field("items.x-kubernetes-list-type"), inner, WHY));
        }
        if text(items, "type") == "object" && text(items, "x-kubernetes-map-type") != "atomic" {
            // The real server shows the type of the list, which there is none of.
            faults.push(Fault::invalid(at_field("items.x-kubernetes-map-type"), inner, WHY));
        }
    }
    if let Some(list_type) = list_type
        && !matches!(list_type, "atomic" | "set" | "map")
    {
        faults.push(Fault::not_supported(
            at_field("x-kubernetes-list-type"),
            &list_type.into(),
            &["atomic", "set", "map"],
        ));
    }
    faults.extend(validate_keys(schema, field, list_type));
    faults
}

fn validate_keys(schema: &Value, field: &str, list_type: Option<&str>) -> Vec<Fault> {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let mut faults = Vec::new();
    let at_field = |name: &str| format!("{field}.{name}");
    let keys: Vec<&str> = texts(schema, KEYS).collect();
    if !keys.is_empty() && list_type != Some("map") {
        const WHY: &str = "must be map if x-kubernetes-list-map-keys is non-empty";
        let field = at_field("x-kubernetes-list-type");
        faults.push(match list_type {
            None => Fault::required(field, WHY),
            Some(other) => Fault::invalid(field, &other.into(), WHY),
        });
    }
    if list_type != Some("map") {
        return faults;
    }
    if keys.is_empty() {
        faults.push(Fault::required(
            at_field(KEYS),
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let Some(items) = present(schema, "items") else {
        faults.push(Fault::required(
            at_field("items"),
            "must have a schema if x-kubernetes-list-type is map",
        ));
        return faults;
    };
    let kind = text(items, "type");
    if items.is_object() && kind != "object" {
        faults.push(Fault::invalid(
            at_field("items.type"),
            &kind.into(),
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
    }
    if kind == "object" {
        let all = at(schema, &[KEYS]);
        for (index, key) in keys.iter().enumerate() {
            match at(items, &["properties"]).get(*key) {
                None => faults.push(Fault::invalid(
                    at_field(KEYS),
                    all,
                    "entries must all be names of item properties",
                )),
                Some(property) if matches!(text(property, "type"), "array" | "object") => {
                    faults.push(Fault::invalid(
                        format!("{field}.items.properties[{key}].type"),
                        &kind.into(),
                        "must be a scalar type if parent array's x-kubernetes-list-type is map",
                    ));
                }
                Some(_) => {}
            }
            if keys.iter().take(index).any(|before| before == key) {
                faults.push(Fault::invalid(
                    at_field(KEYS),
                    all,
                    "must not contain duplicate entries",
                ));
            }
        }
    }
    faults
}

/// Elements that are told apart by keys, or by their values, are never null, and keys are always there.
fn validate_list_items(schema: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let list_type = text(schema, "x-kubernetes-list-type");
    let items = at(schema, &["items"]);
    if !items.is_object() || !matches!(list_type, "set" | "map") {
        return faults;
    }
    if is_true(items, "nullable") {
        faults.push(Fault::forbidden(
            format!("{field}.items.nullable"),
            &format!("cannot be nullable when x-kubernetes-list-type is {list_type}"),
        ));
    }
    if list_type != "map" {
        return faults;
    }
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        let Some(property) = at(items, &["properties"]).get(key) else {
            continue;
        };
        let field = format!("{field}.items.properties[{key}]");
        let is_required = texts(items, "required").any(|required| required == key);
        if !is_required && present(property, "default").is_none() {
            faults.push(Fault::required(
                format!("{field}.default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        if is_true(property, "nullable") {
            faults.push(Fault::forbidden(
                format!("{field}.nullable"),
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ));
        }
    }
    faults
}

/// What must hold of a rule before anyone tries to compile it.
fn validate_rules(schema: &Value, field: &str) -> Vec<Fault> {
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let mut faults = Vec::new();
    for (index, rule) in list(schema, "x-kubernetes-validations").enumerate() {
        let at_field = |name: &str| format!("{field}.x-kubernetes-validations[{index}].{name}");
        let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
        if expression.is_empty() {
            faults.push(Fault::required(at_field("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            faults.push(Fault::invalid(
                at_field("message"),
                &message.into(),
                "must be non-empty if specified",
            ));
        } else if has_lines(message.trim()) {
            faults.push(Fault::invalid(
                at_field("message"),
                &message.into(),
                "must not contain line breaks",
            ));
        } else if has_lines(expression) && message.trim().is_empty() {
            faults.push(Fault::required(
                at_field("message"),
                "message must be specified if rule contains line breaks",
            ));
        }
        let computed = text(rule, "messageExpression");
        if !computed.is_empty() && computed.trim().is_empty() {
            faults.push(Fault::required(
                at_field("messageExpression"),
                "messageExpression must be non-empty if specified",
            ));
        }
        if let Some(reason) = rule.get("reason").and_then(Value::as_str)
            && !REASONS.contains(&reason)
        {
            faults.push(Fault::not_supported(at_field("reason"), &reason.into(), &REASONS));
        }
        let path = text(rule, "fieldPath");
        if !path.is_empty() && path.trim().is_empty() {
            faults.push(Fault::invalid(
                at_field("fieldPath"),
                &path.into(),
                "must be non-empty if specified",
            ));
        }
        if has_lines(path) {
            faults.push(Fault::invalid(
                at_field("fieldPath"),
                &path.into(),
                "must not contain line breaks",
            ));
        }
    }
    faults
}
