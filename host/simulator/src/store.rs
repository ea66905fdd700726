//! Objects, their one history, and the numbers it is counted in. A clone shares everything until one side writes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, Vector};
use serde_json::Value;
use smol_str::SmolStr;

use crate::catalog::ResourceId;
use crate::object;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) resource: ResourceId,
    /// Empty for objects of the cluster.
    pub(crate) namespace: SmolStr,
    pub(crate) name: SmolStr,
}

/// An object as it lies in the store: one line of JSON without `apiVersion` and `kind`, which its readers put before it,
/// and what is asked of it so often that it must not be parsed for it.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Starts with `{"` and never is empty.
    pub(crate) body: Bytes,
    pub(crate) version: u64,
    pub(crate) uid: SmolStr,
    pub(crate) labels: Box<[(SmolStr, SmolStr)]>,
    /// UIDs of its owners.
    pub(crate) owners: Box<[SmolStr]>,
    pub(crate) deleting: bool,
    /// Whether a real server fills something in each time it reads it: the next write is one, even if it changes nothing.
    pub(crate) is_raw: bool,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    Added,
    Modified,
    Deleted,
}

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) happened: Happened,
    pub(crate) key: Key,
    /// As it is now; of a deleted object, as it was last, with the version of the deletion.
    pub(crate) object: Arc<Stored>,
    /// As it was before.
    pub(crate) before: Option<Arc<Stored>>,
}

type Objects = OrdMap<Key, Arc<Stored>>;

/// All objects of a world.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    objects: Objects,
    /// Which objects wait for the end of their deletion.
    deleting: OrdMap<Key, ()>,
    /// Which objects name an owner, by the owner's UID.
    dependents: OrdMap<(SmolStr, Key), ()>,
    log: Vector<Event>,
    log_limit: usize,
    version: u64,
    /// The version of the last write that is no longer in the log.
    forgotten: u64,
}

impl Stored {
    /// Encodes a document; its `metadata.resourceVersion` must be `version` already.
    pub(crate) fn of(document: &Value, version: u64) -> Self {
        Self {
            body: object::encode(document),
            version,
            uid: object::uid(document).into(),
            labels: object::labels(document)
                .map(|(key, value)| (SmolStr::new(key), SmolStr::new(value)))
                .collect(),
            owners: object::owners(document)
                .filter_map(|owner| owner.get("uid")?.as_str().map(SmolStr::new))
                .collect(),
            deleting: object::is_deleting(document),
            is_raw: false,
        }
    }

    /// The document without `apiVersion` and `kind`.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Store {
    pub(crate) fn new(log_limit: usize) -> Self {
        Self {
            objects: OrdMap::new(),
            deleting: OrdMap::new(),
            dependents: OrdMap::new(),
            log: Vector::new(),
            log_limit,
            version: 0,
            forgotten: 0,
        }
    }

    /// The version of the last write.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The oldest version a watch can start from is this one.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The version the next write will have.
    pub(crate) fn next_version(&self) -> u64 {
        self.version + 1
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Writes an object that has [`Store::next_version`].
    pub(crate) fn put(&mut self, key: Key, stored: Stored) -> Arc<Stored> {
        let stored = Arc::new(stored);
        self.version = stored.version;
        let before = self.objects.insert(key.clone(), Arc::clone(&stored));
        self.index(&key, before.as_deref(), Some(&stored));
        let happened = if before.is_some() {
            Happened::Modified
        } else {
            Happened::Added
        };
        self.note(Event {
            version: self.version,
            happened,
            key,
            object: Arc::clone(&stored),
            before,
        });
        stored
    }

    /// Removes an object; what watchers see last of it has a version of its own.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Stored>> {
        let before = self.objects.remove(key)?;
        self.version += 1;
        self.index(key, Some(&before), None);
        let mut document = before.document();
        object::set_resource_version(&mut document, self.version);
        let last = Arc::new(Stored::of(&document, self.version));
        self.note(Event {
            version: self.version,
            happened: Happened::Deleted,
            key: key.clone(),
            object: Arc::clone(&last),
            before: Some(before),
        });
        Some(last)
    }

    fn index(&mut self, key: &Key, before: Option<&Stored>, now: Option<&Stored>) {
        let (was, is) = (
            before.is_some_and(|stored| stored.deleting),
            now.is_some_and(|stored| stored.deleting),
        );
        if is && !was {
            self.deleting.insert(key.clone(), ());
        } else if was && !is {
            self.deleting.remove(key);
        }
        let (old, new): (&[SmolStr], &[SmolStr]) = (
            before.map_or(&[], |stored| &stored.owners),
            now.map_or(&[], |stored| &stored.owners),
        );
        if old == new {
            return;
        }
        for owner in old {
            self.dependents.remove(&(owner.clone(), key.clone()));
        }
        for owner in new {
            self.dependents.insert((owner.clone(), key.clone()), ());
        }
    }

