//! ReplicaSet.

use serde_json::Value;

use super::{
    container_cells, immutable_selector, not_above, not_negative, prepare_template, template_warnings,
    validate_replicated, validate_selector,
};
use crate::document::{at, default, keep, member_mut, set};
use crate::fault::Fault;
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{meta, pods, table};

/// The kind.
pub(crate) struct ReplicaSet;

static STRATEGY: Strategy = Strategy::new("apps", "ReplicaSet")
    .counts_spec()
    .unconditional()
    .status_apart(&["spec"]);

fn validate(object: &Value) -> Vec<Fault> {
    let spec = at(object, &["spec"]);
    let mut faults = not_negative(spec, &["replicas", "minReadySeconds"], "spec");
    // The server takes it for a deployment here.
    faults.extend(validate_selector(spec, "deployment"));
    faults.extend(validate_replicated(spec));
    faults
}

impl Kind for ReplicaSet {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        let spec = member_mut(object, "spec");
        pods::default_spec(member_mut(member_mut(spec, "template"), "spec"));
        default(spec, "replicas", 1);
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
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
            ],
            "status",
        ));
        faults.extend(not_above(
            status,
            &[
                ("fullyLabeledReplicas", "replicas", "status.replicas"),
                ("readyReplicas", "replicas", "status.replicas"),
                ("availableReplicas", "replicas", "status.replicas"),
                ("availableReplicas", "readyReplicas", "readyReplicas"),
            ],
        ));
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
        let [names, images] = container_cells(object);
        vec![
            table::name(object),
            table::count(object, &["spec", "replicas"]).into(),
            table::count(object, &["status", "replicas"]).into(),
            table::count(object, &["status", "readyReplicas"]).into(),
            table::created(object, now),
            names,
            images,
            table::selector_or_none(at(object, &["spec", "selector"])).into(),
        ]
    }
}
