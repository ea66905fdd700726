//! The whole path in figures: one Provision and many, against the same objects by kubectl, and what an idle daemon costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::Options;
use super::load::{self, NAMESPACE, SECRET};
use super::measure::{self, Counter, Requests, Times};
use super::rounds::{Round, report_rounds};
use super::table::{self, Figures};
use crate::control_plane::Binaries;
use crate::daemon::{self, Daemon, DaemonOptions};
use crate::progress::Progress;
use crate::stage::{self, Stage};
use crate::{guests, workspace};

/// How long the daemon is left alone to see whether it leaves the clusters alone: the one thing here that has to take time.
const QUIET: Duration = Duration::from_secs(20);
/// Memory and requests have come to rest when nothing was asked for this long.
const SETTLED: Duration = Duration::from_secs(3);
const SETTLES_WITHIN: Duration = Duration::from_secs(120);
const PASSES_WITHIN: Duration = Duration::from_secs(60);

/// Takes all figures, prints them as one table and writes `target/bench/path.json`.
///
/// # Errors
/// If something cannot be built or started, or a Provision does not get Ready or go within five minutes.
pub fn run(options: &Options) -> Result<()> {
    // What may ask comes before what takes minutes.
    let plugins = guests::plugins(options.consent).context("preparing the plugins")?;
    Binaries::prepare().context("preparing the control plane")?;
    let component = plugins.get("objects").context("finding the plugin `objects`")?;
    let binary = match &options.binary {
        Some(given) => given.clone(),
        None => workspace::release_binary(component)?,
    };
    let mut figures = Figures::default();
    figures.add(
        "release binary",
        "MB",
        Some(40.0),
        [fs::metadata(&binary)?.len() as f64 / 1e6],
    );

    let progress = Progress::start("measuring the path");
    let stage = Stage::start("bench")?;
    let cache = tempfile::tempdir().context("creating a temporary directory")?;
    let mut daemon = start(&stage, binary, cache.path(), component)?;
    let bench = Bench {
        options,
        progress: &progress,
        counter: Counter::of(&stage),
        daemon: &daemon,
        stage: &stage,
    };
    let outcome = bench.take(&mut figures);
    if outcome.is_err() {
        eprintln!("The end of the daemon's log:\n{}", daemon.log_tail(40));
    }
    outcome?;
    let ended = daemon.stop()?;
    ensure!(ended.success(), "the daemon ended with {ended}");
    drop(progress);
    let (median, p99) = measure::instance(component)?;
    figures.add("fresh instance + call + drop, median", "µs", Some(18.0), [median]);
    figures.add("fresh instance + call + drop, 99 %", "µs", None, [p99]);
    table::report("path", &figures)
}

fn start(stage: &Stage, binary: PathBuf, cache: &Path, component: &Path) -> Result<Daemon> {
    daemon::install(&stage.hub, &binary)?;
    let daemon = Daemon::start(
        &stage.hub,
        DaemonOptions {
            binary,
            plugin_dir: workspace::root().join("target/plugins"),
            cache_dir: cache.to_owned(),
            lease_seconds: 15,
            extra_args: Vec::new(),
            // As operators run it.
            log: "info".into(),
        },
    )?;
    let bytes = fs::read(component).with_context(|| format!("reading {}", component.display()))?;
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut documents = load::surroundings(&format!("sha256:{hex}"));
    documents.push(stage.secret(NAMESPACE, SECRET)?);
    stage::apply(&stage.hub.client(), &documents)?;
    stage::apply(&stage.remote.client(), [&load::namespace()])?;
    for what in ["remotecluster", "plugin"] {
        let namespace = format!("--namespace={NAMESPACE}");
        let arguments = [
            "wait",
            "--for=condition=Ready",
            "--all",
            "--timeout=120s",
            &namespace,
            what,
        ];
        stage.hub.client().text(arguments)?;
    }
    Ok(daemon)
}

struct Bench<'a> {
    options: &'a Options,
    progress: &'a Progress,
    counter: Counter,
    daemon: &'a Daemon,
    stage: &'a Stage,
}

