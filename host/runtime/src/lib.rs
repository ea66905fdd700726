//! Components: guest calls become `ClusterAccess` calls, bytes become budgets, and no guest can hurt anything but its own step.
//!
//! [`Runtime::load`] looks into a component before anything in it runs, compiles it once per digest and keeps it.
//! [`Runtime::call`] runs one export in a fresh instance under [`Limits`](chandlery_core::limits::Limits). A trap, a limit
//! or an answer that breaks the contract is that call's [`Failure`](chandlery_core::task::Failure), never the host's. A call
//! is cancelled by dropping its future, at any point.

mod answer;
mod budget;
mod call;
mod clock;
mod cluster;
mod compile;
mod engine;
mod load;
mod log;
mod state;
mod ticker;

pub use call::Labels;
pub use compile::{CompileLimits, Compiler, compile_to_file};
pub use load::{LoadError, Plugin};

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use chandlery_artifact::Store;
use chandlery_bindings::Plugin as Bindings;
use chandlery_core::Digest;
use tokio::sync::Semaphore;
use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

use state::State;

/// What a runtime is made with.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where components and machine code are kept. Whoever may write there may have the host run any code.
    pub cache_dir: PathBuf,
    /// How components are compiled.
    pub compiler: Compiler,
    /// Calls that run at once, 1 to 1,000; more wait for their turn. Each may use a call's memory limit.
    pub concurrent_calls: u32,
}

impl Config {
    /// Compiles in this process and runs 64 calls at once.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            compiler: Compiler::InProcess,
            concurrent_calls: 64,
        }
    }
}

/// All components of one host. One per process: it reserves address space for all calls that may run at once.
pub struct Runtime {
    engine: Engine,
    /// Everything that machine code depends on besides the component.
    engine_key: String,
    linker: Linker<State>,
    store: Store,
    compiler: Compiler,
    /// One slot per digest: who comes second waits for who came first.
    plugins: Mutex<HashMap<Digest, load::Slot>>,
    turns: Arc<Semaphore>,
    ticker: ticker::Ticker,
}

/// Why a runtime could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The cache directory.
    #[error("opening the component cache {}", .0.display())]
    Cache(PathBuf, #[source] std::io::Error),
    /// The engine: the machine lacks something, most often address space.
    #[error("setting up the WebAssembly engine: {0}")]
    Engine(String),
    /// The thread that ends calls that run too long.
    #[error("starting the thread that measures a plugin's time")]
    Ticker(#[source] std::io::Error),
}

impl Runtime {
    /// Sets up the engine and opens the cache.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(config: Config) -> Result<Self, SetupError> {
        let Config {
            cache_dir,
            compiler,
            concurrent_calls,
        } = config;
        let concurrent_calls = concurrent_calls.clamp(1, 1_000);
        let setup = |error: wasmtime::Error| SetupError::Engine(format!("{error:#}"));
        let engine = Engine::new(&engine::running(concurrent_calls)).map_err(setup)?;
        let mut linker = Linker::new(&engine);
        Bindings::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state).map_err(setup)?;
        let store = Store::open(&cache_dir).map_err(|error| SetupError::Cache(cache_dir, error))?;
        Ok(Self {
            engine_key: engine::key(&engine),
            ticker: ticker::Ticker::start(&engine).map_err(SetupError::Ticker)?,
            engine,
            linker,
            store,
            compiler,
            plugins: Mutex::default(),
            turns: Arc::new(Semaphore::new(concurrent_calls as usize)),
        })
    }

    /// The components on disk.
    pub fn store(&self) -> &Store {
        &self.store
    }
}
