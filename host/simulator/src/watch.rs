//! Watches: a place in the history of the store, and what of it a client wants to see. It holds no event that waits to be
//! read, so a client that does not read costs nothing, and at last gets 410.

use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::catalog::Resource;
use crate::form::{self, Form};
use crate::object;
use crate::reply::Reply;
use crate::request::Call;
use crate::selector::Selection;
use crate::status::{Cause, Failure};
use crate::store::{Event, Happened, Key, Stored};
use crate::world::{Target, World};

/// An open watch.
pub(crate) struct Watch {
    resource: Arc<Resource>,
    version: String,
    namespace: Option<String>,
    selection: Selection,
    form: Form,
    /// Everything up to this version was told.
    cursor: u64,
    /// What was there at the beginning, still to be told.
    initial: Vec<(Key, Arc<Stored>)>,
    /// Whether the end of the beginning is to be told too.
    marks_initial_end: bool,
    bookmarks: bool,
    last_bookmark: Timestamp,
    /// When it ends by itself.
    pub(crate) deadline: Option<Timestamp>,
    has_told_columns: bool,
    is_over: bool,
}

/// What a look at the history gave.
pub(crate) enum Told {
    /// Lines to send.
    Lines(Bytes),
    /// Nothing new; look again after the next write.
    Nothing,
    /// The watch has ended.
    End,
}

/// How many events go into one piece of a body.
const BATCH: usize = 64;
/// How often a client that wants bookmarks gets one while nothing happens that concerns it.
const BOOKMARK_EVERY: SignedDuration = SignedDuration::from_secs(60);

impl World {
    pub(crate) fn watch(&self, call: &Call, target: &Target) -> Result<Reply, Failure> {
        let form = Form::negotiate(call, true)?;
        if form == Form::Yaml {
            return Err(Failure::not_simulated("watches in YAML"));
        }
        let selection = self.selection(call, target)?;
        let text = call.query.text("resourceVersion").unwrap_or_default();
        // What a list would call a bad request, a watch stumbles over.
        let version = crate::read::parse_version(Some(text)).map_err(|failure| {
            let why = failure
                .message
                .trim_start_matches("invalid resource version: ")
                .to_owned();
            Failure::unclassified(why)
        })?;
        let wants_initial = call
            .query
            .text("sendInitialEvents")
            .map(|_| call.query.flag("sendInitialEvents"));
        judge_initial(call, wants_initial)?;
        let timeout = call.query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
        let from_now = matches!(version, None | Some(0));
        let tells_initial = wants_initial.unwrap_or(from_now);
        let namespace = target.path.namespace.clone().filter(|_| target.resource.namespaced);
        let initial = if tells_initial {
            self.store
                .list(target.resource.id, namespace.as_deref())
                .filter(|(key, stored)| self.shows(&target.resource, &selection, key, stored))
                .map(|(key, stored)| (key.clone(), Arc::clone(stored)))
                .collect()
        } else {
            Vec::new()
        };
        let watch = Watch {
            resource: Arc::clone(&target.resource),
            version: target.path.version.clone(),
            namespace,
            selection,
            form,
            cursor: if tells_initial || from_now {
                self.store.version()
            } else {
                version.unwrap_or_default()
            },
            initial: { initial },
            marks_initial_end: wants_initial == Some(true),
            bookmarks: call.query.flag("allowWatchBookmarks"),
            last_bookmark: self.now,
            deadline: timeout.map(|seconds| {
                self.now
                    .saturating_add(SignedDuration::from_secs(seconds))
                    .unwrap_or(Timestamp::MAX)
            }),
            has_told_columns: false,
            is_over: false,
        };
        Ok(Reply::Watch(Box::new(watch)))
    }

    /// What a watch has not been told yet.
    pub(crate) fn tell(&self, watch: &mut Watch) -> Told {
        if watch.is_over {
            return Told::End;
        }
        let mut lines = Vec::new();
        self.tell_initial(watch, &mut lines);
        if watch.initial.is_empty() {
            if watch.marks_initial_end {
                watch.marks_initial_end = false;
                self.bookmark(watch, true, &mut lines);
            }
            self.tell_events(watch, &mut lines);
        }
        if watch.bookmarks && lines.is_empty() && self.now.duration_since(watch.last_bookmark) >= BOOKMARK_EVERY {
            self.bookmark(watch, false, &mut lines);
        }
        if !lines.is_empty() {
            return Told::Lines(Bytes::from(lines));
        }
        if watch.deadline.is_some_and(|deadline| self.now >= deadline) {
            watch.is_over = true;
            return Told::End;
        }
        Told::Nothing
    }

    fn tell_initial(&self, watch: &mut Watch, lines: &mut Vec<u8>) {
        let rest = watch.initial.split_off(watch.initial.len().min(BATCH));
        let now = std::mem::replace(&mut watch.initial, rest);
        for (_, stored) in now {
            self.line(watch, "ADDED", &stored, lines);
        }
    }

