//! Custom resources: what a CustomResourceDefinition says of its objects, ready for use.

mod columns;
mod defaults;
mod describe;
mod path;
mod prune;
mod validate;

use std::sync::Arc;

use chandlery_kinds::Fault;
use chandlery_merge::Schema;
use kube_cel::CompiledSchema;
use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::catalog::{Resource, ResourceId, Rules, Subresource, Version};
use crate::object;
use crate::structure::Structures;

/// The rules of one definition.
pub(crate) struct Custom {
    versions: Vec<CustomVersion>,
    /// Whether an older schema was in force before, so that stored objects may not fit this one.
    pub(crate) revised: bool,
    /// The structure of `metadata`.
    metadata: Schema,
}

struct CustomVersion {
    name: SmolStr,
    structure: Value,
    rules: Option<CompiledSchema>,
    has_status: bool,
    scale: Option<Scale>,
    columns: Vec<columns::CustomColumn>,
    selectable: Vec<String>,
}

/// Where a definition keeps what `scale` shows.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];
const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl Custom {
    /// The resource that a definition declares. Nothing, if the definition cannot be understood: validation lets none such in.
    pub(crate) fn resource(
        definition: &Value,
        id: ResourceId,
        revised: bool,
        types: &chandlery_merge::TypeTable,
    ) -> Option<Resource> {
        let spec = definition.get("spec")?;
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let texts = |value: &Value, key: &str| -> Vec<SmolStr> {
            value
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(SmolStr::new)
                .collect()
        };
        let names = definition
            .pointer("/status/acceptedNames")
            .filter(|names| names.get("plural").is_some())
            .or_else(|| spec.get("names"))?;
        let (group, kind) = (text(spec, "group"), text(names, "kind"));
        let mut versions = Vec::new();
        let mut custom = Vec::new();
        let declared = spec.get("versions").and_then(Value::as_array)?;
        let stored = declared
            .iter()
            .find(|version| version.get("storage") == Some(&Value::Bool(true)));
        let stored = stored.map(|version| text(version, "name")).unwrap_or_default();
        for version in declared {
            if version.get("served").and_then(Value::as_bool) != Some(true) {
                continue;
            }
            let of = CustomVersion::read(version);
            let structure = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
            versions.push(Version {
                name: of.name.clone(),
                schema: Schema::from_structural(&structure).ok()?,
                subresources: of.subresources(&kind),
                storage_hash: storage_hash(&group, &stored, &kind),
            });
            custom.push(of);
        }
        let singular = text(names, "singular");
        let list_kind = text(names, "listKind");
        Some(Resource {
            id,
            plural: text(names, "plural").into(),
            singular: if singular.is_empty() {
                kind.to_lowercase().into()
            } else {
                singular.into()
            },
            list_kind: if list_kind.is_empty() {
                format!("{kind}List").into()
            } else {
                list_kind.into()
            },
            kind: kind.into(),
            group: group.into(),
            short_names: texts(names, "shortNames"),
            categories: texts(names, "categories"),
            namespaced: text(spec, "scope") == "Namespaced",
            verbs: VERBS.iter().map(|verb| SmolStr::new_static(verb)).collect(),
            versions,
            stored: true,
            structure_only: false,
            rules: Rules::Custom(Arc::new(Self {
                versions: custom,
                revised,
                metadata: types.definition(METADATA).unwrap_or_else(Schema::deduced),
            })),
        })
    }

    fn version(&self, name: &str) -> Option<&CustomVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub(crate) fn has_status(&self, version: &str) -> bool {
        self.version(version).is_some_and(|version| version.has_status)
    }

    pub(crate) fn scale(&self, version: &str) -> Option<&Scale> {
        self.version(version)?.scale.as_ref()
    }

    /// Prunes what nobody declared and fills in defaults.
    pub(crate) fn settle_structure(
        &self,
        document: &mut Value,
        version: &Version,
        structures: &Structures,
    ) -> Result<(), String> {
        let metadata = object::metadata_mut(document);
        let mut metadata = Value::Object(std::mem::take(metadata));
        if let Some(why) = structures.mismatch(&self.metadata, "ObjectMeta", &metadata) {
            return Err(why);
        }
        self.metadata.drop_unknown_fields(&mut metadata);
        structures.normalise(&self.metadata, &mut metadata);
        // The wish to forget all managers gets lost on its way to a custom resource.
        let map = object::map_mut(&mut metadata);
        if map
            .get("managedFields")
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty)
        {
            map.remove("managedFields");
        }
        object::map_mut(document).insert("metadata".to_owned(), metadata);
        if let Some(version) = self.version(&version.name) {
            prune::root(&version.structure, document);
            defaults::fill(&version.structure, document);
        }
        Ok(())
    }

    pub(crate) fn prepare_create(&self, version: &Version, document: &mut Value) {
        if self.has_status(&version.name) {
            object::map_mut(document).remove("status");
        }
        object::set(document, "generation", Some(1.into()));
    }

    /// Keeps what this endpoint does not change, and answers whether the generation rises.
    pub(crate) fn prepare_update(&self, version: &Version, new: &mut Value, old: &Value, of_status: bool) -> bool {
        let has_status = self.has_status(&version.name);
        if of_status {
            // Nothing but the status changes, and who manages it.
            let managed = object::metadata(new).get("managedFields").cloned();
            let status = new.get("status").cloned();
            let mut kept = old.clone();
            match status {
                Some(status) => object::map_mut(&mut kept).insert("status".to_owned(), status),
                None => object::map_mut(&mut kept).remove("status"),
            };
            object::set(&mut kept, "managedFields", managed);
            *new = kept;
            return false;
        }
        if has_status {
            match old.get("status") {
                Some(status) => object::map_mut(new).insert("status".to_owned(), status.clone()),
                None => object::map_mut(new).remove("status"),
            };
        }
        let rest = |document: &Value| -> Map<String, Value> {
            let ignored = |key: &str| key == "metadata" || has_status && key == "status";
            document
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(key, _)| !ignored(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        rest(new) != rest(old)
    }

    pub(crate) fn reset_fields(&self, version: &Version, of_status: bool) -> Vec<&'static str> {
        match (self.has_status(&version.name), of_status) {
            (true, true) => vec!["spec"],
            (true, false) => vec!["status"],
            (false, _) => Vec::new(),
        }
    }

    /// What is wrong with an object, after what was found already; the rules in CEL are asked only if the rest is sound enough.
    pub(crate) fn validate(
        &self,
        version: &Version,
        document: &Value,
        old: Option<&Value>,
        of_status: bool,
        faults: &mut Vec<Fault>,
    ) {
        let Some(version) = self.version(&version.name) else {
            return;
        };
        faults.extend(if of_status {
            validate::status(&version.structure, document, old)
        } else {
            validate::structure(&version.structure, document, old)
        });
        let Some(rules) = &version.rules else { return };
        if faults.iter().any(validate::keeps_from_rules) {
            faults.push(validate::rules_unchecked());
        } else {
            faults.extend(validate::rules(rules, document, old));
        }
    }

    /// Only whether the items of lists can be told apart.
    pub(crate) fn validate_lists(&self, version: &Version, document: &Value) -> Vec<Fault> {
        let Some(version) = self.version(&version.name) else {
            return Vec::new();
        };
        validate::lists(&version.structure, document)
    }

    pub(crate) fn selectable_fields(&self, version: &str) -> Vec<String> {
        self.version(version)
            .map(|version| version.selectable.clone())
            .unwrap_or_default()
    }

    /// The values of all fields that can be selected by.
    pub(crate) fn selectable(&self, document: &Value) -> Vec<(String, String)> {
        self.versions
            .iter()
            .flat_map(|version| &version.selectable)
            .map(|field| {
                let value = path::first(document, field);
                (field.clone(), value.map(path::text).unwrap_or_default())
            })
            .collect()
    }

    pub(crate) fn columns(&self, version: &str) -> Vec<Value> {
        columns::heads(
            self.version(version)
                .map(|version| version.columns.as_slice())
                .unwrap_or_default(),
        )
    }

    pub(crate) fn cells(&self, version: &str, document: &Value, now: i64) -> Vec<Value> {
        columns::cells(
            self.version(version)
                .map(|version| version.columns.as_slice())
                .unwrap_or_default(),
            document,
            now,
        )
    }

    /// Adds a version to the OpenAPI document of its group and version.
    pub(crate) fn describe(&self, resource: &Resource, version: &Version, document: &mut Value) {
        if let Some(of) = self.version(&version.name) {
            describe::add(resource, &version.name, &of.structure, document);
        }
    }
}

