//! Provisioners written in Rust, put together by combinators.

use std::sync::{Arc, Mutex};

use crate::world::World;
use async_trait::async_trait;
use chandlery_core::cluster::ClusterAccess;
use chandlery_core::ports::Ports;
use chandlery_core::task::{Done, Outcome, Request, Wait};
use chandlery_core::{Class, Setback, Uid};
use chandlery_engine::{
    DeletionMode, Look, Pass, Provisioner, Provisioners, RowState, Tree, background, concurrent, pass, remote, serial,
    step, undo_all, when,
};
use serde_json::{Value, json};

/// What a step answers to `provision`, until a test changes its mind.
#[derive(Clone)]
struct Answer(Arc<Mutex<Result<Outcome, Setback>>>);

impl Answer {
    fn of(answer: Result<Outcome, Setback>) -> Self {
        Self(Arc::new(Mutex::new(answer)))
    }
    fn done() -> Self {
        Self::of(Ok(Outcome::Done(Done::default())))
    }
    fn set(&self, answer: Result<Outcome, Setback>) {
        *self.0.lock().unwrap() = answer;
    }
}

fn yields() -> Result<Outcome, Setback> {
    Ok(Outcome::Yield(Wait {
        reason: "Pending".into(),
        message: "not yet".into(),
        ..Wait::default()
    }))
}

fn fails(class: Class) -> Result<Outcome, Setback> {
    Err(Setback::new(class, "Bad", "it fails"))
}

