//! kill -9 at any moment loses nothing and does nothing twice.
//!
//! A run is 20 Provisions over two remotes: all of them come, then all of them go. A quiet run tells how many writes that
//! takes; every further run is interrupted twice, once while they come and once while they go, right after its k-th write,
//! with k spread over all of the quiet run. A kill counts only if it left work undone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may stop where they stand, too"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chandlery_tests::audit::Tail;
use chandlery_tests::{Call, Cluster, Shape, Team, World, wait_until};
use serde_json::json;
use xtask::daemon::USER;

/// Provisions of one run.
const PROVISIONS: usize = 20;
/// Kills that must have hit a pass.
const KILLS: usize = 50;
/// Objects that one run leaves on a remote while it is done.
const OBJECTS: usize = PROVISIONS * 3;

/// Which half of a run is interrupted.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Coming,
    Going,
}

#[test]
fn kill_nine_at_fifty_moments_loses_nothing_and_does_nothing_twice() {
    let world = World::start(Shape {
        remotes: &["east", "west"],
        lease_seconds: 15,
    });
    let remotes = [world.remote("east"), world.remote("west")];
    let before = remotes.map(Cluster::inventory);
    let marks = remotes.map(|remote| remote.audit().mark());

    let quiet = run(&world, [None, None]);
    eprintln!(
        "a quiet run makes {} writes while coming and {} while going",
        quiet.writes[0], quiet.writes[1]
    );
    let rounds = KILLS.div_ceil(2);
    let (mut hits, mut round) = (Vec::new(), 0);
    while hits.len() < KILLS {
        assert!(
            round < rounds * 2,
            "of {} kills only {} hit a pass: {hits:?}",
            round * 2,
            hits.len()
        );
        // Two interleaved sweeps from the first write to the last: a kill that hit nothing has another chance near by.
        let place = |writes: usize| 1 + (writes - 1) * ((round * 7) % rounds) / rounds + round / rounds;
        let killed = run(&world, quiet.writes.map(|writes| Some(place(writes))));
        hits.extend(killed.hits);
        round += 1;
    }
    eprintln!("{} kills hit a pass in {round} runs, after writes {hits:?}", hits.len());

    for ((remote, before), mark) in remotes.iter().zip(before).zip(marks) {
        let difference = before.compare(&remote.inventory());
        // The teams' own namespaces are the test's.
        let text = difference.to_string();
        let left: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with(['+', '-', '!', '~']))
            .filter(|line| {
                !line.starts_with("+ namespaces team-")
                    && !line.contains("kube-root-ca.crt")
                    && !line.contains("/default (left over)")
            })
            .collect();
        assert!(left.is_empty(), "{text}");
        let mut made: BTreeMap<(String, String, String), usize> = BTreeMap::new();
        let calls = remote.audit().since(mark);
        for call in calls
            .into_iter()
            .filter(|call| call.user == remote.guest && call.code == 201)
        {
            *made.entry((call.resource, call.namespace, call.name)).or_default() += 1;
        }
        // A create whose client was killed before the answer is in the log as cut off, though it came to pass.
        let all = (round + 1) * OBJECTS;
        assert!(
            made.len() <= all && made.len() + KILLS > all,
            "{} of {all} were seen to be made",
            made.len()
        );
        let twice: Vec<_> = made.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "made more than once: {twice:?}");
    }
    let refused: Vec<_> = world
        .hub
        .audit()
        .since(world.started)
        .into_iter()
        .filter(|c| c.user == USER && c.code == 403)
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// What one run came to.
struct Run {
    /// Writes while coming and while going.
    writes: [usize; 2],
    /// After which writes the kills came that left work undone.
    hits: Vec<(Phase, usize)>,
}

