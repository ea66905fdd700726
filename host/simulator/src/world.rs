//! One simulated cluster at one moment. A clone is another cluster with the same past.

use std::sync::Arc;

use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use smol_str::SmolStr;

use crate::base::{Base, Release};
use crate::catalog::{FIRST_CUSTOM, Resource, ResourceId, Version};
use crate::ids::Ids;
use crate::object;
use crate::reply::{Answer, Reply};
use crate::request::{Call, Path, ResourcePath};
use crate::script::Script;
use crate::settings::Settings;
use crate::status::Failure;
use crate::store::{Key, Store, Stored};
use crate::tokens::Signer;

/// A cluster. Cheap to clone: both share everything until one of them writes.
#[derive(Clone)]
pub struct World {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) custom: imbl::OrdMap<(SmolStr, SmolStr), Arc<Resource>>,
    pub(crate) next_resource: u32,
    pub(crate) now: Timestamp,
    pub(crate) ids: Ids,
    pub(crate) signer: Arc<Signer>,
    pub(crate) pending: crate::actors::Pending,
    pub(crate) script: Arc<Script>,
    /// What the client of the request under way is to be warned of, however it ends.
    pub(crate) warned: Vec<String>,
}

/// A request whose resource is found.
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    pub(crate) path: ResourcePath,
}

impl Target {
    pub(crate) fn version(&self) -> Result<&Version, Failure> {
        self.resource
            .version(&self.path.version)
            .ok_or_else(Failure::no_such_resource)
    }

    /// Where the object of the path is.
    pub(crate) fn key(&self, name: &str) -> Key {
        Key {
            resource: self.resource.id,
            namespace: SmolStr::new(self.namespace()),
            name: SmolStr::new(name),
        }
    }

    /// The namespace of the path; empty for resources of the cluster, also for a Namespace itself.
    pub(crate) fn namespace(&self) -> &str {
        if self.resource.namespaced {
            self.path.namespace.as_deref().unwrap_or_default()
        } else {
            ""
        }
    }

    pub(crate) fn not_found(&self, name: &str) -> Failure {
        Failure::not_found(&self.resource.plural, &self.resource.group, name)
    }
}

