//! Fields that a manager applied last time and not this time go, unless somebody else has them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fields::FieldSet;
use crate::managed::{Entry, Managed};
use crate::ownership::Versions;
use crate::schema::Schema;
use crate::typed::{field_set, remove, with_named_fields};

/// The merged object without what only `last` had; nothing if it stays as it is because its version is not served.
///
/// First all of `last` goes; what any manager owns comes back, with what is needed to hold it; and of what is then
/// missing only that stays away which `last` really had, not what nobody or a default had put beneath it.
pub(super) fn pruned(merged: &Value, versions: Versions<'_>, managed: &Managed, last: &Entry) -> Option<Value> {
    if last.fields.is_empty() {
        return None;
    }
    let schema = versions.get(&last.api_version)?;
    let had = named(schema, &last.fields);
    let mut kept = without(schema, merged, &had);

    let mut version_to_owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for entry in &managed.entries {
        let owned = version_to_owned.entry(&entry.api_version).or_default();
        *owned = owned.union(&entry.fields);
    }
    // The version of `last` goes first: its structure is the one that was pruned by.
    let first = version_to_owned.remove_entry(last.api_version.as_str());
    let there = all_named(schema, merged);
    for (version, owned) in first.into_iter().chain(version_to_owned) {
        if let Some(schema) = versions.get(version) {
            let there = if version == last.api_version {
                there.clone()
            } else {
                all_named(schema, merged)
            };
            let held = all_named(schema, &kept);
            let gone = there.difference(&held.union(&named(schema, &owned)));
            kept = without(schema, merged, &gone);
        }
    }

    let gone = there.difference(&all_named(schema, &kept)).intersection(&had);
    Some(without(schema, merged, &gone))
}

fn all_named(schema: &Schema, object: &Value) -> FieldSet {
    named(schema, &field_set(&schema.types, schema.root, object))
}

fn named(schema: &Schema, fields: &FieldSet) -> FieldSet {
    with_named_fields(&schema.types, schema.root, fields)
}

fn without(schema: &Schema, object: &Value, fields: &FieldSet) -> Value {
    remove(&schema.types, schema.root, object, fields)
}
