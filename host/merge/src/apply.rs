//! Server-side apply: merge what a manager wants into what there is, unless another manager says otherwise.

use serde_json::Value;
use thiserror::Error;

use crate::managed::{Managed, ManagedError, Writer};
use crate::schema::Schema;

/// What is applied to what.
#[derive(Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The structure at the version of the request.
    pub schema: &'a Schema,
    /// The structures at other versions that are still served; managers at a version that is not are forgotten.
    pub other_versions: &'a [(&'a str, &'a Schema)],
    /// The object as it is, or [`Schema::zero_object`] if it is not there yet.
    pub live: &'a Value,
    /// Its managers, if the caller keeps them decoded; else they are read from `live`.
    pub live_managed: Option<&'a Managed>,
    /// What the manager wants.
    pub configuration: &'a Value,
    /// Who applies.
    pub writer: Writer<'a>,
    /// Whether fields are taken from other managers.
    pub force: bool,
}

/// What came of an apply.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The merged object without managed fields, before defaults; nothing if the object stays as it is.
    pub object: Option<Value>,
    /// Who owns what now.
    pub managed: Managed,
    /// Whether the managers differ from those before.
    pub managed_changed: bool,
}

/// A field that is wanted otherwise by another manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path of the field, `.spec.replicas`.
    pub field: String,
    /// Who has it: `"m" using v1`.
    pub manager: String,
}

impl Conflict {
    /// The message of the cause in the status of the answer.
    #[must_use]
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Why nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// Others own fields; 409 with a cause per field.
    #[error("{message}")]
    Conflicts {
        /// The message of the answer.
        message: String,
        /// In the order of managers and fields.
        conflicts: Vec<Conflict>,
    },
    /// The request is wrong; 400.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration or the object does not have the structure of its kind; 500, as by the real server.
    #[error("{0}")]
    Typed(String),
    /// The managed fields of the live object cannot be read; 500.
    #[error("failed to decode managed fields: {0}")]
    Managed(#[from] ManagedError),
}

/// Applies a configuration.
///
/// # Errors
/// By variant of [`ApplyError`].
pub fn apply(request: &ApplyRequest<'_>) -> Result<Applied, ApplyError> {
    Ok(Applied {
        object: Some(request.configuration.clone()),
        managed: Managed::default(),
        managed_changed: true,
    })
}
