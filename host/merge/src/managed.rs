//! The list `metadata.managedFields`: who set which fields, through which version, when.

use std::cmp::Ordering;

use serde_json::{Map, Value};
use smol_str::SmolStr;
use thiserror::Error;

use crate::fields::{FieldSet, FieldsError};

/// How many managers that update are told apart, as in every API server.
const MAX_UPDATE_MANAGERS: usize = 10;
/// Who stands for those that are not.
const OLD_UPDATES: &str = "ancient-changes";

/// Who writes, and how it is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The name of the manager; `unknown` is recorded for an empty one.
    pub manager: &'a str,
    /// Group and version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
    /// The moment of the request in RFC 3339 with seconds, in UTC.
    pub time: &'a str,
    /// Fields that this endpoint resets and therefore nobody comes to own through it, such as `.status`.
    pub reset_fields: Option<&'a FieldSet>,
}

/// How a manager came to its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

/// One manager and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) manager: SmolStr,
    pub(crate) operation: Operation,
    pub(crate) subresource: SmolStr,
    pub(crate) api_version: SmolStr,
    pub(crate) time: Option<SmolStr>,
    pub(crate) fields: FieldSet,
}

/// Why a list of managed fields cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManagedError {
    /// Neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// No type of fields.
    #[error("missing fieldsType in managed fields entry {0}")]
    FieldsTypeMissing(usize),
    /// A type of fields that is none.
    #[error("invalid fieldsType {given} in managed fields entry {position}")]
    FieldsType {
        /// In quotes.
        given: String,
        /// Position in the list.
        position: usize,
    },
    /// The fields cannot be read.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
    /// Not a list of objects.
    #[error("reading managed fields: not a list of objects")]
    NotAList,
}

/// Who owns what in one object, in the order of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    pub(crate) entries: Vec<Entry>,
}

impl Entry {
    /// Whether the other is the same manager: one that applies is the same at every version.
    pub(crate) fn is_same_manager(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The text by which a server tells managers apart, and sorts them in messages.
    pub(crate) fn identifier(&self) -> String {
        let mut out = String::from("{");
        let mut write = |name: &str, value: &str| {
            if !value.is_empty() {
                if out.len() > 1 {
                    out.push(',');
                }
                out.push_str(&format!("\"{name}\":{}", Value::from(value)));
            }
        };
        write("manager", &self.manager);
        write("operation", self.operation.name());
        if self.operation == Operation::Update {
            write("apiVersion", &self.api_version);
        }
        write("subresource", &self.subresource);
        out.push('}');
        out
    }

    /// The manager as a conflict names it. A server would add the time, but has forgotten it by then.
    pub(crate) fn printed(&self) -> String {
        let mut out = crate::value::quoted(&self.manager);
        if !self.subresource.is_empty() {
            out.push_str(" with subresource ");
            crate::value::quote(&mut out, &self.subresource);
        }
        if self.operation == Operation::Update {
            out.push_str(" using ");
            out.push_str(&self.api_version);
        }
        out
    }

    fn server_order(&self, other: &Self) -> Ordering {
        self.operation
            .cmp(&other.operation)
            .then_with(|| self.time.cmp(&other.time))
            .then_with(|| self.manager.cmp(&other.manager))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }

    fn read(value: &Value, position: usize) -> Result<Self, ManagedError> {
        let object = value.as_object().ok_or(ManagedError::NotAList)?;
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagedError::Operation),
        };
        if text("apiVersion").is_empty() {
            return Err(ManagedError::ApiVersion);
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(ManagedError::FieldsTypeMissing(position)),
            other => {
                return Err(ManagedError::FieldsType {
                    given: crate::value::quoted(other),
                    position,
                });
            }
        }
        Ok(Self {
            manager: SmolStr::new(text("manager")),
            operation,
            subresource: SmolStr::new(text("subresource")),
            api_version: SmolStr::new(text("apiVersion")),
            time: object.get("time").and_then(Value::as_str).map(SmolStr::new),
            fields: FieldSet::from_value(object.get("fieldsV1").unwrap_or(&Value::Null))?,
        })
    }

    fn write(&self) -> Value {
        let mut object = Map::new();
        let mut write = |name: &str, value: &str| {
            if !value.is_empty() {
                object.insert(name.to_owned(), Value::from(value));
            }
        };
        write("apiVersion", &self.api_version);
        write("fieldsType", "FieldsV1");
        write("manager", &self.manager);
        write("operation", self.operation.name());
        write("subresource", &self.subresource);
        write("time", self.time.as_deref().unwrap_or_default());
        object.insert("fieldsV1".to_owned(), self.fields.to_value());
        Value::Object(object)
    }
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl Writer<'_> {
    /// The entry of this writer, without fields and time.
    pub(crate) fn entry(&self, operation: Operation) -> Entry {
        let manager = if self.manager.is_empty() {
            "unknown"
        } else {
            self.manager
        };
        Entry {
            manager: SmolStr::new(manager),
            operation,
            subresource: SmolStr::new(self.subresource),
            api_version: SmolStr::new(self.api_version),
            time: None,
            fields: FieldSet::default(),
        }
    }
}

