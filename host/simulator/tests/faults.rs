//! Faults: each kind is seen to happen, in virtual time, and a trace repeats what it tells.

#![allow(clippy::expect_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chandlery_simulator::faults::{
    ApiError, Entry, Fault, Faults, Faulty, Matches, Moment, Plan, Ran, Replacement, Stop, Turns, WatchFault, When,
    Write, lines, read_lines,
};
use chandlery_simulator::{Settings, Simulator, User};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower::{BoxError, Layer, Service, ServiceExt};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";

fn simulator() -> Simulator {
    Simulator::new(Settings::default())
}

fn request(method: Method, uri: &str, body: &Value) -> Request<Full<Bytes>> {
    let media_type = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let body = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", media_type)
        .body(Full::new(body))
        .expect("a request")
}

type Answer = Result<(StatusCode, Value), BoxError>;

async fn send<S, B>(client: &S, method: Method, uri: &str, body: Value) -> Answer
where
    S: Service<Request<Full<Bytes>>, Response = http::Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let response = client
        .clone()
        .oneshot(request(method, uri, &body))
        .await
        .map_err(Into::into)?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(Into::into)?.to_bytes();
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": value}})
}

/// Changes the object's data; the world then knows one version more.
async fn put(simulator: &Simulator, name: &str, value: &str) {
    let (status, _) = send(simulator, Method::PUT, &format!("{MAPS}/{name}"), map(name, value))
        .await
        .expect("an answer");
    assert!(status.is_success(), "{status}");
}

async fn create(simulator: &Simulator, name: &str) {
    let made = send(simulator, Method::POST, MAPS, map(name, "1"))
        .await
        .expect("an answer");
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
}

async fn has(simulator: &Simulator, uri: &str) -> bool {
    send(simulator, Method::GET, uri, Value::Null)
        .await
        .expect("an answer")
        .0
        == StatusCode::OK
}

fn client(simulator: &Simulator, plan: Plan) -> (Faults, Faulty<Simulator>) {
    let faults = Faults::new(plan);
    let client = faults.layer(simulator.clone());
    (faults, client)
}

fn data(document: &Value) -> &str {
    document.pointer("/data/a").and_then(Value::as_str).unwrap_or_default()
}

