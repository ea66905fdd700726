//! Server-side apply: merge what a manager wants into what there is, unless another manager says otherwise.

mod last_applied;
mod prune;

use serde_json::Value;
use smol_str::SmolStr;
use thiserror::Error;

use crate::managed::{Managed, ManagedError, Operation, Writer};
use crate::ownership::{self, Taken, Versions, stripped, take_fields};
use crate::schema::Schema;
use crate::update::record;
use crate::{typed, value};

/// What is applied to what.
#[derive(Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The structure at the version of the request.
    pub schema: &'a Schema,
    /// The structures at other versions that are still served; managers at a version that is not are forgotten.
    pub other_versions: &'a [(&'a str, &'a Schema)],
    /// The object as it is, converted to the version of the request, or `empty` if it is not there yet.
    pub live: &'a Value,
    /// An object of the kind before anything is put into it, as [`Schema::zero_object`] makes it.
    pub empty: &'a Value,
    /// Its managers, if the caller keeps them decoded; else they are read from `live`.
    pub live_managed: Option<&'a Managed>,
    /// What the manager wants.
    pub configuration: &'a Value,
    /// Who applies.
    pub writer: Writer<'a>,
    /// Whether fields are taken from other managers.
    pub force: bool,
}

/// What came of an apply.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The merged object without managed fields, before defaults; nothing if the object stays as it is.
    pub object: Option<Value>,
    /// Who owns what now.
    pub managed: Managed,
    /// Whether the managers differ from those before.
    pub managed_changed: bool,
}

/// A field that is wanted otherwise by another manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path of the field, `.spec.replicas`.
    pub field: String,
    /// Who has it: `"m" using v1`.
    pub manager: String,
}

impl Conflict {
    /// The message of the cause in the status of the answer.
    #[must_use]
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Why nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// Others own fields; 409 with a cause per field.
    #[error("{message}")]
    Conflicts {
        /// The message of the answer.
        message: String,
        /// In the order of managers and fields.
        conflicts: Vec<Conflict>,
    },
    /// The request is wrong; 400.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration or the object does not have the structure of its kind; 500, as by the real server.
    #[error("{0}")]
    Typed(String),
    /// The managed fields of the live object cannot be read; 500.
    #[error("failed to decode managed fields: {0}")]
    Managed(#[from] ManagedError),
}

/// Applies a configuration.
///
/// # Errors
/// By variant of [`ApplyError`].
pub fn apply(request: &ApplyRequest<'_>) -> Result<Applied, ApplyError> {
    check_kind(request)?;
    let before = match request.live_managed {
        Some(managed) => managed.clone(),
        None => Managed::of_object(request.live)?,
    };
    let mut managed = before.clone();
    if managed.is_empty() {
        managed = managed_before_apply(request, managed);
    }
    let is_kubectl = request.writer.manager == last_applied::MANAGER;
    let outcome = match merged(request, managed.clone(), request.force) {
        Err(Refused::Taken(taken)) if is_kubectl => last_applied::decide(request, taken, managed),
        other => other,
    };
    let (mut object, managed) = outcome.map_err(Refused::into_error)?;
    if is_kubectl {
        last_applied::renew(request, &mut object);
    }
    Ok(Applied {
        object,
        managed_changed: managed != before,
        managed,
    })
}

/// Why a merge was refused, with the fields in question still as sets.
pub(crate) enum Refused {
    Taken(Vec<Taken>),
    Other(ApplyError),
}

impl Refused {
    fn into_error(self) -> ApplyError {
        match self {
            Self::Taken(taken) => conflicts(&taken),
            Self::Other(error) => error,
        }
    }
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Group, version and kind as a server prints them.
fn printed_kind(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={kind}")
}

fn check_kind(request: &ApplyRequest<'_>) -> Result<(), ApplyError> {
    let (version, kind) = (
        text(request.configuration, "/apiVersion"),
        text(request.configuration, "/kind"),
    );
    let expected = text(request.live, "/kind");
    if version != request.writer.api_version || !expected.is_empty() && kind != expected {
        return Err(ApplyError::BadRequest(format!(
            "invalid object type: {}",
            printed_kind(version, kind)
        )));
    }
    Ok(())
}

/// What is there before the first apply to an object without managers is owned by a stand-in.
fn managed_before_apply(request: &ApplyRequest<'_>, managed: Managed) -> Managed {
    let writer = Writer {
        manager: "before-first-apply",
        ..request.writer
    };
    record(managed, versions(request), (request.empty, request.live), &writer)
}

pub(crate) fn versions<'a>(request: &ApplyRequest<'a>) -> Versions<'a> {
    Versions {
        own: (request.writer.api_version, request.schema),
        others: request.other_versions,
    }
}

