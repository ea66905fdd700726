//! In which order objects of one batch are written, and which may be taken away together.

use crate::object::Gvk;

/// Rank of a kind within one batch: namespaces first, then CustomResourceDefinitions, then the rest.
pub fn rank(gvk: &Gvk) -> u8 {
    match (gvk.group(), gvk.kind.as_str()) {
        ("", "Namespace") => 0,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 1,
        _ => 2,
    }
}

/// Whether the control plane itself looks after the kind.
///
/// An object of any other kind may have a finalizer that only a controller in the cluster can lift, so it is seen gone
/// before the next object (perhaps that controller) is touched. Built-in kinds of one batch go together instead: a
/// PersistentVolumeClaim waits for the pods that use it, and waiting for the claim first would never end.
pub fn is_built_in(gvk: &Gvk) -> bool {
    matches!(
        gvk.group(),
        "" | "apps"
            | "batch"
            | "autoscaling"
            | "policy"
            | "rbac.authorization.k8s.io"
            | "networking.k8s.io"
            | "storage.k8s.io"
            | "scheduling.k8s.io"
            | "coordination.k8s.io"
            | "discovery.k8s.io"
            | "node.k8s.io"
            | "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "certificates.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "events.k8s.io"
    )
}
