//! What may be written to a plan, and when. Each change names the owner and the fields it stands on: whoever finds others there
//! has lost, and nothing is written.

use jiff::Timestamp;

use super::plan::{JobResult, Plan, Recipe, Target};
use super::state::State;

/// Who prepares an attempt, by names that never come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preparation {
    /// Random.
    pub preparation_id: String,
    /// Name of the Job it will make: a function of owner, attempt and preparation.
    pub job: String,
    /// Until when nobody else may take over.
    pub expires_at: Timestamp,
}

/// One write to the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Seals a first plan.
    Start {
        /// What.
        recipe: Box<Recipe>,
        /// Where.
        target: Box<Target>,
        /// Fencing token of the attempt.
        attempt_id: String,
        /// By whom.
        preparation: Preparation,
        /// Whether everything of another owner's plan of the same name is seen shut in the remote.
        predecessor_is_shut: bool,
    },
    /// Takes a preparation over whose lease has passed; the attempt is the same.
    TakeOver {
        /// By whom.
        preparation: Preparation,
    },
    /// Begins the next attempt, of the stored recipe, after a failure.
    Retry {
        /// Fencing token of the new attempt.
        attempt_id: String,
        /// By whom.
        preparation: Preparation,
    },
    /// Begins the next attempt, of another recipe: `spec.revision` was raised.
    Upgrade {
        /// What. Namespace and release are the stored plan's.
        recipe: Box<Recipe>,
        /// Fencing token of the new attempt.
        attempt_id: String,
        /// By whom.
        preparation: Preparation,
    },
    /// The namespace is ours.
    Admit {
        /// The preparation that saw it.
        preparation_id: String,
        /// UID of the namespace.
        namespace_uid: String,
    },
    /// The namespace is somebody else's.
    Refuse {
        /// The preparation that saw it.
        preparation_id: String,
    },
    /// The Job is there, suspended.
    RecordJob {
        /// The attempt it is of.
        attempt_id: String,
        /// The preparation that made it.
        preparation_id: String,
        /// Its UID.
        job_uid: String,
    },
    /// The Job has ended.
    Finish {
        /// The attempt it is of.
        attempt_id: String,
        /// Its UID.
        job_uid: String,
        /// How.
        result: JobResult,
        /// When that was seen.
        at: Timestamp,
    },
    /// The attempt's credential is seen revoked and its pods are seen gone.
    CleanUp {
        /// The attempt.
        attempt_id: String,
    },
    /// Nothing is to begin any more.
    Bury,
}

/// Why a change is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    /// The plan is in a state that this does not follow.
    #[error("the installation is {0:?}")]
    State(State),
    /// The attempt, its preparation or its Job is another by now.
    #[error("another attempt or preparation is under way")]
    Lost,
}

