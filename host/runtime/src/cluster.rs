//! The functions of the contract's `cluster`: guest lists become `ClusterAccess` lists and back, within the budget.
//!
//! Each function admits the call, converts each item, hands on those that are sound, and puts every answer in its place.

use std::sync::Arc;

use chandlery_bindings::cluster::{
    Deletion, DeletionState, Facts, Host, HostCluster, JsonPatch, Page, Query, Readiness,
};
use chandlery_bindings::types::{self, CallError, ObjectRef};
use chandlery_bindings::{ClusterHandle, convert};
use chandlery_core::cluster as core;
use chandlery_core::cluster::ClusterAccess;
use wasmtime::component::Resource;

use crate::state::State;

/// Objects that are read before it is seen whether there is room for more: 5,000 of a mebibyte each would fill the host.
const READ_AT_ONCE: usize = 64;

type Handle = Resource<ClusterHandle>;
type Results<T> = wasmtime::Result<Vec<Result<T, CallError>>>;

impl types::Host for State {}
impl Host for State {}

impl State {
    fn access(&self, handle: &Handle) -> wasmtime::Result<Arc<dyn ClusterAccess>> {
        Ok(self.table.get(handle)?.0.clone())
    }

    /// One list through the host: `size` of an item in bytes, `convert` it, `run` those that are sound, `answer` each.
    async fn batch<I, C, R, A, F>(
        &mut self,
        items: Vec<I>,
        size: impl Fn(&I) -> usize,
        convert: impl Fn(&Self, I) -> Result<C, core::CallError>,
        run: impl FnOnce(Vec<C>) -> F,
        answer: impl Fn(R) -> Result<(A, usize), core::CallError>,
    ) -> Vec<Result<A, CallError>>
    where
        F: Future<Output = Vec<Result<R, core::CallError>>>,
    {
        let bytes: usize = items.iter().map(&size).sum();
        if let Err(error) = self.budget.admit(items.len(), bytes as u64) {
            return items.iter().map(|_| Err(error.clone().into())).collect();
        }
        let mut sound = Vec::with_capacity(items.len());
        let places: Vec<Result<(), core::CallError>> = items
            .into_iter()
            .map(|item| convert(self, item).map(|item| sound.push(item)))
            .collect();
        let mut results = Vec::new();
        if !sound.is_empty() {
            self.clock.enter_host();
            results = run(sound).await;
            self.clock.leave_host();
        }
        let mut results = results.into_iter();
        let short = || {
            Err(core::CallError::Other(
                "the host answered fewer items than it was given".to_owned(),
            ))
        };
        let place = |place: Result<(), core::CallError>| -> Result<A, core::CallError> {
            place?;
            let (answer, bytes) = answer(results.next().unwrap_or_else(short)?)?;
            self.budget.charge_out(bytes)?;
            Ok(answer)
        };
        places
            .into_iter()
            .map(place)
            .map(|result| result.map_err(CallError::from))
            .collect()
    }
}

fn name_size(target: &ObjectRef) -> usize {
    let ObjectRef {
        api_version,
        kind,
        namespace,
        name,
    } = target;
    api_version.len() + kind.len() + namespace.as_ref().map_or(0, String::len) + name.len()
}

fn nothing((): ()) -> Result<((), usize), core::CallError> {
    Ok(((), 0))
}

impl HostCluster for State {
    async fn facts(&mut self, on: Handle) -> wasmtime::Result<Facts> {
        Ok(self.access(&on)?.facts().clone().into())
    }

    async fn get(&mut self, on: Handle, targets: Vec<ObjectRef>) -> Results<Option<String>> {
        let access = self.access(&on)?;
        let (left, used_up) = (self.budget.left_out(), self.budget.used_up_out());
        let run = |targets: Vec<chandlery_core::ObjectRef>| async move {
            let (mut results, mut bytes) = (Vec::with_capacity(targets.len()), 0);
            for chunk in targets.chunks(READ_AT_ONCE) {
                if bytes > left {
                    results.extend(chunk.iter().map(|_| Err(used_up.clone())));
                    continue;
                }
                for result in access.get(chunk.to_vec()).await {
                    let text = result.map(|object| object.map(|object| object.to_string()));
                    bytes += text
                        .as_ref()
                        .ok()
                        .and_then(Option::as_ref)
                        .map_or(0, |text| text.len() as u64);
                    results.push(text);
                }
            }
            results
        };
        let charged = |text: Option<String>| {
            let bytes = text.as_ref().map_or(0, String::len);
            Ok((text, bytes))
        };
        Ok(self
            .batch(
                targets,
                name_size,
                |_, target| convert::object_ref(target),
                run,
                charged,
            )
            .await)
    }

