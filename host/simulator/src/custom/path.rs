//! The part of JSONPath that definitions may use for columns, scale and selectable fields.

use serde_json::Value;

/// The values a path leads to.
pub(super) fn all<'a>(document: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![document];
    for step in steps(path) {
        found = found.into_iter().flat_map(|value| take(value, &step)).collect();
    }
    found
}

/// The first value a path leads to.
pub(super) fn first<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    all(document, path).into_iter().next()
}

/// A value as text.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

enum Step {
    Field(String),
    Index(usize),
    Every,
    /// Items of which a field has a value: `[?(@.type=="Ready")]`
    Where(String, String),
}

fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path
        .trim()
        .trim_start_matches('{')
        .trim_end_matches('}')
        .trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after);
            let (inside, after) = after.split_at(end);
            steps.push(bracket(inside.trim()));
            rest = after.strip_prefix(']').unwrap_or_default();
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let mut name = String::new();
        let mut characters = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => name.extend(characters.next().map(|(_, character)| character)),
                '.' | '[' => {
                    end = at;
                    break;
                }
                other => name.push(other),
            }
        }
        if !name.is_empty() {
            steps.push(if name == "*" { Step::Every } else { Step::Field(name) });
        } else if end == 0 && !rest.starts_with('[') {
            break;
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    steps
}

/// Where a bracket ends, past brackets and quotes within it.
fn closing(text: &str) -> usize {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, ']') => return at,
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), character) if open == character => quote = None,
            _ => {}
        }
    }
    text.len()
}

fn bracket(inside: &str) -> Step {
    if inside == "*" {
        return Step::Every;
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')'))
        && let Some((field, value)) = filter.split_once("==")
    {
        let field = field.trim().trim_start_matches('@').trim_start_matches('.');
        return Step::Where(field.to_owned(), unquoted(value));
    }
    match inside.parse() {
        Ok(index) => Step::Index(index),
        Err(_) => Step::Field(unquoted(inside)),
    }
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['\'', '"']).to_owned()
}

fn take<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => value.get(index).into_iter().collect(),
        Step::Every => match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => Vec::new(),
        },
        Step::Where(field, wanted) => {
            let items = value.as_array().into_iter().flatten();
            items
                .filter(|item| first(item, field).is_some_and(|value| text(value) == *wanted))
                .collect()
        }
    }
}
