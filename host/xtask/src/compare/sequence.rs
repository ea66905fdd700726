//! A sequence: requests with holes that each side fills with what it saw itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One step of a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// A request, whose answers are compared.
    Request(Request),
    /// Waiting until the controllers have nothing left to do.
    Settle,
    /// All events of a collection from the beginning of the sequence on.
    Watch {
        /// The path of the collection.
        path: String,
    },
}

/// A request. In its path, and in every string of its body, `{uid:P}` and `{rv:P}` stand for the UID and the resource
/// version of the object at path P as this side saw it last, `{first-rv:P}` for the first version it saw, and `{continue}`
/// for the token of the last page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What the coverage counts it as.
    pub verb: String,
    /// The row's kind.
    pub kind: String,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The media type of the body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content_type: String,
    /// The body; nothing if it is null.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
    /// A body that is no JSON, instead of `body`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub raw: String,
    /// What the answer should look like; JSON if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accept: String,
}

impl Step {
    /// As one line for people.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Settle => "(wait until all is quiet)".to_owned(),
            Self::Watch { path } => format!("WATCH {path}"),
            Self::Request(request) => {
                let body = if request.body.is_null() {
                    String::new()
                } else {
                    format!(" {}", request.body)
                };
                let of = if request.content_type.is_empty() {
                    String::new()
                } else {
                    format!(" [{}]", request.content_type)
                };
                format!("{} {}{of}{body}", request.method, request.path)
            }
        }
    }
}
