//! Who owns what after a write, and what a write is measured by.

use chandlery_merge::{FieldSet, Managed, Schema, UpdateRequest, Writer};
use serde_json::Value;

use crate::catalog::{Resource, Version};
use crate::object;
use crate::store::Key;
use crate::world::World;
use crate::write::Change;

impl World {
    pub(crate) fn managed_after_update(&self, change: &Change<'_>, live: &Value, new: &Value) -> Managed {
        let resource = &change.target.resource;
        let api_version = resource.api_version(&change.version.name);
        let time = self.timestamp();
        let others: Vec<(String, &Schema)> = other_versions(resource, change.version);
        let others: Vec<(&str, &Schema)> = others
            .iter()
            .map(|(version, schema)| (version.as_str(), *schema))
            .collect();
        let reset = reset_fields(resource, change);
        chandlery_merge::update(&UpdateRequest {
            schema: &change.version.schema,
            other_versions: &others,
            live,
            live_managed: None,
            new,
            writer: Writer {
                manager: &change.manager,
                api_version: &api_version,
                subresource: change.subresource,
                time: &time,
                reset_fields: reset.as_ref(),
            },
        })
    }

    /// An object before anything was put into it: what ownership of a new object is measured by.
    pub(crate) fn empty(&self, resource: &Resource, version: &Version) -> Value {
        let api_version = resource.api_version(&version.name);
        if resource.custom().is_some() {
            return version.schema.zero_object(&api_version, &resource.kind);
        }
        let mut empty = Value::Object(serde_json::Map::new());
        self.base().structures.normalise(&version.schema, &mut empty);
        object::set_type(&mut empty, &api_version, &resource.kind);
        empty
    }

    /// The object of a key as a write at this version sees it.
    pub(crate) fn live(&self, key: &Key, resource: &Resource, version: &Version) -> Option<Value> {
        let stored = self.store.get(key)?;
        let mut document = stored.document();
        object::set_type(&mut document, &resource.api_version(&version.name), &resource.kind);
        if resource.custom().is_some_and(|custom| custom.revised) {
            // What was stored under an older schema is seen through this one.
            let _ = self.settle_structure(&mut document, resource, version);
        }
        Some(document)
    }
}

/// The versions of a resource beside the one that is asked for.
pub(crate) fn other_versions<'a>(resource: &'a Resource, version: &Version) -> Vec<(String, &'a Schema)> {
    let others = resource.versions.iter().filter(|other| other.name != version.name);
    others
        .map(|other| (resource.api_version(&other.name), &other.schema))
        .collect()
}

/// The fields nobody comes to own through this endpoint.
pub(crate) fn reset_fields(resource: &Resource, change: &Change<'_>) -> Option<FieldSet> {
    let of_status = change.subresource == "status";
    let names: Vec<&str> = match (resource.custom(), resource.built_in_kind()) {
        (Some(custom), _) => custom.reset_fields(change.version, of_status),
        (_, Some(kind)) if of_status => kind.reset_by_status().to_vec(),
        (_, Some(kind)) => kind.reset_by_main().to_vec(),
        (None, None) => Vec::new(),
    };
    if names.is_empty() {
        return None;
    }
    let paths: Vec<Vec<&str>> = names.iter().map(|name| name.split('.').collect()).collect();
    Some(FieldSet::of_names(paths.iter().map(Vec::as_slice)))
}
