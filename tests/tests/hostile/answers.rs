//! What a server may answer to a step.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chandlery_core::cluster::{
    CallError, ClusterAccess as _, Deletion, DeletionState, JsonPatch, Propagation, Query, REQUEST_TIMEOUT,
};
use chandlery_core::grant::Grant;
use chandlery_core::memory::MemoryLedger;
use chandlery_core::ports::{Ledger as _, Scope as _};
use chandlery_core::record::{Mode, Receipt, Record, Target};
use chandlery_core::{Digest, Gvk, ObjectRef};
use chandlery_scope::{ClusterScope, Connection, ScopeOptions};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::server::{PATH, Server, Wire, config_map};

/// One step's scope on a server, and its ledger.
pub(super) struct Desk {
    pub(super) scope: ClusterScope,
    ledger: Arc<MemoryLedger>,
}

pub(super) fn desk(server: &Server) -> Desk {
    desk_by(server.connect(), server)
}

pub(super) fn desk_by(connection: Arc<Connection>, server: &Server) -> Desk {
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
    let ledger = Arc::new(MemoryLedger::new(Record::new("step".parse().unwrap(), receipt)));
    let options = ScopeOptions {
        grant: Grant::everything(),
        field_manager: "chandlery/uid/step".into(),
        owner_mark: "uid/step".into(),
        sealed_secrets: vec![],
    };
    Desk {
        scope: ClusterScope::new(connection, server.facts(), ledger.clone(), options),
        ledger,
    }
}

fn target() -> ObjectRef {
    ObjectRef::new("v1", "ConfigMap", Some("default"), "c")
}

impl Desk {
    pub(super) async fn get(&self) -> Result<Option<Value>, CallError> {
        self.scope.get(vec![target()]).await.remove(0)
    }

    pub(super) async fn apply(&self) -> Result<(), CallError> {
        self.scope.apply(vec![document()], false).await.remove(0)
    }

    async fn create(&self) -> Result<(), CallError> {
        self.scope.create(vec![document()]).await.remove(0)
    }

    async fn delete(&self) -> Result<DeletionState, CallError> {
        let deletion = Deletion {
            target: target(),
            uid: "1".parse().unwrap(),
            propagation: Propagation::Background,
        };
        self.scope.delete(vec![deletion]).await.remove(0)
    }

    async fn patch(&self) -> Result<(), CallError> {
        let patch = JsonPatch {
            target: target(),
            subresource: None,
            patch: json!([{"op": "add", "path": "/data", "value": {"a": "1"}}]),
        };
        self.scope.patch(vec![patch]).await.remove(0)
    }

    async fn list(&self) -> Result<usize, CallError> {
        let query = Query {
            gvk: target().gvk,
            namespace: Some("default".into()),
            label_selector: String::new(),
            field_selector: String::new(),
            metadata_only: false,
            continue_token: None,
        };
        Ok(self.scope.list(query).await?.items.len())
    }
}

fn document() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "c"}})
}

/// That a step on another cluster does its work meanwhile.
pub(super) async fn assert_other_goes_on() {
    let other = Server::honest();
    let desk = desk(&other);
    desk.apply().await.unwrap();
    assert_eq!(desk.get().await.unwrap().unwrap()["metadata"]["uid"], "1");
    assert_eq!(desk.list().await, Ok(1));
}

/// What reading the object comes to on a server that does this with it, while another cluster's step goes on.
pub(super) async fn read_from(
    behaviour: impl Fn(&mut Wire) -> std::io::Result<()> + Send + Sync + 'static,
) -> (CallError, Server) {
    let server = Server::start(move |asked, wire| asked.is("GET", PATH).then(|| behaviour(wire)));
    let desk = desk(&server);
    let both = async { tokio::join!(desk.get(), assert_other_goes_on()) };
    let (read, ()) = tokio::time::timeout(chandlery_tests::wait::DEADLINE, both)
        .await
        .unwrap();
    (read.unwrap_err(), server)
}

