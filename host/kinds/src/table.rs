//! What the rows of tables have in common. The columns are recorded from a real server, since their descriptions are its
//! documentation.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::document::{at, list, object, text, texts};
use crate::kind::{Cell, Column};

const RECORDED: &str = include_str!("../data/1.34/columns.json");
/// What stands where there is nothing.
pub(crate) const NONE: &str = "<none>";

static COLUMNS: LazyLock<HashMap<String, Vec<Column>>> = LazyLock::new(|| {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap_or_default();
    object(Some(&recorded))
        .map(|(kind, columns)| {
            let columns = columns.as_array().into_iter().flatten().map(column).collect();
            (kind.clone(), columns)
        })
        .collect()
});

fn column(recorded: &Value) -> Column {
    // Read once for the life of the process, so the texts may live as long.
    let kept = |field: &str| -> &'static str { text(recorded, field).to_owned().leak() };
    let priority = recorded.get("priority").and_then(Value::as_u64).unwrap_or_default();
    Column {
        name: kept("name"),
        kind: kept("type"),
        format: kept("format"),
        description: kept("description"),
        priority: u8::try_from(priority).unwrap_or(u8::MAX),
    }
}

/// The columns of a kind, if it has columns of its own.
pub(crate) fn columns(group: &str, kind: &str) -> Option<&'static [Column]> {
    COLUMNS.get(&format!("{group}/{kind}")).map(Vec::as_slice)
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> Cell {
    text(at(object, &["metadata"]), "name").into()
}

/// The age of an object.
pub(crate) fn created(object: &Value, now: i64) -> Cell {
    since(at(object, &["metadata", "creationTimestamp"]), now).into()
}

/// How long ago a moment was.
pub(crate) fn since(moment: &Value, now: i64) -> String {
    match seconds(moment) {
        Some(then) => crate::age(now - then),
        None => "<unknown>".to_owned(),
    }
}

/// A moment in seconds since 1970.
pub(crate) fn seconds(moment: &Value) -> Option<i64> {
    let moment: jiff::Timestamp = moment.as_str()?.parse().ok()?;
    Some(moment.as_second())
}

/// A number that is there, or nought.
pub(crate) fn count(object: &Value, path: &[&str]) -> i64 {
    at(object, path).as_i64().unwrap_or_default()
}

/// The names and the images of a list of containers.
pub(crate) fn containers(spec: &Value) -> (String, String) {
    let joined = |field: &str| {
        let each: Vec<&str> = list(spec, "containers")
            .map(|container| text(container, field))
            .collect();
        each.join(",")
    };
    (joined("name"), joined("image"))
}

/// A map of labels.
pub(crate) fn labels(labels: &Value) -> String {
    let pairs: Vec<String> = object(Some(labels))
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        NONE.to_owned()
    } else {
        pairs.join(",")
    }
}

/// A label selector as a text; empty for one that selects all.
pub(crate) fn selector(selector: &Value) -> String {
    let mut requirements: Vec<(String, String)> = object(selector.get("matchLabels"))
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in list(selector, "matchExpressions") {
        let key = text(expression, "key");
        let mut values: Vec<&str> = texts(expression, "values").collect();
        values.sort_unstable();
        let shown = match text(expression, "operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        requirements.push((key.to_owned(), shown));
    }
    requirements.sort_by(|one, other| one.0.cmp(&other.0));
    let shown: Vec<String> = requirements.into_iter().map(|(_, shown)| shown).collect();
    shown.join(",")
}

/// A label selector as a text, with a word for one that selects all.
pub(crate) fn selector_or_none(value: &Value) -> String {
    let shown = selector(value);
    if shown.is_empty() { NONE.to_owned() } else { shown }
}
