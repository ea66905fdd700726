//! The columns a definition adds to what `kubectl get` shows.

use serde_json::Value;

use super::path;
use crate::table::definition;

pub(super) struct CustomColumn {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: u8,
    path: String,
}

/// What is said of a column that built-in kinds have too.
fn said_of(group: &str, kind: &str, column: &str) -> &'static str {
    let columns = chandlery_kinds::of(group, kind).and_then(|kind| kind.columns());
    let found = columns.into_iter().flatten().find(|known| known.name == column);
    found.map_or("", |column| column.description)
}

pub(super) fn read(columns: Option<&Value>) -> Vec<CustomColumn> {
    let columns = columns.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if columns.is_empty() {
        return vec![CustomColumn {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: said_of("rbac.authorization.k8s.io", "Role", "Created At").to_owned(),
            priority: 0,
            path: ".metadata.creationTimestamp".to_owned(),
        }];
    }
    let text = |column: &Value, key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    columns
        .iter()
        .map(|column| CustomColumn {
            name: text(column, "name"),
            kind: text(column, "type"),
            format: text(column, "format"),
            description: match text(column, "description") {
                none if none.is_empty() => format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    text(column, "jsonPath")
                ),
                description => description,
            },
            priority: column
                .get("priority")
                .and_then(Value::as_u64)
                .and_then(|priority| u8::try_from(priority).ok())
                .unwrap_or_default(),
            path: text(column, "jsonPath"),
        })
        .collect()
}

pub(super) fn heads(columns: &[CustomColumn]) -> Vec<Value> {
    let name = definition("Name", "string", "name", said_of("", "ConfigMap", "Name"), 0);
    let own = columns.iter().map(|column| {
        definition(
            &column.name,
            &column.kind,
            &column.format,
            &column.description,
            column.priority,
        )
    });
    std::iter::once(name).chain(own).collect()
}

pub(super) fn cells(columns: &[CustomColumn], document: &Value, now: i64) -> Vec<Value> {
    let name = Value::from(crate::object::name(document));
    std::iter::once(name)
        .chain(columns.iter().map(|column| cell(column, document, now)))
        .collect()
}

fn cell(column: &CustomColumn, document: &Value, now: i64) -> Value {
    let found = path::all(document, &column.path);
    let Some(first) = found.first() else { return Value::Null };
    match (column.kind.as_str(), first) {
        ("date", Value::String(text)) => match text.parse::<jiff::Timestamp>() {
            Ok(then) => chandlery_kinds::age(now - then.as_second()).into(),
            Err(_) => "<invalid>".into(),
        },
        ("integer", Value::Number(number)) => number.as_i64().map_or(Value::Null, Value::from),
        ("number" | "boolean", value @ (Value::Number(_) | Value::Bool(_))) => (*value).clone(),
        ("string", _) => found
            .iter()
            .map(|value| path::text(value))
            .collect::<Vec<_>>()
            .join(" ")
            .into(),
        _ => Value::Null,
    }
}