impl CustomVersion {
    fn read(version: &Value) -> Self {
        let structure = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
        let scale = version.pointer("/subresources/scale").map(|scale| {
            let path = |key: &str| scale.get(key).and_then(Value::as_str).map(str::to_owned);
            Scale {
                spec: path("specReplicasPath").unwrap_or_default(),
                status: path("statusReplicasPath").unwrap_or_default(),
                selector: path("labelSelectorPath"),
            }
        });
        let fields = version
            .get("selectableFields")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        Self {
            name: version.get("name").and_then(Value::as_str).unwrap_or_default().into(),
            rules: validate::has_rules(&structure).then(|| kube_cel::compile_schema(&structure)),
            has_status: version.pointer("/subresources/status").is_some(),
            scale,
            columns: columns::read(version.get("additionalPrinterColumns")),
            selectable: fields
                .filter_map(|field| field.get("jsonPath")?.as_str())
                .map(|path| path.trim_start_matches('.').to_owned())
                .collect(),
            structure,
        }
    }

    fn subresources(&self, kind: &str) -> Vec<Subresource> {
        let subresource = |name: &'static str, group: &str, version: &str, kind: &str| Subresource {
            name: SmolStr::new_static(name),
            verbs: SUBRESOURCE_VERBS.iter().map(|verb| SmolStr::new_static(verb)).collect(),
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        };
        let mut subresources = Vec::new();
        if self.has_status {
            subresources.push(subresource("status", "", "", kind));
        }
        if self.scale.is_some() {
            subresources.push(subresource("scale", "autoscaling", "v1", "Scale"));
        }
        subresources
    }
}

/// Clients compare this with what they saw before and nothing else.
fn storage_hash(group: &str, version: &str, kind: &str) -> SmolStr {
    use base64::Engine as _;
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(format!("{group}/{version}/{kind}").as_bytes());
    base64::engine::general_purpose::STANDARD
        .encode(digest.get(..8).unwrap_or_default())
        .into()
}
