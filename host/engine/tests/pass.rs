//! The engine over ports of a few lines: no cluster, no component.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chandlery_core::claim::Purpose;
use chandlery_core::cluster::*;
use chandlery_core::memory::MemoryLedger;
use chandlery_core::ports::*;
use chandlery_core::record::{Entry, Mode, Phase, Receipt, Record, Target};
use chandlery_core::task::{Done, Export, Outcome, Wait};
use chandlery_core::{Class, Digest, ObjectRef, Setback, StepName};
use chandlery_engine::{Look, Pass, RowState, compile, pass, undo_all};
use serde_json::{Value, json};

/// A world in memory: what each step's plugin answers, and a trace of all that was asked of the ports.
#[derive(Default)]
struct World {
    ledgers: Mutex<BTreeMap<StepName, Arc<Traced>>>,
    /// What the plugin answers for a step; done with nothing where it is not said.
    answers: Mutex<BTreeMap<&'static str, Result<Outcome, Setback>>>,
    /// Whether taking away is done at once.
    holds: Mutex<BTreeSet<&'static str>>,
    /// Remotes that are not ready.
    unready: Mutex<BTreeSet<&'static str>>,
    /// Remotes that are another cluster by now.
    replaced: Mutex<BTreeSet<&'static str>>,
    trace: Arc<Mutex<Vec<String>>>,
}

struct Traced {
    inner: MemoryLedger,
    trace: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn answer(&self, step: &'static str, answer: Result<Outcome, Setback>) {
        self.answers.lock().unwrap().insert(step, answer);
    }

    fn trace(&self) -> Vec<String> {
        std::mem::take(&mut self.trace.lock().unwrap())
    }

    fn note(&self, text: String) {
        self.trace.lock().unwrap().push(text);
    }

    async fn pass(&self, spec: &Value, due: &[&str]) -> Pass {
        let spec = serde_json::from_value(spec.clone()).unwrap();
        let graph = compile(&spec).unwrap();
        let due = due.iter().map(|step| step.parse().unwrap()).collect();
        pass(
            &graph,
            self.ports(),
            &Look {
                due,
                concurrency: 8,
                ..Look::default()
            },
        )
        .await
        .unwrap()
    }

    async fn undo(&self) -> Pass {
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

    fn ports(&self) -> Ports<'_> {
        Ports {
            records: self,
            remotes: self,
            plugins: self,
        }
    }

