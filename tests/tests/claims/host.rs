//! One process of the host: engine, records and claims as they are, a plugin and a remote of a few lines.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use async_trait::async_trait;
use chandlery_core::claim::{Purpose, Registered, Rules, Trigger};
use chandlery_core::cluster::{
    CallError, ClusterAccess, Deletion, DeletionState, Facts, JsonPatch, Page, Query, Readiness, Watched,
};
use chandlery_core::names::FINALIZER;
use chandlery_core::ports::{self, Call, Entered, Ledger, Ports, Scope, TakenAway};
use chandlery_core::record::{Entry, Mode, Target};
use chandlery_core::task::{Done, Export, Outcome};
use chandlery_core::{Digest, ObjectRef, Setback, StepName, Uid};
use chandlery_engine::{Look as Eyes, compile, pass, undo_all};
use chandlery_scope::kubeconfig::{Policy, parse};
use chandlery_scope::{
    Admission, ArgoCd, ClaimKey, ClaimStore, Holder, InstanceIdentity, OwnerKind, RecordStore, RemoteKey,
};
use chandlery_simulator::faults::{AnswerBody, Faults, Faulty, Plan, Ran};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::{BoxError, Layer as _, Service};

use crate::hub::{ARGOCD, FAR, Hub, Look, REMOTE, TEAM, spec};
use crate::place::Server;

/// What a host is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Bring(&'static str),
    /// Its condition is false.
    Turn(&'static str),
    Back(&'static str),
    Collect(&'static str),
    Protect,
    Register,
    Drain,
    End,
}

/// Where a run stands still, and what lets it go on.
#[derive(Clone)]
pub(crate) struct Stand {
    pub(crate) before: usize,
    pub(crate) reached: Arc<Notify>,
    pub(crate) go: Arc<Notify>,
}

/// What was seen on the way.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) calls: Vec<String>,
    pub(crate) broken: Option<String>,
    last: Look,
}

impl Log {
    /// Somebody has written: does all hold that must?
    pub(crate) fn look(&mut self, hub: &Hub) {
        if self.broken.is_none() {
            let now = hub.look();
            self.broken = now.broken_since(&self.last);
            self.last = now;
        }
    }
}

struct Line {
    next: Faulty<Server>,
    stand: Option<Stand>,
    made: usize,
}

/// The one way from a host to the hub.
#[derive(Clone)]
struct Wire {
    name: char,
    hub: Hub,
    line: Arc<Mutex<Line>>,
    log: Arc<Mutex<Log>>,
}

impl Service<Request<Body>> for Wire {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let wire = self.clone();
        Box::pin(async move {
            let (mut next, stand) = {
                let mut line = wire.line.lock().unwrap();
                let at = line.made;
                line.made += 1;
                let stand = line.stand.clone().filter(|stand| stand.before == at);
                (line.next.clone(), stand)
            };
            if let Some(stand) = stand {
                stand.reached.notify_one();
                stand.go.notified().await;
            }
            let call = format!("{} {} {}", wire.name, request.method(), request.uri().path());
            // A claim or record that is new, and a fence, break nothing by themselves.
            let (method, path) = (request.method(), request.uri().path());
            let is_new = method == Method::POST && (path.ends_with("/remoteclaims") || path.ends_with("/steprecords"));
            let writes =
                method != Method::GET && !is_new && !path.ends_with("/status") && !path.contains("/provisions");
            let answer = next.call(request).await;
            let mut log = wire.log.lock().unwrap();
            log.calls.push(call);
            if writes {
                log.look(&wire.hub);
            }
            drop(log);
            answer
        })
    }
}