    fn note(&mut self, event: Event) {
        self.log.push_back(event);
        while self.log.len() > self.log_limit {
            if let Some(event) = self.log.pop_front() {
                self.forgotten = event.version;
            }
        }
    }

    /// Forgets what happened up to now, as etcd does when it compacts.
    pub(crate) fn compact(&mut self) {
        self.log.clear();
        self.forgotten = self.version;
    }

    /// The objects of a resource in the order of their names; of one namespace if one is given.
    pub(crate) fn list<'a>(
        &'a self,
        resource: ResourceId,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> + use<'a> {
        range(&self.objects, resource, namespace)
    }

    /// All objects there are.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Stored>)> {
        self.objects.iter()
    }

    /// The objects that name this owner.
    pub(crate) fn dependents_of(&self, uid: &str) -> Vec<Key> {
        let first = (
            SmolStr::new(uid),
            Key {
                resource: ResourceId(0),
                namespace: SmolStr::default(),
                name: SmolStr::default(),
            },
        );
        self.dependents
            .range(first..)
            .take_while(|((owner, _), ())| owner == uid)
            .map(|((_, key), ())| key.clone())
            .collect()
    }

    /// The objects that wait for the end of their deletion.
    pub(crate) fn deleting(&self) -> impl Iterator<Item = &Key> {
        self.deleting.keys()
    }

    /// Every object that names an owner.
    pub(crate) fn owned(&self) -> impl Iterator<Item = &Key> {
        self.dependents.keys().map(|(_, key)| key)
    }

    /// The objects of a resource as they were at an earlier version; `None` if that is forgotten.
    pub(crate) fn list_at(
        &self,
        version: u64,
        resource: ResourceId,
        namespace: Option<&str>,
    ) -> Option<BTreeMap<Key, Arc<Stored>>> {
        if version < self.forgotten {
            return None;
        }
        let mut then: BTreeMap<Key, Arc<Stored>> = self
            .list(resource, namespace)
            .map(|(key, stored)| (key.clone(), Arc::clone(stored)))
            .collect();
        for event in self.log.iter().rev().take_while(|event| event.version > version) {
            if event.key.resource != resource || namespace.is_some_and(|namespace| event.key.namespace != namespace) {
                continue;
            }
            match &event.before {
                Some(before) => then.insert(event.key.clone(), Arc::clone(before)),
                None => then.remove(&event.key),
            };
        }
        Some(then)
    }

    /// The versions just before each change of an object, or of a resource's objects, the newest first.
    pub(crate) fn versions_before<'a>(
        &'a self,
        resource: ResourceId,
        namespace: Option<&'a str>,
        name: Option<&'a str>,
    ) -> impl Iterator<Item = u64> + 'a {
        let concerns = move |key: &Key| {
            key.resource == resource
                && namespace.is_none_or(|namespace| key.namespace == namespace)
                && name.is_none_or(|name| key.name == name)
        };
        let events = self.log.iter().rev().filter(move |event| concerns(&event.key));
        events.map(|event| event.version - 1)
    }

    /// Goes back to a version that is not forgotten.
    pub(crate) fn rewind(&mut self, version: u64) {
        while self.version > version {
            let Some(event) = self.log.pop_back() else { return };
            let now = self.objects.get(&event.key).cloned();
            self.index(&event.key, now.as_deref(), event.before.as_deref());
            match event.before {
                Some(before) => self.objects.insert(event.key, before),
                None => self.objects.remove(&event.key),
            };
            self.version = event.version - 1;
        }
    }

    /// What was written after a version, oldest first; `None` if that is forgotten.
    pub(crate) fn events_after(&self, version: u64) -> Option<impl Iterator<Item = &Event>> {
        if version < self.forgotten {
            return None;
        }
        // Versions rise by one with each event, so the place of the first one is known.
        let skipped = self
            .log
            .len()
            .saturating_sub(usize::try_from(self.version.saturating_sub(version)).unwrap_or(usize::MAX));
        Some(self.log.iter().skip(skipped))
    }
}

fn range<'a>(
    objects: &'a Objects,
    resource: ResourceId,
    namespace: Option<&str>,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> + use<'a> {
    let wanted = namespace.map(SmolStr::new);
    let first = Key {
        resource,
        namespace: wanted.clone().unwrap_or_default(),
        name: SmolStr::default(),
    };
    objects
        .range((Bound::Included(first), Bound::Unbounded))
        .take_while(move |(key, _)| {
            key.resource == resource && wanted.as_ref().is_none_or(|wanted| key.namespace == *wanted)
        })
}
