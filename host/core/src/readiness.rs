//! Whether an object is ready, on evidence: the kstatus rules, with three exceptions.
//!
//! A Job is ready when complete; a LoadBalancer Service when it has an address; a custom resource when a condition says so
//! for its present generation. An object whose status lags its generation is progressing, whatever the status says.

use serde_json::Value;

use crate::cluster::Readiness;
use crate::object::{Gvk, finalizers, is_deleting};

/// Judges a whole object as read from the API.
pub fn of(object: &Value) -> Readiness {
    if is_deleting(object) {
        return Readiness::Terminating;
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let gvk = Gvk {
        api_version: text("/apiVersion").to_owned(),
        kind: text("/kind").to_owned(),
    };
    if let Some(lag) = status_lag(object) {
        return Readiness::Progressing(lag);
    }
    match (gvk.group(), gvk.kind.as_str()) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replica_set(object),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => phase_is(object, &["Bound"], &["Lost"]),
        ("", "PersistentVolume") => phase_is(object, &["Available", "Bound", "Released"], &["Failed"]),
        ("", "Namespace") => phase_is(object, &["Active"], &[]),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd(object),
        ("apiregistration.k8s.io", "APIService") => match condition(object, "Available") {
            Some(c) if c.status == "True" => Readiness::Ready,
            Some(c) => Readiness::Progressing(format!("not available: {}", c.text())),
            None => Readiness::Progressing("no condition Available yet".into()),
        },
        ("policy", "PodDisruptionBudget") => pod_disruption_budget(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => certificate_signing_request(object),
        (group, _) if crate::order::is_built_in(&gvk) || group.is_empty() => Readiness::Ready,
        _ => custom(object),
    }
}

/// One condition of an object's status.
struct Condition<'a> {
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl Condition<'_> {
    fn text(&self) -> String {
        let text = match (self.reason, self.message) {
            ("", "") => "no reason given".to_owned(),
            (reason, "") => reason.to_owned(),
            ("", message) => message.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        };
        one_line(&text)
    }
}

/// At most 300 characters on one line, none of which a terminal would obey: neither controls nor marks that change the
/// direction of what follows. What a cluster sends ends in conditions and logs.
pub fn one_line(text: &str) -> String {
    let obeyed = |c: &char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.chars().filter(|c| !obeyed(c)).collect::<String>())
        .filter(|word| !word.is_empty())
        .take(300)
        .collect();
    words.join(" ").chars().take(300).collect()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<Condition<'a>> {
    let list = object.pointer("/status/conditions")?.as_array()?;
    let found = list
        .iter()
        .find(|c| c.get("type").and_then(Value::as_str) == Some(kind))?;
    let text = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(Condition {
        status: text("status"),
        reason: text("reason"),
        message: text("message"),
    })
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Why a status is not of the present generation, if it is not.
fn status_lag(object: &Value) -> Option<String> {
    let generation = object.pointer("/metadata/generation")?.as_i64()?;
    let observed = object.pointer("/status/observedGeneration")?.as_i64()?;
    (observed < generation).then(|| format!("its controller has seen generation {observed} of {generation}"))
}

/// Whether a controller that always writes `observedGeneration` has written anything yet.
fn unobserved(object: &Value) -> Option<Readiness> {
    object
        .pointer("/status/observedGeneration")
        .is_none()
        .then(|| Readiness::Progressing("its controller has not looked at it yet".into()))
}