/// All come and all go; the daemon is killed after these writes of each half, if any, and started again at once.
fn run(world: &World, kills: [Option<usize>; 2]) -> Run {
    let team = Team::on(world, &["east", "west"]);
    for remote in ["east", "west"] {
        wait_until(format!("remote {remote} is ready"), || {
            team.seen_remote(remote).is_ready().then_some(())
        });
    }
    let mut result = Run {
        writes: [0; 2],
        hits: Vec::new(),
    };
    for (phase, kill) in [(Phase::Coming, kills[0]), (Phase::Going, kills[1])] {
        let mut writes = Writes::from_now(world);
        std::thread::scope(|scope| {
            // Beside the kill, so that it can hit the first of them while the last is not even asked for.
            let asked = scope.spawn(|| {
                for at in 0..PROVISIONS {
                    match phase {
                        Phase::Coming => team.provision(&name(at), &["east", "west"], steps(&team, at)),
                        Phase::Going => team.delete(&name(at)),
                    }
                }
            });
            if let Some(kill) = kill {
                let after = writes.wait_for(kill);
                world.daemons().drain(..).for_each(|mut daemon| daemon.kill().unwrap());
                let is_idle = asked.is_finished() && is_over(&team, phase);
                if !is_idle {
                    result.hits.push((phase, after));
                }
                world.start_daemon();
            }
        });
        for at in 0..PROVISIONS {
            match phase {
                Phase::Coming => drop(team.until_ready(&name(at))),
                Phase::Going => team.until_gone(&name(at)),
            }
        }
        result.writes[phase as usize] = writes.all().len();
        if let Phase::Coming = phase {
            // Whatever was made anew must have been deleted first.
            let is_deletion = |call: &&Call| call.resource == "configmaps" && call.verb == "delete";
            let deleted: Vec<_> = writes.all().iter().filter(is_deletion).collect();
            assert!(
                deleted.is_empty(),
                "objects were deleted while all was to come: {deleted:#?}"
            );
        }
        assert_end(world, &team, phase);
    }
    result
}

fn name(at: usize) -> String {
    format!("p{at:02}")
}

/// Two steps on two remotes, the second after the first; odd ones the other way round.
fn steps(team: &Team<'_>, at: usize) -> serde_json::Value {
    let (first, second) = if at.is_multiple_of(2) {
        ("east", "west")
    } else {
        ("west", "east")
    };
    let object = |part: &str| team.config_map(&format!("{}-{part}", name(at)), "x");
    json!([
        {"name": "base", "cluster": first, "objects": [object("a"), object("b"), object("c")]},
        {"name": "top", "cluster": second, "needs": ["base"], "objects": [object("d"), object("e"), object("f")]},
    ])
}

fn is_over(team: &Team<'_>, phase: Phase) -> bool {
    (0..PROVISIONS).all(|at| match (phase, team.seen(&name(at))) {
        (Phase::Coming, Some(seen)) => seen.is_ready(),
        (Phase::Going, None) => true,
        _ => false,
    })
}

/// The end state of a half: everything is there, once and whole; or nothing is, on the hub neither.
fn assert_end(world: &World, team: &Team<'_>, phase: Phase) {
    for remote in ["east", "west"] {
        let objects = world.remote(remote).list("v1", "ConfigMap", &team.name);
        let ours: Vec<_> = objects
            .iter()
            .filter(|object| object["metadata"]["name"] != "kube-root-ca.crt")
            .collect();
        match phase {
            Phase::Coming => {
                assert_eq!(ours.len(), OBJECTS, "on {remote}");
                assert!(ours.iter().all(|object| object["data"]["word"] == "x"));
            }
            Phase::Going => assert!(ours.is_empty(), "left on {remote}: {ours:#?}"),
        }
    }
    if let Phase::Going = phase {
        for at in 0..PROVISIONS {
            let kept = team.kept(&name(at));
            assert!(kept.is_empty(), "kept of what is gone: {kept:#?}");
        }
    }
}

/// The daemon's writes to hub and remotes since a moment, as the audit logs tell them.
struct Writes {
    logs: Vec<(Tail, String)>,
    seen: Vec<Call>,
}

impl Writes {
    fn from_now(world: &World) -> Self {
        let remotes = ["east", "west"].map(|name| world.remote(name));
        let logs = remotes.iter().map(|remote| (remote.audit(), remote.guest.clone()));
        let logs = logs.chain([(world.hub.audit(), USER.to_owned())]);
        Self {
            logs: logs.map(|(audit, user)| (audit.tail(), user)).collect(),
            seen: Vec::new(),
        }
    }

    /// All until now.
    fn all(&mut self) -> &[Call] {
        for (log, user) in &mut self.logs {
            let fresh = log.fresh().into_iter();
            self.seen
                .extend(fresh.filter(|call| call.user == *user && call.is_write() && !call.is_lease()));
        }
        &self.seen
    }

    /// Returns as soon as there were that many, with how many there were by then.
    fn wait_for(&mut self, wanted: usize) -> usize {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let count = self.all().len();
            if count >= wanted {
                return count;
            }
            assert!(
                Instant::now() < deadline,
                "the daemon made {count} writes, never {wanted}"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
