//! HTTP answer → decision, one table. What each row stands on was measured on real API servers.

use std::time::Duration;

use chandlery_core::ObjectRef;
use chandlery_core::cluster::{CallError, Problem};
use serde_json::Value;

/// Causes of one answer that are told of. A hostile server could send as many as fit into an answer.
const MOST_CAUSES: usize = 100;
/// Characters of a field's name that are told of.
const LONGEST_FIELD: usize = 300;

/// An answer of an API server.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// JSON body; a text cut to 300 characters where it is no JSON.
    pub body: Value,
    /// `Retry-After`, if it was a number of seconds.
    pub retry_after: Option<Duration>,
}

/// What was asked: some answers mean different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A read.
    Read,
    /// A create or an apply.
    Write,
    /// A JSON patch.
    Patch,
    /// A deletion.
    Delete,
}

/// What an answer comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It went well.
    Good,
    /// It failed, and this is why.
    Bad(CallError),
    /// 403 that may be RBAC or an admission plugin (quota, say): told apart by a SelfSubjectAccessReview.
    Forbidden(String),
}

impl Answer {
    pub(crate) fn message(&self) -> String {
        let text = match &self.body {
            Value::String(text) => text.as_str(),
            body => body.get("message").and_then(Value::as_str).unwrap_or_default(),
        };
        if text.is_empty() {
            format!("HTTP {}", self.status)
        } else {
            chandlery_core::readiness::one_line(text)
        }
    }

    /// Whether the body is the object that was asked for, whole or its metadata.
    pub(crate) fn is_of(&self, target: &ObjectRef) -> bool {
        let text = |pointer: &str| self.body.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").unwrap_or_default();
        (kind == target.gvk.kind || kind == "PartialObjectMetadata")
            && text("/metadata/name") == Some(&target.name)
            && text("/metadata/namespace") == target.namespace.as_deref()
    }

    /// The answer as an error, where it is not the object that was asked for.
    pub(crate) fn expect(&self, target: &ObjectRef) -> Result<(), CallError> {
        if self.is_of(target) {
            Ok(())
        } else {
            Err(CallError::Unavailable(format!(
                "the cluster answered with something that is not {target}"
            )))
        }
    }

    /// Whether the body tells of a failure, whatever the status says.
    fn is_failure(&self) -> bool {
        let text = |name: &str| self.body.get(name).and_then(Value::as_str);
        text("kind") == Some("Status") && text("status") == Some("Failure")
    }

    fn causes(&self) -> Vec<(&str, &str, &str)> {
        self.body
            .pointer("/details/causes")
            .and_then(Value::as_array)
            .map(|causes| {
                causes
                    .iter()
                    .take(MOST_CAUSES)
                    .map(|cause| {
                        let text = |name: &str| cause.get(name).and_then(Value::as_str).unwrap_or_default();
                        (text("field"), text("reason"), text("message"))
                    })
                    .collect()
            })
            .unwrap_or_default()
    }

