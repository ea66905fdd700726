//! `cargo xtask model`: everything that can happen to the claims on a shared remote, one state after another.
//!
//! What runs here is the code that runs: the machines of `chandlery_core::claim` decide every call. Only the hub is made up,
//! and the order in which a pass does things, which is the engine's.

mod explore;
mod task;
mod world;

use std::time::Instant;

use anyhow::{Context, Result, bail};
use chandlery_core::claim::{Rule, Rules};

pub use explore::{Found, Trace, explore};

/// How many holders are looked at with how many disturbances at most. Each disturbance makes a hundred times the states, so
/// that more of the one is less of the other; holders touch each other only through the list of claims.
pub const BOUNDS: [(usize, usize); 3] = [(3, 1), (2, 2), (1, 3)];

/// Where a broken protocol is looked for, the smallest first.
const SMALLEST_FIRST: [(usize, usize); 6] = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (1, 3)];

/// A rule by its name in the code, in whatever case and with or without hyphens.
///
/// # Errors
/// If there is none of that name; tells those there are.
pub fn rule(name: &str) -> Result<Rule> {
    let plain = |text: &str| text.replace(['-', '_'], "").to_lowercase();
    Rule::ALL
        .into_iter()
        .find(|rule| plain(&format!("{rule:?}")) == plain(name))
        .with_context(|| format!("there is no rule {name}; there are {:?}", Rule::ALL))
}

/// Looks at everything that can happen with all rules kept.
///
/// # Errors
/// If a property does not hold: with the shortest way there.
pub fn claims() -> Result<String> {
    let started = Instant::now();
    let (mut told, mut states) = (String::new(), 0);
    for (holders, disturbances) in BOUNDS {
        let found = explore(Rules::default(), holders, disturbances)?;
        if let Some(trace) = found.broken {
            bail!("{holders} holders, at most {disturbances} disturbances: {trace}");
        }
        states += found.states;
        told.push_str(&format!(
            "{:>9} states, {:>9} steps between them: {holders} holders, 2 hosts, every combination of at most {disturbances} disturbances\n",
            found.states, found.transitions
        ));
    }
    Ok(format!(
        "{told}{states:>9} states in {:.1} s; in each of them hold: no use after tear-down, no orphan, one registration, progress\n\
         a disturbance: a host stands still before a call, dies before or after one, loses its answer, begins on an old view,\n\
         or lives on while the other leads; a condition turns; a holder is forced away; the namespace is deleted.\n\
         free: steps are brought, holders and the remote are deleted, what stood still goes on",
        started.elapsed().as_secs_f64()
    ))
}

/// Looks for what breaks without a rule.
///
/// # Errors
/// If nothing does: then the model does not see what it is for.
pub fn broken(without: Rule) -> Result<Trace> {
    for (holders, disturbances) in SMALLEST_FIRST {
        let found = explore(Rules::without(without), holders, disturbances)?;
        if let Some(trace) = found.broken {
            return Ok(trace);
        }
    }
    bail!("without {without:?} all properties hold")
}
