//! Job: its pods are told from those of others by labels that the server makes up.

use serde_json::{Map, Value, json};

use crate::document::{at, default, is_true, keep, list, map_mut, member_mut, number, object, present, set, text};
use crate::fault::{Fault, FaultKind};
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{meta, names, pods, selector, table};

/// The kind.
pub(crate) struct Job;

static STRATEGY: Strategy = Strategy::new("batch", "Job")
    .counts_spec()
    .unconditional()
    .status_apart(&["spec"])
    .selected_by(&["status.successful"]);
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const INDEXED: &str = "Indexed";
const NOT_INDEXED: &str = "NonIndexed";
const MAX_INDEXED: i64 = 100_000;
const MANAGED_BY_LENGTH: usize = 63;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

/// Fills in the spec of a Job, or of a template of one, but for what only a Job gets.
pub(super) fn default_template(spec: &mut Value) {
    pods::default_spec(member_mut(member_mut(spec, "template"), "spec"));
    if let Some(rules) = spec
        .pointer_mut("/podFailurePolicy/rules")
        .and_then(Value::as_array_mut)
    {
        for rule in rules {
            for pattern in crate::document::elements_mut(rule, "onPodConditions") {
                default(pattern, "status", "True");
            }
        }
    }
}

/// What is wrong with the spec of a Job, or of a template of one.
pub(super) fn validate_spec(spec: &Value, field: &str) -> Vec<Fault> {
    let at_field = |name: &str| format!("{field}.{name}");
    let count = |name: &str| number(spec, name);
    let mut faults: Vec<Fault> = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ]
    .iter()
    .filter_map(|name| meta::negative(spec.get(*name), &at_field(name)))
    .collect();
    if count("maxFailedIndexes").is_some() && count("backoffLimitPerIndex").is_none() {
        faults.push(Fault::required(
            at_field("backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        ));
    }
    if let Some(manager) = spec.get("managedBy").and_then(Value::as_str) {
        faults.extend(validate_manager(manager, &at_field("managedBy")));
    }
    faults.extend(validate_mode(spec, field));
    let policy = present(spec, "podFailurePolicy");
    if let Some(policy) = policy {
        faults.extend(validate_failure_policy(spec, policy, &at_field("podFailurePolicy")));
    }
    if let Some(policy) = present(spec, "successPolicy")
        && text(spec, "completionMode") != INDEXED
    {
        faults.push(Fault::invalid(
            at_field("successPolicy"),
            policy,
            "requires indexed completion mode",
        ));
    }
    if let Some(replacement) = spec.get("podReplacementPolicy").and_then(Value::as_str) {
        let known: &[&str] = if policy.is_some() {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        if !known.contains(&replacement) {
            faults.push(Fault::not_supported(
                at_field("podReplacementPolicy"),
                &replacement.into(),
                known,
            ));
        }
    }
    faults.extend(pods::validate_template(at(spec, &["template"]), &at_field("template")));
    let restart = text(at(spec, &["template", "spec"]), "restartPolicy");
    let restart_field = at_field("template.spec.restartPolicy");
    match restart {
        "Always" | "" => faults.push(Fault::required(restart_field, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if policy.is_some() => faults.push(Fault::invalid(
            restart_field,
            &restart.into(),
            "only \"Never\" is supported when podFailurePolicy is specified",
        )),
        "OnFailure" | "Never" => {}
        _ => faults.push(Fault::not_supported(
            restart_field,
            &restart.into(),
            &["OnFailure", "Never"],
        )),
    }
    faults
}

fn validate_manager(manager: &str, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    if manager.is_empty() {
        return vec![Fault::required(field, "")];
    }
    match manager
        .split_once('/')
        .filter(|(host, path)| !host.is_empty() && !path.is_empty())
    {
        None => faults.push(Fault::invalid(
            field,
            &manager.into(),
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        )),
        Some((host, path)) => {
            faults.extend(Fault::each(field, host, names::dns_subdomain(host)));
            faults.extend(Fault::each(field, path, names::http_path(path)));
        }
    }
    if manager.len() > MANAGED_BY_LENGTH {
        faults.push(Fault::too_long(field, MANAGED_BY_LENGTH));
    }
    faults
}

/// What must hold of counts because of how completions are told apart.
fn validate_mode(spec: &Value, field: &str) -> Vec<Fault> {
    let at_field = |name: &str| format!("{field}.{name}");
    let count = |name: &str| number(spec, name);
    let mode = text(spec, "completionMode");
    let mut faults = Vec::new();
    if !matches!(mode, "" | INDEXED | NOT_INDEXED) {
        faults.push(Fault::not_supported(
            at_field("completionMode"),
            &mode.into(),
            &[NOT_INDEXED, INDEXED],
        ));
    }
    if mode == INDEXED {
        if count("completions").is_none() {
            faults.push(Fault::required(
                at_field("completions"),
                "when completion mode is Indexed",
            ));
        }
        if let Some(parallel) = count("parallelism").filter(|parallel| *parallel > MAX_INDEXED) {
            faults.push(Fault::invalid(
                at_field("parallelism"),
                &parallel.into(),
                "must be less than or equal to 100000 when completion mode is Indexed",
            ));
        }
        if let (Some(most), Some(all)) = (count("maxFailedIndexes"), count("completions"))
            && most > all
        {
            faults.push(Fault::invalid(
                at_field("maxFailedIndexes"),
                &most.into(),
                "must be less than or equal to completions",
            ));
        }
    }
    if matches!(mode, "" | NOT_INDEXED) {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = present(spec, name) {
                faults.push(Fault::invalid(
                    at_field(name),
                    value,
                    "requires indexed completion mode",
                ));
            }
        }
    }
    faults
}

fn validate_failure_policy(spec: &Value, policy: &Value, field: &str) -> Vec<Fault> {
    let template = at(spec, &["template", "spec"]);
    let containers: Vec<&str> = list(template, "containers")
        .chain(list(template, "initContainers"))
        .map(|container| text(container, "name"))
        .collect();
    let mut faults = Vec::new();
    for (index, rule) in list(policy, "rules").enumerate() {
        let field = format!("{field}.rules[{index}]");
        let action = text(rule, "action");
        let of_action = format!("{field}.action");
        if action.is_empty() {
            faults.push(Fault::required(
                of_action,
                "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
            ));
        } else if action == "FailIndex" {
            if present(spec, "backoffLimitPerIndex").is_none() {
                faults.push(Fault::invalid(
                    of_action,
                    &action.into(),
                    "requires the backoffLimitPerIndex to be set",
                ));
            }
        } else if !ACTIONS.contains(&action) {
            faults.push(Fault::not_supported(of_action, &action.into(), &ACTIONS));
        }
        let codes = present(rule, "onExitCodes");
        if let Some(codes) = codes {
            faults.extend(validate_codes(codes, &containers, &format!("{field}.onExitCodes")));
        }
        for (index, pattern) in list(rule, "onPodConditions").enumerate() {
            let kind = text(pattern, "type");
            faults.extend(Fault::each(
                &format!("{field}.onPodConditions[{index}].type"),
                kind,
                names::qualified_name(kind),
            ));
        }
        let why = match (codes.is_some(), list(rule, "onPodConditions").len() > 0) {
            (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        faults.push(Fault {
            kind: FaultKind::Invalid,
            field,
            message: format!("Invalid value: {why}"),
        });
    }
    faults
}

fn validate_codes(codes: &Value, containers: &[&str], field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let operator = text(codes, "operator");
    if operator.is_empty() {
        faults.push(Fault::required(
            format!("{field}.operator"),
            "valid values: [\"In\" \"NotIn\"]",
        ));
    } else if !matches!(operator, "In" | "NotIn") {
        faults.push(Fault::not_supported(
            format!("{field}.operator"),
            &operator.into(),
            &["In", "NotIn"],
        ));
    }
    if let Some(name) = codes.get("containerName").and_then(Value::as_str)
        && !containers.contains(&name)
    {
        faults.push(Fault::invalid(
            format!("{field}.containerName"),
            &name.into(),
            "must be one of the container or initContainer names in the pod template",
        ));
    }
    let all = at(codes, &["values"]);
    let values: Vec<i64> = list(codes, "values").filter_map(Value::as_i64).collect();
    if values.is_empty() {
        faults.push(Fault::invalid(
            format!("{field}.values"),
            all,
            "at least one value is required",
        ));
    }
    for (index, value) in values.iter().enumerate() {
        let field = format!("{field}.values[{index}]");
        if operator == "In" && *value == 0 {
            faults.push(Fault::invalid(
                field.as_str(),
                &0.into(),
                "must not be 0 for the In operator",
            ));
        }
        if values.iter().take(index).any(|before| before == value) {
            faults.push(Fault::duplicate(field, &(*value).into()));
        }
    }
    if !values.is_sorted() {
        faults.push(Fault::invalid(format!("{field}.values"), all, "must be ordered"));
    }
    faults
}

/// What is wrong with the labels that the server made up, where a client interfered.
fn validate_generated(job: &Value) -> Vec<Fault> {
    let spec = at(job, &["spec"]);
    if is_true(spec, "manualSelector") || present(spec, "selector").is_none() {
        return Vec::new();
    }
    let metadata = at(job, &["metadata"]);
    let (uid, name) = (text(metadata, "uid"), text(metadata, "name"));
    let labels = at(spec, &["template", "metadata", "labels"]);
    let mut faults = Vec::new();
    for (key, wanted) in [
        (UID_LABELS[0], uid),
        (NAME_LABELS[0], name),
        (UID_LABELS[1], uid),
        (NAME_LABELS[1], name),
    ] {
        let field = "spec.template.metadata.labels";
        match labels.get(key).and_then(Value::as_str) {
            None => faults.push(Fault::required(
                format!("{field}[{key}]"),
                &format!("must be '{wanted}'"),
            )),
            Some(there) if there != wanted => faults.push(Fault::invalid(
                format!("{field}[{key}]"),
                labels,
                &format!("must be '{wanted}'"),
            )),
            Some(_) => {}
        }
    }
    let expected = json!({
        (UID_LABELS[0]): uid,
        (UID_LABELS[1]): uid,
        (NAME_LABELS[0]): name,
        (NAME_LABELS[1]): name,
    });
    let own = at(spec, &["selector"]);
    if selector::validate(own, "").is_empty() && !selector::matches(own, Some(&expected)) {
        faults.push(Fault::shown_as(
            FaultKind::Invalid,
            "spec.selector",
            &selector::shown(own),
            "`selector` not auto-generated",
        ));
    }
    faults
}

fn validate_selected(spec: &Value) -> Vec<Fault> {
    let mut faults = validate_spec(spec, "spec");
    let own = present(spec, "selector");
    match own {
        None => faults.push(Fault::required("spec.selector", "")),
        Some(own) => faults.extend(selector::validate(own, "spec.selector")),
    }
    let labels = at(spec, &["template", "metadata", "labels"]);
    let is_usable = own.is_none_or(|own| selector::validate(own, "").is_empty());
    if is_usable && !own.is_some_and(|own| selector::matches(own, Some(labels))) {
        faults.push(Fault::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    faults
}

/// Makes up the labels by which the job's pods are known.
fn generate_selector(job: &mut Value) {
    if is_true(at(job, &["spec"]), "manualSelector") {
        return;
    }
    let metadata = at(job, &["metadata"]);
    let (uid, name) = (text(metadata, "uid").to_owned(), text(metadata, "name").to_owned());
    let spec = member_mut(job, "spec");
    let labels = map_mut(member_mut(
        member_mut(member_mut(spec, "template"), "metadata"),
        "labels",
    ));
    for (keys, value) in [(NAME_LABELS, &name), (UID_LABELS, &uid)] {
        for key in keys {
            labels.entry(key.to_owned()).or_insert_with(|| value.as_str().into());
        }
    }
    let own = map_mut(member_mut(member_mut(spec, "selector"), "matchLabels"));
    own.entry(UID_LABELS[1].to_owned()).or_insert_with(|| uid.into());
}

/// The spec without what may change while a job waits to begin.
fn but_for_scheduling(template: &Value) -> Value {
    let mut rest = template.clone();
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        set(member_mut(&mut rest, "spec"), field, None);
    }
    for field in ["annotations", "labels"] {
        set(member_mut(&mut rest, "metadata"), field, None);
    }
    if let Some(affinity) = rest.pointer_mut("/spec/affinity") {
        set(affinity, "nodeAffinity", None);
        if affinity.as_object().is_some_and(Map::is_empty) {
            set(member_mut(&mut rest, "spec"), "affinity", None);
        }
    }
    rest
}

/// A Job without labels has those of its template. Answers whether it got them.
fn inherit_labels(job: &mut Value, labels: Option<Value>) -> bool {
    let labels = labels.filter(|labels| labels.as_object().is_some_and(|labels| !labels.is_empty()));
    let metadata = member_mut(job, "metadata");
    if labels.is_none() || object(metadata.get("labels")).next().is_some() {
        return false;
    }
    set(metadata, "labels", labels);
    true
}

fn has_condition(job: &Value, kind: &str) -> bool {
    list(at(job, &["status"]), "conditions").any(|one| text(one, "type") == kind && text(one, "status") == "True")
}

impl Kind for Job {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, job: &mut Value) {
        let labels = job.pointer("/spec/template/metadata/labels").cloned();
        let spec = member_mut(job, "spec");
        if present(spec, "completions").is_none() && present(spec, "parallelism").is_none() {
            set(spec, "completions", Some(1.into()));
        }
        default(spec, "parallelism", 1);
        let per_index = present(spec, "backoffLimitPerIndex").is_some();
        default(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
        default(spec, "completionMode", NOT_INDEXED);
        default(spec, "suspend", false);
        let policy = if present(spec, "podFailurePolicy").is_some() {
            "Failed"
        } else {
            "TerminatingOrFailed"
        };
        default(spec, "podReplacementPolicy", policy);
        default(spec, "manualSelector", false);
        default_template(spec);
        inherit_labels(job, labels);
    }

    fn default_stored(&self, job: &mut Value) -> bool {
        let labels = job.pointer("/spec/template/metadata/labels").cloned();
        inherit_labels(job, labels)
    }

    fn careless_deletion(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn prepare_create(&self, job: &mut Value) {
        // Labels that were taken from the template are the same map there, and what is added to one is added to both.
        let labels = |job: &Value| at(job, &["spec", "template", "metadata", "labels"]).clone();
        let is_shared = labels(job).is_object() && labels(job) == *at(job, &["metadata", "labels"]);
        generate_selector(job);
        if is_shared {
            let all = labels(job);
            set(member_mut(job, "metadata"), "labels", Some(all));
        }
        set(job, "status", Some(json!({})));
        pods::drop_disabled(member_mut(member_mut(member_mut(job, "spec"), "template"), "spec"));
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        pods::drop_disabled(member_mut(member_mut(member_mut(new, "spec"), "template"), "spec"));
    }

    fn validate(&self, job: &Value) -> Vec<Fault> {
        let spec = at(job, &["spec"]);
        let mut faults = meta::unknown_finalizers(job);
        faults.extend(validate_generated(job));
        faults.extend(validate_selected(spec));
        let completions = number(spec, "completions").unwrap_or_default();
        if text(spec, "completionMode") == INDEXED && completions > 0 {
            let name = text(at(job, &["metadata"]), "name");
            let last = format!("{name}-{}", completions - 1);
            if !names::dns_label(&last).is_empty() {
                faults.push(Fault::invalid(
                    "metadata.name",
                    &name.into(),
                    &format!("will not able to create pod with invalid DNS label: {last}"),
                ));
            }
        }
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let (now, before) = (at(new, &["spec"]), at(old, &["spec"]));
        let mut faults = meta::validate(new, true, &names::subdomain);
        faults.extend(self.validate(new));
        faults.extend(meta::validate_change_again(new, old));
        faults.extend(validate_selected(now));
        let changed = |field: &str| at(now, &[field]) != at(before, &[field]);
        if changed("completions") {
            let value = at(now, &["completions"]);
            if text(now, "completionMode") != INDEXED {
                faults.push(Fault::immutable("spec.completions", value));
            } else if !value.is_null() && value != at(now, &["parallelism"]) {
                faults.push(Fault::invalid(
                    "spec.completions",
                    value,
                    "can only be modified in tandem with spec.parallelism",
                ));
            }
        }
        if changed("selector") {
            faults.push(Fault::shown_as(
                FaultKind::Invalid,
                "spec.selector",
                &selector::shown(at(now, &["selector"])),
                "field is immutable",
            ));
        }
        let waits = is_true(before, "suspend") && text(at(old, &["status"]), "startTime").is_empty();
        let template = |spec| {
            let template = at(spec, &["template"]);
            if waits {
                but_for_scheduling(template)
            } else {
                template.clone()
            }
        };
        if template(now) != template(before) {
            // The server shows the template of its inner type here.
            faults.push(Fault::immutable("spec.template", at(now, &["template"])));
        }
        for field in [
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
            "successPolicy",
        ] {
            if changed(field) {
                faults.push(Fault::immutable(format!("spec.{field}"), at(now, &[field])));
            }
        }
        faults
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        let status = at(new, &["status"]);
        faults.extend(
            ["active", "succeeded", "failed", "ready", "terminating"]
                .iter()
                .filter_map(|name| meta::negative(status.get(*name), &format!("status.{name}"))),
        );
        faults
    }

    fn selectable(&self, job: &Value) -> Vec<(&'static str, String)> {
        vec![(
            "status.successful",
            table::count(job, &["status", "succeeded"]).to_string(),
        )]
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(pods::hostname_warning(new, "Pod names and hostnames"));
        }
        let generation = |job: &Value| table::count(job, &["metadata", "generation"]);
        if old.is_none_or(|old| generation(new) != generation(old)) {
            warnings.extend(pods::template_warnings(
                at(new, &["spec", "template"]),
                "spec.template.",
            ));
        }
        warnings
    }

    fn row(&self, job: &Value, now: i64) -> Vec<Cell> {
        let (spec, status) = (at(job, &["spec"]), at(job, &["status"]));
        let succeeded = number(status, "succeeded").unwrap_or_default();
        let completions = match (
            number(spec, "completions"),
            number(spec, "parallelism").unwrap_or_default(),
        ) {
            (Some(all), _) => format!("{succeeded}/{all}"),
            (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
            (None, _) => format!("{succeeded}/1"),
        };
        let moment = |field: &str| table::seconds(at(status, &[field]));
        let duration = match (moment("startTime"), moment("completionTime")) {
            (None, _) => String::new(),
            (Some(start), end) => crate::age(end.unwrap_or(now) - start),
        };
        let is_deleting = !at(job, &["metadata", "deletionTimestamp"]).is_null();
        let state = [
            ("Complete", has_condition(job, "Complete")),
            ("Failed", has_condition(job, "Failed")),
            ("Terminating", is_deleting),
            ("Suspended", has_condition(job, "Suspended")),
            ("FailureTarget", has_condition(job, "FailureTarget")),
            ("SuccessCriteriaMet", has_condition(job, "SuccessCriteriaMet")),
        ]
        .iter()
        .find(|(_, holds)| *holds)
        .map_or("Running", |(state, _)| *state);
        let (containers, images) = table::containers(at(spec, &["template", "spec"]));
        vec![
            table::name(job),
            state.into(),
            completions.into(),
            duration.into(),
            table::created(job, now),
            containers.into(),
            images.into(),
            table::selector_or_none(at(spec, &["selector"])).into(),
        ]
    }
}
