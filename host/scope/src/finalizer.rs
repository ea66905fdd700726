//! Our finalizer on an object: stored before the first effect, taken off after the last.

use chandlery_core::names::FINALIZER;
use chandlery_core::{Class, Setback};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::records::{Failed, timed_raw};

/// Whether it is there.
pub fn has<K: Resource>(object: &K) -> bool {
    object
        .meta()
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER)
}

/// Stores the finalizer. When this returns it is durable: the answer is what was stored. Never for an object that is being
/// deleted; the API would refuse it.
///
/// # Errors
/// `Wait` with the reason `Gone` if the object is not there any more, `Retry` if it was changed meanwhile or the hub does not answer.
pub async fn add<K>(api: &Api<K>, object: &K) -> Result<(), Setback>
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
///
/// # Errors
/// As [`add`].
pub async fn remove<K>(api: &Api<K>, object: &K) -> Result<(), Setback>
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
        .map_err(|error| Setback::new(Class::Bug, "InvalidPatch", error.to_string()))?;
    let parameters = PatchParams {
        field_manager: Some("chandlery".into()),
        ..PatchParams::default()
    };
    match timed_raw(api.patch(&name, &parameters, &Patch::<()>::Json(patch))).await {
        Ok(_) => Ok(()),
        Err(Failed::Api(404)) => Err(Setback::new(Class::Wait, "Gone", format!("{name} is gone"))),
        // A test of the patch that failed.
        Err(Failed::Api(422)) => Err(Failed::Api(409).into_setback("the finalizer")),
        Err(failed) => Err(failed.into_setback("the finalizer")),
    }
}
