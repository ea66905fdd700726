//! Chandlery's objects as Kubernetes sees them: types, schemas, conditions. The Rust types are the source, YAML is generated.
//!
//! No field is here before its behaviour is; none is accepted and ignored.

pub mod condition;
mod crds;
mod plugin;
mod provision;
mod remote_claim;
mod remote_cluster;
mod step_record;

pub use crds::{crds, crds_yaml};
pub use plugin::{
    AllowedNamespaces, ConfigMapSource, FileSource, Grants, Plugin, PluginSource, PluginSpec, PluginStatus,
};
pub use provision::{Provision, ProvisionObjectSpec, ProvisionStatus, StepStatus};
pub use remote_claim::{ClaimHolder, ClaimedRemote, ForeignKind, RemoteClaim, RemoteClaimSpec};
pub use remote_cluster::{
    ArgoCdSpec, Endpoint, LeftBehind, RegistrationSpec, RemoteCluster, RemoteClusterSpec, RemoteClusterStatus,
    RemotePhase, RemoteSource, SecretKeyRef, WhenUnreachable,
};
pub use step_record::{More, ProvisionRef, StepRecord, StepRecordSpec};
