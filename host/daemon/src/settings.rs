//! Everything that can be set, in one struct, validated before any work.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Who this process says it is, on its Lease and on claims.
#[derive(Debug, Clone)]
pub enum Identity {
    /// A Pod, from the downward API.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// A process outside a cluster.
    Process,
}

/// How the daemon runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Kubeconfig of the hub; the cluster this Pod runs in when absent.
    pub kubeconfig: Option<PathBuf>,
    /// Who this process is.
    pub identity: Identity,
    /// Where plugins of source `file` lie; no such source when absent.
    pub plugin_dir: Option<PathBuf>,
    /// Where components and their compiled form are kept.
    pub cache_dir: PathBuf,
    /// Namespace of the Lease.
    pub namespace: String,
    /// How long a Lease lasts that is not renewed, 3 s to 10 min. Renewed after a third of it; writes stop after three quarters.
    pub lease: Duration,
    /// Where probes and metrics are served; nowhere when absent.
    pub listen: Option<SocketAddr>,
    /// Accept remotes at loopback addresses: for tests and single machines.
    pub allow_loopback: bool,
    /// Accept kubeconfigs with a proxy. What is behind one cannot be judged by its address.
    pub allow_proxy: bool,
    /// Provisions worked on at the same time, at least 1.
    pub concurrent_provisions: u16,
    /// Steps of one provision that run at the same time, at least 1.
    pub concurrent_steps: u16,
    /// Program that compiles components in a process of its own (`PROGRAM compile-component IN OUT`); in this process when absent.
    pub compiler: Option<PathBuf>,
    /// How long a pass may still run after the signal to end.
    pub grace: Duration,
}

impl Settings {
    /// Checks what a type cannot.
    ///
    /// # Errors
    /// One sentence.
    pub fn validate(&self) -> Result<(), String> {
        if self.lease < Duration::from_secs(3) || self.lease > Duration::from_secs(600) {
            return Err("the lease must last 3 s to 10 min".into());
        }
        if self.concurrent_provisions == 0 || self.concurrent_steps == 0 {
            return Err("at least one provision and one step must be able to run".into());
        }
        if let Some(directory) = &self.plugin_dir
            && !directory.is_dir()
        {
            return Err(format!(
                "the plugin directory {} is not a directory",
                directory.display()
            ));
        }
        Ok(())
    }
}
