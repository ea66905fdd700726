//! Tells when what a step named has changed: metadata-only watches, shared per connection, kind and namespace.
//!
//! No wake-up is lost: a step says which version of an object its call last saw, and a watch that already knows a newer one
//! fires at once. A watch that nobody waits for any more is dropped. A server that sends more than there is room for is no
//! longer listened to: who waits comes back after the delay that each step has anyway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use chandlery_core::cluster::Watched;
use chandlery_core::{Gvk, ObjectRef, StepName, Uid};
use futures::StreamExt as _;
use kube::Api;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use tokio::sync::mpsc;

use crate::bounds::{TooMuch, bounded};
use crate::connection::Connection;
use crate::wire::cause;

/// Objects of a kind in a namespace whose versions are kept; with more, all of them are forgotten and none is watched.
const MOST_OBJECTS: usize = 20_000;
/// Longest name of an object in bytes, as Kubernetes has it.
const LONGEST_NAME: usize = 253;

/// Who is to be woken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subscriber {
    /// Namespace of the provision.
    pub namespace: String,
    /// Its name.
    pub provision: String,
    /// Its UID.
    pub uid: Uid,
    /// Which of its steps.
    pub step: StepName,
}

/// One watch is shared by all that wait for objects of a kind in a namespace over one connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    connection: u64,
    gvk: Gvk,
    namespace: Option<String>,
}

struct Shared {
    /// Version of each object by name, as the watch last told.
    known: HashMap<String, u64>,
    /// Newest version the watch told of anything.
    newest: u64,
    /// Whether the first list is complete.
    synced: bool,
    /// The server sent too much: it is not listened to any more while anybody waits here.
    deaf: bool,
    /// Objects told of since the first list began, each as often as it was told.
    listed: usize,
    waiting: HashMap<Subscriber, HashMap<String, Option<u64>>>,
    task: tokio::task::AbortHandle,
}

/// All watches of this process.
pub struct Watches {
    places: Mutex<HashMap<Place, Shared>>,
    wake: mpsc::UnboundedSender<Subscriber>,
}

/// Versions are opaque by the letter, and numbers on every API server there is; what is none is older than all.
fn number(version: Option<&str>) -> Option<u64> {
    version.map(|text| text.parse().unwrap_or(0))
}

impl Watches {
    /// No watches yet; those that are woken come out of the receiver.
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Subscriber>) {
        let (wake, woken) = mpsc::unbounded_channel();
        (
            Arc::new(Self {
                places: Mutex::default(),
                wake,
            }),
            woken,
        )
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Shared>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of watches that are open; one that is not listened to any more is none.
    pub fn open(&self) -> usize {
        self.lock().values().filter(|shared| !shared.deaf).count()
    }

    /// Has `subscriber` woken when one of these changes from the version it was seen at; replaces what it waited for.
    pub async fn set(self: &Arc<Self>, subscriber: &Subscriber, connection: &Arc<Connection>, watched: Vec<Watched>) {
        let mut by_place: HashMap<Place, HashMap<String, Option<u64>>> = HashMap::new();
        for Watched { target, seen } in watched {
            let ObjectRef { gvk, namespace, name } = target;
            let place = Place {
                connection: connection.id(),
                gvk,
                namespace,
            };
            by_place.entry(place).or_default().insert(name, number(seen.as_deref()));
        }
        let mut ready = Vec::new();
        for (place, names) in by_place {
            // What cannot be found cannot be watched, and is polled.
            if let Ok(served) = connection.served(&place.gvk).await {
                ready.push((place, names, served));
            }
        }
        let mut places = self.lock();
        for shared in places.values_mut() {
            shared.waiting.remove(subscriber);
        }
        for (place, names, served) in ready {
            let shared = places.entry(place.clone()).or_insert_with(|| {
                let resource = served.api_resource();
                let client = bounded(&connection.client());
                let api: Api<PartialObjectMeta<DynamicObject>> = match &place.namespace {
                    Some(namespace) => Api::namespaced_with(client, namespace, &resource),
                    None => Api::all_with(client, &resource),
                };
                let task = tokio::spawn(run(Arc::downgrade(self), place.clone(), api)).abort_handle();
                Shared {
                    known: HashMap::new(),
                    newest: 0,
                    synced: false,
                    deaf: false,
                    listed: 0,
                    waiting: HashMap::new(),
                    task,
                }
            });
            let fires = shared.synced && names.iter().any(|(name, seen)| shared.has_moved_on(name, *seen));
            shared.waiting.insert(subscriber.clone(), names);
            if fires {
                let _ = self.wake.send(subscriber.clone());
            }
        }
        drop_unused(&mut places);
    }

    /// Forgets what a step waits for.
    pub fn drop_step(&self, uid: &Uid, keep: impl Fn(&StepName) -> bool) {
        let mut places = self.lock();
        for shared in places.values_mut() {
            shared
                .waiting
                .retain(|subscriber, _| subscriber.uid != *uid || keep(&subscriber.step));
        }
        drop_unused(&mut places);
    }

    /// Ends one watch that cannot go on.
    fn give_up(&self, place: &Place, wake: bool) {
        let Some(shared) = self.lock().remove(place) else {
            return;
        };
        for subscriber in shared.waiting.into_keys().filter(|_| wake) {
            let _ = self.wake.send(subscriber);
        }
    }

    /// Stops listening to one watch, and keeps its place so that it is not opened anew by each pass.
    fn turn_deaf(&self, place: &Place, why: &str) {
        if let Some(shared) = self.lock().get_mut(place) {
            shared.turn_deaf(place, why);
        }
    }

    /// Takes an event of one watch in, and wakes those it concerns.
    fn take_in(&self, place: &Place, event: Event<PartialObjectMeta<DynamicObject>>) {
        let mut places = self.lock();
        let Some(shared) = places.get_mut(place).filter(|shared| !shared.deaf) else {
            return;
        };
        let of = |object: &PartialObjectMeta<DynamicObject>| {
            (
                object.metadata.name.clone().unwrap_or_default(),
                number(object.metadata.resource_version.as_deref()).unwrap_or(0),
            )
        };
        let changed = match event {
            Event::Init => {
                shared.known.clear();
                shared.listed = 0;
                shared.synced = false;
                return;
            }
            Event::InitApply(object) => {
                let (name, version) = of(&object);
                shared.listed += 1;
                shared.keep(place, name, version);
                return;
            }
            Event::InitDone => {
                shared.synced = true;
                None
            }
            Event::Apply(object) => {
                let (name, version) = of(&object);
                shared.keep(place, name.clone(), version);
                Some(name)
            }
            Event::Delete(object) => {
                let (name, version) = of(&object);
                shared.newest = shared.newest.max(version);
                shared.known.remove(&name);
                Some(name)
            }
        };
        let fired: Vec<Subscriber> = shared
            .waiting
            .iter()
            .filter(|(_, names)| {
                names
                    .iter()
                    .filter(|(name, _)| changed.as_ref().is_none_or(|c| c == *name))
                    .any(|(name, seen)| shared.has_moved_on(name, *seen))
            })
            .map(|(subscriber, _)| subscriber.clone())
            .collect();
        for subscriber in fired {
            // Woken once: the pass that follows says anew what it waits for.
            shared.waiting.remove(&subscriber);
            let _ = self.wake.send(subscriber);
        }
    }
}

