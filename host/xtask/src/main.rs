//! `cargo xtask`: one verb per task, each told in one line by `cargo xtask help`.

#![allow(clippy::print_stdout, reason = "a program's answers go to standard output")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use xtask::consent::Consent;
use xtask::control_plane::{self, ControlPlane, ControlPlaneBuilder, Detached};
use xtask::{bench, codegen, compare, demo, floors, guests, model, record, test};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Development tasks of Chandlery",
    disable_version_flag = true
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Watch the whole path: a remote is brought to a declared state by a plugin, and left as it was.
    ///
    /// Builds what is missing, starts a hub and a remote, runs the daemon under its own ServiceAccount, applies an example,
    /// shows what happens, deletes it, and compares the clusters with what they were before. Fails if anything is left or
    /// missing. Hub and remote are clusters in memory and the example is examples/harbour; with --real they are real control
    /// planes (once per machine 5 minutes more, with Go), and it is examples/quickstart.
    Demo {
        /// Stop when all is Ready, leave it running, and print the kubeconfigs and how to stop.
        #[arg(long)]
        keep: bool,
        /// On real control planes.
        #[arg(long)]
        real: bool,
        /// Agree to changes outside ~/.cache/chandlery (a target of rustup, or packages of the system).
        #[arg(long)]
        yes: bool,
    },
    /// Take figures, beside their goals; nothing is asserted.
    Bench {
        #[command(subcommand)]
        what: Figures,
    },
    /// Run every test; the last line is the count.
    Test {
        /// Only tests whose name contains this.
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
        /// Agree to changes outside ~/.cache/chandlery (a target of rustup, or packages of the system).
        #[arg(long)]
        yes: bool,
        /// Let property tests look at new cases instead of those of the last run.
        #[arg(long)]
        new_seeds: bool,
    },
    /// Real Kubernetes control planes on this machine, until they are stopped.
    ControlPlane {
        #[command(subcommand)]
        what: What,
    },
    /// Build the first-party plugins into target/plugins.
    Plugins {
        /// Agree to changes outside ~/.cache/chandlery (a target of rustup, or packages of the system).
        #[arg(long)]
        yes: bool,
    },
    /// Compare the simulator with a real API server: the same random requests to both.
    ///
    /// Prints what met what, and each difference with the shortest sequence that shows it. Fails if there is one.
    Compare {
        /// How many sequences.
        #[arg(long, default_value_t = 500)]
        sequences: u64,
        /// Which ones; equal seeds make equal sequences.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Steps of each.
        #[arg(long, default_value_t = 50)]
        ops: usize,
        /// Stop after so many differences.
        #[arg(long, default_value_t = 5)]
        most: usize,
        /// Only the sequence of this number.
        #[arg(long)]
        only: Option<u64>,
        /// Only this kind, such as ConfigMap. Can be given several times.
        #[arg(long = "kind", value_name = "KIND")]
        kinds: Vec<String>,
        /// How many sequences are played at once.
        #[arg(long, default_value_t = 4)]
        at_once: usize,
        /// Play the sequences that once differed instead (host/xtask/corpus), or those of a directory.
        #[arg(long, value_name = "DIRECTORY", num_args = 0..=1)]
        corpus: Option<Option<PathBuf>>,
        /// Write the shortest sequences that show a difference into this directory, ready for the corpus.
        #[arg(long, value_name = "DIRECTORY")]
        save: Option<PathBuf>,
    },
    /// Look at everything that can happen to a protocol of the host's.
    Model {
        #[command(subcommand)]
        what: Modelled,
    },
    /// Ask a real API server for what the simulator must know, and write it into host/simulator/data.
    Record,
    /// Check that every crate uses only floors below it.
    Floors,
    /// Write the files that are generated from the code.
    Codegen {
        /// Change nothing; fail if a file is not what would be written.
        #[arg(long)]
        check: bool,
    },
}

#[derive(Subcommand)]
enum Modelled {
    /// Claims on a shared remote: take, use, release, register, tear down.
    ///
    /// Prints how many states there are and what holds in them, or the shortest way to one in which it does not.
    Claims {
        /// Leave this rule out, and print the shortest way to what breaks.
        #[arg(long, value_name = "RULE")]
        without: Option<String>,
    },
}