    fn record(&self, step: &str) -> Option<Record> {
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
        let verb = if call.export == Export::Provision {
            "provision"
        } else {
            "deprovision"
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

fn step(name: &str, needs: &[&str]) -> Value {
    json!({"name": name, "cluster": "r", "plugin": "p", "needs": needs, "with": {"objects": [name]}})
}

fn spec(steps: &[Value]) -> Value {
    json!({"remotes": [{"name": "r", "ref": "r"}, {"name": "s", "ref": "s"}, {"name": "absent", "ref": "absent"}], "steps": steps})
}

fn yields() -> Result<Outcome, Setback> {
    Ok(Outcome::Yield(Wait {
        reason: "Pending".into(),
        message: "not yet".into(),
        ..Wait::default()
    }))
}

fn states(pass: &Pass) -> Vec<(&str, RowState)> {
    pass.rows.iter().map(|row| (row.step.as_str(), row.state)).collect()
}

#[tokio::test]
async fn receipt_then_scope_then_call_then_settle() {
    let world = World::default();
    assert!(world.pass(&spec(&[step("a", &[])]), &[]).await.is_done());
    assert_eq!(
        world.trace(),
        ["receipt a", "enter r a Provision", "provision a", "settle a Done"]
    );
}

#[tokio::test]
async fn a_pass_that_changes_nothing_asks_nothing() {
    let world = World::default();
    let spec = spec(&[step("a", &[]), step("b", &["a"])]);
    world.pass(&spec, &[]).await;
    world.trace();
    assert!(world.pass(&spec, &[]).await.is_done());
    assert_eq!(world.trace(), Vec::<String>::new());
    world.pass(&spec, &["b"]).await;
    assert_eq!(
        world.trace()[1..3],
        ["enter r b Provision", "provision b"],
        "a step that is due is run"
    );
}

#[tokio::test]
async fn concurrent_members_all_run_and_all_errors_show() {
    let world = World::default();
    for (name, class) in [("a", Class::Retry), ("b", Class::UserFix)] {
        world.answer(name, Err(Setback::new(class, "Bad", name)));
    }
    let found = world
        .pass(
            &spec(&[step("a", &[]), step("b", &[]), step("c", &[]), step("d", &["a"])]),
            &[],
        )
        .await;
    assert_eq!(
        states(&found),
        [
            ("a", RowState::Failed),
            ("b", RowState::Failed),
            ("c", RowState::Done),
            ("d", RowState::Pending)
        ]
    );
    assert_eq!(
        found.worst().unwrap().step.as_str(),
        "b",
        "what only a person can mend is the worst"
    );
    assert_eq!(found.rows[3].message, "waits for a");
}

#[tokio::test]
async fn a_yield_is_no_error_and_holds_its_dependents() {
    let world = World::default();
    world.answer("a", yields());
    let steps = spec(&[step("a", &[]), step("b", &["a"])]);
    let found = world.pass(&steps, &[]).await;
    assert_eq!(states(&found), [("a", RowState::Waiting), ("b", RowState::Pending)]);
    world.answer("a", Ok(Outcome::Done(Done::default())));
    assert!(world.pass(&steps, &[]).await.is_done());
}

#[tokio::test]
async fn outputs_reach_the_steps_that_need_them() {
    let world = World::default();
    world.answer(
        "a",
        Ok(Outcome::Done(Done {
            outputs: Some(json!({"name": "from-a"})),
            ..Done::default()
        })),
    );
    let steps = spec(&[
        step("a", &[]),
        json!({"name": "b", "cluster": "r", "plugin": "p", "needs": ["a"], "with": {"objects": ["${steps.a.outputs.name}"]}}),
        json!({"name": "c", "cluster": "r", "plugin": "p", "with": {"objects": ["${steps.a.outputs.name}"]}}),
    ]);
    let found = world.pass(&steps, &[]).await;
    assert_eq!(world.record("b").unwrap().receipt.spec, json!({"objects": ["from-a"]}));
    let c = found.rows.iter().find(|row| row.step.as_str() == "c").unwrap();
    assert_eq!(
        (c.state, c.reason.as_str()),
        (RowState::Failed, "InvalidExpression"),
        "an output of a step it does not need is not there"
    );
}

#[tokio::test]
async fn settings_that_the_hub_could_not_keep_are_refused_before_anything_is_begun() {
    let world = World::default();
    let outputs = json!({"long": "x".repeat(12 * 1024)});
    world.answer(
        "a",
        Ok(Outcome::Done(Done {
            outputs: Some(outputs),
            ..Done::default()
        })),
    );
    let many = |times: usize| {
        let objects = vec!["${steps.a.outputs.long}"; times];
        spec(&[
            step("a", &[]),
            json!({"name": "b", "cluster": "r", "plugin": "p", "needs": ["a"], "with": {"objects": objects}}),
        ])
    };
    let found = world.pass(&many(100), &[]).await;
    let b = found.rows.iter().find(|row| row.step.as_str() == "b").unwrap();
    assert_eq!(
        (b.state, b.reason.as_str()),
        (RowState::Failed, "SpecTooLarge"),
        "{b:?}"
    );
    assert!(world.record("b").is_none());
    assert!(world.pass(&many(80), &[]).await.is_done());
}

#[tokio::test]
async fn serial_deprovision_is_reverse() {
    let world = World::default();
    world
        .pass(&spec(&[step("a", &[]), step("b", &["a"]), step("c", &["b"])]), &[])
        .await;
    world.trace();
    assert!(world.undo().await.rows.is_empty());
    let order: Vec<String> = world
        .trace()
        .into_iter()
        .filter(|line| line.starts_with("deprovision"))
        .collect();
    assert_eq!(order, ["deprovision c", "deprovision b", "deprovision a"]);
}

#[tokio::test]
async fn delete_waits_for_observed_absence() {
    let world = World::default();
    world.pass(&spec(&[step("a", &[]), step("b", &["a"])]), &[]).await;
    world.holds.lock().unwrap().insert("b");
    let found = world.undo().await;
    assert_eq!(states(&found), [("b", RowState::Removing), ("a", RowState::Pending)]);
    let trace = world.trace();
    assert!(
        !trace
            .iter()
            .any(|line| line.starts_with("leave") || line.starts_with("close")),
        "{trace:?}"
    );
    world.holds.lock().unwrap().clear();
    assert!(world.undo().await.rows.is_empty());
    let trace = world.trace();
    let at = |what: &str| {
        trace
            .iter()
            .position(|line| line == what)
            .unwrap_or_else(|| panic!("{what} in {trace:?}"))
    };
    assert!(
        at("take away b b") < at("leave r b") && at("leave r b") < at("close b") && at("close b") < at("take away a a")
    );
    assert!(
        !trace.contains(&"deprovision b".to_owned()),
        "the plugin's own part was done before"
    );
}

#[tokio::test]
async fn conditional_false_deprovisions_and_true_brings_back() {
    let world = World::default();
    let with = |wanted: bool| {
        let mut spec = spec(&[
            json!({"name": "a", "cluster": "r", "plugin": "p", "when": "inputs.wanted", "with": {"objects": ["a"]}}),
        ]);
        spec["inputs"] = json!({"wanted": wanted});
        spec
    };
    assert_eq!(states(&world.pass(&with(true), &[]).await), [("a", RowState::Done)]);
    assert_eq!(states(&world.pass(&with(false), &[]).await), [("a", RowState::Skipped)]);
    let trace = world.trace();
    assert!(
        trace.contains(&"take away a a".to_owned()) && trace.contains(&"leave r a".to_owned()),
        "{trace:?}"
    );
    world.ledgers.lock().unwrap().clear();
    assert_eq!(states(&world.pass(&with(false), &[]).await), [("a", RowState::Skipped)]);
    assert_eq!(
        world.trace(),
        Vec::<String>::new(),
        "conditional_flip_every_pass_leaks_nothing"
    );
    assert_eq!(states(&world.pass(&with(true), &[]).await), [("a", RowState::Done)]);
}

#[tokio::test]
async fn a_removed_step_is_undone_from_its_receipt_after_those_that_need_it() {
    let world = World::default();
    world
        .pass(&spec(&[step("a", &[]), step("b", &["a"]), step("c", &[])]), &[])
        .await;
    world.trace();
    let found = world.pass(&spec(&[step("c", &[])]), &[]).await;
    assert_eq!(states(&found), [("c", RowState::Done)]);
    let order: Vec<String> = world
        .trace()
        .into_iter()
        .filter(|line| line.starts_with("close"))
        .collect();
    assert_eq!(order, ["close b", "close a"]);
}

#[tokio::test]
async fn a_moved_step_is_undone_where_it_was_before_it_runs_elsewhere() {
    let world = World::default();
    world.pass(&spec(&[step("a", &[])]), &[]).await;
    world.trace();
    let mut moved = step("a", &[]);
    moved["cluster"] = json!("s");
    assert!(world.pass(&spec(&[moved]), &[]).await.is_done());
    let trace = world.trace();
    let at = |what: &str| {
        trace
            .iter()
            .position(|line| line == what)
            .unwrap_or_else(|| panic!("{what} in {trace:?}"))
    };
    assert!(
        at("take away a a") < at("leave r a")
            && at("close a") < at("receipt a")
            && at("receipt a") < at("enter s a Provision")
    );
}

#[tokio::test]
async fn resource_is_updated_not_only_created_and_what_left_is_pruned() {
    let world = World::default();
    let with =
        |names: &[&str]| spec(&[json!({"name": "a", "cluster": "r", "plugin": "p", "with": {"objects": names}})]);
    world.pass(&with(&["x", "y"]), &[]).await;
    world.trace();
    assert!(world.pass(&with(&["y", "z"]), &[]).await.is_done());
    assert!(world.trace().contains(&"take away a x".to_owned()));
    let left: Vec<String> = world
        .record("a")
        .unwrap()
        .inventory
        .iter()
        .map(|entry| entry.object.name.clone())
        .collect();
    assert_eq!(left, ["y", "z"]);
}

#[tokio::test]
async fn an_empty_or_failing_desired_state_never_prunes() {
    let world = World::default();
    let with =
        |names: &[&str]| spec(&[json!({"name": "a", "cluster": "r", "plugin": "p", "with": {"objects": names}})]);
    world.pass(&with(&["x", "y"]), &[]).await;
    world.pass(&with(&[]), &[]).await;
    world.answer("a", Err(Setback::new(Class::Retry, "Bad", "bad")));
    world.pass(&with(&["y"]), &[]).await;
    world.answer("a", yields());
    world.pass(&with(&["y"]), &["a"]).await;
    assert!(!world.trace().iter().any(|line| line.starts_with("take away")));
    assert_eq!(world.record("a").unwrap().inventory.len(), 2);
}

#[tokio::test]
async fn a_step_whose_remote_never_came_is_undone_without_entering_it() {
    let world = World::default();
    let mut absent = step("b", &[]);
    absent["cluster"] = json!("absent");
    world.unready.lock().unwrap().insert("r");
    let found = world.pass(&spec(&[step("a", &[]), absent]), &[]).await;
    let reasons: Vec<&str> = found.rows.iter().map(|row| row.reason.as_str()).collect();
    assert_eq!(reasons, ["CredentialMissing", "WaitingForRemote"]);
    assert!(
        world.record("a").is_some(),
        "a receipt is there, and nothing was written under it"
    );
    world.trace();
    assert!(world.undo().await.rows.is_empty());
    assert_eq!(world.trace(), ["begin a Deprovisioning", "leave r a", "close a"]);
}

#[tokio::test]
async fn what_was_in_a_replaced_cluster_is_gone_with_it() {
    let world = World::default();
    world.pass(&spec(&[step("a", &[])]), &[]).await;
    world.replaced.lock().unwrap().insert("r");
    let found = world.pass(&spec(&[step("a", &[])]), &["a"]).await;
    assert_eq!(
        found.rows[0].reason, "RemoteReplaced",
        "nothing is written to the new one"
    );
    world.trace();
    assert!(world.undo().await.rows.is_empty());
    assert_eq!(
        world.trace(),
        [
            "begin a Deprovisioning",
            "enter r a Deprovision",
            "leave r a",
            "close a"
        ]
    );
}

#[tokio::test]
async fn a_held_step_keeps_its_row_and_is_not_called() {
    let world = World::default();
    world.answer("a", yields());
    let spec = spec(&[step("a", &[]), step("b", &[])]);
    let first = world.pass(&spec, &[]).await;
    world.trace();
    let held = BTreeMap::from([("a".parse().unwrap(), first.rows[0].clone())]);
    let graph = compile(&serde_json::from_value(spec).unwrap()).unwrap();
    let look = Look {
        held: held.clone(),
        concurrency: 1,
        ..Look::default()
    };
    let second = pass(&graph, world.ports(), &look).await.unwrap();
    assert_eq!(second.rows[0], first.rows[0]);
    assert_eq!(world.trace(), Vec::<String>::new());
    let look = Look {
        held,
        due: BTreeSet::from(["a".parse().unwrap()]),
        concurrency: 1,
        ..Look::default()
    };
    pass(&graph, world.ports(), &look).await.unwrap();
    assert!(
        world.trace().contains(&"provision a".to_owned()),
        "a wake-up ends the holding"
    );
}

#[tokio::test]
async fn a_dependency_that_wavers_undoes_nothing() {
    let world = World::default();
    let spec = spec(&[step("a", &[]), step("b", &["a"])]);
    world.pass(&spec, &[]).await;
    world.answer("a", yields());
    let found = world.pass(&spec, &["a"]).await;
    assert_eq!(states(&found), [("a", RowState::Waiting), ("b", RowState::Done)]);
}
