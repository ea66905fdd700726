//! Names of Kubernetes objects, and what the host reads from a document before it lets it pass.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// API version and kind, as an object carries them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gvk {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `ConfigMap`, not `configmaps`.
    pub kind: String,
}

impl Gvk {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The version without its group.
    pub fn version(&self) -> &str {
        self.api_version
            .rsplit_once('/')
            .map_or(self.api_version.as_str(), |(_, version)| version)
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version, self.kind)
    }
}

/// Names one object in one cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// API version and kind.
    #[serde(flatten)]
    pub gvk: Gvk,
    /// Absent for a cluster-scoped kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {}/{}", self.gvk.kind, namespace, self.name),
            None => write!(f, "{} {}", self.gvk.kind, self.name),
        }
    }
}

/// Why a document cannot be taken for a Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotAnObject {
    /// JSON pointer to the place.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl ObjectRef {
    /// Builds a name from its parts.
    pub fn new(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            gvk: Gvk {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            },
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// Reads the name of a document.
    ///
    /// # Errors
    /// [`NotAnObject`] with the JSON pointer to what is missing, empty or of the wrong type.
    pub fn of(document: &Value) -> Result<Self, NotAnObject> {
        let text = |pointer: &str| match document.pointer(pointer) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            Some(Value::String(_)) => Err(NotAnObject {
                path: pointer.into(),
                message: format!("{} is empty", &pointer[1..].replace('/', ".")),
            }),
            Some(_) => Err(NotAnObject {
                path: pointer.into(),
                message: format!("{} is not a string", &pointer[1..].replace('/', ".")),
            }),
            None => Err(NotAnObject {
                path: pointer.into(),
                message: format!("{} is missing", &pointer[1..].replace('/', ".")),
            }),
        };
        if !document.is_object() {
            return Err(NotAnObject {
                path: String::new(),
                message: "the document is not a JSON object".into(),
            });
        }
        let namespace = match document.pointer("/metadata/namespace") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.is_empty() => None,
            Some(_) => Some(text("/metadata/namespace")?),
        };
        let name = match text("/metadata/name") {
            Err(missing) if document.pointer("/metadata/generateName").is_some() => {
                return Err(NotAnObject { message: "metadata.generateName is refused: a call that is repeated after a crash would make a second object; give metadata.name".into(), ..missing });
            }
            other => other?,
        };
        // Path segments of a request are built from these: nothing may climb out of its place.
        for (pointer, part) in [
            ("/metadata/name", Some(&name)),
            ("/metadata/namespace", namespace.as_ref()),
        ] {
            if let Some(part) = part
                && !is_path_segment(part)
            {
                return Err(NotAnObject {
                    path: pointer.into(),
                    message: format!("{} is no name that an object can have", &pointer[1..].replace('/', ".")),
                });
            }
        }
        Ok(Self {
            gvk: Gvk {
                api_version: text("/apiVersion")?,
                kind: text("/kind")?,
            },
            namespace,
            name,
        })
    }
}

/// Whether `text` is one segment of a request path and nothing more. It goes into the path as it is, so whatever could end
/// the segment, the path or the line is refused; no name in use has such a character.
pub fn is_path_segment(text: &str) -> bool {
    !text.is_empty()
        && text != "."
        && text != ".."
        && text.bytes().all(|b| b.is_ascii_graphic() && !b"/%?#\\".contains(&b))
}

/// The `resourceVersion` of a document, if it has one.
pub fn resource_version(document: &Value) -> Option<&str> {
    document.pointer("/metadata/resourceVersion").and_then(Value::as_str)
}

/// The UID of a document, if it has a valid one.
pub fn uid(document: &Value) -> Option<crate::Uid> {
    document
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
}

/// One annotation of a document.
pub fn annotation<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    document.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// Whether the object is marked for deletion.
pub fn is_deleting(document: &Value) -> bool {
    document
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|stamp| !stamp.is_null())
}

/// The finalizers of a document.
pub fn finalizers(document: &Value) -> Vec<String> {
    document
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(|f| f.as_str().map(str::to_owned)).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_without_a_name_says_where_it_lacks_it() {
        let missing = ObjectRef::of(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})).unwrap_err();
        assert_eq!(
            (missing.path.as_str(), missing.message.as_str()),
            ("/metadata/name", "metadata.name is missing")
        );
        let generated =
            ObjectRef::of(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}))
                .unwrap_err();
        assert!(generated.message.contains("generateName is refused"));
        for name in ["..", "a/b", "a%2fb", ".", "x?y", "?x", "x#", "a b", "a\nb", "ä", "a\\b"] {
            assert!(
                ObjectRef::of(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})).is_err(),
                "{name}"
            );
        }
        assert!(ObjectRef::of(&json!([1])).is_err());
    }

    #[test]
    fn group_and_version_are_told_apart() {
        let core = Gvk {
            api_version: "v1".into(),
            kind: "Pod".into(),
        };
        let apps = Gvk {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
        };
        assert_eq!((core.group(), core.version()), ("", "v1"));
        assert_eq!((apps.group(), apps.version()), ("apps", "v1"));
    }
}
