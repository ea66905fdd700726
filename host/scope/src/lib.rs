//! Clusters. Everything that reaches an API server of a remote passes `guard`, then `effects`, then `answers`.
//!
//! A [`ClusterScope`] is one cluster for one call of one step: it checks the grant on every act, enters what is about to be
//! written in the ledger first, and turns answers into decisions. [`Remotes`] gives scopes out: it takes the step's claim,
//! reads the credential by its own strict type, and checks that the cluster is still the one it was. [`RecordStore`] keeps
//! the ledgers, [`Watches`] tells when what a step named has changed. Knows kube, and no WebAssembly.

mod answers;
mod bounds;
mod breaker;
mod change;
pub mod claims;
mod connection;
mod create;
mod discovery;
mod effects;
mod fence;
mod gate;
mod guard;
mod hub;
pub mod kubeconfig;
mod ledger;
mod records;
mod remotes;
mod resolve;
mod scope;
mod undo;
mod watches;
mod wire;

pub use answers::Answer;
pub use claims::{ClaimStore, InstanceIdentity};
pub use connection::{Connection, ConnectionError, connect, connect_config};
pub use discovery::Served;
pub use fence::WriteFence;
pub use hub::{Hub, Sight, facts_of};
pub use kubeconfig::{KubeconfigError, RemoteEndpoint};
pub use records::RecordStore;
pub use remotes::{GrantOf, Remotes, StepContext};
pub use scope::{ClusterScope, ScopeOptions};
pub use watches::{Subscriber, Watches};
