//! A thread that lets the engine look at the clock while a guest runs, and sleeps while none does.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Engine;

/// How often a running guest is looked at: the precision of its own time, and the longest it keeps a worker from others.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Ticking>,
    changed: Condvar,
}

#[derive(Default)]
struct Ticking {
    running: usize,
    stopped: bool,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let engine = engine.weak();
        let thread = std::thread::Builder::new().name("plugin clock".to_owned()).spawn({
            let shared = shared.clone();
            move || {
                while shared.wait() {
                    match engine.upgrade() {
                        Some(engine) => engine.increment_epoch(),
                        None => return,
                    }
                }
            }
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Ticks until the answer is dropped.
    pub(crate) fn run(&self) -> Running {
        self.shared.change(|state| state.running += 1);
        Running(self.shared.clone())
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.change(|state| state.stopped = true);
        if let Some(thread) = self.thread.take() {
            // It has nothing to answer, and cannot panic.
            let _ = thread.join();
        }
    }
}

/// While this lives, time is measured.
pub(crate) struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.change(|state| state.running = state.running.saturating_sub(1));
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut Ticking)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    /// Waits for the next tick, or for a call to begin; answers false when it is over.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.running == 0 && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let stopped = state.stopped;
        drop(state);
        if !stopped {
            std::thread::sleep(TICK);
        }
        !stopped
    }
}
