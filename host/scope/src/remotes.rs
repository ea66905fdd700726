//! Gives scopes out: credential by the strict type, identity checked, claim taken; in this order. Credential and identity are
//! read anew by every pass, before its first write; the claim is asked for by every call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use chandlery_api::RemoteCluster;
use chandlery_core::claim::Purpose;
use chandlery_core::grant::Grant;
use chandlery_core::names::{self, HUB};
use chandlery_core::ports::{self, Entered, Ledger};
use chandlery_core::record::{Record, Target};
use chandlery_core::{Class, Setback, StepName, Uid};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use tokio::sync::OnceCell;

use crate::claims::{Admission, ClaimKey};
use crate::connection::Connection;
use crate::hub::{Hub, Sight, version_of};
use crate::records::timed;
use crate::scope::{ClusterScope, ScopeOptions};

/// What a provision's pass brings to entering a remote.
pub struct StepContext {
    /// Namespace of the provision.
    pub namespace: String,
    /// Its name.
    pub provision: String,
    /// Its UID.
    pub provision_uid: Uid,
    /// The ServiceAccount its steps on the hub act as.
    pub service_account: Option<String>,
    /// Names within the provision to names of RemoteClusters.
    pub name_to_remote: HashMap<String, String>,
}

/// What a plugin of a name may do, on remotes (`false`) or on the hub (`true`).
pub type GrantOf = Box<dyn Fn(&str, bool) -> Grant + Send + Sync>;

/// What was found when a remote was looked at in this pass, shared by those who ask at once.
type Looked = Arc<OnceCell<(Arc<Connection>, Sight)>>;

/// The clusters of one provision's steps, for one pass.
pub struct Remotes {
    hub: Arc<Hub>,
    context: StepContext,
    grant_of: GrantOf,
    entered: Mutex<HashMap<StepName, Arc<Connection>>>,
    looked: Mutex<HashMap<Uid, Looked>>,
}

impl Remotes {
    /// For one pass.
    pub fn new(hub: Arc<Hub>, context: StepContext, grant_of: GrantOf) -> Self {
        Self {
            hub,
            context,
            grant_of,
            entered: Mutex::default(),
            looked: Mutex::default(),
        }
    }

    /// The connection by which a step was entered in this pass, for its watches.
    pub fn connection_of(&self, step: &StepName) -> Option<Arc<Connection>> {
        self.entered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(step)
            .cloned()
    }

    fn scope(
        &self,
        connection: Arc<Connection>,
        facts: chandlery_core::cluster::Facts,
        record: &Record,
        ledger: Arc<dyn Ledger>,
        is_hub: bool,
    ) -> Entered {
        self.entered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(record.step.clone(), connection.clone());
        let uid = &self.context.provision_uid;
        let options = ScopeOptions {
            grant: (self.grant_of)(&record.receipt.plugin, is_hub),
            field_manager: names::field_manager(uid, &record.step),
            owner_mark: names::owner_mark(uid, &record.step),
            sealed_secrets: if is_hub { self.hub.sealed_secrets() } else { Vec::new() },
            is_hub,
        };
        Entered::Scope(Arc::new(ClusterScope::new(connection, facts, ledger, options)))
    }

    /// Credential and identity, read once for all steps of this pass; a look that failed is looked again.
    async fn look(&self, remote: &RemoteCluster, uid: &Uid) -> Result<(Arc<Connection>, Sight), Setback> {
        let looked = self
            .looked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(uid.clone())
            .or_default()
            .clone();
        looked.get_or_try_init(|| self.hub.look(remote)).await.cloned()
    }

    fn claim_key(&self, remote: &str, remote_uid: &Uid, step: &StepName) -> ClaimKey {
        ClaimKey {
            namespace: self.context.namespace.clone(),
            provision: self.context.provision.clone(),
            provision_uid: self.context.provision_uid.clone(),
            step: step.clone(),
            remote: remote.to_owned(),
            remote_uid: remote_uid.clone(),
        }
    }

