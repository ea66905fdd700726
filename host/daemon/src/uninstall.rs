//! Leaving a hub: nothing of ours may go while its finalizer stands for something in a remote.

use chandlery::core::names::FINALIZER;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client, CustomResourceExt, Resource as _};
use serde_json::json;

/// An object that still bears our finalizer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Leftover {
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it lives in one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Why leftovers could not be found or freed.
#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    /// The hub refused or did not answer.
    #[error("{doing} on the hub")]
    Hub {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
}

fn kinds() -> [ApiResource; 5] {
    use chandlery_api as api;
    // In the order in which they are freed: users before what they use.
    [
        api::Provision::api_resource(),
        api::StepRecord::api_resource(),
        api::RemoteClaim::api_resource(),
        api::RemoteCluster::api_resource(),
        api::Plugin::api_resource(),
    ]
}

/// All objects that still bear our finalizer. A kind that is not served has none.
///
/// # Errors
/// [`UninstallError::Hub`].
pub async fn leftovers(hub: &Client) -> Result<Vec<Leftover>, UninstallError> {
    let mut found = Vec::new();
    for kind in kinds() {
        let api: Api<DynamicObject> = Api::all_with(hub.clone(), &kind);
        let list = match api.list(&ListParams::default()).await {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => {
                return Err(UninstallError::Hub {
                    doing: format!("listing {}", kind.plural),
                    source: Box::new(error),
                });
            }
        };
        found.extend(
            list.items
                .into_iter()
                .filter(|object| object.meta().finalizers.iter().flatten().any(|f| f == FINALIZER))
                .map(|object| Leftover {
                    kind: kind.kind.clone(),
                    namespace: object.metadata.namespace.clone(),
                    name: object.metadata.name.clone().unwrap_or_default(),
                }),
        );
    }
    Ok(found)
}

/// Takes our finalizer off these objects. What they stood for in remotes stays there for ever.
///
/// # Errors
/// [`UninstallError::Hub`], at the first that could not be freed.
pub async fn abandon(hub: &Client, leftovers: &[Leftover]) -> Result<(), UninstallError> {
    for kind in kinds() {
        for leftover in leftovers.iter().filter(|leftover| leftover.kind == kind.kind) {
            let api: Api<DynamicObject> = match &leftover.namespace {
                Some(namespace) => Api::namespaced_with(hub.clone(), namespace, &kind),
                None => Api::all_with(hub.clone(), &kind),
            };
            let failed = |error| UninstallError::Hub {
                doing: format!("freeing {leftover}"),
                source: Box::new(error),
            };
            let Some(object) = api.get_opt(&leftover.name).await.map_err(failed)? else {
                continue;
            };
            let others: Vec<_> = object
                .metadata
                .finalizers
                .iter()
                .flatten()
                .filter(|f| *f != FINALIZER)
                .collect();
            let patch =
                json!({"metadata": {"resourceVersion": object.metadata.resource_version, "finalizers": others}});
            match api
                .patch(&leftover.name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
            {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok(())
}
