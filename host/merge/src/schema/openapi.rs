//! From published OpenAPI to nodes: what each extension means for a merge is decided here and nowhere else.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map as Object, Value, json};
use smol_str::SmolStr;
use thiserror::Error;

use super::nodes::{DEDUCED, JsonKind, List, Map, Node, NodeId, PatchStrategy, Property, Scalar, Types, UNTYPED};
use super::{GroupVersionKind, Schema, TypeTable};

/// Why a published schema cannot be used for merging.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// The list type is neither atomic nor set nor map.
    #[error("compiling schema of {at}: unknown list type {given}")]
    ListType {
        /// Path of the field.
        at: String,
        /// What was given.
        given: String,
    },
    /// The map type is neither atomic nor granular.
    #[error("compiling schema of {at}: unknown map type {given}")]
    MapType {
        /// Path of the field.
        at: String,
        /// What was given.
        given: String,
    },
    /// A list of type map does not say its keys.
    #[error("compiling schema of {at}: missing map keys")]
    MapKeys {
        /// Path of the field.
        at: String,
    },
    /// A reference leads nowhere.
    #[error("compiling schema of {at}: no definition {name}")]
    Reference {
        /// Path of the field.
        at: String,
        /// The definition that was meant.
        name: String,
    },
    /// Not a JSON object where a schema must be one.
    #[error("compiling schema of {at}: not an object")]
    NotAnObject {
        /// Path of the field.
        at: String,
    },
}

/// A quantity may be written as number or text, though it is published as text.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// Embedded objects are owned as one value, though they are published as plain objects.
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The metadata of every object, for custom resources, which do not publish it.
static META_DEFINITIONS: LazyLock<Value> = LazyLock::new(|| {
    let text = || json!({ "type": "string" });
    let time = || json!({ "type": "string", "format": "date-time" });
    let texts = || json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({ "components": { "schemas": { OBJECT_META: {
        "type": "object",
        "properties": {
            "annotations": texts(),
            "creationTimestamp": time(),
            "deletionGracePeriodSeconds": { "type": "integer", "format": "int64" },
            "deletionTimestamp": time(),
            "finalizers": {
                "type": "array",
                "items": text(),
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "generateName": text(),
            "generation": { "type": "integer", "format": "int64" },
            "labels": texts(),
            "managedFields": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "properties": {
                        "apiVersion": text(),
                        "fieldsType": text(),
                        "fieldsV1": { "type": "object" },
                        "manager": text(),
                        "operation": text(),
                        "subresource": text(),
                        "time": time(),
                    },
                },
            },
            "name": text(),
            "namespace": text(),
            "ownerReferences": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "uid",
                "items": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "required": ["apiVersion", "kind", "name", "uid"],
                    "properties": {
                        "apiVersion": { "type": "string", "default": "" },
                        "blockOwnerDeletion": { "type": "boolean" },
                        "controller": { "type": "boolean" },
                        "kind": { "type": "string", "default": "" },
                        "name": { "type": "string", "default": "" },
                        "uid": { "type": "string", "default": "" },
                    },
                },
            },
            "resourceVersion": text(),
            "selfLink": text(),
            "uid": text(),
        },
    } } } })
});

struct Compiler {
    types: Types,
    by_node: HashMap<Node, NodeId>,
    by_name: HashMap<SmolStr, NodeId>,
    /// Map types given beside a reference, applied when all definitions are there.
    overrides: HashMap<(NodeId, bool), NodeId>,
}

pub(super) fn documents<'a>(documents: impl IntoIterator<Item = &'a Value>) -> Result<TypeTable, SchemaError> {
    let mut compiler = Compiler::new();
    let definitions = compiler.declare(documents);
    compiler.define(&definitions)?;
    let mut kinds = HashMap::new();
    for (name, definition) in &definitions {
        let Some(&root) = compiler.by_name.get(name) else {
            continue;
        };
        for kind in published_kinds(definition) {
            kinds.entry(kind).or_insert(root);
        }
    }
    Ok(TypeTable::new(compiler.types, kinds))
}

