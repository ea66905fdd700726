//! The form `FieldsV1` in which a set is kept in an object: `{"f:spec":{"f:replicas":{}}}`.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};
use smol_str::SmolStr;
use thiserror::Error;

use super::{Builder, Entry, FieldSet, PathElement};

/// Why a set of fields cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldsError {
    /// A step is too short to be one.
    #[error("key must be 2 characters long:")]
    Short,
    /// A step does not say of what kind it is.
    #[error("missing colon: {0}")]
    Colon(String),
    /// A key or value is no JSON.
    #[error("reading field {0}: not JSON")]
    Json(String),
    /// A position is no number.
    #[error("strconv.Atoi: parsing {0}: invalid syntax")]
    Index(String),
    /// A set is an object of objects.
    #[error("reading fields: expected an object")]
    NotAnObject,
}

impl FieldSet {
    /// Reads the form a set has within an object. Steps of a kind that a later server may invent are left out.
    ///
    /// # Errors
    /// If it is not made of objects or a step cannot be read.
    pub fn from_value(fields: &Value) -> Result<Self, FieldsError> {
        match fields {
            Value::Null => Ok(Self::default()),
            Value::Object(object) => Ok(read(object)?.0),
            _ => Err(FieldsError::NotAnObject),
        }
    }

    /// The form a set has within an object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut scratch = String::new();
        Value::Object(to_object(self, false, &mut scratch))
    }

    /// Appends the form a set has within an object, in the order in which a server writes it, which that of a JSON
    /// object of this library is not.
    pub fn write_json(&self, out: &mut String) {
        write_level(self, false, out, &mut String::new());
    }
}

fn read(object: &Map<String, Value>) -> Result<(FieldSet, bool), FieldsError> {
    let mut builder = Builder::with_capacity(object.len());
    let mut is_member = false;
    let mut has_children = false;
    for (step, beneath) in object {
        if step == "." {
            is_member = true;
            continue;
        }
        let Some(element) = read_step(step)? else { continue };
        let Value::Object(beneath) = beneath else {
            return Err(FieldsError::NotAnObject);
        };
        let (children, member) = read(beneath)?;
        has_children |= member || !children.is_empty();
        builder.push(element, member, children);
    }
    Ok((builder.build(), is_member || !has_children))
}

fn read_step(step: &str) -> Result<Option<PathElement>, FieldsError> {
    let kind = step.as_bytes().first();
    let (Some(kind), Some(colon)) = (kind, step.as_bytes().get(1)) else {
        return Err(FieldsError::Short);
    };
    let rest = match (colon, step.get(2..)) {
        (b':', Some(rest)) => rest,
        _ => return Err(FieldsError::Colon(step.to_owned())),
    };
    let json = || FieldsError::Json(step.to_owned());
    Ok(Some(match kind {
        b'f' => PathElement::field(rest),
        b'v' => PathElement::Value(serde_json::from_str(rest).map_err(|_| json())?),
        b'k' => {
            let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| json())?;
            let fields = fields.into_iter().map(|(name, field)| (SmolStr::from(name), field));
            PathElement::Key(fields.collect())
        }
        b'i' => PathElement::Index(
            rest.parse()
                .map_err(|_| FieldsError::Index(crate::value::quoted(rest)))?,
        ),
        _ => return Ok(None),
    }))
}

fn to_object(set: &FieldSet, is_member: bool, scratch: &mut String) -> Map<String, Value> {
    let mut object = Map::new();
    if is_member && !set.is_empty() {
        object.insert(".".into(), Value::Object(Map::new()));
    }
    for entry in set.entries() {
        scratch.clear();
        write_step(&entry.element, scratch);
        let step = scratch.as_str().to_owned();
        object.insert(step, Value::Object(to_object(&entry.children, entry.member, scratch)));
    }
    object
}

fn write_level(set: &FieldSet, is_member: bool, out: &mut String, scratch: &mut String) {
    out.push('{');
    let mut first = true;
    if is_member && !set.is_empty() {
        out.push_str("\".\":{}");
        first = false;
    }
    for Entry {
        element,
        member,
        children,
    } in set.entries()
    {
        if !first {
            out.push(',');
        }
        first = false;
        scratch.clear();
        write_step(element, scratch);
        write_text(out, scratch);
        out.push(':');
        write_level(children, *member, out, scratch);
    }
    out.push('}');
}

fn write_step(element: &PathElement, out: &mut String) {
    match element {
        PathElement::Field(name) => {
            out.push_str("f:");
            out.push_str(name);
        }
        PathElement::Key(fields) => {
            out.push_str("k:{");
            for (position, (name, field)) in fields.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_text(out, name);
                out.push(':');
                write_value(out, field);
            }
            out.push('}');
        }
        PathElement::Value(item) => {
            out.push_str("v:");
            write_value(out, item);
        }
        PathElement::Index(position) => {
            let _ = write!(out, "i:{position}");
        }
    }
}

/// A text as JSON; a server writes some characters of HTML as escapes.
fn write_text(out: &mut String, text: &str) {
    let plain = |byte: u8| (0x20..0x80).contains(&byte) && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&');
    if text.bytes().all(plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    let escaped = Value::from(text).to_string();
    for character in escaped.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", character as u32);
            }
            other => out.push(other),
        }
    }
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_text(out, text),
        Value::Number(number) => write_number(out, number),
        other => out.push_str(&other.to_string()),
    }
}

fn write_number(out: &mut String, number: &Number) {
    match number.as_f64() {
        // Whole floats lose their fraction on the way through a server.
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
            let _ = write!(out, "{float:.0}");
        }
        _ => {
            let _ = write!(out, "{number}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(set: &FieldSet) -> String {
        let mut out = String::new();
        set.write_json(&mut out);
        out
    }

    #[test]
    fn steps_are_written_in_the_order_of_a_server_and_not_of_their_text() {
        let text =
            r#"{"f:a":{".":{},"f:b":{}},"f:p":{"k:{\"port\":80}":{},"k:{\"port\":443}":{},"v:\"x\"":{},"i:2":{}}}"#;
        let set = FieldSet::from_value(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(written(&set), text);
        assert_eq!(FieldSet::from_value(&set.to_value()).unwrap(), set);
    }

    #[test]
    fn steps_of_an_unknown_kind_are_left_out_and_broken_ones_are_refused() {
        let set = FieldSet::from_value(&json!({ "x:y": {}, "f:a": {} })).unwrap();
        assert_eq!(written(&set), r#"{"f:a":{}}"#);
        assert_eq!(
            FieldSet::from_value(&json!({ "fa": {} })),
            Err(FieldsError::Colon("fa".into()))
        );
        assert_eq!(FieldSet::from_value(&json!({ "f": {} })), Err(FieldsError::Short));
        assert_eq!(
            FieldSet::from_value(&json!({ "f:a": 1 })),
            Err(FieldsError::NotAnObject)
        );
    }
}
