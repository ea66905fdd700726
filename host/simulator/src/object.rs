//! Reading and changing the parts of a document that every Kubernetes object has.

use bytes::Bytes;
use serde_json::{Map, Value};

/// The metadata of a document; empty for one that has none.
pub(crate) fn metadata(document: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    document.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// The metadata of a document, made if it is missing or nonsense.
pub(crate) fn metadata_mut(document: &mut Value) -> &mut Map<String, Value> {
    let document = map_mut(document);
    map_mut(document.entry("metadata").or_insert_with(|| Value::Object(Map::new())))
}

/// The value as a map; anything else becomes an empty one.
pub(crate) fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        // Just made an object.
        _ => unreachable!(),
    }
}

fn field<'a>(document: &'a Value, name: &str) -> &'a str {
    metadata(document).get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(document: &Value) -> &str {
    field(document, "name")
}

pub(crate) fn namespace(document: &Value) -> &str {
    field(document, "namespace")
}

pub(crate) fn uid(document: &Value) -> &str {
    field(document, "uid")
}

pub(crate) fn resource_version(document: &Value) -> &str {
    field(document, "resourceVersion")
}

pub(crate) fn is_deleting(document: &Value) -> bool {
    !field(document, "deletionTimestamp").is_empty()
}

pub(crate) fn labels(document: &Value) -> impl Iterator<Item = (&str, &str)> {
    metadata(document)
        .get("labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

pub(crate) fn owners(document: &Value) -> impl Iterator<Item = &Value> {
    list(document, "ownerReferences")
}

pub(crate) fn finalizers(document: &Value) -> impl Iterator<Item = &str> {
    list(document, "finalizers").filter_map(Value::as_str)
}

fn list<'a>(document: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    metadata(document)
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Sets a field of the metadata, or takes it away if there is nothing to set.
pub(crate) fn set(document: &mut Value, name: &str, value: Option<Value>) {
    let metadata = metadata_mut(document);
    match value {
        Some(value) => {
            metadata.insert(name.to_owned(), value);
        }
        None => {
            metadata.remove(name);
        }
    }
}

pub(crate) fn set_resource_version(document: &mut Value, version: u64) {
    set(document, "resourceVersion", Some(version.to_string().into()));
}

pub(crate) fn set_finalizers(document: &mut Value, finalizers: Vec<String>) {
    let value = (!finalizers.is_empty()).then(|| finalizers.into_iter().map(Value::String).collect());
    set(document, "finalizers", value);
}

/// The document on one line without `apiVersion` and `kind`.
pub(crate) fn encode(document: &Value) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    let mut first = true;
    for (key, value) in document.as_object().into_iter().flatten() {
        if key == "apiVersion" || key == "kind" {
            continue;
        }
        if !first {
            out.push(b',');
        }
        first = false;
        // Writing into memory cannot fail.
        let _ = serde_json::to_writer(&mut out, key);
        out.push(b':');
        let _ = serde_json::to_writer(&mut out, value);
    }
    out.push(b'}');
    Bytes::from(out)
}

/// An encoded document with `apiVersion` and `kind` before it.
pub(crate) fn with_type(body: &[u8], api_version: &str, kind: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + api_version.len() + kind.len() + 32);
    write_with_type(&mut out, body, api_version, kind);
    out
}

/// As [`with_type`], behind what is already there.
pub(crate) fn write_with_type(out: &mut Vec<u8>, body: &[u8], api_version: &str, kind: &str) {
    out.extend_from_slice(b"{\"kind\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"apiVersion\":\"");
    out.extend_from_slice(api_version.as_bytes());
    out.push(b'"');
    let rest = body.get(1..).unwrap_or(b"}");
    if rest != b"}" {
        out.push(b',');
    }
    out.extend_from_slice(rest);
}

/// Puts `apiVersion` and `kind` into a document.
pub(crate) fn set_type(document: &mut Value, api_version: &str, kind: &str) {
    let document = map_mut(document);
    document.insert("apiVersion".to_owned(), api_version.into());
    document.insert("kind".to_owned(), kind.into());
}
