//! One test per bad guest, of the same name: its own call ends, in words that help, and nothing else does.

use std::time::Duration;

use chandlery_core::cluster::{CallError, Problem};
use chandlery_core::limits::Limits;
use chandlery_core::task::{Failure, Outcome, WATCHED};
use chandlery_runtime::LoadError;
use serde_json::Value;

use crate::stub::Stub;
use crate::{limits, load, provision, runtime};

include!(concat!(env!("OUT_DIR"), "/foreach_bad_guest.rs"));

macro_rules! has_a_test {
    ($name:ident) => {
        #[allow(unused_imports)]
        use self::$name as _;
    };
}
foreach_bad_guest!(has_a_test);

async fn run(guest: &str, limits: &Limits) -> Result<Outcome, Failure> {
    provision(guest, &Stub::new(), Value::Null, limits).await
}

/// Asserts that the guest's call ends as a breach of contract, with this reason and these words.
async fn breaks(guest: &str, reason: &str, words: &str) {
    match run(guest, &limits()).await {
        Err(Failure::Broken { reason: found, message }) => {
            assert_eq!(found, reason, "{message}");
            assert!(message.contains(words), "{message}");
        }
        other => panic!("{guest}: {other:?}"),
    }
}

#[tokio::test]
async fn panics() {
    breaks("panics", "Panicked", "it panicked: the spec is odd at ").await;
}

#[tokio::test]
async fn traps() {
    breaks("traps", "Trapped", "unreachable").await;
}

#[tokio::test]
async fn loops() {
    load("loops").await.unwrap();
    let started = std::time::Instant::now();
    breaks("loops", "OutOfTime", "more than its 500 ms").await;
    // On a busy machine a tick comes late, but not seconds.
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test]
async fn recurses() {
    breaks("recurses", "Trapped", "recursion").await;
}

#[tokio::test]
async fn eats_memory() {
    breaks("eats_memory", "OutOfMemory", "64 MiB").await;
}

#[tokio::test]
async fn outputs_are_no_json() {
    breaks("outputs_are_no_json", "InvalidAnswer", "outputs is not JSON").await;
}

#[tokio::test]
async fn outputs_are_large() {
    breaks("outputs_are_large", "InvalidAnswer", "its outputs are 17410 bytes").await;
}

#[tokio::test]
async fn reason_is_a_sentence() {
    breaks("reason_is_a_sentence", "InvalidAnswer", "not yet, sorry").await;
}

#[tokio::test]
async fn hands_over_too_many_bytes() {
    breaks("hands_over_too_many_bytes", "Trapped", "hostcalls").await;
}

async fn description_breaks(guest: &str, expected: &str, words: &str) {
    let plugin = load(guest).await.unwrap();
    match runtime().describe(&plugin).await {
        Err(Failure::Broken { reason, message }) => {
            assert_eq!(reason, expected, "{message}");
            assert!(message.contains(words), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn schema_is_no_json() {
    description_breaks("schema_is_no_json", "InvalidAnswer", "spec-schema is not JSON").await;
}

#[tokio::test]
async fn loops_in_describe() {
    description_breaks("loops_in_describe", "OutOfTime", "2000 ms").await;
}

#[tokio::test]
async fn watches_a_thousand() {
    let Ok(Outcome::Yield(wait)) = run("watches_a_thousand", &limits()).await else {
        panic!()
    };
    assert_eq!((wait.watch.len(), wait.message.as_str()), (WATCHED, "two lines"));
    assert!(wait.watch.iter().all(|name| !name.name.contains('/')));
}

#[tokio::test]
async fn imports_unknown() {
    match load("imports_unknown").await {
        Err(LoadError::Incompatible(problems)) => {
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].contains("test:foreign/files@1.0.0"), "{problems:?}");
        }
        other => panic!("{:?}", other.err()),
    }
}

#[tokio::test]
async fn floods_the_log() {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(written.clone())
        .finish();
    let limits = Limits {
        log_bytes: 10_000,
        ..limits()
    };
    {
        let _capturing = tracing::subscriber::set_default(subscriber);
        assert!(run("floods_the_log", &limits).await.is_ok());
    }
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(text.len() < 15_000, "{}", text.len());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines.len(),
        11,
        "one forgery, nine lines of 1,000 bytes, and what was dropped: {text}"
    );
    assert!(
        lines[0].contains("one 2026-01-01T00:00:00Z ERROR plugin=other [31mforged"),
        "{}",
        lines[0]
    );
    assert!(
        lines[0].contains("plugin=floods_the_log provision=team-a/p step=s cluster=east"),
        "{}",
        lines[0]
    );
    assert!(lines[10].contains("991 more lines"), "{}", lines[10]);
}

#[tokio::test]
async fn floods_the_host() {
    let stub = Stub::new();
    let limits = Limits {
        host_calls: 20,
        ..limits()
    };
    let ended = provision("floods_the_host", &stub, Value::Null, &limits).await;
    assert!(
        matches!(&ended, Err(Failure::Call(CallError::Exhausted(text))) if text.contains("20 host calls")),
        "{ended:?}"
    );
    assert_eq!(
        stub.calls.lock().unwrap().len(),
        20,
        "what is not admitted reaches no cluster"
    );
}

#[tokio::test]
async fn hands_over_a_huge_list() {
    let stub = Stub::new();
    let ended = provision("hands_over_a_huge_list", &stub, Value::Null, &limits()).await;
    assert!(
        matches!(&ended, Err(Failure::Call(CallError::Exhausted(text))) if text.contains("5000 items")),
        "{ended:?}"
    );
    assert!(stub.calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn object_is_too_large() {
    let Err(Failure::Invalid(problems)) = run("object_is_too_large", &limits()).await else {
        panic!()
    };
    let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert!(
        messages[0].contains("1 MiB at most") && messages[1].contains("is not JSON"),
        "{messages:?}"
    );
}

#[tokio::test]
async fn asks_for_what_is_denied() {
    let ended = run("asks_for_what_is_denied", &limits()).await;
    assert_eq!(
        ended,
        Err(Failure::Call(CallError::Denied(
            "Secret a/s is not in the grant".into()
        )))
    );
}

#[tokio::test]
async fn answers_a_flood_of_problems() {
    let Err(Failure::Invalid(problems)) = run("answers_a_flood_of_problems", &limits()).await else {
        panic!()
    };
    assert_eq!(problems.len(), 100);
    assert_eq!(
        problems[1],
        Problem {
            path: "/1".into(),
            message: "x".repeat(20)
        }
    );
}

/// All at once, on two workers, beside a guest that behaves: its calls go on as if the others were not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_guest_leaves_the_calls_beside_it_alone() {
    load("well_behaved").await.unwrap();
    let bad = [
        "loops",
        "panics",
        "eats_memory",
        "recurses",
        "traps",
        "floods_the_host",
        "loops",
    ];
    let bad: Vec<_> = bad
        .into_iter()
        .map(|guest| tokio::spawn(async move { run(guest, &limits()).await }))
        .collect();
    for _ in 0..50 {
        let calls =
            serde_json::json!([{"get": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "name": "c"}]}]);
        let answered =
            tokio::time::timeout(Duration::from_secs(2), crate::answers(&Stub::new(), calls, &limits())).await;
        assert_eq!(answered.unwrap(), [serde_json::json!([null])]);
    }
    for guest in bad {
        assert!(guest.await.unwrap().is_err());
    }
}

/// Lines that were logged, kept.
#[derive(Clone, Default)]
struct Written(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Written {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}
