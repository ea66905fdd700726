//! RemoteCluster: looks who is there, tells it, keeps it registered while it is claimed, and stays until its last claim is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chandlery::core::claim::{Registered, TornDown, Trigger};
use chandlery::core::remote::{Expiring, Glimpse, RemoteState};
use chandlery::core::{Class, Setback, Uid, backoff};
use chandlery::scope::{ArgoCd, Registrar, RemoteKey, Unregistered, waits};
use chandlery_api::condition::{CREDENTIAL_EXPIRES, READY, RECONCILING, STALLED, State, merge};
use chandlery_api::{Endpoint, RemoteClaim, RemoteCluster, RemoteClusterStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use serde_json::json;

use super::{Failed, Shared, ended, timed, uid_of};
use chandlery::scope::finalizer;

/// How often a remote is looked at that nobody uses just now. Steps look for themselves.
const LOOK: Duration = Duration::from_secs(300);
/// How often a remote is looked at that may soon be given up.
const ABANDON_LOOK: Duration = Duration::from_secs(10);
/// How often the number of claims is written at most: it is for people to read, nothing is decided by it.
const COUNT_EVERY: Duration = Duration::from_secs(2);

/// What is remembered of remotes between looks.
#[derive(Default)]
pub(crate) struct Looks(Mutex<HashMap<Uid, Remembered>>);

#[derive(Default)]
struct Remembered {
    generation: Option<i64>,
    next: Option<Instant>,
    round: u32,
    status: Option<RemoteClusterStatus>,
    /// When the number of claims was last written.
    counted: Option<Instant>,
    /// What its registration is known to be.
    registration: Registration,
}

/// What is known of a remote's registration since this process leads.
#[derive(Default, Clone, PartialEq, Eq)]
enum Registration {
    /// Nothing yet.
    #[default]
    Unknown,
    /// There, for this credential.
    There(String),
    /// Not there.
    Absent,
}

impl Looks {
    fn with<T>(&self, uid: &Uid, act: impl FnOnce(&mut Remembered) -> T) -> T {
        act(self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(uid.clone())
            .or_default())
    }
}

/// One look at one RemoteCluster. `claims` is the watch's view, good for counting only.
pub(crate) async fn reconcile(
    remote: Arc<RemoteCluster>,
    shared: Arc<Shared>,
    claims: Store<RemoteClaim>,
    looks: Arc<Looks>,
) -> Result<Action, Failed> {
    let meta = &remote.metadata;
    let uid = uid_of(remote.as_ref())?;
    let api: Api<RemoteCluster> = Api::namespaced(shared.client.clone(), meta.namespace.as_deref().unwrap_or_default());
    let one = One {
        remote: &remote,
        uid,
        api,
        shared: &shared,
        claims: &claims,
        looks: &looks,
    };
    ended(if meta.deletion_timestamp.is_some() {
        one.close().await
    } else {
        one.look().await
    })
}

struct One<'a> {
    remote: &'a RemoteCluster,
    uid: Uid,
    api: Api<RemoteCluster>,
    shared: &'a Shared,
    claims: &'a Store<RemoteClaim>,
    looks: &'a Looks,
}

