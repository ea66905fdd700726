//! StepRecords on the hub: every change durable before its method returns, nothing written that is there already.
//!
//! The leader is the only writer, so what it wrote last is what there is; where that turns out wrong (a compare-and-swap
//! fails), the provision's records are read again before anything else is done.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chandlery_api::{ProvisionRef, StepRecord, StepRecordSpec};
use chandlery_core::cluster::REQUEST_TIMEOUT;
use chandlery_core::ports::{Ledger, Records};
use chandlery_core::record::Record;
use chandlery_core::{Class, Setback, Uid};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::json;

use crate::ledger::{self, Found, StoredLedger};

/// Label with the UID of the provision, on StepRecords and RemoteClaims.
pub(crate) const PROVISION_LABEL: &str = "chandlery.dev/provision";

/// All ledgers this process holds.
pub struct RecordStore {
    client: Client,
    by_provision: Mutex<HashMap<Uid, Vec<Arc<StoredLedger>>>>,
}

impl RecordStore {
    /// An empty store on the hub.
    pub fn new(client: Client) -> Arc<Self> {
        Arc::new(Self {
            client,
            by_provision: Mutex::default(),
        })
    }

    /// The records of one provision, as the engine wants them.
    pub fn of(self: &Arc<Self>, namespace: &str, name: &str, uid: &Uid) -> ProvisionRecords {
        ProvisionRecords {
            store: self.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.clone(),
        }
    }

    /// Drops what is held of a provision: the next pass reads it again.
    pub fn forget(&self, uid: &Uid) {
        self.lock().remove(uid);
    }

