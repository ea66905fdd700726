//! Which resources are served, under which names and versions, and by which rules.

use std::fmt::{self, Debug};
use std::sync::Arc;

use chandlery_kinds::{Kind, Plain};
use chandlery_merge::{Schema, TypeTable};
use serde_json::Value;
use smol_str::SmolStr;

use crate::custom::Custom;

/// Stands for a resource in keys of objects; never given twice in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceId(pub(crate) u32);

/// The first id that is free for custom resources.
pub(crate) const FIRST_CUSTOM: u32 = 1_000;

/// One served resource in all its versions.
pub(crate) struct Resource {
    pub(crate) id: ResourceId,
    pub(crate) group: SmolStr,
    pub(crate) plural: SmolStr,
    pub(crate) singular: SmolStr,
    pub(crate) kind: SmolStr,
    pub(crate) list_kind: SmolStr,
    pub(crate) short_names: Vec<SmolStr>,
    pub(crate) categories: Vec<SmolStr>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<SmolStr>,
    pub(crate) versions: Vec<Version>,
    /// Whether objects of it are kept at all.
    pub(crate) stored: bool,
    /// Whether the structure is all that is known of this kind.
    pub(crate) structure_only: bool,
    pub(crate) rules: Rules,
}

/// One version of a resource.
pub(crate) struct Version {
    pub(crate) name: SmolStr,
    pub(crate) schema: Schema,
    /// Names of subresources with their verbs, and the kind each speaks (group, version, kind; empty for the resource's own).
    pub(crate) subresources: Vec<Subresource>,
    /// The hash that discovery shows; clients compare it and nothing else.
    pub(crate) storage_hash: SmolStr,
}

#[derive(Clone, Debug)]
pub(crate) struct Subresource {
    pub(crate) name: SmolStr,
    pub(crate) verbs: Vec<SmolStr>,
    pub(crate) group: SmolStr,
    pub(crate) version: SmolStr,
    pub(crate) kind: SmolStr,
}

/// Whose rules a resource follows.
pub(crate) enum Rules {
    /// The API server's own.
    BuiltIn(&'static dyn Kind),
    /// Those of a CustomResourceDefinition.
    Custom(Arc<Custom>),
}

impl Debug for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Resource({})",
            crate::status::qualified(&self.plural, &self.group)
        )
    }
}

static PLAIN: Plain = Plain;

/// Resources whose objects another resource keeps, or that exist only as a conversation.
const NOT_STORED: &[(&str, &str)] = &[("", "bindings"), ("", "componentstatuses"), ("events.k8s.io", "events")];

impl Resource {
    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// `pods`, `deployments.apps`.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Whether objects of it are kept at all.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored
    }

    pub(crate) fn custom(&self) -> Option<&Arc<Custom>> {
        match &self.rules {
            Rules::Custom(custom) => Some(custom),
            Rules::BuiltIn(_) => None,
        }
    }

    pub(crate) fn built_in_kind(&self) -> Option<&'static dyn Kind> {
        match self.rules {
            Rules::BuiltIn(kind) => Some(kind),
            Rules::Custom(_) => None,
        }
    }

    pub(crate) fn api_version(&self, version: &str) -> String {
        api_version(&self.group, version)
    }

    /// The built-in resources from recorded `APIResourceList`s. A resource of several versions is one, its first version first.
    pub(crate) fn built_in(lists: &[Value], types: &TypeTable) -> Vec<Arc<Self>> {
        let mut resources: Vec<Self> = Vec::new();
        for list in lists {
            let (group, version) = split(text(list, "groupVersion"));
            for entry in list.get("resources").and_then(Value::as_array).into_iter().flatten() {
                let (plural, subresource) = match text(entry, "name").split_once('/') {
                    Some((plural, subresource)) => (plural, Some(subresource)),
                    None => (text(entry, "name"), None),
                };
                let found = resources.iter_mut().find(|resource| resource.is(group, plural));
                match (subresource, found) {
                    (None, None) => {
                        let id = ResourceId(u32::try_from(resources.len()).unwrap_or(u32::MAX));
                        resources.push(Self::recorded(id, group, version, entry, types));
                    }
                    (None, Some(resource)) => resource.versions.push(Version::recorded(group, version, entry, types)),
                    (Some(name), Some(resource)) => {
                        if let Some(version) = resource.versions.iter_mut().find(|known| known.name == version) {
                            version.subresources.push(Subresource::recorded(name, entry));
                        }
                    }
                    // A subresource of something that has no other verbs.
                    (Some(_), None) => {}
                }
            }
        }
        resources.into_iter().map(Arc::new).collect()
    }

    fn recorded(id: ResourceId, group: &str, version: &str, entry: &Value, types: &TypeTable) -> Self {
        let kind = text(entry, "kind");
        let known = chandlery_kinds::of(group, kind);
        let (plural, verbs) = (text(entry, "name"), texts(entry, "verbs"));
        Self {
            id,
            stored: verbs.iter().any(|verb| verb == "get") && !NOT_STORED.contains(&(group, plural)),
            group: group.into(),
            plural: plural.into(),
            singular: text(entry, "singularName").into(),
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            short_names: texts(entry, "shortNames"),
            categories: texts(entry, "categories"),
            namespaced: entry.get("namespaced").and_then(Value::as_bool).unwrap_or_default(),
            verbs,
            versions: vec![Version::recorded(group, version, entry, types)],
            structure_only: known.is_none_or(|kind| kind.knows_only_structure()),
            rules: Rules::BuiltIn(known.unwrap_or(&PLAIN)),
        }
    }
}

impl Version {
    fn recorded(group: &str, version: &str, entry: &Value, types: &TypeTable) -> Self {
        // Kinds of another group are answered by subresources and a few create-only resources.
        let group = entry.get("group").and_then(Value::as_str).unwrap_or(group);
        let of = entry.get("version").and_then(Value::as_str).unwrap_or(version);
        Self {
            name: version.into(),
            schema: types
                .get(group, of, text(entry, "kind"))
                .unwrap_or_else(Schema::deduced),
            subresources: Vec::new(),
            storage_hash: text(entry, "storageVersionHash").into(),
        }
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|known| known.name == name)
    }
}

impl Subresource {
    fn recorded(name: &str, entry: &Value) -> Self {
        Self {
            name: name.into(),
            verbs: texts(entry, "verbs"),
            group: text(entry, "group").into(),
            version: text(entry, "version").into(),
            kind: text(entry, "kind").into(),
        }
    }
}

/// `v1` or `apps/v1`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Group and version of `v1` or `apps/v1`.
pub(crate) fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value, key: &str) -> Vec<SmolStr> {
    value
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(SmolStr::new)
        .collect()
}
