//! Scripted Jobs, pods and APIServices: nothing happens without a script, and with one what a real cluster does.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail like tests"
)]

use bytes::Bytes;
use chandlery_simulator::{ApiServiceScript, Clock, JobScript, Outcome, Script, Settings, Simulator, World};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::BodyExt;
use jiff::SignedDuration;
use serde_json::{Value, json};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/a";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn scripted(outcome: Outcome) -> Simulator {
    let simulator = Simulator::new(Settings::default());
    simulator.with_world(|world| world.script(Script::jobs(outcome)));
    simulator
}

fn running_for(outcome: Outcome, seconds: i64) -> Script {
    Script {
        jobs: vec![JobScript {
            namespace: Some("default".to_owned()),
            name: "a*".to_owned(),
            outcome,
            runs: SignedDuration::from_secs(seconds),
        }],
        ..Script::default()
    }
}

async fn send(simulator: &Simulator, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
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
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    let uri: Uri = path.parse().expect("a path");
    let response = simulator.respond(&method, &uri, &headers, body);
    let code = response.status();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
    (code, value)
}

async fn create(simulator: &Simulator, spec: Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    let (code, made) = send(simulator, Method::POST, JOBS, job).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    made
}

async fn job(simulator: &Simulator) -> Value {
    let (code, found) = send(simulator, Method::GET, JOB, Value::Null).await;
    assert_eq!(code, StatusCode::OK, "{found}");
    found
}

async fn pods(simulator: &Simulator) -> Vec<Value> {
    let (_, list) = send(simulator, Method::GET, PODS, Value::Null).await;
    list.pointer("/items")
        .and_then(Value::as_array)
        .cloned()
        .expect("items")
}

fn advance(simulator: &Simulator, seconds: i64) {
    simulator.with_world(|world| world.advance(SignedDuration::from_secs(seconds)));
}

/// The conditions that hold, with their reasons.
fn conditions(document: &Value) -> Vec<String> {
    document
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|one| one.get("status") == Some(&json!("True")))
        .map(|one| {
            let text = |field: &str| one.get(field).and_then(Value::as_str).unwrap_or_default();
            format!("{} {}", text("type"), text("reason"))
        })
        .collect()
}

fn phases(pods: &[Value]) -> Vec<&str> {
    let mut phases: Vec<&str> = pods
        .iter()
        .map(|pod| pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default())
        .collect();
    phases.sort_unstable();
    phases
}

fn number(document: &Value, pointer: &str) -> i64 {
    document.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

#[tokio::test]
async fn without_a_script_a_job_stays_as_it_is_written() {
    let simulator = Simulator::new(Settings::default());
    create(&simulator, json!({})).await;
    advance(&simulator, 3_600);
    assert_eq!(job(&simulator).await.get("status"), Some(&json!({})));
    assert!(pods(&simulator).await.is_empty());
    // Neither does a script for other names concern it.
    simulator.with_world(|world| {
        world.script(Script {
            jobs: vec![JobScript {
                name: "b".to_owned(),
                ..running_for(Outcome::Succeed, 0).jobs.remove(0)
            }],
            ..Script::default()
        });
    });
    assert!(pods(&simulator).await.is_empty());
}

#[tokio::test]
async fn a_job_that_succeeds_is_complete_and_its_pod_stays() {
    let simulator = scripted(Outcome::Succeed);
    create(&simulator, json!({})).await;
    let job = job(&simulator).await;
    assert_eq!(
        conditions(&job),
        ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]
    );
    let mut status = job.get("status").cloned().expect("a status");
    status.as_object_mut().expect("a map").remove("conditions");
    assert_eq!(
        status,
        json!({
            "completionTime": "1970-01-01T00:00:00Z",
            "ready": 0,
            "startTime": "1970-01-01T00:00:00Z",
            "succeeded": 1,
            "terminating": 0,
            "uncountedTerminatedPods": {},
        })
    );
    let pods = pods(&simulator).await;
    assert_eq!(phases(&pods), ["Succeeded"]);
    assert_eq!(pods[0].pointer("/metadata/finalizers"), None, "it is counted");
    assert_eq!(
        pods[0].pointer("/metadata/ownerReferences/0/uid"),
        job.pointer("/metadata/uid")
    );
}