    fn details_kind(&self) -> &str {
        self.body
            .pointer("/details/kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The table.
    pub(crate) fn verdict(&self, asked: Asked) -> Verdict {
        let message = self.message();
        let causes = self.causes();
        Verdict::Bad(match self.status {
            200..=299 if self.is_failure() => {
                CallError::Unavailable(format!("the cluster calls a failure a success: {message}"))
            }
            200..=299 => return Verdict::Good,
            401 => CallError::Denied(format!("the cluster does not accept the credential: {message}")),
            403 if causes.iter().any(|(_, reason, _)| *reason == "NamespaceTerminating") => {
                CallError::Unavailable(message)
            }
            403 => return Verdict::Forbidden(message),
            404 => CallError::NotFound(match (asked, self.details_kind()) {
                // The bare text is how the server says that it serves no such path.
                (_, "") => format!("the cluster does not serve this kind ({message})"),
                _ => message,
            }),
            409 if causes.iter().any(|(_, reason, _)| *reason == "FieldManagerConflict") => CallError::Conflict(
                format!("{message}; leave these fields out, or apply with force to take them over"),
            ),
            409 | 410 => CallError::Conflict(message),
            422 if causes.iter().any(|(field, ..)| *field == "metadata.uid") => CallError::Conflict(message),
            422 if asked == Asked::Patch && causes.is_empty() => CallError::Conflict(message),
            422 if !causes.is_empty() => CallError::Invalid(
                causes
                    .iter()
                    .map(|(field, _, message)| Problem {
                        path: pointer(field),
                        message: chandlery_core::readiness::one_line(message),
                    })
                    .collect(),
            ),
            400 | 413 | 415 | 422 => CallError::Invalid(vec![Problem {
                path: String::new(),
                message,
            }]),
            408 | 429 | 500 | 502 | 503 | 504 => CallError::Unavailable(message),
            300..=399 => CallError::Denied(format!(
                "the cluster answers with a redirect (HTTP {}), which is not followed",
                self.status
            )),
            _ => CallError::Other(message),
        })
    }
}

/// `spec.containers[0].image` as a JSON pointer. Keys in brackets (`matchLabels[app.kubernetes.io/name]`) keep their dots.
fn pointer(field: &str) -> String {
    let mut pointer = String::new();
    let mut part = String::new();
    let mut in_brackets = false;
    let mut flush = |part: &mut String| {
        if !part.is_empty() {
            pointer.push('/');
            pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
            part.clear();
        }
    };
    for c in field.chars().take(LONGEST_FIELD) {
        match c {
            '[' if !in_brackets => {
                flush(&mut part);
                in_brackets = true;
            }
            ']' if in_brackets => {
                flush(&mut part);
                in_brackets = false;
            }
            '.' if !in_brackets => flush(&mut part),
            c => part.push(c),
        }
    }
    flush(&mut part);
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict(status: u16, body: Value, asked: Asked) -> Verdict {
        Answer {
            status,
            body,
            retry_after: None,
        }
        .verdict(asked)
    }

    #[test]
    fn fields_become_pointers() {
        assert_eq!(
            pointer("spec.template.spec.containers[0].image"),
            "/spec/template/spec/containers/0/image"
        );
        assert_eq!(
            pointer("metadata.labels[app.kubernetes.io/name]"),
            "/metadata/labels/app.kubernetes.io~1name"
        );
        assert_eq!(pointer(""), "");
    }

    #[test]
    fn a_terminating_namespace_is_not_a_lack_of_rights() {
        let body = json!({"message": "being terminated", "details": {"causes": [{"reason": "NamespaceTerminating"}]}});
        assert!(matches!(
            verdict(403, body, Asked::Write),
            Verdict::Bad(CallError::Unavailable(_))
        ));
        assert!(matches!(
            verdict(403, json!({"message": "no"}), Asked::Write),
            Verdict::Forbidden(_)
        ));
    }

    #[test]
    fn the_kinds_of_422_are_told_apart() {
        let uid = json!({"details": {"causes": [{"field": "metadata.uid", "message": "immutable"}]}});
        assert!(matches!(
            verdict(422, uid, Asked::Write),
            Verdict::Bad(CallError::Conflict(_))
        ));
        assert!(matches!(
            verdict(422, json!({"message": "test failed"}), Asked::Patch),
            Verdict::Bad(CallError::Conflict(_))
        ));
        let field = json!({"details": {"causes": [{"field": "spec.replicas", "message": "must be positive"}]}});
        match verdict(422, field, Asked::Write) {
            Verdict::Bad(CallError::Invalid(problems)) => assert_eq!(problems[0].path, "/spec/replicas"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_hostile_answer_is_an_error_and_nothing_more() {
        for (status, body) in [
            (301, json!("go away")),
            (200, Value::Null),
            (599, json!([1])),
            (422, json!({"details": {"causes": "x"}})),
        ] {
            verdict(status, body, Asked::Read);
        }
        assert!(matches!(
            verdict(302, Value::Null, Asked::Read),
            Verdict::Bad(CallError::Denied(_))
        ));
    }
}