#[track_caller]
pub(super) fn assert_unavailable(error: &CallError, part: &str) {
    match error {
        CallError::Unavailable(message) => {
            assert!(message.contains(part) && message.len() < 1000, "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_body_without_end_is_cut() {
    let (error, server) = read_from(|wire| {
        wire.begin()?;
        wire.for_ever(&[b' '; 4096])
    })
    .await;
    assert_unavailable(&error, "cut or too large");
    // Three tries of 32 MiB, and what the sockets between hold.
    assert!(server.sent() < 120 << 20, "{} bytes", server.sent());
}

#[tokio::test]
async fn a_head_without_end_is_cut() {
    let (error, server) = read_from(|wire| {
        wire.write_all(b"HTTP/1.1 200 OK\r\n")?;
        wire.for_ever(b"X-More: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n")
    })
    .await;
    assert_unavailable(&error, "cannot be reached");
    assert!(server.sent() < 24 << 20, "{} bytes", server.sent());
}

#[tokio::test]
async fn a_body_that_comes_drop_by_drop_is_given_up_when_its_time_is_over() {
    let dripping = Arc::new(Notify::new());
    let tells = dripping.clone();
    let server = Server::start(move |asked, wire| {
        asked.is("GET", PATH).then(|| {
            wire.begin()?;
            tells.notify_one();
            loop {
                wire.write_all(b" ")?;
                wire.flush()?;
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    });
    let desk = desk(&server);
    let clock = async {
        for _ in 0..3 {
            let drips = tokio::time::timeout(chandlery_tests::wait::DEADLINE, dripping.notified());
            drips.await.expect("it is tried again when its time is over");
            assert_other_goes_on().await;
            tokio::time::pause();
            tokio::time::advance(REQUEST_TIMEOUT).await;
            tokio::time::resume();
        }
    };
    let (read, ()) = tokio::join!(desk.get(), clock);
    assert_unavailable(&read.unwrap_err(), "did not answer within 15 s");
}

#[tokio::test]
async fn a_connection_that_is_cut_is_tried_again_and_then_told() {
    let (error, server) = read_from(|wire| {
        wire.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")?;
        wire.flush()?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    })
    .await;
    assert_unavailable(&error, "cut or too large");
    assert_eq!(server.asked_for(PATH), 3);
}

#[tokio::test]
async fn what_is_no_http_is_told() {
    let (error, _) = read_from(|wire| {
        wire.write_all(b"220 mail.example ESMTP\r\n\r\n")?;
        wire.flush()?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    })
    .await;
    assert_unavailable(&error, "cannot be reached");
}

#[tokio::test]
async fn truncated_json_is_no_object() {
    let (error, _) =
        read_from(|wire| wire.answer(200, "", br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"#)).await;
    assert_unavailable(&error, "is not");
}

#[tokio::test]
async fn json_that_is_nested_without_end_is_no_object() {
    let (error, _) = read_from(|wire| wire.answer(200, "", &vec![b'['; 1 << 20])).await;
    assert_unavailable(&error, "is not");
}

#[tokio::test]
async fn an_object_of_another_kind_or_name_is_not_taken_for_the_one_that_was_asked_for() {
    for (pointer, value) in [
        ("/kind", "Secret"),
        ("/metadata/name", "d"),
        ("/metadata/namespace", "kube-system"),
    ] {
        let (error, _) = read_from(move |wire| {
            let mut other = config_map();
            *other.pointer_mut(pointer).unwrap() = value.into();
            wire.json(200, &other)
        })
        .await;
        assert_unavailable(&error, "ConfigMap");
    }
}

#[tokio::test]
async fn a_failure_that_is_called_a_success_is_a_failure_to_each_act() {
    fn failure(wire: &mut Wire) -> std::io::Result<()> {
        wire.json(
            200,
            &json!({"kind": "Status", "status": "Failure", "message": "the disk is full"}),
        )
    }
    let (error, _) = read_from(failure).await;
    assert_unavailable(&error, "the disk is full");
    let server = Server::start(|asked, wire| (asked.method != "GET").then(|| failure(wire)));
    let desk = desk(&server);
    assert_unavailable(&desk.apply().await.unwrap_err(), "the disk is full");
    assert_unavailable(&desk.patch().await.unwrap_err(), "the disk is full");
    assert_unavailable(&desk.delete().await.unwrap_err(), "the disk is full");
    assert!(desk.scope.named().is_empty());
    let entry = desk.ledger.entry(&target()).unwrap();
    assert_eq!(entry.mode, Mode::Joined, "as it was found");
}

#[tokio::test]
async fn a_write_that_is_answered_with_another_object_is_not_taken_for_done() {
    let server = Server::start(|asked, wire| {
        let mut other = config_map();
        other["metadata"]["name"] = "d".into();
        other["metadata"]["uid"] = "2".into();
        match asked.method.as_str() {
            "GET" if asked.is("GET", PATH) => {
                Some(wire.json(404, &json!({"kind": "Status", "details": {"kind": "configmaps"}})))
            }
            "GET" => None,
            _ => Some(wire.json(201, &other)),
        }
    });
    let desk = desk(&server);
    assert_unavailable(&desk.create().await.unwrap_err(), "ConfigMap");
    assert_unavailable(&desk.apply().await.unwrap_err(), "ConfigMap");
    assert_eq!(
        desk.ledger.entry(&target()).unwrap().uid,
        None,
        "the other's UID is not entered"
    );
}

#[tokio::test]
async fn a_deletion_that_is_answered_with_anything_else_is_not_taken_for_done() {
    for answer in ["", "null", "[]", "{}"] {
        let server = Server::start(move |asked, wire| {
            (asked.method == "DELETE").then(|| wire.answer(200, "", answer.as_bytes()))
        });
        assert_unavailable(&desk(&server).delete().await.unwrap_err(), "what became of");
    }
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let elsewhere = Arc::new(Server::honest());
    let location = format!("Location: https://127.0.0.1:{}{PATH}\r\n", elsewhere.port());
    let (error, _) = read_from(move |wire| wire.answer(307, &location, b"")).await;
    assert!(
        matches!(&error, CallError::Denied(message) if message.contains("redirect")),
        "{error}"
    );
    assert_eq!(elsewhere.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn an_absurd_retry_after_holds_nobody_up() {
    for after in [
        "4294967295",
        "99999999999999999999999",
        "-1",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ] {
        let headers = format!("Retry-After: {after}\r\n");
        let server = Server::start(move |asked, wire| {
            (asked.method != "GET").then(|| wire.answer(503, &headers, br#"{"message":"later"}"#))
        });
        let desk = desk(&server);
        let (applied, ()) = tokio::join!(desk.apply(), assert_other_goes_on());
        assert_unavailable(&applied.unwrap_err(), "later");
        assert_eq!(server.asked_for("PATCH"), 1, "a write is sent once");
    }
    let (error, server) = read_from(|wire| wire.answer(429, "Retry-After: 4294967295\r\n", b"{}")).await;
    assert_unavailable(&error, "HTTP 429");
    assert_eq!(
        server.asked_for(PATH),
        3,
        "a read is sent three times, soon after one another"
    );
}

#[tokio::test]
async fn causes_without_end_are_told_up_to_a_hundred() {
    let server = Server::start(|asked, wire| {
        let cause = json!({"field": "a".repeat(100_000), "message": "b ".repeat(1000)});
        let body = json!({"kind": "Status", "details": {"causes": vec![cause; 200]}});
        (asked.method == "PATCH").then(|| wire.json(422, &body))
    });
    match desk(&server).apply().await.unwrap_err() {
        CallError::Invalid(problems) => {
            assert_eq!(problems.len(), 100);
            assert!(
                problems
                    .iter()
                    .all(|problem| problem.path.len() < 1000 && problem.message.len() < 1000)
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_list_that_is_none_is_told() {
    for body in ["{}", "[]", "null", r#"{"items": {}}"#, r#"{"items": "x"}"#] {
        let server = Server::start(move |asked, wire| {
            asked
                .uri
                .contains("/configmaps?")
                .then(|| wire.answer(200, "", body.as_bytes()))
        });
        assert_unavailable(&desk(&server).list().await.unwrap_err(), "is no list");
    }
}

#[tokio::test]
async fn kinds_that_lead_out_of_their_path_or_have_no_end_are_not_taken_in() {
    let server = Server::start(|asked, wire| {
        let many = (0..2000).map(|n| json!({"name": format!("n{n}"), "kind": format!("N{n}"), "namespaced": true}));
        let out = json!({"name": "../../secrets", "kind": "Out", "namespaced": true});
        let resources: Vec<Value> = std::iter::once(out).chain(many).collect();
        asked
            .is("GET", "/api/v1")
            .then(|| wire.json(200, &json!({"resources": resources})))
    });
    let desk = desk(&server);
    for kind in ["Out", "N1500"] {
        let target = ObjectRef {
            gvk: Gvk {
                api_version: "v1".into(),
                kind: kind.into(),
            },
            ..target()
        };
        let error = desk.scope.get(vec![target]).await.remove(0).unwrap_err();
        assert!(matches!(error, CallError::NotFound(_)), "{error}");
    }
    assert_eq!(server.asked_for("/namespaces/"), 0, "{:?}", server.asked());
}

#[tokio::test]
async fn a_cluster_that_comes_and_goes_is_left_alone_meanwhile_and_then_used_again() {
    let is_down = Arc::new(AtomicBool::new(true));
    let gate = is_down.clone();
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = connections.clone();
    let server = Server::gated(
        move |_: &TcpStream| {
            counted.fetch_add(1, Ordering::Relaxed);
            !gate.load(Ordering::Relaxed)
        },
        |_, _| None,
    );
    let desk = desk(&server);
    // Each read is tried three times: the fifth failure is in the second.
    for _ in 0..2 {
        assert_unavailable(&desk.get().await.unwrap_err(), "");
    }
    let before = connections.load(Ordering::Relaxed);
    let told = desk.patch().await.unwrap_err();
    assert_unavailable(&told, "is asked again within");
    assert_unavailable(&desk.get().await.unwrap_err(), "is asked again within");
    assert_eq!(connections.load(Ordering::Relaxed), before, "it is left alone");
    assert_other_goes_on().await;
    is_down.store(false, Ordering::Relaxed);
    let begun = std::time::Instant::now();
    while desk.get().await.is_err() {
        assert!(begun.elapsed() < chandlery_tests::wait::DEADLINE, "it is used again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..10 {
        desk.get().await.unwrap();
    }
}
