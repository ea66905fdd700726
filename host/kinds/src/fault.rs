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
        Self {
            kind: FaultKind::Duplicate,
            field: field.into(),
            message: format!("Duplicate value: {}", shown(value)),
        }
    }
}

/// A value as the server prints it in a message: scalars as JSON, structures as JSON of their Go type.
fn shown(value: &Value) -> String {
    value.to_string()
}
