//! What a change of an object does to the fields of its managers; the part that apply and update share.

use serde_json::Value;

use crate::fields::FieldSet;
use crate::managed::{Entry, Managed};
use crate::schema::Schema;
use crate::typed::{self, Comparison};

/// The structures of a kind at the versions that are served.
#[derive(Clone, Copy)]
pub(crate) struct Versions<'a> {
    pub(crate) own: (&'a str, &'a Schema),
    pub(crate) others: &'a [(&'a str, &'a Schema)],
}

impl<'a> Versions<'a> {
    pub(crate) fn get(&self, version: &str) -> Option<&'a Schema> {
        if version == self.own.0 {
            return Some(self.own.1);
        }
        self.others
            .iter()
            .find(|(other, _)| *other == version)
            .map(|(_, schema)| *schema)
    }
}

/// Managers at versions that are no longer served are forgotten, and fields that became part of one value are owned
/// through that value.
pub(crate) fn reconcile(managed: &mut Managed, versions: Versions<'_>) {
    managed.entries.retain_mut(|entry| {
        let Some(schema) = versions.get(&entry.api_version) else {
            return false;
        };
        if let Some(fields) = typed::reconcile(&schema.types, schema.root, &entry.fields) {
            entry.fields = fields;
        }
        true
    });
}

/// Fields of one manager that another changes.
pub(crate) struct Taken {
    pub(crate) entry: Entry,
    pub(crate) fields: FieldSet,
}

/// Fields changed from `live` to `new` are taken from all managers but the one at work, and removed fields from those as
/// well; answers what was changed at its version, or what would be taken unless `force`.
pub(crate) fn take_fields(
    managed: &mut Managed,
    versions: Versions<'_>,
    reset: Option<&FieldSet>,
    (live, new): (&Value, &Value),
    worker: Option<&Entry>,
    force: bool,
) -> Result<Comparison, Vec<Taken>> {
    let compare = |schema: &Schema| typed::compare(&schema.types, schema.root, live, new);
    // An endpoint knows what it resets at its own version only.
    let own = compare(versions.own.1).without(reset);
    let mut others: Vec<(&str, Comparison)> = Vec::new();
    let is_worker = |entry: &Entry| worker.is_some_and(|worker| worker.is_same_manager(entry));

    let mut taken = Vec::new();
    for entry in &managed.entries {
        let version = entry.api_version.as_str();
        if is_worker(entry) || version == versions.own.0 {
            continue;
        }
        if let (None, Some((version, schema))) = (
            others.iter().find(|(other, _)| *other == version),
            versions.others.iter().find(|(other, _)| *other == version),
        ) {
            others.push((*version, compare(schema)));
        }
    }
    let at = |version: &str| match others.iter().find(|(other, _)| *other == version) {
        Some((_, comparison)) => comparison,
        None => &own,
    };
    for entry in managed.entries.iter().filter(|entry| !is_worker(entry)) {
        let comparison = at(&entry.api_version);
        let fields = entry.fields.intersection(&comparison.modified.union(&comparison.added));
        if !fields.is_empty() {
            taken.push(Taken {
                entry: entry.clone(),
                fields,
            });
        }
    }
    if !force && !taken.is_empty() {
        taken.sort_by_cached_key(|taken| taken.entry.identifier());
        return Err(taken);
    }
    for Taken { entry, fields } in &taken {
        if let Some(found) = managed.entries.iter_mut().find(|found| found.is_same_manager(entry)) {
            found.fields = found.fields.difference(fields);
        }
    }
    for entry in managed.entries.iter_mut().filter(|entry| !is_worker(entry)) {
        let removed = &at(&entry.api_version).removed;
        if !removed.is_empty() {
            entry.fields = entry.fields.difference(removed);
        }
    }
    managed.entries.retain(|entry| !entry.fields.is_empty());
    Ok(own)
}

/// Fields that a server sets itself, or that name the object, are nobody's.
pub(crate) fn stripped(fields: &FieldSet) -> FieldSet {
    use std::sync::LazyLock;
    static NOBODYS: LazyLock<FieldSet> = LazyLock::new(|| {
        FieldSet::of_names([
            &["apiVersion"][..],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    fields.difference(&NOBODYS)
}
