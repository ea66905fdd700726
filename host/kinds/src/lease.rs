//! Lease: who holds something, and for how long.

use serde_json::Value;

use crate::document::{at, member_mut, number, set, text};
use crate::fault::Fault;
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{meta, table};

/// The kind.
pub(crate) struct Lease;

static STRATEGY: Strategy = Strategy::new("coordination.k8s.io", "Lease").creates_on_update();

/// The fields of a feature that is off unless asked for.
fn drop_coordination(new: &mut Value, old: Option<&Value>) {
    for field in ["strategy", "preferredHolder"] {
        if old.is_none_or(|old| at(old, &["spec", field]).is_null()) && new.get("spec").is_some() {
            set(member_mut(new, "spec"), field, None);
        }
    }
}

fn validate(object: &Value) -> Vec<Fault> {
    let spec = at(object, &["spec"]);
    let mut faults = Vec::new();
    if number(spec, "leaseDurationSeconds").is_some_and(|seconds| seconds <= 0) {
        faults.push(Fault::invalid(
            "spec.leaseDurationSeconds",
            at(spec, &["leaseDurationSeconds"]),
            "must be greater than 0",
        ));
    }
    faults.extend(meta::negative(spec.get("leaseTransitions"), "spec.leaseTransitions"));
    faults
}

impl Kind for Lease {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn prepare_create(&self, object: &mut Value) {
        drop_coordination(object, None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        drop_coordination(new, Some(old));
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        validate(object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change(new, old);
        faults.extend(validate(new));
        faults
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Cell> {
        vec![
            table::name(object),
            text(at(object, &["spec"]), "holderIdentity").into(),
            table::created(object, now),
        ]
    }
}
