//! Pod: after it is made, little of it can change.

use serde_json::{Value, json};

use super::defaults::{default_spec, drop_disabled};
use super::{spec, warnings};
use crate::document::{
    at, default, elements_mut, is_true, keep, list, map_mut, member_mut, number, object, present, set, text,
};
use crate::fault::Fault;
use crate::kind::{Cell, Kind};
use crate::quantity::Quantity;
use crate::strategy::Strategy;
use crate::{meta, names, table};

/// The kind.
pub(crate) struct Pod;

static STRATEGY: Strategy = Strategy::new("", "Pod")
    .counts_spec()
    .unconditional()
    .status_apart(&["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"])
    .selected_by(&[
        "spec.nodeName",
        "spec.host",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ])
    .answers_with_deleted();
/// The resources that the class of a pod depends on.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// How well the pod's resources are known, which decides who goes first when they are short.
fn quality(pod: &Value) -> &'static str {
    let spec = at(pod, &["spec"]);
    let amount = |container: &Value, kind: &str, name: &str| {
        Quantity::parse(at(container, &["resources", kind, name]).as_str().unwrap_or_default())
            .filter(|amount| !amount.is_zero())
            .map(Quantity::nano)
    };
    let mut asks = false;
    let mut is_guaranteed = true;
    for container in list(spec, "containers").chain(list(spec, "initContainers")) {
        for name in COMPUTE {
            let (request, limit) = (amount(container, "requests", name), amount(container, "limits", name));
            asks |= request.is_some() || limit.is_some();
            is_guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (asks, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn validate(pod: &Value) -> Vec<Fault> {
    let own = at(pod, &["spec"]);
    let mut faults = spec::validate_annotations(pod, "metadata.annotations");
    faults.extend(spec::validate_spec(own, true, "spec"));
    faults.extend(spec::validate_only_pods(own));
    faults
}

fn validate_containers(new: &Value, old: &Value, field: &str) -> (Vec<Fault>, bool) {
    if list(new, field).len() != list(old, field).len() {
        let fault = Fault::forbidden(format!("spec.{field}"), "pod updates may not add or remove containers");
        return (vec![fault], true);
    }
    let mut faults = Vec::new();
    for (index, container) in list(new, field).enumerate() {
        let image = text(container, "image");
        let field = format!("spec.{field}[{index}].image");
        if image.is_empty() {
            faults.push(Fault::required(field.as_str(), ""));
        }
        if image != image.trim() {
            faults.push(Fault::invalid(
                field,
                &image.into(),
                "must not have leading or trailing whitespace",
            ));
        }
    }
    (faults, false)
}

/// The new spec, with what may change as it was.
fn but_for_changeable(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    for field in ["containers", "initContainers"] {
        for (container, before) in elements_mut(&mut spec, field).zip(list(old, field)) {
            keep(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(&mut spec, old, field);
    }
    let grace = |spec: &Value| number(spec, "terminationGracePeriodSeconds");
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(&spec) == Some(1) {
        keep(&mut spec, old, "terminationGracePeriodSeconds");
    }
    spec
}

/// Where a pod may run can be narrowed while it is held back. What is allowed of it is taken out of `new`.
fn validate_placement(new: &mut Value, old: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let field = "nodeSelector";
    if new.get(field) != old.get(field) {
        let keeps = object(old.get(field)).all(|(key, value)| at(new, &[field, key]) == value);
        if !keeps {
            faults.push(Fault::invalid(
                "spec.nodeSelector",
                at(new, &[field]),
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            ));
        }
        keep(new, old, field);
    }
    faults
}

fn validate_spec_update(new: &Value, old: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for field in ["containers", "initContainers"] {
        let (wrong, stops) = validate_containers(new, old, field);
        faults.extend(wrong);
        if stops {
            return faults;
        }
    }
    let deadline = |spec: &Value| number(spec, "activeDeadlineSeconds");
    const DEADLINE: &str = "spec.activeDeadlineSeconds";
    match (deadline(new), deadline(old)) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            let why = names::out_of_range(0, i64::from(i32::MAX));
            faults.push(Fault::invalid(DEADLINE, &seconds.into(), &why));
            return faults;
        }
        (Some(seconds), Some(before)) if before < seconds => {
            faults.push(Fault::invalid(
                DEADLINE,
                &seconds.into(),
                "must be less than or equal to previous value",
            ));
            return faults;
        }
        (None, Some(_)) => faults.push(Fault::invalid(
            DEADLINE,
            &Value::Null,
            "must not update from a positive integer to nil value",
        )),
        _ => {}
    }
    let keeps = list(old, "tolerations").all(|before| {
        list(new, "tolerations").any(|toleration| {
            let rest = |value: &Value| {
                let mut rest = value.clone();
                set(&mut rest, "tolerationSeconds", None);
                rest
            };
            rest(toleration) == rest(before)
        })
    });
    if !keeps {
        faults.push(Fault::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    for (index, gate) in list(new, "schedulingGates").enumerate() {
        if !list(old, "schedulingGates").any(|before| before == gate) {
            faults.push(Fault::forbidden(
                format!("spec.schedulingGates[{index}].name"),
                &format!(
                    "only deletion is allowed, but found new scheduling gate '{}'",
                    text(gate, "name")
                ),
            ));
        }
    }
    let mut rest = but_for_changeable(new, old);
    if list(old, "schedulingGates").len() > 0 {
        faults.extend(validate_placement(&mut rest, old));
    }
    if rest != *old {
        // The server shows here how its inner types differ, which nobody can repeat.
        faults.push(Fault::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n",
        ));
    }
    faults
}

impl Kind for Pod {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, pod: &mut Value) {
        let spec = member_mut(pod, "spec");
        default_spec(spec);
        let host_network = is_true(spec, "hostNetwork");
        for field in ["containers", "initContainers"] {
            for container in elements_mut(spec, field) {
                request_what_is_limited(container);
                if !host_network {
                    continue;
                }
                for port in elements_mut(container, "ports") {
                    let own = at(port, &["containerPort"]).clone();
                    if number(port, "hostPort").unwrap_or_default() == 0 {
                        set(port, "hostPort", Some(own));
                    }
                }
            }
        }
        default(spec, "enableServiceLinks", true);
    }

    fn prepare_create(&self, pod: &mut Value) {
        let mut status = json!({"phase": "Pending", "qosClass": quality(pod)});
        if list(at(pod, &["spec"]), "schedulingGates").len() > 0 {
            set(
                &mut status,
                "conditions",
                Some(json!([{
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": null,
                    "lastTransitionTime": at(pod, &["metadata", "creationTimestamp"]),
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }])),
            );
        }
        set(pod, "status", Some(status));
        let spec = member_mut(pod, "spec");
        drop_disabled(spec);
        if number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
            set(spec, "terminationGracePeriodSeconds", Some(1.into()));
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        drop_disabled(member_mut(new, "spec"));
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        let metadata = member_mut(new, "metadata");
        for field in ["deletionTimestamp", "ownerReferences"] {
            keep(metadata, at(old, &["metadata"]), field);
        }
        let status = member_mut(new, "status");
        if text(status, "qosClass").is_empty() {
            keep(status, at(old, &["status"]), "qosClass");
        }
    }

    fn validate(&self, pod: &Value) -> Vec<Fault> {
        let own = at(pod, &["spec"]);
        let mut faults = meta::unknown_finalizers(pod);
        faults.extend(validate(pod));
        if list(own, "ephemeralContainers").len() > 0 {
            faults.push(Fault::forbidden("spec.ephemeralContainers", "cannot be set on create"));
        }
        if !text(own, "nodeName").is_empty() && list(own, "schedulingGates").len() > 0 {
            faults.push(Fault::forbidden(
                "spec.nodeName",
                "cannot be set until all schedulingGates have been cleared",
            ));
        }
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(meta::validate_again(new, true, &names::subdomain));
        faults.extend(validate(new));
        faults.extend(validate_spec_update(at(new, &["spec"]), at(old, &["spec"])));
        faults
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let mut warnings: Vec<String> = warnings::hostname_warning(new, "the Pod's hostname")
            .into_iter()
            .collect();
        warnings.extend(warnings::template_warnings(new, ""));
        warnings
    }

    fn grace(&self, pod: &Value) -> Option<i64> {
        let spec = at(pod, &["spec"]);
        let is_over = matches!(text(at(pod, &["status"]), "phase"), "Failed" | "Succeeded");
        if text(spec, "nodeName").is_empty() || is_over {
            return Some(0);
        }
        match number(spec, "terminationGracePeriodSeconds").unwrap_or_default() {
            seconds if seconds < 0 => Some(1),
            seconds => Some(seconds),
        }
    }

    fn row(&self, pod: &Value, now: i64) -> Vec<Cell> {
        row(pod, now)
    }
}

fn request_what_is_limited(container: &mut Value) {
    let limits: Vec<(String, Value)> = object(container.pointer("/resources/limits"))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    if limits.is_empty() {
        return;
    }
    let requests = map_mut(member_mut(member_mut(container, "resources"), "requests"));
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// How a container ended, in a word.
fn ending(ended: &Value) -> String {
    match (text(ended, "reason"), number(ended, "signal").unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", number(ended, "exitCode").unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// What is told of a pod while it goes through its containers.
#[derive(Default)]
struct Told {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: Option<String>,
}

impl Told {
    fn count_restarts(&mut self, status: &Value) {
        self.restarts += number(status, "restartCount").unwrap_or_default();
        let ended = text(at(status, &["lastState", "terminated"]), "finishedAt");
        if !ended.is_empty() && self.last_restart.as_deref().is_none_or(|last| last < ended) {
            self.last_restart = Some(ended.to_owned());
        }
    }
}

fn row(pod: &Value, now: i64) -> Vec<Cell> {
    let (spec, status) = (at(pod, &["spec"]), at(pod, &["status"]));
    let conditions = || list(status, "conditions");
    let is_true_condition =
        |kind: &str| conditions().any(|one| text(one, "type") == kind && text(one, "status") == "True");
    let mut told = Told {
        reason: match text(status, "reason") {
            "" => text(status, "phase").to_owned(),
            reason => reason.to_owned(),
        },
        ..Told::default()
    };
    if conditions().any(|one| text(one, "type") == "PodScheduled" && text(one, "reason") == "SchedulingGated") {
        told.reason = "SchedulingGated".to_owned();
    }
    let stays = |container: &Value| text(container, "restartPolicy") == "Always";
    let staying: Vec<&str> = list(spec, "initContainers")
        .filter(|container| stays(container))
        .map(|container| text(container, "name"))
        .collect();
    let total = list(spec, "containers").len() + staying.len();
    let (sidecars, initialises) = tell_initial(&mut told, status, &staying, list(spec, "initContainers").len());
    if !initialises || is_true_condition("Initialized") {
        told.restarts = sidecars.restarts;
        told.last_restart = sidecars.last_restart;
        let runs = tell_running(&mut told, status);
        if told.reason == "Completed" && runs {
            told.reason = if is_true_condition("Ready") {
                "Running"
            } else {
                "NotReady"
            }
            .to_owned();
        }
    }
    let is_deleting = !at(pod, &["metadata", "deletionTimestamp"]).is_null();
    if is_deleting && text(status, "reason") == "NodeLost" {
        told.reason = "Unknown".to_owned();
    } else if is_deleting && !matches!(text(status, "phase"), "Failed" | "Succeeded") {
        told.reason = "Terminating".to_owned();
    }
    let restarts = match &told.last_restart {
        Some(last) if told.restarts != 0 => {
            format!("{} ({} ago)", told.restarts, table::since(&last.as_str().into(), now))
        }
        _ => told.restarts.to_string(),
    };
    let or_none = |value: &str| Cell::from(if value.is_empty() { table::NONE } else { value });
    let gates = list(spec, "readinessGates").len();
    let open = list(spec, "readinessGates")
        .filter(|gate| is_true_condition(text(gate, "conditionType")))
        .count();
    vec![
        table::name(pod),
        format!("{}/{total}", told.ready).into(),
        told.reason.into(),
        restarts.into(),
        table::created(pod, now),
        or_none(
            list(status, "podIPs")
                .next()
                .map(|ip| text(ip, "ip"))
                .unwrap_or_default(),
        ),
        or_none(text(spec, "nodeName")),
        or_none(text(status, "nominatedNodeName")),
        if gates == 0 {
            table::NONE.into()
        } else {
            format!("{open}/{gates}").into()
        },
    ]
}

/// Goes through the containers that prepare; answers with the restarts of those that stay, and whether one still runs.
fn tell_initial(told: &mut Told, status: &Value, staying: &[&str], total: usize) -> (Told, bool) {
    let mut sidecars = Told::default();
    for (index, container) in list(status, "initContainerStatuses").enumerate() {
        told.count_restarts(container);
        let stays = staying.contains(&text(container, "name"));
        if stays {
            sidecars.count_restarts(container);
        }
        let state = at(container, &["state"]);
        let ended = present(state, "terminated");
        if ended.is_some_and(|ended| number(ended, "exitCode").unwrap_or_default() == 0) {
            continue;
        }
        if stays && is_true(container, "started") {
            told.ready += usize::from(is_true(container, "ready"));
            continue;
        }
        let waits = text(at(state, &["waiting"]), "reason");
        told.reason = match ended {
            Some(ended) => format!("Init:{}", ending(ended)),
            None if !matches!(waits, "" | "PodInitializing") => format!("Init:{waits}"),
            None => format!("Init:{index}/{total}"),
        };
        return (sidecars, true);
    }
    (sidecars, false)
}

/// Goes through the containers that run, from the last to the first; answers whether one does.
fn tell_running(told: &mut Told, status: &Value) -> bool {
    let mut runs = false;
    for container in list(status, "containerStatuses").rev() {
        told.count_restarts(container);
        let state = at(container, &["state"]);
        let waits = text(at(state, &["waiting"]), "reason");
        if !waits.is_empty() {
            told.reason = waits.to_owned();
        } else if let Some(ended) = present(state, "terminated") {
            told.reason = ending(ended);
        } else if is_true(container, "ready") && present(state, "running").is_some() {
            runs = true;
            told.ready += 1;
        }
    }
    runs
}
