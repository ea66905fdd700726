//! The set and its algebra.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Path, PathElement};

/// A set of fields of one object.
#[derive(Clone, Default)]
pub struct FieldSet(Option<Arc<Vec<Entry>>>);

/// A step that is a member, or leads to members, or both.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) element: PathElement,
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

impl Entry {
    fn is_void(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl PartialEq for FieldSet {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
            _ => self.is_empty() && other.is_empty(),
        }
    }
}

impl Eq for FieldSet {}

impl std::fmt::Debug for FieldSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_set()
            .entries(self.paths().iter().map(ToString::to_string))
            .finish()
    }
}

/// What becomes of two entries of the same element, or of one alone.
trait Rule {
    const KEEPS_LEFT: bool;
    const KEEPS_RIGHT: bool;
    fn both(left: &Entry, right: &Entry) -> Entry;
}

struct Union;
struct Intersection;
struct Difference;
struct RecursiveDifference;

impl Rule for Union {
    const KEEPS_LEFT: bool = true;
    const KEEPS_RIGHT: bool = true;
    fn both(left: &Entry, right: &Entry) -> Entry {
        Entry {
            element: left.element.clone(),
            member: left.member || right.member,
            children: left.children.union(&right.children),
        }
    }
}

impl Rule for Intersection {
    const KEEPS_LEFT: bool = false;
    const KEEPS_RIGHT: bool = false;
    fn both(left: &Entry, right: &Entry) -> Entry {
        Entry {
            element: left.element.clone(),
            member: left.member && right.member,
            children: left.children.intersection(&right.children),
        }
    }
}

impl Rule for Difference {
    const KEEPS_LEFT: bool = true;
    const KEEPS_RIGHT: bool = false;
    fn both(left: &Entry, right: &Entry) -> Entry {
        Entry {
            element: left.element.clone(),
            member: left.member && !right.member,
            children: left.children.difference(&right.children),
        }
    }
}

impl Rule for RecursiveDifference {
    const KEEPS_LEFT: bool = true;
    const KEEPS_RIGHT: bool = false;
    fn both(left: &Entry, right: &Entry) -> Entry {
        let gone = right.member;
        Entry {
            element: left.element.clone(),
            member: left.member && !gone,
            children: if gone {
                FieldSet::default()
            } else {
                left.children.recursive_difference(&right.children)
            },
        }
    }
}

