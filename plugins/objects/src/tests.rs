use chandlery_plugin::testing::Fake;

use super::*;

fn config(namespace: &str, name: &str) -> Json {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})
}

fn namespace(name: &str) -> Json {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn definition() -> Json {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.example"}, "spec": {"group": "x.example", "names": {"kind": "Thing"}}})
}

fn thing() -> Json {
    json!({"apiVersion": "x.example/v1", "kind": "Thing", "metadata": {"name": "t"}})
}

fn deployment() -> Json {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "a"}})
}

fn run(fake: &Fake, objects: &[Json]) -> Result<Outcome> {
    Objects::provision(
        &fake.cluster(),
        Task {
            spec: serde_json::from_value(json!({"objects": objects})).unwrap(),
            memory: None,
            provision_uid: "u".into(),
            provision: "team-a/p".into(),
            step: "s".into(),
            now: "2026-01-01T00:00:00Z".into(),
            round: 0,
        },
    )
}

fn waits(outcome: Result<Outcome>) -> (String, String, Vec<String>) {
    match outcome {
        Ok(Outcome::Yield(wait)) => (
            wait.reason,
            wait.message,
            wait.watch.iter().map(ToString::to_string).collect(),
        ),
        other => panic!("{other:?}"),
    }
}

fn problems(objects: Vec<Json>) -> Vec<(String, String)> {
    Plan::of(objects)
        .err()
        .unwrap()
        .into_iter()
        .map(|problem| (problem.path, problem.message))
        .collect()
}

#[test]
fn namespaces_and_definitions_come_first_whatever_the_order_of_the_spec() {
    let fake = Fake::default();
    let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "w"}});
    let outcome = run(
        &fake,
        &[
            webhook,
            thing(),
            deployment(),
            config("a", "c"),
            definition(),
            namespace("a"),
        ],
    );
    let Ok(Outcome::Done(done)) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        fake.written(),
        [
            "Namespace a",
            "CustomResourceDefinition things.x.example",
            "ConfigMap a/c",
            "Thing t",
            "Deployment a/d",
            "ValidatingWebhookConfiguration w"
        ]
    );
    let outputs: Json = serde_json::from_str(&done.outputs.unwrap()).unwrap();
    assert_eq!(outputs["count"], 6);
    assert_eq!(
        outputs["objects"][3],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "name": "c"})
    );
}

#[test]
fn a_kind_that_is_not_served_yet_waits_and_everything_else_is_applied() {
    let fake = Fake::default();
    let crd = "CustomResourceDefinition things.x.example";
    fake.judge(crd, Readiness::Progressing("not established".into()));
    let (reason, message, watched) = waits(run(&fake, &[thing(), definition(), config("a", "c")]));
    assert_eq!(reason, "WaitingForKind");
    assert_eq!(
        message,
        "Thing t waits for CustomResourceDefinition things.x.example: not established"
    );
    assert_eq!(watched, [crd]);
    assert_eq!(fake.written(), [crd, "ConfigMap a/c"]);
    fake.judge(crd, Readiness::Ready);
    assert!(matches!(
        run(&fake, &[thing(), definition(), config("a", "c")]),
        Ok(Outcome::Done(_))
    ));
}

#[test]
fn what_is_missing_is_waited_for_after_the_rest_was_applied() {
    let fake = Fake::default();
    fake.refuse("ConfigMap b/c", CallError::NotFound("namespace b is not there".into()));
    let (reason, message, watched) = waits(run(&fake, &[config("b", "c"), config("a", "c")]));
    assert_eq!(
        (reason.as_str(), message.as_str()),
        ("WaitingForDependency", "ConfigMap b/c: namespace b is not there")
    );
    assert_eq!(watched, ["Namespace b"]);
    assert_eq!(fake.written(), ["ConfigMap a/c"]);
}

