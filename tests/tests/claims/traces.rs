//! Which traces there are, and how one is run.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};

use chandlery_core::claim::Rules;
use chandlery_simulator::faults::{ApiError, Fault, Moment, Plan, Stop};
use tokio::sync::Notify;

use crate::host::{Ended, Log, Process, Stand, Work};
use crate::hub::Hub;

/// What was run.
#[derive(Default)]
pub(crate) struct Sequences {
    seen: HashSet<u64>,
    pub(crate) traces: usize,
    pub(crate) calls: usize,
}

impl Sequences {
    /// How many different sequences of calls.
    pub(crate) fn distinct(&self) -> usize {
        self.seen.len()
    }

    fn note(&mut self, calls: &[String]) {
        let mut hasher = DefaultHasher::new();
        calls.hash(&mut hasher);
        self.seen.insert(hasher.finish());
        self.traces += 1;
        self.calls += calls.len();
    }
}

/// What somebody else does to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Host A works.
    A(Work),
    /// Host B works.
    B(Work),
    DeleteHolder(&'static str),
    /// Its finalizer is taken off as well.
    ForceHolder(&'static str),
    DeleteRemote,
}

use Deed::{A, B, DeleteHolder, DeleteRemote, ForceHolder};
use Work::{Back, Bring, Collect, Drain, End, Protect, Register, Turn};

/// How the worlds come to be in which a run is disturbed.
const BEGINNINGS: &[&[Deed]] = &[
    &[],
    &[A(Protect)],
    &[A(Protect), A(Bring("one"))],
    &[A(Protect), A(Bring("one")), A(Bring("two"))],
    &[A(Protect), A(Bring("one")), A(Register)],
    &[A(Protect), A(Bring("one")), A(Register), DeleteHolder("one")],
    &[
        A(Protect),
        A(Bring("one")),
        A(Register),
        DeleteHolder("one"),
        A(Back("one")),
    ],
    &[A(Protect), A(Bring("one")), A(Register), A(Turn("one"))],
    &[
        A(Protect),
        A(Bring("one")),
        A(Bring("two")),
        A(Register),
        DeleteHolder("two"),
        DeleteRemote,
    ],
    &[A(Protect), A(Bring("one")), A(Register), DeleteRemote],
    &[A(Protect), A(Bring("one")), A(Register), ForceHolder("one")],
    &[A(Protect), A(Bring("one")), B(Bring("one")), A(Register)],
    &[
        A(Protect),
        A(Bring("one")),
        A(Register),
        DeleteHolder("one"),
        A(Back("one")),
        DeleteRemote,
    ],
    &[
        A(Protect),
        A(Bring("one")),
        DeleteHolder("one"),
        A(Back("one")),
        A(Bring("two")),
        DeleteHolder("two"),
    ],
    &[A(Protect), B(Bring("two")), B(Register)],
    &[A(Protect), A(Bring("one")), A(Turn("one")), A(Drain)],
    &[
        A(Protect),
        A(Bring("one")),
        A(Bring("two")),
        A(Register),
        A(Turn("two")),
    ],
];

/// What is disturbed.
const RUNS: &[Work] = &[
    Bring("one"),
    Bring("two"),
    Turn("one"),
    Back("one"),
    Collect("one"),
    Register,
    Drain,
    End,
];

/// What happens while a run stands still.
const MEANWHILE: &[&[Deed]] = &[
    &[B(Bring("one"))],
    &[B(Bring("two"))],
    &[B(Turn("one"))],
    &[B(Turn("one")), B(Bring("one"))],
    &[DeleteHolder("one"), B(Back("one"))],
    &[DeleteHolder("one"), B(Back("one")), DeleteRemote, B(End)],
    &[DeleteHolder("one"), B(Back("one")), B(Drain)],
    &[
        DeleteHolder("one"),
        B(Back("one")),
        B(Drain),
        B(Bring("two")),
        B(Register),
    ],
    &[DeleteRemote, B(End)],
    &[ForceHolder("one"), B(Collect("one")), DeleteRemote, B(End)],
    &[B(Register)],
    &[B(Drain)],
    &[
        B(Bring("two")),
        B(Register),
        DeleteHolder("two"),
        B(Back("two")),
        B(Drain),
    ],
];

/// How a run is disturbed at one of its calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Disturbance {
    Dies(Stop),
    Loses,
    Stands(&'static [Deed]),
}

/// A hub with both hosts.
pub(crate) struct Scene {
    pub(crate) hub: Hub,
    pub(crate) a: Process,
    b: Process,
    pub(crate) log: Arc<Mutex<Log>>,
    rules: Rules,
}

impl Scene {
    pub(crate) fn new(hub: &Hub, rules: Rules) -> Self {
        let hub = hub.fresh();
        let log = Arc::new(Mutex::new(Log::default()));
        Self {
            a: Process::start('A', &hub, &log, rules),
            b: Process::start('B', &hub, &log, rules),
            hub,
            log,
            rules,
        }
    }

    pub(crate) async fn act(&self, deed: Deed) {
        match deed {
            A(work) => {
                self.a.run(work, Plan::default(), None).await;
            }
            B(work) => {
                self.b.run(work, Plan::default(), None).await;
            }
            DeleteHolder(holder) => self.hub.delete(&Hub::provision_path(holder)),
            ForceHolder(holder) => {
                if self.hub.provision(holder).is_some() {
                    self.hub.delete(&Hub::provision_path(holder));
                    self.hub.merge(
                        &Hub::provision_path(holder),
                        &serde_json::json!({"metadata": {"finalizers": null}}),
                    );
                }
            }
            DeleteRemote => {
                self.hub.delete(&Hub::remote_path());
                self.log.lock().unwrap().look(&self.hub);
            }
        }
    }

    /// Host A dies, and another process takes its place.
    pub(crate) fn restart(&mut self) {
        self.a = self.a.successor(&self.log, self.rules);
    }

    /// Runs A's work, disturbed before or at this call. Answers whether the run had such a call.
    pub(crate) async fn disturb(&mut self, work: Work, call: usize, disturbance: Disturbance) -> bool {
        let at = u64::try_from(call).unwrap();
        match disturbance {
            Disturbance::Dies(stop) => {
                let ended = self.a.run(work, Plan::at(at, Fault::Crash { at: stop }), None).await;
                let died = ended == Ended::Died;
                if died {
                    // Who died told nobody of the last write.
                    self.log.lock().unwrap().look(&self.hub);
                    self.a = self.a.successor(&self.log, self.rules);
                }
                died
            }
            Disturbance::Loses => {
                let fault = Fault::Error {
                    error: ApiError::ConnectionReset,
                    commit: Moment::After,
                };
                self.a.run(work, Plan::at(at, fault), None).await;
                self.a.calls() > call
            }
            Disturbance::Stands(meanwhile) => {
                let stand = Stand {
                    before: call,
                    reached: Arc::new(Notify::new()),
                    go: Arc::new(Notify::new()),
                };
                let mut run = std::pin::pin!(self.a.run(work, Plan::default(), Some(stand.clone())));
                let stands = tokio::select! {
                    biased;
                    () = stand.reached.notified() => true,
                    _ = &mut run => false,
                };
                if stands {
                    for deed in meanwhile {
                        self.act(*deed).await;
                    }
                    stand.go.notify_one();
                    run.await;
                }
                stands
            }
        }
    }

    /// All is deleted, and both hosts do what they do. What is left then, or what broke on the way.
    pub(crate) async fn finish(&self) -> Option<String> {
        for deed in [DeleteHolder("one"), DeleteHolder("two"), DeleteRemote] {
            self.act(deed).await;
        }
        for _ in 0..4 {
            for deed in [A as fn(Work) -> Deed, B] {
                for holder in ["one", "two"] {
                    let work = if self.hub.provision(holder).is_some() {
                        Back(holder)
                    } else {
                        Collect(holder)
                    };
                    self.act(deed(work)).await;
                }
                self.act(deed(End)).await;
            }
            if let Some(broken) = self.log.lock().unwrap().broken.clone() {
                return Some(broken);
            }
            if self.hub.left().is_empty() {
                return None;
            }
        }
        Some(format!("no progress: {} never goes", self.hub.left().join(", ")))
    }
}

/// Runs traces until there are so many different ones, or one breaks something. What comes first is spread over all there
/// are, in the same order each time.
///
/// Of several shares, each has its own traces: `share` is which, of how many. What was seen is common to all.
pub(crate) async fn explore(
    hub: &Hub,
    rules: Rules,
    seen: &Mutex<Sequences>,
    enough: usize,
    share: (usize, usize),
) -> Option<String> {
    let mut disturbances = vec![
        Disturbance::Dies(Stop::BeforeSent),
        Disturbance::Dies(Stop::AfterCommit),
        Disturbance::Loses,
    ];
    disturbances.extend(MEANWHILE.iter().map(|meanwhile| Disturbance::Stands(meanwhile)));
    let (works, kinds) = (RUNS.len(), disturbances.len());
    let all = BEGINNINGS.len() * works * kinds;
    for place in (share.0..all).step_by(share.1) {
        // A prime that divides none of these numbers: each is visited once.
        let at = place * 997 % all;
        let (beginning, work) = (BEGINNINGS[at / (works * kinds)], RUNS[at / kinds % works]);
        let disturbance = disturbances[at % kinds];
        for call in 0.. {
            if seen.lock().unwrap().distinct() >= enough {
                return None;
            }
            let mut scene = Scene::new(hub, rules);
            for deed in beginning {
                scene.act(*deed).await;
            }
            let was_made = scene.disturb(work, call, disturbance).await;
            // Whoever comes next does what was to be done.
            for deed in [A(work), A(Drain), B(Bring("two")), B(Drain)] {
                scene.act(deed).await;
            }
            let broken = scene.finish().await;
            let log = scene.log.lock().unwrap();
            let mut seen = seen.lock().unwrap();
            seen.note(&log.calls);
            if seen.traces.is_multiple_of(100) {
                println!(
                    "{} traces, {} distinct, {} calls",
                    seen.traces,
                    seen.distinct(),
                    seen.calls
                );
            }
            if let Some(broken) = broken {
                let calls = log.calls.join("\n  ");
                return Some(format!(
                    "{broken}\n{beginning:?}, then A's {work:?} at call {call}: {disturbance:?}\n  {calls}"
                ));
            }
            if !was_made {
                break;
            }
        }
    }
    None
}