    /// Drops one ledger: its step is undone.
    pub(crate) fn drop_ledger(&self, uid: &Uid, closed: &StoredLedger) {
        if let Some(ledgers) = self.lock().get_mut(uid) {
            ledgers.retain(|ledger| !std::ptr::eq(ledger.as_ref(), closed));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uid, Vec<Arc<StoredLedger>>>> {
        self.by_provision.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The records of one provision.
pub struct ProvisionRecords {
    store: Arc<RecordStore>,
    namespace: String,
    name: String,
    uid: Uid,
}

impl ProvisionRecords {
    fn api(&self) -> Api<StepRecord> {
        Api::namespaced(self.store.client.clone(), &self.namespace)
    }

    fn provision(&self) -> ProvisionRef {
        ProvisionRef {
            name: self.name.clone(),
            uid: self.uid.to_string(),
        }
    }

    fn ledger(&self, found: Found) -> Arc<StoredLedger> {
        let store = Arc::downgrade(&self.store);
        Arc::new(StoredLedger::new(
            self.api(),
            store,
            self.provision(),
            self.uid.clone(),
            found,
        ))
    }

    fn remember(&self, ledgers: Vec<Arc<StoredLedger>>) {
        self.store.lock().insert(self.uid.clone(), ledgers);
    }
}

#[async_trait]
impl Records for ProvisionRecords {
    async fn load(&self) -> Result<Vec<Arc<dyn Ledger>>, Setback> {
        let known = self.store.lock().get(&self.uid).cloned();
        let ledgers = match known {
            Some(ledgers) => ledgers,
            None => {
                let selector = ListParams::default().labels(&format!("{PROVISION_LABEL}={}", self.uid));
                let mut objects = timed("the step records", self.api().list(&selector)).await?.items;
                objects.retain(|object| object.spec.provision.uid == self.uid.as_str());
                let (found, strays) = ledger::assemble(objects);
                for stray in strays {
                    remove(&self.api(), &stray).await?;
                }
                let ledgers: Vec<_> = found.into_iter().map(|found| self.ledger(found)).collect();
                self.remember(ledgers.clone());
                ledgers
            }
        };
        Ok(ledgers.into_iter().map(|ledger| ledger as Arc<dyn Ledger>).collect())
    }

    async fn open(&self, record: Record) -> Result<Arc<dyn Ledger>, Setback> {
        let spec = StepRecordSpec {
            provision: self.provision(),
            record: Some(record.clone()),
            more: None,
        };
        let object = ledger::object(&self.uid, 0, spec);
        match timed("the step record", self.api().create(&PostParams::default(), &object)).await {
            Ok(object) => {
                let ledger = self.ledger(ledger::opened(record, object));
                self.store
                    .lock()
                    .entry(self.uid.clone())
                    .or_default()
                    .push(ledger.clone());
                Ok(ledger)
            }
            Err(setback) => {
                // Perhaps the answer was lost, perhaps another process was here: the truth is read before going on.
                self.store.forget(&self.uid);
                Err(setback)
            }
        }
    }
}

/// Deletes an object of a record, unless somebody else has written to it since it was read. The finalizer first: after that
/// nobody takes it for one that is in use. Absent already is fine.
pub(crate) async fn remove(api: &Api<StepRecord>, metadata: &ObjectMeta) -> Result<(), Setback> {
    let name = metadata.name.clone().unwrap_or_default();
    let free = json!({"metadata": {
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
        "finalizers": null,
    }});
    match timed_raw(api.patch(&name, &PatchParams::default(), &Patch::Merge(&free))).await {
        // It was being deleted, and is gone with its finalizer.
        Ok(freed) if freed.metadata.deletion_timestamp.is_some() => return Ok(()),
        Err(Failed::Api(404)) => return Ok(()),
        Ok(_) => {}
        Err(failed) => return Err(failed.into_setback("the step record")),
    }
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    match timed_raw(api.delete(&name, &parameters)).await {
        // A conflict: another UID by now, so ours is gone.
        Ok(_) | Err(Failed::Api(404 | 409)) => Ok(()),
        Err(failed) => Err(failed.into_setback("the step record")),
    }
}

/// Why a request of the host's own to the hub failed.
#[derive(Debug)]
pub(crate) enum Failed {
    Api(u16),
    Refused(u16, String),
    Fenced,
    Lost(String),
}

impl Failed {
    pub(crate) fn into_setback(self, what: &str) -> Setback {
        match self {
            Failed::Fenced => Setback::new(Class::Wait, "NotLeading", "this process does not hold the lease"),
            Failed::Api(409) => Setback::new(
                Class::Retry,
                "HubConflict",
                format!("{what} was changed by somebody else; it is read again"),
            ),
            Failed::Api(404) => Setback::new(Class::Retry, "HubNotFound", format!("{what} is not there")),
            Failed::Api(code) => Setback::new(Class::Retry, "HubRefuses", format!("the hub answers {code} for {what}")),
            Failed::Refused(code, message) => Setback::new(
                Class::Retry,
                "HubRefuses",
                format!("the hub answers {code} for {what}: {message}"),
            ),
            Failed::Lost(why) => Setback::new(
                Class::Retry,
                "HubUnreachable",
                format!("the hub did not answer for {what}: {why}"),
            ),
        }
    }
}

/// A request with a deadline; kube's own has none.
pub(crate) async fn timed_raw<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failed> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Err(_) => Err(Failed::Lost(format!(
            "no answer within {} s",
            REQUEST_TIMEOUT.as_secs()
        ))),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409 | 422) => Err(Failed::Api(status.code)),
        Ok(Err(kube::Error::Api(status))) => Err(Failed::Refused(
            status.code,
            chandlery_core::readiness::one_line(&status.message),
        )),
        Ok(Err(error)) if crate::wire::is_fenced(&error) => Err(Failed::Fenced),
        Ok(Err(error)) => Err(Failed::Lost(chandlery_core::readiness::one_line(&error.to_string()))),
    }
}

pub(crate) async fn timed<T>(what: &str, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Setback> {
    timed_raw(request).await.map_err(|failed| failed.into_setback(what))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use chandlery_core::ObjectRef;
    use chandlery_core::record::{Entry, Mode, Receipt, Target};
    use http::{Method, Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use tower::BoxError;

    use super::*;

    /// A hub that stores what it is sent, but refuses the first change.
    fn hub(changes: &Arc<AtomicU32>) -> Client {
        let changes = changes.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let refused = request.method() == Method::PUT && changes.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                let (status, body) = if refused {
                    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503, "reason": "", "message": ""});
                    (503, status.to_string().into())
                } else {
                    (200, body)
                };
                let response = Response::builder().status(status).body(Body::from(body.to_vec()))?;
                Ok::<_, BoxError>(response)
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn an_entry_that_could_not_be_stored_is_stored_before_the_object_is_written_all_the_same() {
        let changes = Arc::new(AtomicU32::new(0));
        let store = RecordStore::new(hub(&changes));
        let receipt = Receipt {
            plugin: "p".into(),
            digest: chandlery_core::Digest::of(b"p"),
            spec: json!({}),
            target: Target::Remote {
                name: "r".into(),
                uid: "r".parse().unwrap(),
            },
            cluster_identity: String::new(),
            background_deletion: false,
            needs: vec![],
        };
        let record = Record::new("step".parse().unwrap(), receipt);
        let ledger = store.of("team", "p", &"1".parse().unwrap()).open(record).await.unwrap();
        let entry = Entry {
            object: ObjectRef::new("v1", "ConfigMap", Some("default"), "c"),
            uid: None,
            mode: Mode::Pending,
            wave: 0,
        };
        let intend = || ledger.intend("identity", vec![entry.clone()]);
        assert!(intend().await.is_err());
        // In memory it is entered by now, on the hub it is not.
        intend().await.unwrap();
        assert_eq!(changes.load(Ordering::Relaxed), 2);
        intend().await.unwrap();
        assert_eq!(changes.load(Ordering::Relaxed), 2, "what is stored is not stored again");
    }
}
