//! One remote and several who use it: registered once, deregistered after the last, whatever happens in between.

use chandlery_core::Class;
use chandlery_core::claim::{Registered, Rules};
use chandlery_simulator::faults::{ApiError, Fault, Matches, Moment, Plan, Stop, When};
use serde_json::{Value, json};

use crate::host::{Ended, Work};
use crate::hub::{ARGOCD, Hub, REMOTE, TEAM};
use crate::place::Place;
use crate::traces::Deed::{A, DeleteHolder, DeleteRemote};
use crate::traces::{Deed, Scene};
use Work::{Back, Bring, Drain, End, Protect, Register, Turn};

/// Each in memory and on a real API server.
macro_rules! at_both_places {
    ($($name:ident)*) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::place::Place::InMemory).await;
            })*
        }
        mod on_a_real_server {
            $(#[tokio::test]
            async fn $name() {
                let place = crate::place::Place::OnARealServer;
                let _turn = place.turn().await;
                super::$name(place).await;
            })*
        }
    };
}

at_both_places! {
    shared_remote_survives_sibling_deprovision_in_same_pass
    remote_is_registered_once_for_many_children
    remote_is_deregistered_after_last_child_only
    restart_between_children_loses_no_claim
    crash_between_release_and_deregister
    reused_wrapper_tears_down_after_second_round
    conditional_flip_every_pass_leaks_nothing
    two_provisions_share_one_remote
    server_url_change_keeps_one_registration
    a_look_alike_without_our_label_is_neither_adopted_nor_deleted
    every_registration_error_is_not_a_yield
    user_of_a_remote_never_registers
}

const SERVER: &str = "https://remote.example:6443";

async fn scene(place: Place, deeds: &[Deed]) -> Scene {
    let scene = Scene::new(&Hub::at(place), Rules::default());
    for deed in deeds {
        scene.act(*deed).await;
    }
    scene
}

fn uid(scene: &Scene) -> Option<String> {
    let there = scene.hub.registrations();
    assert!(there.len() < 2, "{there:?}");
    there
        .first()
        .map(|secret| secret["metadata"]["uid"].as_str().unwrap().to_owned())
}

fn creations(scene: &Scene) -> usize {
    let log = scene.log.lock().unwrap();
    let path = format!("POST /api/v1/namespaces/{ARGOCD}/secrets");
    log.calls.iter().filter(|call| call.ends_with(&path)).count()
}

fn is_draining(scene: &Scene) -> bool {
    scene.hub.remote().unwrap()["status"]["phase"] == "Draining"
}

async fn ends_well(scene: &Scene) {
    assert_eq!(scene.finish().await, None);
}

async fn shared_remote_survives_sibling_deprovision_in_same_pass(place: Place) {
    for in_the_same_pass in [[A(Turn("one")), A(Bring("two"))], [A(Bring("two")), A(Turn("one"))]] {
        let scene = scene(place, &[A(Protect), A(Bring("one")), A(Register)]).await;
        let before = uid(&scene);
        for deed in in_the_same_pass {
            scene.act(deed).await;
        }
        scene.act(A(Drain)).await;
        assert_eq!(uid(&scene), before, "{in_the_same_pass:?}");
        assert_eq!(scene.hub.written(), ["two"]);
        assert!(!is_draining(&scene));
        ends_well(&scene).await;
    }
}

async fn remote_is_registered_once_for_many_children(place: Place) {
    let scene = scene(place, &[A(Protect), A(Bring("one")), A(Register)]).await;
    let before = uid(&scene);
    for deed in [
        A(Bring("two")),
        A(Register),
        A(Bring("one")),
        A(Register),
        Deed::B(Register),
    ] {
        scene.act(deed).await;
    }
    assert_eq!((uid(&scene), creations(&scene)), (before, 1));
    ends_well(&scene).await;
}

async fn remote_is_deregistered_after_last_child_only(place: Place) {
    let scene = scene(place, &[A(Protect), A(Bring("one")), A(Bring("two")), A(Register)]).await;
    let before = uid(&scene);
    for deed in [DeleteHolder("one"), A(Back("one")), A(Drain)] {
        scene.act(deed).await;
    }
    assert_eq!(uid(&scene), before, "one is left");
    for deed in [DeleteHolder("two"), A(Back("two")), A(Drain)] {
        scene.act(deed).await;
    }
    assert_eq!(uid(&scene), None);
    assert!(
        !is_draining(&scene) && scene.hub.remote().is_some(),
        "the remote itself stays"
    );
    ends_well(&scene).await;
}

