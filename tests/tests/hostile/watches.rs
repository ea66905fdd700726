//! What a server may do to a watch.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chandlery_core::ObjectRef;
use chandlery_core::cluster::Watched;
use chandlery_scope::{Subscriber, Watches};
use serde_json::json;

use super::server::{Asked, Server};
use super::until;

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

fn is_watch(asked: &Asked) -> bool {
    asked.is("GET", COLLECTION) && asked.uri.contains("watch=true")
}

fn is_list(asked: &Asked) -> bool {
    asked.is("GET", COLLECTION) && !asked.uri.contains("watch=true")
}

fn subscriber(provision: &str) -> Subscriber {
    Subscriber {
        namespace: "default".into(),
        provision: provision.into(),
        uid: provision.parse().unwrap(),
        step: "step".parse().unwrap(),
    }
}

/// The ConfigMap, seen at this version.
fn seen(version: &str) -> Vec<Watched> {
    vec![Watched {
        target: ObjectRef::new("v1", "ConfigMap", Some("default"), "c"),
        seen: Some(version.into()),
    }]
}

/// That a watch on this server is given up, is not opened again by the next pass, and that one on another server still wakes.
async fn assert_given_up(server: &Server) {
    let (watches, mut woken) = Watches::new();
    let connection = server.connect();
    watches.set(&subscriber("p"), &connection, seen("1")).await;
    assert_eq!(watches.open(), 1);
    until("the watch is given up", || watches.open() == 0).await;
    let before = server.asked().len();
    watches.set(&subscriber("p"), &connection, seen("1")).await;
    assert_other_wakes(&watches, &mut woken).await;
    assert_eq!(server.asked().len(), before, "not asked again: {:?}", server.asked());
}

async fn assert_other_wakes(watches: &Arc<Watches>, woken: &mut tokio::sync::mpsc::UnboundedReceiver<Subscriber>) {
    let other = Server::honest();
    // Its object is newer than what was seen.
    watches.set(&subscriber("other"), &other.connect(), seen("0")).await;
    assert_eq!(woken.recv().await, Some(subscriber("other")));
}

#[tokio::test]
async fn an_event_without_end_ends_its_watch_and_no_other() {
    let server = Server::start(|asked, wire| {
        is_watch(asked).then(|| {
            wire.begin()?;
            wire.write_all(br#"{"type":"ADDED","object":{"metadata":{"name":""#)?;
            wire.for_ever(&[b'x'; 4096])
        })
    });
    assert_given_up(&server).await;
    assert!(server.sent() < 16 << 20, "{} bytes", server.sent());
}

#[tokio::test]
async fn a_page_without_end_ends_its_watch_and_no_other() {
    let server = Server::start(|asked, wire| {
        is_list(asked).then(|| {
            wire.begin()?;
            wire.for_ever(&[b'\n'; 4096])
        })
    });
    assert_given_up(&server).await;
    assert!(server.sent() < 48 << 20, "{} bytes", server.sent());
}

#[tokio::test]
async fn names_without_end_end_their_watch_and_no_other() {
    let server = Server::start(|asked, wire| {
        is_watch(asked).then(|| {
            wire.begin()?;
            for number in 0.. {
                let metadata = json!({"name": format!("c-{number}"), "namespace": "default", "resourceVersion": "2"});
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
                writeln!(wire, "{}", json!({"type": "ADDED", "object": object}))?;
            }
            Ok(())
        })
    });
    assert_given_up(&server).await;
}

#[tokio::test]
async fn a_list_that_goes_on_and_on_ends_its_watch_and_no_other() {
    let server = Server::start(|asked, wire| {
        let item = json!({"metadata": {"name": "c", "namespace": "default", "resourceVersion": "2"}});
        let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": vec![item; 500],
            "metadata": {"resourceVersion": "1", "continue": "more"}});
        is_list(asked).then(|| wire.json(200, &list))
    });
    assert_given_up(&server).await;
    assert!(server.asked_for("GET") < 60, "{}", server.asked_for("GET"));
}

