//! Everything a plugin's author needs, and nothing a host must trust: the host sees only the component.
//!
//! A plugin is a type that implements [`Provisioner`] under [`#[provisioner(…)]`](macro@provisioner). It describes a task
//! on one Kubernetes cluster; the host calls it, again and again, until the cluster is as the step's spec says:
//!
//! ```
//! use chandlery_plugin::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Spec {
//!     team: String,
//! }
//!
//! struct TeamNamespace;
//!
//! #[provisioner(name = "me.example/team-namespace", summary = "A namespace for a team.", needs = ["namespaces: get, create, patch"])]
//! impl Provisioner for TeamNamespace {
//!     type Spec = Spec;
//!
//!     fn provision(on: &Cluster, task: Task<Spec>) -> Result<Outcome> {
//!         let team = &task.spec.team;
//!         on.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}))?;
//!         Outcome::done().output("namespace", team).into()
//!     }
//! }
//! ```
//!
//! What it applied is taken away by the host when the step goes; it says nothing about that.

mod calls;
mod cluster;
mod errors;
mod export;
mod list;
mod log;
mod object;
mod outcome;
mod provisioner;
mod quantity;
mod schema;
pub mod testing;

/// The bindings of the contract, as generated. The rest of the crate is a friendlier form of them.
#[allow(missing_docs)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "wit",
        world: "plugin",
        additional_derives: [PartialEq],
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "chandlery_plugin::bindings",
    });
}

pub use bindings::chandlery::provision::cluster::{
    Deletion, DeletionState, Facts, JsonPatch, Propagation, Query, Readiness,
};
pub use bindings::chandlery::provision::log::Level;
pub use bindings::chandlery::provision::types::{CallError, ObjectRef, Problem};
pub use bindings::exports::chandlery::provision::provisioner::{Failure, Outcome, Rule};
pub use calls::{Calls, JsonText};
pub use chandlery_plugin_macros::provisioner;
pub use cluster::Cluster;
pub use errors::All;
pub use export::{Described, Exported, exports};
pub use list::Objects;
pub use log::write as write_log;
pub use object::object_ref;
pub use outcome::{DoneBuilder, WaitBuilder};
pub use provisioner::{Provisioner, Task};
pub use quantity::Quantity;
pub use {schemars, serde, serde_json};

/// A JSON document.
pub type Json = serde_json::Value;

/// What a plugin's functions answer; [`CallError`] becomes a [`Failure`] by `?`.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// What a plugin's source usually needs: `use chandlery_plugin::prelude::*;`.
pub mod prelude {
    pub use crate::{
        All, CallError, Cluster, Deletion, DeletionState, Facts, Failure, Json, JsonPatch, ObjectRef, Outcome, Problem,
        Propagation, Provisioner, Quantity, Query, Readiness, Result, Task, debug, error, info, object_ref,
        provisioner, warn,
    };
    pub use schemars::{self, JsonSchema};
    pub use serde::{self, Deserialize, Serialize};
    pub use serde_json::{self, json};
}