async fn restart_between_children_loses_no_claim(place: Place) {
    let mut scene = scene(place, &[A(Protect), A(Bring("one")), A(Register)]).await;
    let before = uid(&scene);
    scene.restart();
    for deed in [A(Bring("two")), DeleteHolder("two"), A(Back("two")), A(Drain)] {
        scene.act(deed).await;
    }
    assert_eq!(uid(&scene), before, "the first child's claim is remembered by the hub");
    assert_eq!(scene.hub.claims().len(), 1);
    ends_well(&scene).await;
}

async fn crash_between_release_and_deregister(place: Place) {
    for stop in [Stop::BeforeSent, Stop::AfterCommit] {
        let mut scene = scene(
            place,
            &[
                A(Protect),
                A(Bring("one")),
                A(Register),
                DeleteHolder("one"),
                A(Back("one")),
            ],
        )
        .await;
        assert!(scene.hub.claims().is_empty() && uid(&scene).is_some());
        let deregisters = Matches {
            verb: Some("delete".into()),
            resource: Some("secrets".into()),
            ..Matches::default()
        };
        let plan = Plan::default().and(When::Matches(deregisters), Fault::Crash { at: stop });
        assert_eq!(scene.a.run(Drain, plan, None).await, Ended::Died);
        assert!(is_draining(&scene), "nobody may begin to use it now");
        scene.restart();
        scene.act(A(Bring("two"))).await;
        assert_eq!(scene.hub.written(), Vec::<String>::new());
        scene.act(A(Drain)).await;
        assert!(uid(&scene).is_none() && !is_draining(&scene));
        scene.act(A(Bring("two"))).await;
        assert_eq!(scene.hub.written(), ["two"]);
        ends_well(&scene).await;
    }
}

async fn reused_wrapper_tears_down_after_second_round(place: Place) {
    let scene = scene(place, &[A(Protect)]).await;
    for _ in 0..2 {
        for deed in [A(Bring("one")), A(Register)] {
            scene.act(deed).await;
        }
        assert!(uid(&scene).is_some());
        for deed in [A(Turn("one")), A(Drain)] {
            scene.act(deed).await;
        }
        assert_eq!(uid(&scene), None);
    }
    ends_well(&scene).await;
}

async fn conditional_flip_every_pass_leaks_nothing(place: Place) {
    let scene = scene(place, &[A(Protect)]).await;
    for round in 0..5 {
        for deed in [A(Bring("one")), A(Register)] {
            scene.act(deed).await;
        }
        assert_eq!(
            (scene.hub.written(), scene.hub.claims().len()),
            (vec!["one".to_owned()], 1),
            "{round}"
        );
        for deed in [A(Turn("one")), A(Drain)] {
            scene.act(deed).await;
        }
        let left = scene.hub.left();
        assert_eq!(left, ["provision one", "provision two", "remote remote"], "{round}");
    }
    ends_well(&scene).await;
}

async fn two_provisions_share_one_remote(place: Place) {
    let scene = scene(
        place,
        &[
            A(Protect),
            A(Bring("one")),
            A(Bring("two")),
            A(Register),
            DeleteRemote,
            A(End),
        ],
    )
    .await;
    assert!(scene.hub.remote().is_some() && uid(&scene).is_some(), "two use it");
    for deed in [DeleteHolder("two"), A(Back("two")), A(End)] {
        scene.act(deed).await;
    }
    assert!(scene.hub.remote().is_some() && uid(&scene).is_some(), "one uses it");
    for deed in [DeleteHolder("one"), A(Back("one")), A(End)] {
        scene.act(deed).await;
    }
    assert!(scene.hub.remote().is_none() && uid(&scene).is_none());
}

