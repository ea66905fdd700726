//! The interface at which the simulator asks about a kind, and the table of the kinds that have an answer.

use serde_json::Value;

use crate::fault::Fault;

/// What is known of one built-in kind. Every method has the answer that suits a kind without rules of its own.
///
/// Objects are whole documents with `apiVersion`, `kind` and `metadata`, after structural decoding: unknown fields are
/// gone and structures that Go writes always are there. `metadata` itself is validated by the caller; a kind adds only
/// what is its own (for instance other rules for names, by [`Kind::validate_name`]).
pub trait Kind: Send + Sync {
    /// Whether `metadata.generation` counts changes of the spec.
    fn has_generation(&self) -> bool {
        false
    }

    /// Whether `metadata.generation` rises between `old` and `new`, both prepared; asked only if [`Kind::has_generation`].
    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        new.get("spec") != old.get("spec")
    }

    /// Whether a PUT without a resource version is taken.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Whether a PUT on a name that does not exist creates.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Fields, as dotted paths, that a write to the main resource never owns (such as `status`).
    fn reset_by_main(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fields that a write to the status subresource never owns (such as `spec`).
    fn reset_by_status(&self) -> &'static [&'static str] {
        &[]
    }

    /// What deserialisation fills in. Called on every decoded body, also on the result of a patch; idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Before a create is validated: drops what a client may not set.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Before an update is validated: brings back what a client may not change.
    fn prepare_update(&self, _new: &mut Value, _old: &Value) {}

    /// Before an update of the status is validated.
    fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        if let (Some(new), Some(spec)) = (new.as_object_mut(), old.get("spec")) {
            new.insert("spec".to_owned(), spec.clone());
        }
    }

    /// Why `name` may not be the name of such an object; `prefix` if it is a `generateName`.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        crate::names::subdomain(name, prefix)
    }

    /// What is wrong with a new object, in the server's order.
    fn validate(&self, _object: &Value) -> Vec<Fault> {
        Vec::new()
    }

    /// What is wrong with an update, in the server's order; says again what [`Kind::validate`] says where the server does.
    fn validate_update(&self, _new: &Value, _old: &Value) -> Vec<Fault> {
        Vec::new()
    }

    /// What is wrong with an update of the status.
    fn validate_status_update(&self, _new: &Value, _old: &Value) -> Vec<Fault> {
        Vec::new()
    }

    /// Headers of type Warning that a write earns.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// How long deletion waits by default, in seconds; `None` for kinds without graceful deletion.
    fn grace(&self, _object: &Value) -> Option<i64> {
        None
    }

    /// Whether the answer to a deletion is the object and not a status.
    fn returns_deleted(&self) -> bool {
        false
    }

    /// Field selectors beside `metadata.name` and `metadata.namespace`, with the object's value of each.
    fn selectable(&self, _object: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The names of the field selectors beside `metadata.name` and `metadata.namespace`.
    fn selectors(&self) -> &'static [&'static str] {
        &[]
    }

    /// The columns of a table; `None` for name and age.
    fn columns(&self) -> Option<&'static [Column]> {
        None
    }

    /// The cells of an object's row, one a column. `now` is Unix time in seconds, for ages.
    fn row(&self, _object: &Value, _now: i64) -> Vec<Cell> {
        Vec::new()
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// `string`, `integer`, …
    pub kind: &'static str,
    /// `name` for the first, else empty.
    pub format: &'static str,
    /// What it shows.
    pub description: &'static str,
    /// 0 is always shown, 1 only when wide.
    pub priority: u8,
}

/// The content of a cell.
pub type Cell = Value;

/// A kind without rules of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Kind for Plain {}

/// What is known of a kind; `None` if only its structure is known.
pub fn of(group: &str, kind: &str) -> Option<&'static dyn Kind> {
    let _ = (group, kind);
    None
}
