//! Bodies of built-in kinds as Go reads and writes them: types are checked, empty fields vanish, some are always there.

use std::collections::HashMap;

use chandlery_merge::Schema;
use chandlery_merge::schema::JsonKind;
use serde::Deserialize;
use serde_json::{Map, Value};

/// How Go writes each definition, by its name in OpenAPI.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Structures(HashMap<String, Structure>);

#[derive(Debug, Default, Deserialize)]
struct Structure {
    #[serde(default)]
    omitted: Vec<String>,
    #[serde(default)]
    written: Map<String, Value>,
}

/// Nothing Kubernetes defines is deeper, but for schemas within CustomResourceDefinitions, which are left alone.
const MAX_DEPTH: u8 = 64;
/// JSON schemas refer to themselves and keep what they are given.
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

impl Structures {
    /// Turns what a client sent into what the server holds after reading it, apart from defaults.
    pub(crate) fn normalise(&self, schema: &Schema, value: &mut Value) {
        self.visit(schema, value, 0);
    }

    fn visit(&self, schema: &Schema, value: &mut Value, depth: u8) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Object(map) => {
                let structure = schema.name().and_then(|name| self.0.get(name));
                if let Some(structure) = structure {
                    map.retain(|_, value| !value.is_null());
                    for (name, empty) in &structure.written {
                        map.entry(name.clone()).or_insert_with(|| empty.clone());
                    }
                }
                let is_structure = structure.is_some();
                for (name, value) in map.iter_mut() {
                    let Some(child) = schema.property(name) else { continue };
                    if !is_structure && value.is_null() {
                        // The entry of a map is there, and what it holds is the empty value of its type.
                        *value = empty(&child);
                    }
                    self.visit(&child, value, depth + 1);
                }
                if let Some(structure) = structure {
                    for name in &structure.omitted {
                        // An empty list of managers is a wish of its own: to forget them all.
                        if name != "managedFields" && map.get(name).is_some_and(is_empty) {
                            map.remove(name);
                        }
                    }
                    if schema.name() == Some(SCHEMA) {
                        map.retain(|_, value| !value.is_null());
                    }
                }
            }
            Value::Array(items) => {
                let Some(element) = schema.items() else { return };
                for item in items {
                    if item.is_null() {
                        *item = empty(&element);
                    }
                    self.visit(&element, item, depth + 1);
                }
            }
            _ => {}
        }
    }

    /// Turns what the server holds into what its store gives back: it knows no difference between an empty list and none.
    pub(crate) fn store(&self, schema: &Schema, value: &mut Value) {
        match value {
            Value::Object(map) => {
                let structure = schema.name().and_then(|name| self.0.get(name));
                for (name, value) in map.iter_mut() {
                    let is_empty_list = value.as_array().is_some_and(Vec::is_empty);
                    if is_empty_list
                        && structure.is_some_and(|structure| structure.written.get(name) == Some(&Value::Null))
                    {
                        *value = Value::Null;
                    } else if let Some(child) = schema.property(name) {
                        self.store(&child, value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(element) = schema.items() {
                    items.iter_mut().for_each(|item| self.store(&element, item));
                }
            }
            _ => {}
        }
    }

    /// What Go says of a body whose values have other types than the kind's fields.
    pub(crate) fn mismatch(&self, schema: &Schema, kind: &str, value: &Value) -> Option<String> {
        let mut path = String::new();
        find_mismatch(schema, kind, value, &mut path)
    }
}

fn empty(schema: &Schema) -> Value {
    match schema.json_kind() {
        JsonKind::Text => Value::from(""),
        JsonKind::Integer | JsonKind::Number => Value::from(0),
        JsonKind::Boolean => Value::from(false),
        JsonKind::Object => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn find_mismatch(schema: &Schema, kind: &str, value: &Value, path: &mut String) -> Option<String> {
    let wrong = |expected: &str| {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        Some(format!(
            "json: cannot unmarshal {found} into Go struct field {kind}.{path} of type {expected}"
        ))
    };
    if value.is_null() {
        return None;
    }
    if let Some(name) = schema.name() {
        if name.ends_with(".Quantity") {
            return quantity_mismatch(value);
        }
        if name.ends_with(".RawExtension") || name.ends_with(".FieldsV1") || name.ends_with(".JSON") {
            return None;
        }
    }
    match (schema.json_kind(), value) {
        (JsonKind::Any, _) | (JsonKind::IntOrText, Value::String(_) | Value::Number(_)) => None,
        (JsonKind::IntOrText, _) => wrong("intstr.IntOrString"),
        (JsonKind::Text, Value::String(text)) => text_mismatch(schema, text),
        (JsonKind::Text, _) => wrong("string"),
        (JsonKind::Boolean, Value::Bool(_)) => None,
        (JsonKind::Boolean, _) => wrong("bool"),
        (JsonKind::Integer, Value::Number(number)) => {
            let (smallest, largest) = match schema.format() {
                Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
                _ => (i64::MIN, i64::MAX),
            };
            let fits = number
                .as_i64()
                .is_some_and(|number| (smallest..=largest).contains(&number));
            if fits {
                None
            } else {
                wrong(schema.format().unwrap_or("int64"))
            }
        }
        (JsonKind::Integer, _) => wrong(schema.format().unwrap_or("int64")),
        (JsonKind::Number, Value::Number(_)) => None,
        (JsonKind::Number, _) => wrong("float64"),
        (JsonKind::Array, Value::Array(items)) => {
            let element = schema.items()?;
            items.iter().find_map(|item| find_mismatch(&element, kind, item, path))
        }
        (JsonKind::Array, _) => wrong("[]"),
        (JsonKind::Object, Value::Object(map)) => {
            let length = path.len();
            for (name, value) in map {
                let Some(child) = schema.property(name) else { continue };
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                let found = find_mismatch(&child, kind, value, path);
                path.truncate(length);
                if found.is_some() {
                    return found;
                }
            }
            None
        }
        (JsonKind::Object, _) => wrong("map"),
    }
}

/// What strings must look like to be read at all.
fn text_mismatch(schema: &Schema, text: &str) -> Option<String> {
    use base64::Engine as _;
    match schema.format() {
        Some("byte") => {
            let plain: String = text
                .chars()
                .filter(|character| !matches!(character, '\n' | '\r'))
                .collect();
            match base64::engine::general_purpose::STANDARD.decode(&plain) {
                Ok(_) => None,
                Err(error) => {
                    let at = match error {
                        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                        base64::DecodeError::InvalidLength(length) => length / 4 * 4,
                        base64::DecodeError::InvalidPadding => plain.len() / 4 * 4,
                    };
                    Some(format!("illegal base64 data at input byte {at}"))
                }
            }
        }
        Some("date-time") if !text.is_empty() && text.parse::<jiff::Timestamp>().is_err() => Some(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
        )),
        _ => None,
    }
}

fn quantity_mismatch(value: &Value) -> Option<String> {
    static FORM: std::sync::LazyLock<Option<regex::Regex>> = std::sync::LazyLock::new(|| {
        regex::Regex::new(r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(([eE][+-]?[0-9]+)|[numkMGTPE]|[KMGTPE]i)?$").ok()
    });
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let is_right = FORM.as_ref().is_some_and(|form| form.is_match(&text));
    (!is_right).then(|| {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned()
    })
}
