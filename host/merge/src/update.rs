//! Who owns what after any write that is not an apply.

use serde_json::Value;
use smol_str::SmolStr;

use crate::fields::FieldSet;
use crate::managed::{Managed, Operation, Writer};
use crate::ownership::{Versions, reconcile, stripped, take_fields};
use crate::schema::Schema;

/// What was written over what.
#[derive(Clone, Copy)]
pub struct UpdateRequest<'a> {
    /// The structure at the version of the request.
    pub schema: &'a Schema,
    /// The structures at other versions that are still served; managers at a version that is not are forgotten.
    pub other_versions: &'a [(&'a str, &'a Schema)],
    /// The object as it was, converted to the version of the request, or [`Schema::zero_object`] if it is created.
    pub live: &'a Value,
    /// Its managers, if the caller keeps them decoded; else they are read from `live`.
    pub live_managed: Option<&'a Managed>,
    /// The object as it was sent or patched, after defaults, with the managed fields that were sent, and before the
    /// endpoint puts back what it does not let change.
    pub new: &'a Value,
    /// Who wrote.
    pub writer: Writer<'a>,
}

/// The managers after a create, an update or a patch.
///
/// The writer comes to own what differs from the object as it was, and only that. An object that nobody managed so far
/// stays so, until it is applied.
#[must_use]
pub fn update(request: &UpdateRequest<'_>) -> Managed {
    let writer = &request.writer;
    let managed = Managed::for_update(
        request.live,
        request.live_managed,
        request.new,
        !writer.subresource.is_empty(),
    );
    let is_there = request
        .live
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .is_some_and(|uid| !uid.is_empty());
    if managed.is_empty() && is_there {
        return managed;
    }
    let versions = Versions {
        own: (writer.api_version, request.schema),
        others: request.other_versions,
    };
    record(managed, versions, (request.live, request.new), writer)
}

/// Records what a writer changed.
pub(crate) fn record(
    mut managed: Managed,
    versions: Versions<'_>,
    (live, new): (&Value, &Value),
    writer: &Writer<'_>,
) -> Managed {
    reconcile(&mut managed, versions);
    let changed = match take_fields(&mut managed, versions, writer.reset_fields, (live, new), None, true) {
        Ok(comparison) => comparison.modified.union(&comparison.added),
        // What is forced meets no conflict.
        Err(_) => FieldSet::default(),
    };
    let fields = stripped(&changed);
    if !fields.is_empty() {
        let mut entry = writer.entry(Operation::Update);
        entry.fields = match managed.get(&entry) {
            Some(previous) => fields.union(&previous.fields),
            None => fields,
        };
        entry.time = Some(SmolStr::new(writer.time));
        managed.put(entry);
    }
    managed.cap();
    managed.sort();
    managed
}
