//! Namespace: it carries its name as a label and a finalizer of its own.

use serde_json::{Value, json};

use crate::document::{at, default, keep, list, map_mut, member_mut, set, text, texts};
use crate::fault::Fault;
use crate::kind::{Cell, Kind};
use crate::strategy::{NameRule, Strategy};
use crate::{meta, names, table};

/// The kind.
pub(crate) struct Namespace;

static STRATEGY: Strategy = Strategy::new("", "Namespace")
    .unconditional()
    .status_apart(&["spec"])
    .named(NameRule::Label)
    .selected_by(&["status.phase"]);
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const FINALIZER: &str = "kubernetes";

fn label(object: &mut Value) {
    let name = text(at(object, &["metadata"]), "name").to_owned();
    if !name.is_empty() {
        let labels = member_mut(member_mut(object, "metadata"), "labels");
        set(labels, NAME_LABEL, Some(name.into()));
    }
}

fn validate(object: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for finalizer in texts(at(object, &["spec"]), "finalizers") {
        faults.extend(finalizer_faults(finalizer, "spec.finalizers"));
    }
    faults
}

fn finalizer_faults(finalizer: &str, field: &str) -> Vec<Fault> {
    let mut faults = Fault::each(field, finalizer, names::qualified_name(finalizer));
    let is_standard = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
    if !finalizer.contains('/') && !is_standard {
        faults.push(Fault::invalid(
            field,
            &finalizer.into(),
            "name is neither a standard finalizer name nor is it fully qualified",
        ));
    }
    faults
}

impl Kind for Namespace {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        label(object);
        default(member_mut(object, "status"), "phase", "Active");
    }

    fn prepare_create(&self, object: &mut Value) {
        // A generated name is known only now.
        label(object);
        set(object, "status", Some(json!({"phase": "Active"})));
        let spec = member_mut(object, "spec");
        if !texts(spec, "finalizers").any(|finalizer| finalizer == FINALIZER) {
            let mut finalizers: Vec<Value> = list(spec, "finalizers").cloned().collect();
            finalizers.push(FINALIZER.into());
            set(spec, "finalizers", Some(finalizers.into()));
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        let before = at(old, &["spec", "finalizers"]);
        let before = (!before.is_null()).then(|| before.clone());
        set(
            map_mut(new).entry("spec").or_insert_with(|| json!({})),
            "finalizers",
            before,
        );
        keep(new, old, "status");
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate(object));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_again(new, false, &names::label);
        faults.extend(validate(new));
        faults.extend(meta::validate_change_again(new, old));
        faults
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        let phase = at(new, &["status", "phase"]);
        let (wanted, when) = if at(new, &["metadata", "deletionTimestamp"]).is_null() {
            ("Active", "empty")
        } else {
            ("Terminating", "not empty")
        };
        if phase.as_str() != Some(wanted) {
            faults.push(Fault::invalid(
                "status.Phase",
                phase,
                &format!("may only be '{wanted}' if `deletionTimestamp` is {when}"),
            ));
        }
        faults
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Cell> {
        vec![
            table::name(object),
            text(at(object, &["status"]), "phase").into(),
            table::created(object, now),
        ]
    }
}