pub(super) fn structural(schema: &Value) -> Result<Schema, SchemaError> {
    let object = schema
        .as_object()
        .ok_or_else(|| SchemaError::NotAnObject { at: String::new() })?;
    let mut compiler = Compiler::new();
    let definitions = compiler.declare([&*META_DEFINITIONS]);
    compiler.define(&definitions)?;
    let mut root = object.clone();
    add_object_fields(&mut root);
    let node = compiler.compile(&root, false, &mut Place::root())?;
    let root = compiler.intern(node);
    compiler.apply_overrides();
    Ok(Schema {
        types: Arc::new(compiler.types),
        root,
    })
}

fn add_object_fields(schema: &mut Object<String, Value>) {
    let reference = json!({ "$ref": format!("#/components/schemas/{OBJECT_META}") });
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.insert("apiVersion".into(), json!({ "type": "string" }));
        properties.insert("kind".into(), json!({ "type": "string" }));
        properties.insert("metadata".into(), reference);
    }
}

fn published_kinds(definition: &Value) -> impl Iterator<Item = GroupVersionKind> {
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(SmolStr::new);
    definition
        .get("x-kubernetes-group-version-kind")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(move |entry| {
            Some(GroupVersionKind {
                group: text(entry, "group")?,
                version: text(entry, "version")?,
                kind: text(entry, "kind").filter(|kind| !kind.is_empty())?,
            })
        })
}

/// Where the compiler is, for messages.
struct Place(Vec<String>);

impl Place {
    fn root() -> Self {
        Self(Vec::new())
    }

    fn named(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    fn text(&self) -> String {
        self.0.join(".")
    }
}

impl Compiler {
    fn new() -> Self {
        let types = Types::with_common();
        let by_node = types.nodes.iter().cloned().zip(0..).collect();
        Self {
            types,
            by_node,
            by_name: HashMap::new(),
            overrides: HashMap::new(),
        }
    }

    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId::try_from(self.types.nodes.len()).unwrap_or(NodeId::MAX);
        self.types.nodes.push(node);
        id
    }

    fn intern(&mut self, node: Node) -> NodeId {
        if let Some(&id) = self.by_node.get(&node) {
            return id;
        }
        let id = self.push(node.clone());
        self.by_node.insert(node, id);
        id
    }

