//! The handle on a real API server: what each act does there, and what becomes of each answer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use std::sync::{Arc, LazyLock};

use chandlery_core::cluster::{
    CallError, ClusterAccess, Deletion, DeletionState, JsonPatch, Propagation, Query, Readiness,
};
use chandlery_core::grant::{Grant, GrantRule};
use chandlery_core::memory::MemoryLedger;
use chandlery_core::ports::{Ledger, Scope, TakenAway};
use chandlery_core::record::{Entry, Mode, Receipt, Record, Target};
use chandlery_core::{Digest, ObjectRef};
use chandlery_scope::kubeconfig::{Policy, parse};
use chandlery_scope::{ClusterScope, Connection, ScopeOptions, WriteFence, connect, facts_of};
use serde_json::{Value, json};
use xtask::control_plane::ControlPlane;

static CLUSTER: LazyLock<ControlPlane> = LazyLock::new(|| {
    let _ = rustls::crypto::ring::default_provider().install_default();
    ControlPlane::builder().name("scope").start().expect("a control plane")
});

/// A connection of this test's own: each test has a tokio runtime of its own.
fn connection(kubeconfig: &str, fence: &WriteFence) -> Arc<Connection> {
    let endpoint = parse(
        kubeconfig.as_bytes(),
        None,
        Policy {
            allow_loopback: true,
            ..Policy::default()
        },
        jiff::Timestamp::now(),
    )
    .unwrap();
    connect(&endpoint, fence).unwrap()
}

/// One step's scope, its ledger, and a namespace of its own.
struct Desk {
    scope: ClusterScope,
    ledger: Arc<MemoryLedger>,
    namespace: String,
}

fn namespace() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("t-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    CLUSTER.client().text(["create", "namespace", &name]).unwrap();
    name
}

async fn desk_of(step: &str, namespace: &str, grant: Grant, kubeconfig: &str, fence: &WriteFence) -> Desk {
    let connection = connection(kubeconfig, fence);
    // Who may not read kube-system is told the cluster's facts by the host.
    let admin = connection_as_admin();
    let facts = facts_of(&admin, "remote").await.unwrap();
    let receipt = Receipt {
        plugin: "p".into(),
        digest: Digest::of(b"p"),
        spec: json!({}),
        target: Target::Remote {
            name: "r".into(),
            uid: "r".parse().unwrap(),
        },
        cluster_identity: String::new(),
        background_deletion: false,
        needs: vec![],
    };
    let ledger = Arc::new(MemoryLedger::new(Record::new(step.parse().unwrap(), receipt)));
    let options = ScopeOptions {
        grant,
        field_manager: format!("chandlery/uid/{step}"),
        owner_mark: format!("uid/{step}"),
        sealed_secrets: vec![],
    };
    Desk {
        scope: ClusterScope::new(connection, facts, ledger.clone(), options),
        ledger,
        namespace: namespace.to_owned(),
    }
}

fn connection_as_admin() -> Arc<Connection> {
    connection(CLUSTER.kubeconfig_yaml(), &WriteFence::open())
}

async fn desk(step: &str) -> Desk {
    let namespace = namespace();
    desk_of(
        step,
        &namespace,
        Grant::everything(),
        CLUSTER.kubeconfig_yaml(),
        &WriteFence::open(),
    )
    .await
}

impl Desk {
    fn config_map(&self, name: &str, data: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": self.namespace, "name": name}, "data": data})
    }

    fn named(&self, name: &str) -> ObjectRef {
        ObjectRef::new("v1", "ConfigMap", Some(&self.namespace), name)
    }

    async fn apply(&self, object: Value) -> Result<(), CallError> {
        self.scope.apply(vec![object], false).await.remove(0)
    }

    async fn create(&self, object: Value) -> Result<(), CallError> {
        self.scope.create(vec![object]).await.remove(0)
    }

    async fn get(&self, target: &ObjectRef) -> Option<Value> {
        self.scope.get(vec![target.clone()]).await.remove(0).unwrap()
    }

    fn mode(&self, name: &str) -> Mode {
        self.ledger.entry(&self.named(name)).unwrap().mode
    }

    async fn take_away(&self) -> TakenAway {
        self.scope.take_away(self.ledger.record().inventory).await.unwrap()
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let mut all = vec!["-n", &self.namespace];
        all.extend(arguments);
        CLUSTER.client().text(all).unwrap()
    }
}

