//! What a guest answers, checked against the contract; and what a trap means, in words that help its author.

use std::time::Duration;

use chandlery_bindings::convert;
use chandlery_bindings::provisioner;
use chandlery_core::cluster::{CallError, Problem};
use chandlery_core::limits::Limits;
use chandlery_core::task::{Description, Done, Failure, KEPT_BYTES, Outcome, WATCHED, Wait};
use serde_json::Value;
use wasmtime::Trap;

use crate::log::one_line;
use crate::state::State;

/// Longest message kept of a guest. It goes into a condition, where 32 KiB are the API's limit.
const MESSAGE_BYTES: usize = 1024;
/// Most problems kept of one answer.
const PROBLEMS: usize = 100;
/// Largest schema taken; it is kept in memory and checked against often.
const SCHEMA_BYTES: usize = 256 * 1024;

/// The guest ran for longer than its limit, and was ended.
#[derive(Debug, thiserror::Error)]
#[error("out of time")]
pub(crate) struct OutOfTime;

pub(crate) fn broken(reason: &'static str, message: impl Into<String>) -> Failure {
    Failure::Broken {
        reason,
        message: message.into(),
    }
}

/// What an error of the engine says about the guest.
pub(crate) fn trapped(error: &wasmtime::Error, state: &State, limits: &Limits) -> Failure {
    if error.downcast_ref::<OutOfTime>().is_some() {
        return out_of_time(limits.own_time);
    }
    if let Some(panic) = &state.log.panic {
        return broken("Panicked", format!("it {panic}"));
    }
    if state.memory.was_refused {
        let message = format!(
            "it needed more than its {} MiB of memory, and gave up",
            state.memory.mebibytes()
        );
        return broken("OutOfMemory", message);
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => broken(
            "StackOverflow",
            "its stack overflowed: a recursion without end, perhaps",
        ),
        // Compilers put the guest's own stack first in its memory: beyond its end there is nothing.
        Some(Trap::MemoryOutOfBounds) => broken(
            "Trapped",
            "it reached outside of its memory: a recursion without end, or a fault in unsafe code",
        ),
        Some(Trap::UnreachableCodeReached) => broken(
            "Trapped",
            "it stopped itself (wasm trap: unreachable) without a word of why",
        ),
        Some(trap) => broken("Trapped", format!("it trapped: {trap}")),
        None => broken(
            "Trapped",
            format!(
                "it was stopped: {}",
                one_line(&error.root_cause().to_string(), MESSAGE_BYTES)
            ),
        ),
    }
}

fn out_of_time(limit: Duration) -> Failure {
    let message = format!(
        "it ran for more than its {} ms without an answer: a call returns in milliseconds, what takes longer is a yield",
        limit.as_millis()
    );
    broken("OutOfTime", message)
}

/// The whole call took too long. Mostly that is the cluster's doing, so it is tried again.
pub(crate) fn timed_out(limits: &Limits, own: Duration) -> Failure {
    Failure::Call(CallError::Exhausted(format!(
        "the call has used up its {} s, {:.1} s of them the plugin's own, the rest waiting for the cluster",
        limits.call_time.as_secs(),
        own.as_secs_f64()
    )))
}

/// What became of the task.
pub(crate) fn outcome(answer: Result<provisioner::Outcome, provisioner::Failure>) -> Result<Outcome, Failure> {
    let outcome = match answer {
        Ok(outcome) => outcome,
        Err(failure) => return Err(clean(convert::failure(failure))),
    };
    let kept = match &outcome {
        provisioner::Outcome::Done(done) => [("outputs", &done.outputs), ("memory", &done.memory)],
        provisioner::Outcome::Yield(wait) => [("outputs", &None), ("memory", &wait.memory)],
    };
    for (what, text) in kept {
        if let Some(text) = text.as_ref().filter(|text| text.len() > KEPT_BYTES) {
            let message = format!(
                "its {what} are {} bytes, and {} are kept at most",
                text.len(),
                KEPT_BYTES
            );
            return Err(broken("InvalidAnswer", message));
        }
    }
    match convert::outcome(outcome).map_err(|error| broken("InvalidAnswer", error.to_string()))? {
        Outcome::Done(done) => Ok(Outcome::Done(Done {
            watch: watched(done.watch),
            ..done
        })),
        Outcome::Yield(wait) => {
            if !is_reason(&wait.reason) {
                let message = format!(
                    "the reason of its yield is one CamelCase word, not {:?}",
                    one_line(&wait.reason, 80)
                );
                return Err(broken("InvalidAnswer", message));
            }
            let message = one_line(&wait.message, MESSAGE_BYTES);
            Ok(Outcome::Yield(Wait {
                message,
                watch: watched(wait.watch),
                ..wait
            }))
        }
    }
}

