//! Which resource a kind is: asked of the cluster once, kept as long as the connection, asked again for what is missing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use chandlery_core::cluster::CallError;
use chandlery_core::object::is_path_segment;
use chandlery_core::{Gvk, ObjectRef};
use serde_json::Value;

use crate::answers::{Asked, Verdict};
use crate::connection::Connection;
use crate::wire::Ask;

/// Kinds that are kept of one connection. A large cluster serves some hundreds; a hostile one as many as it is asked for.
const MOST_KINDS: usize = 10_000;
/// Kinds that one group is taken to have in one version.
const MOST_OF_ONE_GROUP: usize = 1_000;
/// Longest name of a kind or resource in bytes, as Kubernetes has it.
const LONGEST_NAME: usize = 63;

/// One kind as a cluster serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The kind.
    pub gvk: Gvk,
    /// Plural name, as in paths.
    pub resource: String,
    /// Whether objects of it live in namespaces.
    pub namespaced: bool,
}

impl Served {
    /// Path to a collection; without a namespace, the one over all of them.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.gvk.group().is_empty() { "/api" } else { "/apis" };
        let place = namespace.map(|n| format!("/namespaces/{n}")).unwrap_or_default();
        format!("{root}/{}{place}/{}", self.gvk.api_version, self.resource)
    }

    /// Path to an object.
    pub(crate) fn object(&self, target: &ObjectRef) -> String {
        format!("{}/{}", self.collection(target.namespace.as_deref()), target.name)
    }

    /// As kube's dynamic types want it.
    pub(crate) fn api_resource(&self) -> kube::core::ApiResource {
        kube::core::ApiResource {
            group: self.gvk.group().to_owned(),
            version: self.gvk.version().to_owned(),
            api_version: self.gvk.api_version.clone(),
            kind: self.gvk.kind.clone(),
            plural: self.resource.clone(),
        }
    }
}

/// Kinds of one connection that were found so far.
#[derive(Default)]
pub(crate) struct Discovery {
    served: Mutex<HashMap<Gvk, Arc<Served>>>,
}

impl Discovery {
    fn known(&self, gvk: &Gvk) -> Option<Arc<Served>> {
        self.served
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(gvk)
            .cloned()
    }

    /// To be called when a path that was found answers that it is not served.
    pub(crate) fn forget(&self, gvk: &Gvk) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).remove(gvk);
    }
}

impl Connection {
    /// Finds the resource of a kind.
    ///
    /// # Errors
    /// [`CallError::NotFound`] where the cluster does not serve it, at least not yet; else why it could not be asked.
    pub(crate) async fn served(&self, gvk: &Gvk) -> Result<Arc<Served>, CallError> {
        if let Some(served) = self.discovery.known(gvk) {
            return Ok(served);
        }
        let valid = !gvk.kind.is_empty()
            && gvk.api_version.split('/').count() <= 2
            && gvk.api_version.split('/').all(is_path_segment);
        if !valid {
            return Err(CallError::NotFound(format!("{gvk} is not a kind")));
        }
        let root = if gvk.group().is_empty() { "/api" } else { "/apis" };
        let answer = self
            .read(Ask::get(format!("{root}/{}", gvk.api_version)))
            .await
            .map_err(crate::wire::NoAnswer::into_call_error)?;
        match answer.verdict(Asked::Read) {
            Verdict::Good => {}
            Verdict::Bad(CallError::NotFound(_)) => return Err(not_served(gvk)),
            Verdict::Bad(error) => return Err(error),
            Verdict::Forbidden(message) => return Err(CallError::Denied(message)),
        }
        let found: Vec<Served> = answer
            .body
            .get("resources")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .take(MOST_OF_ONE_GROUP)
            .filter_map(|entry| resource(&gvk.api_version, entry))
            .collect();
        let mut served = self.discovery.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.len() + found.len() > MOST_KINDS {
            served.clear();
        }
        for entry in found {
            served.insert(entry.gvk.clone(), Arc::new(entry));
        }
        served.get(gvk).cloned().ok_or_else(|| not_served(gvk))
    }
}

fn not_served(gvk: &Gvk) -> CallError {
    CallError::NotFound(format!(
        "the cluster does not serve {} of {}",
        gvk.kind, gvk.api_version
    ))
}

fn resource(api_version: &str, entry: &Value) -> Option<Served> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let (name, kind) = (text("name")?, text("kind")?);
    // Subresources have a slash; whatever else is no path segment comes from a server that means no good.
    if !is_path_segment(name) || name.len().max(kind.len()) > LONGEST_NAME {
        return None;
    }
    Some(Served {
        gvk: Gvk {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        },
        resource: name.to_owned(),
        namespaced: entry.get("namespaced").and_then(Value::as_bool)?,
    })
}