#[tokio::test]
async fn what_a_step_made_is_deleted_and_what_was_there_only_loses_its_fields() {
    let desk = desk("a").await;
    desk.kubectl(&["create", "configmap", "theirs", "--from-literal=own=1"]);
    desk.apply(desk.config_map("ours", json!({"a": "1"}))).await.unwrap();
    desk.apply(desk.config_map("theirs", json!({"a": "1"}))).await.unwrap();
    assert_eq!((desk.mode("ours"), desk.mode("theirs")), (Mode::Made, Mode::Joined));
    assert_eq!(desk.take_away().await, TakenAway::Gone);
    assert_eq!(desk.get(&desk.named("ours")).await, None);
    let theirs = desk.get(&desk.named("theirs")).await.unwrap();
    assert_eq!(theirs["data"], json!({"own": "1"}));
    assert_eq!(
        theirs.pointer("/metadata/annotations"),
        None,
        "the owner mark is withdrawn too"
    );
    assert_eq!(desk.ledger.record().inventory, vec![]);
}

#[tokio::test]
async fn another_steps_object_is_a_conflict_even_with_force() {
    let (one, namespace) = (desk("a").await, namespace());
    let one = Desk { namespace, ..one };
    one.apply(one.config_map("x", json!({"a": "1"}))).await.unwrap();
    let other = desk_of(
        "b",
        &one.namespace,
        Grant::everything(),
        CLUSTER.kubeconfig_yaml(),
        &WriteFence::open(),
    )
    .await;
    let refused = other
        .scope
        .apply(vec![other.config_map("x", json!({"b": "1"}))], true)
        .await
        .remove(0);
    assert!(
        matches!(refused, Err(CallError::Conflict(ref message)) if message.contains("uid/a")),
        "{refused:?}"
    );
    assert_eq!(
        other.ledger.record().inventory,
        vec![],
        "nothing is entered that was not to be written"
    );
    assert_eq!(other.take_away().await, TakenAway::Gone);
    assert!(one.get(&one.named("x")).await.is_some());
}

#[tokio::test]
async fn a_field_of_somebody_else_is_a_conflict_unless_forced() {
    let desk = desk("a").await;
    desk.kubectl(&["create", "configmap", "x", "--from-literal=a=theirs"]);
    let refused = desk.apply(desk.config_map("x", json!({"a": "ours"}))).await;
    assert!(
        matches!(refused, Err(CallError::Conflict(ref message)) if message.contains("conflict")),
        "{refused:?}"
    );
    desk.scope
        .apply(vec![desk.config_map("x", json!({"a": "ours"}))], true)
        .await
        .remove(0)
        .unwrap();
    assert_eq!(desk.get(&desk.named("x")).await.unwrap()["data"], json!({"a": "ours"}));
}

#[tokio::test]
async fn an_object_that_was_deleted_is_made_again_and_a_successor_is_only_joined() {
    let desk = desk("a").await;
    for name in ["gone", "replaced"] {
        desk.apply(desk.config_map(name, json!({"a": "1"}))).await.unwrap();
        desk.kubectl(&["delete", "configmap", name]);
    }
    desk.kubectl(&["create", "configmap", "replaced", "--from-literal=own=1"]);
    for name in ["gone", "replaced"] {
        desk.apply(desk.config_map(name, json!({"a": "1"}))).await.unwrap();
    }
    assert_eq!((desk.mode("gone"), desk.mode("replaced")), (Mode::Made, Mode::Joined));
    assert_eq!(desk.take_away().await, TakenAway::Gone);
    assert_eq!(desk.get(&desk.named("gone")).await, None);
    assert_eq!(
        desk.get(&desk.named("replaced")).await.unwrap()["data"],
        json!({"own": "1"})
    );
}

#[tokio::test]
async fn a_successor_of_a_made_object_is_never_deleted() {
    let desk = desk("a").await;
    desk.apply(desk.config_map("x", json!({"a": "1"}))).await.unwrap();
    desk.kubectl(&["delete", "configmap", "x"]);
    desk.kubectl(&["create", "configmap", "x", "--from-literal=own=1"]);
    assert_eq!(desk.take_away().await, TakenAway::Gone);
    assert!(desk.get(&desk.named("x")).await.is_some());
}