/// One process.
pub(crate) struct Process {
    name: char,
    pod: String,
    client: Client,
    claims: Arc<ClaimStore>,
    records: Arc<RecordStore>,
    remote: RemoteKey,
    uids: Vec<(&'static str, Uid)>,
    line: Arc<Mutex<Line>>,
    hub: Hub,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself.
    Finished,
    /// Its host died.
    Died,
}

impl Process {
    /// A new process in a Pod of its own.
    pub(crate) fn start(name: char, hub: &Hub, log: &Arc<Mutex<Log>>, rules: Rules) -> Self {
        let pod = format!("pod-{}-{:x}", name.to_ascii_lowercase(), rand::random::<u64>());
        let made = hub.create(
            &format!("/api/v1/namespaces/{TEAM}/pods"),
            &json!({"metadata": {"name": pod}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        );
        let identity = InstanceIdentity::of_pod(&format!("{TEAM}/{pod}"), made["metadata"]["uid"].as_str().unwrap());
        let line = Arc::new(Mutex::new(Line {
            next: Faults::new(Plan::default()).layer(hub.0.clone()),
            stand: None,
            made: 0,
        }));
        let wire = Wire {
            name,
            hub: hub.clone(),
            line: line.clone(),
            log: log.clone(),
        };
        let client = Client::new(wire, TEAM);
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or("gone").parse().unwrap();
        Self {
            name,
            pod,
            claims: ClaimStore::with_rules(client.clone(), identity, rules),
            records: RecordStore::new(client.clone()),
            remote: RemoteKey {
                namespace: TEAM.into(),
                name: REMOTE.into(),
                uid: hub.remote().map_or("gone".parse().unwrap(), |remote| uid(&remote)),
            },
            uids: ["one", "two"]
                .into_iter()
                .map(|holder| {
                    (
                        holder,
                        hub.provision(holder)
                            .map_or("gone".parse().unwrap(), |found| uid(&found)),
                    )
                })
                .collect(),
            client,
            line,
            hub: hub.clone(),
        }
    }

    /// What a process knows without asking goes with it, and its Pod.
    pub(crate) fn successor(&self, log: &Arc<Mutex<Log>>, rules: Rules) -> Self {
        self.hub.delete(&format!("/api/v1/namespaces/{TEAM}/pods/{}", self.pod));
        Self {
            remote: self.remote.clone(),
            uids: self.uids.clone(),
            ..Self::start(self.name, &self.hub, log, rules)
        }
    }

    /// Does some work, disturbed as told.
    pub(crate) async fn run(&self, work: Work, plan: Plan, stand: Option<Stand>) -> Ended {
        let faults = Faults::new(plan);
        {
            let mut line = self.line.lock().unwrap();
            line.next = faults.layer(self.hub.0.clone());
            line.stand = stand;
            line.made = 0;
        }
        match faults.run(self.work(work)).await {
            Ran::Finished(()) => Ended::Finished,
            Ran::Crashed => Ended::Died,
        }
    }

    /// How many calls the last run made.
    pub(crate) fn calls(&self) -> usize {
        self.line.lock().unwrap().made
    }

    async fn work(&self, work: Work) {
        // What does not come to its end is tried again by whoever comes next.
        let done: Result<(), Setback> = match work {
            Work::Bring(holder) => self.pass(holder, "true").await,
            Work::Turn(holder) => self.pass(holder, "false").await,
            Work::Back(holder) => self.undo(holder).await,
            Work::Collect(holder) => self.collect(holder).await,
            Work::Protect => {
                let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
                let api: Api<chandlery_api::RemoteCluster> = Api::namespaced(self.client.clone(), TEAM);
                let made = api.patch(REMOTE, &PatchParams::default(), &Patch::Merge(&patch)).await;
                made.map(drop)
                    .map_err(|error| Setback::new(chandlery_core::Class::Retry, "HubRefuses", error.to_string()))
            }
            Work::Register => self.claims.register(&self.remote, &self.argocd()).await.map(drop),
            Work::Drain => self
                .claims
                .tear_down(&self.remote, Trigger::LastClaim, &self.argocd())
                .await
                .map(drop),
            Work::End => self
                .claims
                .tear_down(&self.remote, Trigger::Deletion, &self.argocd())
                .await
                .map(drop),
        };
        tracing::debug!(host = %self.name, ?work, ?done);
    }

    /// Registers with this server's address, disturbed as told.
    pub(crate) async fn register(&self, server: &str, plan: Plan) -> Result<Registered, Setback> {
        let faults = Faults::new(plan);
        {
            let mut line = self.line.lock().unwrap();
            line.next = faults.layer(self.hub.0.clone());
            line.made = 0;
        }
        self.claims.register(&self.remote, &self.argocd_at(server)).await
    }

    fn argocd(&self) -> ArgoCd {
        self.argocd_at("https://remote.example:6443")
    }

    fn argocd_at(&self, server: &str) -> ArgoCd {
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "t"}}]});
        let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
        let endpoint = parse(kubeconfig.to_string().as_bytes(), None, Policy::default(), now).unwrap();
        ArgoCd::new(self.client.clone(), ARGOCD, self.remote.uid.clone(), REMOTE).saying(&endpoint)
    }

    fn uid(&self, holder: &str) -> Uid {
        self.uids.iter().find(|(name, _)| *name == holder).unwrap().1.clone()
    }

    fn key(&self, holder: &str) -> ClaimKey {
        ClaimKey {
            namespace: TEAM.into(),
            holder: Holder::Step {
                owner: OwnerKind::Provision,
                name: holder.into(),
                uid: self.uid(holder),
                step: "s".parse().unwrap(),
            },
            remote: REMOTE.into(),
            remote_uid: self.remote.uid.clone(),
        }
    }

    async fn pass(&self, holder: &'static str, when: &str) -> Result<(), Setback> {
        let graph = compile(&serde_json::from_value(spec(when)).unwrap()).unwrap();
        let records = self.records.of(TEAM, holder, &self.uid(holder));
        let far = Far { process: self, holder };
        let look = Eyes {
            due: BTreeSet::from(["s".parse().unwrap()]),
            concurrency: 1,
            ..Eyes::default()
        };
        pass(&graph, far.ports(&records), &look).await.map(drop)
    }

    async fn undo_all(&self, holder: &'static str) -> Result<bool, Setback> {
        let records = self.records.of(TEAM, holder, &self.uid(holder));
        let far = Far { process: self, holder };
        let look = Eyes {
            concurrency: 1,
            ..Eyes::default()
        };
        let pass = undo_all(far.ports(&records), &look).await?;
        Ok(pass.rows.is_empty())
    }

    async fn undo(&self, holder: &'static str) -> Result<(), Setback> {
        let leaves = self
            .hub
            .provision(holder)
            .is_some_and(|found| !found["metadata"]["deletionTimestamp"].is_null());
        if self.undo_all(holder).await? && leaves {
            let api: Api<chandlery_api::Provision> = Api::namespaced(self.client.clone(), TEAM);
            let patch = json!({"metadata": {"uid": self.uid(holder), "finalizers": null}});
            let _ = api.patch(holder, &PatchParams::default(), &Patch::Merge(&patch)).await;
        }
        Ok(())
    }

    async fn collect(&self, holder: &'static str) -> Result<(), Setback> {
        let key = self.key(holder);
        if self.claims.is_held_by_nobody(&key).await? && !self.undo_all(holder).await? {
            return Ok(());
        }
        self.claims.release(&key).await
    }
}

