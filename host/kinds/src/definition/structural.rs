//! Structural schemas: what every value may be is said once, outside of all that only restricts it.

use serde_json::Value;

use crate::document::{at, is_true, list, object, present, text};
use crate::fault::Fault;

/// Where a schema is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Whether a schema has nothing that keeps it from being looked at as a structural one.
pub(super) fn is_readable(schema: &Value) -> bool {
    let has_members = |word: &str| object(schema.get(word)).next().is_some();
    if !text(schema, "id").is_empty()
        || !text(schema, "$schema").is_empty()
        || !text(schema, "$ref").is_empty()
        || has_members("patternProperties")
        || has_members("dependencies")
        || has_members("definitions")
        || present(schema, "additionalItems").is_some()
        || list(schema, "items").len() > 0
    {
        return false;
    }
    let single = ["items", "additionalProperties", "not"]
        .iter()
        .filter_map(|word| schema.get(*word));
    single.filter(|value| value.is_object()).all(is_readable)
        && ["allOf", "anyOf", "oneOf"]
            .iter()
            .all(|word| list(schema, word).all(is_readable))
        && object(schema.get("properties")).all(|(_, schema)| is_readable(schema))
}

/// What keeps a schema from being structural, in the order of the words.
pub(super) fn validate(schema: &Value, field: &str) -> Vec<Fault> {
    let mut faults = invariants(schema, Level::Root, field);
    faults.extend(completeness(schema, Some(schema), field, field));
    faults.sort_by_key(|fault| format!("{}: {}", fault.field, fault.message));
    faults
}

