//! How long to wait before the next try, as a pure function of how often it was tried.

use std::time::Duration;

/// Delay of a yield that names none.
pub const DEFAULT_YIELD: Duration = Duration::from_secs(10);
/// Longest delay a yield may ask for: a plugin cannot put itself to sleep for ever.
pub const LONGEST_YIELD: Duration = Duration::from_secs(600);
/// Shortest delay a yield may ask for: a plugin cannot make the host spin.
pub const SHORTEST_YIELD: Duration = Duration::from_millis(200);
/// Longest delay between two tries of what keeps failing.
pub const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// How often a step that is done is looked at again though nothing is known to have changed.
pub const DRIFT: Duration = Duration::from_secs(1800);

/// Delay before try number `round + 1`: 0.5 s, 1 s, 2 s, … up to [`LONGEST_RETRY`], each times `0.75 + jitter / 2`.
///
/// `jitter` is in `0.0..1.0`; values outside are clamped.
pub fn retry(round: u32, jitter: f64) -> Duration {
    let exponent = round.min(16);
    let base = Duration::from_millis(500)
        .saturating_mul(1 << exponent)
        .min(LONGEST_RETRY);
    spread(base, jitter)
}

/// Delay of a yield: what it asked for within bounds, else [`DEFAULT_YIELD`], spread by `jitter`.
pub fn of_yield(asked: Option<Duration>, jitter: f64) -> Duration {
    spread(
        asked.map_or(DEFAULT_YIELD, |d| d.clamp(SHORTEST_YIELD, LONGEST_YIELD)),
        jitter,
    )
}

/// `base` times a factor in `0.75..1.25`.
pub fn spread(base: Duration, jitter: f64) -> Duration {
    base.mul_f64(0.75 + jitter.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_grow_and_stay_below_their_bound() {
        let mut last = Duration::ZERO;
        for round in 0..u32::MAX.ilog2() * 2 {
            let now = retry(round, 0.5);
            assert!(now >= last && now <= LONGEST_RETRY);
            last = now;
        }
        assert_eq!(retry(u32::MAX, 0.5), LONGEST_RETRY);
    }

    #[test]
    fn a_yield_can_neither_spin_nor_sleep_for_ever() {
        assert!(of_yield(Some(Duration::ZERO), 0.0) >= Duration::from_millis(150));
        assert!(of_yield(Some(Duration::MAX), 1.0) <= LONGEST_YIELD * 5 / 4);
    }
}
