//! From WIT to the words of `core`, and back.

use std::time::Duration;

use chandlery_core::cluster as core;
use chandlery_core::object::is_path_segment;
use chandlery_core::task;
use chandlery_core::{Gvk, ObjectRef, Uid};
use serde_json::Value;

use crate::{cluster as wit, provisioner, types};

/// A text that should be JSON and is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not JSON: {why}")]
pub struct NotJson {
    what: &'static str,
    why: String,
}

/// Reads one JSON document. `what` names it in the error.
///
/// # Errors
/// [`NotJson`], with line and column.
pub fn json(what: &'static str, text: &str) -> Result<Value, NotJson> {
    serde_json::from_str(text).map_err(|error| NotJson {
        what,
        why: error.to_string(),
    })
}

/// A problem of the whole document.
fn whole(message: impl Into<String>) -> core::CallError {
    core::CallError::Invalid(vec![core::Problem {
        path: String::new(),
        message: message.into(),
    }])
}

/// Reads an object or a patch that a guest hands over.
///
/// # Errors
/// `invalid`, of the whole document.
pub fn document(text: &str) -> Result<Value, core::CallError> {
    json("the document", text).map_err(|error| whole(error.to_string()))
}

/// Takes the name of an object from a guest. Nothing in it may climb out of its place in a request path.
///
/// # Errors
/// `invalid`, naming the part.
pub fn object_ref(target: types::ObjectRef) -> Result<ObjectRef, core::CallError> {
    let types::ObjectRef {
        api_version,
        kind,
        namespace,
        name,
    } = target;
    for (part, text) in [("kind", &kind), ("name", &name)]
        .into_iter()
        .chain(namespace.iter().map(|n| ("namespace", n)))
    {
        if !is_path_segment(text) {
            return Err(whole(format!(
                "the {part} {text:?} may not be empty, \".\" or \"..\", or contain '/' or '%'"
            )));
        }
    }
    if !is_api_version(&api_version) {
        return Err(whole(format!(
            "the apiVersion {api_version:?} is neither VERSION nor GROUP/VERSION"
        )));
    }
    Ok(ObjectRef {
        gvk: Gvk { api_version, kind },
        namespace,
        name,
    })
}

fn is_api_version(text: &str) -> bool {
    match text.split_once('/') {
        None => is_path_segment(text),
        Some((group, version)) => is_path_segment(group) && is_path_segment(version),
    }
}

/// Takes a query from a guest.
///
/// # Errors
/// `invalid`, naming the part.
pub fn query(query: wit::Query) -> Result<core::Query, core::CallError> {
    let wit::Query {
        api_version,
        kind,
        namespace,
        label_selector,
        field_selector,
        metadata_only,
        continue_,
    } = query;
    if !is_api_version(&api_version) || !is_path_segment(&kind) {
        return Err(whole(format!(
            "{api_version:?}, {kind:?} is not an apiVersion and a kind"
        )));
    }
    if let Some(namespace) = &namespace
        && !is_path_segment(namespace)
    {
        return Err(whole(format!("{namespace:?} is not the name of a namespace")));
    }
    Ok(core::Query {
        gvk: Gvk { api_version, kind },
        namespace,
        label_selector,
        field_selector,
        metadata_only,
        continue_token: continue_,
    })
}

/// Takes a deletion from a guest.
///
/// # Errors
/// `invalid`, naming the part.
pub fn deletion(deletion: wit::Deletion) -> Result<core::Deletion, core::CallError> {
    let wit::Deletion {
        target,
        uid,
        propagation,
    } = deletion;
    let uid: Uid = uid
        .parse()
        .map_err(|error: chandlery_core::ids::InvalidId| whole(error.to_string()))?;
    let propagation = match propagation {
        wit::Propagation::Background => core::Propagation::Background,
        wit::Propagation::Foreground => core::Propagation::Foreground,
        wit::Propagation::Orphan => core::Propagation::Orphan,
    };
    Ok(core::Deletion {
        target: object_ref(target)?,
        uid,
        propagation,
    })
}