fn missed(trace: &[Entry]) -> Vec<&str> {
    trace
        .iter()
        .flat_map(|entry| &entry.faults)
        .filter_map(|done| done.missed.as_deref())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_error_comes_with_its_code_and_reason_and_the_server_has_done_it_or_not() {
    let expected = [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "AlreadyExists"),
        (409, "Conflict"),
        (410, "Expired"),
        (422, "Invalid"),
        (429, ""),
        (500, "InternalError"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
        (0, ""),
    ];
    for (error, (code, reason)) in ApiError::ALL.into_iter().zip(expected) {
        for commit in [Moment::Before, Moment::After] {
            let simulator = simulator();
            let (faults, client) = client(&simulator, Plan::at(0, Fault::Error { error, commit }));
            let answer = send(&client, Method::POST, MAPS, map("a", "1")).await;
            match answer {
                Ok((status, body)) => {
                    assert_eq!(status.as_u16(), code, "{error}");
                    let found = body.get("reason").and_then(Value::as_str).unwrap_or_default();
                    assert_eq!(found, reason, "{error}");
                }
                Err(lost) => assert_eq!((error, code), (ApiError::ConnectionReset, 0), "{lost}"),
            }
            assert_eq!(has(&simulator, MAP).await, commit == Moment::After, "{error}");
            let trace = faults.trace();
            assert_eq!(trace.first().and_then(|entry| entry.status), (code > 0).then_some(code));
            // The next request is not meant.
            let (status, _) = send(&client, Method::GET, MAPS, Value::Null).await.expect("an answer");
            assert_eq!(status, StatusCode::OK);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_says_when_to_come_again() {
    let fault = Fault::Error {
        error: ApiError::TooManyRequests,
        commit: Moment::Before,
    };
    let (_, client) = client(&simulator(), Plan::at(0, fault));
    let response = client
        .oneshot(request(Method::GET, MAPS, &Value::Null))
        .await
        .expect("an answer");
    assert_eq!(
        response.headers().get("retry-after").map(|value| value.as_bytes()),
        Some(&b"1"[..])
    );
}

#[tokio::test(start_paused = true)]
async fn a_cut_answer_begins_and_fails() {
    let (_, client) = client(&simulator(), Plan::at(0, Fault::CutAnswer));
    let response = client
        .oneshot(request(Method::GET, MAPS, &Value::Null))
        .await
        .expect("a head");
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body();
    let first = body.frame().await.expect("a frame").expect("data");
    assert!(
        first
            .data_ref()
            .is_some_and(|data| data.starts_with(b"{") && !data.ends_with(b"}"))
    );
    let end = body.frame().await.expect("a frame");
    assert!(end.is_err(), "the connection ends within the answer");
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_takes_its_time_and_a_hanging_one_never_comes() {
    let simulator = simulator();
    let hang = |commit| Fault::Hang { commit };
    let plan = Plan::at(0, Fault::Slow { millis: 3_600_000 })
        .and(When::Call(1), hang(Moment::Before))
        .and(When::Call(2), hang(Moment::After));
    let (_, client) = client(&simulator, plan);
    let begun = Instant::now();
    send(&client, Method::GET, MAPS, Value::Null).await.expect("an answer");
    assert_eq!(begun.elapsed(), Duration::from_secs(3_600));
    for commits in [false, true] {
        let sent = send(&client, Method::POST, MAPS, map("a", "1"));
        assert!(
            timeout(Duration::from_secs(86_400), sent).await.is_err(),
            "no answer in a day"
        );
        assert_eq!(has(&simulator, MAP).await, commits);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_read_shows_each_earlier_version_and_says_when_there_is_none() {
    let simulator = simulator();
    create(&simulator, "a").await;
    put(&simulator, "a", "2").await;
    put(&simulator, "a", "3").await;
    for (back, shown) in [(1, Some("2")), (2, Some("1")), (3, None), (4, Some("3"))] {
        for list in [false, true] {
            let (faults, client) = client(&simulator, Plan::at(0, Fault::Stale { back }));
            let uri = if list {
                format!("{MAPS}?fieldSelector=metadata.name=a")
            } else {
                MAP.to_owned()
            };
            let (status, answer) = send(&client, Method::GET, &uri, Value::Null).await.expect("an answer");
            let object = if list {
                answer.pointer("/items/0")
            } else {
                Some(&answer)
            };
            // The list of all ConfigMaps of the namespace has one change more: that of the namespace's own.
            if back == 4 {
                assert_eq!(missed(&faults.trace()).len(), usize::from(!list));
                continue;
            }
            match shown {
                Some(shown) => assert_eq!(object.map(data), Some(shown), "{back} {list}"),
                None if list => assert_eq!(object, None),
                None => assert_eq!(status, StatusCode::NOT_FOUND),
            }
            assert!(missed(&faults.trace()).is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_read_of_a_server_without_a_past_is_what_the_caller_was_told_before() {
    let simulator = simulator();
    create(&simulator, "a").await;
    // As on the way to a real server, nothing but HTTP gets through.
    let server = {
        let simulator = simulator.clone();
        tower::service_fn(move |mut request: Request<Full<Bytes>>| {
            request.extensions_mut().clear();
            simulator.clone().oneshot(request)
        })
    };
    let plan = Plan::at(2, Fault::Stale { back: 1 }).and(When::Call(3), Fault::Stale { back: 2 });
    let faults = Faults::new(plan);
    let client = faults.layer(server);
    let read = || send(&client, Method::GET, MAP, Value::Null);
    assert_eq!(data(&read().await.expect("an answer").1), "1");
    put(&simulator, "a", "2").await;
    assert_eq!(data(&read().await.expect("an answer").1), "2");
    assert_eq!(data(&read().await.expect("an answer").1), "1");
    assert_eq!(data(&read().await.expect("an answer").1), "2", "there was no third");
    assert_eq!(missed(&faults.trace()), ["there is no such earlier version"]);
}

#[tokio::test(start_paused = true)]
async fn somebody_else_writes_before_or_after() {
    let simulator = simulator();
    create(&simulator, "a").await;
    let jane = simulator.as_user(User {
        name: "jane".to_owned(),
        ..User::default()
    });
    let write = |value: &str| Write::patch(json!({"data": {"a": value}}));
    let plan = Plan::at(
        0,
        Fault::ThirdParty {
            moment: Moment::Before,
            write: write("before"),
        },
    )
    .and(
        When::Call(1),
        Fault::ThirdParty {
            moment: Moment::After,
            write: write("after"),
        },
    )
    .and(
        When::Call(3),
        Fault::ThirdParty {
            moment: Moment::Before,
            write: Write::delete(),
        },
    );
    // What others may do is not what the caller may.
    let faults = Faults::new(plan.clone()).with_others_on(&simulator);
    let (status, _) = send(&faults.layer(jane.clone()), Method::GET, MAP, Value::Null)
        .await
        .expect("an answer");
    assert_eq!((status, missed(&faults.trace()).len()), (StatusCode::FORBIDDEN, 0));
    let powerless = Faults::new(plan.clone());
    send(&powerless.layer(jane), Method::GET, MAP, Value::Null)
        .await
        .expect("an answer");
    assert_eq!(missed(&powerless.trace()).len(), 1);
    put(&simulator, "a", "1").await;
    let (_, client) = client(&simulator, plan);
    for shown in ["before", "before", "after"] {
        let (_, answer) = send(&client, Method::GET, MAP, Value::Null).await.expect("an answer");
        assert_eq!(data(&answer), shown);
    }
    let (status, _) = send(&client, Method::GET, MAP, Value::Null).await.expect("an answer");
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_replaced_by_another_of_its_name() {
    for what in [Replacement::Object, Replacement::Stranger] {
        let simulator = simulator();
        let labelled = json!({"metadata": {"name": "a", "labels": {"our": "mark"}, "finalizers": ["example.com/hold"]}, "data": {"a": "1"}});
        let (_, made) = send(&simulator, Method::POST, MAPS, labelled).await.expect("an answer");
        let (faults, client) = client(&simulator, Plan::at(0, Fault::Replaced { what }));
        let (_, found) = send(&client, Method::GET, MAP, Value::Null).await.expect("an answer");
        assert_ne!(found.pointer("/metadata/uid"), made.pointer("/metadata/uid"));
        assert_eq!(data(&found), "1");
        assert_eq!(found.pointer("/metadata/labels").is_some(), what == Replacement::Object);
        assert_eq!(
            found.pointer("/metadata/finalizers").is_some(),
            what == Replacement::Object
        );
        assert!(missed(&faults.trace()).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_replaced_by_an_empty_one_of_its_name() {
    let simulator = simulator();
    let namespace = json!({"metadata": {"name": "team", "labels": {"a": "b"}}});
    let (_, made) = send(&simulator, Method::POST, "/api/v1/namespaces", namespace)
        .await
        .expect("an answer");
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    for collection in [
        "/api/v1/namespaces/team/configmaps",
        "/apis/coordination.k8s.io/v1/namespaces/team/leases",
    ] {
        let (status, _) = send(&simulator, Method::POST, collection, held.clone())
            .await
            .expect("an answer");
        assert_eq!(status, StatusCode::CREATED);
    }
    let (faults, client) = client(
        &simulator,
        Plan::at(
            0,
            Fault::Replaced {
                what: Replacement::Namespace,
            },
        ),
    );
    let lost = "/api/v1/namespaces/team/configmaps/held";
    let (status, _) = send(&client, Method::GET, lost, Value::Null).await.expect("an answer");
    assert_eq!(status, StatusCode::NOT_FOUND, "{:?}", missed(&faults.trace()));
    let (_, now) = send(&client, Method::GET, "/api/v1/namespaces/team", Value::Null)
        .await
        .expect("an answer");
    assert_ne!(now.pointer("/metadata/uid"), made.pointer("/metadata/uid"));
    assert_eq!(now.pointer("/metadata/labels/a"), Some(&json!("b")));
    assert_eq!(now.pointer("/status/phase"), Some(&json!("Active")));
}

/// What a watch told: each event as `TYPE name value`, and at last what ended it.
async fn watched(fault: WatchFault, quiet: bool) -> Vec<String> {
    let simulator = simulator();
    let (_, list) = send(&simulator, Method::GET, MAPS, Value::Null)
        .await
        .expect("an answer");
    let version = list
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    create(&simulator, "a").await;
    put(&simulator, "a", "2").await;
    create(&simulator, "b").await;
    if !quiet {
        put(&simulator, "b", "2").await;
        put(&simulator, "a", "3").await;
    }
    let (_, client) = client(&simulator, Plan::at(0, Fault::Watch { fault }));
    let uri = format!("{MAPS}?watch=1&resourceVersion={version}");
    let response = client
        .oneshot(request(Method::GET, &uri, &Value::Null))
        .await
        .expect("a head");
    let mut body = response.into_body();
    let mut told = Vec::new();
    let mut text = Vec::new();
    loop {
        match timeout(Duration::from_secs(10), body.frame()).await {
            Ok(Some(Ok(frame))) => text.extend_from_slice(frame.data_ref().map_or(&[], Bytes::as_ref)),
            Ok(Some(Err(_))) => {
                told.push("cut".to_owned());
                break;
            }
            Ok(None) | Err(_) => break,
        }
    }
    let events = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let event: Value = serde_json::from_slice(line).expect("an event");
            let text = |pointer: &str| {
                event
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            format!(
                "{} {} {}",
                text("/type"),
                text("/object/metadata/name"),
                text("/object/data/a")
            )
        });
    events.chain(told).collect()
}

#[tokio::test(start_paused = true)]
async fn events_of_a_watch_are_lost_coalesced_late_and_cut_off() {
    let all = ["ADDED a 1", "MODIFIED a 2", "ADDED b 1", "MODIFIED b 2", "MODIFIED a 3"];
    assert_eq!(watched(WatchFault::Lost(99), false).await, all);
    assert_eq!(
        watched(WatchFault::Lost(1), false).await,
        ["ADDED a 1", "ADDED b 1", "MODIFIED b 2", "MODIFIED a 3"]
    );
    assert_eq!(
        watched(WatchFault::Coalesced(0), false).await,
        ["ADDED a 2", "ADDED b 1", "MODIFIED b 2", "MODIFIED a 3"]
    );
    assert_eq!(
        watched(WatchFault::Coalesced(1), false).await,
        all,
        "the next is of another object"
    );
    assert_eq!(
        watched(WatchFault::Late { event: 1, by: 1 }, false).await,
        ["ADDED a 1", "ADDED b 1", "MODIFIED a 2", "MODIFIED b 2", "MODIFIED a 3"]
    );
    assert_eq!(
        watched(WatchFault::Late { event: 1, by: 9 }, false).await,
        ["ADDED a 1", "ADDED b 1", "MODIFIED b 2", "MODIFIED a 2", "MODIFIED a 3"],
        "but never after a later one of the same object"
    );
    assert_eq!(
        watched(WatchFault::Late { event: 2, by: 1 }, true).await,
        ["ADDED a 1", "MODIFIED a 2", "ADDED b 1"],
        "late, not lost, though nothing follows"
    );
    assert_eq!(
        watched(WatchFault::Cut(2), false).await,
        ["ADDED a 1", "MODIFIED a 2", "cut"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_later_page_is_expired_and_a_first_one_is_not() {
    let simulator = simulator();
    create(&simulator, "a").await;
    let every = When::Matches(Matches {
        verb: Some("list".to_owned()),
        ..Matches::default()
    });
    let (faults, client) = client(&simulator, Plan::default().and(every, Fault::PageExpired));
    let (status, page) = send(&client, Method::GET, &format!("{MAPS}?limit=1"), Value::Null)
        .await
        .expect("an answer");
    assert_eq!(status, StatusCode::OK);
    let token = page
        .pointer("/metadata/continue")
        .and_then(Value::as_str)
        .expect("a token");
    let next = format!("{MAPS}?limit=1&continue={token}");
    let (status, failure) = send(&client, Method::GET, &next, Value::Null).await.expect("an answer");
    assert_eq!(
        (status, failure.get("reason")),
        (StatusCode::GONE, Some(&json!("Expired")))
    );
    assert_eq!(missed(&faults.trace()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rule_means_only_what_it_looks_for_and_only_the_one_it_counts() {
    let simulator = simulator();
    let second = When::Matches(Matches {
        verb: Some("create".to_owned()),
        resource: Some("configmaps".to_owned()),
        namespace: Some("default".to_owned()),
        nth: Some(1),
        ..Matches::default()
    });
    let fault = Fault::Error {
        error: ApiError::Unavailable,
        commit: Moment::Before,
    };
    let (_, client) = client(&simulator, Plan::default().and(second, fault));
    send(&client, Method::GET, MAPS, Value::Null).await.expect("an answer");
    send(
        &client,
        Method::POST,
        "/api/v1/namespaces/kube-system/configmaps",
        map("a", "1"),
    )
    .await
    .expect("an answer");
    let mut codes = Vec::new();
    for name in ["a", "b", "c"] {
        codes.push(
            send(&client, Method::POST, MAPS, map(name, "1"))
                .await
                .expect("an answer")
                .0
                .as_u16(),
        );
    }
    assert_eq!(codes, [201, 503, 201]);
}

/// A caller that makes three objects, one after the other, and then looks at them.
async fn caller<S>(client: S) -> usize
where
    S: Service<
            Request<Full<Bytes>>,
            Response = http::Response<chandlery_simulator::faults::AnswerBody>,
            Error = BoxError,
        > + Clone,
{
    for name in ["a", "b", "c"] {
        // One that is there already is as good as one that is made.
        let _ = send(&client, Method::POST, MAPS, map(name, "1")).await;
    }
    let (_, list) = send(&client, Method::GET, MAPS, Value::Null).await.expect("an answer");
    list.pointer("/items").and_then(Value::as_array).map_or(0, Vec::len)
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_stopped_at_any_request_and_the_next_goes_on_from_there() {
    let beginning = simulator();
    let (faults, undisturbed) = client(&beginning.fork(), Plan::default());
    let Ran::Finished(objects) = faults.run(caller(undisturbed)).await else {
        panic!("nobody stopped it")
    };
    let trace = faults.trace();
    let mut stopped = Vec::new();
    for entry in &trace {
        for fault in [Stop::BeforeSent, Stop::AfterCommit, Stop::AfterReply].map(|at| Fault::Crash { at }) {
            let world = beginning.fork();
            let (faults, first) = client(&world, Plan::at(entry.call, fault.clone()));
            assert_eq!(
                faults.run(caller(first.clone())).await,
                Ran::Crashed,
                "{fault:?} at {}",
                entry.call
            );
            let made = {
                let (_, list) = send(&world, Method::GET, MAPS, Value::Null).await.expect("an answer");
                list.pointer("/items").and_then(Value::as_array).map_or(0, Vec::len)
            };
            stopped.push(made);
            // What is left of it is heard no more.
            let late = send(&first, Method::POST, MAPS, map("late", "1"));
            assert!(timeout(Duration::from_secs(60), late).await.is_err());
            assert!(!has(&world, &format!("{MAPS}/late")).await);
            let (faults, again) = client(&world, Plan::default());
            assert_eq!(faults.run(caller(again)).await, Ran::Finished(objects));
        }
    }
    // The namespace has one of its own; after each write there is one more.
    assert_eq!(stopped, [1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4]);
    let places: usize = trace.iter().map(|entry| Fault::crashes(entry).len()).sum();
    assert_eq!(places, 3 * 2 + 1, "r + 2w");
}

#[tokio::test(start_paused = true)]
async fn two_callers_send_in_the_order_they_are_told() {
    // Two that would both take the same thing; who writes first has it.
    let take = |client: Faulty<Simulator>, who: &'static str| async move {
        let (status, _) = send(&client, Method::GET, MAP, Value::Null).await.expect("an answer");
        let (made, _) = send(&client, Method::POST, MAPS, map("a", who))
            .await
            .expect("an answer");
        (status.as_u16(), made.as_u16())
    };
    let orders = Turns::all_of_two(2, 2);
    assert_eq!(orders.len(), 6);
    for order in orders {
        let simulator = simulator();
        let turns = Turns::new(order.clone());
        let callers = [0, 1].map(|number| Faults::new(Plan::default()).in_turn(&turns, number));
        let [first, second] = callers.each_ref().map(|faults| faults.layer(simulator.clone()));
        let (one, other) = futures::join!(take(first, "0"), take(second, "1"));
        assert_eq!(turns.taken(), order);
        let made = [one.1, other.1];
        // Who has its second turn first, writes first.
        let second_turn = |caller: usize| order.iter().rposition(|turn| *turn == caller);
        let expected = if second_turn(0) < second_turn(1) {
            [201, 409]
        } else {
            [409, 201]
        };
        assert_eq!(made, expected, "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_takes_passes() {
    let simulator = simulator();
    let turns = Turns::new(vec![1, 1, 0]);
    let faults = Faults::new(Plan::default()).in_turn(&turns, 0);
    let (status, _) = send(&faults.layer(simulator), Method::GET, MAPS, Value::Null)
        .await
        .expect("an answer");
    assert_eq!((status, turns.taken()), (StatusCode::OK, vec![0]));
}

#[tokio::test(start_paused = true)]
async fn a_trace_is_text_and_a_plan_that_does_the_same_again() {
    let beginning = simulator();
    create(&beginning, "b").await;
    let run = |plan: Plan| {
        let world = beginning.fork();
        async move {
            let (faults, client) = client(&world, plan);
            let patient = async {
                for (method, uri, body) in [
                    (Method::GET, MAP, Value::Null),
                    (Method::POST, MAPS, map("a", "1")),
                    (Method::PATCH, MAP, json!({"data": {"a": "2"}})),
                    (
                        Method::GET,
                        "/api/v1/namespaces/default/configmaps?limit=1",
                        Value::Null,
                    ),
                    (Method::DELETE, MAP, Value::Null),
                ] {
                    let _ = timeout(Duration::from_secs(100), send(&client, method, uri, body)).await;
                }
            };
            faults.run(patient).await;
            let (_, end) = send(&world, Method::GET, MAPS, Value::Null).await.expect("an answer");
            (faults.trace(), end)
        }
    };
    let (undisturbed, _) = run(Plan::default()).await;
    assert_eq!(undisturbed.len(), 5);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let plan = Plan::random(seed, &undisturbed, 2);
        assert_eq!(plan, Plan::random(seed, &undisturbed, 2));
        let (trace, end) = run(plan).await;
        let text = lines(&trace);
        let read = read_lines(&text).expect("a trace");
        assert_eq!(read, trace);
        let (again, end_again) = run(Plan::of(&read)).await;
        assert_eq!((again, end_again), (trace.clone(), end), "seed {seed}\n{text}");
        seen.extend(trace.iter().flat_map(|entry| &entry.faults).map(|done| {
            let fault = serde_json::to_value(&done.fault).expect("a fault");
            fault.get("do").and_then(Value::as_str).unwrap_or_default().to_owned()
        }));
    }
    let all = [
        "crash",
        "cut-answer",
        "error",
        "hang",
        "replaced",
        "slow",
        "stale",
        "third-party",
    ];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), all);
    assert!(read_lines("{}\n").is_err_and(|error| error.line == 1));
}

#[tokio::test(start_paused = true)]
async fn a_trace_holds_no_body() {
    let (faults, client) = client(&simulator(), Plan::default());
    send(&client, Method::POST, MAPS, map("a", "secret"))
        .await
        .expect("an answer");
    let text = lines(&faults.trace());
    assert!(!text.contains("secret") && text.contains("\"body\":"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_a_stopped_caller_has_spawned_is_not_heard() {
    let simulator = simulator();
    let (faults, client) = client(&simulator, Plan::at(0, Fault::Crash { at: Stop::AfterCommit }));
    let begin = Arc::new(tokio::sync::Notify::new());
    let spawned = {
        let (client, begin) = (client.clone(), Arc::clone(&begin));
        tokio::spawn(async move {
            begin.notified().await;
            send(&client, Method::POST, MAPS, map("late", "1")).await.is_ok()
        })
    };
    assert_eq!(faults.run(caller(client)).await, Ran::Crashed);
    begin.notify_one();
    assert!(timeout(Duration::from_secs(60), spawned).await.is_err());
    assert!(!has(&simulator, &format!("{MAPS}/late")).await);
}