    fn tell_events(&self, watch: &mut Watch, lines: &mut Vec<u8>) {
        let Some(events) = self.store.events_after(watch.cursor) else {
            let failure = Failure::expired(format!(
                "too old resource version: {} ({})",
                watch.cursor,
                self.store.forgotten().saturating_add(1)
            ));
            let event = json!({"type": "ERROR", "object": failure.to_value()});
            lines.extend_from_slice(event.to_string().as_bytes());
            lines.push(b'\n');
            watch.is_over = true;
            return;
        };
        let mut told = 0;
        for event in events {
            if told >= BATCH {
                return;
            }
            if let Some((kind, stored)) = self.concerns(watch, event) {
                self.line(watch, kind, &stored, lines);
                told += 1;
            }
            watch.cursor = event.version;
        }
    }

    /// What an event is to a watch: an object that begins or ceases to match is added or deleted.
    fn concerns(&self, watch: &Watch, event: &Event) -> Option<(&'static str, Arc<Stored>)> {
        if event.key.resource != watch.resource.id
            || watch
                .namespace
                .as_deref()
                .is_some_and(|namespace| event.key.namespace != namespace)
        {
            return None;
        }
        let shows = |stored: &Stored| self.shows(&watch.resource, &watch.selection, &event.key, stored);
        let was = event.before.as_deref().is_some_and(shows);
        let is = event.happened != Happened::Deleted && shows(&event.object);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(("ADDED", Arc::clone(&event.object))),
            (true, true) => Some(("MODIFIED", Arc::clone(&event.object))),
            (true, false) if event.happened == Happened::Deleted => Some(("DELETED", Arc::clone(&event.object))),
            (true, false) => {
                // It is still there, but not for this watch: shown as it was, at the version of the change.
                let mut document = event.before.as_ref()?.document();
                object::set_resource_version(&mut document, event.version);
                Some(("DELETED", Arc::new(Stored::of(&document, event.version))))
            }
        }
    }

    fn line(&self, watch: &mut Watch, kind: &str, stored: &Stored, lines: &mut Vec<u8>) {
        lines.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        match &watch.form {
            Form::Json | Form::Yaml => {
                let body = self.seen(&watch.resource, &watch.version, stored);
                object::write_with_type(
                    lines,
                    &body,
                    &watch.resource.api_version(&watch.version),
                    &watch.resource.kind,
                );
            }
            Form::Metadata => {
                lines.extend_from_slice(form::partial(&stored.document()).to_string().as_bytes());
            }
            Form::Table { include } => {
                let include = *include;
                let document = self.seen_document(&watch.resource, &watch.version, stored);
                let mut table = self.table_head(&watch.resource, &watch.version);
                let row = self.table_row(&watch.resource, &watch.version, &document, include);
                let map = object::map_mut(&mut table);
                map.insert(
                    "metadata".into(),
                    json!({"resourceVersion": stored.version.to_string()}),
                );
                map.insert("rows".into(), Value::Array(vec![row]));
                if std::mem::replace(&mut watch.has_told_columns, true) {
                    map.insert("columnDefinitions".into(), Value::Null);
                }
                lines.extend_from_slice(table.to_string().as_bytes());
            }
        }
        lines.extend_from_slice(b"}\n");
    }

    fn bookmark(&self, watch: &mut Watch, ends_initial: bool, lines: &mut Vec<u8>) {
        watch.last_bookmark = self.now;
        let mut metadata = json!({"resourceVersion": watch.cursor.to_string(), "creationTimestamp": null});
        if ends_initial {
            object::map_mut(&mut metadata).insert("annotations".into(), json!({"k8s.io/initial-events-end": "true"}));
        }
        let (kind, api_version) = match watch.form {
            Form::Metadata => ("PartialObjectMetadata".to_owned(), "meta.k8s.io/v1".to_owned()),
            _ => (
                watch.resource.kind.to_string(),
                watch.resource.api_version(&watch.version),
            ),
        };
        let event =
            json!({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": metadata}});
        lines.extend_from_slice(event.to_string().as_bytes());
        lines.push(b'\n');
    }
}

fn judge_initial(call: &Call, wants: Option<bool>) -> Result<(), Failure> {
    let how = call.query.text("resourceVersionMatch").unwrap_or_default();
    let mut causes = Vec::new();
    if wants.is_some() && how != "NotOlderThan" {
        causes.push(Cause::new(
            "FieldValueForbidden",
            "resourceVersionMatch",
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if wants.is_none() && !how.is_empty() {
        causes.push(Cause::new(
            "FieldValueForbidden",
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Failure::invalid("ListOptions", "meta.k8s.io", "", causes))
    }
}
