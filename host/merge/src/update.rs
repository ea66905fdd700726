//! Who owns what after any write that is not an apply.

use serde_json::Value;

use crate::managed::{Managed, Writer};
use crate::schema::Schema;

/// What was written over what.
#[derive(Clone, Copy)]
pub struct UpdateRequest<'a> {
    /// The structure at the version of the request.
    pub schema: &'a Schema,
    /// The structures at other versions that are still served; managers at a version that is not are forgotten.
    pub other_versions: &'a [(&'a str, &'a Schema)],
    /// The object as it was, or [`Schema::zero_object`] if it is created.
    pub live: &'a Value,
    /// Its managers, if the caller keeps them decoded; else they are read from `live`.
    pub live_managed: Option<&'a Managed>,
    /// The object as it will be stored, with the managed fields that were sent.
    pub new: &'a Value,
    /// Who wrote.
    pub writer: Writer<'a>,
}

/// The managers after a create, an update or a patch.
#[must_use]
pub fn update(_request: &UpdateRequest<'_>) -> Managed {
    Managed::default()
}
