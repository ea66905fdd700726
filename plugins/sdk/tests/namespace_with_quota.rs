//! The plugin that the documentation shows compiles as it stands, and does what it says.

use chandlery_plugin::prelude::*;
use chandlery_plugin::testing::Fake;

#[derive(Deserialize, JsonSchema)]
struct Spec {
    team: String,
    cpu: Quantity,
}

struct NamespaceWithQuota;

#[provisioner(
    name = "me.example/namespace-with-quota",
    summary = "A team's namespace with a CPU quota.",
    needs = ["namespaces, resourcequotas: get, create, patch"],
)]
impl Provisioner for NamespaceWithQuota {
    type Spec = Spec;

    fn provision(on: &Cluster, task: Task<Spec>) -> Result<Outcome> {
        let Spec { team, cpu } = &task.spec;
        on.apply(namespace(team))?;
        on.apply(quota(team, cpu))?;
        if !on.assess(quota_ref(team))?.is_ready() {
            return Outcome::wait("QuotaPending", "the quota controller has not counted yet")
                .watch(quota_ref(team))
                .into();
        }
        Outcome::done().output("namespace", team).into()
    }
}

fn namespace(team: &str) -> Json {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
}

fn quota(team: &str, cpu: &Quantity) -> Json {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cpu", "namespace": team}, "spec": {"hard": {"limits.cpu": cpu}}})
}

fn quota_ref(team: &str) -> ObjectRef {
    object_ref("v1", "ResourceQuota", team, "cpu")
}

fn task(spec: Json) -> Task<Spec> {
    Task {
        spec: serde_json::from_value(spec).unwrap(),
        memory: None,
        provision_uid: "u".into(),
        provision: "team-a/p".into(),
        step: "s".into(),
        now: "2026-01-01T00:00:00Z".into(),
        round: 0,
    }
}

#[test]
fn it_waits_for_the_quota_and_is_done_once_it_is_counted() {
    let fake = Fake::default();
    fake.judge("ResourceQuota a/cpu", Readiness::Progressing("not counted".into()));
    let run = || NamespaceWithQuota::provision(&fake.cluster(), task(json!({"team": "a", "cpu": "500m"})));
    let waiting = run().unwrap();
    assert!(
        matches!(&waiting, Outcome::Yield(wait) if wait.watch == [quota_ref("a")]),
        "{waiting:?}"
    );
    fake.judge("ResourceQuota a/cpu", Readiness::Ready);
    assert!(matches!(run().unwrap(), Outcome::Done(done) if done.outputs.as_deref() == Some(r#"{"namespace":"a"}"#)));
    assert_eq!(
        fake.object("ResourceQuota a/cpu").unwrap()["spec"]["hard"]["limits.cpu"],
        "500m"
    );
}

#[test]
fn a_call_error_ends_it_as_that_failure() {
    let fake = Fake::default();
    fake.refuse("Namespace a", CallError::Denied("no".into()));
    let failed = NamespaceWithQuota::provision(&fake.cluster(), task(json!({"team": "a", "cpu": 1})));
    assert_eq!(failed, Err(Failure::Call(CallError::Denied("no".into()))));
}
