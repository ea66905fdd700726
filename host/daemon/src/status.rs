//! From rows to what people see: conditions, counts, sentences. Equal rows give equal status, and nothing is written.

use chandlery::core::Class;
use chandlery::core::cluster::{Problem, join_problems};
use chandlery::engine::{Pass, RowState, StepRow};
use chandlery_api::condition::{READY, RECONCILING, STALLED, State, merge};
use chandlery_api::{ProvisionStatus, StepStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Longest message of a row.
const LONGEST_MESSAGE: usize = 512;

fn state_word(state: RowState) -> &'static str {
    match state {
        RowState::Done => "Done",
        RowState::Skipped => "Skipped",
        RowState::Pending => "Pending",
        RowState::Waiting => "Waiting",
        RowState::Failed => "Failed",
        RowState::Removing => "Removing",
    }
}

fn step_status(row: &StepRow, before: &[StepStatus], attempts: u32, now: Timestamp) -> StepStatus {
    let state = state_word(row.state);
    let since = before
        .iter()
        .find(|b| b.name == row.step.as_str() && b.state == state && b.reason == row.reason)
        .map_or(Time(now), |b| b.since.clone());
    StepStatus {
        name: row.step.to_string(),
        cluster: row.on.clone(),
        state: state.to_owned(),
        reason: row.reason.clone(),
        message: row.message.chars().take(LONGEST_MESSAGE).collect(),
        since,
        attempts,
        objects: u32::try_from(row.inventory).unwrap_or(u32::MAX),
    }
}

/// All that is wrong or waited for, the worst first.
fn sentence(pass: &Pass) -> String {
    let Some(worst) = pass.worst() else {
        return String::new();
    };
    let told = |row: &StepRow| format!("{}: {}", row.step, row.message);
    let mut parts = vec![told(worst)];
    let level = if worst.state == RowState::Failed {
        4
    } else {
        worst.severity()
    };
    parts.extend(
        pass.rows
            .iter()
            .filter(|row| row.step != worst.step && row.severity() >= level)
            .map(told),
    );
    parts.join("; ")
}

/// Status after a pass.
pub(crate) fn after_pass(
    pass: &Pass,
    deleting: bool,
    before: &ProvisionStatus,
    attempts: impl Fn(&StepRow) -> u32,
    generation: Option<i64>,
) -> ProvisionStatus {
    let now = Timestamp::now();
    let done = pass.rows.iter().filter(|row| row.severity() == 0).count();
    let stalled = pass
        .rows
        .iter()
        .find(|row| row.class.is_some_and(|class: Class| class.effect().stalled));
    let states = match pass.worst() {
        None if deleting => vec![State::new(READY, false, "Deleted", "nothing is left")],
        _ if pass.is_done() && !deleting => vec![State::new(READY, true, "Done", "")],
        None => vec![State::new(READY, true, "Done", "")],
        Some(worst) => {
            let message = if deleting {
                format!("being deleted; {}", sentence(pass))
            } else {
                sentence(pass)
            };
            let mut states = vec![State::new(READY, false, worst.reason.clone(), message.clone())];
            match stalled {
                Some(row) => states.push(State::new(
                    STALLED,
                    true,
                    row.reason.clone(),
                    format!("{}: {}", row.step, row.message),
                )),
                None => states.push(State::new(RECONCILING, true, worst.reason.clone(), message)),
            }
            states
        }
    };
    ProvisionStatus {
        observed_generation: generation,
        conditions: merge(&before.conditions, &states, generation, now),
        steps_done: Some(format!("{done}/{}", pass.rows.len())),
        steps: pass
            .rows
            .iter()
            .map(|row| step_status(row, &before.steps, attempts(row), now))
            .collect(),
    }
}

/// Status of a spec that does not compile.
pub(crate) fn of_problems(problems: &[Problem], before: &ProvisionStatus, generation: Option<i64>) -> ProvisionStatus {
    let message = join_problems(problems);
    let states = [
        State::new(READY, false, "InvalidSpec", message.clone()),
        State::new(STALLED, true, "InvalidSpec", message),
    ];
    plain(&states, before, generation)
}

/// Status of what is not run now.
pub(crate) fn of_state(
    status: Option<bool>,
    reason: &str,
    message: &str,
    before: &ProvisionStatus,
    generation: Option<i64>,
) -> ProvisionStatus {
    let state = State {
        kind: READY,
        status,
        reason: reason.into(),
        message: message.into(),
    };
    plain(&[state], before, generation)
}

fn plain(states: &[State], before: &ProvisionStatus, generation: Option<i64>) -> ProvisionStatus {
    ProvisionStatus {
        observed_generation: generation,
        conditions: merge(&before.conditions, states, generation, Timestamp::now()),
        ..before.clone()
    }
}

/// Whether two statuses tell the same. How often a step was tried is told with the next change, not by itself.
pub(crate) fn same(one: &ProvisionStatus, other: &ProvisionStatus) -> bool {
    let without = |status: &ProvisionStatus| {
        let mut status = status.clone();
        for step in &mut status.steps {
            step.attempts = 0;
        }
        status
    };
    without(one) == without(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chandlery::core::Setback;

    fn row(name: &str, class: Class) -> StepRow {
        StepRow::held_up(
            &name.parse().unwrap(),
            "r",
            false,
            Setback::new(class, "Reason", format!("message of {name}")),
        )
    }

    #[test]
    fn all_errors_are_told_and_the_worst_first() {
        let pass = Pass {
            rows: vec![row("a", Class::Retry), row("b", Class::UserFix), row("c", Class::Wait)],
        };
        let status = after_pass(&pass, false, &ProvisionStatus::default(), |_| 1, Some(3));
        assert_eq!(status.conditions[0].message, "b: message of b; a: message of a");
        assert_eq!(status.conditions[1].type_, STALLED);
        assert_eq!(status.steps_done.as_deref(), Some("0/3"));
    }

    #[test]
    fn equal_rows_give_equal_status() {
        let pass = Pass {
            rows: vec![row("a", Class::Wait)],
        };
        let first = after_pass(&pass, false, &ProvisionStatus::default(), |_| 1, Some(1));
        let second = after_pass(&pass, false, &first, |_| 2, Some(1));
        assert!(same(&first, &second));
        assert_eq!(first.steps[0].since, second.steps[0].since);
    }
}
