//! The list `metadata.managedFields`: who set which fields, through which version, when.

use serde_json::Value;
use smol_str::SmolStr;
use thiserror::Error;

use crate::fields::{FieldSet, FieldsError};

/// Who writes, and how it is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The name of the manager; `unknown` is recorded for an empty one.
    pub manager: &'a str,
    /// Group and version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
    /// The moment of the request in RFC 3339 with seconds, in UTC.
    pub time: &'a str,
    /// Fields that this endpoint resets and therefore nobody comes to own through it, such as `.status`.
    pub reset_fields: Option<&'a FieldSet>,
}

/// How a manager came to its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

/// One manager and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) manager: SmolStr,
    pub(crate) operation: Operation,
    pub(crate) subresource: SmolStr,
    pub(crate) api_version: SmolStr,
    pub(crate) time: Option<SmolStr>,
    pub(crate) fields: FieldSet,
}

/// Why a list of managed fields cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManagedError {
    /// Neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// No type of fields.
    #[error("missing fieldsType in managed fields entry {0}")]
    FieldsTypeMissing(usize),
    /// A type of fields that is none.
    #[error("invalid fieldsType {given} in managed fields entry {position}")]
    FieldsType {
        /// In quotes.
        given: String,
        /// Position in the list.
        position: usize,
    },
    /// The fields cannot be read.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
    /// Not a list of objects.
    #[error("reading managed fields: not a list of objects")]
    NotAList,
}

/// Who owns what in one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    pub(crate) entries: Vec<Entry>,
}

impl Managed {
    /// Reads `metadata.managedFields` of an object.
    ///
    /// # Errors
    /// If an entry is not complete or its fields cannot be read.
    pub fn of_object(_object: &Value) -> Result<Self, ManagedError> {
        Ok(Self::default())
    }

    /// Writes `metadata.managedFields` of an object; without a manager the field is removed.
    pub fn write_to(&self, _object: &mut Value) {}
}
