//! A cluster of a few lines: it keeps what is applied, denies Secrets, and may never answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chandlery_core::ObjectRef;
use chandlery_core::cluster::{
    CallError, ClusterAccess, Deletion, DeletionState, Facts, JsonPatch, Page, Query, Readiness,
};
use serde_json::{Value, json};

pub(crate) struct Stub {
    facts: Facts,
    pub(crate) objects: Mutex<BTreeMap<String, Value>>,
    /// What was called, in order.
    pub(crate) calls: Mutex<Vec<String>>,
    /// Never answers.
    hangs: bool,
    /// How long every call keeps the processor.
    busy: Duration,
    /// Bytes of padding in every object that is read.
    padding: usize,
}

impl Stub {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::plain())
    }

    pub(crate) fn hanging() -> Arc<Self> {
        Arc::new(Self {
            hangs: true,
            ..Self::plain()
        })
    }

    pub(crate) fn busy(busy: Duration) -> Arc<Self> {
        Arc::new(Self { busy, ..Self::plain() })
    }

    pub(crate) fn padded(padding: usize) -> Arc<Self> {
        Arc::new(Self {
            padding,
            ..Self::plain()
        })
    }

    fn plain() -> Self {
        Self {
            facts: Facts {
                name: "east".into(),
                identity: "id".into(),
                host: "::1".into(),
                port: 6443,
                version: "1.37.2".into(),
                path: vec!["west".into(), "east".into()],
            },
            objects: Mutex::default(),
            calls: Mutex::default(),
            hangs: false,
            busy: Duration::ZERO,
            padding: 0,
        }
    }

    async fn called(&self, call: String) {
        self.calls.lock().unwrap().push(call);
        std::thread::sleep(self.busy);
        if self.hangs {
            std::future::pending::<()>().await;
        }
        // A real cluster answers later: the guest's call is suspended, not blocked.
        tokio::task::yield_now().await;
    }

    fn write(&self, object: Value) -> Result<(), CallError> {
        let name = ObjectRef::of(&object).map_err(|error| CallError::NotFound(error.to_string()))?;
        self.objects.lock().unwrap().insert(name.to_string(), object);
        Ok(())
    }
}

#[async_trait]
impl ClusterAccess for Stub {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn get(&self, targets: Vec<ObjectRef>) -> Vec<Result<Option<Value>, CallError>> {
        self.called(format!("get {}", targets.len())).await;
        let objects = self.objects.lock().unwrap();
        let one = |target: &ObjectRef| match target.gvk.kind.as_str() {
            "Secret" => Err(CallError::Denied(format!("{target} is not in the grant"))),
            _ if self.padding > 0 => Ok(Some(json!({"padding": "x".repeat(self.padding)}))),
            _ => Ok(objects.get(&target.to_string()).cloned()),
        };
        targets.iter().map(one).collect()
    }

    async fn list(&self, query: Query) -> Result<Page, CallError> {
        self.called(format!("list {} {:?}", query.gvk, query.continue_token))
            .await;
        let objects = self.objects.lock().unwrap();
        let seen: usize = query.continue_token.map_or(0, |token| token.parse().unwrap());
        let mut rest = objects
            .values()
            .filter(|object| object["kind"] == query.gvk.kind.as_str())
            .skip(seen);
        let items: Vec<_> = rest.by_ref().take(2).cloned().collect();
        Ok(Page {
            continue_token: rest.next().map(|_| (seen + items.len()).to_string()),
            items,
        })
    }

    async fn apply(&self, objects: Vec<Value>, force: bool) -> Vec<Result<(), CallError>> {
        self.called(format!("apply {} {force}", objects.len())).await;
        objects.into_iter().map(|object| self.write(object)).collect()
    }

    async fn create(&self, objects: Vec<Value>) -> Vec<Result<(), CallError>> {
        self.called(format!("create {}", objects.len())).await;
        objects.into_iter().map(|object| self.write(object)).collect()
    }

    async fn patch(&self, patches: Vec<JsonPatch>) -> Vec<Result<(), CallError>> {
        let shown: Vec<_> = patches
            .iter()
            .map(|p| format!("{} {:?} {}", p.target, p.subresource, p.patch))
            .collect();
        self.called(format!("patch {}", shown.join(","))).await;
        patches
            .iter()
            .map(|_| Err(CallError::Conflict("a test failed".into())))
            .collect()
    }

    async fn delete(&self, deletions: Vec<Deletion>) -> Vec<Result<DeletionState, CallError>> {
        let shown: Vec<_> = deletions
            .iter()
            .map(|d| format!("{} {} {}", d.target, d.uid, d.propagation.as_str()))
            .collect();
        self.called(format!("delete {}", shown.join(","))).await;
        deletions
            .iter()
            .map(|_| Ok(DeletionState::Deleting(vec!["x.example/f".into()])))
            .collect()
    }

    async fn assess(&self, targets: Vec<ObjectRef>) -> Vec<Result<Readiness, CallError>> {
        self.called(format!("assess {}", targets.len())).await;
        targets
            .iter()
            .map(|target| Ok(Readiness::Progressing(format!("{} waits", target.name))))
            .collect()
    }
}
