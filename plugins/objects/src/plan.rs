//! What is to be applied, where in the spec it stands, and in which order.

use std::collections::BTreeMap;

use chandlery_plugin::prelude::*;

/// Most bytes and objects of one host call: a call's copy is bounded at 10 MiB, and the whole run has 8 MiB by default.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
const BATCH_ITEMS: usize = 1_000;

/// One object of the spec.
pub(crate) struct Item {
    /// JSON pointer into the spec.
    pub(crate) path: String,
    pub(crate) name: ObjectRef,
    pub(crate) object: Json,
}

impl Item {
    pub(crate) fn is_definition(&self) -> bool {
        self.name.kind == "CustomResourceDefinition" && self.name.group() == "apiextensions.k8s.io"
    }

    /// Group and kind that a definition defines.
    pub(crate) fn defines(&self) -> Option<(&str, &str)> {
        let text = |pointer| self.object.pointer(pointer).and_then(Json::as_str);
        self.is_definition()
            .then(|| text("/spec/group").zip(text("/spec/names/kind")))
            .flatten()
    }

    /// Objects of one wave do not need each other; each wave may need the waves before.
    fn wave(&self) -> u8 {
        match (self.name.group(), self.name.kind.as_str()) {
            ("", "Namespace") => 0,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => 1,
            // Others refer to these by name, and some are refused without them: a Pod without its ServiceAccount or
            // PriorityClass, a binding without its role.
            ("", "ServiceAccount" | "Secret" | "ConfigMap" | "LimitRange" | "ResourceQuota" | "PersistentVolume")
            | ("rbac.authorization.k8s.io", "Role" | "ClusterRole")
            | ("scheduling.k8s.io", "PriorityClass")
            | ("node.k8s.io", "RuntimeClass")
            | ("storage.k8s.io", "StorageClass" | "CSIDriver")
            | ("networking.k8s.io", "IngressClass" | "NetworkPolicy")
            | ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy") => 2,
            // These could refuse everything that comes after them while what serves them is not up.
            ("admissionregistration.k8s.io", _) | ("apiregistration.k8s.io", "APIService") => 4,
            _ => 3,
        }
    }
}

/// All objects of a spec, each once.
pub(crate) struct Plan {
    pub(crate) items: Vec<Item>,
}

impl Plan {
    /// Reads the objects of a spec; lists are replaced by their items.
    ///
    /// # Errors
    /// All that is wrong with them, with the place in the spec.
    pub(crate) fn of(objects: Vec<Json>) -> Result<Self, Vec<Problem>> {
        let mut reading = Reading::default();
        for (index, object) in objects.into_iter().enumerate() {
            reading.read(object, format!("/objects/{index}"), None);
        }
        if reading.problems.is_empty() {
            Ok(Self { items: reading.items })
        } else {
            Err(reading.problems)
        }
    }

    /// The objects in the order in which they are applied.
    pub(crate) fn waves(&self) -> Vec<Vec<&Item>> {
        let mut waves: BTreeMap<u8, Vec<&Item>> = BTreeMap::new();
        for item in &self.items {
            waves.entry(item.wave()).or_default().push(item);
        }
        waves.into_values().collect()
    }
}

#[derive(Default)]
struct Reading {
    items: Vec<Item>,
    problems: Vec<Problem>,
    path_of: BTreeMap<(String, String, Option<String>, String), String>,
}

impl Reading {
    /// `within`: API version and kind that a typed list lends to items which have none of their own.
    fn read(&mut self, mut object: Json, path: String, within: Option<(&str, &str)>) {
        let Some(fields) = object.as_object_mut() else {
            return self.problem(&path, "is not an object");
        };
        if let Some((api_version, kind)) = within {
            fields.entry("apiVersion").or_insert_with(|| api_version.into());
            fields.entry("kind").or_insert_with(|| kind.into());
        }
        let text = |fields: &serde_json::Map<String, Json>, key| {
            fields.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
        };
        let (api_version, kind) = (text(fields, "apiVersion"), text(fields, "kind"));
        if let Some(item_kind) = kind.strip_suffix("List")
            && let Some(Json::Array(items)) = fields.get_mut("items").map(Json::take)
        {
            let lent = (!item_kind.is_empty()).then_some((api_version.as_str(), item_kind));
            for (index, item) in items.into_iter().enumerate() {
                self.read(item, format!("{path}/items/{index}"), lent);
            }
            return;
        }
        match name(&object) {
            Err(missing) => self.problem(&format!("{path}{}", missing.path), missing.message),
            Ok(name) => {
                // The same object in two versions of its group is still one object.
                let key = (
                    name.group().to_owned(),
                    name.kind.clone(),
                    name.namespace.clone(),
                    name.name.clone(),
                );
                match self.path_of.get(&key) {
                    Some(first) => self.problem(&path, format!("{name} is given twice: here and at {first}")),
                    None => {
                        self.path_of.insert(key, path.clone());
                        self.items.push(Item { path, name, object });
                    }
                }
            }
        }
    }

    fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }
}

/// The name of an object, or what is missing for one.
fn name(object: &Json) -> Result<ObjectRef, Problem> {
    if object.pointer("/metadata/generateName").is_some() {
        let why = "metadata.generateName would make another object with every call: give metadata.name";
        return Err(Problem::new("/metadata/generateName", why));
    }
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        if object.pointer(pointer).and_then(Json::as_str).is_none_or(str::is_empty) {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            return Err(Problem::new(pointer, format!("{field} is missing")));
        }
    }
    ObjectRef::of(object).ok_or_else(|| Problem::new("", "is not a Kubernetes object"))
}

/// Cuts a wave into host calls.
pub(crate) fn batches<'a>(items: &[&'a Item]) -> Vec<Vec<&'a Item>> {
    let mut batches: Vec<Vec<&Item>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let size = item.object.to_string().len();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH_ITEMS && bytes + size <= BATCH_BYTES => {
                batch.push(item);
                bytes += size;
            }
            _ => {
                batches.push(vec![item]);
                bytes = size;
            }
        }
    }
    batches
}
