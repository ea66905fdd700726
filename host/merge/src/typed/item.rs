//! Items of associative lists, told apart without copying what they are told apart by.

use std::cmp::Ordering;

use serde_json::{Map as Object, Value};
use smol_str::SmolStr;

use crate::fields::PathElement;
use crate::schema::{List, Map, Types};
use crate::value::{compare, quoted};

/// What tells an item of a list from the others.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    /// The values of its keys, or their defaults.
    Keyed {
        keys: &'a [SmolStr],
        map: Option<&'a Map>,
        object: &'a Object<String, Value>,
    },
    /// Its value.
    Scalar(&'a Value),
    /// Its position, where it cannot be told apart.
    Position(i64),
}

impl<'a> Item<'a> {
    /// An item, or why it cannot be told apart, in a server's words.
    pub(super) fn of(types: &'a Types, list: &'a List, item: &'a Value) -> Result<Self, String> {
        if list.keys.is_empty() {
            return match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
                scalar => Ok(Self::Scalar(scalar)),
            };
        }
        let keyed = match item {
            Value::Null => return Err("associative list with keys may not have a null element".into()),
            Value::Object(object) => Self::Keyed {
                keys: &list.keys,
                map: types.node(list.element).map.as_ref(),
                object,
            },
            _ => return Err("associative list with keys may not have non-map elements".into()),
        };
        if keyed.fields().next().is_none() {
            let keys: Vec<_> = list.keys.iter().map(|key| quoted(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(keyed)
    }

    /// The items of a list; where one cannot be told apart, its position does.
    pub(super) fn all(types: &'a Types, list: &'a List, items: &'a [Value]) -> Vec<Self> {
        items
            .iter()
            .zip(0..)
            .map(|(item, position)| Self::of(types, list, item).unwrap_or(Self::Position(position)))
            .collect()
    }

    fn fields(self) -> impl Iterator<Item = (&'a SmolStr, &'a Value)> {
        let (keys, map, object) = match self {
            Self::Keyed { keys, map, object } => (keys, map, Some(object)),
            _ => (&[][..], None, None),
        };
        keys.iter().filter_map(move |key| {
            let default = || map?.field(key)?.default.as_ref();
            Some((key, object?.get(key.as_str()).or_else(default)?))
        })
    }

    pub(super) fn element(self) -> PathElement {
        match self {
            Self::Keyed { .. } => {
                let mut fields: Vec<(SmolStr, Value)> = self
                    .fields()
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                fields.sort_by(|one, other| one.0.cmp(&other.0));
                PathElement::Key(fields.into())
            }
            Self::Scalar(value) => PathElement::Value(value.clone()),
            Self::Position(position) => PathElement::Index(position),
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Keyed { .. } => 0,
            Self::Scalar(_) => 1,
            Self::Position(_) => 2,
        }
    }
}

impl Ord for Item<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (Self::Scalar(one), Self::Scalar(other)) => compare(one, other),
            (Self::Position(one), Self::Position(other)) => one.cmp(&other),
            (one @ Self::Keyed { .. }, other @ Self::Keyed { .. }) => {
                let (mut of_one, mut of_other) = (one.fields(), other.fields());
                loop {
                    match (of_one.next(), of_other.next()) {
                        (Some((name, value)), Some((other_name, other_value))) => {
                            let order = name.cmp(other_name).then_with(|| compare(value, other_value));
                            if order.is_ne() {
                                return order;
                            }
                        }
                        (one, other) => return one.is_some().cmp(&other.is_some()),
                    }
                }
            }
            (one, other) => one.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Item<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Item<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Item<'_> {}

/// Where each item is, found by what tells it apart.
pub(super) struct Positions<'a> {
    items: &'a [Item<'a>],
    /// Positions in the list, sorted by item; equal items in the order of the list.
    sorted: Vec<usize>,
}

impl<'a> Positions<'a> {
    pub(super) fn of(items: &'a [Item<'a>]) -> Self {
        let mut sorted: Vec<usize> = (0..items.len()).collect();
        sorted.sort_by(|&one, &other| items.get(one).cmp(&items.get(other)));
        Self { items, sorted }
    }

    /// The positions at which the item is.
    pub(super) fn find(&self, item: &Item<'_>) -> &[usize] {
        let at = |position: &usize| self.items.get(*position);
        let start = self
            .sorted
            .partition_point(|position| at(position).is_some_and(|found| found < item));
        let rest = self.sorted.get(start..).unwrap_or_default();
        let count = rest.iter().take_while(|position| at(position) == Some(item)).count();
        rest.get(..count).unwrap_or_default()
    }
}
