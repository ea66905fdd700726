//! Our finalizer on an object: stored before the first effect, taken off after the last.

use chandlery::core::Setback;
use chandlery::core::names::FINALIZER;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde_json::{Value, json};

use super::timed;

pub(super) fn has<K: Resource>(object: &K) -> bool {
    object
        .meta()
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER)
}

/// Stores the finalizer. When this returns it is durable: the answer is what was stored. Never for an object that is being
/// deleted; the API would refuse it.
pub(super) async fn add<K>(api: &Api<K>, object: &K) -> Result<(), Setback>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let meta = object.meta();
    let mut operations = vec![json!({"op": "test", "path": "/metadata/uid", "value": meta.uid})];
    match meta.finalizers.as_deref() {
        None | Some([]) => operations.push(json!({"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]})),
        Some(_) => operations.push(json!({"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER})),
    }
    // A list that came to be since the read would be overwritten by the first form.
    operations.insert(
        1,
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}),
    );
    send(api, object, operations).await
}

/// Takes the finalizer off. Fails if it is not where it was read: somebody else changed the list, and it is read again.
pub(super) async fn remove<K>(api: &Api<K>, object: &K) -> Result<(), Setback>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let Some(at) = object
        .meta()
        .finalizers
        .iter()
        .flatten()
        .position(|finalizer| finalizer == FINALIZER)
    else {
        return Ok(());
    };
    let path = format!("/metadata/finalizers/{at}");
    let operations = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": object.meta().uid}),
        json!({"op": "test", "path": path, "value": FINALIZER}),
        json!({"op": "remove", "path": path}),
    ];
    send(api, object, operations).await
}

async fn send<K>(api: &Api<K>, object: &K, operations: Vec<Value>) -> Result<(), Setback>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let name = object.meta().name.clone().unwrap_or_default();
    let patch = serde_json::from_value(Value::Array(operations))
        .map_err(|error| Setback::new(chandlery::core::Class::Bug, "InvalidPatch", error.to_string()))?;
    let parameters = PatchParams {
        field_manager: Some("chandlery".into()),
        ..PatchParams::default()
    };
    timed(
        "the finalizer",
        api.patch(&name, &parameters, &Patch::<()>::Json(patch)),
    )
    .await
    .map(|_| ())
}
