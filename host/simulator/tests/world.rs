//! A simulated cluster from the outside: what holds whatever the kind, each a sentence. That the answers are a real server's
//! is shown by `cargo xtask compare`; here is what that cannot see: forks, time, seeds, and what is refused.

#![allow(clippy::expect_used, reason = "helpers of tests fail like tests")]

use bytes::Bytes;
use chandlery_simulator::{Settings, Simulator, User, World};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::BodyExt;
use jiff::SignedDuration;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn simulator() -> Simulator {
    Simulator::new(Settings::default())
}

async fn send(simulator: &Simulator, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    let media_type = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    send_as(simulator, method, path, media_type, body).await
}

async fn send_as(
    simulator: &Simulator,
    method: Method,
    path: &str,
    media_type: &'static str,
    body: Bytes,
) -> (StatusCode, Value) {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    let uri: Uri = path.parse().expect("a path");
    let response = simulator.respond(&method, &uri, &headers, body);
    let code = response.status();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
    (code, value)
}

async fn get(simulator: &Simulator, path: &str) -> (StatusCode, Value) {
    send(simulator, Method::GET, path, Value::Null).await
}

/// A kind of its own, whose objects are whatever they like.
async fn define_things(simulator: &Simulator) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    assert_eq!(
        send(simulator, Method::POST, DEFINITIONS, definition).await.0,
        StatusCode::CREATED
    );
}

