//! `chandlery compile-component IN OUT`: hidden; the daemon calls it for each component it has not compiled yet.

use std::path::PathBuf;
use std::process::ExitCode;

use chandlery::runtime::{CompileLimits, compile_to_file};

/// Compile a component within limits.
#[derive(clap::Args)]
pub(crate) struct CompileComponent {
    component: PathBuf,
    machine_code: PathBuf,
}

impl CompileComponent {
    pub(crate) fn run(&self) -> ExitCode {
        match compile_to_file(&self.component, &self.machine_code, CompileLimits::default()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        }
    }
}