#[test]
fn all_that_is_refused_is_told_with_its_place_in_the_spec() {
    let fake = Fake::default();
    let invalid = CallError::Invalid(vec![Problem::new("/data/x", "must be a string")]);
    fake.refuse("ConfigMap a/c", invalid.clone());
    fake.refuse("Namespace a", invalid);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [deployment(), config("a", "c")]});
    let Err(Failure::Invalid(problems)) = run(&fake, &[list.clone(), namespace("a")]) else {
        panic!()
    };
    let problems: Vec<_> = problems
        .iter()
        .map(|problem| (problem.path.as_str(), problem.message.as_str()))
        .collect();
    assert_eq!(
        problems,
        [
            ("/objects/1/data/x", "Namespace a: must be a string"),
            ("/objects/0/items/1/data/x", "ConfigMap a/c: must be a string")
        ]
    );
    fake.refuse("Namespace a", CallError::Denied("not in the grant".into()));
    let Err(Failure::Call(CallError::Denied(text))) = run(&fake, &[list, namespace("a")]) else {
        panic!()
    };
    assert_eq!(
        text,
        "Namespace a: not in the grant (/objects/1); ConfigMap a/c: must be a string (/objects/0/items/1/data/x)"
    );
}

#[test]
fn a_conflict_is_told_before_what_is_only_unavailable() {
    let fake = Fake::default();
    fake.refuse("ConfigMap a/c", CallError::Unavailable("later".into()));
    fake.refuse("ConfigMap a/d", CallError::Conflict("another step's".into()));
    let failed = run(&fake, &[config("a", "c"), config("a", "d")]);
    assert_eq!(
        failed,
        Err(Failure::Call(CallError::Conflict(
            "ConfigMap a/d: another step's".into()
        )))
    );
    fake.allow("ConfigMap a/d");
    let failed = run(&fake, &[config("a", "c"), config("a", "d")]);
    assert_eq!(
        failed,
        Err(Failure::Call(CallError::Unavailable("ConfigMap a/c: later".into())))
    );
}

#[test]
fn it_waits_until_all_are_ready_and_says_for_which() {
    let fake = Fake::default();
    fake.judge("Deployment a/d", Readiness::Progressing("0/2 available".into()));
    let (reason, message, watched) = waits(run(&fake, &[deployment(), config("a", "c")]));
    assert_eq!(
        (reason.as_str(), message.as_str()),
        ("WaitingForReady", "Deployment a/d: 0/2 available")
    );
    assert_eq!(watched, ["Deployment a/d"]);
    fake.judge("Deployment a/d", Readiness::Failed("ProgressDeadlineExceeded".into()));
    assert_eq!(
        waits(run(&fake, &[deployment()])).1,
        "Deployment a/d: ProgressDeadlineExceeded"
    );
}

#[test]
fn a_job_that_failed_needs_a_person() {
    let fake = Fake::default();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "a"}});
    fake.judge("Job a/j", Readiness::Failed("BackoffLimitExceeded".into()));
    assert_eq!(
        run(&fake, &[job]),
        Err(Failure::terminal("Job a/j: BackoffLimitExceeded"))
    );
}

#[test]
fn what_is_no_object_is_told_with_its_place() {
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}});
    let list =
        json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": [{"metadata": {}}, {"metadata": {"name": "c"}}]});
    let twice = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}});
    let found = problems(vec![
        nameless,
        list,
        twice,
        json!({"kind": "Pod", "metadata": {"name": "p"}}),
    ]);
    let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/objects/0/metadata/generateName",
            "/objects/1/items/0/metadata/name",
            "/objects/2",
            "/objects/3/apiVersion"
        ]
    );
    assert_eq!(found[2].1, "ConfigMap c is given twice: here and at /objects/1/items/1");
}

#[test]
fn outputs_are_bounded() {
    let objects = (0..5_000)
        .map(|i| config("a-long-name-for-a-namespace", &format!("{}-{i}", "x".repeat(200))))
        .collect();
    let outputs = outputs(&Plan::of(objects).ok().unwrap());
    assert_eq!(outputs.count, 5_000);
    let bytes = serde_json::to_string(&outputs).unwrap().len();
    assert!((8_000..16_384).contains(&bytes), "{bytes}");
}

#[test]
fn a_large_spec_goes_in_several_calls() {
    let big = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "a"}, "data": {"x": "y".repeat(900_000)}});
    let objects = (0..9)
        .map(|i| {
            let mut one = big.clone();
            one["metadata"]["name"] = format!("b{i}").into();
            one
        })
        .collect();
    let plan = Plan::of(objects).ok().unwrap();
    let sizes: Vec<_> = plan::batches(&plan.items.iter().collect::<Vec<_>>())
        .iter()
        .map(Vec::len)
        .collect();
    assert_eq!(sizes, [4, 4, 1]);
}