impl FieldSet {
    /// A set of these fields.
    #[must_use]
    pub fn of_paths<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }

    /// A set of fields given by names alone, as `["metadata", "name"]`.
    #[must_use]
    pub fn of_names<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        let mut set = Self::default();
        for names in paths {
            let path: Vec<_> = names.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        self.0.as_ref().map_or(&[], |entries| entries)
    }

    pub(crate) fn from_sorted(entries: Vec<Entry>) -> Self {
        Self((!entries.is_empty()).then(|| Arc::new(entries)))
    }

    /// Whether no field is a member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Entries that neither are members nor lead to any are never kept.
        self.0.is_none()
    }

    /// How many fields are members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries()
            .iter()
            .map(|entry| usize::from(entry.member) + entry.children.len())
            .sum()
    }

    pub(crate) fn find(&self, element: &PathElement) -> Option<&Entry> {
        let entries = self.entries();
        let position = entries.binary_search_by(|entry| entry.element.cmp(element)).ok()?;
        entries.get(position)
    }

    /// Whether the field is a member.
    #[must_use]
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let mut set = self;
        let mut remaining = path.iter();
        while let Some(entry) = remaining.next().and_then(|element| set.find(element)) {
            if remaining.as_slice().is_empty() {
                return entry.member;
            }
            set = &entry.children;
        }
        false
    }

    /// Adds a field. The whole object is no field.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((element, rest)) = path.split_first() else {
            return;
        };
        let entries = Arc::make_mut(self.0.get_or_insert_with(Arc::default));
        let position = match entries.binary_search_by(|entry| entry.element.cmp(element)) {
            Ok(position) => position,
            Err(position) => {
                let entry = Entry {
                    element: element.clone(),
                    member: false,
                    children: Self::default(),
                };
                entries.insert(position, entry);
                position
            }
        };
        if let Some(entry) = entries.get_mut(position) {
            if rest.is_empty() {
                entry.member = true;
            } else {
                entry.children.insert(rest);
            }
        }
    }

    /// Fields in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (None, _) => other.clone(),
            (_, None) => self.clone(),
            (Some(one), Some(two)) if Arc::ptr_eq(one, two) => self.clone(),
            _ => self.zip::<Union>(other),
        }
    }

    /// Fields in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return Self::default();
        }
        self.zip::<Intersection>(other)
    }

    /// Fields in this and not in the other; taking away a field leaves what is beneath it.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        self.zip::<Difference>(other)
    }

    /// Fields in this and neither in the other nor beneath one of the other.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        self.zip::<RecursiveDifference>(other)
    }

    /// Whether each field of this is in the other.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        if let (Some(one), Some(two)) = (&self.0, &other.0)
            && Arc::ptr_eq(one, two)
        {
            return true;
        }
        let mut others = other.entries().iter();
        self.entries().iter().all(|entry| {
            others
                .by_ref()
                .find(|candidate| candidate.element >= entry.element)
                .is_some_and(|candidate| {
                    candidate.element == entry.element
                        && (candidate.member || !entry.member)
                        && entry.children.is_subset(&candidate.children)
                })
        })
    }

    fn zip<R: Rule>(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.entries(), other.entries());
        let mut out = Vec::with_capacity(if R::KEEPS_RIGHT {
            left.len() + right.len()
        } else {
            left.len()
        });
        while let (Some((one, left_rest)), Some((two, right_rest))) = (left.split_first(), right.split_first()) {
            match one.element.cmp(&two.element) {
                Ordering::Less => {
                    if R::KEEPS_LEFT {
                        out.push(one.clone());
                    }
                    left = left_rest;
                }
                Ordering::Greater => {
                    if R::KEEPS_RIGHT {
                        out.push(two.clone());
                    }
                    right = right_rest;
                }
                Ordering::Equal => {
                    let entry = R::both(one, two);
                    if !entry.is_void() {
                        out.push(entry);
                    }
                    (left, right) = (left_rest, right_rest);
                }
            }
        }
        if R::KEEPS_LEFT {
            out.extend_from_slice(left);
        }
        if R::KEEPS_RIGHT {
            out.extend_from_slice(right);
        }
        Self::from_sorted(out)
    }

    /// All members: those of a level first, then those beneath them.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        fn walk(set: &FieldSet, prefix: &mut Vec<PathElement>, found: &mut Vec<Path>) {
            for entry in set.entries().iter().filter(|entry| entry.member) {
                prefix.push(entry.element.clone());
                found.push(Path(prefix.clone()));
                prefix.pop();
            }
            for entry in set.entries() {
                prefix.push(entry.element.clone());
                walk(&entry.children, prefix, found);
                prefix.pop();
            }
        }
        let mut found = Vec::new();
        walk(self, &mut Vec::new(), &mut found);
        found
    }
}

/// Collects the entries of one level in any order.
#[derive(Default)]
pub(crate) struct Builder {
    entries: Vec<Entry>,
}

impl Builder {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            entries: Vec::with_capacity(capacity),
        }
    }

    pub(crate) fn push(&mut self, element: PathElement, member: bool, children: FieldSet) {
        if member || !children.is_empty() {
            self.entries.push(Entry {
                element,
                member,
                children,
            });
        }
    }

    pub(crate) fn build(mut self) -> FieldSet {
        if !self.entries.is_sorted_by(|one, other| one.element < other.element) {
            self.entries.sort_by(|one, other| one.element.cmp(&other.element));
            self.entries.dedup_by(|later, earlier| {
                let same = later.element == earlier.element;
                if same {
                    earlier.member |= later.member;
                    earlier.children = earlier.children.union(&later.children);
                }
                same
            });
        }
        FieldSet::from_sorted(self.entries)
    }
}
