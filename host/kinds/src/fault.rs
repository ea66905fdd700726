//! What is wrong with a field, in the words of the API server's validation.

use serde_json::Value;

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The sort of fault.
    pub kind: FaultKind,
    /// The field's path, such as `spec.ports[0].name`.
    pub field: String,
    /// The sentence without the field, such as `Invalid value: 0: must be greater than 0`.
    pub message: String,
}

/// The sorts of faults, named as in a `Status`'s causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `FieldValueRequired`
    Required,
    /// `FieldValueInvalid`
    Invalid,
    /// `FieldValueNotSupported`
    NotSupported,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueDuplicate`
    Duplicate,
    /// `FieldValueTooLong`
    TooLong,
    /// `FieldValueTooMany`
    TooMany,
    /// `FieldValueTypeInvalid`
    TypeInvalid,
    /// `FieldValueNotFound`
    NotFound,
    /// `InternalError`
    Internal,
}

impl FaultKind {
    /// As a cause's `reason` has it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }
}

impl Fault {
    /// A value is missing.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self {
            kind: FaultKind::Required,
            field: field.into(),
            message,
        }
    }

    /// A value breaks a rule; shown as Go shows it.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = if detail.is_empty() {
            format!("Invalid value: {}", shown(value))
        } else {
            format!("Invalid value: {}: {detail}", shown(value))
        };
        Self {
            kind: FaultKind::Invalid,
            field: field.into(),
            message,
        }
    }

    /// A value is none of those that are known; `supported` in the order in which the server tells them.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        let message = if list.is_empty() {
            format!("Unsupported value: {}", shown(value))
        } else {
            format!(
                "Unsupported value: {}: supported values: {}",
                shown(value),
                list.join(", ")
            )
        };
        Self {
            kind: FaultKind::NotSupported,
            field: field.into(),
            message,
        }
    }

    /// A value may not be there.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self {
            kind: FaultKind::Forbidden,
            field: field.into(),
            message: format!("Forbidden: {detail}"),
        }
    }

    /// A value is there twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::shown_as(FaultKind::Duplicate, field, &shown(value), "")
    }

    /// A value refers to nothing.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::shown_as(FaultKind::NotFound, field, &shown(value), "")
    }

    /// A text is longer than `bytes`.
    pub fn too_long(field: impl Into<String>, bytes: usize) -> Self {
        let unit = if bytes == 1 { "byte" } else { "bytes" };
        Self {
            kind: FaultKind::TooLong,
            field: field.into(),
            message: format!("Too long: may not be more than {bytes} {unit}"),
        }
    }

    /// There are more elements than `most`.
    pub fn too_many(field: impl Into<String>, count: usize, most: usize) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        Self {
            kind: FaultKind::TooMany,
            field: field.into(),
            message: format!("Too many: {count}: must have at most {most} {unit}"),
        }
    }

    /// A field that may not change did.
    pub fn immutable(field: impl Into<String>, value: &Value) -> Self {
        Self::invalid(field, value, "field is immutable")
    }

    /// A fault whose value the server shows in words of its own, for instance with fields in the order of a Go type.
    pub fn shown_as(kind: FaultKind, field: impl Into<String>, value: &str, detail: &str) -> Self {
        let what = match kind {
            FaultKind::Required => "Required value",
            FaultKind::Invalid | FaultKind::TypeInvalid => "Invalid value",
            FaultKind::NotSupported => "Unsupported value",
            FaultKind::Forbidden => "Forbidden",
            FaultKind::Duplicate => "Duplicate value",
            FaultKind::TooLong => "Too long",
            FaultKind::TooMany => "Too many",
            FaultKind::NotFound => "Not found",
            FaultKind::Internal => "Internal error",
        };
        let message = if detail.is_empty() {
            format!("{what}: {value}")
        } else {
            format!("{what}: {value}: {detail}")
        };
        Self {
            kind,
            field: field.into(),
            message,
        }
    }

    /// One fault for every complaint about a text.
    pub(crate) fn each(field: &str, value: &str, complaints: Vec<String>) -> Vec<Self> {
        let value = Value::from(value);
        complaints
            .iter()
            .map(|complaint| Self::invalid(field, &value, complaint))
            .collect()
    }
}

/// A value as the server prints it in a message: texts quoted as Go does, all else as JSON.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// A text in quotes, with what cannot be printed escaped as Go does.
pub(crate) fn quoted(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            ' ' => out.push(' '),
            _ if character.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            _ if character.is_control() || character.is_whitespace() => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}
