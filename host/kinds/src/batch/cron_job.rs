//! CronJob.

use serde_json::{Value, json};

use super::{job, schedule};
use crate::document::{at, default, is_true, keep, list, member_mut, present, set, text};
use crate::fault::{Fault, FaultKind};
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{meta, pods, selector, table};

/// The kind.
pub(crate) struct CronJob;

static STRATEGY: Strategy = Strategy::new("batch", "CronJob")
    .counts_spec()
    .unconditional()
    .status_apart(&["spec"]);
/// The name of a job is that of its CronJob and eleven characters.
const NAME_LENGTH: usize = 52;
const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];

fn validate(new: &Value, old: Option<&Value>) -> Vec<Fault> {
    const SCHEDULE: &str = "spec.schedule";
    let spec = at(new, &["spec"]);
    let mut faults = Vec::new();
    let plan = text(spec, "schedule");
    let zone = spec.get("timeZone").and_then(Value::as_str);
    if plan.is_empty() {
        faults.push(Fault::required(SCHEDULE, ""));
    } else {
        let value = Value::from(plan);
        faults.extend(schedule::complaint(plan).map(|why| Fault::invalid(SCHEDULE, &value, &why)));
        let had_zone = old.is_some_and(|old| text(at(old, &["spec"]), "schedule").contains("TZ"));
        let why = match (plan.contains("TZ"), had_zone, zone) {
            (true, true, Some(_)) => Some("cannot use both timeZone field and TZ or CRON_TZ in schedule"),
            (true, false, _) => Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
            _ => None,
        };
        faults.extend(why.map(|why| Fault::invalid(SCHEDULE, &value, why)));
    }
    faults.extend(meta::negative(
        spec.get("startingDeadlineSeconds"),
        "spec.startingDeadlineSeconds",
    ));
    let zone_changed = old.is_none_or(|old| at(old, &["spec", "timeZone"]) != at(spec, &["timeZone"]));
    if let Some(zone) = zone.filter(|_| zone_changed) {
        faults.extend(validate_zone(zone));
    }
    let policy = text(spec, "concurrencyPolicy");
    if !POLICIES.contains(&policy) {
        faults.push(Fault::not_supported(
            "spec.concurrencyPolicy",
            &policy.into(),
            &POLICIES,
        ));
    }
    let template = at(spec, &["jobTemplate", "spec"]);
    const TEMPLATE: &str = "spec.jobTemplate.spec";
    faults.extend(job::validate_spec(template, TEMPLATE));
    if let Some(own) = present(template, "selector") {
        faults.push(Fault::shown_as(
            FaultKind::Invalid,
            format!("{TEMPLATE}.selector"),
            &selector::shown(own),
            "`selector` will be auto-generated",
        ));
    }
    if is_true(template, "manualSelector") {
        faults.push(Fault::not_supported(
            format!("{TEMPLATE}.manualSelector"),
            &true.into(),
            &["nil", "false"],
        ));
    }
    for name in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        faults.extend(meta::negative(spec.get(name), &format!("spec.{name}")));
    }
    faults
}

fn validate_zone(zone: &str) -> Vec<Fault> {
    const FIELD: &str = "spec.timeZone";
    let value = Value::from(zone);
    if zone.is_empty() {
        return vec![Fault::invalid(
            FIELD,
            &value,
            "timeZone must be nil or non-empty string",
        )];
    }
    let mut faults = Vec::new();
    if zone.eq_ignore_ascii_case("local") {
        faults.push(Fault::invalid(
            FIELD,
            &value,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        ));
    }
    let is_odd = |part: &str| {
        matches!(part, "." | "..")
            || part.starts_with('-')
            || !(1..=14).contains(&part.len())
            || !part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    let is_known = matches!(zone, "UTC" | "Local") || jiff::tz::TimeZone::get(zone).is_ok();
    if zone.split('/').any(is_odd) || !is_known {
        faults.push(Fault::invalid(FIELD, &value, &format!("unknown time zone {zone}")));
    }
    faults
}

impl Kind for CronJob {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        let spec = member_mut(object, "spec");
        default(spec, "concurrencyPolicy", "Allow");
        default(spec, "suspend", false);
        default(spec, "successfulJobsHistoryLimit", 3);
        default(spec, "failedJobsHistoryLimit", 1);
        job::default_template(member_mut(member_mut(spec, "jobTemplate"), "spec"));
    }

    fn prepare_create(&self, object: &mut Value) {
        set(object, "status", Some(json!({})));
        if let Some(spec) = object.pointer_mut("/spec/jobTemplate/spec/template/spec") {
            pods::drop_disabled(spec);
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        if let Some(spec) = new.pointer_mut("/spec/jobTemplate/spec/template/spec") {
            pods::drop_disabled(spec);
        }
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate(object, None));
        let name = text(at(object, &["metadata"]), "name");
        if name.len() > NAME_LENGTH {
            faults.push(Fault::invalid(
                "metadata.name",
                &name.into(),
                "must be no more than 52 characters",
            ));
        }
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(validate(new, Some(old)));
        faults
    }

    fn validate_status_update(&self, _new: &Value, _old: &Value) -> Vec<Fault> {
        Vec::new()
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(pods::hostname_warning(new, "Pod names and hostnames"));
        }
        let generation = |object: &Value| table::count(object, &["metadata", "generation"]);
        if old.is_none_or(|old| generation(new) != generation(old)) {
            warnings.extend(pods::template_warnings(
                at(new, &["spec", "jobTemplate", "spec", "template"]),
                "spec.jobTemplate.spec.template.",
            ));
        }
        if old.is_some() && text(at(new, &["spec"]), "schedule").contains("TZ") {
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Cell> {
        let (spec, status) = (at(object, &["spec"]), at(object, &["status"]));
        let last = at(status, &["lastScheduleTime"]);
        let template = at(spec, &["jobTemplate", "spec"]);
        let (containers, images) = table::containers(at(template, &["template", "spec"]));
        vec![
            table::name(object),
            text(spec, "schedule").into(),
            spec.get("timeZone")
                .and_then(Value::as_str)
                .unwrap_or(table::NONE)
                .into(),
            if is_true(spec, "suspend") { "True" } else { "False" }.into(),
            list(status, "active").len().into(),
            if last.is_null() {
                table::NONE.to_owned()
            } else {
                table::since(last, now)
            }
            .into(),
            table::created(object, now),
            containers.into(),
            images.into(),
            table::selector_or_none(at(template, &["selector"])).into(),
        ]
    }
}