#[tokio::test]
async fn a_pod_runs_as_long_as_its_script_says() {
    let simulator = Simulator::new(Settings::default());
    simulator.with_world(|world| world.script(running_for(Outcome::Succeed, 90)));
    create(&simulator, json!({})).await;
    let found = job(&simulator).await;
    assert_eq!(
        (number(&found, "/status/active"), number(&found, "/status/ready")),
        (1, 1)
    );
    let pods_now = pods(&simulator).await;
    assert_eq!(phases(&pods_now), ["Running"]);
    assert_eq!(
        pods_now[0].pointer("/metadata/finalizers/0"),
        Some(&json!("batch.kubernetes.io/job-tracking"))
    );
    advance(&simulator, 89);
    assert_eq!(phases(&pods(&simulator).await), ["Running"]);
    // However long the leap: it ended when it was due.
    advance(&simulator, 3_600);
    assert_eq!(
        job(&simulator).await.pointer("/status/completionTime"),
        Some(&json!("1970-01-01T00:01:30Z"))
    );
}

#[tokio::test]
async fn a_job_that_fails_is_tried_again_as_often_as_it_may_and_ever_later() {
    let simulator = scripted(Outcome::Fail);
    create(&simulator, json!({"backoffLimit": 2})).await;
    let mut failures = vec![number(&job(&simulator).await, "/status/failed")];
    for seconds in [9, 1, 19, 1] {
        advance(&simulator, seconds);
        failures.push(number(&job(&simulator).await, "/status/failed"));
    }
    assert_eq!(failures, [1, 1, 2, 2, 3]);
    let job = job(&simulator).await;
    assert_eq!(
        conditions(&job),
        ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]
    );
    assert_eq!(phases(&pods(&simulator).await), ["Failed", "Failed", "Failed"]);
    advance(&simulator, 86_400);
    assert_eq!(pods(&simulator).await.len(), 3, "it is over");
}

#[tokio::test]
async fn with_no_retries_the_first_failure_is_the_last() {
    let simulator = scripted(Outcome::Fail);
    create(&simulator, json!({"backoffLimit": 0})).await;
    assert_eq!(
        conditions(&job(&simulator).await).last().map(String::as_str),
        Some("Failed BackoffLimitExceeded")
    );
    assert_eq!(pods(&simulator).await.len(), 1);
}

#[tokio::test]
async fn a_job_that_hangs_is_stopped_at_its_deadline_and_its_pod_when_its_grace_is_over() {
    let simulator = scripted(Outcome::Hang);
    create(&simulator, json!({"activeDeadlineSeconds": 60, "backoffLimit": 0})).await;
    advance(&simulator, 59);
    assert_eq!(phases(&pods(&simulator).await), ["Running"]);
    advance(&simulator, 1);
    let found = job(&simulator).await;
    assert_eq!(conditions(&found), ["FailureTarget DeadlineExceeded"]);
    assert_eq!(number(&found, "/status/terminating"), 1);
    advance(&simulator, 29);
    assert_eq!(pods(&simulator).await.len(), 1);
    advance(&simulator, 1);
    assert!(pods(&simulator).await.is_empty());
    assert_eq!(
        conditions(&job(&simulator).await),
        ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]
    );
}

#[tokio::test]
async fn a_duplicate_pod_runs_beside_the_first() {
    let simulator = Simulator::new(Settings::default());
    simulator.with_world(|world| world.script(running_for(Outcome::DuplicatePod, 10)));
    create(&simulator, json!({})).await;
    assert_eq!(phases(&pods(&simulator).await), ["Running", "Running"]);
    advance(&simulator, 10);
    assert_eq!(phases(&pods(&simulator).await), ["Succeeded", "Succeeded"]);
    let job = job(&simulator).await;
    assert_eq!(number(&job, "/status/succeeded"), 2);
    assert!(conditions(&job).contains(&"Complete CompletionsReached".to_owned()));
}

