//! Gives scopes out: credential by the strict type, identity checked, claim taken; in this order. Credential and identity are
//! read anew by every pass, before its first write; the claim is asked for by every call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chandlery_api::{LeftBehind, RemoteCluster, WhenUnreachable};
use chandlery_core::claim::Purpose;
use chandlery_core::grant::Grant;
use chandlery_core::names::{self, HUB};
use chandlery_core::ports::{self, Entered, Ledger};
use chandlery_core::record::{Record, Target};
use chandlery_core::remote::{self, Asked, Glimpse, Known, RemoteState, Stake, Verdict, parse_span};
use chandlery_core::{Class, Setback, StepName, Uid};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::claims::{Admission, ClaimKey, Holder, Owner};
use crate::connection::Connection;
use crate::hub::Hub;
use crate::life::RemoteKey;
use crate::look::{Blind, Sight, version_of};
use crate::records::{Failed, timed, timed_raw};
use crate::scope::{ClusterScope, ScopeOptions};

/// What a pass brings to entering a remote.
pub struct StepContext {
    /// Whose steps they are.
    pub owner: Owner,
    /// The ServiceAccount its steps on the hub act as.
    pub service_account: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Names of remotes in its steps to names of RemoteClusters.
    pub name_to_remote: HashMap<String, String>,
}

/// What a step left on a remote that was given up or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Name of the RemoteCluster.
    pub remote: String,
    /// Its UID.
    pub remote_uid: Uid,
    /// Which step.
    pub step: StepName,
    /// One CamelCase word.
    pub why: &'static str,
    /// Its inventory.
    pub objects: Vec<String>,
}

/// Objects that are listed by name of what a step left; the rest is a number.
const LISTED: usize = 50;

/// What a look at a remote showed.
struct Seen {
    glimpse: Glimpse,
    reason: String,
    message: String,
    found: Option<(Arc<Connection>, Sight)>,
}

/// Where a scope is.
struct Place {
    is_hub: bool,
    doomed: bool,
}