/// The remote of one holder's pass.
struct Far<'a> {
    process: &'a Process,
    holder: &'static str,
}

impl<'a> Far<'a> {
    fn ports(&'a self, records: &'a dyn ports::Records) -> Ports<'a> {
        Ports {
            records,
            remotes: self,
            plugins: self,
        }
    }
}

#[async_trait]
impl ports::Remotes for Far<'_> {
    fn target(&self, _: &str) -> Result<Target, Setback> {
        Ok(Target::Remote {
            name: REMOTE.into(),
            uid: self.process.remote.uid.clone(),
        })
    }

    async fn enter(&self, _: &Target, purpose: Purpose, ledger: Arc<dyn Ledger>) -> Result<Entered, Setback> {
        let key = self.process.key(self.holder);
        Ok(match self.process.claims.take(&key, purpose, ledger.as_ref()).await? {
            Admission::RemoteGone => Entered::Vanished("the remote is gone".into()),
            Admission::Use => Entered::Scope(Arc::new(Near {
                api: Api::namespaced(self.process.client.clone(), FAR),
                ledger,
                facts: Facts {
                    name: "r".into(),
                    identity: "i".into(),
                    host: "h".into(),
                    port: 1,
                    version: "1".into(),
                    path: vec![],
                },
                named: Mutex::default(),
            })),
        })
    }

    async fn leave(&self, _: &Target, _: &StepName) -> Result<(), Setback> {
        self.process.claims.release(&self.process.key(self.holder)).await
    }
}

