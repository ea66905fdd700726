//! A hub with everything in it, looked at as its administrator; the "remote" is a namespace of the same cluster.

use chandlery_api::crds;
use chandlery_tests::wait_until;
use http::Method;
use serde_json::{Value, json};

use crate::place::{Place, Server};

pub(crate) const TEAM: &str = "team";
pub(crate) const REMOTE: &str = "remote";
pub(crate) const ARGOCD: &str = "argocd";
pub(crate) const FAR: &str = "far";
const OURS: &str = "/apis/chandlery.dev/v1alpha1";

/// The hub.
#[derive(Clone)]
pub(crate) struct Hub(pub(crate) Server);

impl Hub {
    /// A hub in memory, with all that a scene begins with.
    pub(crate) fn new() -> Self {
        Self::at(Place::InMemory)
    }

    /// Definitions and namespaces, and what a scene begins with.
    pub(crate) fn at(place: Place) -> Self {
        let hub = Self(place.server());
        for crd in crds() {
            let name = crd.metadata.name.clone().unwrap();
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let crd = serde_json::to_value(crd).unwrap();
            let (status, answer) = hub.try_create(path, &crd);
            assert!(status < 300 || status == 409, "{answer}");
            wait_until(format!("{name} is served"), || {
                let found = hub.get(&format!("{path}/{name}"))?;
                let conditions = found["status"]["conditions"].as_array()?;
                let is_true = |kind: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == "True");
                is_true("Established").then_some(())
            });
        }
        for namespace in [TEAM, ARGOCD, FAR] {
            let (status, answer) = hub.try_create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}));
            assert!(status < 300 || status == 409, "{answer}");
        }
        let account = format!("/api/v1/namespaces/{TEAM}/serviceaccounts/default");
        wait_until("Pods can be made", || hub.get(&account));
        hub.populate();
        hub
    }

    /// One of its own for a scene: a copy, or the same real one with nothing left of the scenes before.
    pub(crate) fn fresh(&self) -> Self {
        let hub = Self(self.0.copy());
        if let Server::Real(_) = hub.0 {
            hub.populate();
        }
        hub
    }

    /// A RemoteCluster, and two holders that bear our finalizer.
    fn populate(&self) {
        let ours = |resource: &str| format!("{OURS}/namespaces/{TEAM}/{resource}");
        if let Server::Real(_) = self.0 {
            self.0.wipe(&[
                ours("provisions"),
                ours("steprecords"),
                ours("remoteclaims"),
                ours("remoteclusters"),
                format!("/api/v1/namespaces/{ARGOCD}/secrets"),
                format!("/api/v1/namespaces/{TEAM}/pods"),
            ]);
            for name in self.written() {
                self.delete(&format!("/api/v1/namespaces/{FAR}/configmaps/{name}"));
            }
        }
        self.create(
            &ours("remoteclusters"),
            &json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "RemoteCluster", "metadata": {"name": REMOTE},
                "spec": {"source": {"secretRef": {"name": "k"}}, "controller": true, "registration": {"argocd": {"namespace": ARGOCD}}}}),
        );
        for holder in ["one", "two"] {
            self.create(
                &ours("provisions"),
                &json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "Provision",
                    "metadata": {"name": holder, "finalizers": [chandlery_core::names::FINALIZER]},
                    "spec": spec("true")}),
            );
        }
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.0.send(&method, path, body)
    }

    pub(crate) fn create(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.send(Method::POST, path, Some(body));
        assert!(status < 300, "{path}: {answer}");
        answer
    }

    /// The status of a request that may be refused, and its answer.
    pub(crate) fn try_create(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send(Method::POST, path, Some(body))
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let (status, answer) = self.send(Method::GET, path, None);
        (status == 200).then_some(answer)
    }

    pub(crate) fn delete(&self, path: &str) {
        let (status, answer) = self.send(Method::DELETE, path, Some(&json!({"gracePeriodSeconds": 0})));
        assert!(status < 300 || status == 404, "{path}: {answer}");
    }

    pub(crate) fn merge(&self, path: &str, patch: &Value) {
        let (status, answer) = self.send(Method::PATCH, path, Some(patch));
        assert!(status < 300, "{path}: {answer}");
    }

    fn list(&self, path: &str) -> Vec<Value> {
        self.get(path)
            .and_then(|list| list["items"].as_array().cloned())
            .unwrap_or_default()
    }

    pub(crate) fn remote_path() -> String {
        format!("{OURS}/namespaces/{TEAM}/remoteclusters/{REMOTE}")
    }

    pub(crate) fn provision_path(holder: &str) -> String {
        format!("{OURS}/namespaces/{TEAM}/provisions/{holder}")
    }

    pub(crate) fn remote(&self) -> Option<Value> {
        self.get(&Self::remote_path())
    }

    pub(crate) fn provision(&self, holder: &str) -> Option<Value> {
        self.get(&Self::provision_path(holder))
    }

    pub(crate) fn claims(&self) -> Vec<Value> {
        self.list(&format!("{OURS}/namespaces/{TEAM}/remoteclaims"))
    }

    fn records(&self) -> Vec<Value> {
        self.list(&format!("{OURS}/namespaces/{TEAM}/steprecords"))
    }

    pub(crate) fn registrations(&self) -> Vec<Value> {
        self.list(&format!("/api/v1/namespaces/{ARGOCD}/secrets"))
    }

    /// Names of holders that have something on the remote.
    pub(crate) fn written(&self) -> Vec<String> {
        let maps = self.list(&format!("/api/v1/namespaces/{FAR}/configmaps"));
        maps.iter()
            .filter_map(|map| map["metadata"]["name"].as_str())
            .filter(|name| *name != "kube-root-ca.crt")
            .map(str::to_owned)
            .collect()
    }

    fn is_draining(remote: &Value) -> bool {
        remote["status"]["phase"] == "Draining"
    }

    /// What there is now.
    pub(crate) fn look(&self) -> Look {
        Look {
            written: self.written(),
            claims: self.claims(),
            records: self.records(),
            remote: self.remote(),
            registered: !self.registrations().is_empty(),
        }
    }

    /// What is left when all should be gone.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left: Vec<String> = Vec::new();
        let names = |objects: Vec<Value>, what: &str| {
            objects
                .into_iter()
                .map(|object| format!("{what} {}", object["metadata"]["name"].as_str().unwrap_or_default()))
                .collect::<Vec<_>>()
        };
        left.extend(names(self.claims(), "claim"));
        left.extend(names(self.records(), "record"));
        left.extend(names(self.registrations(), "registration"));
        left.extend(names(
            self.list(&format!("{OURS}/namespaces/{TEAM}/provisions")),
            "provision",
        ));
        left.extend(names(self.remote().into_iter().collect(), "remote"));
        left.extend(self.written().into_iter().map(|holder| format!("what {holder} wrote")));
        left
    }
}

