//! The grammar of sequences: names that collide, several managers, wrong values among right ones, and time that passes.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::sequence::{Request, Step};

/// Makes sequences; equal seeds make equal ones.
pub(super) struct Grammar<'a> {
    kinds: &'a [Kind],
    random: StdRng,
    number: u64,
    /// Unique to the sequence, part of every name that others could see.
    mark: String,
    /// Kinds of which there is an object with a generated name: of two, the order in a list would be a matter of luck.
    generated: Vec<&'static str>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "a-longer.name"];
const MANAGERS: [&str; 3] = ["left", "right", "kubectl"];
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl<'a> Grammar<'a> {
    pub(super) fn new(kinds: &'a [Kind], seed: u64, number: u64) -> Self {
        let random = StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
        Self {
            kinds,
            random,
            number,
            mark: format!("s{seed}-{number}"),
            generated: Vec::new(),
        }
    }

    /// The namespace of the sequence.
    pub(super) fn namespace(&self) -> String {
        self.mark.clone()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> Option<&'t T> {
        of.choose(&mut self.random)
    }

    /// A sequence of about `length` steps that dwells on a few kinds.
    pub(super) fn sequence(&mut self, length: usize) -> Vec<Step> {
        let namespace = self.namespace();
        let mut steps = vec![
            Step::Request(Request {
                verb: "create".to_owned(),
                kind: "Namespace".to_owned(),
                method: "POST".to_owned(),
                path: "/api/v1/namespaces".to_owned(),
                content_type: "application/json".to_owned(),
                body: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
                raw: String::new(),
                accept: String::new(),
            }),
            Step::Settle,
        ];
        // One by turns, so that each gets its share, and whatever else.
        let mut few = vec![usize::try_from(self.number).unwrap_or_default() % self.kinds.len()];
        for _ in 0..self.random.random_range(0..=2) {
            few.push(self.random.random_range(0..self.kinds.len()));
        }
        let mut watched = Vec::new();
        while steps.len() < length {
            let at = self.pick(&few).copied().unwrap_or_default();
            let Some(kind) = self.kinds.get(at) else { continue };
            let (request, unsettles) = self.request(kind);
            let collection = self.collection(kind);
            if kind.is_watched && !watched.contains(&collection) {
                watched.push(collection);
            }
            steps.push(Step::Request(request));
            if unsettles {
                steps.push(Step::Settle);
            }
        }
        steps.push(Step::Settle);
        steps.extend(watched.into_iter().map(|path| Step::Watch { path }));
        steps
    }

    fn collection(&self, kind: &Kind) -> String {
        if kind.namespaced {
            format!("{}/namespaces/{}/{}", kind.root, self.mark, kind.plural)
        } else {
            format!("{}/{}", kind.root, kind.plural)
        }
    }

    fn name(&mut self, kind: &Kind) -> String {
        let name = self.pick(&NAMES).copied().unwrap_or("a");
        match (kind.plural, kind.namespaced) {
            ("customresourcedefinitions", _) => {
                let plural = if name.len() == 1 {
                    format!("{name}s")
                } else {
                    "longs".to_owned()
                };
                format!("{plural}.{}.example.com", self.mark)
            }
            (_, true) => name.to_owned(),
            ("namespaces", false) => format!("{}-{}", self.mark, name.replace('.', "-")),
            (_, false) => format!("{}-{name}", self.mark),
        }
    }

    fn request(&mut self, kind: &Kind) -> (Request, bool) {
        let name = self.name(kind);
        let collection = self.collection(kind);
        let object = format!("{collection}/{name}");
        let choice = self.random.random_range(0..100);
        let mut request = Request {
            verb: String::new(),
            kind: kind.kind.to_owned(),
            method: String::new(),
            path: object.clone(),
            content_type: String::new(),
            body: Value::Null,
            raw: String::new(),
            accept: String::new(),
        };
        let mut unsettles = kind.plural == "customresourcedefinitions";
        match choice {
            0..22 => self.create(kind, &name, &collection, &mut request),
            22 if self.chance(15) => self.discovery(kind, &mut request),
            22..28 => self.get(&mut request),
            28..36 => self.list(&collection, &mut request),
            36..48 => self.update(kind, &name, &object, &mut request),
            48..60 => self.patch(kind, &object, &mut request),
            60..78 => self.apply(kind, &name, &object, &mut request),
            78..86 if kind.has_status => self.status(kind, &name, &object, &mut request),
            86..88 if kind.has_scale => self.scale(&object, &mut request),
            78..98 => unsettles |= self.delete(&object, &mut request),
            _ => {
                if kind.plural == "namespaces" || !kind.namespaced {
                    self.get(&mut request);
                } else {
                    request.verb = "deletecollection".to_owned();
                    request.method = "DELETE".to_owned();
                    request.path = collection;
                    // Owners may be among them.
                    unsettles = true;
                    if self.chance(50) {
                        request.path.push_str("?labelSelector=x%3Dy");
                    }
                }
            }
        }
        // An owner that may be missing makes the garbage collector come at any time.
        unsettles |= request.body.to_string().contains("ownerReferences");
        (request, unsettles)
    }

    /// An object of a kind with some of its fields set.
    fn body(&mut self, kind: &Kind, name: &str, fill: u32) -> Value {
        let mut body = kind.base.clone();
        for (pointer, values) in &kind.fields {
            if self.chance(fill)
                && let Some(value) = self.pick(values).cloned()
            {
                set(&mut body, pointer, value);
            }
        }
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), name.into());
        self.decorate(kind, &mut metadata);
        set(&mut body, "/metadata", Value::Object(metadata));
        set(&mut body, "/apiVersion", kind.api_version().into());
        set(&mut body, "/kind", kind.kind.into());
        self.fill_names(kind, name, &mut body);
        body
    }

    fn fill_names(&self, kind: &Kind, name: &str, body: &mut Value) {
        if kind.plural != "customresourcedefinitions" {
            return;
        }
        let plural = name.split('.').next().unwrap_or_default();
        let mut capital = plural.to_owned();
        if let Some(first) = capital.get_mut(0..1) {
            first.make_ascii_uppercase();
        }
        let text = body
            .to_string()
            .replace("{group}", &format!("{}.example.com", self.mark))
            .replace("{plural}", plural)
            .replace("{Kind}", &capital);
        if let Ok(filled) = serde_json::from_str(&text) {
            *body = filled;
        }
    }

    fn decorate(&mut self, kind: &Kind, metadata: &mut Map<String, Value>) {
        if self.chance(30) {
            let labels = [
                json!({"x": "y"}),
                json!({"x": "z", "w": ""}),
                json!({}),
                json!({"bad key!": "v"}),
                json!({"x": "not a value!"}),
            ];
            metadata.insert("labels".to_owned(), self.pick(&labels).cloned().unwrap_or_default());
        }
        if self.chance(15) {
            let annotations = [json!({"a": "b"}), json!({"a": "c", "d": ""}), json!({"Bad/Key/": "v"})];
            metadata.insert(
                "annotations".to_owned(),
                self.pick(&annotations).cloned().unwrap_or_default(),
            );
        }
        if self.chance(10) && kind.plural != "namespaces" {
            let finalizers = [
                json!(["example.com/f"]),
                json!(["example.com/f", "example.com/g"]),
                json!(["nodomain"]),
                json!([]),
            ];
            metadata.insert(
                "finalizers".to_owned(),
                self.pick(&finalizers).cloned().unwrap_or_default(),
            );
        }
        if self.chance(6) && kind.namespaced && kind.plural != "serviceaccounts" {
            let owner = format!("/api/v1/namespaces/{}/configmaps/a", self.mark);
            let references = [
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": format!("{{uid:{owner}}}")}]),
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": format!("{{uid:{owner}}}"), "blockOwnerDeletion": true, "controller": true}]),
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "", "uid": "x"}]),
            ];
            metadata.insert(
                "ownerReferences".to_owned(),
                self.pick(&references).cloned().unwrap_or_default(),
            );
        }
    }

    fn options(&mut self, verb: &str) -> String {
        let mut options = Vec::new();
        if self.chance(6) {
            options.push(if self.chance(85) { "dryRun=All" } else { "dryRun=Some" }.to_owned());
        }
        if self.chance(10) && verb != "apply" {
            let level = self
                .pick(&["Strict", "Ignore", "Warn", "Loose"])
                .copied()
                .unwrap_or("Warn");
            options.push(format!("fieldValidation={level}"));
        }
        if verb == "apply" || self.chance(40) {
            let manager = self.pick(&MANAGERS).copied().unwrap_or("left");
            options.push(format!("fieldManager={manager}"));
        }
        if verb == "apply" && self.chance(40) {
            options.push("force=true".to_owned());
        }
        if options.is_empty() {
            String::new()
        } else {
            format!("?{}", options.join("&"))
        }
    }

    fn create(&mut self, kind: &Kind, name: &str, collection: &str, request: &mut Request) {
        request.verb = "create".to_owned();
        request.method = "POST".to_owned();
        request.content_type = "application/json".to_owned();
        request.path = format!("{collection}{}", self.options("create"));
        request.body = self.body(kind, name, 18);
        match self.random.random_range(0..40) {
            0 if kind.namespaced => set(&mut request.body, "/metadata/name", json!("Not_Valid")),
            0 => set(
                &mut request.body,
                "/metadata/name",
                format!("{}-Not_Valid", self.mark).into(),
            ),
            1 => set(&mut request.body, "/metadata/resourceVersion", json!("5")),
            2 => set(&mut request.body, "/metadata/namespace", json!("elsewhere")),
            3 => set(
                &mut request.body,
                "/metadata/uid",
                json!("11111111-2222-4333-8444-555555555555"),
            ),
            4 => set(&mut request.body, "/surprise", json!({"deep": 1})),
            5 => set(&mut request.body, "/metadata/generation", json!(7)),
            6 => set(&mut request.body, "/kind", json!("Other")),
            7 | 8 if kind.namespaced && !self.generated.contains(&kind.plural) => {
                self.generated.push(kind.plural);
                set(&mut request.body, "/metadata/generateName", json!("gen-"));
                set(&mut request.body, "/metadata/name", Value::Null);
            }
            _ => {}
        }
    }

    fn get(&mut self, request: &mut Request) {
        request.verb = "get".to_owned();
        request.method = "GET".to_owned();
        match self.random.random_range(0..20) {
            0 | 1 => request.accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1".to_owned(),
            2 | 3 => request.accept = "application/json;as=Table;g=meta.k8s.io;v=v1".to_owned(),
            _ => {}
        }
    }

    fn discovery(&mut self, kind: &Kind, request: &mut Request) {
        request.verb = "discovery".to_owned();
        request.method = "GET".to_owned();
        request.path = kind.root.to_owned();
    }

    fn list(&mut self, collection: &str, request: &mut Request) {
        request.verb = "list".to_owned();
        request.method = "GET".to_owned();
        let options = [
            "",
            "",
            "?limit=1",
            "?limit=2",
            "?limit=1&continue={continue}",
            "?labelSelector=x",
            "?labelSelector=x%3Dy",
            "?labelSelector=x+in+(y,z)",
            "?labelSelector=!x",
            "?labelSelector=x+notin+(y),w",
            "?labelSelector=x%3D%3D",
            "?labelSelector=,",
            "?fieldSelector=metadata.name%3Da",
            "?fieldSelector=metadata.name!%3Da",
            "?fieldSelector=spec.nodeName%3Dx",
            "?fieldSelector=status.phase%3DPending",
            "?fieldSelector=spec.color%3Dred",
            "?limit=-1",
            "?limit=x",
            "?resourceVersion=0",
            "?resourceVersion=x",
            "?resourceVersionMatch=Exact",
            "?resourceVersion=0&resourceVersionMatch=Exact",
            "?continue=nonsense",
            "?fieldSelector=nonsense",
        ];
        let option = self.pick(&options).copied().unwrap_or_default();
        // Pages of the whole cluster show what other sequences left.
        let is_page = option.contains("limit=1") || option.contains("limit=2");
        let option = if is_page && !collection.contains("/namespaces/") {
            ""
        } else {
            option
        };
        request.path = format!("{collection}{option}");
        if self.chance(10) && collection.contains("/namespaces/") {
            request.accept = "application/json;as=Table;g=meta.k8s.io;v=v1".to_owned();
        }
    }

    fn update(&mut self, kind: &Kind, name: &str, object: &str, request: &mut Request) {
        request.verb = "update".to_owned();
        request.method = "PUT".to_owned();
        request.content_type = "application/json".to_owned();
        request.path = format!("{object}{}", self.options("update"));
        request.body = self.body(kind, name, 18);
        match self.random.random_range(0..20) {
            0..12 => set(
                &mut request.body,
                "/metadata/resourceVersion",
                format!("{{rv:{object}}}").into(),
            ),
            12..14 => set(
                &mut request.body,
                "/metadata/resourceVersion",
                format!("{{first-rv:{object}}}").into(),
            ),
            14 => set(&mut request.body, "/metadata/uid", format!("{{uid:{object}}}").into()),
            15 => set(
                &mut request.body,
                "/metadata/uid",
                json!("11111111-2222-4333-8444-555555555555"),
            ),
            16 => set(&mut request.body, "/metadata/name", json!("other")),
            17 => set(&mut request.body, "/metadata/managedFields", json!([])),
            _ => {}
        }
    }

    fn patch(&mut self, kind: &Kind, object: &str, request: &mut Request) {
        request.method = "PATCH".to_owned();
        request.path = format!("{object}{}", self.options("patch"));
        match self.random.random_range(0..3) {
            0 => {
                request.verb = "json-patch".to_owned();
                request.content_type = JSON_PATCH.to_owned();
                request.body = self.json_patch(kind);
            }
            choice => {
                request.verb = if choice == 1 { "merge-patch" } else { "strategic-patch" }.to_owned();
                request.content_type = if choice == 1 { MERGE } else { STRATEGIC }.to_owned();
                request.body = self.merge_patch(kind, object);
            }
        }
    }

    fn json_patch(&mut self, kind: &Kind) -> Value {
        let mut operations = Vec::new();
        for _ in 0..self.random.random_range(1..=2) {
            let (pointer, values) = match self.pick(&kind.fields) {
                Some((pointer, values)) if self.chance(70) => ((*pointer).to_owned(), values.clone()),
                _ => {
                    let metadata = [
                        ("/metadata/labels", json!({"x": "y"})),
                        ("/metadata/labels/x", json!("z")),
                        ("/metadata/annotations", json!({"a": "b"})),
                        ("/metadata/finalizers", json!([])),
                        ("/metadata/finalizers/0", json!("example.com/h")),
                        ("/metadata/name", json!("other")),
                        ("/nothing/here", json!(1)),
                    ];
                    let (pointer, value) = self.pick(&metadata).cloned().unwrap_or(("/metadata/labels", json!({})));
                    (pointer.to_owned(), vec![value])
                }
            };
            let value = self.pick(&values).cloned().unwrap_or_default();
            operations.push(match self.random.random_range(0..10) {
                0..5 => json!({"op": "add", "path": pointer, "value": value}),
                5..7 => json!({"op": "replace", "path": pointer, "value": value}),
                7..9 => json!({"op": "remove", "path": pointer}),
                _ => json!({"op": "test", "path": pointer, "value": value}),
            });
        }
        if self.chance(3) {
            json!({"op": "add"})
        } else {
            Value::Array(operations)
        }
    }

    fn merge_patch(&mut self, kind: &Kind, object: &str) -> Value {
        let mut patch = json!({});
        for (pointer, values) in &kind.fields {
            if self.chance(15) && !pointer.contains("/0/") {
                let value = if self.chance(15) {
                    Value::Null
                } else {
                    self.pick(values).cloned().unwrap_or_default()
                };
                set(&mut patch, pointer, value);
            }
        }
        let metadata = [
            json!({"labels": {"x": "y"}}),
            json!({"labels": {"x": null}}),
            json!({"labels": null}),
            json!({"annotations": {"a": "b"}}),
            json!({"finalizers": ["example.com/f"]}),
            json!({"finalizers": null}),
            json!({"finalizers": []}),
            json!({"name": "other"}),
            json!({"resourceVersion": format!("{{rv:{object}}}")}),
            json!({"resourceVersion": format!("{{first-rv:{object}}}")}),
            json!({"generation": 9}),
            json!({"uid": "11111111-2222-4333-8444-555555555555"}),
            json!({"creationTimestamp": "2020-01-01T00:00:00Z"}),
            json!({"managedFields": []}),
            json!({"managedFields": [{}]}),
        ];
        if self.chance(45) {
            set(&mut patch, "/metadata", self.random_of(&metadata));
        }
        if self.chance(2) { json!([1]) } else { patch }
    }

    fn random_of(&mut self, values: &[Value]) -> Value {
        self.pick(values).cloned().unwrap_or_default()
    }

    fn apply(&mut self, kind: &Kind, name: &str, object: &str, request: &mut Request) {
        request.verb = "apply".to_owned();
        request.method = "PATCH".to_owned();
        request.content_type = APPLY.to_owned();
        request.path = format!("{object}{}", self.options("apply"));
        request.body = self.body(kind, name, 22);
        match self.random.random_range(0..30) {
            0 => set(&mut request.body, "/metadata/uid", format!("{{uid:{object}}}").into()),
            1 => set(
                &mut request.body,
                "/metadata/uid",
                json!("11111111-2222-4333-8444-555555555555"),
            ),
            2 => set(
                &mut request.body,
                "/metadata/resourceVersion",
                format!("{{rv:{object}}}").into(),
            ),
            3 => set(&mut request.body, "/surprise", json!(1)),
            4 => set(
                &mut request.body,
                "/metadata/managedFields",
                json!([{"manager": "left"}]),
            ),
            5 => set(&mut request.body, "/kind", json!("Other")),
            6 => set(&mut request.body, "/metadata/name", json!("other")),
            _ => {}
        }
    }

    fn status(&mut self, kind: &Kind, name: &str, object: &str, request: &mut Request) {
        let mut body = json!({});
        for (pointer, values) in &kind.status {
            if self.chance(50)
                && let Some(value) = self.pick(values).cloned()
            {
                set(&mut body, pointer, value);
            }
        }
        let choice = self.random.random_range(0..4);
        let verb = if choice == 2 { "apply" } else { "status" };
        request.path = format!("{object}/status{}", self.options(verb));
        request.verb = ["status-update", "status-patch", "status-apply", "status-get"]
            .get(choice)
            .copied()
            .unwrap_or_default()
            .to_owned();
        match choice {
            0 => {
                let mut whole = kind.base.clone();
                merge(&mut whole, &body);
                set(&mut whole, "/apiVersion", kind.api_version().into());
                set(&mut whole, "/kind", kind.kind.into());
                set(
                    &mut whole,
                    "/metadata",
                    json!({"name": name, "resourceVersion": format!("{{rv:{object}}}")}),
                );
                self.fill_names(kind, name, &mut whole);
                request.method = "PUT".to_owned();
                request.content_type = "application/json".to_owned();
                request.body = whole;
            }
            1 => {
                request.method = "PATCH".to_owned();
                request.content_type = MERGE.to_owned();
                request.body = body;
            }
            2 => {
                set(&mut body, "/apiVersion", kind.api_version().into());
                set(&mut body, "/kind", kind.kind.into());
                set(&mut body, "/metadata", json!({"name": name}));
                request.method = "PATCH".to_owned();
                request.content_type = APPLY.to_owned();
                request.body = body;
            }
            _ => {
                request.method = "GET".to_owned();
                request.path = format!("{object}/status");
            }
        }
    }

    fn scale(&mut self, object: &str, request: &mut Request) {
        request.path = format!("{object}/scale");
        if self.chance(40) {
            request.verb = "scale-get".to_owned();
            request.method = "GET".to_owned();
            return;
        }
        request.verb = "scale-patch".to_owned();
        request.method = "PATCH".to_owned();
        request.content_type = MERGE.to_owned();
        let replicas = self.random.random_range(-1..4);
        request.body = json!({"spec": {"replicas": replicas}});
    }

    /// Answers whether controllers may act on it.
    fn delete(&mut self, object: &str, request: &mut Request) -> bool {
        request.verb = "delete".to_owned();
        request.method = "DELETE".to_owned();
        let choice = self.random.random_range(0..16);
        let body = match choice {
            0 => json!({"preconditions": {"uid": format!("{{uid:{object}}}")}}),
            1 => json!({"preconditions": {"uid": "11111111-2222-4333-8444-555555555555"}}),
            2 => json!({"preconditions": {"resourceVersion": format!("{{rv:{object}}}")}}),
            3 => json!({"preconditions": {"resourceVersion": format!("{{first-rv:{object}}}")}}),
            4 | 5 => json!({"propagationPolicy": "Foreground"}),
            6 => json!({"propagationPolicy": "Orphan"}),
            7 => json!({"propagationPolicy": "Background"}),
            8 => json!({"propagationPolicy": "Sideways"}),
            9 => json!({"orphanDependents": false}),
            10 => json!({"dryRun": ["All"]}),
            11 => json!({"gracePeriodSeconds": 0}),
            _ => Value::Null,
        };
        if !body.is_null() {
            request.content_type = "application/json".to_owned();
            request.body = body;
        }
        true
    }
}

/// Sets what a pointer names; maps on the way are made, items of lists must be there.
fn set(document: &mut Value, pointer: &str, value: Value) {
    let mut at = document;
    let mut steps = pointer.trim_start_matches('/').split('/').peekable();
    while let Some(step) = steps.next() {
        let is_last = steps.peek().is_none();
        if let Value::Array(items) = at {
            let Some(item) = step.parse::<usize>().ok().and_then(|index| items.get_mut(index)) else {
                return;
            };
            if is_last {
                *item = value;
                return;
            }
            at = item;
            continue;
        }
        if !at.is_object() {
            *at = json!({});
        }
        let Some(map) = at.as_object_mut() else { return };
        if is_last {
            map.insert(step.to_owned(), value);
            return;
        }
        at = map.entry(step.to_owned()).or_insert_with(|| json!({}));
    }
}

/// Puts one document over another.
fn merge(document: &mut Value, over: &Value) {
    match (document, over) {
        (Value::Object(map), Value::Object(over)) => {
            for (key, value) in over {
                merge(map.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (document, over) => *document = over.clone(),
    }
}