fn invariants(schema: &Value, level: Level, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let at_field = |name: &str| format!("{field}.{name}");
    let kind = text(schema, "type");
    let embedded = is_true(schema, "x-kubernetes-embedded-resource");
    let preserves = is_true(schema, "x-kubernetes-preserve-unknown-fields");
    let int_or_string = is_true(schema, "x-kubernetes-int-or-string");
    match present(schema, "items") {
        None if kind == "array" => faults.push(Fault::required(at_field("items"), "must be specified")),
        Some(items) if items.is_object() => faults.extend(invariants(items, Level::Item, &at_field("items"))),
        _ => {}
    }
    for (name, property) in object(schema.get("properties")) {
        faults.extend(invariants(
            property,
            Level::Field,
            &format!("{field}.properties[{name}]"),
        ));
    }
    let additional = present(schema, "additionalProperties");
    if let Some(additional) = additional {
        if level == Level::Root {
            faults.push(Fault::forbidden(
                at_field("additionalProperties"),
                "must not be used at the root",
            ));
        }
        if additional.is_object() {
            faults.extend(invariants(additional, Level::Field, &at_field("additionalProperties")));
        }
    }
    if int_or_string && preserves {
        faults.push(Fault::invalid(
            at_field("x-kubernetes-preserve-unknown-fields"),
            &true.into(),
            "must be false if x-kubernetes-int-or-string is true",
        ));
    }
    if int_or_string && embedded {
        faults.push(Fault::invalid(
            at_field("x-kubernetes-embedded-resource"),
            &true.into(),
            "must be false if x-kubernetes-int-or-string is true",
        ));
    }
    let skips_first = list(schema, "allOf").next().is_some_and(is_either);
    faults.extend(restrictions(schema, is_either(schema), skips_first, level, field));
    if embedded && kind != "object" {
        const WHY: &str = "must be object if x-kubernetes-embedded-resource is true";
        faults.push(if kind.is_empty() {
            Fault::required(at_field("type"), WHY)
        } else {
            Fault::invalid(at_field("type"), &kind.into(), WHY)
        });
    } else if kind.is_empty() && !int_or_string && !preserves {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        faults.push(Fault::required(at_field("type"), why));
    }
    if embedded && additional.is_some() {
        faults.push(Fault::forbidden(
            at_field("additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        faults.push(Fault::invalid(
            at_field("type"),
            &kind.into(),
            "must be object at the root",
        ));
    }
    let properties = at(schema, &["properties"]);
    let is_resource = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = properties.get(name)
            && is_resource
            && text(property, "type") != "string"
        {
            faults.push(Fault::invalid(
                format!("{field}.properties[{name}].type"),
                &text(property, "type").into(),
                "must be string",
            ));
        }
    }
    if let Some(metadata) = properties.get("metadata") {
        let field = format!("{field}.properties[metadata]");
        if is_resource && text(metadata, "type") != "object" {
            faults.push(Fault::invalid(
                format!("{field}.type"),
                &text(metadata, "type").into(),
                "must be object",
            ));
        }
        if level == Level::Root && !restricts_names_only(metadata) {
            faults.push(Fault::forbidden(
                field,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
    if embedded && !preserves && object(Some(properties)).next().is_none() {
        faults.push(Fault::required(
            at_field("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
    faults
}

/// Whether the schema of an object's metadata says something of the name at most.
fn restricts_names_only(metadata: &Value) -> bool {
    object(Some(metadata)).all(|(word, value)| match word.as_str() {
        "type" | "default" => true,
        "properties" => object(Some(value)).all(|(name, _)| matches!(name.as_str(), "name" | "generateName")),
        _ => value.is_null() || value == &Value::Bool(false) || value.as_str() == Some(""),
    })
}

/// Whether a schema says that a value is an integer or a string, which may be said.
fn is_either(schema: &Value) -> bool {
    let types: Vec<&Value> = list(schema, "anyOf").collect();
    types.len() == 2
        && types
            .iter()
            .zip(["integer", "string"])
            .all(|(one, wanted)| one.as_object().is_some_and(|map| map.len() == 1) && text(one, "type") == wanted)
}

fn restrictions(schema: &Value, skips_any: bool, skips_first: bool, level: Level, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !skips_any {
        for (index, one) in list(schema, "anyOf").enumerate() {
            faults.extend(nested(one, false, level, &format!("{field}.anyOf[{index}]")));
        }
    }
    for (index, one) in list(schema, "allOf").enumerate() {
        let skips = skips_first && index == 0;
        faults.extend(nested(one, skips, level, &format!("{field}.allOf[{index}]")));
    }
    for (index, one) in list(schema, "oneOf").enumerate() {
        faults.extend(nested(one, false, level, &format!("{field}.oneOf[{index}]")));
    }
    if let Some(not) = present(schema, "not") {
        faults.extend(nested(not, false, level, &format!("{field}.not")));
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty()
        && let Err(error) = regex::Regex::new(pattern)
    {
        faults.push(Fault::invalid(
            format!("{field}.pattern"),
            &pattern.into(),
            &format!(
                "must be a valid regular expression, but isn't: {}",
                complaint(pattern, &error)
            ),
        ));
    }
    faults
}

/// The commonest complaints about expressions, as Go words them.
fn complaint(pattern: &str, error: &regex::Error) -> String {
    let count = |character: char| pattern.chars().filter(|other| *other == character).count();
    if count('(') > count(')') {
        return format!("error parsing regexp: missing closing ): `{pattern}`");
    }
    if count(')') > count('(') {
        return format!("error parsing regexp: unexpected ): `{pattern}`");
    }
    if let Some(start) = pattern.find('[')
        && !pattern.contains(']')
    {
        return format!(
            "error parsing regexp: missing closing ]: `{}`",
            pattern.get(start..).unwrap_or_default()
        );
    }
    if let Some(first) = pattern.chars().next()
        && matches!(first, '*' | '+' | '?')
    {
        return format!("error parsing regexp: missing argument to repetition operator: `{first}`");
    }
    format!("error parsing regexp: {error}")
}

/// A schema within a restriction: it may say what values are valid, and nothing else.
fn nested(schema: &Value, skips_any: bool, level: Level, field: &str) -> Vec<Fault> {
    let mut faults = restrictions(schema, skips_any, false, level, field);
    if let Some(items) = present(schema, "items")
        && items.is_object()
    {
        faults.extend(nested(items, false, level, &format!("{field}.items")));
    }
    for (name, property) in object(schema.get("properties")) {
        faults.extend(nested(
            property,
            false,
            Level::Field,
            &format!("{field}.properties[{name}]"),
        ));
    }
    let mut refuse = |word: &str, is_there: bool, why: &str| {
        if is_there {
            faults.push(Fault::forbidden(
                format!("{field}.{word}"),
                &format!("must be {why} to be structural"),
            ));
        }
    };
    let has = |word: &str| present(schema, word).is_some();
    let has_text = |word: &str| !text(schema, word).is_empty();
    let has_items = |word: &str| list(schema, word).len() > 0;
    refuse("type", has_text("type"), "empty");
    refuse("additionalProperties", has("additionalProperties"), "undefined");
    refuse("default", has("default"), "undefined");
    refuse("title", has_text("title"), "empty");
    refuse("description", has_text("description"), "empty");
    for word in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        refuse(word, is_true(schema, word), "false");
    }
    refuse(
        "x-kubernetes-list-map-keys",
        has_items("x-kubernetes-list-map-keys"),
        "empty",
    );
    refuse("x-kubernetes-list-type", has("x-kubernetes-list-type"), "undefined");
    refuse("x-kubernetes-map-type", has("x-kubernetes-map-type"), "undefined");
    refuse(
        "x-kubernetes-validations",
        has_items("x-kubernetes-validations"),
        "empty",
    );
    if at(schema, &["properties"]).get("metadata").is_some() {
        faults.push(Fault::forbidden(
            format!("{field}.properties[metadata]"),
            "must not be specified in a nested context",
        ));
    }
    faults
}

/// What is restricted must also be specified: `structure` is what is said of the same value outside of restrictions.
fn completeness(schema: &Value, structure: Option<&Value>, field: &str, restricted: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(not) = present(schema, "not") {
        faults.extend(nested_completeness(not, structure, field, &format!("{restricted}.not")));
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        for (index, one) in list(schema, word).enumerate() {
            let restricted = format!("{restricted}.{word}[{index}]");
            faults.extend(nested_completeness(one, structure, field, &restricted));
        }
    }
    faults
}

fn nested_completeness(schema: &Value, structure: Option<&Value>, field: &str, restricted: &str) -> Vec<Fault> {
    let because = |restricted: &str| format!("because it is defined in {restricted}");
    let Some(known) = structure else {
        return vec![Fault::required(field, &because(restricted))];
    };
    let mut faults = completeness(schema, structure, field, restricted);
    if let Some(items) = present(schema, "items") {
        faults.extend(nested_completeness(
            items,
            present(known, "items"),
            &format!("{field}.items"),
            &format!("{restricted}.items"),
        ));
    }
    for (name, property) in object(schema.get("properties")) {
        let field = format!("{field}.properties[{name}]");
        let restricted = format!("{restricted}.properties[{name}]");
        match at(known, &["properties"]).get(name) {
            None => faults.push(Fault::required(field, &because(&restricted))),
            found => faults.extend(nested_completeness(property, found, &field, &restricted)),
        }
    }
    faults
}
