//! What passed, and what was done to it: one line of JSON for each request.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::plan::Fault;
use crate::access::Attributes;

/// One request of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its index.
    pub call: u64,
    /// The verb as in roles; the method in small letters for a path that names no resource.
    pub verb: String,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// The group of the resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its plural.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The part of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name, if the path has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The digest of the body, in hex; the body itself may hold secrets. Empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// What was done to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Done>,
    /// The status of the answer that the caller got; none if it got none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// One thing that was done to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// What.
    pub fault: Fault,
    /// Why it came to nothing, if it did: there was no earlier version, no object to replace, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
}

/// A line of a trace is none.
#[derive(Debug, thiserror::Error)]
#[error("reading line {line} of a trace")]
pub struct TraceError {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it.
    #[source]
    pub source: serde_json::Error,
}

impl Entry {
    pub(super) fn of(call: u64, method: &http::Method, uri: &http::Uri, what: &Attributes, body: &[u8]) -> Self {
        let hex = |body: &[u8]| -> String { Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect() };
        Self {
            call,
            verb: what.verb.clone(),
            method: method.to_string(),
            uri: uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            group: what.group.clone(),
            resource: what.resource.clone(),
            subresource: what.subresource.clone(),
            namespace: what.namespace.clone(),
            name: what.name.clone(),
            body: if body.is_empty() { String::new() } else { hex(body) },
            faults: Vec::new(),
            status: None,
        }
    }

    /// Whether it asks for a change.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// Whether it asks for a later page of a list.
    pub(super) fn continues(&self) -> bool {
        self.uri.split_once('?').is_some_and(|(_, query)| {
            query
                .split('&')
                .any(|pair| pair.starts_with("continue=") && pair.len() > 9)
        })
    }
}

/// A trace as text, one line for each request.
#[must_use]
pub fn lines(trace: &[Entry]) -> String {
    let lines = trace.iter().filter_map(|entry| serde_json::to_string(entry).ok());
    lines.map(|line| line + "\n").collect()
}

/// Reads what [`lines`] wrote.
///
/// # Errors
/// [`TraceError`] for the first line that is no request.
pub fn read_lines(text: &str) -> Result<Vec<Entry>, TraceError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| serde_json::from_str(line).map_err(|source| TraceError { line: at + 1, source }))
        .collect()
}