fn data(secret: &Value, key: &str) -> String {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(secret["data"][key].clone()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

async fn server_url_change_keeps_one_registration(place: Place) {
    let scene = scene(place, &[A(Protect), A(Bring("one")), A(Register)]).await;
    let before = uid(&scene);
    let path = format!(
        "/api/v1/namespaces/{ARGOCD}/secrets/{}",
        scene.hub.registrations()[0]["metadata"]["name"].as_str().unwrap()
    );
    // What somebody else keeps in it stays.
    scene.hub.merge(&path, &json!({"data": {"project": "cA=="}}));
    let moved = scene
        .a
        .register("https://moved.example:6443/prefix", Plan::default())
        .await;
    assert_eq!(moved, Ok(Registered::Current));
    assert_eq!(uid(&scene), before);
    let secret = &scene.hub.registrations()[0];
    assert_eq!(data(secret, "server"), "https://moved.example:6443/prefix");
    assert_eq!(
        (data(secret, "name"), data(secret, "project")),
        (REMOTE.to_owned(), "p".to_owned())
    );
    let config: Value = serde_json::from_str(&data(secret, "config")).unwrap();
    assert_eq!(
        config,
        json!({"bearerToken": "t", "tlsClientConfig": {"insecure": false}})
    );
    assert_eq!(
        secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"],
        "cluster"
    );
    ends_well(&scene).await;
}

async fn a_look_alike_without_our_label_is_neither_adopted_nor_deleted(place: Place) {
    let scene = scene(place, &[A(Protect), A(Bring("one"))]).await;
    let remote = scene.hub.remote().unwrap();
    let name = format!("chandlery-{}", remote["metadata"]["uid"].as_str().unwrap());
    let made = scene.hub.create(
        &format!("/api/v1/namespaces/{ARGOCD}/secrets"),
        &json!({"metadata": {"name": name, "labels": {"argocd.argoproj.io/secret-type": "cluster"}}}),
    );
    assert_eq!(scene.a.register(SERVER, Plan::default()).await, Ok(Registered::Foreign));
    for deed in [DeleteHolder("one"), A(Back("one")), A(Drain), DeleteRemote, A(End)] {
        scene.act(deed).await;
    }
    assert!(scene.hub.remote().is_none());
    let left: Vec<_> = scene
        .hub
        .registrations()
        .into_iter()
        .map(|secret| secret["metadata"].clone())
        .collect();
    assert_eq!(left, [made["metadata"].clone()]);
}

async fn every_registration_error_is_not_a_yield(place: Place) {
    for error in ApiError::ALL {
        let scene = scene(place, &[A(Protect), A(Bring("one"))]).await;
        let creates = Matches {
            verb: Some("create".into()),
            resource: Some("secrets".into()),
            ..Matches::default()
        };
        let fault = Fault::Error {
            error,
            commit: Moment::Before,
        };
        let plan = Plan::default().and(When::Matches(creates), fault);
        match scene.a.register(SERVER, plan).await {
            // A conflict is looked at again, for ever if it stays one.
            Err(setback) => assert_ne!(setback.class, Class::Wait, "{error:?}: {setback}"),
            Ok(registered) => panic!("{error:?}: {registered:?}"),
        }
        assert!(uid(&scene).is_none());
        scene.act(A(Register)).await;
        assert!(uid(&scene).is_some(), "{error:?}");
        ends_well(&scene).await;
    }
}

async fn user_of_a_remote_never_registers(place: Place) {
    let hub = Hub::at(place);
    let path = format!("/apis/chandlery.dev/v1alpha1/namespaces/{TEAM}/remoteclusters");
    let user = |controller: Value| {
        let mut object = json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "RemoteCluster", "metadata": {"name": "user"},
            "spec": {"source": {"secretRef": {"name": "k"}}, "registration": {"argocd": {"namespace": ARGOCD}}}});
        if !controller.is_null() {
            object["spec"]["controller"] = controller;
        }
        object
    };
    for controller in [Value::Null, json!(false)] {
        let (status, answer) = hub.try_create(&path, &user(controller));
        assert_eq!(status, 422, "{answer}");
        assert!(
            answer["message"]
                .as_str()
                .unwrap()
                .contains("only the remote's controller registers it"),
            "{answer}"
        );
    }
    assert_eq!(hub.try_create(&path, &user(json!(true))).0, 201);
}