/// The merged object, if it differs, and the managers after it.
pub(crate) fn merged(
    request: &ApplyRequest<'_>,
    mut managed: Managed,
    force: bool,
) -> Result<(Option<Value>, Managed), Refused> {
    let (schema, live, configuration) = (request.schema, request.live, request.configuration);
    let (types, root) = (&schema.types, schema.root);
    if configuration
        .pointer("/metadata/managedFields")
        .is_some_and(Value::is_array)
    {
        let message = "metadata.managedFields must be nil".to_owned();
        return Err(Refused::Other(ApplyError::BadRequest(message)));
    }
    typed::validate(types, root, configuration).map_err(|mismatches| {
        let (namespace, name) = (
            text(configuration, "/metadata/namespace"),
            text(configuration, "/metadata/name"),
        );
        let kind = printed_kind(text(configuration, "/apiVersion"), text(configuration, "/kind"));
        Refused::Other(ApplyError::Typed(format!(
            "failed to create typed patch object ({namespace}/{name}; {kind}): {}",
            typed::message(&mismatches)
        )))
    })?;

    let versions = versions(request);
    ownership::reconcile(&mut managed, versions);
    let mut object = typed::merge(types, root, live, configuration)
        .map_err(|mismatch| Refused::Other(ApplyError::Typed(format!("failed to merge config: {mismatch}"))))?;

    let mut entry = request.writer.entry(Operation::Apply);
    let last = managed.get(&entry).cloned();
    entry.fields = typed::field_set(types, root, configuration);
    if let Some(reset) = request.writer.reset_fields {
        entry.fields = entry.fields.recursive_difference(reset);
    }
    entry.time = last.as_ref().and_then(|last| last.time.clone());
    let mut owned = stripped(&entry.fields);
    let applied_before = last.as_ref().filter(|last| last.fields == owned);
    if let Some(last) = applied_before {
        // The same set, not an equal one: comparing it again costs nothing.
        owned = last.fields.clone();
    }
    let is_repeated = applied_before.is_some();
    managed.put(entry.clone());

    // Where nothing that was applied last is missing now, there is nothing to remove.
    if let Some(last) = last
        .filter(|last| last.api_version != entry.api_version || !is_repeated && !last.fields.is_subset(&entry.fields))
    {
        let merged = object.as_ref().unwrap_or(live);
        if let Some(pruned) = prune::pruned(merged, versions, &managed, &last) {
            object = (!value::equal(&pruned, live)).then_some(pruned);
        }
    }
    if let Some(object) = &object {
        let reset = request.writer.reset_fields;
        take_fields(&mut managed, versions, reset, (live, object), Some(&entry), force).map_err(Refused::Taken)?;
    }

    if owned.is_empty() {
        managed.take(&entry);
    } else {
        entry.fields = owned;
        if object.is_some() {
            entry.time = Some(SmolStr::new(request.writer.time));
        }
        managed.put(entry);
    }
    managed.entries.retain(|entry| !entry.fields.is_empty());
    managed.sort();
    if let Some(metadata) = object.as_mut().and_then(|object| object.get_mut("metadata"))
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("managedFields");
    }
    Ok((object, managed))
}

fn conflicts(taken: &[Taken]) -> ApplyError {
    let conflicts: Vec<Conflict> = taken
        .iter()
        .flat_map(|taken| {
            let manager = taken.entry.printed();
            taken.fields.paths().into_iter().map(move |path| Conflict {
                field: path.to_string(),
                manager: manager.clone(),
            })
        })
        .collect();
    let message = if let [only] = conflicts.as_slice() {
        format!("Apply failed with 1 conflict: {}: {}", only.message(), only.field)
    } else {
        let mut lines = Vec::new();
        let mut manager = None;
        for conflict in &conflicts {
            if manager != Some(&conflict.manager) {
                lines.push(format!("conflicts with {}:", conflict.manager));
                manager = Some(&conflict.manager);
            }
            lines.push(format!("- {}", conflict.field));
        }
        format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
    };
    ApplyError::Conflicts { message, conflicts }
}