impl World {
    /// A cluster as it is when its controllers have done their first work.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let mut world = Self {
            store: Store::new(settings.log_limit),
            custom: imbl::OrdMap::new(),
            next_resource: FIRST_CUSTOM,
            now: settings.start,
            ids: Ids::new(settings.seed),
            signer: Arc::new(Signer::new()),
            pending: crate::actors::Pending::default(),
            script: Arc::default(),
            warned: Vec::new(),
            settings,
        };
        for object in world.base().objects.clone() {
            world.plant(object);
        }
        world.settle();
        world
    }

    pub(crate) fn base(&self) -> &'static Base {
        self.settings.release.base()
    }

    /// The version of Kubernetes that is simulated.
    #[must_use]
    pub fn release(&self) -> Release {
        self.settings.release
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Lets time pass; what was waiting for it happens.
    pub fn advance(&mut self, duration: SignedDuration) {
        self.set_time(self.now.saturating_add(duration).unwrap_or(Timestamp::MAX));
        self.settle();
    }

    /// Sets the time; it never goes back. What was waiting for a time on the way happens at that time.
    pub(crate) fn set_time(&mut self, now: Timestamp) {
        while let Some(due) = self.due().filter(|due| *due <= now) {
            self.now = self.now.max(due);
            self.settle();
            if self.due() == Some(due) {
                break;
            }
        }
        self.now = self.now.max(now);
    }

    /// This cluster as it was before the last `back` changes to what a read asks for; none if there were not so many, or they
    /// are forgotten, or the request is no read.
    pub(crate) fn earlier(&self, call: &Call, back: u32) -> Option<Self> {
        let Path::Resource(path) = Path::parse(&call.path) else {
            return None;
        };
        if !matches!(call.verb(&path), "get" | "list") {
            return None;
        }
        let resource = self.resource(&path.group, &path.resource)?;
        let namespace = path.namespace.as_deref().filter(|_| resource.namespaced);
        let version = self
            .store
            .versions_before(resource.id, namespace, path.name.as_deref())
            .nth(usize::try_from(back.checked_sub(1)?).ok()?)?;
        let mut world = self.clone();
        world.store.rewind(version);
        Some(world)
    }

    /// How many objects there are.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.store.len()
    }

    /// Forgets all history, as a real cluster's store does every five minutes: watches and pages that need it get 410.
    pub fn compact(&mut self) {
        self.store.compact();
    }

    /// From now on, namespaces carry this certificate.
    pub(crate) fn trust(&mut self, certificate: &str) {
        self.signer = Arc::new(self.signer.with_certificate(certificate.to_owned()));
        self.renew_certificates();
    }

    /// The time as objects carry it.
    pub(crate) fn timestamp(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        let built_in = self.base().resource(group, plural);
        built_in.or_else(|| self.custom.get(&(SmolStr::new(group), SmolStr::new(plural))))
    }

    /// All resources, the built-in ones first.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.base().resources.iter().chain(self.custom.values())
    }

    pub(crate) fn resource_by_id(&self, id: ResourceId) -> Option<&Arc<Resource>> {
        if id.0 < FIRST_CUSTOM {
            return self.base().resources.get(usize::try_from(id.0).ok()?);
        }
        self.custom.values().find(|resource| resource.id == id)
    }

    pub(crate) fn resource_by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources()
            .find(|resource| resource.group == group && resource.kind == kind)
    }

    pub(crate) fn key(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Key> {
        let resource = self.resource(group, plural)?.id;
        Some(Key {
            resource,
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    /// An object, without `apiVersion` and `kind`.
    pub(crate) fn read(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = self.key(group, plural, namespace, name)?;
        self.store.get(&key).map(|stored| stored.document())
    }

    /// Puts one of the objects a cluster starts with into it.
    fn plant(&mut self, mut document: Value) {
        let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, _) = crate::catalog::split(&api_version);
        let Some(resource) = self.resource_by_kind(group, &kind) else {
            return;
        };
        let key = Key {
            resource: resource.id,
            namespace: object::namespace(&document).into(),
            name: object::name(&document).into(),
        };
        let uid = self.ids.uid();
        object::set(&mut document, "uid", Some(uid.into()));
        object::set(&mut document, "creationTimestamp", Some(self.timestamp().into()));
        self.write(key, document);
    }

    /// Writes a document as it is, but for its version.
    pub(crate) fn write(&mut self, key: Key, document: Value) -> Arc<Stored> {
        self.write_stored(key, document, false)
    }

    /// As [`World::write`], with what is to be known of how it is stored.
    pub(crate) fn write_stored(&mut self, key: Key, mut document: Value, is_raw: bool) -> Arc<Stored> {
        let version = self.store.next_version();
        object::set_resource_version(&mut document, version);
        let stored = Stored {
            is_raw,
            ..Stored::of(&document, version)
        };
        self.store.put(key, stored)
    }

    /// Answers one request, and lets the controllers do what follows from it.
    pub(crate) fn answer(&mut self, call: &Call) -> Reply {
        let before = self.store.version();
        self.warned.clear();
        let mut reply = self
            .try_answer(call)
            .unwrap_or_else(|failure| Reply::Answer(failure.into()));
        if let Reply::Answer(answer) = &mut reply {
            answer.warnings = std::mem::take(&mut self.warned);
        }
        if self.settings.controllers && self.store.version() != before {
            self.settle();
        }
        reply
    }

    fn try_answer(&mut self, call: &Call) -> Result<Reply, Failure> {
        match Path::parse(&call.path) {
            Path::Resource(path) => self.answer_resource(call, path),
            other => {
                self.authorize(&call.user, &call.attributes())?;
                // What is not there is not there for any method, and the list of groups is there for all.
                let page = self.answer_page(call, &other)?;
                let reads = call.method == Method::GET || call.method == Method::HEAD;
                if reads || other == Path::Groups {
                    Ok(Reply::Answer(page))
                } else {
                    Err(Failure::method_not_allowed())
                }
            }
        }
    }

    fn answer_page(&self, call: &Call, path: &Path) -> Result<Answer, Failure> {
        match path {
            Path::Version => Ok(Answer::json(StatusCode::OK, format!("{:#}", self.base().version))),
            Path::Health => Ok(Answer::text(StatusCode::OK, "ok")),
            Path::OpenApi(document) => self.openapi(document.as_deref()),
            Path::Resource(_) | Path::Other => Err(Failure::no_such_page()),
            _ => self.discovery(call, path),
        }
    }

    fn answer_resource(&mut self, call: &Call, path: ResourcePath) -> Result<Reply, Failure> {
        let verb = call.verb(&path);
        self.authorize(&call.user, &call.attributes_of(&path))?;
        let resource = self.resource(&path.group, &path.resource).cloned().ok_or_else(|| {
            self.sent_on(&path.group, &path.version)
                .unwrap_or_else(Failure::no_such_resource)
        })?;
        let target = Target { resource, path };
        let version = target.version()?;
        if let (Some(name), "get" | "delete" | "watch") = (&target.path.name, verb) {
            check_segment(name)?;
        }
        let misplaced =
            target.path.namespace.is_some() && !target.resource.namespaced && !target.resource.is("", "namespaces")
                || target.path.namespace.is_none()
                    && target.resource.namespaced
                    && (target.path.name.is_some() || verb == "create");
        if misplaced {
            let is_collection_write = target.path.namespace.is_none() && target.path.name.is_none();
            return Err(if is_collection_write {
                Failure::method_not_allowed()
            } else {
                Failure::no_such_resource()
            });
        }
        if let Some(name) = target.path.subresource.clone() {
            let known = version
                .subresource(&name)
                .cloned()
                .ok_or_else(Failure::no_such_resource)?;
            if !known.verbs.iter().any(|known| known == verb) {
                return Err(Failure::method_not_allowed());
            }
            return self.answer_subresource(call, &target, &known, verb);
        }
        if !target.resource.allows(verb)
            || (verb == "create") == target.path.name.is_some() && matches!(verb, "create" | "update" | "patch")
        {
            return Err(Failure::method_not_allowed());
        }
        if !target.resource.is_stored() {
            return self.converse(call, &target, verb);
        }
        self.answer_verb(call, &target, verb)
    }

    fn answer_verb(&mut self, call: &Call, target: &Target, verb: &str) -> Result<Reply, Failure> {
        match verb {
            "get" => self.get(call, target).map(Reply::Answer),
            "list" => self.list(call, target).map(Reply::Answer),
            "watch" => self.watch(call, target),
            "create" => self.create(call, target).map(Reply::Answer),
            "update" => self.update(call, target, "").map(Reply::Answer),
            "patch" => self.patch(call, target, "").map(Reply::Answer),
            "delete" => self.delete(call, target).map(Reply::Answer),
            "deletecollection" => self.delete_collection(call, target).map(Reply::Answer),
            _ => Err(Failure::method_not_allowed()),
        }
    }
}

/// A name that could be taken for more than one part of a path is none.
fn check_segment(name: &str) -> Result<(), Failure> {
    let mut complaints = Vec::new();
    if name == "." || name == ".." {
        complaints.push(format!("may not be '{name}'"));
    }
    for mark in ['/', '%'] {
        if name.contains(mark) {
            complaints.push(format!("may not contain '{mark}'"));
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    let why = complaints.join("; ");
    Err(Failure::bad_request(format!(
        "Name parameter invalid: \"{name}\": {why}"
    )))
}