/// The first of what is to be watched; the rest is polled like everything else.
fn watched<T>(mut watch: Vec<T>) -> Vec<T> {
    watch.truncate(WATCHED);
    watch
}

/// As the API server wants the reason of a condition, and without its punctuation.
fn is_reason(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

pub(crate) fn problems(problems: impl IntoIterator<Item = Problem>) -> Vec<Problem> {
    let clean = |Problem { path, message }: Problem| Problem {
        path: one_line(&path, MESSAGE_BYTES),
        message: one_line(&message, MESSAGE_BYTES),
    };
    problems.into_iter().take(PROBLEMS).map(clean).collect()
}

/// A guest's failure with its texts made fit for a condition.
fn clean(failure: Failure) -> Failure {
    let line = |text: String| one_line(&text, MESSAGE_BYTES);
    match failure {
        Failure::Invalid(of) => Failure::Invalid(problems(of)),
        Failure::Terminal(text) => Failure::Terminal(line(text)),
        Failure::Call(error) => Failure::Call(match error {
            CallError::Denied(text) => CallError::Denied(line(text)),
            CallError::Conflict(text) => CallError::Conflict(line(text)),
            CallError::Invalid(of) => CallError::Invalid(problems(of)),
            CallError::NotFound(text) => CallError::NotFound(line(text)),
            CallError::Unavailable(text) => CallError::Unavailable(line(text)),
            CallError::Exhausted(text) => CallError::Exhausted(line(text)),
            CallError::Fenced => CallError::Fenced,
            CallError::Other(text) => CallError::Other(line(text)),
        }),
        other => other,
    }
}

/// What a plugin says of itself, checked.
pub(crate) fn description(answer: provisioner::Description) -> Result<Description, Failure> {
    let invalid = |message: String| broken("InvalidAnswer", message);
    for (what, schema) in [
        ("spec-schema", &answer.spec_schema),
        ("outputs-schema", &answer.outputs_schema),
    ] {
        if schema.len() > SCHEMA_BYTES {
            return Err(invalid(format!(
                "its {what} is {} bytes, and {SCHEMA_BYTES} are taken at most",
                schema.len()
            )));
        }
    }
    let description = convert::description(answer).map_err(|error| invalid(error.to_string()))?;
    let Description {
        name,
        version,
        summary,
        spec_schema,
        outputs_schema,
        ..
    } = &description;
    if !is_plugin_name(name) {
        return Err(invalid(format!(
            "its name is vendor.example/name in lower case, not {:?}",
            one_line(name, 80)
        )));
    }
    for (what, text) in [("version", version), ("summary", summary)] {
        if text.is_empty() || text.len() > MESSAGE_BYTES || text.chars().any(char::is_control) {
            return Err(invalid(format!(
                "its {what} is one line of text, not {:?}",
                one_line(text, 80)
            )));
        }
    }
    for (what, schema) in [("spec-schema", spec_schema), ("outputs-schema", outputs_schema)] {
        if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
            return Err(invalid(format!(
                "its {what} is no JSON Schema: that is an object, true or false"
            )));
        }
    }
    Ok(description)
}

fn is_plugin_name(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
    };
    text.len() <= 253
        && text
            .split_once('/')
            .is_some_and(|(vendor, name)| is_part(vendor) && vendor.contains('.') && is_part(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(outputs: &str) -> Result<Outcome, Failure> {
        let done = provisioner::Done {
            outputs: Some(outputs.into()),
            memory: None,
            watch: Vec::new(),
        };
        outcome(Ok(provisioner::Outcome::Done(done)))
    }

    #[test]
    fn outputs_are_json_of_a_bounded_size() {
        assert!(done(&format!("\"{}\"", "x".repeat(KEPT_BYTES - 2))).is_ok());
        for bad in [format!("\"{}\"", "x".repeat(KEPT_BYTES - 1)), "{".into()] {
            assert!(
                matches!(
                    done(&bad),
                    Err(Failure::Broken {
                        reason: "InvalidAnswer",
                        ..
                    })
                ),
                "{bad:.20}"
            );
        }
    }

    #[test]
    fn a_reason_is_one_word_that_a_condition_can_bear() {
        assert!(is_reason("WaitingForReady") && is_reason("X1"));
        for bad in ["", "two words", "1X", "A-B", &"x".repeat(65), "Ä"] {
            assert!(!is_reason(bad), "{bad}");
        }
    }

    #[test]
    fn a_name_has_a_vendor() {
        assert!(is_plugin_name("chandlery.dev/objects"));
        for bad in ["objects", "chandlery.dev/", "Chandlery.dev/x", "localhost/x", "a.b/c/d"] {
            assert!(!is_plugin_name(bad), "{bad}");
        }
    }
}
