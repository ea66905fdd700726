//! What is told of one step after a pass.

use std::time::Duration;

use chandlery_core::cluster::Watched;
use chandlery_core::{Class, Setback, StepName, backoff};
use serde_json::Value;

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowState {
    /// Done with what the spec says.
    Done,
    /// Its condition is false, and nothing of it is left.
    Skipped,
    /// Waits for steps it needs.
    Pending,
    /// Has yielded, or what it stands on is not there yet.
    Waiting,
    /// Has failed.
    Failed,
    /// Is being undone.
    Removing,
}

/// One step after a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    /// Which step.
    pub step: StepName,
    /// Where: the remote's name within the provision, or `hub`.
    pub on: String,
    /// Where it stands.
    pub state: RowState,
    /// Class of what holds it up; absent when done, skipped or pending.
    pub class: Option<Class>,
    /// One CamelCase word.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// What wakes it.
    pub watch: Vec<Watched>,
    /// When it asked to be looked at again.
    pub after: Option<Duration>,
    /// Outputs, when done.
    pub outputs: Option<Value>,
    /// How many objects it owns.
    pub inventory: usize,
    /// Whether a call was tried in this pass: what counts a round up.
    pub tried: bool,
}

impl StepRow {
    /// How long the step is left alone that has not come to its end for the `round`-th time in a row, spread by `jitter` (0 to 1).
    pub fn delay(&self, round: u32, jitter: f64) -> Duration {
        match (self.state, self.class) {
            (RowState::Waiting | RowState::Removing, _) => backoff::of_yield(self.after, jitter),
            // Only a person can help, and what they change wakes the step; looked at rarely for what cannot be watched.
            (_, Some(Class::UserFix | Class::Bug)) => backoff::retry(round.saturating_add(4), jitter),
            _ => backoff::retry(round, jitter),
        }
    }

    /// A row without anything to wait for.
    pub fn new(step: &StepName, on: &str, state: RowState, reason: &str, message: impl Into<String>) -> Self {
        Self {
            step: step.clone(),
            on: on.to_owned(),
            state,
            class: None,
            reason: reason.to_owned(),
            message: message.into(),
            watch: Vec::new(),
            after: None,
            outputs: None,
            inventory: 0,
            tried: false,
        }
    }

    /// A row of a step that is held up.
    pub fn held_up(step: &StepName, on: &str, removing: bool, setback: Setback) -> Self {
        let state = match (removing, setback.class) {
            (_, Class::Retry | Class::UserFix | Class::Bug) => RowState::Failed,
            (true, Class::Wait) => RowState::Removing,
            (false, Class::Wait) => RowState::Waiting,
        };
        Self {
            class: Some(setback.class),
            tried: true,
            ..Self::new(step, on, state, &setback.reason, setback.message)
        }
    }

    /// How bad it is, for the worst of a pass: errors, then waits, then done.
    pub fn severity(&self) -> u8 {
        match (self.state, self.class) {
            (RowState::Failed, Some(Class::Bug)) => 6,
            (RowState::Failed, Some(Class::UserFix)) => 5,
            (RowState::Failed, _) => 4,
            (RowState::Waiting | RowState::Removing, _) => 3,
            (RowState::Pending, _) => 2,
            (RowState::Done | RowState::Skipped, _) => 0,
        }
    }
}