    /// Gives each definition its number, so that references to those not compiled yet can be written.
    fn declare<'a>(&mut self, documents: impl IntoIterator<Item = &'a Value>) -> Vec<(SmolStr, &'a Value)> {
        let mut definitions = Vec::new();
        for document in documents {
            let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
            for (name, definition) in schemas.into_iter().flatten() {
                let name = SmolStr::new(name);
                if self.by_name.contains_key(&name) {
                    continue;
                }
                let id = self.push(Node::default());
                self.by_name.insert(name.clone(), id);
                definitions.push((name, definition));
            }
        }
        definitions
    }

    fn define(&mut self, definitions: &[(SmolStr, &Value)]) -> Result<(), SchemaError> {
        for (name, definition) in definitions {
            let mut place = Place::named(name);
            let mut node = match name.as_str() {
                QUANTITY => Node {
                    scalar: Some(Scalar::Untyped),
                    json: JsonKind::Text,
                    format: Some(SmolStr::new("quantity")),
                    ..Node::default()
                },
                RAW_EXTENSION => Node {
                    json: JsonKind::Object,
                    ..self.types.node(UNTYPED).clone()
                },
                _ => {
                    let object = as_schema(definition, &place)?;
                    self.compile(object, false, &mut place)?
                }
            };
            node.name = Some(name.clone());
            let slot = self
                .by_name
                .get(name)
                .and_then(|&id| self.types.nodes.get_mut(id as usize));
            if let Some(slot) = slot {
                *slot = node;
            }
        }
        self.apply_overrides();
        Ok(())
    }

    fn apply_overrides(&mut self) {
        let overrides = std::mem::take(&mut self.overrides);
        for ((target, atomic), id) in overrides {
            let mut node = self.types.node(target).clone();
            if let Some(map) = &mut node.map {
                map.atomic = atomic;
            } else if let Some(list) = &mut node.list {
                list.associative = !atomic && list.associative;
            }
            if let Some(slot) = self.types.nodes.get_mut(id as usize) {
                *slot = node;
            }
        }
    }

    /// The number of a part: that of its definition if it is a reference, else of itself.
    fn part(&mut self, schema: &Value, preserve: bool, place: &mut Place) -> Result<NodeId, SchemaError> {
        let object = as_schema(schema, place)?;
        let Some(name) = reference(object) else {
            let node = self.compile(object, preserve, place)?;
            return Ok(self.intern(node));
        };
        let Some(&target) = self.by_name.get(name) else {
            return Err(SchemaError::Reference {
                at: place.text(),
                name: name.to_owned(),
            });
        };
        let Some(atomic) = map_atomic(object, place)? else {
            return Ok(target);
        };
        if let Some(&id) = self.overrides.get(&(target, atomic)) {
            return Ok(id);
        }
        let id = self.push(Node::default());
        self.overrides.insert((target, atomic), id);
        Ok(id)
    }

    fn compile(
        &mut self,
        schema: &Object<String, Value>,
        preserve: bool,
        place: &mut Place,
    ) -> Result<Node, SchemaError> {
        let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let preserve = preserve || flag("x-kubernetes-preserve-unknown-fields");
        let format = schema.get("format").and_then(Value::as_str);
        let mut node = Node {
            format: format.map(SmolStr::new),
            ..Node::default()
        };
        if flag("x-kubernetes-embedded-resource") {
            let mut embedded = schema.clone();
            embedded.remove("x-kubernetes-embedded-resource");
            add_object_fields(&mut embedded);
            return self.compile(&embedded, preserve, place);
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => {
                node.json = JsonKind::Object;
                node.map = Some(self.map(schema, preserve, place)?);
            }
            Some("array") => {
                node.json = JsonKind::Array;
                node.list = Some(self.list(schema, preserve, place)?);
            }
            Some("integer") => {
                node.json = JsonKind::Integer;
                node.scalar = Some(Scalar::Numeric);
            }
            Some("number") => {
                node.json = JsonKind::Number;
                node.scalar = Some(Scalar::Numeric);
            }
            Some("boolean") => {
                node.json = JsonKind::Boolean;
                node.scalar = Some(Scalar::Boolean);
            }
            Some("string") => {
                node.json = if format == Some("int-or-string") {
                    JsonKind::IntOrText
                } else {
                    JsonKind::Text
                };
                node.scalar = Some(match format {
                    None | Some("" | "byte") => Scalar::Text,
                    Some(_) => Scalar::Untyped,
                });
            }
            _ => {
                let int_or_text = flag("x-kubernetes-int-or-string") || format == Some("int-or-string");
                node.json = if int_or_text {
                    JsonKind::IntOrText
                } else {
                    JsonKind::Any
                };
                node.scalar = Some(Scalar::Untyped);
                node.list = Some(self.list(schema, preserve, place)?);
                node.map = Some(self.map(schema, preserve, place)?);
            }
        }
        Ok(node)
    }

    fn map(&mut self, schema: &Object<String, Value>, preserve: bool, place: &mut Place) -> Result<Map, SchemaError> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let mut fields = Vec::with_capacity(properties.map_or(0, Object::len));
        for (name, property) in properties.into_iter().flatten() {
            place.0.push(name.clone());
            let node = self.part(property, preserve, place)?;
            place.0.pop();
            let text = |key: &str| property.get(key).and_then(Value::as_str);
            fields.push(Property {
                name: SmolStr::new(name),
                node,
                default: property.get("default").filter(|default| !default.is_null()).cloned(),
                required: required.is_some_and(|names| names.iter().any(|entry| entry == name)),
                patch: patch_strategy(text("x-kubernetes-patch-strategy").unwrap_or_default()),
                merge_key: text("x-kubernetes-patch-merge-key").map(SmolStr::new),
            });
        }
        let element = match schema.get("additionalProperties") {
            None if preserve || fields.is_empty() => Some(DEDUCED),
            None | Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(DEDUCED),
            Some(element) => {
                place.0.push("*".into());
                let node = self.part(element, preserve, place)?;
                place.0.pop();
                Some(node)
            }
        };
        let atomic = map_atomic(schema, place)?.unwrap_or(false);
        Ok(Map::new(fields, element, atomic))
    }

    fn list(&mut self, schema: &Object<String, Value>, preserve: bool, place: &mut Place) -> Result<List, SchemaError> {
        let (associative, keys) = list_relationship(schema, place)?;
        let element = match schema.get("items") {
            Some(items) => {
                place.0.push("[]".into());
                let node = self.part(items, preserve, place)?;
                place.0.pop();
                node
            }
            None => UNTYPED,
        };
        Ok(List {
            associative,
            keys,
            element,
        })
    }
}