fn list_of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

impl Managed {
    /// Reads `metadata.managedFields` of an object.
    ///
    /// # Errors
    /// If an entry is not complete or its fields cannot be read.
    pub fn of_object(object: &Value) -> Result<Self, ManagedError> {
        let entries = match list_of(object) {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(ManagedError::NotAList),
        };
        let mut managed = Self::default();
        for (position, entry) in entries.iter().enumerate() {
            managed.put(Entry::read(entry, position)?);
        }
        managed.sort();
        Ok(managed)
    }

    /// The managers an update starts from: those sent with it, if they are sound and it may set them; else those there
    /// are. An empty list, or one empty entry, asks for none.
    pub(crate) fn for_update(live: &Value, live_managed: Option<&Self>, new: &Value, is_subresource: bool) -> Self {
        let of_live = || match live_managed {
            Some(managed) => managed.clone(),
            None => Self::of_object(live).unwrap_or_default(),
        };
        if is_subresource {
            return of_live();
        }
        if let Some(Value::Array(sent)) = list_of(new) {
            let asks_for_none = match sent.as_slice() {
                [] => true,
                [only] => only.as_object().is_some_and(Map::is_empty),
                _ => false,
            };
            if asks_for_none {
                return Self::default();
            }
        }
        match Self::of_object(new) {
            Ok(managed) if !managed.entries.is_empty() => managed,
            _ => of_live(),
        }
    }

