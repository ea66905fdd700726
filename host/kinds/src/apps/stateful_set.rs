//! StatefulSet.

use serde_json::{Value, json};

use super::{
    TEMPLATE, above_all, amount, container_cells, is_usable, not_above, not_fewer_collisions, not_negative,
    number_or_percent, prepare_template, shown_rolling, shown_strategy, template_warnings, validate_endless,
    validate_labels, validate_selector,
};
use crate::core::{claim_warnings, default_claim, validate_claim_spec};
use crate::document::{at, default, elements_mut, keep, list, member_mut, number, present, set, text};
use crate::fault::{Fault, FaultKind};
use crate::kind::{Cell, Kind};
use crate::strategy::{NameRule, Strategy};
use crate::{meta, names, pods, selector, table};

/// The kind.
pub(crate) struct StatefulSet;

static STRATEGY: Strategy = Strategy::new("apps", "StatefulSet")
    .counts_spec()
    .unconditional()
    .status_apart(&["spec"])
    .named(NameRule::Label);
const ROLLING: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";
const ROLLING_FIELDS: &[(&str, &str)] = &[("Partition", "partition"), ("MaxUnavailable", "maxUnavailable")];
/// What an update may change.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

fn validate(object: &Value, is_new: bool) -> Vec<Fault> {
    let spec = at(object, &["spec"]);
    let mut faults = Vec::new();
    let management = text(spec, "podManagementPolicy");
    if !matches!(management, "OrderedReady" | "Parallel") {
        faults.push(Fault::invalid(
            "spec.podManagementPolicy",
            &management.into(),
            "must be 'OrderedReady' or 'Parallel'",
        ));
    }
    faults.extend(validate_strategy(at(spec, &["updateStrategy"])));
    if let Some(policy) = present(spec, "persistentVolumeClaimRetentionPolicy") {
        for name in ["whenDeleted", "whenScaled"] {
            let value = text(policy, name);
            if !matches!(value, "Retain" | "Delete") {
                faults.push(Fault::not_supported(
                    format!("spec.persistentVolumeClaimRetentionPolicy.{name}"),
                    &value.into(),
                    &["Retain", "Delete"],
                ));
            }
        }
    }
    if is_new {
        for (index, claim) in list(spec, "volumeClaimTemplates").enumerate() {
            faults.extend(validate_claim_spec(
                at(claim, &["spec"]),
                &format!("spec.volumeClaimTemplates[{index}].spec"),
            ));
        }
    }
    faults.extend(not_negative(spec, &["replicas", "minReadySeconds"], "spec"));
    faults.extend(not_negative(at(spec, &["ordinals"]), &["start"], "spec.ordinals"));
    let service = text(spec, "serviceName");
    if is_new && !service.is_empty() {
        faults.extend(Fault::each("spec.serviceName", service, names::dns_label(service)));
    }
    faults.extend(validate_selector(spec, "statefulset"));
    if is_usable(spec) {
        faults.extend(validate_template(spec));
    } else {
        let shown = selector::shown(at(spec, &["selector"]));
        faults.push(Fault::shown_as(FaultKind::Invalid, "spec.selector", &shown, ""));
    }
    faults.extend(validate_endless(spec, "StatefulSet"));
    faults
}

/// The template, with the volumes that its pods will have.
fn validate_template(spec: &Value) -> Vec<Fault> {
    let own = present(spec, "selector");
    let mut faults = Vec::new();
    if own.is_none_or(|own| !selector::is_empty(own)) {
        faults.extend(validate_labels(spec));
    }
    let mut template = at(spec, &["template"]).clone();
    let claims: Vec<&str> = list(spec, "volumeClaimTemplates")
        .map(|claim| text(at(claim, &["metadata"]), "name"))
        .collect();
    let inner = member_mut(&mut template, "spec");
    for field in ["subdomain", "hostname"] {
        set(inner, field, None);
    }
    if !claims.is_empty() {
        let mut volumes: Vec<Value> = claims
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            .collect();
        volumes.extend(
            list(inner, "volumes")
                .filter(|volume| !claims.contains(&text(volume, "name")))
                .cloned(),
        );
        set(inner, "volumes", Some(volumes.into()));
    }
    faults.extend(pods::validate_template(&template, TEMPLATE));
    // The server looks at these twice.
    let metadata = at(&template, &["metadata"]);
    faults.extend(meta::labels(metadata.get("labels"), &format!("{TEMPLATE}.labels")));
    faults.extend(meta::annotations(
        metadata.get("annotations"),
        &format!("{TEMPLATE}.annotations"),
    ));
    faults
}

