//! Clocks, counters and scales that do not ask the daemon about itself, but for how many passes it made.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::load::{self, NAMESPACE};
use crate::audit::{AuditLog, Request};
use crate::control_plane::Kubectl;
use crate::daemon::{self, Daemon};
use crate::stage::{self, REMOTE_USER, Stage};
use crate::watch::Watch;
use crate::workspace;

/// Far beyond what 100 Provisions take on a machine that does something else as well.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long it took to make and to take away, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) made: f64,
    pub(super) gone: f64,
}

/// Requests of the daemon: to the hub and to the remote.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    pub(super) hub: usize,
    pub(super) remote: usize,
    pub(super) writes: usize,
}

impl Requests {
    pub(super) fn all(self) -> usize {
        self.hub + self.remote
    }
}

impl std::ops::Add for Requests {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hub: self.hub + other.hub,
            remote: self.remote + other.remote,
            writes: self.writes + other.writes,
        }
    }
}

/// Reads both audit logs. Requests for the Lease are not counted: they come by the clock. Nor are watches that begin anew.
pub(super) struct Counter {
    hub: AuditLog,
    remote: AuditLog,
    last: Vec<String>,
}

impl Counter {
    pub(super) fn of(stage: &Stage) -> Self {
        Self {
            hub: AuditLog::new(stage.hub.audit_log_path()),
            remote: AuditLog::new(stage.remote.audit_log_path()),
            last: Vec::new(),
        }
    }

    /// Requests since the last call.
    pub(super) fn news(&mut self) -> Result<Requests> {
        let mut news = Requests::default();
        self.last.clear();
        for (log, user, cluster) in [
            (&mut self.hub, daemon::USER, "hub"),
            (&mut self.remote, REMOTE_USER, "remote"),
        ] {
            let counts = |request: &Request| request.user == user && !request.is_lease() && request.verb != "watch";
            for request in log.news()?.into_iter().filter(counts) {
                let count = if cluster == "hub" {
                    &mut news.hub
                } else {
                    &mut news.remote
                };
                *count += 1;
                news.writes += usize::from(request.is_write());
                let Request {
                    verb, resource, name, ..
                } = request;
                self.last.push(format!("{verb} {resource} {name} on the {cluster}"));
            }
        }
        Ok(news)
    }

    /// What they were, one by one.
    pub(super) fn last(&self) -> &[String] {
        &self.last
    }
}

/// Applies so many Provisions and waits until the last is Ready. Both clocks, this and that of [`twin`], start before
/// one kubectl is started.
pub(super) fn made(hub: &Kubectl, count: usize) -> Result<f64> {
    let provisions = load::provisions(count);
    let watch = Watch::start(hub, "provisions", NAMESPACE)?;
    let started = Instant::now();
    stage::apply(hub, &provisions)?;
    let mut waiting: BTreeSet<String> = (0..count).map(|index| format!("p{index}")).collect();
    while !waiting.is_empty() {
        let Some(change) = watch.next_until(started + PATIENCE)? else {
            bail!("not Ready after {} s: {waiting:?}", PATIENCE.as_secs());
        };
        if change.is_ready() && !change.is_deletion() {
            waiting.remove(change.name());
        }
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Deletes all Provisions and waits until the last is gone. Not by `kubectl delete --wait`, which waits for one object after
/// the other and would be what is measured.
pub(super) fn gone(hub: &Kubectl, count: usize) -> Result<f64> {
    let watch = Watch::start(hub, "provisions", NAMESPACE)?;
    let started = Instant::now();
    hub.text([
        "delete",
        "provisions",
        "--all",
        "--namespace",
        NAMESPACE,
        "--wait=false",
    ])?;
    for gone in 0..count {
        loop {
            match watch.next_until(started + PATIENCE)? {
                Some(change) if change.is_deletion() => break,
                Some(_) => {}
                None => bail!("{gone} of {count} Provisions are gone after {} s", PATIENCE.as_secs()),
            }
        }
    }
    Ok(started.elapsed().as_secs_f64())
}

/// The same objects by kubectl itself. They are ready when they are there, and gone when their deletion is answered.
pub(super) fn twin(remote: &Kubectl, count: usize) -> Result<Times> {
    let twins = load::twins(count);
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": twins}).to_string();
    let started = Instant::now();
    remote.text_with_input(["apply", "--server-side", "--wait", "--filename=-"], &list)?;
    let made = started.elapsed().as_secs_f64();
    let started = Instant::now();
    remote.text_with_input(["delete", "--wait=false", "--filename=-"], &list)?;
    Ok(Times {
        made,
        gone: started.elapsed().as_secs_f64(),
    })
}

/// Passes over Provisions that the daemon has made.
pub(super) fn passes(daemon: &Daemon) -> Result<f64> {
    let text = daemon.metrics()?;
    let counts = text
        .lines()
        .filter(|line| line.starts_with("chandlery_provision_passes_total"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(counts.sum())
}

/// Proportional set size of a process, in MiB.
pub(super) fn pss(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let kib: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse().ok())
        .with_context(|| format!("finding Pss in {path}"))?;
    Ok(kib / 1024.0)
}

/// Microseconds of a fresh instance with one call: median and 99th percentile.
pub(super) fn instance(component: &Path) -> Result<(f64, f64)> {
    let cache = tempfile::tempdir().context("creating a temporary directory")?;
    let program = workspace::release_example("instance")?;
    let output = Command::new(program)
        .arg(component)
        .arg(cache.path())
        .output()
        .context("starting the bench of instances")?;
    ensure!(
        output.status.success(),
        "the bench of instances: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let answer: Value = serde_json::from_slice(&output.stdout).context("reading the bench of instances")?;
    let microseconds = |key: &str| {
        answer
            .get(key)
            .and_then(Value::as_f64)
            .map(|nanoseconds| nanoseconds / 1_000.0)
            .with_context(|| format!("finding {key}"))
    };
    Ok((microseconds("median")?, microseconds("p99")?))
}
