//! A control plane that lives as long as a value: processes and directory are gone when the value is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::binary::Part;
use super::certificates::Identity;
use super::detached::{self, Detached};
use super::guard::Guard;
use super::kubeconfig::Credential;
use super::kubectl::Kubectl;
use super::plan::{ControlPlaneBuilder, Plan, SERVERS};

/// A port is free when it is chosen and may be taken a moment later by somebody else: then others are chosen.
const ATTEMPTS: usize = 3;

/// etcd, an API server and a controller manager of one's own, on loopback.
///
/// There may be several in one process. All methods take `&self`, so one may be shared by all tests of a binary, in a
/// `static` too: what is never dropped is cleaned up when the process ends.
///
/// ```no_run
/// # fn main() -> anyhow::Result<()> {
/// let remote = xtask::control_plane::ControlPlane::builder().name("remote").audit_log(true).start()?;
/// remote.client().text(["create", "namespace", "a"])?;
/// # Ok(())
/// # }
/// ```
pub struct ControlPlane {
    plan: Plan,
    kubeconfig: String,
    parts: Mutex<Parts>,
    // Removed last: fields are dropped in this order, after `Drop` has stopped all parts.
    directory: TempDir,
}

struct Parts {
    running: BTreeMap<Part, Child>,
    /// Nothing once the control plane is kept.
    guard: Option<Guard>,
}

impl ControlPlane {
    /// What may be chosen before a start.
    pub fn builder() -> ControlPlaneBuilder {
        ControlPlaneBuilder::new()
    }

