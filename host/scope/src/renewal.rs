//! A credential that is refused in the middle of a pass is read anew, once: it may have been rotated just now.
//!
//! A 401 says that nothing was done, so that any request may be sent again. It is sent to no other cluster than before: a
//! credential is used with the endpoint and authority that came with it, and who is there is asked before.

use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use chandlery_api::RemoteCluster;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;

use crate::connection::Connection;
use crate::hub::Hub;
use crate::look::identity_of;

/// How long a refused credential is taken for the only one there is, once it was read anew and was the same.
const REST: Duration = Duration::from_secs(5);

/// Where a connection's credential comes from.
pub(crate) struct Renewal {
    hub: Weak<Hub>,
    namespace: String,
    name: String,
    uid: Option<String>,
    /// One at a time.
    state: tokio::sync::Mutex<State>,
}

struct State {
    /// Hash of the credential in use.
    credential: String,
    /// When it was last read anew in vain.
    in_vain: Option<Instant>,
}

impl Renewal {
    pub(crate) fn new(hub: Weak<Hub>, remote: &RemoteCluster, credential: String) -> Self {
        Self {
            hub,
            namespace: remote.metadata.namespace.clone().unwrap_or_default(),
            name: remote.metadata.name.clone().unwrap_or_default(),
            uid: remote.metadata.uid.clone(),
            state: tokio::sync::Mutex::new(State {
                credential,
                in_vain: None,
            }),
        }
    }

    /// A client by the credential that is there now. It leads on to reads of other clusters, which may come here too: the
    /// future has its type taken from it.
    fn client<'a>(&'a self, refused: &'a str, identity: Option<String>) -> BoxFuture<'a, Option<(Client, String)>> {
        async move {
            let hub = self.hub.upgrade()?;
            let remote = hub
                .remote(&self.namespace, &self.name)
                .filter(|remote| remote.metadata.uid == self.uid)?;
            let (renewed, credential) = hub.renewed(&remote, refused).await?;
            let there = identity_of(&renewed).await.ok()?;
            (Some(there) == identity).then(|| (renewed.client(), credential))
        }
        .boxed()
    }
}

impl Connection {
    /// The client to send a refused request again with, if the credential of `refused` was rotated.
    pub(crate) async fn renewed(&self, refused: u64) -> Option<Client> {
        let renewal = self.renewal.get()?;
        let mut state = renewal.state.lock().await;
        let (client, turn) = self.client_in_turn();
        if turn != refused {
            return Some(client);
        }
        if state.in_vain.is_some_and(|at| at.elapsed() < REST) {
            return None;
        }
        let identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((client, credential)) = renewal.client(&state.credential, identity).await else {
            state.in_vain = Some(Instant::now());
            return None;
        };
        *state = State {
            credential,
            in_vain: None,
        };
        self.set_client(client.clone());
        Some(client)
    }

    /// Says where this connection's credential is to be read anew. Once.
    pub(crate) fn renew_by(self: &Arc<Self>, renewal: Renewal) {
        let _ = self.renewal.set(renewal);
    }
}
