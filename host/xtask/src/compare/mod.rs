//! The simulator against a real API server: the same random requests to both, and every answer compared.
//!
//! Compared are status, reason, causes, warnings and bodies, with UIDs and times replaced by names and resource versions by
//! their order; after the controllers have come to rest, the collections; at the end, the events of each collection.

mod grammar;
mod kinds;
mod normal;
mod rows;
mod run;
pub mod sequence;
mod side;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use crate::control_plane::ControlPlane;
use crate::progress::Progress;
use crate::workspace;
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
    /// How many sequences are played at once.
    pub at_once: usize,
    /// Where the shortest sequences that show a difference are written to.
    pub save: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Requests that were compared.
    pub requests: u64,
    /// Differences that are not allowed, each with its shortest sequence.
    pub differences: Vec<(String, Difference, Vec<Step>)>,
    /// How often an allowed difference was seen.
    pub allowed: BTreeMap<&'static str, u64>,
    /// How often each verb met each kind.
    pub coverage: BTreeMap<(String, String), u64>,
    /// How often each verb had to do with each row of what must be right.
    pub rows: BTreeMap<(u8, String), u64>,
}

/// A sequence to be played.
struct Played {
    name: String,
    /// What in it is made unique to each time it is played.
    mark: String,
    steps: Vec<Step>,
}

/// Runs the comparison.
///
/// # Errors
/// If a server cannot be started or asked. Differences are no error; see [`Report::differences`].
pub fn run(options: &Options) -> Result<Report> {
    let mut kinds = kinds::all();
    kinds.retain(|kind| options.kinds.is_empty() || options.kinds.iter().any(|wanted| wanted == kind.kind));
    ensure!(!kinds.is_empty(), "no kind of that name is compared");
    let numbers = options.only.map_or(0..options.sequences, |only| only..only + 1);
    let sequence = |index: u64| {
        let number = numbers.start + index;
        let mut grammar = Grammar::new(&kinds, options.seed, number);
        let steps = grammar.sequence(options.steps);
        let mark = grammar.namespace();
        Ok((number < numbers.end).then(|| Played {
            name: mark.clone(),
            mark,
            steps,
        }))
    };
    let what = format!("comparing {} sequences of {} steps", options.sequences, options.steps);
    play(options, &what, &sequence)
}

/// Plays the sequences of a directory, such as those that once showed a difference.
///
/// # Errors
/// As [`run`], and if one cannot be read.
pub fn run_corpus(options: &Options, directory: &Path) -> Result<Report> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .with_context(|| format!("reading {}", directory.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    ensure!(!files.is_empty(), "there is no sequence in {}", directory.display());
    let sequence = |index: u64| {
        let Some(path) = usize::try_from(index).ok().and_then(|index| files.get(index)) else {
            return Ok(None);
        };
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let steps = serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mark = MARK.to_owned();
        Ok(Some(Played { name, mark, steps }))
    };
    let what = format!("comparing {} sequences that once differed", files.len());
    play(options, &what, &sequence)
}

/// Where sequences are kept that once showed a difference.
#[must_use]
pub fn corpus() -> PathBuf {
    workspace::root().join("host/xtask/corpus")
}

/// The name of a sequence of the corpus within itself.
const MARK: &str = "s0-corpus";

fn play(options: &Options, what: &str, sequence: &(dyn Fn(u64) -> Result<Option<Played>> + Sync)) -> Result<Report> {
    let cluster = Arc::new(
        ControlPlane::builder()
            .name("compare")
            // Those that the simulator has too; what others write would make every answer a matter of luck.
            .controllers("garbage-collector-controller,namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller")
            .start()?,
    );
    let first = Pair::start(cluster)?;
    let progress = Progress::start(what.to_owned());
    let report = Mutex::new(Report::default());
    let next = AtomicU64::new(0);
    let lock = || report.lock().unwrap_or_else(PoisonError::into_inner);
    // Most of the time is spent waiting for the real controllers, so that several sequences can wait at once.
    let player = |mut pair: Pair| -> Result<()> {
        while let Some(played) = sequence(next.fetch_add(1, Ordering::Relaxed))? {
            let (requests, differences) = {
                let report = lock();
                (report.requests, report.differences.len())
            };
            if differences >= options.most {
                return Ok(());
            }
            progress.detail(&format!(
                "{}, {requests} requests, {differences} differences",
                played.name
            ));
            let mut own = Report::default();
            let found = pair.play(&played.steps, &played.mark, Some(&mut own))?;
            lock().add(own);
            let Some(difference) = found else { continue };
            let shortest = if difference.is_slow {
                // Each attempt would wait for as long as the controllers may take.
                played.steps
            } else {
                shrink(&mut pair, &played.steps, &difference, &played.mark)?
            };
            eprintln!("── sequence {}\n{}", played.name, shown(&difference, &shortest));
            if let Some(directory) = &options.save {
                save(directory, &played.name, &played.mark, &shortest)?;
            }
            lock().differences.push((played.name, difference, shortest));
        }
        Ok(())
    };
    let mut pairs = Vec::new();
    for _ in 1..options.at_once {
        pairs.push(first.sibling()?);
    }
    pairs.push(first);
    std::thread::scope(|scope| {
        let players: Vec<_> = pairs.into_iter().map(|pair| scope.spawn(|| player(pair))).collect();
        players
            .into_iter()
            .try_for_each(|player| player.join().unwrap_or_else(|_| bail!("a comparison panicked")))
    })?;
    Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Keeps a sequence for the corpus.
fn save(directory: &Path, name: &str, mark: &str, steps: &[Step]) -> Result<()> {
    let text = serde_json::to_string_pretty(steps).context("writing a sequence")?;
    let path = directory.join(format!("{name}.json"));
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    fs::write(&path, text.replace(mark, MARK) + "\n").with_context(|| format!("writing {}", path.display()))
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
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        for (what, count) in other.allowed {
            *self.allowed.entry(what).or_default() += count;
        }
        for (what, count) in other.coverage {
            *self.coverage.entry(what).or_default() += count;
        }
        for (what, count) in other.rows {
            *self.rows.entry(what).or_default() += count;
        }
    }

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
        for (row, name) in rows::ROWS {
            let verbs = self.rows.range((row, String::new())..(row + 1, String::new()));
            let total: u64 = verbs.clone().map(|(_, count)| count).sum();
            let verbs: Vec<String> = verbs.map(|((_, verb), count)| format!("{verb} {count}")).collect();
            lines.push(format!("{row:2} {name:36} {total:6}  {}", verbs.join(" · ")));
        }
        for (what, count) in &self.allowed {
            lines.push(format!("let be: {what}, {count} times"));
        }
        lines.join("\n")
    }

    /// How many requests each kind met.
    #[must_use]
    pub fn of_kinds(&self) -> BTreeMap<&str, u64> {
        let mut of_kinds: BTreeMap<&str, u64> = BTreeMap::new();
        for ((kind, _), count) in &self.coverage {
            *of_kinds.entry(kind).or_default() += count;
        }
        of_kinds
    }

    /// The rows nothing had to do with.
    #[must_use]
    pub fn empty_rows(&self) -> Vec<&'static str> {
        let is_empty = |row: u8| {
            self.rows
                .range((row, String::new())..(row + 1, String::new()))
                .next()
                .is_none()
        };
        let rows = rows::ROWS.into_iter().filter(|(row, _)| is_empty(*row));
        rows.map(|(_, name)| name).collect()
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
