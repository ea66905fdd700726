//! The compiled form: a vector of nodes that name each other by number, equal nodes once.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;

/// The number of a node in its [`Types`].
pub(crate) type NodeId = u32;

/// Anything; maps granular, lists one value.
pub(crate) const DEDUCED: NodeId = 0;
/// Anything, as one value.
pub(crate) const UNTYPED: NodeId = 1;

/// All nodes of some kinds. The first two are the same in each.
pub(crate) struct Types {
    pub(crate) nodes: Vec<Node>,
}

impl Types {
    pub(crate) fn with_common() -> Self {
        let anything = |element: NodeId, atomic: bool| Node {
            scalar: Some(Scalar::Untyped),
            list: Some(List {
                associative: false,
                keys: Vec::new(),
                element: UNTYPED,
            }),
            map: Some(Map::new(Vec::new(), Some(element), atomic)),
            json: JsonKind::Any,
            ..Node::default()
        };
        Self {
            nodes: vec![anything(DEDUCED, false), anything(UNTYPED, true)],
        }
    }

    /// The node; one that allows anything if a recorded form was damaged.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        static NOTHING: Node = Node {
            name: None,
            scalar: None,
            list: None,
            map: None,
            json: JsonKind::Any,
            format: None,
        };
        self.nodes.get(id as usize).unwrap_or(&NOTHING)
    }
}

/// Up to three shapes a value may have here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) name: Option<SmolStr>,
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<List>,
    pub(crate) map: Option<Map>,
    pub(crate) json: JsonKind,
    pub(crate) format: Option<SmolStr>,
}

/// What a merge knows of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scalar {
    /// A number, whole or not.
    Numeric,
    /// A string without a format that could mean something else.
    Text,
    /// True or false.
    Boolean,
    /// Any of the three, such as a quantity or a port's name or number.
    Untyped,
}

/// What the published schema says of the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JsonKind {
    /// No type is published.
    #[default]
    Any,
    /// `object`
    Object,
    /// `array`
    Array,
    /// `string`
    Text,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
    /// `x-kubernetes-int-or-string`, or one of the formats that say the same.
    IntOrText,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind<'a> {
    /// Not at all: the list is one value.
    Atomic,
    /// By their values.
    Set,
    /// By the values of these fields.
    Map(&'a [SmolStr]),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct List {
    pub(crate) associative: bool,
    pub(crate) keys: Vec<SmolStr>,
    pub(crate) element: NodeId,
}

impl List {
    pub(crate) fn kind(&self) -> ListKind<'_> {
        if !self.associative {
            ListKind::Atomic
        } else if self.keys.is_empty() {
            ListKind::Set
        } else {
            ListKind::Map(&self.keys)
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Map {
    /// Sorted by name.
    pub(crate) fields: Vec<Property>,
    /// Of entries that are no fields; without it there are none.
    pub(crate) element: Option<NodeId>,
    pub(crate) atomic: bool,
    /// The beginnings of the names of the fields, by which they are found: every walk looks up every field.
    #[serde(skip)]
    beginnings: Vec<u64>,
}

/// The first eight bytes of a name, ordered as the names are.
fn beginning(name: &str) -> u64 {
    let mut bytes = [0; 8];
    for (byte, of_name) in bytes.iter_mut().zip(name.bytes()) {
        *byte = of_name;
    }
    u64::from_be_bytes(bytes)
}

impl Map {
    pub(crate) fn new(mut fields: Vec<Property>, element: Option<NodeId>, atomic: bool) -> Self {
        fields.sort_by(|one, other| one.name.cmp(&other.name));
        let mut map = Self {
            fields,
            element,
            atomic,
            beginnings: Vec::new(),
        };
        map.index();
        map
    }

    /// Has to be done after reading a map from its recorded form.
    pub(crate) fn index(&mut self) {
        self.beginnings = self.fields.iter().map(|field| beginning(&field.name)).collect();
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Property> {
        let wanted = beginning(name);
        let start = self.beginnings.partition_point(|beginning| *beginning < wanted);
        let alike = self.beginnings.get(start..)?.iter().zip(self.fields.get(start..)?);
        alike
            .take_while(|(beginning, _)| **beginning == wanted)
            .map(|(_, field)| field)
            .find(|field| field.name == name)
    }

    pub(crate) fn child(&self, name: &str) -> Option<NodeId> {
        self.field(name).map(|field| field.node).or(self.element)
    }
}

/// A declared field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Property {
    pub(crate) name: SmolStr,
    pub(crate) node: NodeId,
    #[serde(with = "as_text")]
    pub(crate) default: Option<Value>,
    pub(crate) required: bool,
    pub(crate) patch: PatchStrategy,
    pub(crate) merge_key: Option<SmolStr>,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PatchStrategy {
    /// Lists are merged by their merge key or as sets.
    pub merge: bool,
    /// Maps are replaced.
    pub replace: bool,
    /// Fields that the patch does not name are removed if it lists those to retain.
    pub retain_keys: bool,
}

/// A JSON value within formats that cannot describe themselves.
mod as_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Value::to_string).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(D::Error::custom)
    }
}