impl One<'_> {
    async fn look(&self) -> Result<Action, Setback> {
        if !finalizer::has(self.remote) {
            finalizer::add(&self.api, self.remote).await?;
        }
        let now = Instant::now();
        let generation = self.remote.metadata.generation;
        let before = self.before();
        let rest = self.looks.with(&self.uid, |r| {
            if r.generation == generation {
                r.next.map(|next| next.saturating_duration_since(now))
            } else {
                None
            }
        });
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            // Only the number of claims can have changed. A hundred Provisions take theirs in a second or two: one count for all.
            let early = self.looks.with(&self.uid, |r| {
                r.counted.map(|at| (at + COUNT_EVERY).saturating_duration_since(now))
            });
            let count = Some(self.count());
            if let Some(early) = early.filter(|early| !early.is_zero() && count != before.claims) {
                return Ok(Action::requeue(early.min(rest)));
            }
            if count != before.claims {
                self.looks.with(&self.uid, |r| r.counted = Some(now));
            }
            let registration = self.keep_registered(&before).await;
            self.write(RemoteClusterStatus {
                claims: count,
                registration: registration.unwrap_or_else(|_| before.registration.clone()),
                ..before
            })
            .await?;
            return Ok(Action::requeue(rest));
        }
        if before.conditions.is_empty() {
            let states = [State::unknown(READY, "Reconciling", "not looked at yet")];
            self.write(self.status(&before, &states, before.clone())).await?;
        }
        let (states, known, delay) = self.see().await;
        let before = self.before();
        let ready = states.first().is_some_and(|state| state.status == Some(true));
        let (mut states, mut known) = (states, known);
        match self.keep_registered(&known).await {
            Ok(registration) => known.registration = registration,
            Err(setback) if ready => {
                states = vec![
                    State::new(READY, false, setback.reason.clone(), setback.message.clone()),
                    State::new(
                        if setback.class.effect().stalled {
                            STALLED
                        } else {
                            RECONCILING
                        },
                        true,
                        setback.reason,
                        setback.message,
                    ),
                ];
            }
            Err(setback) => tracing::warn!(%setback, "a registration is not what it should be"),
        }
        self.write(self.status(&before, &states, known)).await?;
        self.collect_remnants().await;
        let delay = backoff::spread(delay, rand::random());
        self.looks.with(&self.uid, |r| {
            r.generation = generation;
            r.next = Some(Instant::now() + delay);
            if ready {
                r.round = 0;
            }
        });
        Ok(Action::requeue(delay))
    }

    /// Looks who is there: conditions, what else the status is to say, and when to look again.
    async fn see(&self) -> (Vec<State>, RemoteClusterStatus, Duration) {
        let found = self.shared.host.parts.hub.look(self.remote).await;
        let before = self.before();
        let (glimpse, why, delay, mut known) = match found {
            Ok((_, sight)) => {
                let recorded = before.identity.clone().unwrap_or_else(|| sight.identity.clone());
                let same = recorded == sight.identity;
                let why = Setback::new(
                    Class::UserFix,
                    "Replaced",
                    format!(
                        "this is another cluster than before: kube-system has UID {}, it had {recorded}; delete this object and make it anew",
                        sight.identity
                    ),
                );
                let known = RemoteClusterStatus {
                    endpoint: Some(Endpoint {
                        host: sight.host,
                        port: sight.port,
                    }),
                    kubernetes_version: Some(sight.version),
                    identity: Some(recorded),
                    credential_hash: Some(sight.credential_hash),
                    credential_expires: sight.expires.map(Time),
                    unreachable_since: None,
                    ..before.clone()
                };
                (Some(Glimpse::Seen { same }), why, LOOK, known)
            }
            Err(blind) => {
                let round = self.looks.with(&self.uid, |r| {
                    r.round = r.round.saturating_add(1);
                    r.round
                });
                // A Secret that comes late is found within seconds, a dead cluster is asked ever more rarely.
                let most = if blind.setback.class == Class::Wait { 2 } else { 6 };
                let delay = backoff::retry(round.min(most), 0.5);
                let mut known = before.clone();
                // That the hub did not answer says nothing of the remote; that it never was in reach, nothing of since when.
                if blind.glimpse.is_some() && before.credential_hash.is_some() {
                    known.unreachable_since = before
                        .unreachable_since
                        .clone()
                        .or_else(|| Some(Time(Timestamp::now())));
                }
                (blind.glimpse, blind.setback, delay, known)
            }
        };
        known.path = self.shared.host.parts.hub.path_to(self.remote);
        let mut as_known = self.remote.clone();
        as_known.status = Some(known.clone());
        let state = glimpse.map(|glimpse| RemoteState::of(glimpse, chandlery::scope::known(&as_known)));
        let states = match state {
            Some(RemoteState::Ready) => vec![State::new(READY, true, "Reachable", "")],
            Some(RemoteState::Abandoned) => {
                known.abandoned_at = known.abandoned_at.clone().or_else(|| Some(Time(Timestamp::now())));
                let message = "it was out of reach for longer than abandonAfter, and what is on it is given up; delete this object and make it anew";
                vec![
                    State::new(READY, false, "Abandoned", message),
                    State::new(STALLED, true, "Abandoned", message),
                ]
            }
            _ => {
                let kind = if why.class.effect().stalled {
                    STALLED
                } else {
                    RECONCILING
                };
                vec![
                    State::new(READY, false, why.reason.clone(), why.message.clone()),
                    State::new(kind, true, why.reason, why.message),
                ]
            }
        };
        let waits = self.remote.spec.abandon_after.is_some()
            && known.unreachable_since.is_some()
            && known.abandoned_at.is_none();
        let nears = left_of(&known).and_then(Expiring::changes_in).unwrap_or(delay);
        let delay = if waits { delay.min(ABANDON_LOOK) } else { delay };
        (states, known, delay.min(nears))
    }

    fn key(&self) -> RemoteKey {
        RemoteKey {
            namespace: self.remote.metadata.namespace.clone().unwrap_or_default(),
            name: self.remote.metadata.name.clone().unwrap_or_default(),
            uid: self.uid.clone(),
        }
    }

    /// Registers what is claimed, and removes the registration of what no longer is. Answers what the status is to say.
    async fn keep_registered(&self, known: &RemoteClusterStatus) -> Result<Option<String>, Setback> {
        let Some(argocd) = ArgoCd::of(self.shared.client.clone(), self.remote) else {
            return Ok(None);
        };
        let claims = &self.shared.host.parts.hub.claims;
        let at = |argocd: &ArgoCd| Some(argocd.path());
        let remembered = self.looks.with(&self.uid, |r| r.registration.clone());
        if self.count() == 0 {
            if remembered == Registration::Absent {
                return Ok(None);
            }
            return match claims.tear_down(&self.key(), Trigger::LastClaim, &argocd).await? {
                TornDown::Done | TornDown::Nothing => {
                    self.looks.with(&self.uid, |r| r.registration = Registration::Absent);
                    Ok(None)
                }
                torn_down => Err(waits(torn_down)),
            };
        }
        let hash = known.credential_hash.clone().unwrap_or_default();
        if remembered == Registration::There(hash.clone()) {
            return Ok(at(&argocd));
        }
        let endpoint = self.shared.host.parts.hub.endpoint(self.remote).await?;
        let argocd = argocd.saying(&endpoint);
        match claims.register(&self.key(), &argocd).await? {
            Registered::Current => {
                self.looks
                    .with(&self.uid, |r| r.registration = Registration::There(hash));
                Ok(at(&argocd))
            }
            Registered::Closed => Ok(None),
            Registered::Foreign => Err(argocd.is_foreign()),
        }
    }

    /// Takes away what holders left that are gone, and gives back claims that nothing was ever done under.
    async fn collect_remnants(&self) {
        let of_this = |claim: &&Arc<RemoteClaim>| claim.spec.remote.uid == self.uid.as_str();
        for claim in self.claims.state().iter().filter(of_this) {
            let holder = self
                .shared
                .provisions
                .find(|provision| provision.metadata.uid.as_deref() == Some(claim.spec.holder.uid.as_str()));
            let inner = self
                .shared
                .host
                .parts
                .hub
                .remotes
                .find(|remote| remote.metadata.uid.as_deref() == Some(claim.spec.holder.uid.as_str()));
            // Who is there and works gives back by itself.
            if inner.is_some() || holder.is_some_and(|holder| !holder.spec.0.paused) {
                continue;
            }
            if let Err(setback) = self.shared.host.collect(claim).await {
                tracing::info!(claim = claim.metadata.name, %setback, "what a holder left is not taken away yet");
            }
        }
    }

    /// Stays until the tear-down has come to its end.
    async fn close(&self) -> Result<Action, Setback> {
        if !finalizer::has(self.remote) {
            return Ok(Action::await_change());
        }
        self.collect_remnants().await;
        let argocd = ArgoCd::of(self.shared.client.clone(), self.remote);
        let registrar: &dyn Registrar = match &argocd {
            Some(argocd) => argocd,
            None => &Unregistered,
        };
        let claims = &self.shared.host.parts.hub.claims;
        let torn_down = claims.tear_down(&self.key(), Trigger::Deletion, registrar).await?;
        let setback = match torn_down {
            TornDown::Done | TornDown::Nothing => {
                // What is reached through another held that one until now. If this does not come to its end, the other's
                // look finds a claim of nobody's.
                if self.remote.spec.via.is_some() {
                    claims.release_all_of(&self.key().namespace, &self.uid).await?;
                }
                self.shared.host.parts.hub.forget(&self.uid);
                self.looks
                    .0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(&self.uid);
                return Ok(Action::await_change());
            }
            TornDown::Again => return Ok(Action::requeue(Duration::from_millis(100))),
            torn_down => waits(torn_down),
        };
        // Also on its way out it is looked at: what is on it may be given up meanwhile.
        let now = Instant::now();
        let is_due = self.looks.with(&self.uid, |r| r.next.is_none_or(|next| next <= now));
        let seen = if is_due {
            let (_, known, delay) = self.see().await;
            self.looks.with(&self.uid, |r| r.next = Some(Instant::now() + delay));
            known
        } else {
            self.before()
        };
        let before = self.before();
        let states = [
            State::new(
                READY,
                false,
                setback.reason.clone(),
                format!("deletion waits: {}", setback.message),
            ),
            State::new(RECONCILING, true, setback.reason, setback.message),
        ];
        let known = RemoteClusterStatus {
            claims: Some(self.count()),
            ..seen
        };
        self.write(self.status_with(&before, &states, known)).await?;
        Ok(Action::requeue(Duration::from_secs(5)))
    }

    /// The status as this process last wrote it. The fence in it, and what steps left behind, are written by others.
    fn before(&self) -> RemoteClusterStatus {
        let written = self.looks.with(&self.uid, |r| r.status.clone());
        RemoteClusterStatus {
            phase: None,
            registrars: Vec::new(),
            left_behind: Vec::new(),
            ..written.or_else(|| self.remote.status.clone()).unwrap_or_default()
        }
    }

    fn count(&self) -> i64 {
        let count = self
            .claims
            .state()
            .iter()
            .filter(|claim| claim.spec.remote.uid == self.uid.as_str())
            .count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    fn status(
        &self,
        before: &RemoteClusterStatus,
        states: &[State],
        known: RemoteClusterStatus,
    ) -> RemoteClusterStatus {
        self.status_with(
            before,
            states,
            RemoteClusterStatus {
                claims: Some(self.count()),
                ..known
            },
        )
    }

    fn status_with(
        &self,
        before: &RemoteClusterStatus,
        states: &[State],
        known: RemoteClusterStatus,
    ) -> RemoteClusterStatus {
        let generation = self.remote.metadata.generation;
        let mut states = states.to_vec();
        if let (Some(expiring), Some(Time(end))) = (left_of(&known).and_then(Expiring::of), &known.credential_expires) {
            let message = format!("the credential in use ends at {end}");
            states.push(State::new(CREDENTIAL_EXPIRES, true, expiring.reason(), message));
        }
        RemoteClusterStatus {
            observed_generation: generation,
            conditions: merge(&before.conditions, &states, generation, Timestamp::now()),
            ..known
        }
    }

    async fn write(&self, after: RemoteClusterStatus) -> Result<(), Setback> {
        let before = self.before();
        if before == after {
            return Ok(());
        }
        let name = self.remote.metadata.name.clone().unwrap_or_default();
        let namespace = self.remote.metadata.namespace.clone().unwrap_or_default();
        let patch = json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "RemoteCluster", "metadata": {"name": name, "uid": self.uid}, "status": after});
        timed(
            "the status",
            self.api
                .patch_status(&name, &PatchParams::apply("chandlery").force(), &Patch::Apply(&patch)),
        )
        .await?;
        let reason = |status: &RemoteClusterStatus, kind: &str| {
            let found = status.conditions.iter().find(|c| c.type_ == kind);
            found.map(|c| (c.status.clone(), c.reason.clone()))
        };
        let turned = reason(&before, READY) != reason(&after, READY)
            || before.credential_hash != after.credential_hash
            || before.abandoned_at != after.abandoned_at;
        let condition = after.conditions.iter().find(|c| c.type_ == READY).cloned();
        let expires = after.conditions.iter().find(|c| c.type_ == CREDENTIAL_EXPIRES);
        if let Some(expires) =
            expires.filter(|_| reason(&before, CREDENTIAL_EXPIRES) != reason(&after, CREDENTIAL_EXPIRES))
        {
            tracing::warn!(remote = %format!("{namespace}/{name}"), message = expires.message, "a credential ends soon");
            let word = format!("Credential{}", expires.reason);
            self.shared
                .teller
                .tell(self.remote, false, &word, &expires.message)
                .await;
        }
        self.looks.with(&self.uid, |r| r.status = Some(after));
        if let Some(condition) = condition
            && turned
        {
            tracing::info!(remote = %format!("{namespace}/{name}"), ready = condition.status, reason = condition.reason, message = condition.message, "state");
            self.shared
                .teller
                .tell(
                    self.remote,
                    condition.status != "False",
                    &condition.reason,
                    &condition.message,
                )
                .await;
            self.shared.nudge_all(|provision| {
                provision.metadata.namespace.as_deref() == Some(&namespace)
                    && provision.spec.0.remotes.iter().any(|remote| remote.reference == name)
            });
            self.nudge_within(&namespace, &name);
        }
        Ok(())
    }

    /// Has the remotes looked at again that are reached through this one.
    fn nudge_within(&self, namespace: &str, name: &str) {
        let remotes = self.shared.host.parts.hub.remotes.state();
        let is_within = |remote: &&Arc<RemoteCluster>| {
            remote.spec.via.as_deref() == Some(name) && remote.metadata.namespace.as_deref() == Some(namespace)
        };
        for inner in remotes.iter().filter(is_within) {
            if let Ok(uid) = uid_of(inner.as_ref()) {
                self.looks.with(&uid, |r| r.next = None);
            }
            let _ = self.shared.nudge_remote.send(ObjectRef::from_obj(inner.as_ref()));
        }
    }
}

/// How long the credential in use has to go; nothing where it does not say.
fn left_of(known: &RemoteClusterStatus) -> Option<Duration> {
    let Time(end) = known.credential_expires.as_ref()?;
    Some(Duration::try_from(end.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO))
}