/// What was known of a remote before this look.
pub fn known(remote: &RemoteCluster) -> Known {
    let (spec, status) = (&remote.spec, remote.status.clone().unwrap_or_default());
    let after = spec.abandon_after.as_deref().and_then(|span| parse_span(span).ok());
    let abandon_is_due = match (spec.when_unreachable, after, status.unreachable_since) {
        (Some(WhenUnreachable::Abandon), Some(after), Some(since)) => {
            let out = Timestamp::now().duration_since(since.0);
            Duration::try_from(out).is_ok_and(|out| out >= after)
        }
        _ => false,
    };
    Known {
        had_credential: status.credential_hash.is_some(),
        is_abandoned: status.abandoned_at.is_some(),
        abandon_is_due,
    }
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
    left: Mutex<Vec<Left>>,
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
            left: Mutex::default(),
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

    async fn scope(
        &self,
        connection: Arc<Connection>,
        facts: chandlery_core::cluster::Facts,
        record: &Record,
        ledger: Arc<dyn Ledger>,
        place: Place,
    ) -> Result<Entered, Setback> {
        let Place { is_hub, doomed } = place;
        self.entered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(record.step.clone(), connection.clone());
        let uid = &self.context.owner.uid;
        let options = ScopeOptions {
            grant: (self.grant_of)(&record.receipt.plugin, is_hub),
            field_manager: names::field_manager(uid, &record.step),
            owner_mark: names::owner_mark(uid, &record.step),
            sealed_secrets: self.hub.sealed_in(&facts.identity).await?,
        };
        Ok(Entered::Scope(Arc::new(
            ClusterScope::new(connection, facts, ledger, options).doomed(doomed),
        )))
    }

    /// Credential and identity, read once for all steps of this pass; a look that failed is looked again.
    async fn look(&self, remote: &RemoteCluster, uid: &Uid) -> Result<(Arc<Connection>, Sight), Blind> {
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
            namespace: self.context.owner.namespace.clone(),
            holder: Holder::step(&self.context.owner, step),
            remote: remote.to_owned(),
            remote_uid: remote_uid.clone(),
        }
    }

    /// What stands between a step and its remote, or who is there.
    async fn see(&self, remote: &RemoteCluster, uid: &Uid, identity: Option<&str>) -> Result<Seen, Setback> {
        match self.look(remote, uid).await {
            Ok((connection, sight)) => {
                let same = identity.is_none_or(|identity| identity == sight.identity);
                let message = format!(
                    "remote {} is another cluster than before: kube-system has UID {}, it had {}",
                    remote.metadata.name.as_deref().unwrap_or_default(),
                    sight.identity,
                    identity.unwrap_or_default()
                );
                Ok(Seen {
                    glimpse: Glimpse::Seen { same },
                    reason: "RemoteReplaced".to_owned(),
                    message,
                    found: Some((connection, sight)),
                })
            }
            Err(Blind {
                glimpse: Some(glimpse),
                setback,
            }) => Ok(Seen {
                glimpse,
                reason: setback.reason,
                message: setback.message,
                found: None,
            }),
            // The hub did not answer: nothing is known of the remote.
            Err(Blind { setback, .. }) => Err(setback),
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
            .remote(&self.context.owner.namespace, name)
            .filter(|remote| remote.metadata.uid.as_deref() == Some(uid.as_str()));
        let (seen, known, owner_lets_go) = match &remote {
            Some(remote) => {
                let status = remote.status.clone().unwrap_or_default();
                let before = Some(record.receipt.cluster_identity.clone()).filter(|identity| !identity.is_empty());
                let seen = self.see(remote, uid, before.or(status.identity).as_deref()).await?;
                (seen, known(remote), remote.metadata.deletion_timestamp.is_some())
            }
            None => {
                let message = format!("RemoteCluster {name}, which this step was run on, is not there");
                let seen = Seen {
                    glimpse: Glimpse::NoRemote,
                    reason: "WaitingForRemote".to_owned(),
                    message,
                    found: None,
                };
                // What memory does not show may only be too new.
                let key = RemoteKey {
                    namespace: self.context.owner.namespace.clone(),
                    name: name.to_owned(),
                    uid: uid.clone(),
                };
                let is_gone = purpose == Purpose::Deprovision && self.hub.claims.is_remote_gone(&key).await?;
                (seen, Known::default(), is_gone)
            }
        };
        let state = RemoteState::of(seen.glimpse, known);
        let asked = match purpose {
            Purpose::Provision => Asked::Provision,
            Purpose::Deprovision if record.receipt.background_deletion && self.context.deleting => Asked::Background,
            Purpose::Deprovision => Asked::Foreground,
        };
        let stake = Stake {
            applied: record.is_used(),
            owner_lets_go,
        };
        let hold = |class| Setback::new(class, seen.reason.clone(), seen.message.clone());
        match (remote::verdict(state, asked, stake), &seen.found) {
            (Verdict::Run, Some((connection, sight))) => {
                let key = self.claim_key(name, uid, &record.step);
                match self.hub.claims.take(&key, purpose, ledger.as_ref()).await? {
                    Admission::Use => {}
                    Admission::RemoteGone => return Ok(Entered::Vanished(format!("RemoteCluster {name} is gone"))),
                }
                let facts = connection.facts(name, sight.identity.clone(), sight.version.clone(), sight.path.clone());
                let doomed = asked == Asked::Background && owner_lets_go;
                let place = Place { is_hub: false, doomed };
                self.scope(connection.clone(), facts, &record, ledger, place).await
            }
            (Verdict::Run, None) => Err(hold(Class::Retry)),
            (Verdict::NothingToDo, _) => Ok(Entered::Vanished("nothing was ever written".to_owned())),
            (Verdict::Wait, _) => Err(hold(Class::Wait)),
            (Verdict::BackOff, _) => Err(hold(Class::Retry)),
            (Verdict::Refuse, _) if state == RemoteState::Abandoned => Err(Setback::new(
                Class::UserFix,
                state.reason(),
                format!("remote {name} was given up; delete the RemoteCluster and make it anew"),
            )),
            (Verdict::Refuse, _) => Err(hold(Class::UserFix)),
            (Verdict::LeaveBehind, _) => {
                let left = Left {
                    remote: name.to_owned(),
                    remote_uid: uid.clone(),
                    step: record.step.clone(),
                    why: state.reason(),
                    objects: record.inventory.iter().map(|entry| entry.object.to_string()).collect(),
                };
                let message = format!(
                    "{}: left behind: {}",
                    seen.message,
                    crate::undo::names(&record.inventory)
                );
                if remote.is_some() {
                    self.record_left(&left).await?;
                }
                self.left.lock().unwrap_or_else(PoisonError::into_inner).push(left);
                Ok(Entered::Vanished(message))
            }
        }
    }

    /// Writes down on the RemoteCluster what a step leaves on it, before the step's own record goes.
    async fn record_left(&self, left: &Left) -> Result<(), Setback> {
        let provision = &self.context.owner.uid;
        let entry = LeftBehind {
            provision: provision.to_string(),
            step: left.step.to_string(),
            count: u32::try_from(left.objects.len()).unwrap_or(u32::MAX),
            objects: left.objects.iter().take(LISTED).cloned().collect(),
        };
        let patch = json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "RemoteCluster",
            "metadata": {"name": left.remote, "uid": left.remote_uid}, "status": {"leftBehind": [entry]}});
        // One manager per step: each keeps its own entry of the list.
        let parameters = PatchParams::apply(&names::field_manager(provision, &left.step)).force();
        let api: Api<RemoteCluster> = Api::namespaced(self.hub.connection.client(), &self.context.owner.namespace);
        match timed_raw(api.patch_status(&left.remote, &parameters, &Patch::Apply(&patch))).await {
            Ok(_) | Err(Failed::Api(404 | 409)) => Ok(()),
            Err(failed) => Err(failed.into_setback("the remote")),
        }
    }

    /// What steps left behind in this pass.
    pub fn left(&self) -> Vec<Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn enter_hub(
        &self,
        service_account: &str,
        purpose: Purpose,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Entered, Setback> {
        let record = ledger.record();
        let namespace = &self.context.owner.namespace;
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
        let place = Place {
            is_hub: true,
            doomed: false,
        };
        self.scope(connection, facts, &record, ledger, place).await
    }

    async fn namespace_is_ending(&self) -> Result<bool, Setback> {
        let api: Api<Namespace> = Api::all(self.hub.connection.client());
        let found = timed("the namespace", api.get_opt(&self.context.owner.namespace)).await?;
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
        let remote = self.hub.remote(&self.context.owner.namespace, name).ok_or_else(|| {
            wait(format!(
                "there is no RemoteCluster {name} in namespace {} yet",
                self.context.owner.namespace
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
