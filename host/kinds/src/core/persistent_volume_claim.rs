//! PersistentVolumeClaim, and the claims that other kinds have as templates.

use serde_json::{Value, json};

use crate::document::{at, default, keep, list, member_mut, present, set, text, texts};
use crate::fault::{Fault, quoted};
use crate::kind::{Cell, Kind};
use crate::pods;
use crate::quantity::Quantity;
use crate::strategy::Strategy;
use crate::{meta, names, selector, table};

/// The kind.
pub(crate) struct PersistentVolumeClaim;

static STRATEGY: Strategy = Strategy::new("", "PersistentVolumeClaim")
    .unconditional()
    .status_apart(&["spec"])
    .answers_with_deleted();
const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const ALONE: &str = "ReadWriteOncePod";
const PROTECTION: &str = "kubernetes.io/pvc-protection";
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Fills in a claim, or the template of one.
pub(crate) fn default_claim(claim: &mut Value) {
    default(member_mut(claim, "status"), "phase", "Pending");
    pods::claim_spec(member_mut(claim, "spec"));
}

/// What is wrong with the spec of a claim.
pub(crate) fn validate_claim_spec(spec: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let at_field = |name: &str| format!("{field}.{name}");
    let modes: Vec<&str> = texts(spec, "accessModes").collect();
    if modes.is_empty() {
        faults.push(Fault::required(
            at_field("accessModes"),
            "at least 1 access mode is required",
        ));
    }
    if let Some(value) = present(spec, "selector") {
        faults.extend(selector::validate(value, &at_field("selector")));
    }
    for mode in &modes {
        if !MODES.contains(mode) {
            faults.push(Fault::not_supported(at_field("accessModes"), &(*mode).into(), &MODES));
        }
    }
    let has_others = modes.iter().any(|mode| *mode != ALONE && MODES.contains(mode));
    if modes.contains(&ALONE) && has_others {
        faults.push(Fault::forbidden(
            at_field("accessModes"),
            "may not use ReadWriteOncePod with other access modes",
        ));
    }
    let field_of_size = at_field("resources[storage]");
    match at(spec, &["resources", "requests"]).get("storage") {
        None => faults.push(Fault::required(field_of_size, "")),
        Some(size) => {
            let parsed = Quantity::parse(size.as_str().unwrap_or_default());
            if parsed.is_some_and(|size| size.is_negative() || size.is_zero()) {
                faults.push(Fault::invalid(field_of_size, size, "must be greater than zero"));
            }
        }
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        faults.extend(Fault::each(
            &at_field("storageClassName"),
            class,
            names::subdomain(class, false),
        ));
    }
    if let Some(mode) = spec.get("volumeMode").and_then(Value::as_str)
        && !matches!(mode, "Block" | "Filesystem")
    {
        faults.push(Fault::not_supported(
            at_field("volumeMode"),
            &mode.into(),
            &["Block", "Filesystem"],
        ));
    }
    for name in ["dataSource", "dataSourceRef"] {
        if let Some(source) = present(spec, name) {
            faults.extend(validate_source(source, &at_field(name)));
        }
    }
    let class = text(spec, "volumeAttributesClassName");
    if !class.is_empty() {
        faults.extend(Fault::each(
            &at_field("volumeAttributesClassName"),
            class,
            names::subdomain(class, false),
        ));
    }
    faults
}

fn validate_source(source: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for name in ["name", "kind"] {
        if text(source, name).is_empty() {
            faults.push(Fault::required(format!("{field}.{name}"), ""));
        }
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        faults.push(Fault::invalid(
            field,
            &kind.into(),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        ));
    }
    if !group.is_empty() {
        faults.extend(Fault::each(
            &format!("{field}.apiGroup"),
            group,
            names::dns_subdomain(group),
        ));
    }
    let namespace = text(source, "namespace");
    if !namespace.is_empty() {
        faults.extend(Fault::each(
            &format!("{field}.namespace"),
            namespace,
            names::label(namespace, false),
        ));
    }
    faults
}

/// What the server warns of in a claim.
pub(crate) fn claim_warnings(spec: &Value, field: &str) -> Vec<String> {
    ["requests", "limits"]
        .iter()
        .filter_map(|kind| {
            let amount = at(spec, &["resources", kind, "storage"]).as_str()?;
            let is_whole = Quantity::parse(amount)?.is_whole();
            (!is_whole).then(|| {
                format!(
                    "{field}.resources.{kind}[storage]: fractional byte value {} is invalid, must be an integer",
                    quoted(amount)
                )
            })
        })
        .collect()
}

