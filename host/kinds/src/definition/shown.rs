//! Versions and schemas as the server shows them in messages: with the names that its inner types give their fields.

use serde_json::Value;

use crate::document::{list, object, text};

const NULL: &str = "null";

/// A value, or null.
fn plain(value: Option<&Value>) -> String {
    value.map_or_else(|| NULL.to_owned(), ToString::to_string)
}

fn string(value: Option<&Value>) -> String {
    value.map_or_else(|| "\"\"".to_owned(), ToString::to_string)
}

fn boolean(value: Option<&Value>) -> String {
    value.map_or_else(|| "false".to_owned(), ToString::to_string)
}

fn joined(parts: &[(&str, String)]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", parts.join(","))
}

fn array(value: Option<&Value>, each: &dyn Fn(&Value) -> String) -> String {
    match value.and_then(Value::as_array) {
        Some(items) if !items.is_empty() => {
            let items: Vec<String> = items.iter().map(each).collect();
            format!("[{}]", items.join(","))
        }
        _ => NULL.to_owned(),
    }
}

/// The versions of a definition; `own` is what a version has for itself.
pub(super) fn versions(spec: &Value, own: &dyn Fn(&Value, &str) -> Value) -> String {
    let each: Vec<String> = list(spec, "versions")
        .map(|version| {
            let part = |field: &str| Some(own(version, field)).filter(|value| !value.is_null());
            joined(&[
                ("Name", string(version.get("name"))),
                ("Served", boolean(version.get("served"))),
                ("Storage", boolean(version.get("storage"))),
                ("Deprecated", boolean(version.get("deprecated"))),
                ("DeprecationWarning", plain(version.get("deprecationWarning"))),
                (
                    "Schema",
                    part("schema").map_or_else(
                        || NULL.to_owned(),
                        |value| {
                            let inner = value.get("openAPIV3Schema").map_or_else(|| NULL.to_owned(), schema);
                            joined(&[("OpenAPIV3Schema", inner)])
                        },
                    ),
                ),
                (
                    "Subresources",
                    part("subresources").map_or_else(|| NULL.to_owned(), |value| subresources(&value)),
                ),
                (
                    "AdditionalPrinterColumns",
                    array(part("additionalPrinterColumns").as_ref(), &column),
                ),
                (
                    "SelectableFields",
                    array(part("selectableFields").as_ref(), &|field| {
                        joined(&[("JSONPath", string(field.get("jsonPath")))])
                    }),
                ),
            ])
        })
        .collect();
    format!("[{}]", each.join(","))
}

fn subresources(value: &Value) -> String {
    let scale = value.get("scale").map_or_else(
        || NULL.to_owned(),
        |scale| {
            joined(&[
                ("SpecReplicasPath", string(scale.get("specReplicasPath"))),
                ("StatusReplicasPath", string(scale.get("statusReplicasPath"))),
                ("LabelSelectorPath", plain(scale.get("labelSelectorPath"))),
            ])
        },
    );
    joined(&[("Status", plain(value.get("status"))), ("Scale", scale)])
}

fn column(value: &Value) -> String {
    joined(&[
        ("Name", string(value.get("name"))),
        ("Type", string(value.get("type"))),
        ("Format", string(value.get("format"))),
        ("Description", string(value.get("description"))),
        (
            "Priority",
            value
                .get("priority")
                .map_or_else(|| "0".to_owned(), ToString::to_string),
        ),
        ("JSONPath", string(value.get("jsonPath"))),
    ])
}

fn rule(value: &Value) -> String {
    joined(&[
        ("Rule", string(value.get("rule"))),
        ("Message", string(value.get("message"))),
        ("MessageExpression", string(value.get("messageExpression"))),
        ("Reason", plain(value.get("reason"))),
        ("FieldPath", string(value.get("fieldPath"))),
        ("OptionalOldSelf", plain(value.get("optionalOldSelf"))),
    ])
}

