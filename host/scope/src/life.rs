//! A remote's registration and its end: the runs of `Register` and `TearDown` on the hub.

use chandlery_core::claim::{Answer, Call, Register, Registered, TearDown, TornDown, Trigger};
use chandlery_core::{Class, Setback, Uid};

use crate::claims::ClaimStore;
use crate::desk::{Desk, OnHub, Registrar, Unregistered};

/// One RemoteCluster for ever.
#[derive(Debug, Clone)]
pub struct RemoteKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Uid,
}

impl ClaimStore {
    /// Brings a remote's registration to what the registrar says, unless the remote is fenced. One run at a time per remote
    /// in this process.
    ///
    /// # Errors
    /// If the hub does not answer or does not let the daemon in where the registration is to be.
    pub async fn register(&self, remote: &RemoteKey, registrar: &dyn Registrar) -> Result<Registered, Setback> {
        let mut register = Register::new(self.own(), self.rules);
        Desk::of_remote(self, &remote.namespace, &remote.name, &remote.uid, registrar)
            .drive(&mut register)
            .await
    }

    /// Whether a remote is not there any more, by a quorum read.
    ///
    /// # Errors
    /// If the hub does not answer.
    pub async fn is_remote_gone(&self, remote: &RemoteKey) -> Result<bool, Setback> {
        let mut desk = Desk::of_remote(self, &remote.namespace, &remote.name, &remote.uid, &Unregistered);
        Ok(desk.answer(&Call::ReadRemote).await? == Answer::Remote(None))
    }

    /// Who holds claims on a remote that are not free, by a quorum list, as people are told.
    ///
    /// # Errors
    /// If the hub does not answer.
    pub async fn users(&self, remote: &RemoteKey) -> Result<Vec<String>, Setback> {
        Desk::of_remote(self, &remote.namespace, &remote.name, &remote.uid, &Unregistered)
            .holders_on(&remote.uid)
            .await
    }

    /// Tears a remote down as far as it may be. One run at a time per remote in this process.
    ///
    /// # Errors
    /// As [`ClaimStore::register`].
    pub async fn tear_down(
        &self,
        remote: &RemoteKey,
        trigger: Trigger,
        registrar: &dyn Registrar,
    ) -> Result<TornDown<OnHub>, Setback> {
        let mut tear_down = TearDown::new(self.own(), trigger, self.counts(&remote.uid), self.rules);
        Desk::of_remote(self, &remote.namespace, &remote.name, &remote.uid, registrar)
            .drive(&mut tear_down)
            .await
    }
}

/// What a tear-down waits for that has not come to its end.
pub fn waits(torn_down: TornDown<OnHub>) -> Setback {
    match torn_down {
        TornDown::InUse(mut users) => {
            let more = users.len().saturating_sub(10);
            users.truncate(10);
            let mut message = format!("in use by {}", users.join(", "));
            if more > 0 {
                message.push_str(&format!(" and {more} more"));
            }
            Setback::new(Class::Wait, "InUse", message)
        }
        TornDown::Registering(_) => Setback::new(
            Class::Wait,
            "Registering",
            "another process may be writing its registration",
        ),
        TornDown::Deregistering => Setback::new(
            Class::Wait,
            "Deregistering",
            "its registration is deleted and not gone yet",
        ),
        TornDown::Done | TornDown::Nothing | TornDown::Again => Setback::new(
            Class::Retry,
            "HubConflict",
            "it was changed by somebody else; it is read again",
        ),
    }
}
