//! What the daemon remembers of a Provision between two passes: only when to look again. Losing it costs a look.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chandlery::core::cluster::Problem;
use chandlery::core::{StepName, Uid, backoff};
use chandlery::engine::{Graph, Look, Pass, StepRow};
use chandlery_api::ProvisionStatus;
use tokio_util::sync::CancellationToken;

/// A step that is not looked at again before its time.
struct Held {
    until: Instant,
    row: StepRow,
}

/// What is remembered of one Provision.
pub(crate) struct Remembered {
    generation: Option<i64>,
    graph: Option<Arc<Result<Graph, Vec<Problem>>>>,
    rounds: BTreeMap<StepName, u32>,
    held: BTreeMap<StepName, Held>,
    due: BTreeSet<StepName>,
    all_due: bool,
    drift_at: Instant,
    /// What this process last wrote.
    pub(crate) status: Option<ProvisionStatus>,
    cancel: CancellationToken,
}

impl Default for Remembered {
    fn default() -> Self {
        Self {
            generation: None,
            graph: None,
            rounds: BTreeMap::new(),
            held: BTreeMap::new(),
            due: BTreeSet::new(),
            // A process that starts knows nothing of what happened meanwhile.
            all_due: true,
            drift_at: Instant::now() + backoff::spread(backoff::DRIFT, rand::random()),
            status: None,
            cancel: CancellationToken::new(),
        }
    }
}

impl Remembered {
    /// The graph of this generation, compiled once.
    pub(crate) fn graph(
        &mut self,
        generation: Option<i64>,
        compile: impl FnOnce() -> Result<Graph, Vec<Problem>>,
    ) -> Arc<Result<Graph, Vec<Problem>>> {
        if self.generation != generation {
            self.generation = generation;
            self.graph = None;
            // A new spec is a new chance for every step.
            self.held.clear();
            self.rounds.clear();
        }
        self.graph.get_or_insert_with(|| Arc::new(compile())).clone()
    }

    /// With what eyes the next pass looks. Takes what is due.
    pub(crate) fn look(&mut self, steps: &[StepName], concurrency: usize) -> Look {
        let now = Instant::now();
        if now >= self.drift_at {
            self.all_due = true;
            self.drift_at = now + backoff::spread(backoff::DRIFT, rand::random());
        }
        let mut due = std::mem::take(&mut self.due);
        if std::mem::take(&mut self.all_due) {
            due.extend(steps.iter().cloned());
        }
        self.held.retain(|step, held| held.until > now && !due.contains(step));
        let held = self
            .held
            .iter()
            .map(|(step, held)| (step.clone(), held.row.clone()))
            .collect();
        Look {
            due,
            held,
            rounds: self.rounds.clone(),
            concurrency,
        }
    }

    /// Takes in what a pass came to.
    pub(crate) fn take_in(&mut self, pass: &Pass) {
        for row in pass.rows.iter().filter(|row| row.tried) {
            if row.severity() == 0 {
                self.rounds.remove(&row.step);
                self.held.remove(&row.step);
                continue;
            }
            let round = self.rounds.entry(row.step.clone()).or_insert(0);
            let delay = row.delay(*round, rand::random());
            *round = round.saturating_add(1);
            // Woken while it ran: what it saw may be old by now.
            if !self.due.contains(&row.step) {
                self.held.insert(
                    row.step.clone(),
                    Held {
                        until: Instant::now() + delay,
                        row: row.clone(),
                    },
                );
            }
        }
    }

    /// How often in a row a step was tried.
    pub(crate) fn attempts(&self, step: &StepName) -> u32 {
        self.rounds.get(step).copied().unwrap_or(0)
    }

    /// When to look again if nothing happens.
    pub(crate) fn next_look(&self) -> Duration {
        let now = Instant::now();
        if self.all_due || !self.due.is_empty() {
            return Duration::ZERO;
        }
        let next = self
            .held
            .values()
            .map(|held| held.until)
            .chain([self.drift_at])
            .min()
            .unwrap_or(self.drift_at);
        next.saturating_duration_since(now)
    }

    /// Begins a pass that can be cancelled.
    pub(crate) fn begin(&mut self) -> CancellationToken {
        self.cancel = CancellationToken::new();
        self.cancel.clone()
    }

    /// Something that steps wait for has changed: they are looked at in the next pass.
    pub(crate) fn unhold(&mut self) {
        self.held.clear();
    }
}

/// What is remembered of all Provisions, by UID: a successor of the same name starts anew.
#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<Uid, Remembered>>);

impl Memory {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uid, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn with<T>(&self, uid: &Uid, act: impl FnOnce(&mut Remembered) -> T) -> T {
        act(self.lock().entry(uid.clone()).or_default())
    }

    /// A step's watch fired.
    pub(crate) fn wake(&self, uid: &Uid, step: &StepName) {
        if let Some(remembered) = self.lock().get_mut(uid) {
            remembered.due.insert(step.clone());
            remembered.held.remove(step);
        }
    }

    /// Something the Provision stands on has changed.
    pub(crate) fn unhold(&self, uid: &Uid) {
        if let Some(remembered) = self.lock().get_mut(uid) {
            remembered.unhold();
        }
    }

    /// Ends a pass that runs: deletion pre-empts.
    pub(crate) fn cancel(&self, uid: &Uid) {
        if let Some(remembered) = self.lock().get_mut(uid) {
            remembered.cancel.cancel();
            remembered.unhold();
        }
    }

    pub(crate) fn forget(&self, uid: &Uid) {
        self.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use chandlery::core::Class;

    use super::*;
    use chandlery::core::Setback;

    fn step(name: &str) -> StepName {
        name.parse().unwrap()
    }

    #[test]
    fn a_step_that_yielded_is_held_until_it_is_woken() {
        let mut remembered = Remembered::default();
        assert_eq!(
            remembered.look(&[step("a")], 1).due.len(),
            1,
            "everything is due to a process that starts"
        );
        let row = StepRow::held_up(&step("a"), "r", false, Setback::new(Class::Wait, "X", "y"));
        remembered.take_in(&Pass { rows: vec![row] });
        let look = remembered.look(&[step("a")], 1);
        assert!(look.due.is_empty() && look.held.contains_key(&step("a")));
        assert!(remembered.next_look() > Duration::ZERO && remembered.next_look() <= Duration::from_secs(13));
        let memory = Memory::default();
        let uid: Uid = "u".parse().unwrap();
        memory.with(&uid, |r| *r = remembered);
        memory.wake(&uid, &step("a"));
        let look = memory.with(&uid, |r| r.look(&[step("a")], 1));
        assert!(look.held.is_empty() && look.due.contains(&step("a")));
    }

    #[test]
    fn a_new_generation_is_a_new_chance() {
        let mut remembered = Remembered::default();
        remembered.graph(Some(1), || Err(vec![]));
        let row = StepRow::held_up(&step("a"), "r", false, Setback::new(Class::UserFix, "X", "y"));
        remembered.take_in(&Pass { rows: vec![row] });
        assert_eq!(remembered.attempts(&step("a")), 1);
        remembered.graph(Some(2), || Err(vec![]));
        assert_eq!(remembered.attempts(&step("a")), 0);
        assert!(remembered.look(&[], 1).held.is_empty());
    }
}