impl Change {
    /// The plan after the change, for the Installation of this UID.
    ///
    /// What stands on a preparation asks for its ID, not for its lease: whoever was paused past it, and was not taken over,
    /// may go on.
    ///
    /// # Errors
    /// [`NotNow`]: nothing is to be written.
    pub fn apply(&self, stored: Option<&Plan>, owner: &str, now: Timestamp) -> Result<Plan, NotNow> {
        let state = State::of(stored, owner, now);
        let plan = stored.filter(|_| state != State::Foreign).cloned().unwrap_or_default();
        let prepared = matches!(state, State::PrepLive | State::PrepExpired);
        let stands_on = |fields: &[(&String, &String)]| {
            let same = fields.iter().all(|(named, there)| named == there);
            if same { Ok(()) } else { Err(NotNow::Lost) }
        };
        Ok(match self {
            Change::Start {
                recipe,
                target,
                attempt_id,
                preparation,
                predecessor_is_shut,
            } if state == State::Absent || (state == State::Foreign && *predecessor_is_shut) => {
                let first = Plan {
                    owner: owner.to_owned(),
                    org: target.org.clone(),
                    provider: target.provider.clone(),
                    edge_workspace_uuid: target.edge_workspace_uuid.clone(),
                    edge_name: target.edge_name.clone(),
                    cluster: target.cluster.clone(),
                    ..Plan::default()
                };
                next_attempt(first, recipe, attempt_id, preparation)
            }
            Change::TakeOver { preparation } if state == State::PrepExpired => prepare(plan, preparation),
            Change::Retry {
                attempt_id,
                preparation,
            } if state == State::FailedClean => {
                let recipe = plan.recipe();
                next_attempt(plan, &recipe, attempt_id, preparation)
            }
            Change::Upgrade {
                recipe,
                attempt_id,
                preparation,
            } if matches!(state, State::Succeeded | State::FailedClean) => {
                let there = Recipe {
                    namespace: plan.namespace.clone(),
                    release: plan.release.clone(),
                    ..(**recipe).clone()
                };
                next_attempt(plan, &there, attempt_id, preparation)
            }
            Change::Admit {
                preparation_id,
                namespace_uid,
            } if prepared => {
                stands_on(&[(preparation_id, &plan.preparation_id)])?;
                Plan {
                    namespace_admission_known: true,
                    namespace_admitted: true,
                    namespace_uid: namespace_uid.clone(),
                    ..plan
                }
            }
            Change::Refuse { preparation_id } if prepared => {
                stands_on(&[(preparation_id, &plan.preparation_id)])?;
                Plan {
                    namespace_admission_known: true,
                    namespace_admitted: false,
                    ..plan
                }
            }
            Change::RecordJob {
                attempt_id,
                preparation_id,
                job_uid,
            } if prepared && plan.namespace_admitted => {
                stands_on(&[(attempt_id, &plan.attempt_id), (preparation_id, &plan.preparation_id)])?;
                Plan {
                    job_uid: job_uid.clone(),
                    ..plan
                }
            }
            Change::Finish {
                attempt_id,
                job_uid,
                result,
                at,
            } if state == State::Running || (state == State::Deleting && has_unfinished_job(&plan)) => {
                stands_on(&[(attempt_id, &plan.attempt_id), (job_uid, &plan.job_uid)])?;
                Plan {
                    job_result: Some(*result),
                    finished_at: Some(*at),
                    ..plan
                }
            }
            Change::CleanUp { attempt_id }
                if matches!(state, State::SuccDirty | State::FailDirty)
                    || (state == State::Deleting && !has_unfinished_job(&plan)) =>
            {
                stands_on(&[(attempt_id, &plan.attempt_id)])?;
                Plan {
                    cleaned_up: true,
                    ..plan
                }
            }
            Change::Bury if !matches!(state, State::Foreign | State::Deleting | State::DeletedDone) => Plan {
                owner: owner.to_owned(),
                deleting: true,
                ..plan
            },
            _ => return Err(NotNow::State(state)),
        })
    }

    /// As the table spells it.
    pub const fn name(&self) -> &'static str {
        match self {
            Change::Start { .. } => "Start",
            Change::TakeOver { .. } => "TakeOver",
            Change::Retry { .. } => "Retry",
            Change::Upgrade { .. } => "Upgrade",
            Change::Admit { .. } => "Admit",
            Change::Refuse { .. } => "Refuse",
            Change::RecordJob { .. } => "RecordJob",
            Change::Finish { .. } => "Finish",
            Change::CleanUp { .. } => "CleanUp",
            Change::Bury => "Bury",
        }
    }
}

/// A recorded Job whose result is not stored: that comes before anything of it is revoked.
fn has_unfinished_job(plan: &Plan) -> bool {
    !plan.job_uid.is_empty() && plan.job_result.is_none()
}

