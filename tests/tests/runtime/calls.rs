//! What a guest asks of the cluster reaches it whole, and the answers come back in their places.

use std::time::{Duration, Instant};

use chandlery_core::ObjectRef;
use chandlery_core::cluster::CallError;
use chandlery_core::limits::Limits;
use chandlery_core::task::{Export, Failure, Outcome};
use serde_json::{Value, json};

use crate::stub::Stub;
use crate::{answers, limits, load, provision, request, runtime};

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}})
}

fn name(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "name": name})
}

#[tokio::test]
async fn every_function_of_the_handle_reaches_the_cluster() {
    let stub = Stub::new();
    let calls = json!([
        "facts",
        {"apply": [config("x"), {"kind": "nameless"}, config("y")]},
        {"applyForced": [config("x")]},
        {"create": [config("z")]},
        {"get": [name("x"), name("missing")]},
        {"list": {"apiVersion": "v1", "kind": "ConfigMap"}},
        {"patch": {"target": name("x"), "subresource": "status", "patch": [{"op": "remove", "path": "/a"}]}},
        {"delete": {"target": name("x"), "uid": "u-1"}},
        {"assess": [name("x"), name("y")]},
    ]);
    let told = answers(&stub, calls, &limits()).await;
    assert_eq!(told[0], json!(["east", "::1", 6443, "1.37.2", ["west", "east"]]));
    assert_eq!((&told[1][0], &told[1][2]), (&json!("ok"), &json!("ok")));
    assert!(told[1][1].as_str().unwrap().contains("NotFound"), "{}", told[1]);
    assert_eq!(told[4], json!([config("x"), null]));
    assert_eq!(
        told[5],
        json!([config("x"), config("y"), config("z")]),
        "three objects on two pages"
    );
    assert!(told[6][0].as_str().unwrap().contains("Conflict"), "{}", told[6]);
    assert!(told[7][0].as_str().unwrap().contains("x.example/f"), "{}", told[7]);
    assert!(told[8][1].as_str().unwrap().contains("y waits"), "{}", told[8]);
    let calls = stub.calls.lock().unwrap();
    assert_eq!(
        *calls,
        [
            "apply 3 false",
            "apply 1 true",
            "create 1",
            "get 2",
            "list v1/ConfigMap None",
            "list v1/ConfigMap Some(\"2\")",
            "patch ConfigMap a/x Some(\"status\") [{\"op\":\"remove\",\"path\":\"/a\"}]",
            "delete ConfigMap a/x u-1 Foreground",
            "assess 2",
        ]
    );
}

#[tokio::test]
async fn a_plugin_describes_itself_and_checks_a_spec() {
    let plugin = load("well_behaved").await.unwrap();
    let description = runtime().describe(&plugin).await.unwrap();
    assert_eq!(
        (description.name.as_str(), description.version.as_str()),
        ("test.example/well-behaved", "0.1.0")
    );
    assert_eq!(description.spec_schema["type"], "object");
    assert_eq!(description.needs.len(), 2);
    assert_eq!(description.needs[1].api_groups, ["apps"]);
    let check = async |spec| runtime().check(&plugin, &spec, &limits()).await.unwrap();
    assert_eq!(check(json!({"calls": ["facts"]})).await, []);
    assert_eq!(check(json!({"calls": []})).await[0].path, "/calls");
    let wrong = check(json!({"calls": ["facts", {"get": [{"apiVersion": 1}]}]})).await;
    assert_eq!(wrong[0].path, "/calls/1/get/0/apiVersion", "{wrong:?}");
}

#[tokio::test]
async fn a_yield_carries_what_to_watch_and_what_to_remember() {
    let Ok(Outcome::Yield(wait)) =
        provision("well_behaved", &Stub::new(), json!({"calls": ["yield"]}), &limits()).await
    else {
        panic!()
    };
    assert_eq!(wait.watch, [ObjectRef::new("v1", "ConfigMap", Some("a"), "c")]);
    assert_eq!(
        (wait.after, wait.memory),
        (Some(Duration::from_millis(1_500)), Some(json!({"round": 0})))
    );
}

#[tokio::test]
async fn nothing_survives_from_one_call_to_the_next_but_its_memory() {
    let plugin = load("well_behaved").await.unwrap();
    for memory in [None, Some(json!({"a": [1]}))] {
        let request = chandlery_core::task::Request {
            memory: memory.clone(),
            ..request(json!({"calls": ["memory"]}))
        };
        let called = runtime()
            .call(&plugin, "p", Export::Provision, Stub::new(), &request, &limits())
            .await;
        let Ok(Outcome::Done(done)) = called else { panic!() };
        assert_eq!(done.outputs.unwrap()["answers"][0], json!(memory));
        assert_eq!(done.memory, Some(json!("seen")));
    }
}

#[tokio::test]
async fn deprovision_is_told_whether_the_cluster_is_doomed() {
    let plugin = load("well_behaved").await.unwrap();
    for doomed in [false, true] {
        // A spec of an older shape is no hindrance.
        let asked = request(json!({"old": "shape"}));
        let called = runtime()
            .call(
                &plugin,
                "p",
                Export::Deprovision { doomed },
                Stub::new(),
                &asked,
                &limits(),
            )
            .await;
        let Ok(Outcome::Done(done)) = called else { panic!() };
        assert_eq!(done.outputs, Some(json!({"doomed": doomed})));
    }
}