/// A schema.
pub(super) fn schema(value: &Value) -> String {
    let get = |field: &str| value.get(field);
    let nested = |field: &str| get(field).map_or_else(|| NULL.to_owned(), schema);
    let schemas = |field: &str| array(get(field), &schema);
    let map = |field: &str| {
        let members: Vec<String> = object(get(field))
            .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), schema(value)))
            .collect();
        if members.is_empty() {
            NULL.to_owned()
        } else {
            format!("{{{}}}", members.join(","))
        }
    };
    let items = match get("items") {
        None => NULL.to_owned(),
        Some(Value::Array(_)) => joined(&[("Schema", NULL.to_owned()), ("JSONSchemas", schemas("items"))]),
        Some(one) => joined(&[("Schema", schema(one)), ("JSONSchemas", NULL.to_owned())]),
    };
    let additional = |field: &str| match get(field) {
        None => NULL.to_owned(),
        Some(Value::Bool(allows)) => joined(&[("Allows", allows.to_string()), ("Schema", NULL.to_owned())]),
        Some(one) => joined(&[("Allows", "true".to_owned()), ("Schema", schema(one))]),
    };
    let external = get("externalDocs").map_or_else(
        || NULL.to_owned(),
        |docs| {
            joined(&[
                ("Description", string(docs.get("description"))),
                ("URL", Value::from(text(docs, "url")).to_string()),
            ])
        },
    );
    joined(&[
        ("ID", string(get("id"))),
        ("Schema", string(get("$schema"))),
        ("Ref", plain(get("$ref"))),
        ("Description", string(get("description"))),
        ("Type", string(get("type"))),
        ("Nullable", boolean(get("nullable"))),
        ("Format", string(get("format"))),
        ("Title", string(get("title"))),
        ("Default", plain(get("default"))),
        ("Maximum", plain(get("maximum"))),
        ("ExclusiveMaximum", boolean(get("exclusiveMaximum"))),
        ("Minimum", plain(get("minimum"))),
        ("ExclusiveMinimum", boolean(get("exclusiveMinimum"))),
        ("MaxLength", plain(get("maxLength"))),
        ("MinLength", plain(get("minLength"))),
        ("Pattern", string(get("pattern"))),
        ("MaxItems", plain(get("maxItems"))),
        ("MinItems", plain(get("minItems"))),
        ("UniqueItems", boolean(get("uniqueItems"))),
        ("MultipleOf", plain(get("multipleOf"))),
        ("Enum", plain(get("enum"))),
        ("MaxProperties", plain(get("maxProperties"))),
        ("MinProperties", plain(get("minProperties"))),
        ("Required", plain(get("required"))),
        ("Items", items),
        ("AllOf", schemas("allOf")),
        ("OneOf", schemas("oneOf")),
        ("AnyOf", schemas("anyOf")),
        ("Not", nested("not")),
        ("Properties", map("properties")),
        ("AdditionalProperties", additional("additionalProperties")),
        ("PatternProperties", map("patternProperties")),
        ("Dependencies", plain(get("dependencies"))),
        ("AdditionalItems", additional("additionalItems")),
        ("Definitions", map("definitions")),
        ("ExternalDocs", external),
        ("Example", plain(get("example"))),
        (
            "XPreserveUnknownFields",
            plain(get("x-kubernetes-preserve-unknown-fields")),
        ),
        ("XEmbeddedResource", boolean(get("x-kubernetes-embedded-resource"))),
        ("XIntOrString", boolean(get("x-kubernetes-int-or-string"))),
        ("XListMapKeys", plain(get("x-kubernetes-list-map-keys"))),
        ("XListType", plain(get("x-kubernetes-list-type"))),
        ("XMapType", plain(get("x-kubernetes-map-type"))),
        ("XValidations", array(get("x-kubernetes-validations"), &rule)),
    ])
}
