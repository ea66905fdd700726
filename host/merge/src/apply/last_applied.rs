//! Objects that kubectl applied on the client's side before it applied on the server's.
//!
//! What kubectl set is recorded in an annotation. Its first server-side apply may take those fields from whoever has
//! them now, and as long as the annotation is there it is kept up to date.

use serde_json::Value;

use super::{ApplyError, ApplyRequest, Managed, Refused, merged};
use crate::fields::FieldSet;
use crate::ownership::Taken;
use crate::typed;

/// The manager for which all of this holds.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Of all annotations of an object, names and values; what is larger is not kept.
const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// Decides on conflicts: fields that are as kubectl applied them are taken.
pub(super) fn decide(
    request: &ApplyRequest<'_>,
    taken: Vec<Taken>,
    managed: Managed,
) -> Result<(Option<Value>, Managed), Refused> {
    let Some(allowed) = allowed(request) else {
        return Err(Refused::Taken(taken));
    };
    let left: Vec<Taken> = taken
        .into_iter()
        .map(|taken| Taken {
            fields: taken.fields.difference(&allowed),
            ..taken
        })
        .filter(|taken| !taken.fields.is_empty())
        .collect();
    if left.is_empty() {
        merged(request, managed, true)
    } else {
        Err(Refused::Taken(left))
    }
}

/// The fields of the annotation that the live object still has as they are there.
fn allowed(request: &ApplyRequest<'_>) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(request.live)?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(request.writer.api_version) {
        return None;
    }
    let (types, root) = (&request.schema.types, request.schema.root);
    typed::validate(types, root, &last).ok()?;
    let comparison = typed::compare(types, root, &last, request.live);
    Some(
        typed::field_set(types, root, &last)
            .difference(&comparison.modified)
            .difference(&comparison.added)
            .difference(&comparison.removed),
    )
}

/// Writes the configuration into the annotation, if the object has one.
pub(super) fn renew(request: &ApplyRequest<'_>, object: &mut Option<Value>) {
    if annotation(object.as_ref().unwrap_or(request.live)).is_none() {
        return;
    }
    let mut configuration = request.configuration.clone();
    if let Some(annotations) = configuration.pointer_mut("/metadata/annotations")
        && let Some(annotations) = annotations.as_object_mut()
    {
        annotations.remove(ANNOTATION);
    }
    let renewed = format!("{configuration}\n");
    if annotation(object.as_ref().unwrap_or(request.live)) == Some(renewed.as_str()) {
        return;
    }
    let target = object.get_or_insert_with(|| request.live.clone());
    let Some(metadata) = target.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), Value::from(renewed));
    let size: usize = annotations
        .iter()
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS_BYTES {
        annotations.remove(ANNOTATION);
    }
}

impl From<ApplyError> for Refused {
    fn from(error: ApplyError) -> Self {
        Self::Other(error)
    }
}