#[tokio::test]
async fn a_pending_entry_is_decided_by_what_is_there() {
    let desk = desk("a").await;
    // A crash after the write, before what became of it was stored.
    desk.apply(desk.config_map("written", json!({"a": "1"}))).await.unwrap();
    // A controller has touched it since.
    desk.kubectl(&[
        "annotate",
        "configmap",
        "written",
        "counted=1",
        "--field-manager=kube-controller-manager",
    ]);
    // The same, and a person has written to it since: theirs by now as well.
    desk.apply(desk.config_map("shared", json!({"a": "1"}))).await.unwrap();
    desk.kubectl(&["annotate", "configmap", "shared", "noted=1", "--field-manager=a-person"]);
    // A crash between entry and write; meanwhile somebody else made an object of the name.
    desk.kubectl(&["create", "configmap", "theirs", "--from-literal=own=1"]);
    let pending = |name: &str| Entry {
        object: desk.named(name),
        uid: None,
        mode: Mode::Pending,
        wave: 0,
    };
    let entries = ["written", "shared", "theirs", "never"].map(pending).to_vec();
    assert_eq!(desk.scope.take_away(entries).await.unwrap(), TakenAway::Gone);
    assert_eq!(desk.get(&desk.named("written")).await, None);
    assert_eq!(desk.get(&desk.named("shared")).await.unwrap().get("data"), None);
    assert_eq!(
        desk.get(&desk.named("theirs")).await.unwrap()["data"],
        json!({"own": "1"})
    );
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_known_for_the_steps_own() {
    let before = desk("a").await;
    before.apply(before.config_map("x", json!({"a": "1"}))).await.unwrap();
    before.kubectl(&["create", "configmap", "theirs", "--from-literal=own=1"]);
    // The process that comes next knows only that the writes were about to be made.
    let after = desk_of(
        "a",
        &before.namespace,
        Grant::everything(),
        CLUSTER.kubeconfig_yaml(),
        &WriteFence::open(),
    )
    .await;
    let pending = |name: &str| Entry {
        object: after.named(name),
        uid: None,
        mode: Mode::Pending,
        wave: 0,
    };
    after
        .ledger
        .intend("c", vec![pending("x"), pending("theirs")])
        .await
        .unwrap();
    for name in ["x", "theirs"] {
        after.apply(after.config_map(name, json!({"a": "1"}))).await.unwrap();
    }
    assert_eq!((after.mode("x"), after.mode("theirs")), (Mode::Made, Mode::Joined));
}

#[tokio::test]
async fn a_plugin_cannot_say_which_object_it_means_by_anothers_uid() {
    let desk = desk("a").await;
    desk.apply(desk.config_map("x", json!({"a": "1"}))).await.unwrap();
    desk.kubectl(&["delete", "configmap", "x"]);
    desk.kubectl(&["create", "configmap", "x", "--from-literal=own=1"]);
    let theirs = desk.get(&desk.named("x")).await.unwrap()["metadata"]["uid"].clone();
    for uid in [theirs, Value::Null] {
        let mut document = desk.config_map("x", json!({"a": "1"}));
        document["metadata"]["uid"] = uid;
        let _ = desk.apply(document).await;
        assert_ne!(desk.mode("x"), Mode::Made, "what somebody else made is joined at most");
    }
    assert_eq!(desk.take_away().await, TakenAway::Gone);
    assert_eq!(desk.get(&desk.named("x")).await.unwrap()["data"], json!({"own": "1"}));
}

#[tokio::test]
async fn a_kept_object_stays_and_is_free_for_another_step() {
    let one = desk("a").await;
    let mut kept = one.config_map("x", json!({"a": "1"}));
    kept["metadata"]["annotations"] = json!({"chandlery.dev/keep": "true"});
    one.apply(kept).await.unwrap();
    assert_eq!(one.take_away().await, TakenAway::Gone);
    assert!(one.get(&one.named("x")).await.is_some());
    let other = desk_of(
        "b",
        &one.namespace,
        Grant::everything(),
        CLUSTER.kubeconfig_yaml(),
        &WriteFence::open(),
    )
    .await;
    other.apply(other.config_map("x", json!({"b": "1"}))).await.unwrap();
    assert_eq!(other.mode("x"), Mode::Joined);
}

#[tokio::test]
async fn taking_away_waits_for_finalizers_and_says_which() {
    let desk = desk("a").await;
    desk.apply(desk.config_map("x", json!({}))).await.unwrap();
    desk.kubectl(&[
        "patch",
        "configmap",
        "x",
        "--type=merge",
        r#"-p={"metadata":{"finalizers":["example.com/hold"]}}"#,
    ]);
    match desk.take_away().await {
        TakenAway::Waiting { message, on } => {
            assert!(message.contains("example.com/hold"), "{message}");
            assert_eq!(on[0].target, desk.named("x"));
        }
        TakenAway::Gone => panic!("it is held"),
    }
    let again = desk.apply(desk.config_map("x", json!({"a": "1"}))).await;
    assert!(
        matches!(again, Err(CallError::Conflict(ref message)) if message.contains("being deleted")),
        "{again:?}"
    );
    desk.kubectl(&[
        "patch",
        "configmap",
        "x",
        "--type=json",
        r#"-p=[{"op":"remove","path":"/metadata/finalizers"}]"#,
    ]);
    assert_eq!(desk.take_away().await, TakenAway::Gone);
}

#[tokio::test]
async fn create_makes_once_and_leaves_what_is_there() {
    let desk = desk("a").await;
    desk.create(desk.config_map("x", json!({"a": "1"}))).await.unwrap();
    desk.create(desk.config_map("x", json!({"a": "2"}))).await.unwrap();
    assert_eq!(desk.get(&desk.named("x")).await.unwrap()["data"], json!({"a": "1"}));
    desk.kubectl(&["create", "configmap", "theirs"]);
    assert!(matches!(
        desk.create(desk.config_map("theirs", json!({}))).await,
        Err(CallError::Conflict(_))
    ));
    assert_eq!(desk.mode("x"), Mode::Made);
}

#[tokio::test]
async fn a_generated_secret_is_made_once_and_never_shown() {
    let namespace = namespace();
    let only_create = GrantRule {
        api_groups: vec![String::new()],
        resources: vec!["secrets".into()],
        verbs: vec!["create".into()],
        namespaces: None,
        names: None,
    };
    let desk = desk_of(
        "a",
        &namespace,
        Grant::new(vec![only_create]),
        CLUSTER.kubeconfig_yaml(),
        &WriteFence::open(),
    )
    .await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": namespace, "name": "s", "annotations": {"chandlery.dev/generate": "password"}}});
    desk.create(secret.clone()).await.unwrap();
    let read = || desk.kubectl(&["get", "secret", "s", "-o", "jsonpath={.data.password}"]);
    let first = read();
    assert!(first.len() >= 40, "{first}");
    desk.create(secret).await.unwrap();
    assert_eq!(read(), first);
    let target = ObjectRef::new("v1", "Secret", Some(&namespace), "s");
    assert!(matches!(
        desk.scope.get(vec![target]).await.remove(0),
        Err(CallError::Denied(_))
    ));
}

#[tokio::test]
async fn answers_become_decisions() {
    let desk = desk("a").await;
    let typo = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": desk.namespace, "name": "x"}, "spec": {"prots": []}});
    let refused = desk.apply(typo).await;
    assert!(
        matches!(refused, Err(CallError::Invalid(ref problems)) if problems[0].message.contains("prots")),
        "unknown field: {refused:?}"
    );

    let service = |ip: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": desk.namespace, "name": "y"},
        "spec": {"clusterIP": ip, "ports": [{"port": 80}]}})
    };
    desk.apply(service("10.0.0.50")).await.unwrap();
    let refused = desk.scope.apply(vec![service("10.0.0.77")], true).await.remove(0);
    assert!(
        matches!(refused, Err(CallError::Invalid(ref problems)) if problems[0].path.starts_with("/spec/clusterIP")),
        "immutable field: {refused:?}"
    );

    let mut lost = desk.config_map("x", json!({}));
    lost["metadata"]["namespace"] = json!("no-such-namespace");
    assert!(
        matches!(desk.apply(lost).await, Err(CallError::NotFound(_))),
        "missing namespace"
    );

    let unknown =
        json!({"apiVersion": "x.example/v1", "kind": "Thing", "metadata": {"namespace": desk.namespace, "name": "x"}});
    assert!(
        matches!(desk.apply(unknown).await, Err(CallError::NotFound(_))),
        "kind not served"
    );

    let mut wrong = desk.config_map("z", json!({}));
    desk.apply(wrong.clone()).await.unwrap();
    wrong["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    assert!(
        matches!(desk.apply(wrong).await, Err(CallError::Conflict(_))),
        "another UID"
    );

    let patch = |operations: Value| JsonPatch {
        target: desk.named("z"),
        subresource: None,
        patch: operations,
    };
    let test =
        json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data", "value": {"a": "2"}}]);
    let refused = desk.scope.patch(vec![patch(test)]).await.remove(0);
    assert!(
        matches!(refused, Err(CallError::Conflict(_))),
        "a failed test: {refused:?}"
    );
    desk.scope
        .patch(vec![patch(
            json!([{"op": "add", "path": "/data", "value": {"a": "2"}}]),
        )])
        .await
        .remove(0)
        .unwrap();

    let large = desk.config_map("large", json!({"a": "x".repeat(1_100_000)}));
    assert!(
        matches!(
            desk.apply(large).await,
            Err(CallError::Invalid(_) | CallError::Exhausted(_))
        ),
        "too large"
    );

    let mut nowhere = desk.config_map("x", json!({}));
    nowhere["metadata"].as_object_mut().unwrap().remove("namespace");
    let refused = desk.apply(nowhere).await;
    assert!(
        matches!(refused, Err(CallError::Invalid(ref problems)) if problems[0].path == "/metadata/namespace"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_quota_is_in_the_way_and_rbac_is_a_lack_of_rights() {
    let desk = desk("a").await;
    desk.kubectl(&["create", "quota", "q", "--hard=configmaps=0"]);
    // The quota holds once its controller has counted.
    let counted = || desk.kubectl(&["get", "quota", "q", "-o", "jsonpath={.status.hard.configmaps}"]) == "0";
    xtask_wait(counted);
    let refused = desk.apply(desk.config_map("x", json!({}))).await;
    assert!(
        matches!(refused, Err(CallError::Unavailable(ref message)) if message.contains("quota")),
        "{refused:?}"
    );
    let nobody = CLUSTER.kubeconfig_for("nobody", &[]).unwrap();
    let weak = desk_of("b", &desk.namespace, Grant::everything(), &nobody, &WriteFence::open()).await;
    let refused = weak.apply(weak.config_map("x", json!({}))).await;
    assert!(matches!(refused, Err(CallError::Denied(_))), "{refused:?}");
}

fn xtask_wait(until: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !until() {
        assert!(std::time::Instant::now() < deadline, "did not come to be within 30 s");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[tokio::test]
async fn a_terminating_namespace_is_in_the_way() {
    let desk = desk("a").await;
    let mut held = desk.config_map("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    desk.apply(held).await.unwrap();
    CLUSTER
        .client()
        .text(["delete", "namespace", &desk.namespace, "--wait=false"])
        .unwrap();
    let refused = desk.apply(desk.config_map("x", json!({}))).await;
    assert!(matches!(refused, Err(CallError::Unavailable(_))), "{refused:?}");
    let space = ObjectRef::new("v1", "Namespace", None, &desk.namespace);
    assert_eq!(
        desk.scope.assess(vec![space]).await.remove(0).unwrap(),
        Readiness::Terminating
    );
    desk.kubectl(&[
        "patch",
        "configmap",
        "held",
        "--type=json",
        r#"-p=[{"op":"remove","path":"/metadata/finalizers"}]"#,
    ]);
}

#[tokio::test]
async fn a_deletion_means_the_object_that_was_read() {
    let desk = desk("a").await;
    desk.kubectl(&["create", "configmap", "x"]);
    let old = chandlery_core::object::uid(&desk.get(&desk.named("x")).await.unwrap()).unwrap();
    desk.kubectl(&["delete", "configmap", "x"]);
    desk.kubectl(&["create", "configmap", "x"]);
    let delete = |uid| Deletion {
        target: desk.named("x"),
        uid,
        propagation: Propagation::Background,
    };
    assert_eq!(
        desk.scope.delete(vec![delete(old)]).await.remove(0).unwrap(),
        DeletionState::Gone
    );
    let new = chandlery_core::object::uid(&desk.get(&desk.named("x")).await.expect("the successor lives")).unwrap();
    assert_eq!(
        desk.scope.delete(vec![delete(new)]).await.remove(0).unwrap(),
        DeletionState::Gone
    );
    assert_eq!(desk.get(&desk.named("x")).await, None);
}

#[tokio::test]
async fn a_list_over_all_namespaces_shows_only_those_of_the_grant() {
    let (inside, outside) = (namespace(), namespace());
    for namespace in [&inside, &outside] {
        CLUSTER
            .client()
            .text(["-n", namespace, "create", "configmap", "listed"])
            .unwrap();
        CLUSTER
            .client()
            .text(["-n", namespace, "label", "configmap", "listed", "mine=yes"])
            .unwrap();
    }
    let rule = GrantRule {
        api_groups: vec![String::new()],
        resources: vec!["configmaps".into()],
        verbs: vec!["list".into()],
        namespaces: Some(vec![inside.clone(), "default".into()]),
        names: None,
    };
    let desk = desk_of(
        "a",
        &inside,
        Grant::new(vec![rule]),
        CLUSTER.kubeconfig_yaml(),
        &WriteFence::open(),
    )
    .await;
    let mut query = Query {
        gvk: desk.named("x").gvk,
        namespace: None,
        label_selector: "mine=yes".into(),
        field_selector: String::new(),
        metadata_only: true,
        continue_token: None,
    };
    let mut found = Vec::new();
    loop {
        let page = desk.scope.list(query.clone()).await.unwrap();
        found.extend(page.items);
        match page.continue_token {
            Some(token) => query.continue_token = Some(token),
            None => break,
        }
    }
    let places: Vec<&str> = found
        .iter()
        .map(|o| o["metadata"]["namespace"].as_str().unwrap())
        .collect();
    assert_eq!(places, [inside.as_str()]);
    assert_eq!(found[0]["kind"], "ConfigMap");
    query.namespace = Some(outside);
    query.continue_token = None;
    assert!(matches!(desk.scope.list(query).await, Err(CallError::Denied(_))));
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let desk = desk("a").await;
    let objects: Vec<Value> = (0..300).map(|i| desk.config_map(&format!("c{i}"), json!({}))).collect();
    assert!(desk.scope.apply(objects, false).await.iter().all(Result::is_ok));
    let query = Query {
        gvk: desk.named("x").gvk,
        namespace: Some(desk.namespace.clone()),
        label_selector: String::new(),
        field_selector: String::new(),
        metadata_only: true,
        continue_token: None,
    };
    let first = desk.scope.list(query.clone()).await.unwrap();
    assert_eq!(first.items.len(), 250);
    let second = desk
        .scope
        .list(Query {
            continue_token: first.continue_token,
            ..query
        })
        .await
        .unwrap();
    // With the root CA's, if its controller was here already.
    assert!((50..=51).contains(&second.items.len()) && second.continue_token.is_none());
    assert_eq!(desk.take_away().await, TakenAway::Gone);
}

#[tokio::test]
async fn a_closed_fence_lets_no_write_pass() {
    let fence = WriteFence::closed();
    let namespace = namespace();
    let desk = desk_of("a", &namespace, Grant::everything(), CLUSTER.kubeconfig_yaml(), &fence).await;
    assert_eq!(
        desk.apply(desk.config_map("x", json!({}))).await,
        Err(CallError::Fenced)
    );
    assert_eq!(desk.kubectl(&["get", "configmap", "x", "--ignore-not-found"]), "");
    fence.extend(std::time::Instant::now(), std::time::Duration::from_secs(60));
    desk.apply(desk.config_map("x", json!({}))).await.unwrap();
}

#[tokio::test]
async fn what_a_call_saw_bears_the_version_it_saw() {
    let desk = desk("a").await;
    desk.apply(desk.config_map("x", json!({"a": "1"}))).await.unwrap();
    let version = desk.get(&desk.named("x")).await.unwrap()["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let seen = desk.scope.seen();
    assert_eq!(
        seen.iter()
            .find(|w| w.target == desk.named("x"))
            .unwrap()
            .seen
            .as_deref(),
        Some(version.as_str())
    );
    let watched = desk.scope.watched(vec![desk.named("x"), desk.named("never")]).await;
    assert_eq!(watched[0].seen.as_deref(), Some(version.as_str()));
    assert_eq!(watched[1].seen, None);
}

#[tokio::test]
async fn what_is_of_a_kind_that_is_no_longer_served_is_gone_with_it() {
    let desk = desk("step").await;
    let entry = |name: &str| Entry {
        object: ObjectRef::new("ropes.example.org/v1", "Rope", Some(&desk.namespace), name),
        uid: Some("1".parse().unwrap()),
        mode: Mode::Made,
        wave: 0,
    };
    desk.apply(desk.config_map("c", json!({}))).await.unwrap();
    let entries = [entry("r"), desk.ledger.entry(&desk.named("c")).unwrap()].to_vec();
    assert_eq!(desk.scope.take_away(entries).await.unwrap(), TakenAway::Gone);
    assert!(desk.get(&desk.named("c")).await.is_none(), "and the rest goes, too");
}
