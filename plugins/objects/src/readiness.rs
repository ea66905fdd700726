//! Whether all objects are ready, and what is said and watched while they are not.

use chandlery_plugin::prelude::*;

use crate::plan::{Item, Plan};
use crate::report::sentence;

/// Kinds that are ready as soon as they are there: no question to the cluster is spent on them.
const AT_ONCE: [(&str, &str); 14] = [
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("", "LimitRange"),
    ("", "ResourceQuota"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("networking.k8s.io", "IngressClass"),
];

/// What the call comes to, unless all objects are ready. A custom resource that tells nothing counts as ready.
pub(crate) fn wait(on: &Cluster, plan: &Plan) -> Option<Result<Outcome>> {
    let asked: Vec<&Item> = plan.items.iter().filter(|item| !is_ready_at_once(&item.name)).collect();
    let states = on.assess_all(asked.iter().map(|item| item.name.clone()));
    let mut waiting = Vec::new();
    for (item, state) in asked.iter().zip(states) {
        let why = match state {
            Err(error) => return Some(Err(error.into())),
            Ok(state) if state.is_ready() => continue,
            // A Job that failed stays failed; a Deployment past its deadline may still come up.
            Ok(Readiness::Failed(why)) if item.name.kind == "Job" => {
                return Some(Err(Failure::terminal(format!("{}: {why}", item.name))));
            }
            Ok(state) => why(state),
        };
        waiting.push((item, why));
    }
    if waiting.is_empty() {
        return None;
    }
    let message = sentence(waiting.iter().map(|(item, why)| format!("{}: {why}", item.name)));
    Some(
        Outcome::wait("WaitingForReady", message)
            .watch_all(waiting.iter().map(|(item, _)| item.name.clone()))
            .into(),
    )
}

/// What to say of an object that is not ready.
pub(crate) fn why(state: Readiness) -> String {
    match state {
        Readiness::Failed(why) | Readiness::Progressing(why) => why,
        Readiness::Absent => "is not there".to_owned(),
        Readiness::Terminating => "is being deleted".to_owned(),
        Readiness::Ready | Readiness::Unknown => "is ready".to_owned(),
    }
}

fn is_ready_at_once(name: &ObjectRef) -> bool {
    AT_ONCE.contains(&(name.group(), name.kind.as_str()))
}
