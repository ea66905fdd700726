//! The contract of plugins, bound once; nothing else in the host knows how its types look in WIT.
//!
//! [`convert`] turns them into the words of `core` and back. JSON crosses as text: it is read here, with an error that says
//! which document was unreadable and why.

pub mod convert;

use std::sync::Arc;

use chandlery_core::cluster::ClusterAccess;

/// What the host keeps for the one `cluster` handle of a call.
pub struct ClusterHandle(pub Arc<dyn ClusterAccess>);

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        with: { "chandlery:provision/cluster.cluster": crate::ClusterHandle },
        additional_derives: [PartialEq],
    });
}

pub use generated::chandlery::provision::{cluster, log, types};
pub use generated::exports::chandlery::provision::provisioner;
pub use generated::{Plugin, PluginPre};

/// Package and version of the contract, as a component names it in imports and exports.
pub const PACKAGE: &str = "chandlery:provision";
/// Version of the contract.
pub const VERSION: &str = "0.1.0";