fn validate_strategy(strategy: &Value) -> Vec<Fault> {
    const FIELD: &str = "spec.updateStrategy";
    let rolling = present(strategy, "rollingUpdate");
    match (text(strategy, "type"), rolling) {
        (ON_DELETE, Some(rolling)) => vec![Fault::shown_as(
            FaultKind::Invalid,
            format!("{FIELD}.rollingUpdate"),
            &shown_rolling(rolling, ROLLING_FIELDS),
            "only allowed for updateStrategy 'RollingUpdate'",
        )],
        (ROLLING, Some(rolling)) => {
            let mut faults = not_negative(rolling, &["partition"], &format!("{FIELD}.rollingUpdate"));
            if let Some(unavailable) = present(rolling, "maxUnavailable") {
                let field = format!("{FIELD}.rollingUpdate.maxUnavailable");
                faults.extend(number_or_percent(unavailable, &field));
                if amount(unavailable) == 0 {
                    faults.push(Fault::invalid(field.as_str(), unavailable, "cannot be 0"));
                }
                faults.extend(above_all(unavailable, &field));
            }
            faults
        }
        (ON_DELETE | ROLLING, None) => Vec::new(),
        _ => vec![Fault::shown_as(
            FaultKind::Invalid,
            FIELD,
            &shown_strategy(strategy, ROLLING_FIELDS),
            "must be 'RollingUpdate' or 'OnDelete'",
        )],
    }
}

/// Fields of a feature that is off unless asked for.
fn drop_unavailable(new: &mut Value, old: Option<&Value>) {
    const PATH: &[&str] = &["spec", "updateStrategy", "rollingUpdate"];
    let had = old.is_some_and(|old| present(at(old, PATH), "maxUnavailable").is_some());
    if let Some(rolling) = new.pointer_mut("/spec/updateStrategy/rollingUpdate")
        && !had
    {
        set(rolling, "maxUnavailable", None);
    }
}

impl Kind for StatefulSet {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        let spec = member_mut(object, "spec");
        pods::default_spec(member_mut(member_mut(spec, "template"), "spec"));
        for claim in elements_mut(spec, "volumeClaimTemplates") {
            set(claim, "apiVersion", Some("v1".into()));
            set(claim, "kind", Some("PersistentVolumeClaim".into()));
            default_claim(claim);
        }
        default(spec, "podManagementPolicy", "OrderedReady");
        let strategy = member_mut(spec, "updateStrategy");
        if text(strategy, "type").is_empty() {
            set(strategy, "type", Some(ROLLING.into()));
            default(strategy, "rollingUpdate", json!({}));
        }
        if text(strategy, "type") == ROLLING
            && let Some(rolling) = strategy.get_mut("rollingUpdate").filter(|rolling| rolling.is_object())
            && number(rolling, "partition").is_none()
        {
            set(rolling, "partition", Some(0.into()));
        }
        let policy = member_mut(spec, "persistentVolumeClaimRetentionPolicy");
        default(policy, "whenDeleted", "Retain");
        default(policy, "whenScaled", "Retain");
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
    }

    fn prepare_create(&self, object: &mut Value) {
        set(object, "status", Some(self.empty_status()));
        prepare_template(object);
        drop_unavailable(object, None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        prepare_template(new);
        drop_unavailable(new, Some(old));
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate(object, true));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(validate(new, false));
        let mut rest = at(new, &["spec"]).clone();
        for field in CHANGEABLE {
            keep(&mut rest, at(old, &["spec"]), field);
        }
        if rest != *at(old, &["spec"]) {
            faults.push(Fault::forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            ));
        }
        faults
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let status = at(new, &["status"]);
        let mut faults = not_negative(
            status,
            &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            "status",
        );
        faults.extend(not_above(
            status,
            &[
                ("readyReplicas", "replicas", "status.replicas"),
                ("currentReplicas", "replicas", "status.replicas"),
                ("updatedReplicas", "replicas", "status.replicas"),
                ("availableReplicas", "replicas", "status.replicas"),
                ("availableReplicas", "readyReplicas", "status.readyReplicas"),
            ],
        ));
        faults.extend(meta::validate_change_again(new, old));
        faults.extend(not_fewer_collisions(new, old));
        faults
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = at(new, &["spec"]);
        let mut warnings = template_warnings(new, old);
        for (index, claim) in list(spec, "volumeClaimTemplates").enumerate() {
            let field = if old.is_some() { ".Spec" } else { "" };
            warnings.extend(claim_warnings(
                at(claim, &["spec"]),
                &format!("spec.volumeClaimTemplates[{index}]{field}"),
            ));
        }
        if number(spec, "revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                    .to_owned(),
            );
        }
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
            table::created(object, now),
            names,
            images,
        ]
    }
}