    pub(super) fn start(builder: &ControlPlaneBuilder) -> Result<Self> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Self::try_start(builder) {
                Ok(started) => return Ok(started),
                Err(error) if format!("{error:#}").contains("address already in use") => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("no attempt was made")))
            .with_context(|| format!("starting control plane {}", builder.name_ref()))
    }

    fn try_start(builder: &ControlPlaneBuilder) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix(&format!("chandlery-{}-", builder.name_ref()))
            .tempdir()
            .context("creating a temporary directory")?;
        let guard = Guard::over(directory.path())?;
        let plan = Plan::write(builder, directory.path())?;
        let kubeconfig = plan.kubeconfig(Credential::Certificate(&plan.certificates.admin));
        // From here on its Drop cleans up, also when a part does not start.
        let started = Self {
            plan,
            kubeconfig,
            parts: Mutex::new(Parts {
                running: BTreeMap::new(),
                guard: Some(guard),
            }),
            directory,
        };
        for part in SERVERS {
            started.plan.wait_before(part, || started.has_ended())?;
            started.spawn(part)?;
        }
        started.wait_until_ready()?;
        Ok(started)
    }

    /// The kubeconfig file of an administrator, in the control plane's own directory.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.plan.path("kubeconfig")
    }

    /// The same as text, with all credentials inside: ready to be put into a Secret.
    pub fn kubeconfig_yaml(&self) -> &str {
        &self.kubeconfig
    }

    /// A kubeconfig for a bearer token (`kubectl create token`), for those who are not administrators.
    pub fn kubeconfig_with_token(&self, token: &str) -> String {
        self.plan.kubeconfig(Credential::Token(token))
    }

    /// A kubeconfig for a user with a client certificate, in groups. What it may do is up to RBAC.
    ///
    /// # Errors
    /// If the certificate cannot be signed.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<String> {
        let identity = self.plan.certificates.client(user, groups)?;
        Ok(self.plan.kubeconfig(Credential::Certificate(&identity)))
    }

    /// `https://127.0.0.1:PORT`; it stays the same when the API server is restarted.
    pub fn server_url(&self) -> String {
        self.plan.server_url()
    }

    /// The certificate of the authority, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.plan.certificates.ca
    }

    /// The administrator's certificate and key, PEM.
    pub fn admin(&self) -> &Identity {
        &self.plan.certificates.admin
    }

    /// One JSON line per request, if [`ControlPlaneBuilder::audit_log`] was chosen.
    pub fn audit_log_path(&self) -> PathBuf {
        self.plan.audit_log_path()
    }

    /// Where everything of this control plane is, the logs of its parts too (`kube-apiserver.log`).
    pub fn directory(&self) -> &Path {
        &self.plan.directory
    }

    /// kubectl as the administrator, for more than [`ControlPlane::kubectl`].
    pub fn client(&self) -> Kubectl {
        self.plan.kubectl()
    }

    /// Runs kubectl as the administrator; how it ended is in the answer.
    ///
    /// # Errors
    /// Only if it cannot be started.
    pub fn kubectl<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Output> {
        self.client().run(arguments)
    }

    /// The process id of a part, if it runs.
    pub fn pid(&self, part: Part) -> Option<u32> {
        self.parts().running.get(&part).map(Child::id)
    }

    /// Stops the API server in its tracks: connections stay open and nobody answers, as when a network goes silent.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause_api_server(&self) -> Result<()> {
        self.signal(Part::ApiServer, Signal::SIGSTOP)
    }

    /// Lets a paused API server go on.
    ///
    /// # Errors
    /// If it does not run.
    pub fn resume_api_server(&self) -> Result<()> {
        self.signal(Part::ApiServer, Signal::SIGCONT)
    }

    /// Kills the API server: connections break and new ones are refused. Its data stay in etcd.
    ///
    /// # Errors
    /// If it does not run.
    pub fn kill_api_server(&self) -> Result<()> {
        let mut parts = self.parts();
        let child = parts
            .running
            .remove(&Part::ApiServer)
            .context("killing the API server: it does not run")?;
        parts.end(child)
    }

    /// Starts the API server again, on the same port and data, and waits until it is ready. A running one is killed first.
    ///
    /// # Errors
    /// If it cannot be started or does not become ready.
    pub fn restart_api_server(&self) -> Result<()> {
        {
            let mut parts = self.parts();
            if let Some(child) = parts.running.remove(&Part::ApiServer) {
                parts.end(child)?;
            }
        }
        self.spawn(Part::ApiServer)?;
        // The controller manager gives up its informers for nobody, but ends if the API server is away at its start.
        if self.has_ended()?.is_some_and(|part| part == Part::ControllerManager) {
            self.spawn(Part::ControllerManager)?;
        }
        self.wait_until_ready()
    }

    /// Stops everything and removes the directory, as dropping does, but says if something went wrong.
    ///
    /// # Errors
    /// If a part cannot be stopped or the directory cannot be removed.
    pub fn stop(self) -> Result<()> {
        self.stop_parts()?;
        let directory = self.plan.directory.clone();
        drop(self);
        anyhow::ensure!(
            !directory.exists(),
            "removing {}: it is still there",
            directory.display()
        );
        Ok(())
    }

    /// Leaves it running when this process ends, for people to look at; `cargo xtask control-plane down NAME` stops it.
    ///
    /// # Errors
    /// If another one is kept under this name; then this one is stopped.
    pub fn keep(mut self) -> Result<Detached> {
        let running: Vec<_> = self
            .parts()
            .running
            .iter()
            .map(|(part, child)| (part.name(), child.id()))
            .collect();
        let kept = detached::adopt(&self.plan.name, &self.plan.directory, &running)?;
        if let Some(guard) = self.parts().guard.take() {
            guard.dismiss()?;
        }
        // Dropping a child neither kills it nor waits for it.
        self.parts().running.clear();
        self.directory.disable_cleanup(true);
        Ok(kept)
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        // A test that panicked while it held the lock must not keep the others from cleaning up.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self, part: Part) -> Result<()> {
        let mut command = self.plan.command(part)?;
        let mut parts = self.parts();
        let guard = parts.guard.as_mut().context("finding the guard")?;
        let child = guard
            .spawn(&mut command)
            .with_context(|| format!("starting {}", part.name()))?;
        parts.running.insert(part, child);
        Ok(())
    }

    fn signal(&self, part: Part, signal: Signal) -> Result<()> {
        let parts = self.parts();
        let child = parts
            .running
            .get(&part)
            .with_context(|| format!("finding {}: it does not run", part.name()))?;
        kill(process_id(child)?, signal).with_context(|| format!("sending {signal} to {}", part.name()))
    }

    fn has_ended(&self) -> Result<Option<Part>> {
        let mut parts = self.parts();
        let mut ended = None;
        for (part, child) in &mut parts.running {
            if child
                .try_wait()
                .with_context(|| format!("asking after {}", part.name()))?
                .is_some()
            {
                ended = Some((*part, child.id()));
            }
        }
        let Some((part, pid)) = ended else { return Ok(None) };
        parts.running.remove(&part);
        parts.tell_ended(pid)?;
        Ok(Some(part))
    }

    fn wait_until_ready(&self) -> Result<()> {
        self.plan.wait_until_ready(|| self.has_ended())
    }

    fn stop_parts(&self) -> Result<()> {
        let mut parts = self.parts();
        let mut outcome = Ok(());
        // Clients before servers, or their logs fill with complaints. Every part is tried, whatever happened before.
        while let Some((part, child)) = parts.running.pop_last() {
            let ended = parts.end(child).with_context(|| format!("stopping {}", part.name()));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

impl Parts {
    fn end(&mut self, mut child: Child) -> Result<()> {
        let pid = child.id();
        // Its data are thrown away, and a paused process hears no other signal.
        child.kill().context("killing a process")?;
        child.wait().context("waiting for a killed process")?;
        self.tell_ended(pid)
    }

    fn tell_ended(&mut self, pid: u32) -> Result<()> {
        self.guard.as_mut().map_or(Ok(()), |guard| guard.ended(pid))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Err(error) = self.stop_parts() {
            // The guard kills what is left, as soon as its pipe is closed.
            eprintln!("stopping control plane {}: {error:#}", self.plan.name);
        }
    }
}

fn process_id(child: &Child) -> Result<Pid> {
    Ok(Pid::from_raw(
        i32::try_from(child.id()).context("reading a process id")?,
    ))
}
