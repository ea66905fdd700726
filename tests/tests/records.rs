//! What the host keeps of a step, on a real hub.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use std::sync::Arc;

use chandlery_api::StepRecord;
use chandlery_core::ports::{Ledger, Records};
use chandlery_core::record::{Entry, LARGEST_INVENTORY, LARGEST_SPEC, Mode, Phase, Receipt, Record, Target};
use chandlery_core::{Digest, ObjectRef, Uid};
use chandlery_scope::RecordStore;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use xtask::control_plane::ControlPlane;

async fn hub() -> (ControlPlane, Client) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let hub = ControlPlane::builder()
        .name("records")
        .start()
        .expect("a control plane");
    let crds = chandlery_api::crds_yaml().unwrap();
    let kubectl = hub.client();
    kubectl
        .text_with_input(["apply", "--server-side", "--filename=-"], &crds)
        .unwrap();
    let established = ["wait", "--for=condition=Established", "--timeout=30s", "--filename=-"];
    kubectl.text_with_input(established, &crds).unwrap();
    let kubeconfig: kube::config::Kubeconfig = serde_saphyr::from_str(hub.kubeconfig_yaml()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default())
        .await
        .unwrap();
    (hub, Client::try_from(config).unwrap())
}

fn receipt() -> Receipt {
    Receipt {
        plugin: "p".into(),
        digest: Digest::of(b"p"),
        // As large as a step's settings may be, beside as many objects with names as long as they may be.
        spec: json!({"long": "x".repeat(LARGEST_SPEC - 20)}),
        target: Target::Remote {
            name: "r".into(),
            uid: "r".parse().unwrap(),
        },
        cluster_identity: String::new(),
        background_deletion: false,
        needs: vec![],
    }
}

fn entry(number: usize) -> Entry {
    let name = format!("{number:04}-{}", "n".repeat(248));
    Entry {
        object: ObjectRef::new("v1", "ConfigMap", Some(&"s".repeat(63)), &name),
        uid: None,
        mode: Mode::Pending,
        wave: 0,
    }
}

async fn read(client: &Client, uid: &Uid) -> (Arc<RecordStore>, Arc<dyn Ledger>) {
    let store = RecordStore::new(client.clone());
    let mut ledgers = store.of("default", "p", uid).load().await.unwrap();
    assert_eq!(ledgers.len(), 1);
    (store.clone(), ledgers.remove(0))
}

#[tokio::test]
async fn the_largest_step_that_there_may_be_is_kept_shrinks_and_goes() {
    let (_plane, client) = hub().await;
    let uid: Uid = "1".parse().unwrap();
    let records: Api<StepRecord> = Api::namespaced(client.clone(), "default");
    let parts = || async { records.list(&ListParams::default()).await.unwrap().items.len() };

    let record = Record::new("step".parse().unwrap(), receipt());
    let store = RecordStore::new(client.clone());
    let ledger = store.of("default", "p", &uid).open(record).await.unwrap();
    let entries: Vec<Entry> = (0..LARGEST_INVENTORY).map(entry).collect();
    ledger.intend("identity", entries.clone()).await.unwrap();
    let kept = Some(json!({"memory": "m".repeat(16 * 1024 - 20)}));
    for entry in &entries {
        ledger.observe(Entry {
            uid: Some("8e1f2c9a-41a7-4be1-9b54-0d2f0a3c6d11".parse().unwrap()),
            mode: Mode::Made,
            ..entry.clone()
        });
    }
    ledger.settle(Phase::Done, kept.clone(), kept).await.unwrap();
    assert_eq!(parts().await, 6);

    let (store, again) = read(&client, &uid).await;
    assert_eq!(again.record(), ledger.record(), "another process reads what was kept");
    for entry in entries.iter().skip(100) {
        again.forget(&entry.object);
    }
    again.settle(Phase::Emptying, None, None).await.unwrap();
    assert_eq!(parts().await, 1);
    drop(store);

    let (_store, last) = read(&client, &uid).await;
    assert_eq!(last.record().inventory.len(), 100);
    last.intend("identity", entries.iter().skip(100).take(900).cloned().collect())
        .await
        .unwrap();
    assert_eq!(parts().await, 2);
    last.close().await.unwrap();
    assert_eq!(parts().await, 0);
}

#[tokio::test]
async fn a_part_never_becomes_another() {
    let (plane, client) = hub().await;
    let uid: Uid = "1".parse().unwrap();
    let record = Record::new(
        "step".parse().unwrap(),
        Receipt {
            spec: json!({}),
            ..receipt()
        },
    );
    let store = RecordStore::new(client);
    store.of("default", "p", &uid).open(record).await.unwrap();
    for (patch, why) in [
        (
            json!({"spec": {"record": {"step": "other"}}}),
            "a record never changes its step",
        ),
        (
            json!({"spec": {"more": {"step": "step", "part": 1, "inventory": []}}}),
            "either the record of a step, or more of its inventory",
        ),
    ] {
        let patch = format!("--patch={patch}");
        let refused = plane
            .client()
            .text(["patch", "steprecord", "1.step", "--type=merge", &patch]);
        let refused = format!("{:#}", refused.unwrap_err());
        assert!(refused.contains(why), "{refused}");
    }
}
