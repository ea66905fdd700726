//! The audit log of an API server: who asked what, and what came of it. The witness for "once" and "nothing else".

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde_json::Value;
use xtask::control_plane::ControlPlane;

/// The audit log of one control plane.
#[derive(Clone, Debug)]
pub struct Audit(PathBuf);

/// One answered request.
#[derive(Clone, Debug)]
pub struct Call {
    /// `get`, `patch`, …
    pub verb: String,
    /// Who asked.
    pub user: String,
    /// By which credential; tokens of one ServiceAccount differ in it.
    pub credential: String,
    /// Group, or nothing for the core.
    pub group: String,
    /// Plural, with `/subresource`.
    pub resource: String,
    /// Namespace, or nothing.
    pub namespace: String,
    /// Name, or nothing.
    pub name: String,
    /// HTTP status.
    pub code: u64,
    /// When the request arrived.
    pub at: String,
    /// Path and query.
    pub uri: String,
}

impl Call {
    fn read(line: &str) -> Option<Self> {
        let event: Value = serde_json::from_str(line).ok()?;
        if event["stage"] != "ResponseComplete" {
            return None;
        }
        let text = |pointer: &str| {
            event
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let resource = match text("/objectRef/subresource") {
            part if part.is_empty() => text("/objectRef/resource"),
            part => format!("{}/{part}", text("/objectRef/resource")),
        };
        Some(Self {
            verb: text("/verb"),
            user: text("/user/username"),
            credential: text("/user/extra/authentication.kubernetes.io~1credential-id/0"),
            group: text("/objectRef/apiGroup"),
            resource,
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: event
                .pointer("/responseStatus/code")
                .and_then(Value::as_u64)
                .unwrap_or(0),
            at: text("/requestReceivedTimestamp"),
            uri: text("/requestURI"),
        })
    }

    /// Whether it was meant to change something.
    pub fn is_write(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
            && !self.uri.contains("dryRun=")
            && !self.resource.starts_with("subjectaccessreviews")
            && !self.resource.starts_with("selfsubject")
    }

    /// Whether it is about the Lease by which daemons agree who leads.
    pub fn is_lease(&self) -> bool {
        self.resource == "leases"
    }
}

impl Audit {
    /// Of a control plane that keeps one.
    pub fn of(plane: &ControlPlane) -> Self {
        Self(plane.audit_log_path())
    }

    /// Where the log ends now.
    pub fn mark(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |metadata| metadata.len())
    }

    /// What will be answered from now on.
    pub fn tail(&self) -> Tail {
        Tail {
            log: self.0.clone(),
            at: self.mark(),
        }
    }

    /// All that was answered so far.
    pub fn calls(&self) -> Vec<Call> {
        self.since(0)
    }

    /// All that was answered since a mark.
    pub fn since(&self, mark: u64) -> Vec<Call> {
        let log = fs::read(&self.0).unwrap_or_default();
        let from = usize::try_from(mark).unwrap_or(usize::MAX).min(log.len());
        String::from_utf8_lossy(&log[from..])
            .lines()
            .filter_map(Call::read)
            .collect()
    }
}

/// A reader that goes on where it stopped: for those who ask often.
#[derive(Debug)]
pub struct Tail {
    log: PathBuf,
    at: u64,
}

impl Tail {
    /// What was answered since it was last asked; a line that is still being written comes next time.
    pub fn fresh(&mut self) -> Vec<Call> {
        let mut text = Vec::new();
        let mut file = File::open(&self.log).unwrap();
        file.seek(SeekFrom::Start(self.at)).unwrap();
        file.read_to_end(&mut text).unwrap();
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.at += u64::try_from(whole).unwrap();
        String::from_utf8_lossy(&text[..whole])
            .lines()
            .filter_map(Call::read)
            .collect()
    }
}