#[tokio::test]
async fn a_replaced_pod_is_a_failure_and_the_next_one_succeeds() {
    for (policy, limit) in [("TerminatingOrFailed", 1), ("Failed", 1), ("Failed", 0)] {
        let simulator = Simulator::new(Settings::default());
        simulator.with_world(|world| world.script(running_for(Outcome::ReplacedPod, 10)));
        create(
            &simulator,
            json!({"podReplacementPolicy": policy, "backoffLimit": limit}),
        )
        .await;
        let first = pods(&simulator).await[0].pointer("/metadata/uid").cloned();
        advance(&simulator, 3_600);
        let job = job(&simulator).await;
        let end = conditions(&job).last().cloned().unwrap_or_default();
        if limit == 0 {
            assert_eq!(end, "Failed BackoffLimitExceeded");
            continue;
        }
        assert_eq!(end, "Complete CompletionsReached", "{policy}");
        assert_eq!(
            (number(&job, "/status/failed"), number(&job, "/status/succeeded")),
            (1, 1)
        );
        let left = pods(&simulator).await;
        assert_eq!(phases(&left), ["Succeeded"]);
        assert_ne!(left[0].pointer("/metadata/uid").cloned(), first);
    }
}

#[tokio::test]
async fn a_replacement_waits_for_the_end_of_what_it_replaces_only_if_the_policy_says_so() {
    for (policy, beside) in [("TerminatingOrFailed", 2), ("Failed", 1)] {
        let simulator = scripted(Outcome::Hang);
        create(&simulator, json!({"podReplacementPolicy": policy})).await;
        let name = pods(&simulator).await[0]["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        send(&simulator, Method::DELETE, &format!("{PODS}/{name}"), Value::Null).await;
        assert_eq!(
            pods(&simulator).await.len(),
            beside,
            "{policy}: while the first one stops"
        );
        // Nor is it counted as a failure before it is one.
        let failed = number(&job(&simulator).await, "/status/failed");
        assert_eq!(failed, i64::from(policy != "Failed"), "{policy}");
        advance(&simulator, 30);
        let left = pods(&simulator).await;
        assert_eq!(phases(&left), ["Running"], "{policy}");
        assert_ne!(left[0]["metadata"]["name"].as_str(), Some(name.as_str()));
    }
}

#[tokio::test]
async fn a_suspended_job_waits_and_one_that_is_suspended_later_loses_its_pods() {
    let simulator = scripted(Outcome::Hang);
    create(&simulator, json!({"suspend": true})).await;
    let suspended = job(&simulator).await;
    assert_eq!(conditions(&suspended), ["Suspended JobSuspended"]);
    assert_eq!(suspended.pointer("/status/startTime"), None);
    assert!(pods(&simulator).await.is_empty());
    advance(&simulator, 5);
    send(&simulator, Method::PATCH, JOB, json!({"spec": {"suspend": false}})).await;
    let resumed = job(&simulator).await;
    assert_eq!(
        resumed.pointer("/status/startTime"),
        Some(&json!("1970-01-01T00:00:05Z"))
    );
    assert_eq!(
        resumed.pointer("/status/conditions/0/reason"),
        Some(&json!("JobResumed"))
    );
    assert_eq!(phases(&pods(&simulator).await), ["Running"]);
    send(&simulator, Method::PATCH, JOB, json!({"spec": {"suspend": true}})).await;
    advance(&simulator, 30);
    assert!(pods(&simulator).await.is_empty());
    assert_eq!(conditions(&job(&simulator).await), ["Suspended JobSuspended"]);
    assert_eq!(job(&simulator).await.pointer("/status/startTime"), None);
    send(&simulator, Method::PATCH, JOB, json!({"spec": {"suspend": false}})).await;
    let again = job(&simulator).await;
    assert_eq!(again.pointer("/status/startTime"), Some(&json!("1970-01-01T00:00:35Z")));
}

#[tokio::test]
async fn pods_go_with_their_job_before_it_or_stay() {
    for (policy, job_at_once) in [("Background", true), ("Foreground", false), ("Orphan", true)] {
        let simulator = scripted(Outcome::Hang);
        create(&simulator, json!({})).await;
        send(&simulator, Method::DELETE, JOB, json!({"propagationPolicy": policy})).await;
        let (code, _) = send(&simulator, Method::GET, JOB, Value::Null).await;
        assert_eq!(code == StatusCode::NOT_FOUND, job_at_once, "{policy}");
        let left = pods(&simulator).await;
        assert_eq!(left.len(), 1, "{policy}: it still stops");
        assert_eq!(
            left[0].pointer("/metadata/deletionTimestamp").is_none(),
            policy == "Orphan"
        );
        advance(&simulator, 30);
        let left = pods(&simulator).await;
        assert_eq!(left.len(), usize::from(policy == "Orphan"), "{policy}");
        for orphan in left {
            assert_eq!(orphan.pointer("/metadata/finalizers"), None, "nobody would count it");
        }
        assert_eq!(
            send(&simulator, Method::GET, JOB, Value::Null).await.0,
            StatusCode::NOT_FOUND,
            "{policy}"
        );
    }
}

#[tokio::test]
async fn several_pods_run_at_once_and_no_more_than_are_wanted() {
    let simulator = Simulator::new(Settings::default());
    simulator.with_world(|world| world.script(running_for(Outcome::Succeed, 10)));
    create(&simulator, json!({"parallelism": 2, "completions": 5})).await;
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(
            phases(&pods(&simulator).await)
                .iter()
                .filter(|phase| **phase == "Running")
                .count(),
        );
        advance(&simulator, 10);
    }
    assert_eq!(running, [2, 2, 1, 0]);
    assert_eq!(number(&job(&simulator).await, "/status/succeeded"), 5);
}