/// What there is at a moment.
#[derive(Default)]
pub(crate) struct Look {
    written: Vec<String>,
    claims: Vec<Value>,
    records: Vec<Value>,
    remote: Option<Value>,
    registered: bool,
}

impl Look {
    fn is_fenced(&self) -> bool {
        self.remote
            .as_ref()
            .is_some_and(|remote| Hub::is_draining(remote) || !remote["metadata"]["deletionTimestamp"].is_null())
    }

    /// What must hold after every write, of what was there before it.
    pub(crate) fn broken_since(&self, before: &Look) -> Option<String> {
        let (claims, records) = (&self.claims, &self.records);
        for holder in &self.written {
            let of_holder =
                |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str) == Some(holder);
            if !records.iter().any(|record| of_holder(record, "/spec/provision/name")) {
                return Some(format!(
                    "an orphan: {holder} has something on the remote, and no record"
                ));
            }
            if !claims.iter().any(|claim| of_holder(claim, "/spec/holder/name")) {
                return Some(format!("{holder} has something on the remote, and no claim"));
            }
        }
        match &self.remote {
            None if !self.written.is_empty() => return Some("the remote went with something on it".into()),
            None if self.registered => return Some("a registration without a remote".into()),
            _ => {}
        }
        if before.registered && !self.registered {
            let used = |record: &Value| {
                let identity = record["spec"]["record"]["receipt"]["clusterIdentity"].as_str();
                identity.is_some_and(|identity| !identity.is_empty())
            };
            let names: Vec<&Value> = claims.iter().map(|claim| &claim["spec"]["holder"]["name"]).collect();
            if records
                .iter()
                .any(|record| used(record) && names.contains(&&record["spec"]["provision"]["name"]))
            {
                return Some("deregistered while a claim that was used exists".into());
            }
        }
        let wrote = self.written.iter().any(|holder| !before.written.contains(holder));
        (wrote
            && self.is_fenced()
            && !self.registered
            && before.is_fenced()
            && !before.registered
            && self.claims.is_empty())
        .then(|| "used after tear-down".into())
    }
}

/// One step on the remote, by a condition.
pub(crate) fn spec(when: &str) -> Value {
    json!({"remotes": [{"name": "r", "ref": REMOTE}],
        "steps": [{"name": "s", "cluster": "r", "when": when, "plugin": "p"}]})
}