#[async_trait]
impl ports::Plugins for Far<'_> {
    fn digest(&self, _: &str) -> Result<Digest, Setback> {
        Ok(Digest::of(b"p"))
    }

    async fn call(&self, call: Call<'_>) -> Result<Outcome, Setback> {
        if call.export == Export::Provision {
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": FAR, "name": self.holder}});
            for written in call.scope.apply(vec![object], false).await {
                written.map_err(CallError::into_setback)?;
            }
        }
        Ok(Outcome::Done(Done::default()))
    }
}

/// A scope that writes ConfigMaps.
struct Near {
    api: Api<ConfigMap>,
    ledger: Arc<dyn Ledger>,
    facts: Facts,
    named: Mutex<Vec<ObjectRef>>,
}

fn lost(error: kube::Error) -> CallError {
    CallError::Unavailable(error.to_string())
}

#[async_trait]
impl ClusterAccess for Near {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn apply(&self, objects: Vec<Value>, _: bool) -> Vec<Result<(), CallError>> {
        let mut results = Vec::new();
        for object in objects {
            let target = ObjectRef::of(&object).unwrap();
            let entry = Entry {
                object: target.clone(),
                uid: None,
                mode: Mode::Made,
                wave: 0,
            };
            self.named.lock().unwrap().push(target);
            let done = match self.ledger.intend("i", vec![entry]).await {
                Err(setback) => Err(CallError::Unavailable(setback.message)),
                Ok(()) => match self
                    .api
                    .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
                    .await
                {
                    Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                    other => other.map(drop).map_err(lost),
                },
            };
            results.push(done);
        }
        results
    }

    async fn get(&self, _: Vec<ObjectRef>) -> Vec<Result<Option<Value>, CallError>> {
        vec![]
    }
    async fn list(&self, _: Query) -> Result<Page, CallError> {
        Ok(Page::default())
    }
    async fn create(&self, _: Vec<Value>) -> Vec<Result<(), CallError>> {
        vec![]
    }
    async fn patch(&self, _: Vec<JsonPatch>) -> Vec<Result<(), CallError>> {
        vec![]
    }
    async fn delete(&self, _: Vec<Deletion>) -> Vec<Result<DeletionState, CallError>> {
        vec![]
    }
    async fn assess(&self, _: Vec<ObjectRef>) -> Vec<Result<Readiness, CallError>> {
        vec![]
    }
}

#[async_trait]
impl Scope for Near {
    fn named(&self) -> Vec<ObjectRef> {
        self.named.lock().unwrap().clone()
    }

    fn seen(&self) -> Vec<Watched> {
        vec![]
    }

    async fn watched(&self, _: Vec<ObjectRef>) -> Vec<Watched> {
        vec![]
    }

    async fn take_away(&self, entries: Vec<Entry>) -> Result<TakenAway, Setback> {
        for entry in entries {
            match self.api.delete(&entry.object.name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(lost(error).into_setback()),
            }
            self.ledger.forget(&entry.object);
        }
        Ok(TakenAway::Gone)
    }
}
