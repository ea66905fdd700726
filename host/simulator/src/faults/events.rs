//! The events of a watch, some of which are lost, late, or one with the next.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::Body;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::BoxError;

use super::plan::WatchFault;
use crate::object;

/// What is held back is told when nothing has happened for this long: late, but not lost.
const QUIET: Duration = Duration::from_secs(1);

/// One line of a watch.
struct Line {
    bytes: Bytes,
    event: Value,
}

/// A watch that is tampered with.
struct Tampered<B> {
    body: B,
    faults: Vec<WatchFault>,
    buffer: BytesMut,
    /// Events seen so far.
    seen: u64,
    /// Held back to become one with the next of the same object.
    merging: Option<Line>,
    /// Held back until so many others have passed.
    late: VecDeque<(Line, u64)>,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

/// What came next.
enum Next {
    Line(Line),
    Quiet,
    End,
    Failed(BoxError),
}

/// The pieces of a watch's body after what is to happen to its events.
pub(super) fn tamper<B>(body: B, faults: Vec<WatchFault>) -> impl Stream<Item = Result<Bytes, BoxError>> + Send
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let tampered = Tampered {
        body,
        faults,
        buffer: BytesMut::new(),
        seen: 0,
        merging: None,
        late: VecDeque::new(),
        ready: VecDeque::new(),
        is_over: false,
    };
    futures::stream::unfold(tampered, |mut tampered| async move {
        let item = tampered.next().await?;
        Some((item, tampered))
    })
}

impl<B> Tampered<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(Ok(bytes));
            }
            if self.is_over {
                return None;
            }
            if self
                .faults
                .iter()
                .any(|fault| matches!(fault, WatchFault::Cut(after) if *after <= self.seen))
            {
                self.is_over = true;
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was cut within a watch");
                return Some(Err(error.into()));
            }
            match self.line().await {
                Next::Line(line) => self.take(line),
                Next::Quiet => self.release_all(),
                Next::End => {
                    self.release_all();
                    self.is_over = true;
                }
                Next::Failed(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
    }

    async fn line(&mut self) -> Next {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let bytes = self.buffer.split_to(end + 1).freeze();
                let event = serde_json::from_slice(&bytes).unwrap_or_default();
                return Next::Line(Line { bytes, event });
            }
            let holds = self.merging.is_some() || !self.late.is_empty();
            let frame = if holds {
                match tokio::time::timeout(QUIET, self.body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => return Next::Quiet,
                }
            } else {
                self.body.frame().await
            };
            match frame {
                Some(Ok(frame)) => self
                    .buffer
                    .extend_from_slice(frame.data_ref().map_or(&[], Bytes::as_ref)),
                Some(Err(error)) => return Next::Failed(error.into()),
                None => return Next::End,
            }
        }
    }

    fn take(&mut self, line: Line) {
        if !line.is_event() {
            self.release_all();
            self.ready.push_back(line.bytes);
            return;
        }
        let index = self.seen;
        self.seen += 1;
        // Of one object, nothing comes out of order.
        while let Some(at) = self.late.iter().position(|(held, _)| held.object() == line.object()) {
            let held = self.late.remove(at);
            self.ready.extend(held.map(|(held, _)| held.bytes));
        }
        let line = match self.merging.take() {
            Some(held) if held.object() == line.object() => match merge(&held, line) {
                Some(line) => line,
                None => return,
            },
            Some(held) => {
                self.ready.push_back(held.bytes);
                line
            }
            None => line,
        };
        for fault in self.faults.clone() {
            match fault {
                WatchFault::Lost(event) if event == index => return,
                WatchFault::Coalesced(event) if event == index => {
                    self.merging = Some(line);
                    return;
                }
                WatchFault::Late { event, by } if event == index && by > 0 => {
                    self.late.push_back((line, by));
                    return;
                }
                _ => {}
            }
        }
        self.ready.push_back(line.bytes);
        for (_, by) in &mut self.late {
            *by -= 1;
        }
        while let Some(at) = self.late.iter().position(|(_, by)| *by == 0) {
            let held = self.late.remove(at);
            self.ready.extend(held.map(|(held, _)| held.bytes));
        }
    }

    fn release_all(&mut self) {
        self.ready.extend(self.merging.take().map(|held| held.bytes));
        self.ready.extend(self.late.drain(..).map(|(held, _)| held.bytes));
    }
}

impl Line {
    fn kind(&self) -> &str {
        self.event.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    fn is_event(&self) -> bool {
        matches!(self.kind(), "ADDED" | "MODIFIED" | "DELETED")
    }

    fn object(&self) -> (&str, &str) {
        self.event.get("object").map_or(("", ""), |document| {
            (object::namespace(document), object::name(document))
        })
    }
}

/// Two events of one object as one; none if the object came and went.
fn merge(first: &Line, second: Line) -> Option<Line> {
    let kind = match (first.kind(), second.kind()) {
        ("ADDED", "DELETED") => return None,
        ("ADDED", _) => "ADDED",
        (_, "DELETED") => "DELETED",
        _ => "MODIFIED",
    };
    let mut event = second.event;
    object::map_mut(&mut event).insert("type".to_owned(), kind.into());
    Some(Line {
        bytes: Bytes::from(format!("{event}\n")),
        event,
    })
}
