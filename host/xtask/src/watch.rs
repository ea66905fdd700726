//! Changes as kubectl's own watch tells them; whoever waits, waits for a state and has a deadline.

use std::io::BufReader;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::control_plane::Kubectl;

/// One change.
#[derive(Clone, Debug, Deserialize)]
pub struct Change {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The object after it; for a deletion its last state.
    pub object: Value,
}

impl Change {
    /// Whether the object is gone.
    pub fn is_deletion(&self) -> bool {
        self.kind == "DELETED"
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// A text of the object; empty if it is not there.
    pub fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The condition `Ready`; nothing before it is told.
    pub fn ready(&self) -> Option<&Value> {
        let conditions = self.object.pointer("/status/conditions")?.as_array()?;
        conditions
            .iter()
            .find(|condition| condition.get("type").is_some_and(|kind| kind == "Ready"))
    }

    /// Whether `Ready` is true for the spec as it is.
    pub fn is_ready(&self) -> bool {
        let generation = self.object.pointer("/metadata/generation");
        self.ready().is_some_and(|ready| {
            ready.get("status").is_some_and(|status| status == "True") && ready.get("observedGeneration") == generation
        })
    }
}

/// A running `kubectl get --watch`; it ends when dropped.
#[derive(Debug)]
pub struct Watch {
    kubectl: Child,
    changes: Receiver<Result<Change, serde_json::Error>>,
    what: String,
}

impl Watch {
    /// Watches all objects of a resource in a namespace. Those that exist are told first.
    ///
    /// # Errors
    /// If kubectl cannot be started.
    pub fn start(kubectl: &Kubectl, resource: &str, namespace: &str) -> Result<Self> {
        let arguments = [
            "get",
            resource,
            "--namespace",
            namespace,
            "--watch",
            "--output-watch-events",
            "--output=json",
        ];
        let mut kubectl = kubectl
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting to watch {resource}"))?;
        let output = kubectl.stdout.take().context("reading what kubectl tells")?;
        let (sender, changes) = mpsc::channel();
        // It ends with the output, which ends with kubectl.
        std::thread::spawn(move || {
            let documents = serde_json::Deserializer::from_reader(BufReader::new(output)).into_iter();
            for change in documents {
                if sender.send(change).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            kubectl,
            changes,
            what: format!("{resource} in {namespace}"),
        })
    }

    /// The next change, or nothing at the deadline.
    ///
    /// # Errors
    /// If the watch ends or cannot be read.
    pub fn next_until(&self, deadline: Instant) -> Result<Option<Change>> {
        match self
            .changes
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            Ok(change) => change.map(Some).with_context(|| format!("watching {}", self.what)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the watch of {} has ended", self.what),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to learn from its status.
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}