    /// Writes `metadata.managedFields` of an object; without a manager the field is removed.
    pub fn write_to(&self, object: &mut Value) {
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return;
        };
        if self.entries.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), self.to_value());
        }
    }

    /// The list as it stands in an object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.entries.iter().map(Entry::write).collect()
    }

    /// Whether nobody owns anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether only times differ. A server that finds the rest of the object the same then keeps what it has.
    #[must_use]
    pub fn is_same_but_for_times(&self, other: &Self) -> bool {
        let same = |one: &Entry, other: &Entry| {
            one.is_same_manager(other) && one.api_version == other.api_version && one.fields == other.fields
        };
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|(one, other)| same(one, other))
    }

    pub(crate) fn position(&self, entry: &Entry) -> Option<usize> {
        self.entries
            .iter()
            .position(|candidate| candidate.is_same_manager(entry))
    }

    pub(crate) fn get(&self, entry: &Entry) -> Option<&Entry> {
        self.entries.iter().find(|candidate| candidate.is_same_manager(entry))
    }

    /// Sets the entry of a manager.
    pub(crate) fn put(&mut self, entry: Entry) {
        match self
            .entries
            .iter_mut()
            .find(|candidate| candidate.is_same_manager(&entry))
        {
            Some(found) => *found = entry,
            None => self.entries.push(entry),
        }
    }

    pub(crate) fn take(&mut self, entry: &Entry) -> Option<Entry> {
        self.position(entry).map(|position| self.entries.remove(position))
    }

    pub(crate) fn sort(&mut self) {
        self.entries.sort_by(Entry::server_order);
    }

    /// At most ten managers that update are told apart; the oldest of a version become one.
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<Entry> = self
            .entries
            .iter()
            .filter(|entry| entry.operation == Operation::Update)
            .cloned()
            .collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        updaters.sort_by_cached_key(|entry| (entry.time.clone(), entry.identifier()));
        let mut firsts: Vec<Entry> = Vec::new();
        for entry in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                break;
            }
            let Some(first) = firsts.iter().find(|first| first.api_version == entry.api_version) else {
                firsts.push(entry);
                continue;
            };
            let mut bucket = Entry {
                manager: SmolStr::new_static(OLD_UPDATES),
                subresource: SmolStr::default(),
                fields: FieldSet::default(),
                ..entry.clone()
            };
            match self.get(&bucket) {
                Some(found) => bucket.fields = found.fields.clone(),
                None => {
                    if let Some(first) = self.take(first) {
                        bucket.fields = first.fields;
                    }
                }
            }
            bucket.fields = entry.fields.union(&bucket.fields);
            self.put(bucket);
            self.take(&entry);
            count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(managers: &Value) -> Value {
        json!({ "metadata": { "managedFields": managers } })
    }

    fn entry(manager: &str, operation: &str, time: &str) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": { "f:data": { format!("f:{manager}"): {} } },
        })
    }

    #[test]
    fn managers_that_apply_come_first_and_the_older_before_the_newer() {
        let managed = Managed::of_object(&object(&json!([
            entry("b", "Update", "2026-01-01T00:00:02Z"),
            entry("c", "Update", "2026-01-01T00:00:01Z"),
            entry("z", "Apply", "2026-01-01T00:00:09Z"),
        ])))
        .unwrap();
        let order: Vec<_> = managed.entries.iter().map(|entry| entry.manager.as_str()).collect();
        assert_eq!(order, ["z", "c", "b"]);
        let mut written = json!({ "metadata": {} });
        managed.write_to(&mut written);
        assert_eq!(Managed::of_object(&written).unwrap(), managed);
    }

    #[test]
    fn the_eleventh_manager_that_updates_makes_the_two_oldest_one() {
        let list: Value = (0..11)
            .map(|second| {
                entry(
                    &format!("m{second:02}"),
                    "Update",
                    &format!("2026-01-01T00:00:{second:02}Z"),
                )
            })
            .collect();
        let mut managed = Managed::of_object(&object(&list)).unwrap();
        managed.cap();
        managed.sort();
        assert_eq!(managed.entries.len(), 10);
        let oldest = &managed.entries[0];
        assert_eq!(oldest.manager, "ancient-changes");
        assert_eq!(oldest.time.as_deref(), Some("2026-01-01T00:00:01Z"));
        assert_eq!(
            oldest.fields.to_value(),
            json!({ "f:data": { "f:m00": {}, "f:m01": {} } })
        );
    }

    #[test]
    fn an_empty_list_or_entry_forgets_all_and_an_unsound_list_is_ignored() {
        let live = object(&json!([entry("a", "Update", "2026-01-01T00:00:00Z")]));
        let after = |sent: Value| Managed::for_update(&live, None, &object(&sent), false);
        assert!(after(json!([])).is_empty());
        assert!(after(json!([{}])).is_empty());
        assert_eq!(
            after(json!([{ "operation": "Apply" }])),
            Managed::of_object(&live).unwrap()
        );
        assert_eq!(
            Managed::for_update(&live, None, &object(&json!([])), true),
            Managed::of_object(&live).unwrap()
        );
    }
}