impl Bench<'_> {
    fn take(mut self, figures: &mut Figures) -> Result<()> {
        self.settle()?;
        figures.add(
            "daemon, idle, PSS",
            "MiB",
            Some(40.0),
            [measure::pss(self.daemon.pid())?],
        );
        for (count, rounds) in [
            (1, self.options.rounds),
            (self.options.many, self.options.rounds_of_many),
        ] {
            // The first round pays for connections and discovery.
            self.round(count, None)?;
            let mut taken = Vec::new();
            for number in 1..=rounds {
                self.progress
                    .detail(&format!("{count} at once, round {number} of {rounds}"));
                let last = number == rounds && count == self.options.many;
                taken.push(self.round(count, last.then_some(&mut *figures))?);
            }
            report_rounds(count, &taken, figures);
        }
        Ok(())
    }

    /// Makes and takes away, once by us and once by kubectl; in between, what a standing load costs.
    fn round(&mut self, count: usize, standing: Option<&mut Figures>) -> Result<Round> {
        let hub = self.stage.hub.client();
        self.settle()?;
        let made = measure::made(&hub, count)?;
        // What comes after Ready is part of the price.
        let making = self.settle()?;
        if let Some(figures) = standing {
            self.standing(count, figures)?;
        }
        let gone = measure::gone(&hub, count)?;
        let taking = self.settle()?;
        let twin = measure::twin(&self.stage.remote.client(), count)?;
        Ok(Round {
            ours: Times { made, gone },
            twin,
            making,
            taking,
        })
    }

    /// Memory, a quiet window, and a pass that finds nothing to do, while so many Provisions are Ready.
    fn standing(&mut self, count: usize, figures: &mut Figures) -> Result<()> {
        self.settle()?;
        let what = format!("daemon, {count} provisions, PSS");
        figures.add(what, "MiB", Some(60.0), [measure::pss(self.daemon.pid())?]);
        let before = measure::passes(self.daemon)?;
        std::thread::sleep(QUIET);
        let (quiet, passes) = (self.counter.news()?, measure::passes(self.daemon)? - before);
        for request in self.counter.last() {
            eprintln!("while all was quiet: {request}");
        }
        let window = format!("{count} provisions, left alone for {} s", QUIET.as_secs());
        figures.add(
            format!("{window}: reads"),
            "",
            Some(0.0),
            [(quiet.all() - quiet.writes) as f64],
        );
        figures.add(format!("{window}: writes"), "", Some(0.0), [quiet.writes as f64]);
        figures.add(format!("{window}: passes"), "", None, [passes]);

        let before = measure::passes(self.daemon)?;
        let arguments = [
            "annotate",
            "provisions",
            "--all",
            "--namespace",
            NAMESPACE,
            "bench=looked-at",
        ];
        self.stage.hub.client().text(arguments)?;
        let deadline = Instant::now() + PASSES_WITHIN;
        // Not every look becomes a pass; then the requests count all the same.
        while measure::passes(self.daemon)? - before < count as f64 && Instant::now() < deadline {
            if self.settle()?.all() == 0 {
                break;
            }
        }
        let (requests, passes) = (self.counter.news()?, measure::passes(self.daemon)? - before);
        figures.add(
            format!("{count} provisions looked at again, nothing to do: requests"),
            "",
            Some(0.0),
            [requests.all() as f64],
        );
        figures.add(
            format!("{count} provisions looked at again: passes"),
            "",
            None,
            [passes],
        );
        Ok(())
    }

    /// Waits until the daemon asks for nothing more; answers what it asked for since the last count.
    fn settle(&mut self) -> Result<Requests> {
        let mut sum = self.counter.news()?;
        let deadline = Instant::now() + SETTLES_WITHIN;
        loop {
            std::thread::sleep(SETTLED);
            let news = self.counter.news()?;
            if news.all() == 0 {
                return Ok(sum);
            }
            sum = sum + news;
            ensure!(
                Instant::now() < deadline,
                "the daemon does not come to rest within {} s",
                SETTLES_WITHIN.as_secs()
            );
        }
    }
}
