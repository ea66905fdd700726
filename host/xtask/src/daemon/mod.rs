//! The daemon as operators run it: under its own ServiceAccount with the rights of `chandlery manifests`, never as admin.
//!
//! [`install`] once per hub, then [`Daemon::start`] as often as wanted. A daemon ends with its value, and with this process
//! however that ends; its directory (kubeconfig and log) goes at the same time.

mod http;
mod install;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::control_plane::{ControlPlane, Detached, Guard, Reserved, adopt};

pub use install::{USER, identity_kubeconfig, install, printed_objects};

/// It is ready within a second; a full build beside it makes that much longer.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Its own grace is 20 s by default; the rest is for giving up the Lease on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// A port is free when it is chosen and may be taken a moment later by somebody else: then another is chosen.
const ATTEMPTS: usize = 3;

/// How a daemon is to be run.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The `chandlery` binary; see [`crate::workspace::binary`].
    pub binary: PathBuf,
    /// Where Plugins of source `file` lie.
    pub plugin_dir: PathBuf,
    /// Where components and their compiled form are kept; daemons of one machine may share it.
    pub cache_dir: PathBuf,
    /// Length of its Lease, 3 to 600 s: how long the next one waits after a kill.
    pub lease_seconds: u64,
    /// Further arguments of `chandlery daemon`.
    pub extra_args: Vec<String>,
    /// What it tells: a level, or `target=level` pairs with commas.
    pub log: String,
}

/// A daemon that runs as long as this value lives.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    ended: Option<ExitStatus>,
    port: u16,
    guard: Option<Guard>,
    // Removed last: fields are dropped in this order, after `Drop` has ended the process.
    directory: TempDir,
}

impl Daemon {
    /// Starts a daemon on a hub and waits until it says that it is ready: it leads or stands by.
    ///
    /// Remotes on loopback are allowed. [`install`] comes first.
    ///
    /// # Errors
    /// If it ends, or is not ready within a minute; with the end of its log.
    pub fn start(hub: &ControlPlane, options: DaemonOptions) -> Result<Self> {
        Self::start_by(&identity_kubeconfig(hub)?, &options)
    }