async fn create_map(simulator: &Simulator, name: &str) -> Value {
    let (code, made) = send(
        simulator,
        Method::POST,
        MAPS,
        json!({"metadata": {"name": name}, "data": {"a": "1"}}),
    )
    .await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    made
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[tokio::test]
async fn the_recorded_data_is_read() {
    let simulator = simulator();
    let (_, version) = get(&simulator, "/version").await;
    assert_eq!(text(&version, "/minor"), "34");
    let (_, roles) = get(&simulator, "/apis/rbac.authorization.k8s.io/v1/clusterroles").await;
    assert!(
        roles
            .pointer("/items")
            .and_then(Value::as_array)
            .is_some_and(|items| items.len() > 60)
    );
    let (code, document) = get(&simulator, "/openapi/v3/apis/apps/v1").await;
    assert_eq!(code, StatusCode::OK);
    assert!(
        document
            .pointer("/components/schemas/io.k8s.api.apps.v1.Deployment")
            .is_some()
    );
}

#[tokio::test]
async fn a_fork_and_its_parent_do_not_see_each_other() {
    let parent = simulator();
    create_map(&parent, "before").await;
    let child = parent.fork();
    create_map(&parent, "of-parent").await;
    create_map(&child, "of-child").await;
    for (simulator, sees, misses) in [(&parent, "of-parent", "of-child"), (&child, "of-child", "of-parent")] {
        assert_eq!(get(simulator, &format!("{MAPS}/before")).await.0, StatusCode::OK);
        assert_eq!(get(simulator, &format!("{MAPS}/{sees}")).await.0, StatusCode::OK);
        assert_eq!(
            get(simulator, &format!("{MAPS}/{misses}")).await.0,
            StatusCode::NOT_FOUND
        );
    }
}

#[tokio::test]
async fn equal_settings_and_requests_give_equal_worlds() {
    let (one, other) = (simulator(), simulator());
    assert_eq!(create_map(&one, "a").await, create_map(&other, "a").await);
    let third = Simulator::new(Settings {
        seed: 7,
        ..Settings::default()
    });
    let differs = create_map(&third, "a").await;
    assert_ne!(
        text(&create_map(&one, "b").await, "/metadata/uid"),
        text(&differs, "/metadata/uid")
    );
}

#[tokio::test]
async fn time_passes_only_when_it_is_told_to() {
    let simulator = simulator();
    let first = create_map(&simulator, "a").await;
    let second = create_map(&simulator, "b").await;
    assert_eq!(
        first.pointer("/metadata/creationTimestamp"),
        second.pointer("/metadata/creationTimestamp")
    );
    simulator.with_world(|world| world.advance(SignedDuration::from_secs(90)));
    let third = create_map(&simulator, "c").await;
    assert_eq!(text(&third, "/metadata/creationTimestamp"), "1970-01-01T00:01:30Z");
}

#[tokio::test]
async fn a_definition_is_served_after_its_delay_and_not_before() {
    let simulator = Simulator::new(Settings {
        crd_delay: SignedDuration::from_secs(5),
        ..Settings::default()
    });
    define_things(&simulator).await;
    assert_eq!(get(&simulator, THINGS).await.0, StatusCode::NOT_FOUND);
    simulator.with_world(|world| world.advance(SignedDuration::from_secs(5)));
    assert_eq!(get(&simulator, THINGS).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_definition_goes_with_its_objects_and_not_before_they_let_go() {
    let simulator = simulator();
    define_things(&simulator).await;
    for (name, finalizers) in [("free", json!([])), ("held", json!(["example.com/hold"]))] {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "finalizers": finalizers}});
        assert_eq!(
            send(&simulator, Method::POST, THINGS, thing).await.0,
            StatusCode::CREATED
        );
    }
    let definition = format!("{DEFINITIONS}/things.example.com");
    send(&simulator, Method::DELETE, &definition, Value::Null).await;
    assert_eq!(
        get(&simulator, &format!("{THINGS}/free")).await.0,
        StatusCode::NOT_FOUND
    );
    let (code, ending) = get(&simulator, &definition).await;
    assert_eq!(code, StatusCode::OK);
    let version = |object: &Value| text(object, "/metadata/resourceVersion").to_owned();
    assert_eq!(
        version(&get(&simulator, &definition).await.1),
        version(&ending),
        "who waits does not write"
    );
    send(
        &simulator,
        Method::PATCH,
        &format!("{THINGS}/held"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(get(&simulator, &definition).await.0, StatusCode::NOT_FOUND);
    assert_eq!(get(&simulator, THINGS).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_old_page_and_an_old_watch_are_gone_after_compaction() {
    let simulator = simulator();
    for name in ["a", "b", "c"] {
        create_map(&simulator, name).await;
    }
    let (_, page) = get(&simulator, &format!("{MAPS}?limit=1")).await;
    let token = text(&page, "/metadata/continue").to_owned();
    let version = text(&page, "/metadata/resourceVersion").to_owned();
    create_map(&simulator, "d").await;
    let (code, rest) = get(&simulator, &format!("{MAPS}?continue={token}")).await;
    assert_eq!(code, StatusCode::OK);
    let names: Vec<&str> = rest["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| text(item, "/metadata/name"))
        .collect();
    assert!(
        !names.contains(&"d"),
        "a page shows what was there when the list began: {names:?}"
    );
    simulator.with_world(World::compact);
    create_map(&simulator, "e").await;
    let (code, failure) = get(&simulator, &format!("{MAPS}?continue={token}")).await;
    assert_eq!((code, text(&failure, "/reason")), (StatusCode::GONE, "Expired"));
    let (_, event) = get(&simulator, &format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    assert_eq!(
        (text(&event, "/type"), event.pointer("/object/code")),
        ("ERROR", Some(&json!(410)))
    );
}

#[tokio::test]
async fn who_has_no_role_is_refused_and_who_gets_one_is_not() {
    let simulator = simulator();
    let jane = simulator.as_user(User {
        name: "jane".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        ..User::default()
    });
    let (code, failure) = get(&jane, MAPS).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        text(&failure, "/message"),
        "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let binding = json!({
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(
        send(&simulator, Method::POST, bindings, binding).await.0,
        StatusCode::CREATED
    );
    assert_eq!(get(&jane, MAPS).await.0, StatusCode::OK);
    assert_eq!(
        get(&jane, "/api/v1/namespaces/kube-system/configmaps").await.0,
        StatusCode::FORBIDDEN
    );
}

#[tokio::test]
async fn a_token_is_believed_until_it_expires_or_its_account_is_another() {
    let simulator = simulator();
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    let (code, request) = send(
        &simulator,
        Method::POST,
        &format!("{account}/token"),
        json!({"spec": {"expirationSeconds": 600}}),
    )
    .await;
    assert_eq!(code, StatusCode::CREATED, "{request}");
    let review = |token: &str| json!({"spec": {"token": token}});
    let token = text(&request, "/status/token").to_owned();
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, answer) = send(&simulator, Method::POST, reviews, review(&token)).await;
    assert_eq!(
        text(&answer, "/status/user/username"),
        "system:serviceaccount:default:default"
    );
    let (_, answer) = send(&simulator, Method::POST, reviews, review(&format!("{token}x"))).await;
    assert_ne!(answer.pointer("/status/authenticated"), Some(&json!(true)));
    let later = simulator.fork();
    later.with_world(|world| world.advance(SignedDuration::from_secs(601)));
    let (_, answer) = send(&later, Method::POST, reviews, review(&token)).await;
    assert_ne!(
        answer.pointer("/status/authenticated"),
        Some(&json!(true)),
        "an expired token"
    );
    send(&simulator, Method::DELETE, account, Value::Null).await;
    let (_, answer) = send(&simulator, Method::POST, reviews, review(&token)).await;
    assert_ne!(
        answer.pointer("/status/authenticated"),
        Some(&json!(true)),
        "the account is another of the same name"
    );
}

#[tokio::test]
async fn what_is_not_simulated_is_refused_and_says_so() {
    let simulator = simulator();
    for (path, body) in [
        (
            "/api/v1/namespaces/default/pods/a/eviction",
            json!({"metadata": {"name": "a"}}),
        ),
        (
            "/api/v1/namespaces/default/pods/a/binding",
            json!({"metadata": {"name": "a"}, "target": {"name": "n"}}),
        ),
    ] {
        let (code, failure) = send(&simulator, Method::POST, path, body).await;
        assert_eq!(code, StatusCode::NOT_IMPLEMENTED, "{path}: {failure}");
        assert!(text(&failure, "/message").contains("does not do this"), "{failure}");
    }
}

#[tokio::test]
async fn malformed_requests_get_an_answer_and_leave_nothing() {
    let simulator = simulator();
    let before = simulator.with_world(|world| world.objects());
    let deep = format!(
        "{{\"metadata\":{{\"name\":\"x\"}},\"data\":{}{}}}",
        "{\"a\":".repeat(200),
        "1".to_owned() + &"}".repeat(200)
    );
    let bodies: [&[u8]; 7] = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{\"metadata\":{\"name\":\"\xc3\x28\"}}",
        deep.as_bytes(),
    ];
    for body in bodies {
        let (code, answer) = send_as(
            &simulator,
            Method::POST,
            MAPS,
            "application/json",
            Bytes::copy_from_slice(body),
        )
        .await;
        assert!(
            code.is_client_error(),
            "{code} {answer} for {:?}",
            String::from_utf8_lossy(body)
        );
    }
    for path in [
        "//",
        "/api/v1/%",
        "/api/v1/namespaces/%00/configmaps",
        "/apis/a/b/c/d/e/f/g",
        "/api/v1/configmaps?limit=99999999999999999999",
    ] {
        let (code, answer) = get(&simulator, path).await;
        assert!(
            code.is_client_error() || code.is_success(),
            "{code} {answer} for {path}"
        );
    }
    assert_eq!(simulator.with_world(|world| world.objects()), before);
}

#[tokio::test]
async fn a_namespace_takes_all_with_it_and_waits_for_finalizers() {
    let simulator = simulator();
    send(
        &simulator,
        Method::POST,
        "/api/v1/namespaces",
        json!({"metadata": {"name": "team"}}),
    )
    .await;
    let maps = "/api/v1/namespaces/team/configmaps";
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    assert_eq!(send(&simulator, Method::POST, maps, held).await.0, StatusCode::CREATED);
    send(&simulator, Method::DELETE, "/api/v1/namespaces/team", Value::Null).await;
    let (_, namespace) = get(&simulator, "/api/v1/namespaces/team").await;
    assert_eq!(text(&namespace, "/status/phase"), "Terminating");
    assert!(
        namespace
            .to_string()
            .contains("example.com/hold in 1 resource instances"),
        "{namespace}"
    );
    let (code, _) = send(&simulator, Method::POST, maps, json!({"metadata": {"name": "late"}})).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    send(
        &simulator,
        Method::PATCH,
        &format!("{maps}/held"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(
        get(&simulator, "/api/v1/namespaces/team").await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_dependent_goes_with_the_last_owner_of_its_uid() {
    let simulator = simulator();
    let owner = create_map(&simulator, "owner").await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let dependent = json!({"metadata": {"name": "dependent", "ownerReferences": [reference]}});
    assert_eq!(
        send(&simulator, Method::POST, MAPS, dependent).await.0,
        StatusCode::CREATED
    );
    let orphaning = simulator.fork();
    send(
        &orphaning,
        Method::DELETE,
        &format!("{MAPS}/owner"),
        json!({"propagationPolicy": "Orphan"}),
    )
    .await;
    let (code, left) = get(&orphaning, &format!("{MAPS}/dependent")).await;
    assert_eq!(
        (code, left.pointer("/metadata/ownerReferences")),
        (StatusCode::OK, None)
    );
    send(&simulator, Method::DELETE, &format!("{MAPS}/owner"), Value::Null).await;
    assert_eq!(
        get(&simulator, &format!("{MAPS}/dependent")).await.0,
        StatusCode::NOT_FOUND
    );
}
