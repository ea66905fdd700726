//! The interface at which the simulator asks about a kind, and the table of the kinds that have an answer.

use serde_json::Value;

use crate::document;
use crate::fault::Fault;
use crate::meta;
use crate::strategy::{self, Strategy};
use crate::{apps, batch, core, definition, lease, network_policy, pods, rbac, table};

/// What is known of one built-in kind. Every method has the answer that suits a kind without rules of its own.
///
/// Objects are whole documents with `apiVersion`, `kind` and `metadata`, after structural decoding: unknown fields are
/// gone and structures that Go writes always are there. `metadata` itself is validated by the caller; a kind adds only
/// what is its own (for instance other rules for names, by [`Kind::validate_name`]).
pub trait Kind: Send + Sync {
    /// How the server treats the kind, apart from what is in its objects.
    fn strategy(&self) -> &Strategy {
        &strategy::PLAIN
    }

    /// Whether nothing is known of what is in the kind's objects.
    fn knows_only_structure(&self) -> bool {
        false
    }

    /// Whether `metadata.generation` counts changes of the spec.
    fn has_generation(&self) -> bool {
        self.strategy().generation.is_some()
    }

    /// Whether `metadata.generation` rises between `old` and `new`, both prepared; asked only if [`Kind::has_generation`].
    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        strategy::differs(self.strategy().generation.unwrap_or_default(), new, old)
    }

    /// Whether a PUT without a resource version is taken.
    fn allows_unconditional_update(&self) -> bool {
        self.strategy().unconditional
    }

    /// Whether a PUT on a name that does not exist creates.
    fn allows_create_on_update(&self) -> bool {
        self.strategy().create_on_update
    }

    /// Fields, as dotted paths, that a write to the main resource never owns (such as `status`).
    fn reset_by_main(&self) -> &[&'static str] {
        self.strategy().reset_by_main
    }

    /// Fields that a write to the status subresource never owns (such as `spec`).
    fn reset_by_status(&self) -> &[&'static str] {
        self.strategy().reset_by_status
    }

    /// What deserialisation fills in. Called on every decoded body, also on the result of a patch; idempotent.
    fn default(&self, _object: &mut Value) {}

    /// The status of an object that nobody has looked at yet: what Go writes of one that is empty.
    fn empty_status(&self) -> Value {
        strategy::empty_status(self.strategy().kind)
    }

    /// Before anything else of a write is looked at, also before a name: settles fields that hang together, and says what
    /// keeps them from being settled.
    fn settle(&self, _new: &mut Value, _old: Option<&Value>) -> Vec<Fault> {
        Vec::new()
    }

    /// Fills in what the server fills in each time it reads an object from where it is stored, and answers whether there was
    /// something.
    fn default_stored(&self, _object: &mut Value) -> bool {
        false
    }

    /// A warning that a deletion earns that does not say what becomes of dependents.
    fn careless_deletion(&self) -> Option<&'static str> {
        None
    }

    /// Before a create is validated: drops what a client may not set.
    fn prepare_create(&self, object: &mut Value) {
        // A Node's status comes with it.
        if self.reset_by_main().contains(&"status") && self.strategy().kind != "Node" {
            document::set(object, "status", Some(self.empty_status()));
        }
    }

    /// Before an update is validated: brings back what a client may not change.
    fn prepare_update(&self, new: &mut Value, old: &Value) {
        for field in self.reset_by_main() {
            document::keep(new, old, field);
        }
    }

    /// Before an update of the status is validated.
    fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        document::keep(new, old, "spec");
        if self.reset_by_status().contains(&"metadata") {
            keep_metadata(new, old);
        }
    }

    /// Why `name` may not be the name of such an object; `prefix` if it is a `generateName`.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        self.strategy().name.complaints(name, prefix)
    }

    /// What is wrong with a new object, in the server's order.
    fn validate(&self, _object: &Value) -> Vec<Fault> {
        Vec::new()
    }

    /// What is wrong with an update, in the server's order; says again what [`Kind::validate`] says where the server does.
    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        meta::validate_change_again(new, old)
    }

    /// What is wrong with an update of the status.
    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        meta::validate_change_again(new, old)
    }

    /// Headers of type Warning that a write earns.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// How long deletion waits by default, in seconds; `None` for kinds without graceful deletion.
    fn grace(&self, _object: &Value) -> Option<i64> {
        None
    }

    /// Whether a deletion that says nothing of dependents leaves them alone.
    fn orphans_by_default(&self) -> bool {
        matches!(
            (self.strategy().group, self.strategy().kind),
            ("batch", "Job") | ("", "ReplicationController")
        )
    }

    /// Whether the answer to a deletion is the object and not a status.
    fn returns_deleted(&self) -> bool {
        self.strategy().returns_deleted
    }

    /// Field selectors beside `metadata.name` and `metadata.namespace`, with the object's value of each.
    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let selectors = self.strategy().selectors.iter();
        selectors
            .map(|selector| (*selector, strategy::selected(object, selector)))
            .collect()
    }

    /// The names of the field selectors beside `metadata.name` and `metadata.namespace`.
    fn selectors(&self) -> &[&'static str] {
        self.strategy().selectors
    }

    /// The columns of a table; `None` for name and time of creation.
    fn columns(&self) -> Option<&'static [Column]> {
        let strategy = self.strategy();
        table::columns(strategy.group, strategy.kind)
    }

    /// The cells of an object's row, one a column. `now` is Unix time in seconds, for ages.
    fn row(&self, object: &Value, _now: i64) -> Vec<Cell> {
        // What the server shows of kinds that have nothing of their own to show.
        let created = document::at(object, &["metadata", "creationTimestamp"]).clone();
        vec![table::name(object), created]
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

/// What a write to the status leaves of the metadata where it may not touch it: the server keeps all but the owners of
/// fields.
fn keep_metadata(new: &mut Value, old: &Value) {
    let metadata = document::member_mut(new, "metadata");
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let before = old.get("metadata").and_then(|metadata| metadata.get(field));
        document::set(metadata, field, before.cloned());
    }
}

/// The kinds whose objects are known.
static KNOWN: &[&dyn Kind] = &[
    &core::Namespace,
    &core::ConfigMap,
    &core::Secret,
    &core::ServiceAccount,
    &definition::CustomResourceDefinition,
    &core::PersistentVolumeClaim,
    &core::ResourceQuota,
    &core::Service,
    &pods::Pod,
    &apps::Deployment,
    &apps::StatefulSet,
    &apps::DaemonSet,
    &apps::ReplicaSet,
    &batch::Job,
    &batch::CronJob,
    &network_policy::NetworkPolicy,
    &lease::Lease,
    &rbac::ROLES,
    &rbac::CLUSTER_ROLES,
    &rbac::ROLE_BINDINGS,
    &rbac::CLUSTER_ROLE_BINDINGS,
];

/// What is known of a kind; `None` if it is no kind of the server at all.
pub fn of(group: &str, kind: &str) -> Option<&'static dyn Kind> {
    let table = strategy::STRUCTURE_ONLY.iter();
    let table = table.map(|strategy| -> &'static dyn Kind { strategy });
    KNOWN
        .iter()
        .copied()
        .chain(table)
        .find(|known| known.strategy().group == group && known.strategy().kind == kind)
}
