//! A remote's registration and its end: the runs of `Register` and `TearDown` on the hub.

use chandlery_core::claim::{Answer, Call, Register, Registered, TearDown, TornDown, Trigger};
use chandlery_core::{Setback, Uid};

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
