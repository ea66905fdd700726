//! Compiling a component, in this process or in one of its own that is bounded in memory and time.
//!
//! The compiler reads what a stranger wrote. In a process of its own it can use up only that process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use wasmtime::Engine;

use crate::engine;

/// How components are compiled.
#[derive(Debug, Clone)]
pub enum Compiler {
    /// In this process: for tests, and commands that compile what their caller wrote.
    InProcess,
    /// By `PROGRAM ARGUMENTS… IN OUT`, which ends in [`compile_to_file`].
    Subprocess {
        /// The program; the host's own binary.
        program: PathBuf,
        /// What comes before the two paths; the verb.
        arguments: Vec<String>,
    },
}

/// What one compilation may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Address space in bytes (fill the host's memory). A Python guest of 18 MB needs about 1 GiB.
    pub memory_bytes: u64,
    /// Processor time (burn a core).
    pub processor_time: Duration,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 4 * 1024 * 1024 * 1024,
            processor_time: Duration::from_secs(120),
        }
    }
}

/// Wall time after which a compiling process is killed: processor time, and as much again on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Compiles the component in `input` into machine code in `output`, after bounding this process by `limits` for good.
/// To be called by a process that does nothing else.
///
/// # Errors
/// A sentence: the file cannot be read or written, or is no valid component.
pub fn compile_to_file(input: &Path, output: &Path, limits: CompileLimits) -> Result<(), String> {
    let CompileLimits {
        memory_bytes,
        processor_time,
    } = limits;
    let bound = |what, value| setrlimit(what, value, value).map_err(|error| format!("bounding the compiler: {error}"));
    bound(Resource::RLIMIT_AS, memory_bytes)?;
    bound(Resource::RLIMIT_CPU, processor_time.as_secs())?;
    // A crash of the compiler must not leave the component's bytes in a core file.
    bound(Resource::RLIMIT_CORE, 0)?;
    let bytes = fs::read(input).map_err(|error| format!("reading {}: {error}", input.display()))?;
    let engine = Engine::new(&engine::compiling()).map_err(|error| format!("{error:#}"))?;
    let code = compile(&engine, &bytes)?;
    fs::write(output, code).map_err(|error| format!("writing {}: {error}", output.display()))
}

fn compile(engine: &Engine, bytes: &[u8]) -> Result<Vec<u8>, String> {
    engine.precompile_component(bytes).map_err(|error| format!("{error:#}"))
}

impl Compiler {
    /// Machine code of a component. `scratch`: a path to which suffixes can be added, on a disk with room.
    ///
    /// # Errors
    /// A sentence.
    ///
    /// Cancel safety: may be dropped; a subprocess is killed, one in this process ends by itself and is not used.
    pub(crate) async fn run(&self, engine: &Engine, bytes: Vec<u8>, scratch: &Path) -> Result<Vec<u8>, String> {
        match self {
            Self::InProcess => {
                let engine = engine.clone();
                tokio::task::spawn_blocking(move || compile(&engine, &bytes))
                    .await
                    .map_err(|error| format!("the compiler failed: {error}"))?
            }
            Self::Subprocess { program, arguments } => {
                let files = Scratch {
                    input: scratch.with_extension("wasm"),
                    output: scratch.with_extension("cwasm"),
                };
                tokio::fs::write(&files.input, bytes)
                    .await
                    .map_err(|error| format!("handing over the component: {error}"))?;
                compile_apart(program, arguments, &files).await?;
                tokio::fs::read(&files.output)
                    .await
                    .map_err(|error| format!("taking over the machine code: {error}"))
            }
        }
    }
}

/// Two files that go when they are no longer needed, also if the compilation is cancelled.
struct Scratch {
    input: PathBuf,
    output: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for path in [&self.input, &self.output] {
            // One of them may not have been made.
            let _ = fs::remove_file(path);
        }
    }
}

async fn compile_apart(program: &Path, arguments: &[String], files: &Scratch) -> Result<(), String> {
    let mut command = tokio::process::Command::new(program);
    // Nothing of this host's environment is the compiler's business.
    command.args(arguments).arg(&files.input).arg(&files.output).env_clear();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = ended
        .map_err(|_elapsed| format!("it took longer than {} s", PATIENCE.as_secs()))?
        .map_err(|error| format!("starting {}: {error}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = crate::log::one_line(said.trim(), 1024);
    Err(if last.is_empty() {
        format!("the compiler ended with {}", output.status)
    } else {
        last
    })
}
