//! Ports of a few lines: no cluster, no component.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chandlery_core::claim::Purpose;
use chandlery_core::cluster::*;
use chandlery_core::memory::MemoryLedger;
use chandlery_core::ports::*;
use chandlery_core::record::{Entry, Mode, Phase, Receipt, Record, Target};
use chandlery_core::task::{Done, Export, Outcome};
use chandlery_core::{Class, Digest, ObjectRef, Setback, StepName};
use chandlery_engine::{Look, Pass, compile, pass, undo_all};
use serde_json::{Value, json};

/// A world in memory: what each step's plugin answers, and a trace of all that was asked of the ports.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) ledgers: Mutex<BTreeMap<StepName, Arc<Traced>>>,
    /// What the plugin answers for a step; done with nothing where it is not said.
    answers: Mutex<BTreeMap<&'static str, Result<Outcome, Setback>>>,
    /// Whether taking away is done at once.
    pub(crate) holds: Mutex<BTreeSet<&'static str>>,
    /// Remotes that are not ready.
    pub(crate) unready: Mutex<BTreeSet<&'static str>>,
    /// Remotes that are another cluster by now.
    pub(crate) replaced: Mutex<BTreeSet<&'static str>>,
    /// Remotes that are themselves about to go.
    pub(crate) doomed: Mutex<BTreeSet<&'static str>>,
    trace: Arc<Mutex<Vec<String>>>,
}

pub(crate) struct Traced {
    inner: MemoryLedger,
    trace: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(crate) fn answer(&self, step: &'static str, answer: Result<Outcome, Setback>) {
        self.answers.lock().unwrap().insert(step, answer);
    }

    pub(crate) fn trace(&self) -> Vec<String> {
        std::mem::take(&mut self.trace.lock().unwrap())
    }

    pub(crate) fn note(&self, text: String) {
        self.trace.lock().unwrap().push(text);
    }

    pub(crate) async fn pass(&self, spec: &Value, due: &[&str]) -> Pass {
        let graph = compile(&serde_json::from_value(spec.clone()).unwrap()).unwrap();
        let due = due.iter().map(|step| step.parse().unwrap()).collect();
        let look = Look {
            due,
            concurrency: 8,
            ..Look::default()
        };
        pass(&graph, self.ports(), &look).await.unwrap()
    }

    pub(crate) async fn undo(&self) -> Pass {
        undo_all(
            self.ports(),
            &Look {
                concurrency: 8,
                ..Look::default()
            },
        )
        .await
        .unwrap()
    }

    pub(crate) fn ports(&self) -> Ports<'_> {
        Ports {
            records: self,
            remotes: self,
            plugins: self,
        }
    }

    pub(crate) fn record(&self, step: &str) -> Option<Record> {
        self.ledgers
            .lock()
            .unwrap()
            .get(&step.parse().unwrap())
            .map(|ledger| ledger.inner.record())
    }
}

#[async_trait]
impl Ledger for Traced {
    fn record(&self) -> Record {
        self.inner.record()
    }
    fn entry(&self, object: &ObjectRef) -> Option<Entry> {
        self.inner.entry(object)
    }
    async fn begin(&self, phase: Phase, receipt: Receipt) -> Result<(), Setback> {
        self.trace
            .lock()
            .unwrap()
            .push(format!("begin {} {phase:?}", self.inner.record().step));
        self.inner.begin(phase, receipt).await
    }
    async fn intend(&self, identity: &str, entries: Vec<Entry>) -> Result<(), Setback> {
        self.inner.intend(identity, entries).await
    }
    fn observe(&self, entry: Entry) {
        self.inner.observe(entry);
    }
    fn forget(&self, object: &ObjectRef) {
        self.inner.forget(object);
    }
    async fn settle(&self, phase: Phase, outputs: Option<Value>, memory: Option<Value>) -> Result<(), Setback> {
        self.trace
            .lock()
            .unwrap()
            .push(format!("settle {} {phase:?}", self.inner.record().step));
        self.inner.settle(phase, outputs, memory).await
    }
    async fn close(&self) -> Result<(), Setback> {
        self.trace
            .lock()
            .unwrap()
            .push(format!("close {}", self.inner.record().step));
        self.inner.settle(Phase::Emptying, None, None).await
    }
}

#[async_trait]
impl Records for World {
    async fn load(&self) -> Result<Vec<Arc<dyn Ledger>>, Setback> {
        let mut ledgers = self.ledgers.lock().unwrap();
        // What was closed is gone.
        let closed: Vec<StepName> = self
            .trace
            .lock()
            .unwrap()
            .iter()
            .filter_map(|line| line.strip_prefix("close ").map(|step| step.parse().unwrap()))
            .collect();
        ledgers.retain(|step, _| !closed.contains(step));
        Ok(ledgers
            .values()
            .cloned()
            .map(|ledger| ledger as Arc<dyn Ledger>)
            .collect())
    }
    async fn open(&self, record: Record) -> Result<Arc<dyn Ledger>, Setback> {
        self.note(format!("receipt {}", record.step));
        let step = record.step.clone();
        let ledger = Arc::new(Traced {
            inner: MemoryLedger::new(record),
            trace: self.trace.clone(),
        });
        self.ledgers.lock().unwrap().insert(step, ledger.clone());
        Ok(ledger)
    }
}

