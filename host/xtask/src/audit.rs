//! What a cluster was asked for, by whom: the API server's own record, which no program under test can embellish.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

/// One request that was answered; a watch counts when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asked.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; `get` for what is no resource.
    pub verb: String,
    /// The resource's plural with its group, and `/SUBRESOURCE`; the path for what is no resource.
    pub resource: String,
    /// The namespace; empty if there is none.
    pub namespace: String,
    /// The object's name; empty for lists, watches and some creations.
    pub name: String,
    /// Status code of the answer.
    pub code: u64,
    /// Whether nothing was to be changed.
    pub dry_run: bool,
}

impl Request {
    /// Whether it was meant to change something.
    pub fn is_write(&self) -> bool {
        !self.dry_run && !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether it belongs to the cost of holding a Lease.
    pub fn is_lease(&self) -> bool {
        self.resource == "leases.coordination.k8s.io"
    }

    fn read(line: &str) -> Result<Option<Self>> {
        let event: Value = serde_json::from_str(line).context("reading a line of an audit log")?;
        let text = |pointer: &str| {
            event
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (verb, stage) = (text("/verb"), text("/stage"));
        // Only a watch has two lines: one when it begins and one when it ends.
        let counts = if verb == "watch" {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        if stage != counts {
            return Ok(None);
        }
        let mut resource = text("/objectRef/resource");
        for (sign, pointer) in [(".", "/objectRef/apiGroup"), ("/", "/objectRef/subresource")] {
            let part = text(pointer);
            if !part.is_empty() {
                resource.push_str(&format!("{sign}{part}"));
            }
        }
        let uri = text("/requestURI");
        Ok(Some(Self {
            user: text("/user/username"),
            verb,
            resource: if resource.is_empty() { uri.clone() } else { resource },
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: event
                .pointer("/responseStatus/code")
                .and_then(Value::as_u64)
                .unwrap_or_default(),
            dry_run: uri.contains("dryRun="),
        }))
    }
}

/// An audit log that is being written, read from where the last reading ended.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
    read: u64,
}

impl AuditLog {
    /// The log at [`audit_log_path`](crate::control_plane::ControlPlane::audit_log_path), from its beginning.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// All requests since the last call. A request is in the log before its answer is sent.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn news(&mut self) -> Result<Vec<Request>> {
        let doing = || format!("reading {}", self.path.display());
        let mut file = File::open(&self.path).with_context(doing)?;
        file.seek(SeekFrom::Start(self.read)).with_context(doing)?;
        let mut reader = BufReader::new(file);
        let mut requests = Vec::new();
        let mut line = String::new();
        // A line without an end is still being written: it is read with the next news.
        while reader.read_line(&mut line).with_context(doing)? > 0 && line.ends_with('\n') {
            requests.extend(Request::read(&line)?);
            self.read += line.len() as u64;
            line.clear();
        }
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_watch_counts_once_and_half_a_line_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let watch =
            |stage: &str| json!({"stage": stage, "verb": "watch", "objectRef": {"resource": "pods"}}).to_string();
        let patch = json!({"stage": "ResponseComplete", "verb": "patch", "user": {"username": "u"},
            "objectRef": {"resource": "jobs", "apiGroup": "batch", "subresource": "status", "name": "j", "namespace": "n"},
            "responseStatus": {"code": 200}, "requestURI": "/x?fieldManager=y"})
        .to_string();
        let (half, rest) = patch.split_at(20);
        fs::write(
            &path,
            format!("{}\n{}\n{half}", watch("ResponseStarted"), watch("ResponseComplete")),
        )
        .unwrap();
        let mut log = AuditLog::new(path.clone());
        assert_eq!(log.news().unwrap().len(), 1);
        fs::write(
            &path,
            format!(
                "{}\n{}\n{half}{rest}\n",
                watch("ResponseStarted"),
                watch("ResponseComplete")
            ),
        )
        .unwrap();
        let news = log.news().unwrap();
        assert_eq!(news.len(), 1);
        assert_eq!(news[0].resource, "jobs.batch/status");
        assert!(news[0].is_write());
    }
}
