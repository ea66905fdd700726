//! An in-memory Kubernetes API that a real API server cannot be told from; believed only because it is compared with one.
//!
//! A [`World`] is a cluster at one moment: a value, cheap to clone, that answers one request after another and knows no
//! time but its own. A [`Simulator`] puts one behind the interface of a client ([`tower::Service`]), with watches as
//! streams. What is left out is listed in the crate's README, and asking for it is answered with an error that says so.

mod access;
mod actors;
mod admission;
mod allocation;
mod base;
mod catalog;
mod commit;
mod custom;
mod decode;
mod delete;
mod discovery;
pub mod faults;
mod form;
mod ids;
mod json;
mod judge;
mod object;
mod options;
mod ownership;
mod protobuf;
mod read;
mod reply;
mod request;
mod script;
mod selector;
mod serve;
mod service;
mod settings;
mod status;
mod store;
mod structure;
mod subresources;
mod table;
mod tokens;
mod watch;
mod world;
mod write;

pub use access::User;
pub use base::Release;
pub use script::{ApiServiceScript, JobScript, Outcome, Script};
pub use serve::{ServeError, Server};
pub use service::{Body, Clock, Simulator};
pub use settings::Settings;
pub use world::World;