/// What was admitted stays; what was of the attempt before goes.
fn next_attempt(plan: Plan, recipe: &Recipe, attempt_id: &str, preparation: &Preparation) -> Plan {
    let next = Plan {
        namespace: recipe.namespace.clone(),
        release: recipe.release.clone(),
        chart: recipe.chart.clone(),
        version: recipe.version.clone(),
        values: recipe.values.clone(),
        attempt: plan.attempt.saturating_add(1),
        attempt_id: attempt_id.to_owned(),
        job_uid: String::new(),
        job_result: None,
        finished_at: None,
        cleaned_up: false,
        ..plan
    };
    prepare(next, preparation)
}

fn prepare(plan: Plan, preparation: &Preparation) -> Plan {
    Plan {
        preparation_id: preparation.preparation_id.clone(),
        job: preparation.job.clone(),
        preparation_expires_at: Some(preparation.expires_at),
        ..plan
    }
}

/// One line of the table of transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// From where.
    pub from: State,
    /// By which change.
    pub change: &'static str,
    /// To where.
    pub to: State,
}

const fn line(from: State, change: &'static str, to: State) -> Transition {
    Transition { from, change, to }
}

/// All that may follow. Whatever is not here does not happen. That a lease passes, and that another owner comes, are no writes:
/// they change what [`State::of`] says.
///
/// A tombstone on a plan that is cleaned up is at its end at once: what is left of it in the remote is what the sweep takes of
/// any attempt that is cleaned up.
///
#[doc = include_str!("transitions.md")]
pub const TRANSITIONS: &[Transition] = &[
    line(State::Absent, "Start", State::PrepLive),
    line(State::Absent, "Bury", State::Deleting),
    line(State::Foreign, "Start", State::PrepLive),
    line(State::Deleting, "Finish", State::Deleting),
    line(State::Deleting, "CleanUp", State::DeletedDone),
    line(State::Refused, "Bury", State::Deleting),
    line(State::PrepLive, "Admit", State::PrepLive),
    line(State::PrepLive, "Refuse", State::Refused),
    line(State::PrepLive, "RecordJob", State::Running),
    line(State::PrepLive, "Bury", State::Deleting),
    line(State::PrepExpired, "TakeOver", State::PrepLive),
    line(State::PrepExpired, "Admit", State::PrepExpired),
    line(State::PrepExpired, "Refuse", State::Refused),
    line(State::PrepExpired, "RecordJob", State::Running),
    line(State::PrepExpired, "Bury", State::Deleting),
    line(State::Running, "Finish", State::SuccDirty),
    line(State::Running, "Finish", State::FailDirty),
    line(State::Running, "Bury", State::Deleting),
    line(State::SuccDirty, "CleanUp", State::Succeeded),
    line(State::SuccDirty, "Bury", State::Deleting),
    line(State::FailDirty, "CleanUp", State::FailedClean),
    line(State::FailDirty, "Bury", State::Deleting),
    line(State::Succeeded, "Upgrade", State::PrepLive),
    line(State::Succeeded, "Bury", State::DeletedDone),
    line(State::FailedClean, "Retry", State::PrepLive),
    line(State::FailedClean, "Upgrade", State::PrepLive),
    line(State::FailedClean, "Bury", State::DeletedDone),
];