/// A source of data stands under two names, of which one is older and knows only two kinds.
fn normalise_sources(claim: &mut Value) {
    let spec = member_mut(claim, "spec");
    let is_old_kind = |source: &Value| {
        matches!(
            (text(source, "apiGroup"), text(source, "kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    if present(spec, "dataSource").is_some_and(|source| !is_old_kind(source))
        && present(spec, "dataSourceRef").is_none()
    {
        set(spec, "dataSource", None);
    }
    let (old, new) = (
        present(spec, "dataSource").cloned(),
        present(spec, "dataSourceRef").cloned(),
    );
    match (old, new) {
        (Some(old), None) => set(spec, "dataSourceRef", Some(old)),
        (None, Some(new)) if text(&new, "namespace").is_empty() => set(spec, "dataSource", Some(new)),
        _ => {}
    }
}

fn size(claim: &Value, path: &[&str]) -> i128 {
    Quantity::parse(at(claim, path).as_str().unwrap_or("0")).map_or(0, Quantity::nano)
}

impl Kind for PersistentVolumeClaim {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        default_claim(object);
        if let Some(status) = object.get_mut("status") {
            pods::resource_list(status, "capacity");
            pods::resource_list(status, "allocatedResources");
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        set(object, "status", Some(json!({})));
        normalise_sources(object);
        // Admission sees to it that a claim outlives the pods that use it.
        let metadata = member_mut(object, "metadata");
        if !texts(metadata, "finalizers").any(|finalizer| finalizer == PROTECTION) {
            let mut finalizers: Vec<Value> = list(metadata, "finalizers").cloned().collect();
            finalizers.push(PROTECTION.into());
            set(metadata, "finalizers", Some(finalizers.into()));
        }
    }

    fn default_stored(&self, object: &mut Value) -> bool {
        let status = member_mut(object, "status");
        let lacks_phase = text(status, "phase").is_empty();
        if lacks_phase {
            set(status, "phase", Some("Pending".into()));
        }
        lacks_phase
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        normalise_sources(new);
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate_claim_spec(at(object, &["spec"]), "spec"));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let whole = || {
            let mut faults = meta::validate_again(new, true, &names::subdomain);
            faults.extend(validate_claim_spec(at(new, &["spec"]), "spec"));
            faults
        };
        // The server goes through the whole claim twice.
        let mut faults = whole();
        faults.extend(meta::validate_change_again(new, old));
        faults.extend(whole());
        let annotation = |claim| text(at(claim, &["metadata", "annotations"]), CLASS);
        if annotation(new) != annotation(old) {
            faults.push(Fault::invalid(
                format!("metadata.annotations[{CLASS}]"),
                &annotation(new).into(),
                "field is immutable",
            ));
        }
        let (now, before) = (at(new, &["spec"]), at(old, &["spec"]));
        let mut rest = now.clone();
        if text(before, "volumeName").is_empty() {
            keep(&mut rest, before, "volumeName");
        }
        let annotation = present(at(old, &["metadata", "annotations"]), CLASS);
        if present(before, "storageClassName").is_none()
            && present(now, "storageClassName").is_some_and(|class| annotation.is_none_or(|known| known == class))
        {
            // A class can be given to a claim that has none.
            keep(&mut rest, before, "storageClassName");
        }
        if text(at(new, &["status"]), "phase") == "Bound" {
            keep(&mut rest, before, "volumeAttributesClassName");
            let asked = at(before, &["resources", "requests", "storage"]).clone();
            if let Some(requests) = rest.pointer_mut("/resources/requests") {
                set(requests, "storage", Some(asked));
            }
        }
        if rest != *before {
            // The server shows here how its inner types differ, which nobody can repeat.
            faults.push(Fault::forbidden(
                "spec",
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n",
            ));
        }
        const REQUEST: &[&str] = &["spec", "resources", "requests", "storage"];
        if size(new, REQUEST) < size(old, REQUEST)
            && size(new, REQUEST) <= size(old, &["status", "capacity", "storage"])
        {
            faults.push(Fault::forbidden(
                "spec.resources.requests.storage",
                "field can not be less than status.capacity",
            ));
        }
        if at(now, &["volumeMode"]) != at(before, &["volumeMode"]) {
            faults.push(Fault::immutable("volumeMode", at(now, &["volumeMode"])));
        }
        faults
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        for (name, amount) in crate::document::object(Some(at(new, &["status", "capacity"]))) {
            let parsed = Quantity::parse(amount.as_str().unwrap_or_default());
            if parsed.is_some_and(Quantity::is_negative) {
                faults.push(Fault::invalid(
                    format!("status.capacity[{name}]"),
                    amount,
                    "must be a valid resource quantity",
                ));
            }
        }
        faults
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        claim_warnings(at(new, &["spec"]), "spec")
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Cell> {
        let (spec, status) = (at(object, &["spec"]), at(object, &["status"]));
        let is_deleting = !at(object, &["metadata", "deletionTimestamp"]).is_null();
        let phase = if is_deleting {
            "Terminating"
        } else {
            text(status, "phase")
        };
        let volume = text(spec, "volumeName");
        let (mut capacity, mut modes) = (String::new(), String::new());
        if !volume.is_empty() {
            let known = at(status, &["capacity", "storage"]).as_str().unwrap_or("0");
            capacity = known.to_owned();
            let short: Vec<&str> = [
                ("ReadWriteOnce", "RWO"),
                ("ReadOnlyMany", "ROX"),
                ("ReadWriteMany", "RWX"),
                ("ReadWriteOncePod", "RWOP"),
            ]
            .iter()
            .filter(|(mode, _)| list(status, "accessModes").any(|known| known.as_str() == Some(mode)))
            .map(|(_, short)| *short)
            .collect();
            modes = short.join(",");
        }
        let class = match text(at(object, &["metadata", "annotations"]), CLASS) {
            "" => text(spec, "storageClassName"),
            class => class,
        };
        let or_unset = |field: &str| Cell::from(spec.get(field).and_then(Value::as_str).unwrap_or("<unset>"));
        vec![
            table::name(object),
            phase.into(),
            volume.into(),
            capacity.into(),
            modes.into(),
            class.into(),
            or_unset("volumeAttributesClassName"),
            table::created(object, now),
            or_unset("volumeMode"),
        ]
    }
}
