//! What goes back to a client.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use crate::status::Failure;
use crate::watch::Watch;

/// An answer, or the beginning of a stream of them.
pub(crate) enum Reply {
    Answer(Answer),
    Watch(Box<Watch>),
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    pub(crate) warnings: Vec<String>,
    pub(crate) retry_after: Option<u32>,
}

pub(crate) const JSON: &str = "application/json";

impl Answer {
    pub(crate) fn json(code: StatusCode, body: impl Into<Bytes>) -> Self {
        Self {
            code,
            content_type: JSON,
            body: body.into(),
            warnings: Vec::new(),
            retry_after: None,
        }
    }

    pub(crate) fn value(code: StatusCode, value: &Value) -> Self {
        Self::json(code, value.to_string())
    }

    pub(crate) fn text(code: StatusCode, text: &str) -> Self {
        Self {
            content_type: "text/plain; charset=utf-8",
            ..Self::json(code, text.to_owned())
        }
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        if failure.plain {
            return Self {
                retry_after: failure.retry_after,
                ..Self::text(failure.code, &failure.message)
            };
        }
        let status = failure.to_value();
        let body = if failure.pretty {
            format!("{status:#}")
        } else {
            status.to_string()
        };
        Self {
            retry_after: failure.retry_after,
            ..Self::json(failure.code, body)
        }
    }
}
