//! Clusters. Everything that reaches an API server of a remote passes `guard`, then `effects`, then `answers`.
//!
//! A [`ClusterScope`] is one cluster for one call of one step: it checks the grant on every act, enters what is about to be
//! written in the ledger first, and turns answers into decisions. [`Remotes`] gives scopes out: it takes the step's claim,
//! reads the credential by its own strict type, and checks that the cluster is still the one it was. [`RecordStore`] keeps
//! the ledgers, [`Watches`] tells when what a step named has changed. Knows kube, and no WebAssembly.

mod answers;
mod argocd;
mod bounds;
mod breaker;
mod change;
mod claims;
mod connection;
mod create;
mod desk;
mod discovery;
mod effects;
mod fence;
pub mod finalizer;
mod gate;
mod guard;
mod hub;
mod instance;
pub mod kubeconfig;
mod ledger;
mod life;
mod look;
mod records;
mod remotes;
mod renewal;
mod resolve;
mod scope;
mod undo;
mod watches;
mod wire;

pub use answers::Answer;
pub use argocd::ArgoCd;
pub use claims::{Admission, ClaimKey, ClaimStore, Holder, Owner, OwnerKind};
pub use connection::{Connection, ConnectionError, connect, connect_config};
pub use desk::{OnHub, Registrar, Unregistered};
pub use discovery::Served;
pub use fence::WriteFence;
pub use hub::Hub;
pub use instance::InstanceIdentity;
pub use kubeconfig::{KubeconfigError, RemoteEndpoint};
pub use life::{RemoteKey, waits};
pub use look::{Blind, Sight, facts_of};
pub use records::RecordStore;
pub use remotes::{GrantOf, Left, Remotes, StepContext, known};
pub use scope::{ClusterScope, ScopeOptions};
pub use watches::{Subscriber, Watches};
