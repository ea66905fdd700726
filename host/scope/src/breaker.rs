//! A cluster that cannot be reached is not asked by everyone, again and again: after five failures in a row one request at a
//! time finds out whether it is back, and all others are answered at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures in a row after which the breaker opens. Only failures of transport count: an answer, whatever it says, is one.
const FAILURES: u32 = 5;
/// How long it stays open after the first opening; doubled with each probe that fails.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Longest time between two probes.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct State {
    failures: u32,
    open_until: Option<Instant>,
    probing: bool,
}

/// The breaker of one connection.
#[derive(Default)]
pub(crate) struct Breaker(Mutex<State>);

/// Leave to send one request; what became of it is to be told. Dropped without a word it counts as nothing.
pub(crate) struct Leave<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

impl Breaker {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leave to send, or how long nobody will be let through.
    pub(crate) fn enter(&self, now: Instant) -> Result<Leave<'_>, Duration> {
        let mut state = self.lock();
        let Some(until) = state.open_until else {
            return Ok(Leave {
                breaker: self,
                probe: false,
            });
        };
        if until > now || state.probing {
            return Err(until.saturating_duration_since(now));
        }
        state.probing = true;
        Ok(Leave {
            breaker: self,
            probe: true,
        })
    }
}

impl Leave<'_> {
    /// The cluster answered.
    pub(crate) fn answered(self) {
        *self.breaker.lock() = State::default();
    }

    /// The cluster was not reached.
    pub(crate) fn failed(self, now: Instant) {
        let mut state = self.breaker.lock();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= FAILURES {
            let doublings = (state.failures - FAILURES).min(8);
            state.open_until = Some(now + FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE));
        }
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.breaker.lock().probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_five_failures_lets_one_probe_through_and_closes_on_an_answer() {
        let (breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES {
            breaker.enter(start).ok().unwrap().failed(start);
        }
        assert!(breaker.enter(start).is_err());
        let later = start + FIRST_PAUSE;
        let probe = breaker.enter(later).ok().unwrap();
        assert!(breaker.enter(later).is_err(), "one probe at a time");
        probe.failed(later);
        assert!(breaker.enter(later + FIRST_PAUSE).is_err(), "the pause has doubled");
        let probe = breaker.enter(later + FIRST_PAUSE * 2).ok().unwrap();
        drop(probe);
        breaker.enter(later + FIRST_PAUSE * 2).ok().unwrap().answered();
        assert!(breaker.enter(start).is_ok());
    }

    #[test]
    fn an_answer_between_failures_starts_the_count_anew() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..3 {
            for _ in 0..FAILURES - 1 {
                breaker.enter(now).ok().unwrap().failed(now);
            }
            breaker.enter(now).ok().unwrap().answered();
        }
        assert!(breaker.enter(now).is_ok());
    }
}