#[tokio::test]
async fn a_finished_job_goes_when_its_time_to_live_is_over() {
    let simulator = scripted(Outcome::Succeed);
    create(&simulator, json!({"ttlSecondsAfterFinished": 100})).await;
    advance(&simulator, 99);
    job(&simulator).await;
    advance(&simulator, 1);
    assert_eq!(
        send(&simulator, Method::GET, JOB, Value::Null).await.0,
        StatusCode::NOT_FOUND
    );
    assert!(pods(&simulator).await.is_empty());
}

#[tokio::test]
async fn a_forked_world_has_its_own_jobs() {
    let simulator = Simulator::new(Settings::default());
    simulator.with_world(|world| world.script(running_for(Outcome::Succeed, 10)));
    create(&simulator, json!({})).await;
    let fork = simulator.fork();
    advance(&fork, 10);
    assert_eq!(phases(&pods(&fork).await), ["Succeeded"]);
    assert_eq!(phases(&pods(&simulator).await), ["Running"]);
}

#[tokio::test]
async fn an_api_service_is_available_as_its_script_says() {
    let simulator = Simulator::new(Settings::default());
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let service = json!({
        "metadata": {"name": "v1.metering.example.com"},
        "spec": {"group": "metering.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"name": "meter", "namespace": "default"}, "insecureSkipTLSVerify": true},
    });
    let meters = "/apis/metering.example.com/v1/meters";
    assert_eq!(
        send(&simulator, Method::GET, meters, Value::Null).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        send(&simulator, Method::POST, services, service).await.0,
        StatusCode::CREATED
    );
    assert_eq!(
        send(&simulator, Method::GET, meters, Value::Null).await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    for (available, code) in [
        (true, StatusCode::NOT_IMPLEMENTED),
        (false, StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let script = ApiServiceScript {
            name: "v1.metering*".to_owned(),
            available,
        };
        simulator.with_world(|world| {
            world.script(Script {
                api_services: vec![script],
                ..Script::default()
            })
        });
        let (_, found) = send(
            &simulator,
            Method::GET,
            &format!("{services}/v1.metering.example.com"),
            Value::Null,
        )
        .await;
        assert_eq!(!conditions(&found).is_empty(), available, "{found}");
        assert_eq!(send(&simulator, Method::GET, meters, Value::Null).await.0, code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_may_live_in_the_time_of_the_runtime_and_watches_see_what_happens_by_itself() {
    let simulator = Simulator::of(World::new(Settings::default()), Clock::Runtime);
    simulator.with_world(|world| world.script(running_for(Outcome::Succeed, 3_600)));
    let made = create(&simulator, json!({})).await;
    let version = made
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .expect("a version");
    let uri: Uri = format!("{JOBS}?watch=1&resourceVersion={version}&timeoutSeconds=7200")
        .parse()
        .expect("a path");
    let response = simulator.respond(&Method::GET, &uri, &HeaderMap::new(), Bytes::new());
    let told = response.into_body().collect().await.expect("events").to_bytes();
    let last: Value = told
        .split(|byte| *byte == b'\n')
        .rfind(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("an event"))
        .expect("an event");
    assert!(
        conditions(&last["object"]).contains(&"Complete CompletionsReached".to_owned()),
        "{last}"
    );
    assert_eq!(
        last.pointer("/object/status/completionTime"),
        Some(&json!("1970-01-01T01:00:00Z"))
    );
}
