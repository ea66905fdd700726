//! A Provision as its status tells it, beside what the remote's API server was really asked for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use super::story::Story;
use crate::audit::AuditLog;
use crate::control_plane::ControlPlane;
use crate::stage::REMOTE_USER;
use crate::watch::{Change, Watch};

/// It takes seconds; a full build beside it makes that much longer.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Follow<'a> {
    story: &'a Story,
    watch: Watch,
    witness: AuditLog,
    step_to_row: BTreeMap<String, String>,
    summary: String,
}

impl<'a> Follow<'a> {
    pub(super) fn start(story: &'a Story, hub: &ControlPlane, remote: &ControlPlane, namespace: &str) -> Result<Self> {
        let mut witness = AuditLog::new(remote.audit_log_path());
        witness.news()?;
        Ok(Self {
            story,
            watch: Watch::start(&hub.client(), "provisions", namespace)?,
            witness,
            step_to_row: BTreeMap::new(),
            summary: String::new(),
        })
    }

    /// Tells all changes until one is the last.
    pub(super) fn until(&mut self, what: &str, is_last: impl Fn(&Change) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Some(change) = self.watch.next_until(deadline)? else {
                bail!(
                    "the Provision is not {what} after {} s; last told: {}",
                    PATIENCE.as_secs(),
                    self.summary
                );
            };
            self.tell_writes()?;
            self.tell_rows(&change);
            if is_last(&change) {
                return Ok(());
            }
        }
    }

    fn tell_writes(&mut self) -> Result<()> {
        for request in self.witness.news()? {
            if request.user == REMOTE_USER && request.is_write() {
                let place = [request.namespace.as_str(), request.name.as_str()]
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .collect::<Vec<_>>()
                    .join("/");
                // A server-side apply is a patch; its code tells what it came to.
                let done = match (request.verb.as_str(), request.code) {
                    (_, 400..) => "refused",
                    (_, 201) => "created",
                    ("delete", _) => "deleted",
                    _ => "changed",
                };
                self.story
                    .say(&format!("  remote   {done} {} {place}", request.resource));
            }
        }
        Ok(())
    }

    fn tell_rows(&mut self, change: &Change) {
        let rows = change.object.pointer("/status/steps").and_then(Value::as_array);
        for row in rows.into_iter().flatten() {
            let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default();
            let told = sentence(&[text("state"), text("reason"), text("message")]);
            let before = self.step_to_row.insert(text("name").to_owned(), told.clone());
            if before.as_ref() != Some(&told) {
                self.story.say(&format!("  step     {:<12}{told}", text("name")));
            }
        }
        let summary = match change.ready() {
            _ if change.is_deletion() => "gone".to_owned(),
            None => "is there".to_owned(),
            Some(ready) => {
                let text = |key: &str| ready.get(key).and_then(Value::as_str).unwrap_or_default();
                format!(
                    "Ready={}  {}",
                    text("status"),
                    sentence(&["", text("reason"), text("message")])
                )
            }
        };
        if summary != self.summary {
            self.story.say(&format!("provision  {summary}"));
            self.summary = summary;
        }
    }
}

/// State, reason and message in one line; a reason that only repeats the state is left out.
fn sentence(parts: &[&str; 3]) -> String {
    let [state, reason, message] = parts;
    let reason = if reason == state { "" } else { reason };
    let words: Vec<&str> = [*state, reason, message]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    words.join("  ")
}