    async fn enter_remote(
        &self,
        name: &str,
        uid: &Uid,
        purpose: Purpose,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Entered, Setback> {
        let record = ledger.record();
        let remote = self
            .hub
            .remote(&self.context.namespace, name)
            .filter(|remote| remote.metadata.uid.as_deref() == Some(uid.as_str()));
        let Some(remote) = remote else {
            return Err(Setback::new(
                Class::Wait,
                "WaitingForRemote",
                format!("RemoteCluster {name}, which this step was run on, is not there"),
            ));
        };
        let (connection, sight) = self.look(&remote, uid).await?;
        let before = Some(record.receipt.cluster_identity.as_str()).filter(|identity| !identity.is_empty());
        let before = before.or_else(|| remote.status.as_ref().and_then(|status| status.identity.as_deref()));
        if let Some(before) = before
            && before != sight.identity
        {
            let why = format!(
                "remote {name} is another cluster than before (kube-system has UID {}, it had {before})",
                sight.identity
            );
            return match purpose {
                Purpose::Deprovision if !record.receipt.cluster_identity.is_empty() => Ok(Entered::Vanished(format!(
                    "{why}: what the step made was in the old one"
                ))),
                _ => Err(Setback::new(
                    Class::UserFix,
                    "RemoteReplaced",
                    format!("{why}; delete the RemoteCluster and make it anew"),
                )),
            };
        }
        let key = self.claim_key(name, uid, &record.step);
        match self.hub.claims.take(&key, purpose, ledger.as_ref()).await? {
            Admission::Use => {}
            Admission::RemoteGone => return Ok(Entered::Vanished(format!("RemoteCluster {name} is gone"))),
        }
        let facts = connection.facts(name, sight.identity, sight.version, vec![name.to_owned()]);
        Ok(self.scope(connection, facts, &record, ledger, false))
    }

    async fn enter_hub(
        &self,
        service_account: &str,
        purpose: Purpose,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Entered, Setback> {
        let record = ledger.record();
        let namespace = &self.context.namespace;
        let Some(connection) = self.hub.tenant(namespace, service_account).await? else {
            let missing = format!("ServiceAccount {namespace}/{service_account} is not there");
            if purpose == Purpose::Deprovision && self.namespace_is_ending().await? {
                let outside: Vec<_> = record
                    .inventory
                    .iter()
                    .filter(|entry| entry.object.namespace.as_deref() != Some(namespace))
                    .cloned()
                    .collect();
                let left = if outside.is_empty() {
                    "nothing is left behind".to_owned()
                } else {
                    format!("left behind: {}", crate::undo::names(&outside))
                };
                return Ok(Entered::Vanished(format!(
                    "{missing} and its namespace is ending; {left}"
                )));
            }
            return Err(Setback::new(
                Class::Wait,
                "ServiceAccountMissing",
                format!("{missing}; the step acts as it"),
            ));
        };
        let identity = self.hub.own_identity().await?;
        let version = match self
            .hub
            .connection
            .learnt
            .get_or_try_init(|| version_of(&self.hub.connection))
            .await
        {
            Ok(learnt) => learnt.version.clone(),
            Err(error) => return Err(Setback::new(Class::Retry, "HubUnreachable", error.to_string())),
        };
        let facts = connection.facts(HUB, identity, version, Vec::new());
        Ok(self.scope(connection, facts, &record, ledger, true))
    }

    async fn namespace_is_ending(&self) -> Result<bool, Setback> {
        let api: Api<Namespace> = Api::all(self.hub.connection.client.clone());
        let found = timed("the namespace", api.get_opt(&self.context.namespace)).await?;
        Ok(found.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()))
    }
}

#[async_trait]
impl ports::Remotes for Remotes {
    fn target(&self, on: &str) -> Result<Target, Setback> {
        if on == HUB {
            return match &self.context.service_account {
                Some(service_account) => Ok(Target::Hub {
                    service_account: service_account.clone(),
                }),
                None => Err(Setback::new(
                    Class::UserFix,
                    "NoServiceAccount",
                    "a step on the hub acts as a ServiceAccount: set spec.serviceAccountName",
                )),
            };
        }
        let wait = |message: String| Setback::new(Class::Wait, "WaitingForRemote", message);
        let name = self
            .context
            .name_to_remote
            .get(on)
            .ok_or_else(|| wait(format!("there is no remote {on}")))?;
        let remote = self.hub.remote(&self.context.namespace, name).ok_or_else(|| {
            wait(format!(
                "there is no RemoteCluster {name} in namespace {} yet",
                self.context.namespace
            ))
        })?;
        if remote.metadata.deletion_timestamp.is_some() {
            return Err(Setback::new(
                Class::Wait,
                "RemoteClosing",
                format!("RemoteCluster {name} is being deleted"),
            ));
        }
        let uid = remote
            .metadata
            .uid
            .as_deref()
            .and_then(|uid| uid.parse().ok())
            .ok_or_else(|| wait(format!("RemoteCluster {name} has no UID yet")))?;
        Ok(Target::Remote {
            name: name.clone(),
            uid,
        })
    }

    async fn enter(&self, target: &Target, purpose: Purpose, ledger: Arc<dyn Ledger>) -> Result<Entered, Setback> {
        match target {
            Target::Remote { name, uid } => self.enter_remote(name, uid, purpose, ledger).await,
            Target::Hub { service_account } => self.enter_hub(service_account, purpose, ledger).await,
        }
    }

    async fn leave(&self, target: &Target, step: &StepName) -> Result<(), Setback> {
        match target {
            Target::Remote { name, uid } => self.hub.claims.release(&self.claim_key(name, uid, step)).await,
            Target::Hub { .. } => Ok(()),
        }
    }
}
