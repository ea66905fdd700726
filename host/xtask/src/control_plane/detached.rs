//! Control planes for people: they outlive the command that started them, and only their own processes are ever stopped.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::binary::{Binaries, Part};
use super::kubectl::Kubectl;
use super::plan::{ControlPlaneBuilder, Plan, SERVERS};
use crate::cache::{self, Cache};

const GONE_WITHIN: Duration = Duration::from_secs(10);

/// A control plane that was started by [`up`], or kept by [`ControlPlane::keep`](super::ControlPlane::keep).
#[derive(Clone, Debug)]
pub struct Detached {
    /// Its name.
    pub name: String,
    /// Where its files are.
    pub directory: PathBuf,
}

impl Detached {
    /// A control plane that is up under this name.
    ///
    /// # Errors
    /// If there is none; the message says how to start it.
    pub fn find(name: &str) -> Result<Self> {
        let state = State::read(name)?.with_context(|| {
            format!("control plane {name} is not up: start it with `cargo xtask control-plane up {name}`")
        })?;
        Ok(Self {
            name: name.into(),
            directory: state.directory,
        })
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// kubectl as the administrator.
    ///
    /// # Errors
    /// If the programs cannot be found or built.
    pub fn client(&self) -> Result<Kubectl> {
        Ok(Kubectl::new(
            Binaries::prepare()?,
            self.kubeconfig_path(),
            self.directory.join("kubectl-cache"),
        ))
    }
}

/// What is known of a running control plane, in `~/.cache/chandlery/running/NAME.json`.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    directory: PathBuf,
    processes: Vec<Process>,
}

/// A process, told apart from a later one with the same id by when it started.
#[derive(Debug, Serialize, Deserialize)]
struct Process {
    part: String,
    pid: i32,
    /// Clock ticks after boot, from /proc.
    started: u64,
}

/// Starts a control plane that goes on when this program ends. One that is already up is left as it is.
///
/// # Errors
/// As [`ControlPlaneBuilder::start`]; then nothing is left running.
pub fn up(builder: &ControlPlaneBuilder) -> Result<Detached> {
    let name = builder.name_ref();
    let _lock = lock()?;
    if let Some(state) = State::read(name)? {
        if state.processes.len() == SERVERS.len() && state.processes.iter().all(Process::is_alive) {
            return Ok(Detached {
                name: name.into(),
                directory: state.directory,
            });
        }
        // A reboot, or a part that was killed: the rest is of no use.
        state.remove(name)?;
    }
    let directory = running()?.join(name);
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let mut state = State {
        directory: directory.clone(),
        processes: Vec::new(),
    };
    if let Err(error) = start(builder, &mut state) {
        // The first failure is what counts.
        let _ = state.remove(name);
        return Err(error);
    }
    Ok(Detached {
        name: name.into(),
        directory,
    })
}

/// Stops a control plane and removes its files. Answers whether there was one.
///
/// # Errors
/// If one of its processes does not end.
pub fn down(name: &str) -> Result<bool> {
    let _lock = lock()?;
    let Some(state) = State::read(name)? else {
        return Ok(false);
    };
    state
        .remove(name)
        .with_context(|| format!("stopping control plane {name}"))?;
    Ok(true)
}

/// Takes over processes that run already, so that [`down`] finds them.
pub(crate) fn adopt(name: &str, directory: &Path, parts: &[(&str, u32)]) -> Result<Detached> {
    let _lock = lock()?;
    ensure!(
        State::read(name)?.is_none(),
        "{name} is kept already: stop it with `cargo xtask control-plane down {name}`"
    );
    let processes = parts
        .iter()
        .map(|(part, pid)| Process::find(part, *pid))
        .collect::<Result<_>>()?;
    State {
        directory: directory.into(),
        processes,
    }
    .write(name)?;
    Ok(Detached {
        name: name.into(),
        directory: directory.into(),
    })
}

fn start(builder: &ControlPlaneBuilder, state: &mut State) -> Result<()> {
    let plan = Plan::write(builder, &state.directory)?;
    for part in SERVERS {
        plan.wait_before(part, || Ok(state.first_ended()))?;
        let mut command = plan.command(part)?;
        // Out of the terminal's foreground group: neither Ctrl-C nor a closed window reaches it.
        let child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", part.name()))?;
        state.processes.push(Process::find(part.name(), child.id())?);
        // After each part, so that `down` finds it even if we are killed here.
        state.write(&plan.name)?;
    }
    plan.wait_until_ready(|| Ok(state.first_ended()))
}

impl State {
    fn read(name: &str) -> Result<Option<Self>> {
        let path = Self::path(name)?;
        if !path.exists() {
            return Ok(None);
        }
        let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&content)
            .map(Some)
            .with_context(|| format!("reading {}", path.display()))
    }

    fn write(&self, name: &str) -> Result<()> {
        let path = Self::path(name)?;
        let content = serde_json::to_vec_pretty(self).context("writing the list of processes")?;
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))
    }

    fn remove(&self, name: &str) -> Result<()> {
        for process in self.processes.iter().rev().filter(|process| process.is_alive()) {
            kill(Pid::from_raw(process.pid), Signal::SIGKILL).with_context(|| format!("stopping {}", process.part))?;
        }
        let deadline = Instant::now() + GONE_WITHIN;
        while let Some(process) = self.processes.iter().find(|process| process.is_alive()) {
            if Instant::now() > deadline {
                bail!("{} (process {}) does not end", process.part, process.pid);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // A temporary directory does not survive a reboot, but what is known of it does.
        for removed in [fs::remove_dir_all(&self.directory), fs::remove_file(Self::path(name)?)] {
            if let Err(error) = removed
                && error.kind() != ErrorKind::NotFound
            {
                return Err(error).with_context(|| format!("removing {}", self.directory.display()));
            }
        }
        Ok(())
    }

    fn first_ended(&self) -> Option<Part> {
        // Processes are listed in the order in which parts are started.
        SERVERS
            .into_iter()
            .zip(&self.processes)
            .find(|(_, process)| !process.is_alive())
            .map(|(part, _)| part)
    }

    fn path(name: &str) -> Result<PathBuf> {
        let valid = !name.is_empty()
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
        ensure!(valid, "{name:?} is not a name: letters, digits and hyphens are");
        Ok(running()?.join(format!("{name}.json")))
    }
}

fn running() -> Result<PathBuf> {
    Cache::open()?.directory("running")
}

/// One for all names: a lock file cannot be removed safely, so there is only one to be left behind.
fn lock() -> Result<fs::File> {
    cache::lock(&running()?.join(".lock"))
}

impl Process {
    fn find(part: &str, pid: u32) -> Result<Self> {
        let pid = i32::try_from(pid).context("reading a process id")?;
        let started = started(pid).with_context(|| format!("finding {part} among the processes"))?;
        Ok(Self {
            part: part.into(),
            pid,
            started,
        })
    }

    fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process was started; nothing if it is not there, or only waits for its parent to notice its end.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so counting starts behind it: state is field 3, start time field 22.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_id_and_its_start() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let started = started(pid).unwrap();
        assert!(
            Process {
                part: "self".into(),
                pid,
                started
            }
            .is_alive()
        );
        assert!(
            !Process {
                part: "an earlier one".into(),
                pid,
                started: started - 1
            }
            .is_alive()
        );
    }

    #[test]
    fn a_name_cannot_leave_its_directory() {
        assert!(State::path("../x").is_err());
        assert!(State::path("").is_err());
        assert!(State::path("hub-2").is_ok());
    }
}