/// Applies one object of its name and tells what it was asked.
struct Item {
    name: &'static str,
    settings: Value,
    answer: Answer,
    told: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Provisioner for Item {
    fn name(&self) -> &str {
        self.name
    }
    fn settings(&self) -> Value {
        self.settings.clone()
    }
    async fn provision(&self, scope: &Arc<dyn ClusterAccess>, task: &Request) -> Result<Outcome, Setback> {
        self.told
            .lock()
            .unwrap()
            .push(format!("provision {} {}", self.name, task.spec["size"]));
        scope
            .apply(
                vec![
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": self.name}}),
                ],
                false,
            )
            .await;
        self.answer.0.lock().unwrap().clone()
    }
    async fn deprovision(
        &self,
        _: &Arc<dyn ClusterAccess>,
        _: &Request,
        mode: DeletionMode,
    ) -> Result<Outcome, Setback> {
        self.told
            .lock()
            .unwrap()
            .push(format!("deprovision {} {mode:?}", self.name));
        Ok(Outcome::Done(Done::default()))
    }
}

/// A program with its trees, over one world.
#[derive(Default)]
struct Program {
    world: World,
    told: Arc<Mutex<Vec<String>>>,
}

impl Program {
    fn item(&self, name: &'static str) -> Tree {
        self.with(name, Answer::done())
    }
    fn with(&self, name: &'static str, answer: Answer) -> Tree {
        self.sized(name, 1, answer)
    }
    fn sized(&self, name: &'static str, size: u32, answer: Answer) -> Tree {
        step(Item {
            name,
            settings: json!({"size": size, "objects": [name]}),
            answer,
            told: self.told.clone(),
        })
    }
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
    async fn run(&self, tree: &Tree, inputs: Value) -> Pass {
        let graph = tree.compile(inputs.as_object().unwrap().clone()).unwrap();
        self.go(&tree.provisioners(), Some(&graph)).await
    }
    async fn undo(&self, known: &Provisioners) -> Pass {
        self.go(known, None).await
    }
    async fn go(&self, known: &Provisioners, graph: Option<&chandlery_engine::Graph>) -> Pass {
        let uid: Uid = "1".parse().unwrap();
        let plugins = known.of("team/app", &uid, "2026-12-01T00:00:00Z".into());
        let ports = Ports {
            plugins: &plugins,
            ..self.world.ports()
        };
        let look = Look {
            concurrency: 8,
            ..Look::default()
        };
        match graph {
            Some(graph) => pass(graph, ports, &look).await.unwrap(),
            None => undo_all(ports, &look).await.unwrap(),
        }
    }
}

fn states(pass: &Pass) -> Vec<(&str, RowState)> {
    pass.rows.iter().map(|row| (row.step.as_str(), row.state)).collect()
}

#[tokio::test]
async fn serial_stops_at_the_first_that_yields_or_fails_and_goes_on_from_there() {
    let program = Program::default();
    let answer = Answer::of(yields());
    let tree = remote("r").provision_on(serial([
        program.item("a"),
        program.with("b", answer.clone()),
        program.item("c"),
    ]));
    for held in [yields(), fails(Class::Retry)] {
        answer.set(held);
        let found = program.run(&tree, json!({})).await;
        assert!(!found.is_done());
        assert_eq!(found.rows[2].state, RowState::Pending);
        assert!(!program.told().iter().any(|line| line.contains(" c ")));
    }
    answer.set(Ok(Outcome::Done(Done::default())));
    assert!(program.run(&tree, json!({})).await.is_done());
    assert_eq!(
        program.told(),
        ["provision b 1", "provision c 1"],
        "what is done is not done again"
    );
}

#[tokio::test]
async fn serial_is_taken_away_in_reverse_and_conditions_are_not_asked() {
    let program = Program::default();
    let tree = remote("r").provision_on(serial([
        program.item("a"),
        when("inputs.wanted", program.item("b")),
        concurrent([program.item("c"), program.item("d")]),
        program.item("e"),
    ]));
    program.run(&tree, json!({"wanted": true})).await;
    program.told();
    assert!(program.undo(&tree.provisioners()).await.rows.is_empty());
    let told = program.told();
    assert_eq!(told[0], "deprovision e Foreground");
    assert_eq!(told[3..], ["deprovision b Foreground", "deprovision a Foreground"]);
    assert_eq!(told.len(), 5);
}

#[tokio::test]
async fn concurrent_runs_all_and_tells_all_errors_the_worst_first() {
    let program = Program::default();
    let tree = remote("r").provision_on(concurrent([
        program.with("waits", Answer::of(yields())),
        program.with("may-pass", Answer::of(fails(Class::Retry))),
        program.item("done"),
        program.with("must-change", Answer::of(fails(Class::UserFix))),
    ]));
    let found = program.run(&tree, json!({})).await;
    assert_eq!(program.told().len(), 4);
    let troubles: Vec<_> = found.troubles().iter().map(|row| row.step.as_str()).collect();
    assert_eq!(troubles, ["must-change", "may-pass", "waits"]);
}

#[tokio::test]
async fn conditional_false_deprovisions() {
    let program = Program::default();
    let tree = remote("r").provision_on(serial([
        program.item("a"),
        when(
            "inputs.wanted",
            serial([program.item("b"), when("inputs.more", program.item("c"))]),
        ),
        program.item("d"),
    ]));
    let all = json!({"wanted": true, "more": true});
    assert!(program.run(&tree, all.clone()).await.is_done());
    program.told();
    let found = program.run(&tree, json!({"wanted": false, "more": true})).await;
    assert_eq!(
        states(&found),
        [
            ("a", RowState::Done),
            ("b", RowState::Skipped),
            ("c", RowState::Skipped),
            ("d", RowState::Done)
        ]
    );
    let mut told = program.told();
    told.sort();
    assert_eq!(told, ["deprovision b Foreground", "deprovision c Foreground"]);
    assert!(program.run(&tree, all).await.is_done());
    assert_eq!(program.told(), ["provision b 1", "provision c 1"], "and it comes back");
}

#[tokio::test]
async fn resource_is_updated_not_only_created() {
    let program = Program::default();
    let sized = |size| remote("r").provision_on(program.sized("a", size, Answer::done()));
    for size in [1, 1, 2] {
        assert!(program.run(&sized(size), json!({})).await.is_done());
    }
    assert_eq!(program.told(), ["provision a 1", "provision a 2"]);
}

#[tokio::test]
async fn deletion_is_done_when_everything_is_seen_gone() {
    let program = Program::default();
    let tree = remote("r").provision_on(program.item("a"));
    program.run(&tree, json!({})).await;
    program.world.holds.lock().unwrap().insert("a");
    let known = tree.provisioners();
    let found = program.undo(&known).await;
    assert_eq!(states(&found), [("a", RowState::Removing)]);
    program.world.holds.lock().unwrap().clear();
    assert!(program.undo(&known).await.rows.is_empty());
}

#[tokio::test]
async fn what_left_the_tree_is_undone_by_who_knows_it_and_kept_while_nobody_does() {
    let program = Program::default();
    let old = remote("r").provision_on(concurrent([program.item("a"), program.item("b")]));
    program.run(&old, json!({})).await;
    program.told();
    let new = remote("r").provision_on(program.item("a"));
    let found = program.run(&new, json!({})).await;
    assert_eq!(found.troubles()[0].reason, "ProvisionerMissing");
    let mut known = new.provisioners();
    known.insert(old.provisioners().get("b").unwrap().clone());
    let graph = new.compile(serde_json::Map::new()).unwrap();
    assert!(program.go(&known, Some(&graph)).await.is_done());
    assert_eq!(program.told(), ["deprovision b Foreground"]);
}

#[test]
fn what_is_wrong_with_a_tree_is_told_before_anything_runs() {
    let program = Program::default();
    let tree = serial([
        program.item("Not A Name"),
        remote("r").provision_on(concurrent([program.item("a"), when("1 +", program.item("a"))])),
        when("inputs.x", program.item("nowhere")),
    ]);
    let problems = tree.compile(serde_json::Map::new()).unwrap_err();
    let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/serial/0/Not A Name",
            "/serial/1/on/concurrent/1/when/a",
            "/serial/1/on/concurrent/1/when/a",
            "/serial/2/when/nowhere",
        ]
    );
    assert!(problems[0].message.contains("DNS label"));
    assert!(problems[3].message.contains("on no remote"));
}

#[test]
fn the_inner_of_two_places_counts() {
    let program = Program::default();
    let tree = remote("outer").provision_on(serial([
        program.item("a"),
        remote("inner").provision_on(program.item("b")),
    ]));
    let graph = tree.compile(serde_json::Map::new()).unwrap();
    let places: Vec<_> = graph.nodes().iter().map(|node| node.on.as_str()).collect();
    assert_eq!(places, ["outer", "inner"]);
}

#[test]
fn background_holds_for_its_child_and_not_for_what_is_deeper_in_another_remote() {
    let program = Program::default();
    let tree = remote("outer").provision_on(background(serial([
        program.item("a"),
        remote("inner").provision_on(serial([program.item("b"), background(program.item("c"))])),
    ])));
    let graph = tree.compile(serde_json::Map::new()).unwrap();
    let marked: Vec<_> = graph
        .nodes()
        .iter()
        .map(|node| (node.name.as_str(), node.background_deletion))
        .collect();
    assert_eq!(marked, [("a", true), ("b", false), ("c", true)]);
}