/// Takes a patch from a guest.
///
/// # Errors
/// `invalid`, naming the part.
pub fn json_patch(patch: wit::JsonPatch) -> Result<core::JsonPatch, core::CallError> {
    let wit::JsonPatch {
        target,
        subresource,
        patch,
    } = patch;
    if let Some(other) = subresource
        .as_deref()
        .filter(|name| !["status", "scale"].contains(name))
    {
        return Err(whole(format!(
            "the subresource {other:?} cannot be patched: only status and scale can"
        )));
    }
    let patch = document(&patch)?;
    if !patch.is_array() {
        return Err(whole("a JSON Patch (RFC 6902) is a list of operations"));
    }
    Ok(core::JsonPatch {
        target: object_ref(target)?,
        subresource,
        patch,
    })
}

impl From<core::Facts> for wit::Facts {
    fn from(facts: core::Facts) -> Self {
        let core::Facts {
            name,
            identity,
            host,
            port,
            version,
            path,
        } = facts;
        Self {
            name,
            identity,
            host,
            port,
            version,
            path,
        }
    }
}

impl From<core::DeletionState> for wit::DeletionState {
    fn from(state: core::DeletionState) -> Self {
        match state {
            core::DeletionState::Gone => Self::Gone,
            core::DeletionState::Deleting(finalizers) => Self::Deleting(finalizers),
        }
    }
}

impl From<core::Readiness> for wit::Readiness {
    fn from(readiness: core::Readiness) -> Self {
        match readiness {
            core::Readiness::Ready => Self::Ready,
            core::Readiness::Progressing(why) => Self::Progressing(why),
            core::Readiness::Failed(why) => Self::Failed(why),
            core::Readiness::Absent => Self::Absent,
            core::Readiness::Terminating => Self::Terminating,
            core::Readiness::Unknown => Self::Unknown,
        }
    }
}

impl From<core::Problem> for types::Problem {
    fn from(problem: core::Problem) -> Self {
        let core::Problem { path, message } = problem;
        Self { path, message }
    }
}

impl From<types::Problem> for core::Problem {
    fn from(problem: types::Problem) -> Self {
        let types::Problem { path, message } = problem;
        Self { path, message }
    }
}

impl From<core::CallError> for types::CallError {
    fn from(error: core::CallError) -> Self {
        match error {
            core::CallError::Denied(text) => Self::Denied(text),
            core::CallError::Conflict(text) => Self::Conflict(text),
            core::CallError::Invalid(problems) => Self::Invalid(problems.into_iter().map(Into::into).collect()),
            core::CallError::NotFound(text) => Self::NotFound(text),
            core::CallError::Unavailable(text) => Self::Unavailable(text),
            core::CallError::Exhausted(text) => Self::Exhausted(text),
            core::CallError::Fenced => Self::Fenced,
            core::CallError::Other(text) => Self::Other(text),
        }
    }
}

impl From<types::CallError> for core::CallError {
    fn from(error: types::CallError) -> Self {
        match error {
            types::CallError::Denied(text) => Self::Denied(text),
            types::CallError::Conflict(text) => Self::Conflict(text),
            types::CallError::Invalid(problems) => Self::Invalid(problems.into_iter().map(Into::into).collect()),
            types::CallError::NotFound(text) => Self::NotFound(text),
            types::CallError::Unavailable(text) => Self::Unavailable(text),
            types::CallError::Exhausted(text) => Self::Exhausted(text),
            types::CallError::Fenced => Self::Fenced,
            types::CallError::Other(text) => Self::Other(text),
        }
    }
}

/// A task as the guest gets it.
pub fn request(request: &task::Request) -> provisioner::Request {
    let task::Request {
        provision_uid,
        provision,
        step,
        spec,
        memory,
        now,
        round,
    } = request;
    provisioner::Request {
        provision_uid: provision_uid.to_string(),
        provision: provision.clone(),
        step: step.to_string(),
        spec: spec.to_string(),
        memory: memory.as_ref().map(Value::to_string),
        now: now.clone(),
        round: *round,
    }
}