#[tokio::test]
async fn a_name_that_is_too_long_ends_its_watch_and_no_other() {
    let server = Server::start(|asked, wire| {
        let metadata = json!({"name": "c".repeat(254), "resourceVersion": "2"});
        let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": [{"metadata": metadata}],
            "metadata": {"resourceVersion": "1"}});
        is_list(asked).then(|| wire.json(200, &list))
    });
    assert_given_up(&server).await;
}

/// An event of the watch, as a line.
fn event(kind: &str, version: u64) -> String {
    let metadata = json!({"name": "c", "namespace": "default", "resourceVersion": version.to_string()});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    format!("{}\n", json!({"type": kind, "object": object}))
}

#[tokio::test]
async fn a_watch_that_tells_the_same_again_and_again_or_goes_back_in_time_wakes_nobody() {
    let told = Arc::new(AtomicU64::new(0));
    let tells = told.clone();
    let server = Server::start(move |asked, wire| {
        is_watch(asked).then(|| {
            wire.begin()?;
            for version in (0..=5).rev().cycle() {
                wire.write_all(event("MODIFIED", version).as_bytes())?;
                tells.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
    });
    let (watches, mut woken) = Watches::new();
    watches.set(&subscriber("p"), &server.connect(), seen("5")).await;
    until("it has told a lot", || told.load(Ordering::Relaxed) > 10_000).await;
    assert_other_wakes(&watches, &mut woken).await;
    assert!(woken.try_recv().is_err(), "nothing is newer than what was seen");
}

#[tokio::test]
async fn a_watch_that_lies_about_what_is_new_wakes_once_for_each_pass() {
    let server = Server::start(|asked, wire| {
        is_watch(asked).then(|| {
            wire.begin()?;
            for version in 6.. {
                wire.write_all(event("MODIFIED", version).as_bytes())?;
            }
            Ok(())
        })
    });
    let (watches, mut woken) = Watches::new();
    watches.set(&subscriber("p"), &server.connect(), seen("5")).await;
    assert_eq!(woken.recv().await, Some(subscriber("p")));
    assert_other_wakes(&watches, &mut woken).await;
    assert!(woken.try_recv().is_err(), "the pass says anew what it waits for");
}

#[tokio::test]
async fn a_watch_that_ends_at_once_and_always_is_opened_again_at_a_pace() {
    let server = Server::start(|asked, wire| is_watch(asked).then(|| wire.answer(200, "", b"")));
    let (watches, mut woken) = Watches::new();
    watches.set(&subscriber("p"), &server.connect(), seen("5")).await;
    // The pace allows a burst; another hundred would take minutes.
    until("it was opened more than once", || server.asked_for("watch=true") > 1).await;
    for _ in 0..20 {
        assert_other_wakes(&watches, &mut woken).await;
    }
    assert!(server.asked_for("GET") < 200, "{}", server.asked_for("GET"));
}

#[tokio::test]
async fn a_watch_that_is_always_too_old_is_listed_anew_at_a_pace() {
    let server = Server::start(|asked, wire| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": ""});
        is_watch(asked).then(|| wire.json(200, &json!({"type": "ERROR", "object": status})))
    });
    let (watches, mut woken) = Watches::new();
    watches.set(&subscriber("p"), &server.connect(), seen("5")).await;
    until("it was listed more than once", || server.asked_for("watch=true") > 1).await;
    for _ in 0..20 {
        assert_other_wakes(&watches, &mut woken).await;
    }
    assert!(server.asked_for("GET") < 200, "{}", server.asked_for("GET"));
}

#[tokio::test]
async fn a_watch_that_never_tells_anything_wakes_nobody_and_holds_nobody_up() {
    let server = Server::start(|asked, wire| {
        is_watch(asked).then(|| {
            wire.begin()?;
            std::thread::sleep(Duration::MAX);
            Ok(())
        })
    });
    let (watches, mut woken) = Watches::new();
    watches.set(&subscriber("p"), &server.connect(), seen("1")).await;
    until("it watches", || server.asked_for("watch=true") == 1).await;
    assert_other_wakes(&watches, &mut woken).await;
    watches.drop_step(&"p".parse().unwrap(), |_| false);
    assert_eq!(watches.open(), 0, "the other one was woken, and waits for nothing");
}