#[derive(Subcommand)]
enum Figures {
    /// From a Provision to its objects and back, against kubectl; requests, memory, size.
    ///
    /// Builds a release binary first (about 10 minutes). Prints one table and writes target/bench/path.json. Leave the
    /// machine alone meanwhile.
    Path {
        /// Rounds with one Provision.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Rounds with many Provisions.
        #[arg(long, default_value_t = 3)]
        rounds_of_many: usize,
        /// How many that is.
        #[arg(long, default_value_t = 100)]
        many: usize,
        /// Measure this chandlery binary instead of building a release.
        #[arg(long)]
        binary: Option<PathBuf>,
        /// Agree to changes outside ~/.cache/chandlery (a target of rustup, or packages of the system).
        #[arg(long)]
        yes: bool,
    },
    /// A thousand remotes in memory: dead ones beside others, idle ones, coming and going, a rotation under load.
    ///
    /// Builds a release binary first (about 10 minutes), then takes about a quarter of an hour. Prints one table and writes
    /// target/bench/scopes.json. Leave the machine alone meanwhile.
    Scopes {
        /// Only this part.
        #[arg(long)]
        only: Option<bench::Part>,
        /// Rounds of each comparison.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Measure this chandlery binary instead of building a release.
        #[arg(long)]
        binary: Option<PathBuf>,
        /// Agree to changes outside ~/.cache/chandlery (a target of rustup, or packages of the system).
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Subcommand)]
enum What {
    /// Start control planes; those that are up stay as they are.
    Up {
        /// Their names.
        #[arg(default_values = ["hub", "remote"])]
        names: Vec<String>,
    },
    /// Stop control planes and remove all their data.
    Down {
        /// Their names.
        #[arg(default_values = ["hub", "remote"])]
        names: Vec<String>,
    },
    /// Print the path of a control plane's kubeconfig.
    Kubeconfig {
        /// Its name.
        name: String,
    },
    /// Start one control plane and stop it again at Ctrl-C.
    Run {
        /// Its name.
        name: String,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Demo { keep, real, yes } => {
            let consent = Consent::new(yes);
            let options = demo::Options { keep, consent };
            return if real {
                demo::run(options).map(|()| ExitCode::SUCCESS)
            } else {
                demo::in_memory(options)
            };
        }
        Task::Bench {
            what:
                Figures::Path {
                    rounds,
                    rounds_of_many,
                    many,
                    binary,
                    yes,
                },
        } => bench::path(&bench::Options {
            rounds,
            rounds_of_many,
            many,
            binary,
            consent: Consent::new(yes),
        })?,
        Task::Bench {
            what:
                Figures::Scopes {
                    only,
                    rounds,
                    binary,
                    yes,
                },
        } => bench::scopes(rounds, only, binary, Consent::new(yes))?,
        Task::Test { only, yes, new_seeds } => {
            let tally = test::run(&test::Options {
                only,
                new_seeds,
                consent: Consent::new(yes),
            })?;
            return Ok(if tally.is_green() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
        Task::ControlPlane { what } => control_plane(what)?,
        Task::Plugins { yes } => {
            for path in guests::plugins(Consent::new(yes))?.values() {
                println!("{}", path.display());
            }
        }
        Task::Compare {
            sequences,
            seed,
            ops,
            most,
            only,
            kinds,
            at_once,
            corpus,
            save,
        } => {
            let options = compare::Options {
                sequences,
                seed,
                steps: ops,
                most,
                only,
                kinds,
                at_once,
                save,
            };
            let report = match corpus {
                Some(directory) => compare::run_corpus(&options, &directory.unwrap_or_else(compare::corpus))?,
                None => compare::run(&options)?,
            };
            println!("{}", report.table());
            println!("{} requests compared", report.requests);
            report.check()?;
        }
        Task::Model {
            what: Modelled::Claims { without },
        } => match without {
            Some(rule) => println!("{}", model::broken(model::rule(&rule)?)?),
            None => println!("{}", model::claims()?),
        },
        Task::Record => {
            for path in record::run()? {
                println!("{}", path.display());
            }
        }
        Task::Floors => {
            floors::check_workspace()?;
            println!("every crate uses only floors below it");
        }
        Task::Codegen { check } => {
            let files = codegen::run(if check {
                codegen::Mode::Check
            } else {
                codegen::Mode::Write
            })?;
            println!(
                "{files} generated files {}",
                if check { "are up to date" } else { "written" }
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn control_plane(what: What) -> Result<()> {
    match what {
        What::Up { names } => {
            for name in names {
                let up = control_plane::up(&builder(&name))?;
                println!("{name} is up: export KUBECONFIG={}", up.kubeconfig_path().display());
            }
        }
        What::Down { names } => {
            for name in names {
                let was_up = control_plane::down(&name)?;
                println!(
                    "{name} {}",
                    if was_up { "is stopped and removed" } else { "was not up" }
                );
            }
        }
        What::Kubeconfig { name } => println!("{}", Detached::find(&name)?.kubeconfig_path().display()),
        What::Run { name } => {
            let running = builder(&name).start()?;
            println!("{}", running.kubeconfig_path().display());
            // Ctrl-C ends us, and what watches over the control plane ends it.
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).context("waiting for the end of input")?;
            running.stop()?;
        }
    }
    Ok(())
}

fn builder(name: &str) -> ControlPlaneBuilder {
    ControlPlane::builder().name(name).audit_log(true)
}
