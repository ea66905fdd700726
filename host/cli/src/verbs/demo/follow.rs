//! A Provision as its status tells it: one line for each change.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::{Stream, StreamExt as _};
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;

use super::story::Story;

/// It takes a second; a busy machine makes that longer.
const PATIENCE: Duration = Duration::from_secs(120);

type Events = Pin<Box<dyn Stream<Item = Result<Event<DynamicObject>, watcher::Error>> + Send>>;

pub(super) struct Follow {
    events: Events,
    step_to_row: BTreeMap<String, String>,
    summary: String,
}

impl Follow {
    pub(super) fn start(client: &Client, namespace: &str, name: &str) -> Self {
        let kind = GroupVersionKind::gvk("chandlery.dev", "v1alpha1", "Provision");
        let resource = ApiResource::from_gvk_with_plural(&kind, "provisions");
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        Self {
            events: watcher(api, config).boxed(),
            step_to_row: BTreeMap::new(),
            summary: String::new(),
        }
    }

    pub(super) async fn until_ready(&mut self, story: &Story) -> anyhow::Result<()> {
        self.until(
            story,
            "Ready",
            |change| matches!(change, Change::Seen(object) if ready(object).0 == "True"),
        )
        .await
    }

    pub(super) async fn until_gone(&mut self, story: &Story) -> anyhow::Result<()> {
        self.until(story, "gone", |change| matches!(change, Change::Gone)).await
    }

    async fn until(&mut self, story: &Story, what: &str, is_last: impl Fn(&Change) -> bool) -> anyhow::Result<()> {
        let late = format!("the Provision is not {what} after {} s", PATIENCE.as_secs());
        tokio::time::timeout(PATIENCE, async {
            while let Some(event) = self.events.next().await {
                let change = match event.context("watching the Provision")? {
                    Event::Apply(object) | Event::InitApply(object) => Change::Seen(object.data),
                    Event::Delete(_) => Change::Gone,
                    Event::Init | Event::InitDone => continue,
                };
                self.tell(story, &change)?;
                if is_last(&change) {
                    return Ok(());
                }
            }
            bail!("the watch of the Provision has ended")
        })
        .await
        .context(late)?
    }

    fn tell(&mut self, story: &Story, change: &Change) -> anyhow::Result<()> {
        let summary = match change {
            Change::Gone => "gone".to_owned(),
            Change::Seen(object) => {
                let rows = object.pointer("/status/steps").and_then(Value::as_array);
                for row in rows.into_iter().flatten() {
                    let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default();
                    let told = sentence([text("state"), text("reason"), text("message")]);
                    let before = self.step_to_row.insert(text("name").to_owned(), told.clone());
                    if before.as_ref() != Some(&told) {
                        story.say(&format!("  step     {:<8}{told}", text("name")))?;
                    }
                }
                match ready(object) {
                    ("", ..) => "is there".to_owned(),
                    (status, reason, message) => format!("Ready={status}  {}", sentence(["", reason, message])),
                }
            }
        };
        if summary != self.summary {
            story.say(&format!("provision  {summary}"))?;
            self.summary = summary;
        }
        Ok(())
    }
}

enum Change {
    Seen(Value),
    Gone,
}

/// Status, reason and message of the condition `Ready`.
fn ready(object: &Value) -> (&str, &str, &str) {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"));
    let text = |key: &str| {
        ready
            .and_then(|ready| ready.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    (text("status"), text("reason"), text("message"))
}

/// State, reason and message in one line; a reason that only repeats the state is left out.
fn sentence([state, reason, message]: [&str; 3]) -> String {
    let reason = if reason == state { "" } else { reason };
    let words = [state, reason, message].into_iter().filter(|part| !part.is_empty());
    words.collect::<Vec<_>>().join("  ")
}