struct FakeScope {
    facts: Facts,
    step: StepName,
    ledger: Arc<dyn Ledger>,
    holds: bool,
    doomed: bool,
    trace: Arc<Mutex<Vec<String>>>,
}

fn object(name: &str) -> ObjectRef {
    ObjectRef::new("v1", "ConfigMap", Some("a"), name)
}

#[async_trait]
impl ClusterAccess for FakeScope {
    fn facts(&self) -> &Facts {
        &self.facts
    }
    async fn get(&self, _: Vec<ObjectRef>) -> Vec<Result<Option<Value>, CallError>> {
        vec![]
    }
    async fn list(&self, _: Query) -> Result<Page, CallError> {
        Ok(Page::default())
    }
    async fn apply(&self, objects: Vec<Value>, _: bool) -> Vec<Result<(), CallError>> {
        let entries = objects
            .iter()
            .map(|o| Entry {
                object: ObjectRef::of(o).unwrap(),
                uid: None,
                mode: Mode::Made,
                wave: 0,
            })
            .collect();
        self.ledger.intend("cluster-1", entries).await.unwrap();
        vec![Ok(())]
    }
    async fn create(&self, _: Vec<Value>) -> Vec<Result<(), CallError>> {
        vec![]
    }
    async fn patch(&self, _: Vec<JsonPatch>) -> Vec<Result<(), CallError>> {
        vec![]
    }
    async fn delete(&self, _: Vec<Deletion>) -> Vec<Result<DeletionState, CallError>> {
        vec![]
    }
    async fn assess(&self, _: Vec<ObjectRef>) -> Vec<Result<Readiness, CallError>> {
        vec![]
    }
}

#[async_trait]
impl Scope for FakeScope {
    fn named(&self) -> Vec<ObjectRef> {
        let spec = self.ledger.record().receipt.spec;
        spec["objects"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|name| object(name.as_str().unwrap()))
            .collect()
    }
    fn is_doomed(&self) -> bool {
        self.doomed
    }
    fn seen(&self) -> Vec<Watched> {
        vec![]
    }
    async fn watched(&self, targets: Vec<ObjectRef>) -> Vec<Watched> {
        targets
            .into_iter()
            .map(|target| Watched { target, seen: None })
            .collect()
    }
    async fn take_away(&self, entries: Vec<Entry>) -> Result<TakenAway, Setback> {
        let names: Vec<&str> = entries.iter().map(|entry| entry.object.name.as_str()).collect();
        self.trace
            .lock()
            .unwrap()
            .push(format!("take away {} {}", self.step, names.join(",")));
        if self.holds {
            return Ok(TakenAway::Waiting {
                on: vec![],
                message: "held".into(),
            });
        }
        for entry in entries {
            self.ledger.forget(&entry.object);
        }
        Ok(TakenAway::Gone)
    }
}

#[async_trait]
impl Remotes for World {
    fn target(&self, on: &str) -> Result<Target, Setback> {
        match on {
            "absent" => Err(Setback::new(
                Class::Wait,
                "WaitingForRemote",
                "there is no RemoteCluster absent yet",
            )),
            name => Ok(Target::Remote {
                name: name.into(),
                uid: format!("uid-{name}").parse().unwrap(),
            }),
        }
    }
    async fn enter(&self, target: &Target, purpose: Purpose, ledger: Arc<dyn Ledger>) -> Result<Entered, Setback> {
        let step = ledger.record().step;
        self.note(format!("enter {} {step} {purpose:?}", target.name()));
        if self.unready.lock().unwrap().contains(target.name()) {
            return Err(Setback::new(Class::Wait, "CredentialMissing", "waits for its Secret"));
        }
        if self.replaced.lock().unwrap().contains(target.name()) {
            return Ok(Entered::Vanished("replaced".into()));
        }
        let facts = Facts {
            name: target.name().into(),
            identity: "cluster-1".into(),
            host: String::new(),
            port: 1,
            version: String::new(),
            path: vec![],
        };
        let holds = self.holds.lock().unwrap().contains(step.as_str());
        Ok(Entered::Scope(Arc::new(FakeScope {
            facts,
            step,
            ledger,
            holds,
            doomed: self.doomed.lock().unwrap().contains(target.name()),
            trace: self.trace.clone(),
        })))
    }
    async fn leave(&self, target: &Target, step: &StepName) -> Result<(), Setback> {
        self.note(format!("leave {} {step}", target.name()));
        Ok(())
    }
}

#[async_trait]
impl Plugins for World {
    fn digest(&self, plugin: &str) -> Result<Digest, Setback> {
        Ok(Digest::of(plugin.as_bytes()))
    }
    async fn call(&self, call: Call<'_>) -> Result<Outcome, Setback> {
        let step = &call.record.step;
        let verb = match call.export {
            Export::Provision => "provision",
            Export::Deprovision { doomed: false } => "deprovision",
            Export::Deprovision { doomed: true } => "deprovision (doomed)",
        };
        self.note(format!("{verb} {step}"));
        if call.export == Export::Provision {
            let names = call.record.receipt.spec["objects"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let objects = names
                .iter()
                .map(|n| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": n}}))
                .collect();
            call.scope.apply(objects, false).await;
        }
        self.answers
            .lock()
            .unwrap()
            .get(step.as_str())
            .cloned()
            .unwrap_or(Ok(Outcome::Done(Done::default())))
    }
}