/// What a plugin says of itself.
///
/// # Errors
/// If a schema is not JSON.
pub fn description(description: provisioner::Description) -> Result<task::Description, NotJson> {
    let provisioner::Description {
        name,
        version,
        summary,
        spec_schema,
        outputs_schema,
        needs,
    } = description;
    let rule = |rule: provisioner::Rule| {
        let provisioner::Rule {
            api_groups,
            resources,
            verbs,
        } = rule;
        task::Rule {
            api_groups,
            resources,
            verbs,
        }
    };
    Ok(task::Description {
        name,
        version,
        summary,
        spec_schema: json("spec-schema", &spec_schema)?,
        outputs_schema: json("outputs-schema", &outputs_schema)?,
        needs: needs.into_iter().map(rule).collect(),
    })
}

/// What became of a task, as the guest answered; only its JSON is checked.
///
/// # Errors
/// If outputs or memory are not JSON.
pub fn outcome(outcome: provisioner::Outcome) -> Result<task::Outcome, NotJson> {
    let kept = |what, text: Option<String>| text.map(|text| json(what, &text)).transpose();
    // A name that cannot be watched is polled: it is no reason to throw the outcome away.
    let names = |list: Vec<types::ObjectRef>| list.into_iter().filter_map(|name| object_ref(name).ok()).collect();
    Ok(match outcome {
        provisioner::Outcome::Done(provisioner::Done { outputs, memory, watch }) => task::Outcome::Done(task::Done {
            outputs: kept("outputs", outputs)?,
            memory: kept("memory", memory)?,
            watch: names(watch),
        }),
        provisioner::Outcome::Yield(provisioner::Wait {
            reason,
            message,
            watch,
            after,
            memory,
        }) => task::Outcome::Yield(task::Wait {
            reason,
            message,
            watch: names(watch),
            after: after.map(Duration::from_millis),
            memory: kept("memory", memory)?,
        }),
    })
}

/// Why a task cannot be done, as the guest answered.
pub fn failure(failure: provisioner::Failure) -> task::Failure {
    match failure {
        provisioner::Failure::Invalid(problems) => {
            task::Failure::Invalid(problems.into_iter().map(Into::into).collect())
        }
        provisioner::Failure::Call(error) => task::Failure::Call(error.into()),
        provisioner::Failure::Terminal(text) => task::Failure::Terminal(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> types::ObjectRef {
        types::ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some("a".into()),
            name: name.into(),
        }
    }

    #[test]
    fn a_name_cannot_climb_out_of_its_request_path() {
        assert!(object_ref(named("x")).is_ok());
        for bad in ["", "..", "a/../../secrets/b", "a%2f"] {
            assert!(object_ref(named(bad)).is_err(), "{bad}");
        }
        for bad in ["", "../v1", "apps/v1/namespaces", "/v1"] {
            assert!(
                object_ref(types::ObjectRef {
                    api_version: bad.into(),
                    ..named("x")
                })
                .is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn only_harmless_subresources_can_be_patched() {
        let patch = |subresource: Option<&str>, patch: &str| {
            json_patch(wit::JsonPatch {
                target: named("x"),
                subresource: subresource.map(Into::into),
                patch: patch.into(),
            })
        };
        assert!(patch(None, "[]").is_ok() && patch(Some("status"), "[]").is_ok());
        assert!(patch(Some("exec"), "[]").is_err() && patch(None, "{}").is_err() && patch(None, "[").is_err());
    }

    #[test]
    fn unreadable_json_says_what_and_where() {
        assert_eq!(
            json("outputs", "{").unwrap_err().to_string(),
            "outputs is not JSON: EOF while parsing an object at line 1 column 1"
        );
    }
}