#[tokio::test]
async fn a_panic_of_a_guest_with_the_sdk_is_told_with_its_text() {
    let ended = provision(
        "well_behaved",
        &Stub::new(),
        json!({"calls": [{"panic": "seven is odd"}]}),
        &limits(),
    )
    .await;
    let Err(Failure::Broken {
        reason: "Panicked",
        message,
    }) = ended
    else {
        panic!("{ended:?}")
    };
    assert!(
        message.contains("seven is odd") && message.contains("lib.rs:"),
        "{message}"
    );
    assert!(
        !message.contains(env!("CARGO_MANIFEST_DIR")) && !message.contains("/root"),
        "{message}"
    );
}

#[tokio::test]
async fn a_spec_of_the_wrong_shape_is_refused_with_its_place() {
    let ended = provision(
        "well_behaved",
        &Stub::new(),
        json!({"calls": ["facts", {"log": 1}]}),
        &limits(),
    )
    .await;
    let Err(Failure::Invalid(problems)) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(problems[0].path, "/calls/1/log");
}

#[tokio::test]
async fn a_cluster_that_never_answers_ends_the_call_and_is_no_fault_of_the_plugin() {
    let limits = Limits {
        call_time: Duration::from_millis(300),
        ..limits()
    };
    let started = Instant::now();
    let ended = provision(
        "well_behaved",
        &Stub::hanging(),
        json!({"calls": [{"get": [name("x")]}]}),
        &limits,
    )
    .await;
    let Err(Failure::Call(CallError::Exhausted(text))) = ended else {
        panic!("{ended:?}")
    };
    assert!(text.contains("waiting for the cluster"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn what_the_host_does_for_a_plugin_is_not_the_plugins_own_time() {
    // Five calls of 100 ms each, and the guest itself may run for 200 ms.
    let limits = Limits {
        own_time: Duration::from_millis(200),
        ..limits()
    };
    let calls: Vec<_> = (0..5).map(|_| json!({"get": [name("x")]})).collect();
    let told = answers(&Stub::busy(Duration::from_millis(100)), json!(calls), &limits).await;
    assert_eq!(told.len(), 5);
}

#[tokio::test]
async fn a_call_may_be_dropped_while_it_waits_and_while_it_runs() {
    let runtime_is_well = async || assert_eq!(answers(&Stub::new(), json!(["memory"]), &limits()).await, [Value::Null]);
    load("loops").await.unwrap();
    for delay in [0, 1, 5, 20, 60] {
        let (hanging, free) = (Stub::hanging(), Stub::new());
        let limits = limits();
        let waits = provision(
            "well_behaved",
            &hanging,
            json!({"calls": [{"get": [name("x")]}]}),
            &limits,
        )
        .await_for(delay);
        assert!(waits.await.is_none());
        let runs = provision("loops", &free, Value::Null, &limits).await_for(delay);
        assert!(runs.await.is_none());
        runtime_is_well().await;
    }
}

trait AwaitFor: Future + Sized {
    /// Awaits it for so many milliseconds, and then drops it.
    async fn await_for(self, milliseconds: u64) -> Option<Self::Output> {
        tokio::time::timeout(Duration::from_millis(milliseconds), self)
            .await
            .ok()
    }
}
impl<F: Future> AwaitFor for F {}

#[tokio::test]
async fn what_comes_back_is_bounded_and_what_fits_is_handed_over() {
    let limits = Limits {
        bytes_out: 250_000,
        ..limits()
    };
    let names: Vec<_> = ["a", "b", "c", "d"].map(name).to_vec();
    let stub = Stub::padded(100_000);
    let plugin = load("well_behaved").await.unwrap();
    let asked = request(json!({"calls": [{"get": names}]}));
    let called = runtime()
        .call(&plugin, "p", Export::Provision, stub, &asked, &limits)
        .await;
    // The guest echoes what it read, which is more than outputs may be: the message tells how much it got.
    let Err(Failure::Broken {
        reason: "InvalidAnswer",
        message,
    }) = called
    else {
        panic!("{called:?}")
    };
    let bytes: usize = message.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    assert!((200_000..201_000).contains(&bytes), "{message}");
}

#[tokio::test]
async fn more_calls_than_there_are_slots_wait_for_their_turn() {
    let calls = (0..200).map(|_| async {
        answers(&Stub::new(), json!([{"get": [name("x")]}]), &limits()).await;
    });
    let mut running = tokio::task::JoinSet::new();
    for call in calls {
        running.spawn(call);
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn reading_stops_when_no_more_can_be_handed_over() {
    let limits = Limits {
        bytes_out: 250_000,
        ..limits()
    };
    let stub = Stub::padded(10_000);
    let names: Vec<_> = (0..1_000).map(|i| name(&i.to_string())).collect();
    assert!(
        provision("well_behaved", &stub, json!({"calls": [{"get": names}]}), &limits)
            .await
            .is_err()
    );
    assert_eq!(*stub.calls.lock().unwrap(), ["get 64"], "25 of them fit");
}
