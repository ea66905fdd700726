//! A list of any length as one iterator: the pages are the host's business and the SDK's, not the plugin's.

use std::vec::IntoIter;

use crate::calls::JsonText;
use crate::errors::unreadable;
use crate::{CallError, Calls, Json, Query, Result};

impl Query {
    /// All objects of a kind in all namespaces that the grant covers.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: None,
            label_selector: String::new(),
            field_selector: String::new(),
            metadata_only: false,
            continue_: None,
        }
    }

    /// Only in this namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self
        }
    }

    /// Only with these labels, in Kubernetes syntax.
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            label_selector: selector.into(),
            ..self
        }
    }

    /// Only with these fields, in Kubernetes syntax.
    pub fn fields(self, selector: impl Into<String>) -> Self {
        Self {
            field_selector: selector.into(),
            ..self
        }
    }

    /// Only `apiVersion`, `kind` and `metadata` of each: for thousands.
    pub fn metadata_only(self) -> Self {
        Self {
            metadata_only: true,
            ..self
        }
    }
}

/// The objects of a list, fetched page by page. An error is the last item.
pub struct Objects<'a> {
    calls: &'a dyn Calls,
    /// Absent once the last page is there.
    next: Option<Query>,
    page: IntoIter<JsonText>,
}

impl<'a> Objects<'a> {
    pub(crate) fn new(calls: &'a dyn Calls, query: Query) -> Self {
        Self {
            calls,
            next: Some(query),
            page: Vec::new().into_iter(),
        }
    }
}

impl Iterator for Objects<'_> {
    type Item = Result<Json, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(text) = self.page.next() {
                return Some(serde_json::from_str(&text).map_err(unreadable));
            }
            let query = self.next.take()?;
            match self.calls.list(&query) {
                Err(error) => return Some(Err(error)),
                Ok(page) => {
                    self.page = page.items.into_iter();
                    self.next = page.continue_.map(|token| Query {
                        continue_: Some(token),
                        ..query
                    });
                }
            }
        }
    }
}
