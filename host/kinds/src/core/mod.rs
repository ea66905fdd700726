//! The kinds of the group without a name that are no workloads.

mod config_map;
mod namespace;
mod persistent_volume_claim;
mod resource_quota;
mod secret;
mod service;
mod service_account;

pub(crate) use config_map::ConfigMap;
pub(crate) use namespace::Namespace;
pub(crate) use persistent_volume_claim::{PersistentVolumeClaim, claim_warnings, default_claim, validate_claim_spec};
pub(crate) use resource_quota::ResourceQuota;
pub(crate) use secret::Secret;
pub(crate) use service::Service;
pub(crate) use service_account::ServiceAccount;

/// All keys and values of a ConfigMap or a Secret together, in bytes.
const MAX_SIZE: usize = 1024 * 1024;
