//! Deployment.

use serde_json::{Value, json};

use super::{
    above_all, amount, container_cells, immutable_selector, not_above, not_fewer_collisions, not_negative,
    number_or_percent, prepare_template, shown_strategy, template_warnings, validate_replicated, validate_selector,
};
use crate::document::{at, default, keep, member_mut, number, present, set, text};
use crate::fault::{Fault, FaultKind};
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{meta, pods, table};

/// The kind.
pub(crate) struct Deployment;

static STRATEGY: Strategy = Strategy::new("apps", "Deployment")
    .counts(&["spec", "annotations"])
    .unconditional()
    .status_apart(&["spec", "metadata.labels"]);
const RECREATE: &str = "Recreate";
const ROLLING: &str = "RollingUpdate";

fn validate(object: &Value) -> Vec<Fault> {
    let spec = at(object, &["spec"]);
    let mut faults = not_negative(spec, &["replicas"], "spec");
    faults.extend(validate_selector(spec, "deployment"));
    faults.extend(validate_replicated(spec));
    faults.extend(validate_strategy(at(spec, &["strategy"])));
    faults.extend(not_negative(
        spec,
        &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
        "spec",
    ));
    let ready = number(spec, "minReadySeconds").unwrap_or_default();
    if number(spec, "progressDeadlineSeconds").is_some_and(|deadline| deadline <= ready) {
        faults.push(Fault::invalid(
            "spec.progressDeadlineSeconds",
            at(spec, &["progressDeadlineSeconds"]),
            "must be greater than minReadySeconds",
        ));
    }
    faults
}

fn validate_strategy(strategy: &Value) -> Vec<Fault> {
    const FIELD: &str = "spec.strategy.rollingUpdate";
    let rolling = at(strategy, &["rollingUpdate"]);
    match text(strategy, "type") {
        RECREATE if !rolling.is_null() => vec![Fault::forbidden(
            FIELD,
            "may not be specified when strategy `type` is 'Recreate'",
        )],
        RECREATE => Vec::new(),
        ROLLING => {
            let (unavailable, surge) = (at(rolling, &["maxUnavailable"]), at(rolling, &["maxSurge"]));
            let field = format!("{FIELD}.maxUnavailable");
            let mut faults = number_or_percent(unavailable, &field);
            faults.extend(number_or_percent(surge, &format!("{FIELD}.maxSurge")));
            if amount(unavailable) == 0 && amount(surge) == 0 {
                faults.push(Fault::invalid(
                    field.as_str(),
                    unavailable,
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
            faults.extend(above_all(unavailable, &field));
            faults
        }
        _ => {
            let shown = shown_strategy(
                strategy,
                &[("MaxUnavailable", "maxUnavailable"), ("MaxSurge", "maxSurge")],
            );
            vec![Fault::shown_as(
                FaultKind::NotSupported,
                "spec.strategy",
                &shown,
                "supported values: \"Recreate\", \"RollingUpdate\"",
            )]
        }
    }
}

impl Kind for Deployment {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        let spec = member_mut(object, "spec");
        pods::default_spec(member_mut(member_mut(spec, "template"), "spec"));
        default(spec, "replicas", 1);
        let strategy = member_mut(spec, "strategy");
        default(strategy, "type", ROLLING);
        if text(strategy, "type") == ROLLING {
            default(strategy, "rollingUpdate", json!({}));
            let rolling = member_mut(strategy, "rollingUpdate");
            for field in ["maxUnavailable", "maxSurge"] {
                if present(rolling, field).is_none() {
                    set(rolling, field, Some("25%".into()));
                }
            }
        }
        default(spec, "revisionHistoryLimit", 10);
        default(spec, "progressDeadlineSeconds", 600);
    }

    fn prepare_create(&self, object: &mut Value) {
        set(object, "status", Some(self.empty_status()));
        prepare_template(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        prepare_template(new);
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        keep(member_mut(new, "metadata"), at(old, &["metadata"]), "labels");
        set(member_mut(new, "status"), "terminatingReplicas", None);
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate(object));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(validate(new));
        faults.extend(immutable_selector(new, old));
        faults
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let status = at(new, &["status"]);
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(not_negative(
            status,
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "collisionCount",
            ],
            "status",
        ));
        faults.extend(not_above(
            status,
            &[
                ("updatedReplicas", "replicas", "status.replicas"),
                ("readyReplicas", "replicas", "status.replicas"),
                ("availableReplicas", "replicas", "status.replicas"),
                ("availableReplicas", "readyReplicas", "readyReplicas"),
            ],
        ));
        faults.extend(not_fewer_collisions(new, old));
        faults
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(pods::hostname_warning(new, "Pod names and hostnames"));
        }
        warnings.extend(template_warnings(new, old));
        warnings
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Cell> {
        let count = |path: &[&str]| table::count(object, path);
        let [names, images] = container_cells(object);
        vec![
            table::name(object),
            format!(
                "{}/{}",
                count(&["status", "readyReplicas"]),
                count(&["spec", "replicas"])
            )
            .into(),
            count(&["status", "updatedReplicas"]).into(),
            count(&["status", "availableReplicas"]).into(),
            table::created(object, now),
            names,
            images,
            table::selector(at(object, &["spec", "selector"])).into(),
        ]
    }
}