    /// The same by a kubeconfig with the daemon's rights.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub fn start_by(kubeconfig: &str, options: &DaemonOptions) -> Result<Self> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Self::try_start(kubeconfig, options) {
                Ok(started) => return Ok(started),
                Err(error) if format!("{error:#}").contains("Address already in use") => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("no attempt was made"))).context("starting the daemon")
    }

    fn try_start(kubeconfig: &str, options: &DaemonOptions) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("chandlery-daemon-")
            .tempdir()
            .context("creating a temporary directory")?;
        let mut guard = Guard::over(directory.path())?;
        let path = directory.path().join("kubeconfig");
        fs::write(&path, kubeconfig).with_context(|| format!("writing {}", path.display()))?;
        fs::create_dir_all(&options.cache_dir).with_context(|| format!("creating {}", options.cache_dir.display()))?;
        let log_path = directory.path().join(LOG);
        let log = File::create(&log_path).with_context(|| format!("creating {}", log_path.display()))?;
        let port = Reserved::take()?.release();
        let mut command = Command::new(absolute(&options.binary)?);
        command
            .args(arguments(&path, port, options)?)
            // Nothing of the surroundings may decide how it runs, nor lend it a cluster.
            .env_clear()
            .envs(
                ["PATH", "HOME", "TMPDIR", "RUST_BACKTRACE"]
                    .into_iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("sharing a log file")?)
            .stderr(log);
        let child = guard.spawn(&mut command).context("starting the daemon")?;
        // From here on its Drop cleans up, also when it does not get ready.
        let mut started = Self {
            child,
            ended: None,
            port,
            guard: Some(guard),
            directory,
        };
        started.wait_until("is ready", |daemon| {
            http::get(daemon.port, "/readyz").is_ok_and(|(status, _)| status == 200)
        })?;
        Ok(started)
    }

    /// Its process id. Once it has ended, the id may be another's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it tells, as lines of text. The file goes with this value.
    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join(LOG)
    }

    /// The last lines of what it told; nothing if they cannot be read.
    pub fn log_tail(&self, lines: usize) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let mut tail: Vec<_> = log.lines().rev().take(lines).collect();
        tail.reverse();
        tail.join("\n")
    }

    /// What it serves at `/metrics`, as Prometheus reads it.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn metrics(&self) -> Result<String> {
        let (status, body) = http::get(self.port, "/metrics")?;
        anyhow::ensure!(status == 200, "reading the daemon's metrics: status {status}");
        Ok(body)
    }

    /// Waits until this daemon leads; one that takes over from a killed one waits for the end of its Lease.
    ///
    /// # Errors
    /// If it ends, or does not lead within a minute; with the end of its log.
    pub fn wait_until_leading(&mut self) -> Result<()> {
        self.wait_until("leads", |daemon| {
            daemon
                .metrics()
                .is_ok_and(|text| text.lines().any(|line| line == "chandlery_leading 1"))
        })
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait().context("asking after the daemon")?
        {
            self.note_end(status)?;
        }
        Ok(self.ended)
    }

    /// Asks it to end (SIGTERM) and waits until it has. A daemon that has ended already answers how.
    ///
    /// # Errors
    /// If it does not end within its grace; with the end of its log.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        if self.has_ended()?.is_none() {
            self.signal(Signal::SIGTERM)?;
        }
        let deadline = Instant::now() + ENDS_WITHIN;
        loop {
            if let Some(status) = self.has_ended()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                let (seconds, log) = (ENDS_WITHIN.as_secs(), self.log_tail(LINES));
                bail!("the daemon does not end within {seconds} s after SIGTERM; its log:\n{log}");
            }
            std::thread::sleep(ASK_AGAIN_AFTER);
        }
    }

    /// Ends it on the spot (SIGKILL) and waits until the process is gone.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn kill(&mut self) -> Result<()> {
        if self.has_ended()?.is_none() {
            self.child.kill().context("killing the daemon")?;
            let status = self.child.wait().context("waiting for the killed daemon")?;
            self.note_end(status)?;
        }
        Ok(())
    }

    /// Sends a signal, for instance `SIGSTOP`.
    ///
    /// # Errors
    /// If there is no such process any more.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()).context("reading a process id")?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("sending {signal} to the daemon"))
    }

    /// Leaves it running when this process ends; `cargo xtask control-plane down NAME` ends it.
    ///
    /// # Errors
    /// If another one is kept under this name; then this one is ended.
    pub fn keep(mut self, name: &str) -> Result<Detached> {
        let kept = adopt(name, self.directory.path(), &[("chandlery", self.pid())])?;
        if let Some(guard) = self.guard.take() {
            guard.dismiss()?;
        }
        self.directory.disable_cleanup(true);
        Ok(kept)
    }

    fn note_end(&mut self, status: ExitStatus) -> Result<()> {
        self.ended = Some(status);
        let pid = self.pid();
        self.guard.as_mut().map_or(Ok(()), |guard| guard.ended(pid))
    }

    fn wait_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while !holds(self) {
            if let Some(status) = self.has_ended()? {
                bail!("the daemon ended with {status}; its log:\n{}", self.log_tail(LINES));
            }
            if Instant::now() > deadline {
                let log = self.log_tail(LINES);
                bail!(
                    "not within {} s: the daemon {what}; its log:\n{log}",
                    READY_WITHIN.as_secs()
                );
            }
            std::thread::sleep(ASK_AGAIN_AFTER);
        }
        Ok(())
    }
}

const LOG: &str = "daemon.log";
const LINES: usize = 30;

fn arguments(kubeconfig: &Path, port: u16, options: &DaemonOptions) -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = vec!["--log".into(), options.log.clone().into(), "daemon".into()];
    for (flag, path) in [
        ("--kubeconfig", kubeconfig),
        ("--plugin-dir", &options.plugin_dir),
        ("--cache-dir", &options.cache_dir),
    ] {
        arguments.extend([flag.into(), absolute(path)?.into()]);
    }
    let rest = [
        "--allow-loopback-remotes".to_owned(),
        format!("--listen=127.0.0.1:{port}"),
        format!("--lease-seconds={}", options.lease_seconds),
    ];
    arguments.extend(
        rest.into_iter()
            .chain(options.extra_args.iter().cloned())
            .map(Into::into),
    );
    Ok(arguments)
}

/// It runs in a directory of its own.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("resolving {}", path.display()))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Once it is kept, it is another's.
        if self.guard.is_some()
            && let Err(error) = self.kill()
        {
            // The guard kills it as soon as its pipe is closed.
            eprintln!("ending the daemon: {error:#}");
        }
    }
}
