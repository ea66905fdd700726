//! One command runs every test there is: quiet when green, complete when red, and its last line is the count.

mod libtest;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

pub use libtest::{Reader, Tally};

use crate::consent::Consent;
use crate::control_plane::Binaries;
use crate::progress::{self, Progress};
use crate::{guests, packages, workspace};

/// The seed of property tests, unless new ones are asked for: a red run must stay red until it is mended.
const SEED: u64 = 20_260_101;

/// How to run the tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only tests whose name contains this.
    pub only: Option<String>,
    /// Property tests look at new cases; the seed is printed.
    pub new_seeds: bool,
    /// Who agrees to changes outside the cache.
    pub consent: Consent,
}

/// Prepares what the tests stand on, runs them, and prints what happened; the last line is the tally.
///
/// # Errors
/// If something cannot be prepared or built. Failing tests are no error here: see [`Tally::is_green`].
pub fn run(options: &Options) -> Result<Tally> {
    prepare(options.consent)?;
    build()?;
    let (tally, reports) = run_tests(options)?;
    print(&tally, &reports);
    Ok(tally)
}

/// Everything that takes long is made here, where it is shown, and not inside a test, where it would look like a hang.
fn prepare(consent: Consent) -> Result<()> {
    // What may ask comes before what takes minutes.
    guests::plugins(consent).context("preparing the plugins")?;
    let fixtures = workspace::root().join("tests").join("fixtures");
    if fixtures.join("Cargo.toml").exists() {
        guests::build(&guests::toolchain(consent)?, &fixtures).context("preparing the bad guests of the tests")?;
    }
    packages::program(
        "strace",
        "shows that a test started no process and opened no file",
        consent,
    )?;
    Binaries::prepare().context("preparing the control plane")?;
    Ok(())
}

/// The host, and the plugins: a workspace of its own, whose tests run natively.
fn workspaces() -> [std::path::PathBuf; 2] {
    ["Cargo.toml", "plugins/Cargo.toml"].map(|manifest| workspace::root().join(manifest))
}

fn cargo_test(manifest: &Path) -> Command {
    let mut command = workspace::cargo();
    command.args(["test", "--workspace", "--manifest-path"]).arg(manifest);
    command
}

fn build() -> Result<()> {
    for manifest in workspaces() {
        progress::run("building the tests", cargo_test(&manifest).arg("--no-run"))?;
    }
    Ok(())
}

fn run_tests(options: &Options) -> Result<(Tally, String)> {
    let seed = if options.new_seeds { rand::random() } else { SEED };
    if options.new_seeds {
        eprintln!("property tests use seed {seed}: PROPTEST_RNG_SEED={seed} repeats this run");
    }
    let binary = workspace::binary("chandlery")?;
    let progress = Progress::start("running the tests");
    let mut reader = Reader::default();
    for manifest in workspaces() {
        let mut command = cargo_test(&manifest);
        command
            .args(["--no-fail-fast", "--color", "never"])
            .env("CHANDLERY_BIN", &binary);
        if let Some(only) = &options.only {
            command.args(["--", only]);
        }
        if options.new_seeds || std::env::var_os("PROPTEST_RNG_SEED").is_none() {
            command.env("PROPTEST_RNG_SEED", seed.to_string());
        }
        let failed_before = reader.end_run();
        let mut last_lines = Vec::new();
        let status = progress::stream(&mut command, |line| {
            if let Some(test) = reader.line(line) {
                progress.detail(test);
            }
            last_lines.push(line.to_owned());
        })?;
        if !status.success() && reader.end_run() == failed_before {
            // Cargo itself failed: whatever was counted is not the whole.
            bail!("cargo test ended with {status}\n{}", last_lines.join("\n"));
        }
    }
    drop(progress);
    Ok(reader.finish())
}

#[allow(clippy::print_stdout, reason = "this is the answer of the program")]
fn print(tally: &Tally, reports: &str) {
    if !reports.is_empty() {
        println!("{reports}");
    }
    for failed in &tally.failed {
        println!("FAILED   {failed}");
    }
    for (skipped, reason) in &tally.skipped {
        println!("skipped  {skipped} ({reason})");
    }
    println!("{}", tally.summary());
}
