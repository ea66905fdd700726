//! What a server knows of the structure of a kind: which lists are sets or maps, which maps are one value, which fields
//! there are. Compiled once, shared by reference count, walked without allocation.
//!
//! A node may allow several shapes at once (a field without a type allows all), so a node is up to three shapes and the
//! value at hand decides between them. Node numbers instead of pointers keep recursive types simple and the recorded
//! form small.

mod nodes;
mod openapi;
mod unknown;
mod zero;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use smol_str::SmolStr;

pub(crate) use nodes::{DEDUCED, List, Map, Node, NodeId, Property, Types};
pub use nodes::{JsonKind, ListKind, PatchStrategy, Scalar};
pub use openapi::SchemaError;
pub use unknown::UnknownField;

/// The structure of one kind of object, or of a part of it. A clone costs one reference count.
#[derive(Clone)]
pub struct Schema {
    pub(crate) types: Arc<Types>,
    pub(crate) root: NodeId,
}

static COMMON: LazyLock<Arc<Types>> = LazyLock::new(|| Arc::new(Types::with_common()));

impl Schema {
    /// The structure of objects of which nothing is known: maps are granular, lists are one value.
    #[must_use]
    pub fn deduced() -> Self {
        Self {
            types: Arc::clone(&COMMON),
            root: DEDUCED,
        }
    }

    /// The structure of a version of a custom resource, from its `openAPIV3Schema`.
    ///
    /// `apiVersion`, `kind` and `metadata` are those every object has, whatever the schema says of them.
    ///
    /// # Errors
    /// If a list or map type is not one that exists, or a list lacks its items.
    pub fn from_structural(schema: &Value) -> Result<Self, SchemaError> {
        openapi::structural(schema)
    }

    pub(crate) fn node(&self) -> &Node {
        self.types.node(self.root)
    }

    fn at(&self, root: NodeId) -> Self {
        Self {
            types: Arc::clone(&self.types),
            root,
        }
    }

    /// The name of the definition this is, such as `io.k8s.api.core.v1.PodSpec`, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.node().name.as_deref()
    }

    /// What JSON values the published schema allows here.
    #[must_use]
    pub fn json_kind(&self) -> JsonKind {
        self.node().json
    }

    /// The published format of a scalar, such as `int32` or `date-time`.
    #[must_use]
    pub fn format(&self) -> Option<&str> {
        self.node().format.as_deref()
    }

    /// The declared fields, sorted by name.
    pub fn properties(&self) -> impl Iterator<Item = (&str, Schema)> {
        self.node()
            .map
            .iter()
            .flat_map(|map| &map.fields)
            .map(|field| (field.name.as_str(), self.at(field.node)))
    }

    /// The structure of a declared field, or of any entry of a map.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<Schema> {
        let map = self.node().map.as_ref()?;
        map.child(name).map(|node| self.at(node))
    }

    /// Whether the field is declared by its name.
    #[must_use]
    pub fn declares(&self, name: &str) -> bool {
        self.node().map.as_ref().is_some_and(|map| map.field(name).is_some())
    }

    /// The structure of each item of a list.
    #[must_use]
    pub fn items(&self) -> Option<Schema> {
        self.node().list.as_ref().map(|list| self.at(list.element))
    }

    /// How the items of a list are told apart.
    #[must_use]
    pub fn list_kind(&self) -> Option<ListKind<'_>> {
        self.node().list.as_ref().map(List::kind)
    }

    /// Whether a map is owned as one value.
    #[must_use]
    pub fn is_atomic_map(&self) -> bool {
        self.node().map.as_ref().is_some_and(|map| map.atomic)
    }

    /// The declared default of a field.
    #[must_use]
    pub fn default_of(&self, name: &str) -> Option<&Value> {
        self.node().map.as_ref()?.field(name)?.default.as_ref()
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Schema")
            .field("name", &self.node().name)
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

/// The structures of many kinds with everything they share.
///
/// Made from published OpenAPI once, then kept in its serde form, which is a tenth of the size and has nothing left to
/// resolve. The form is not self-describing and fits any serde format.
#[derive(Clone)]
pub struct TypeTable {
    types: Arc<Types>,
    kinds: HashMap<GroupVersionKind, NodeId>,
    definitions: HashMap<SmolStr, NodeId>,
}

/// Group, version and kind, in the order of their parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: SmolStr,
    /// Such as `v1`.
    pub version: SmolStr,
    /// Such as `Pod`.
    pub kind: SmolStr,
}

#[derive(Serialize, Deserialize)]
struct Recorded {
    nodes: Vec<Node>,
    kinds: Vec<(GroupVersionKind, NodeId)>,
}

impl TypeTable {
    /// Compiles documents of `/openapi/v3/…`; a definition that several documents hold is taken from the first.
    ///
    /// # Errors
    /// If a list or map type is not one that exists, or a reference leads nowhere.
    pub fn from_openapi_v3<'a>(documents: impl IntoIterator<Item = &'a Value>) -> Result<Self, SchemaError> {
        openapi::documents(documents)
    }

    fn new(types: Types, kinds: HashMap<GroupVersionKind, NodeId>) -> Self {
        let mut definitions = HashMap::new();
        for (node, id) in types.nodes.iter().zip(0..) {
            // Variants of a definition have its name too, and come after it.
            if let Some(name) = &node.name {
                definitions.entry(name.clone()).or_insert(id);
            }
        }
        Self {
            types: Arc::new(types),
            kinds,
            definitions,
        }
    }

    fn schema(&self, root: NodeId) -> Schema {
        Schema {
            types: Arc::clone(&self.types),
            root,
        }
    }

    /// The structure of a kind.
    #[must_use]
    pub fn get(&self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        let key = GroupVersionKind {
            group: SmolStr::new(group),
            version: SmolStr::new(version),
            kind: SmolStr::new(kind),
        };
        self.kinds.get(&key).map(|&root| self.schema(root))
    }

    /// The structure of a definition, such as `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`.
    #[must_use]
    pub fn definition(&self, name: &str) -> Option<Schema> {
        self.definitions.get(name).map(|&root| self.schema(root))
    }

    /// All kinds, in no order.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.kinds.keys()
    }
}

impl Default for TypeTable {
    /// A table of no kinds.
    fn default() -> Self {
        Self::new(Types::with_common(), HashMap::new())
    }
}

impl Serialize for TypeTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut kinds: Vec<_> = self.kinds.iter().map(|(kind, node)| (kind.clone(), *node)).collect();
        // The recorded file is committed: the same input must give the same bytes.
        kinds.sort();
        Recorded {
            nodes: self.types.nodes.clone(),
            kinds,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TypeTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut recorded = Recorded::deserialize(deserializer)?;
        for map in recorded.nodes.iter_mut().filter_map(|node| node.map.as_mut()) {
            map.index();
        }
        Ok(Self::new(
            Types { nodes: recorded.nodes },
            recorded.kinds.into_iter().collect(),
        ))
    }
}
