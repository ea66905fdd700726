//! DaemonSet.

use serde_json::{Value, json};

use super::{
    TEMPLATE, above_all, amount, container_cells, empty_selector, immutable_selector, is_usable, not_fewer_collisions,
    not_negative, number_or_percent, prepare_template, shown_strategy, template_warnings, validate_endless,
    validate_labels,
};
use crate::document::{at, default, member_mut, present, set, text};
use crate::fault::{Fault, FaultKind};
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{meta, pods, selector, table};

/// The kind.
pub(crate) struct DaemonSet;

static STRATEGY: Strategy = Strategy::new("apps", "DaemonSet")
    .counts_spec()
    .unconditional()
    .status_apart(&["spec"]);
const ROLLING: &str = "RollingUpdate";
/// Counts changes of the template, where it is seen in this version of the API.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(object: &mut Value, generation: i64) {
    let annotations = member_mut(member_mut(object, "metadata"), "annotations");
    set(annotations, TEMPLATE_GENERATION, Some(generation.to_string().into()));
}

fn template_generation(object: &Value) -> i64 {
    text(at(object, &["metadata", "annotations"]), TEMPLATE_GENERATION)
        .parse()
        .unwrap_or_default()
}

fn validate(object: &Value) -> Vec<Fault> {
    let spec = at(object, &["spec"]);
    let mut faults = Vec::new();
    let own = present(spec, "selector");
    faults.extend(
        own.map(|own| selector::validate(own, "spec.selector"))
            .unwrap_or_default(),
    );
    if is_usable(spec) {
        faults.extend(validate_labels(spec));
    }
    if let Some(own) = own.filter(|own| selector::is_empty(own)) {
        faults.push(empty_selector(own, "daemonset"));
    }
    faults.extend(pods::validate_template(at(spec, &["template"]), TEMPLATE));
    faults.extend(validate_endless(spec, "DaemonSet"));
    faults.extend(not_negative(spec, &["minReadySeconds"], "spec"));
    faults.extend(validate_strategy(at(spec, &["updateStrategy"])));
    faults.extend(not_negative(spec, &["revisionHistoryLimit"], "spec"));
    faults
}

fn validate_strategy(strategy: &Value) -> Vec<Fault> {
    const FIELD: &str = "spec.updateStrategy.rollingUpdate";
    match text(strategy, "type") {
        "OnDelete" => Vec::new(),
        ROLLING => {
            let (unavailable, surge) = (
                at(strategy, &["rollingUpdate", "maxUnavailable"]),
                at(strategy, &["rollingUpdate", "maxSurge"]),
            );
            let (of_unavailable, of_surge) = (format!("{FIELD}.maxUnavailable"), format!("{FIELD}.maxSurge"));
            let mut faults = number_or_percent(unavailable, &of_unavailable);
            faults.extend(number_or_percent(surge, &of_surge));
            faults.extend(above_all(unavailable, &of_unavailable));
            faults.extend(above_all(surge, &of_surge));
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => faults.push(Fault::invalid(
                    of_surge,
                    surge,
                    "may not be set when maxUnavailable is non-zero",
                )),
                (false, false) => faults.push(Fault::required(of_unavailable, "cannot be 0 when maxSurge is 0")),
                _ => {}
            }
            faults
        }
        _ => vec![Fault::shown_as(
            FaultKind::NotSupported,
            "spec.updateStrategy",
            &shown_strategy(
                strategy,
                &[("MaxUnavailable", "maxUnavailable"), ("MaxSurge", "maxSurge")],
            ),
            "supported values: \"RollingUpdate\", \"OnDelete\"",
        )],
    }
}

impl Kind for DaemonSet {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        let spec = member_mut(object, "spec");
        pods::default_spec(member_mut(member_mut(spec, "template"), "spec"));
        let strategy = member_mut(spec, "updateStrategy");
        default(strategy, "type", ROLLING);
        if text(strategy, "type") == ROLLING {
            default(strategy, "rollingUpdate", json!({}));
            let rolling = member_mut(strategy, "rollingUpdate");
            for (field, value) in [("maxUnavailable", 1), ("maxSurge", 0)] {
                if present(rolling, field).is_none() {
                    set(rolling, field, Some(value.into()));
                }
            }
        }
        default(spec, "revisionHistoryLimit", 10);
        let generation = template_generation(object);
        set_template_generation(object, generation);
    }

    fn prepare_create(&self, object: &mut Value) {
        set(object, "status", Some(self.empty_status()));
        prepare_template(object);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        crate::document::keep(new, old, "status");
        prepare_template(new);
        let changed = at(new, &["spec", "template"]) != at(old, &["spec", "template"]);
        set_template_generation(new, template_generation(old) + i64::from(changed));
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        crate::document::keep(new, old, "spec");
        set_template_generation(new, template_generation(old));
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate(object));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(immutable_selector(new, old));
        faults.extend(validate(new));
        faults
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(not_negative(
            at(new, &["status"]),
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            "status",
        ));
        faults.extend(not_fewer_collisions(new, old));
        faults
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| template_generation(new) == template_generation(old)) {
            return Vec::new();
        }
        template_warnings(new, None)
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Cell> {
        let count = |field: &str| Cell::from(table::count(object, &["status", field]));
        let [names, images] = container_cells(object);
        vec![
            table::name(object),
            count("desiredNumberScheduled"),
            count("currentNumberScheduled"),
            count("numberReady"),
            count("updatedNumberScheduled"),
            count("numberAvailable"),
            table::labels(at(object, &["spec", "template", "spec", "nodeSelector"])).into(),
            table::created(object, now),
            names,
            images,
            table::selector_or_none(at(object, &["spec", "selector"])).into(),
        ]
    }
}