fn deployment(object: &Value) -> Readiness {
    if let Some(not_yet) = unobserved(object) {
        return not_yet;
    }
    if let Some(c) = condition(object, "Progressing")
        && c.reason == "ProgressDeadlineExceeded"
    {
        return Readiness::Failed(c.text());
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    replicas(
        object,
        wanted,
        &[("updatedReplicas", "updated"), ("availableReplicas", "available")],
    )
}

/// Compares status counts with the wanted number, and refuses surplus old replicas.
fn replicas(object: &Value, wanted: i64, counts: &[(&str, &str)]) -> Readiness {
    for (field, word) in counts {
        let have = number(object, &format!("/status/{field}"));
        if have < wanted {
            return Readiness::Progressing(format!("{have}/{wanted} {word}"));
        }
    }
    let all = number(object, "/status/replicas");
    if all > wanted {
        return Readiness::Progressing(format!("{} of an older version still to go", all - wanted));
    }
    Readiness::Ready
}

fn stateful_set(object: &Value) -> Readiness {
    if let Some(not_yet) = unobserved(object) {
        return not_yet;
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    if object.pointer("/spec/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete") {
        return replicas(object, wanted, &[("readyReplicas", "ready")]);
    }
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition");
    let updated = number(object, "/status/updatedReplicas");
    if updated < wanted - partition {
        return Readiness::Progressing(format!("{updated}/{} updated", wanted - partition));
    }
    if partition == 0 && object.pointer("/status/currentRevision") != object.pointer("/status/updateRevision") {
        return Readiness::Progressing("the update is still rolling out".into());
    }
    replicas(object, wanted, &[("readyReplicas", "ready")])
}

fn daemon_set(object: &Value) -> Readiness {
    if let Some(not_yet) = unobserved(object) {
        return not_yet;
    }
    let wanted = number(object, "/status/desiredNumberScheduled");
    for (field, word) in [("updatedNumberScheduled", "updated"), ("numberAvailable", "available")] {
        let have = number(object, &format!("/status/{field}"));
        if have < wanted {
            return Readiness::Progressing(format!("{have}/{wanted} {word}"));
        }
    }
    Readiness::Ready
}

fn replica_set(object: &Value) -> Readiness {
    if let Some(not_yet) = unobserved(object) {
        return not_yet;
    }
    if let Some(c) = condition(object, "ReplicaFailure")
        && c.status == "True"
    {
        return Readiness::Progressing(c.text());
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    replicas(object, wanted, &[("availableReplicas", "available")])
}

fn job(object: &Value) -> Readiness {
    if let Some(c) = condition(object, "Failed")
        && c.status == "True"
    {
        return Readiness::Failed(c.text());
    }
    match condition(object, "Complete") {
        Some(c) if c.status == "True" => Readiness::Ready,
        _ if object.pointer("/spec/suspend") == Some(&Value::Bool(true)) => Readiness::Progressing("suspended".into()),
        _ => Readiness::Progressing(format!(
            "{} succeeded, {} active",
            number(object, "/status/succeeded"),
            number(object, "/status/active")
        )),
    }
}

fn pod(object: &Value) -> Readiness {
    match object.pointer("/status/phase").and_then(Value::as_str) {
        Some("Succeeded") => Readiness::Ready,
        Some("Failed") => Readiness::Failed(one_line(
            object
                .pointer("/status/message")
                .and_then(Value::as_str)
                .unwrap_or("the pod failed"),
        )),
        _ => match condition(object, "Ready") {
            Some(c) if c.status == "True" => Readiness::Ready,
            _ => match condition(object, "PodScheduled") {
                Some(c) if c.status == "False" => Readiness::Progressing(format!("not scheduled: {}", c.text())),
                _ => Readiness::Progressing("its containers are not ready".into()),
            },
        },
    }
}

fn phase_is(object: &Value, good: &[&str], bad: &[&str]) -> Readiness {
    match object.pointer("/status/phase").and_then(Value::as_str) {
        Some(phase) if good.contains(&phase) => Readiness::Ready,
        Some(phase) if bad.contains(&phase) => Readiness::Failed(format!("phase {phase}")),
        Some(phase) => Readiness::Progressing(format!("phase {phase}")),
        None => Readiness::Progressing("no phase yet".into()),
    }
}

fn service(object: &Value) -> Readiness {
    if object.pointer("/spec/type").and_then(Value::as_str) != Some("LoadBalancer") {
        return Readiness::Ready;
    }
    match object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array) {
        Some(list) if !list.is_empty() => Readiness::Ready,
        _ => Readiness::Progressing("the load balancer has no address yet".into()),
    }
}

fn crd(object: &Value) -> Readiness {
    if let Some(c) = condition(object, "NamesAccepted")
        && c.status == "False"
    {
        return Readiness::Failed(c.text());
    }
    match condition(object, "Established") {
        Some(c) if c.status == "True" => Readiness::Ready,
        _ => Readiness::Progressing("not established yet".into()),
    }
}

fn pod_disruption_budget(object: &Value) -> Readiness {
    if let Some(not_yet) = unobserved(object) {
        return not_yet;
    }
    let (have, wanted) = (
        number(object, "/status/currentHealthy"),
        number(object, "/status/desiredHealthy"),
    );
    if have < wanted {
        Readiness::Progressing(format!("{have}/{wanted} healthy"))
    } else {
        Readiness::Ready
    }
}

fn certificate_signing_request(object: &Value) -> Readiness {
    for bad in ["Denied", "Failed"] {
        if let Some(c) = condition(object, bad)
            && c.status == "True"
        {
            return Readiness::Failed(c.text());
        }
    }
    match object.pointer("/status/certificate") {
        Some(Value::String(text)) if !text.is_empty() => Readiness::Ready,
        _ => Readiness::Progressing("no certificate yet".into()),
    }
}

/// A custom resource: its conditions `Stalled`, `Reconciling`, `Ready` (or `Available`, `Succeeded`) decide; a deprecated
/// or absent status tells nothing.
fn custom(object: &Value) -> Readiness {
    if let Some(c) = condition(object, "Stalled")
        && c.status == "True"
    {
        return Readiness::Failed(c.text());
    }
    if let Some(c) = condition(object, "Reconciling")
        && c.status == "True"
    {
        return Readiness::Progressing(c.text());
    }
    for kind in ["Ready", "Available", "Succeeded"] {
        if let Some(c) = condition(object, kind) {
            return match c.status {
                "True" => Readiness::Ready,
                _ => Readiness::Progressing(format!("{kind} is {}: {}", c.status, c.text())),
            };
        }
    }
    Readiness::Unknown
}

/// Why an object that is being deleted is still there.
pub fn deletion_holds(object: &Value) -> Vec<String> {
    finalizers(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn progressing(object: Value, words: &str) {
        match of(&object) {
            Readiness::Progressing(why) => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_deployment_is_ready_when_all_replicas_are_new_and_available() {
        let with = |status: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        progressing(with(json!({})), "not looked at it yet");
        progressing(
            with(json!({"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2, "replicas": 2})),
            "generation 1 of 2",
        );
        progressing(
            with(json!({"observedGeneration": 2, "updatedReplicas": 1, "replicas": 2})),
            "1/2 updated",
        );
        progressing(
            with(json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 1, "replicas": 2})),
            "1/2 available",
        );
        progressing(
            with(json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2, "replicas": 3})),
            "1 of an older version",
        );
        assert_eq!(
            of(&with(
                json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2, "replicas": 2})
            )),
            Readiness::Ready
        );
        let stuck = json!({"observedGeneration": 2, "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
        assert!(matches!(of(&with(stuck)), Readiness::Failed(_)));
    }

    #[test]
    fn a_deployment_scaled_to_zero_is_ready() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 1}, "spec": {"replicas": 0}, "status": {"observedGeneration": 1}});
        assert_eq!(of(&object), Readiness::Ready);
    }

    #[test]
    fn a_job_is_ready_only_when_complete() {
        let with = |status: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "status": status});
        progressing(with(json!({"active": 1})), "1 active");
        assert_eq!(
            of(&with(json!({"conditions": [{"type": "Complete", "status": "True"}]}))),
            Readiness::Ready
        );
        assert!(matches!(
            of(&with(
                json!({"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]})
            )),
            Readiness::Failed(_)
        ));
    }

    #[test]
    fn a_custom_resource_without_conditions_tells_nothing() {
        assert_eq!(
            of(&json!({"apiVersion": "x.example/v1", "kind": "Thing", "metadata": {}})),
            Readiness::Unknown
        );
        let stale = json!({"apiVersion": "x.example/v1", "kind": "Thing", "metadata": {"generation": 3},
            "status": {"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True"}]}});
        progressing(stale, "generation 2 of 3");
    }

    #[test]
    fn being_deleted_comes_before_everything_else() {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(of(&object), Readiness::Terminating);
    }

    #[test]
    fn plain_objects_are_ready_at_once() {
        for kind in ["ConfigMap", "Secret", "ServiceAccount"] {
            assert_eq!(
                of(&json!({"apiVersion": "v1", "kind": kind, "metadata": {}})),
                Readiness::Ready
            );
        }
    }
}
