//! A hub and a remote beside each other, and a way for the hub's daemon into the remote.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, Kubectl};

/// The user that the daemon is in the remote; audit logs show it.
pub const REMOTE_USER: &str = "chandlery-remote";

/// Two control planes with audit logs.
pub struct Stage {
    /// Where the daemon's objects are.
    pub hub: ControlPlane,
    /// Where the steps run.
    pub remote: ControlPlane,
}

impl Stage {
    /// Starts both at the same time. `prefix` tells them from others on this machine.
    ///
    /// # Errors
    /// If one of them does not start.
    pub fn start(prefix: &str) -> Result<Self> {
        let start = |name: &'static str| {
            move || {
                ControlPlane::builder()
                    .name(format!("{prefix}-{name}"))
                    .audit_log(true)
                    .start()
            }
        };
        std::thread::scope(|scope| {
            let hub = scope.spawn(start("hub"));
            let remote = start("remote")();
            let hub = hub
                .join()
                .map_err(|_| anyhow::anyhow!("the thread that starts the hub has panicked"))?;
            Ok(Self {
                hub: hub?,
                remote: remote?,
            })
        })
    }

    /// The Secret with the remote's kubeconfig, as a RemoteCluster refers to it.
    ///
    /// # Errors
    /// If the remote gives no certificate.
    pub fn secret(&self, namespace: &str, name: &str) -> Result<Value> {
        let kubeconfig = self
            .remote
            .kubeconfig_for(REMOTE_USER, &["system:masters"])
            .context("making a way into the remote")?;
        Ok(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name},
            "stringData": {"value": kubeconfig}}),
        )
    }
}

/// Applies documents server-side, in one call of kubectl.
///
/// # Errors
/// If one of them is refused.
pub fn apply<'a>(kubectl: &Kubectl, documents: impl IntoIterator<Item = &'a Value>) -> Result<String> {
    let items: Vec<&Value> = documents.into_iter().collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    kubectl.text_with_input(["apply", "--server-side", "--filename=-"], &list)
}