    async fn list(&mut self, on: Handle, query: Query) -> wasmtime::Result<Result<Page, CallError>> {
        let access = self.access(&on)?;
        let size = |query: &Query| {
            let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            query.api_version.len()
                + query.kind.len()
                + query.label_selector.len()
                + query.field_selector.len()
                + optional(&query.namespace)
                + optional(&query.continue_)
        };
        let page = |page: core::Page| {
            let core::Page { items, continue_token } = page;
            let items: Vec<String> = items.iter().map(serde_json::Value::to_string).collect();
            let bytes = items.iter().map(String::len).sum();
            Ok((
                Page {
                    items,
                    continue_: continue_token,
                },
                bytes,
            ))
        };
        let run = |queries: Vec<core::Query>| async move {
            let mut pages = Vec::new();
            for query in queries {
                pages.push(access.list(query).await);
            }
            pages
        };
        let mut pages = self
            .batch(vec![query], size, |_, query| convert::query(query), run, page)
            .await;
        Ok(pages
            .pop()
            .unwrap_or_else(|| Err(CallError::Other("no page".to_owned()))))
    }

    async fn apply(&mut self, on: Handle, objects: Vec<String>, force: bool) -> Results<()> {
        let access = self.access(&on)?;
        let run = |objects| async move { access.apply(objects, force).await };
        Ok(self.batch(objects, String::len, Self::object, run, nothing).await)
    }

    async fn create(&mut self, on: Handle, objects: Vec<String>) -> Results<()> {
        let access = self.access(&on)?;
        let run = |objects| async move { access.create(objects).await };
        Ok(self.batch(objects, String::len, Self::object, run, nothing).await)
    }

    async fn patch(&mut self, on: Handle, patches: Vec<JsonPatch>) -> Results<()> {
        let access = self.access(&on)?;
        let size = |patch: &JsonPatch| name_size(&patch.target) + patch.patch.len();
        let run = |patches| async move { access.patch(patches).await };
        let convert = |state: &Self, patch: JsonPatch| {
            state.budget.admit_object(patch.patch.len())?;
            convert::json_patch(patch)
        };
        Ok(self.batch(patches, size, convert, run, nothing).await)
    }

    async fn delete(&mut self, on: Handle, deletions: Vec<Deletion>) -> Results<DeletionState> {
        let access = self.access(&on)?;
        let size = |deletion: &Deletion| name_size(&deletion.target) + deletion.uid.len();
        let run = |deletions| async move { access.delete(deletions).await };
        let state = |state: core::DeletionState| {
            let bytes = match &state {
                core::DeletionState::Gone => 0,
                core::DeletionState::Deleting(finalizers) => finalizers.iter().map(String::len).sum(),
            };
            Ok((state.into(), bytes))
        };
        Ok(self
            .batch(deletions, size, |_, deletion| convert::deletion(deletion), run, state)
            .await)
    }

    async fn assess(&mut self, on: Handle, targets: Vec<ObjectRef>) -> Results<Readiness> {
        let access = self.access(&on)?;
        let run = |targets| async move { access.assess(targets).await };
        let readiness = |readiness: core::Readiness| {
            let bytes = match &readiness {
                core::Readiness::Progressing(why) | core::Readiness::Failed(why) => why.len(),
                _ => 0,
            };
            Ok((readiness.into(), bytes))
        };
        Ok(self
            .batch(
                targets,
                name_size,
                |_, target| convert::object_ref(target),
                run,
                readiness,
            )
            .await)
    }

    async fn drop(&mut self, on: Handle) -> wasmtime::Result<()> {
        // Reached for owned handles only, and a guest is lent its handle.
        self.table.delete(on)?;
        Ok(())
    }
}

impl State {
    fn object(&self, text: String) -> Result<serde_json::Value, core::CallError> {
        self.budget.admit_object(text.len())?;
        convert::document(&text)
    }
}
