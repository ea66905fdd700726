//! The simulator against a real API server: the same random requests to both, and every answer compared.
//!
//! Compared are status, reason, causes, warnings and bodies, with UIDs and times replaced by names and resource versions by
//! their order; after the controllers have come to rest, the collections; at the end, the events of each collection.

mod grammar;
mod kinds;
mod normal;
mod run;
pub mod sequence;
mod side;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::control_plane::ControlPlane;
use crate::progress::Progress;
use grammar::Grammar;
pub use run::Difference;
use run::{Pair, shrink};
use sequence::Step;

/// How much is compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many sequences.
    pub sequences: u64,
    /// Which ones.
    pub seed: u64,
    /// Steps of a sequence.
    pub steps: usize,
    /// How many differences are shrunk and shown before it stops.
    pub most: usize,
    /// Only this one.
    pub only: Option<u64>,
    /// Only these kinds; all if there are none.
    pub kinds: Vec<String>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Requests that were compared.
    pub requests: u64,
    /// Differences that are not allowed, each with its shortest sequence.
    pub differences: Vec<(u64, Difference, Vec<Step>)>,
    /// How often an allowed difference was seen.
    pub allowed: BTreeMap<&'static str, u64>,
    /// How often each verb met each kind.
    pub coverage: BTreeMap<(String, String), u64>,
}

/// Runs the comparison.
///
/// # Errors
/// If a server cannot be started or asked. Differences are no error; see [`Report::differences`].
pub fn run(options: &Options) -> Result<Report> {
    let cluster = Arc::new(
        ControlPlane::builder()
            .name("compare")
            // Those that the simulator has too; what others write would make every answer a matter of luck.
            .controllers("garbage-collector-controller,namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller")
            .start()?,
    );
    let mut pair = Pair::start(Arc::clone(&cluster))?;
    let mut kinds = kinds::all();
    kinds.retain(|kind| options.kinds.is_empty() || options.kinds.iter().any(|wanted| wanted == kind.kind));
    ensure!(!kinds.is_empty(), "no kind of that name is compared");
    let mut report = Report::default();
    let progress = Progress::start(format!(
        "comparing {} sequences of {} steps",
        options.sequences, options.steps
    ));
    let numbers = options.only.map_or(0..options.sequences, |only| only..only + 1);
    for number in numbers {
        let mut grammar = Grammar::new(&kinds, options.seed, number);
        let steps = grammar.sequence(options.steps);
        progress.detail(&format!(
            "sequence {number}, {} requests, {} differences",
            report.requests,
            report.differences.len()
        ));
        let found = pair.play(&steps, &grammar.namespace(), Some(&mut report))?;
        if let Some(difference) = found {
            let shortest = if difference.is_slow {
                // Each attempt would wait for as long as the controllers may take.
                steps
            } else {
                shrink(&mut pair, &steps, &difference, &grammar.namespace())?
            };
            eprintln!("── sequence {number}\n{}", shown(&difference, &shortest));
            report.differences.push((number, difference, shortest));
            if report.differences.len() >= options.most {
                break;
            }
        }
    }
    Ok(report)
}

/// A difference for people, with the sequence that shows it.
#[must_use]
pub fn shown(difference: &Difference, steps: &[Step]) -> String {
    let mut lines: Vec<String> = steps.iter().map(|step| format!("  {}", step.shown())).collect();
    lines.push(format!("  at: {}", difference.step));
    lines.extend(difference.paths.iter().map(|path| format!("    {path}")));
    lines.join("\n")
}

impl Report {
    /// The table of what met what.
    #[must_use]
    pub fn table(&self) -> String {
        let mut of_kind: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for ((kind, verb), count) in &self.coverage {
            *of_kind.entry(kind).or_default().entry(verb).or_default() += count;
        }
        let mut lines = Vec::new();
        for (kind, verbs) in of_kind {
            let total: u64 = verbs.values().sum();
            let verbs: Vec<String> = verbs.iter().map(|(verb, count)| format!("{verb} {count}")).collect();
            lines.push(format!("{kind:26} {total:6}  {}", verbs.join(" · ")));
        }
        lines.join("\n")
    }

    /// # Errors
    /// If there is a difference that is not allowed.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.differences.is_empty(),
            "{} sequences differ",
            self.differences.len()
        );
        Ok(())
    }
}
