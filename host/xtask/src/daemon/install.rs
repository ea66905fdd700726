//! What must be in a hub before a daemon can run on it: its kinds, its ServiceAccount, and that account's rights.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::control_plane::ControlPlane;

/// Namespace and name of the ServiceAccount, as `chandlery manifests` writes them.
const NAMESPACE: &str = "chandlery-system";
const ACCOUNT: &str = "chandlery";
/// Its user name in audit logs.
pub const USER: &str = "system:serviceaccount:chandlery-system:chandlery";

/// Puts into the hub what `chandlery crds` and `chandlery manifests` print, without the Deployment: there is no node that
/// could run it. Returns when all kinds are served.
///
/// # Errors
/// If the binary does not print them, or the hub does not take them.
pub fn install(hub: &ControlPlane, binary: &Path) -> Result<()> {
    let kubectl = hub.client();
    let crds = printed(binary, &["crds"])?;
    let apply = ["apply", "--server-side", "--filename=-"];
    kubectl.text_with_input(apply, &crds).context("installing the CRDs")?;
    let established = ["wait", "--for=condition=Established", "--timeout=30s", "--filename=-"];
    kubectl
        .text_with_input(established, &crds)
        .context("waiting until the CRDs are served")?;
    let manifests = without_deployment(&printed(binary, &["manifests"])?);
    kubectl
        .text_with_input(apply, &manifests)
        .context("installing what the daemon runs under")?;
    Ok(())
}

/// A kubeconfig with a token of the daemon's ServiceAccount, good for some hours. [`install`] comes first.
///
/// # Errors
/// If the hub gives no token.
pub fn identity_kubeconfig(hub: &ControlPlane) -> Result<String> {
    let namespace = format!("--namespace={NAMESPACE}");
    let token = hub
        .client()
        .text(["create", "token", ACCOUNT, &namespace, "--duration=8h"])
        .context("asking for a token of the daemon's ServiceAccount")?;
    Ok(hub.kubeconfig_with_token(token.trim()))
}

/// The objects that a verb of `chandlery` with these arguments prints as YAML.
///
/// # Errors
/// If it prints none.
pub fn printed_objects(binary: &Path, arguments: &[&str]) -> Result<Vec<Value>> {
    let text = printed(binary, arguments)?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("reading what chandlery {} prints", arguments.join(" ")))
}

fn printed(binary: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(binary)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", binary.display()))?;
    if !output.status.success() {
        bail!(
            "chandlery {} ended with {}\n{}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("reading what chandlery {} prints as text", arguments.join(" ")))
}

/// The documents of a YAML stream but for the Deployment.
fn without_deployment(stream: &str) -> String {
    let documents = stream
        .split("---\n")
        .filter(|document| !document.lines().any(|line| line == "kind: Deployment"));
    documents.collect::<Vec<_>>().join("---\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_documents_but_the_deployment_stay() {
        let stream = "---\nkind: Namespace\n---\nkind: Deployment\nspec:\n  kind: x\n---\nrules:\n- kind: Deployment\nkind: Role\n";
        assert_eq!(
            without_deployment(stream),
            "---\nkind: Namespace\n---\nrules:\n- kind: Deployment\nkind: Role\n"
        );
    }
}
