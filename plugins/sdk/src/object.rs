//! Names of objects.

use std::fmt;

use crate::{Json, ObjectRef};

/// Names one object. `namespace` is a text for a namespaced kind and `None` for a cluster-scoped one.
pub fn object_ref<'a>(api_version: &str, kind: &str, namespace: impl Into<Option<&'a str>>, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.into().map(str::to_owned),
        name: name.to_owned(),
    }
}

impl ObjectRef {
    /// The name that a document bears, or `None` if a part of it is missing.
    pub fn of(document: &Json) -> Option<Self> {
        let text = |pointer| {
            document
                .pointer(pointer)
                .and_then(Json::as_str)
                .filter(|text| !text.is_empty())
        };
        Some(object_ref(
            text("/apiVersion")?,
            text("/kind")?,
            text("/metadata/namespace"),
            text("/metadata/name")?,
        ))
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }
}

impl From<&ObjectRef> for ObjectRef {
    fn from(target: &ObjectRef) -> Self {
        target.clone()
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {}/{}", self.kind, namespace, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}