fn as_schema<'a>(schema: &'a Value, place: &Place) -> Result<&'a Object<String, Value>, SchemaError> {
    schema
        .as_object()
        .ok_or_else(|| SchemaError::NotAnObject { at: place.text() })
}

/// The definition a part refers to: directly, or as the only entry of `allOf`, which leaves room for siblings.
fn reference(schema: &Object<String, Value>) -> Option<&str> {
    let direct = schema.get("$ref").and_then(Value::as_str);
    let wrapped = || match schema.get("allOf")?.as_array()?.as_slice() {
        [only] => only.get("$ref")?.as_str(),
        _ => None,
    };
    let path = direct.or_else(wrapped)?;
    Some(path.rsplit('/').next().unwrap_or(path))
}

fn map_atomic(schema: &Object<String, Value>, place: &Place) -> Result<Option<bool>, SchemaError> {
    match schema.get("x-kubernetes-map-type") {
        None => Ok(None),
        Some(Value::String(kind)) if kind == "atomic" => Ok(Some(true)),
        Some(Value::String(kind)) if kind == "granular" => Ok(Some(false)),
        Some(given) => Err(SchemaError::MapType {
            at: place.text(),
            given: given.to_string(),
        }),
    }
}

/// The list type wins; where it is absent, the older patch strategy says the same in other words.
fn list_relationship(schema: &Object<String, Value>, place: &Place) -> Result<(bool, Vec<SmolStr>), SchemaError> {
    if let Some(given) = schema.get("x-kubernetes-list-type") {
        return match given.as_str() {
            Some("atomic") => Ok((false, Vec::new())),
            Some("set") => Ok((true, Vec::new())),
            Some("map") => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let keys = keys.ok_or_else(|| SchemaError::MapKeys { at: place.text() })?;
                Ok((true, keys.iter().filter_map(Value::as_str).map(SmolStr::new).collect()))
            }
            _ => Err(SchemaError::ListType {
                at: place.text(),
                given: given.to_string(),
            }),
        };
    }
    let strategy = schema
        .get("x-kubernetes-patch-strategy")
        .and_then(Value::as_str)
        .map(patch_strategy);
    if strategy.is_some_and(|strategy| strategy.merge) {
        let key = schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str);
        return Ok((true, key.map(SmolStr::new).into_iter().collect()));
    }
    Ok((false, Vec::new()))
}

fn patch_strategy(given: &str) -> PatchStrategy {
    let mut strategy = PatchStrategy::default();
    for word in given.split(',') {
        match word {
            "merge" => strategy.merge = true,
            "replace" => strategy.replace = true,
            "retainKeys" => strategy.retain_keys = true,
            _ => {}
        }
    }
    strategy
}