/// The table for people; `cargo xtask codegen` writes it beside this file.
pub fn transitions_table() -> String {
    let mut text = String::from("| from | by | to |\n|---|---|---|\n");
    for Transition { from, change, to } in TRANSITIONS {
        text.push_str(&format!("| {from:?} | {change} | {to:?} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const OWNER: &str = "o";

    fn at(minute: u8) -> Timestamp {
        format!("2026-12-01T10:{minute:02}:00Z").parse().unwrap()
    }

    fn preparation(id: &str) -> Preparation {
        Preparation {
            preparation_id: id.into(),
            job: format!("job-{id}"),
            // Whoever comes second, comes after the first one's lease.
            expires_at: if id == "p" { at(30) } else { at(58) },
        }
    }

    fn recipe(version: &str) -> Box<Recipe> {
        Box::new(Recipe {
            namespace: "n".into(),
            release: "r".into(),
            chart: "c".into(),
            version: version.into(),
            values: "{}".into(),
        })
    }

    fn target() -> Box<Target> {
        Box::new(Target {
            org: "team".into(),
            provider: "p".into(),
            edge_workspace_uuid: "w".into(),
            edge_name: "east".into(),
            cluster: "k".into(),
        })
    }

    /// One of each, standing on attempt `a`, preparation `p` and Job `j`.
    fn changes() -> Vec<Change> {
        let (attempt_id, preparation_id, job_uid) = ("a".to_owned(), "p".to_owned(), "j".to_owned());
        let next = || "b".to_owned();
        vec![
            Change::Start {
                recipe: recipe("1"),
                target: target(),
                attempt_id: attempt_id.clone(),
                preparation: preparation("p"),
                predecessor_is_shut: true,
            },
            Change::TakeOver {
                preparation: preparation("q"),
            },
            Change::Retry {
                attempt_id: next(),
                preparation: preparation("q"),
            },
            Change::Upgrade {
                recipe: recipe("2"),
                attempt_id: next(),
                preparation: preparation("q"),
            },
            Change::Admit {
                preparation_id: preparation_id.clone(),
                namespace_uid: "u".into(),
            },
            Change::Refuse {
                preparation_id: preparation_id.clone(),
            },
            Change::RecordJob {
                attempt_id: attempt_id.clone(),
                preparation_id,
                job_uid: job_uid.clone(),
            },
            Change::Finish {
                attempt_id: attempt_id.clone(),
                job_uid: job_uid.clone(),
                result: JobResult::Succeeded,
                at: at(5),
            },
            Change::Finish {
                attempt_id: attempt_id.clone(),
                job_uid,
                result: JobResult::Failed,
                at: at(5),
            },
            Change::CleanUp { attempt_id },
            Change::Bury,
        ]
    }

    /// Those that a host would make now: nobody writes a lease that is over.
    fn changes_at(now: Timestamp) -> Vec<Change> {
        let is_sane = |change: &Change| match change {
            Change::Start { preparation, .. }
            | Change::TakeOver { preparation }
            | Change::Retry { preparation, .. }
            | Change::Upgrade { preparation, .. } => preparation.expires_at > now,
            _ => true,
        };
        changes().into_iter().filter(is_sane).collect()
    }

    type Stored = Option<Plan>;

    /// Every plan that changes lead to from nothing, before and after the lease, and for another owner.
    fn reachable() -> Vec<(Stored, &'static str, Timestamp)> {
        let mut seen: Vec<Stored> = vec![None];
        let mut next = 0;
        while let Some(stored) = seen.get(next).cloned() {
            next += 1;
            for now in [at(1), at(40)] {
                for change in changes_at(now) {
                    if let Ok(after) = change.apply(stored.as_ref(), OWNER, now)
                        && after.attempt < 3
                        && !seen.contains(&Some(after.clone()))
                    {
                        seen.push(Some(after));
                    }
                }
            }
        }
        let looks = [(OWNER, at(1)), (OWNER, at(40)), ("another", at(1))];
        let all = seen
            .into_iter()
            .flat_map(|stored| looks.map(|(owner, now)| (stored.clone(), owner, now)));
        all.collect()
    }

    #[test]
    fn what_follows_what_is_the_table_and_nothing_else() {
        let mut found = BTreeSet::new();
        let mut states = BTreeSet::new();
        for (stored, owner, now) in reachable() {
            let from = State::of(stored.as_ref(), owner, now);
            states.insert(from);
            for change in changes_at(now) {
                if let Ok(after) = change.apply(stored.as_ref(), owner, now) {
                    found.insert((from, change.name(), State::of(Some(&after), owner, now)));
                }
            }
        }
        assert_eq!(states, BTreeSet::from(State::ALL), "every state is reached");
        let table: BTreeSet<_> = TRANSITIONS
            .iter()
            .map(|line| (line.from, line.change, line.to))
            .collect();
        assert_eq!(found, table);
    }

    #[test]
    fn never_what_the_contract_says_never() {
        for (stored, owner, now) in reachable() {
            for change in changes() {
                let (Some(before), Ok(after)) = (&stored, change.apply(stored.as_ref(), owner, now)) else {
                    continue;
                };
                if before.owner != owner {
                    continue;
                }
                let what = format!("{change:?} on {before:?}");
                assert!(after.deleting || !before.deleting, "a tombstone stays: {what}");
                assert!(after.attempt >= before.attempt, "attempts only rise: {what}");
                assert_eq!(after.owner, before.owner, "{what}");
                if before.attempt > 0 {
                    assert_eq!(after.target(), before.target(), "{what}");
                }
                if change.name() != "Upgrade" && before.attempt > 0 {
                    assert_eq!(after.recipe(), before.recipe(), "{what}");
                }
                if after.attempt == before.attempt {
                    assert!(after.cleaned_up || !before.cleaned_up, "{what}");
                    assert!(
                        before.job_result.is_none() || after.job_result == before.job_result,
                        "{what}"
                    );
                    assert_eq!(after.attempt_id, before.attempt_id, "{what}");
                }
                if after.cleaned_up && !before.cleaned_up && !after.job_uid.is_empty() {
                    assert!(
                        before.job_result.is_some(),
                        "a result comes before what is revoked: {what}"
                    );
                }
            }
        }
    }

    #[test]
    fn whoever_was_taken_over_has_lost() {
        let [start, .., bury] = &changes()[..] else { panic!() };
        let plan = start.apply(None, OWNER, at(1)).unwrap();
        let taken = Change::TakeOver {
            preparation: preparation("q"),
        };
        let taken = taken.apply(Some(&plan), OWNER, at(40)).unwrap();
        for late in changes()
            .into_iter()
            .filter(|change| matches!(change.name(), "Admit" | "Refuse"))
        {
            assert_eq!(late.apply(Some(&taken), OWNER, at(41)), Err(NotNow::Lost));
        }
        let admitted = Plan {
            namespace_admission_known: true,
            namespace_admitted: true,
            ..taken
        };
        let record = changes()
            .into_iter()
            .find(|change| change.name() == "RecordJob")
            .unwrap();
        assert_eq!(record.apply(Some(&admitted), OWNER, at(41)), Err(NotNow::Lost));
        let buried = bury.apply(Some(&admitted), OWNER, at(41)).unwrap();
        assert_eq!(
            record.apply(Some(&buried), OWNER, at(41)),
            Err(NotNow::State(State::Deleting))
        );
    }

    #[test]
    fn whoever_was_paused_past_the_lease_and_not_taken_over_goes_on() {
        let all = changes();
        let of = |name: &str| all.iter().find(|change| change.name() == name).unwrap();
        let plan = of("Start").apply(None, OWNER, at(1)).unwrap();
        let plan = of("Admit").apply(Some(&plan), OWNER, at(2)).unwrap();
        assert_eq!(State::of(Some(&plan), OWNER, at(45)), State::PrepExpired);
        let plan = of("RecordJob").apply(Some(&plan), OWNER, at(45)).unwrap();
        // And a Job that runs is not taken over, however old the lease is.
        assert_eq!(State::of(Some(&plan), OWNER, at(59)), State::Running);
        assert!(of("TakeOver").apply(Some(&plan), OWNER, at(59)).is_err());
    }

    #[test]
    fn no_job_is_recorded_before_the_namespace_is_admitted() {
        let all = changes();
        let of = |name: &str| all.iter().find(|change| change.name() == name).unwrap();
        let plan = of("Start").apply(None, OWNER, at(1)).unwrap();
        assert!(of("RecordJob").apply(Some(&plan), OWNER, at(2)).is_err());
    }
}
