//! Nothing to do means nothing done, and nothing is ever tried that the printed ClusterRole does not allow.

use std::time::Duration;

use chandlery_tests::Call;
use serde_json::json;
use xtask::daemon::USER;

use super::{WORLD, east, team};

/// Long enough for several passes, and for a status that flutters.
const WINDOW: Duration = Duration::from_secs(4);

#[test]
fn a_pass_with_nothing_to_do_writes_nothing_and_asks_the_remote_nothing() {
    let team = team();
    let steps = json!([
        {"name": "first", "cluster": "east", "objects": [team.config_map("a", "x")]},
        {"name": "second", "cluster": "east", "needs": ["first"], "objects": [team.config_map("b", "x")]},
    ]);
    team.provision("p", &["east"], steps);
    let before = team.until_ready("p");
    // Claims are counted a little later, many at once.
    chandlery_tests::wait_until("both claims are counted", || {
        (team.seen_remote("east").0["status"]["claims"] == 2).then_some(())
    });
    let place = chandlery_tests::at("chandlery.dev/v1alpha1", "Provision", &team.named("p"));
    let settled = |seen: &chandlery_tests::Seen| seen.0["metadata"]["resourceVersion"].clone();
    let marks = (WORLD.hub.audit().mark(), east().audit().mark());
    // What brought it here may reach the audit log only now: only what is asked from here on counts.
    let from = k8s_openapi::jiff::Timestamp::now();
    let since = |call: &Call| {
        let at: k8s_openapi::jiff::Timestamp = call.at.parse().unwrap();
        at >= from
    };
    // A change that is none of ours: the Provision is looked at again, and all is as it should be.
    WORLD.hub.merge(
        &place,
        &json!({"metadata": {"annotations": {"test.example/touched": "1"}}}),
    );
    let touched = team.until("p", "was touched", |seen| settled(seen) != settled(&before));
    // Silence takes time to be heard.
    std::thread::sleep(WINDOW);
    let here = |call: &Call| call.namespace == team.name || call.uri.contains(&team.name);
    let hub: Vec<_> = WORLD
        .hub
        .audit()
        .since(marks.0)
        .into_iter()
        .filter(|c| c.user == USER && c.is_write() && here(c) && since(c))
        .collect();
    assert!(
        hub.iter().all(|call| call.resource == "events"),
        "written to the hub: {hub:#?}"
    );
    let guest = &east().guest;
    let remote: Vec<_> = east()
        .audit()
        .since(marks.1)
        .into_iter()
        .filter(|c| c.user == *guest && here(c) && c.verb != "watch")
        .collect();
    assert!(remote.is_empty(), "asked of the remote: {remote:#?}");
    assert_eq!(settled(&touched), settled(&team.seen("p").unwrap()));
    team.remove("p");
}

#[test]
fn the_printed_cluster_role_is_enough_for_a_whole_life() {
    let team = team();
    let step = |word: &str| json!([{"name": "config", "cluster": "east", "objects": [team.config_map("c", word)]}]);
    for word in ["one", "two"] {
        team.provision("p", &["east"], step(word));
        team.until_ready("p");
    }
    team.remove("p");
    WORLD.hub.delete(&chandlery_tests::at(
        "chandlery.dev/v1alpha1",
        "RemoteCluster",
        &team.named("east"),
    ));
    chandlery_tests::wait_until("the remote is gone", || {
        team.seen_remote("east").0.is_null().then_some(())
    });
    let calls: Vec<_> = WORLD
        .hub
        .audit()
        .since(WORLD.started)
        .into_iter()
        .filter(|call| call.user == USER)
        .collect();
    assert!(calls.len() > 50, "the daemon works under its own identity");
    let refused: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
