//! The same library as the daemon's, one call at a time. One file per verb.

mod embedded;
mod failure;
mod output;
mod verbs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;
use output::Output;

/// Brings Kubernetes clusters to a declared state with WebAssembly plugins, and takes it away again.
#[derive(Parser)]
#[command(name = "chandlery", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    /// How results are written.
    #[arg(long, short, global = true, value_enum, default_value_t)]
    output: Output,
    /// What is told while it works: a level, or `target=level` pairs with commas.
    /// [default: `info`, of a demo `error`]
    #[arg(long, global = true, env = "CHANDLERY_LOG")]
    log: Option<String>,
    /// Write what is told as JSON lines.
    #[arg(long, global = true)]
    log_json: bool,
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 done · 1 failed · 2 wrong usage · 3 has to wait (call again) · 4 may pass by itself · 5 someone has to change something · 6 the plugin broke its contract";

#[derive(Subcommand)]
enum Verb {
    /// Run the daemon.
    Daemon(verbs::daemon::Daemon),
    /// Watch a Provision come and go, in memory.
    Demo(verbs::demo::Demo),
    /// Print the CustomResourceDefinitions.
    Crds(verbs::crds::Crds),
    /// Print what an operator applies to run the daemon.
    Manifests(verbs::manifests::Manifests),
    /// Look at, and call, plugins.
    #[command(subcommand)]
    Plugin(verbs::plugin::PluginVerb),
    /// Look at clusters as remotes.
    #[command(subcommand)]
    Remote(verbs::remote::RemoteVerb),
    /// Write the plugin contract (WIT files) into a directory.
    Wit(verbs::wit::Wit),
    /// Make sure that a hub can be left: lists what still stands for something in a remote.
    Uninstall(verbs::uninstall::Uninstall),
    /// Print the versions of host, contract and Kubernetes types.
    Version(verbs::version::Version),
    /// Compile a component in a process of its own.
    #[command(name = chandlery_daemon::COMPILE_VERB, hide = true)]
    CompileComponent(verbs::compile_component::CompileComponent),
}

fn main() -> ExitCode {
    // Several of our libraries bring a provider each; rustls panics unless one is chosen first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    // A compiling process is limited before it allocates: no runtime, no log.
    if let Verb::CompileComponent(verb) = &cli.verb {
        return verb.run();
    }
    let log = cli.log.as_deref().unwrap_or(match cli.verb {
        Verb::Demo(_) => "error",
        _ => "info",
    });
    if let Err(error) = output::start_log(log, cli.log_json) {
        return Failure::usage(error).report(cli.output);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::from(anyhow::Error::from(error).context("starting")).report(cli.output),
    };
    let outcome = runtime.block_on(async {
        match cli.verb {
            Verb::Daemon(verb) => verb.run().await,
            Verb::Demo(verb) => verb.run().await,
            Verb::Crds(verb) => verb.run(),
            Verb::Manifests(verb) => verb.run(cli.output),
            Verb::Plugin(verb) => verb.run(cli.output).await,
            Verb::Remote(verb) => verb.run(cli.output).await,
            Verb::Wit(verb) => verb.run(cli.output),
            Verb::Uninstall(verb) => verb.run(cli.output).await,
            Verb::Version(verb) => verb.run(cli.output),
            Verb::CompileComponent(_) => Ok(ExitCode::SUCCESS),
        }
    });
    match outcome {
        Ok(code) => code,
        Err(failure) => failure.report(cli.output),
    }
}