impl Shared {
    /// Keeps the version of an object, as far as there is room.
    fn keep(&mut self, place: &Place, name: String, version: u64) {
        self.newest = self.newest.max(version);
        if name.len() > LONGEST_NAME {
            return self.turn_deaf(place, "an object's name is longer than Kubernetes has them");
        }
        self.known.insert(name, version);
        if self.known.len() > MOST_OBJECTS || self.listed > MOST_OBJECTS {
            self.turn_deaf(place, "there are more than 20000 objects");
        }
    }

    fn turn_deaf(&mut self, place: &Place, why: &str) {
        let namespace = place.namespace.as_deref().unwrap_or_default();
        tracing::warn!(kind = %place.gvk, namespace, why, "not watched; steps come back after their delay");
        self.deaf = true;
        self.known = HashMap::new();
        self.synced = false;
        self.task.abort();
    }

    /// Whether the object is another than the one that was seen.
    fn has_moved_on(&self, name: &str, seen: Option<u64>) -> bool {
        match (self.known.get(name), seen) {
            (Some(now), Some(seen)) => *now > seen,
            // Seen absent, and now there.
            (Some(_), None) => true,
            // Seen there, and now absent; unless the watch is not that far yet.
            (None, Some(seen)) => self.newest >= seen,
            (None, None) => false,
        }
    }
}

fn drop_unused(places: &mut HashMap<Place, Shared>) {
    places.retain(|_, shared| {
        let used = !shared.waiting.is_empty();
        if !used {
            shared.task.abort();
        }
        used
    });
}

async fn run(watches: Weak<Watches>, place: Place, api: Api<PartialObjectMeta<DynamicObject>>) {
    let mut events = std::pin::pin!(watch(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let Some(watches) = watches.upgrade() else { return };
        match event {
            Ok(event) => watches.take_in(&place, event),
            Err(error) => match refusal(&error) {
                // The credential has run out: those who wait come back with another, and are told what they missed.
                Some(401) => return watches.give_up(&place, true),
                // Not to be watched with these rights, or no longer served: polled by the steps' own delays.
                Some(code @ 403..=405) => {
                    tracing::debug!(kind = %place.gvk, code, "cannot be watched");
                    return watches.give_up(&place, false);
                }
                _ if let Some(too_much) = cause::<TooMuch>(&error) => {
                    return watches.turn_deaf(&place, &too_much.to_string());
                }
                _ => tracing::debug!(kind = %place.gvk, %error, "a watch is interrupted"),
            },
        }
    }
}

/// The status by which a server refused a watch.
fn refusal(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}
