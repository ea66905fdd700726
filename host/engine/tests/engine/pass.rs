//! What a pass promises.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::World;
use chandlery_core::task::{Done, Outcome, Wait};
use chandlery_core::{Class, Setback};
use chandlery_engine::{Look, Pass, RowState, compile, pass};
use serde_json::{Value, json};

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
    let found = world.pass(&many(120), &[]).await;
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
        at("take away b b") < at("close b") && at("close b") < at("leave r b") && at("leave r b") < at("take away a a")
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
    assert_eq!(world.trace(), ["begin a Deprovisioning", "close a", "leave r a"]);
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
            "close a",
            "leave r a"
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

fn in_background(name: &str, cluster: &str) -> Value {
    let mut step = step(name, &[]);
    step["cluster"] = cluster.into();
    step["backgroundDeletion"] = true.into();
    step
}

#[tokio::test]
async fn background_only_on_doomed_remote() {
    let world = World::default();
    world.pass(&spec(&[in_background("a", "r"), step("b", &[])]), &[]).await;
    world.doomed.lock().unwrap().insert("r");
    world.holds.lock().unwrap().insert("a");
    world.trace();
    world.undo().await;
    let trace = world.trace();
    assert!(trace.contains(&"deprovision (doomed) a".to_owned()), "{trace:?}");
    assert!(
        !trace.contains(&"take away a a".to_owned()),
        "what dies with its cluster is left: {trace:?}"
    );
    assert!(
        trace.contains(&"deprovision b".to_owned()),
        "it was not asked for: {trace:?}"
    );
    assert!(trace.contains(&"take away b b".to_owned()), "{trace:?}");
}

#[tokio::test]
async fn a_remote_that_stays_is_cleaned_though_background_deletion_was_asked_for() {
    let world = World::default();
    world.pass(&spec(&[in_background("a", "r")]), &[]).await;
    world.trace();
    world.undo().await;
    let trace = world.trace();
    assert!(trace.contains(&"deprovision a".to_owned()), "{trace:?}");
    assert!(trace.contains(&"take away a a".to_owned()), "{trace:?}");
}

#[tokio::test]
async fn doom_is_asked_anew_at_each_look_and_for_each_remote() {
    let world = World::default();
    world
        .pass(&spec(&[in_background("a", "r"), in_background("b", "s")]), &[])
        .await;
    world.doomed.lock().unwrap().insert("r");
    world.answer("a", yields());
    world.trace();
    world.undo().await;
    let trace = world.trace();
    assert!(trace.contains(&"deprovision (doomed) a".to_owned()), "{trace:?}");
    assert!(
        trace.contains(&"deprovision b".to_owned()),
        "the other remote stays: {trace:?}"
    );
    world.doomed.lock().unwrap().clear();
    world.undo().await;
    let trace = world.trace();
    assert!(
        trace.contains(&"deprovision a".to_owned()),
        "it is doomed no more: {trace:?}"
    );
}

#[tokio::test]
async fn a_claim_is_given_back_after_its_record_is_closed() {
    let world = World::default();
    world.pass(&spec(&[step("a", &[])]), &[]).await;
    world.trace();
    world.undo().await;
    let trace = world.trace();
    let at = |what: &str| trace.iter().position(|line| line == what).unwrap();
    assert!(at("close a") < at("leave r a"), "{trace:?}");
}

#[tokio::test]
async fn deprovision_ignores_condition() {
    let world = World::default();
    let steps = |wanted: bool| {
        let mut spec = spec(&[
            json!({"name": "a", "cluster": "r", "plugin": "p", "when": "inputs.wanted", "with": {"objects": ["a"]}}),
        ]);
        spec["inputs"] = json!({"wanted": wanted});
        spec
    };
    world.pass(&steps(true), &[]).await;
    world.trace();
    // Undoing is not told what the condition is by now.
    assert!(world.undo().await.rows.is_empty());
    assert_eq!(
        world.trace(),
        [
            "begin a Deprovisioning",
            "enter r a Deprovision",
            "deprovision a",
            "settle a Emptying",
            "take away a a",
            "close a",
            "leave r a"
        ]
        .map(str::to_owned)
    );
}
