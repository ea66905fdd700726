//! Playing a sequence on both sides, and making one that shows a difference as short as it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::normal::{Normaliser, differences};
use super::rows::rows;
use super::sequence::{Request, Step};
use super::side::{Answer, Memory, Real, Side, Simulated, until};
use super::{Report, kinds};
use crate::control_plane::ControlPlane;

/// Where two servers part.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The step, as one line.
    pub step: String,
    /// What differs, by JSON path.
    pub paths: Vec<String>,
    /// Whether it was seen after a wait for the controllers.
    pub is_slow: bool,
    at: usize,
}

/// Both servers.
pub(super) struct Pair {
    real: Real,
    simulated: Simulated,
    kinds: Vec<kinds::Kind>,
    /// How often a sequence was played, by this pair and its siblings.
    rounds: Arc<AtomicU32>,
}

/// A difference that is known and let be.
struct Allowed {
    name: &'static str,
    kind: &'static str,
    path: &'static str,
}

/// Each with its reason in the simulator's README.
const ALLOWED: &[Allowed] = &[];

/// What is not compared any further, as [`ALLOWED`].
const BROKEN_OFF: &str = "the real server broke off";

/// How long the real controllers may take to come to rest.
const REST_WITHIN: Duration = Duration::from_secs(30);
/// It looks for new kinds every 30 s, and finds what came just after a look in the one after the next.
const COLLECTOR_WITHIN: Duration = Duration::from_secs(120);

impl Pair {
    pub(super) fn start(cluster: Arc<ControlPlane>) -> Result<Self> {
        let mut pair = Self {
            real: Real::new(cluster)?,
            simulated: Simulated::new()?,
            kinds: kinds::all(),
            rounds: Arc::default(),
        };
        for definition in kinds::definitions() {
            let body = Bytes::from(definition.to_string());
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            for side in [&mut pair.real as &mut dyn Side, &mut pair.simulated] {
                let answer = side.send(&Method::POST, path, "application/json", "", body.clone())?;
                ensure!(answer.code == 201, "a definition was not taken: {}", answer.body);
                side.settle();
            }
        }
        for path in [
            "/apis/compare.example.com/v1/widgets",
            "/apis/compare.example.com/v2/gadgets",
        ] {
            until(
                REST_WITHIN,
                || pair.real.send(&Method::GET, path, "", "", Bytes::new()),
                |answer| answer.code == 200,
            )?;
        }
        pair.wait_for_collector()?;
        Ok(pair)
    }

    /// Another one that talks to the same real server.
    pub(super) fn sibling(&self) -> Result<Self> {
        Ok(Self {
            real: self.real.sibling()?,
            simulated: self.simulated.fork()?,
            kinds: kinds::all(),
            rounds: Arc::clone(&self.rounds),
        })
    }

    /// The garbage collector looks for new kinds twice a minute; until then it does not see the custom ones.
    fn wait_for_collector(&mut self) -> Result<()> {
        let collection = "/apis/compare.example.com/v1/gadgets";
        let object = format!("{collection}/first");
        let body = json!({"apiVersion": "compare.example.com/v1", "kind": "Gadget", "metadata": {"name": "first"}, "spec": {}});
        self.real.send(
            &Method::POST,
            collection,
            "application/json",
            "",
            Bytes::from(body.to_string()),
        )?;
        let orphan = Bytes::from(json!({"propagationPolicy": "Orphan"}).to_string());
        self.real
            .send(&Method::DELETE, &object, "application/json", "", orphan)?;
        let gone = until(
            COLLECTOR_WITHIN,
            || self.real.send(&Method::GET, &object, "", "", Bytes::new()),
            |answer| answer.code == 404,
        )?;
        ensure!(gone.code == 404, "the garbage collector never came");
        Ok(())
    }

    /// Plays a sequence on the real server and on a copy of the simulator, until they part.
    pub(super) fn play(
        &mut self,
        steps: &[Step],
        mark: &str,
        mut report: Option<&mut Report>,
    ) -> Result<Option<Difference>> {
        // A sequence can be played again while the namespaces of the last time are still going.
        let own = format!("{mark}-r{}", self.rounds.fetch_add(1, Ordering::Relaxed));
        let steps = renamed(steps, mark, &own)?;
        let mut simulated = self.simulated.fork()?;
        let mut sides = [
            (Memory::default(), Normaliser::new()?, current_version(&mut self.real)?),
            (Memory::default(), Normaliser::new()?, current_version(&mut simulated)?),
        ];
        let used = used_kinds(&self.kinds, &steps);
        let mut found = None;
        for (at, step) in steps.iter().enumerate() {
            let (real, imagined) = match step {
                Step::Request(request) => {
                    if let Some(report) = report.as_deref_mut() {
                        report.requests += 1;
                        *report
                            .coverage
                            .entry((request.kind.clone(), request.verb.clone()))
                            .or_default() += 1;
                    }
                    let [one, other] = &mut sides;
                    let known = one.0.version_of(request);
                    let answers = (
                        ask(&mut self.real, request, one, &own).with_context(|| step.shown())?,
                        ask(&mut simulated, request, other, &own)?,
                    );
                    if let Some(report) = report.as_deref_mut() {
                        let changed = one.0.has_changed(request, known.as_deref());
                        for row in rows(request, &answers.0, changed) {
                            *report.rows.entry((row, request.verb.clone())).or_default() += 1;
                        }
                    }
                    answers
                }
                Step::Settle => {
                    simulated.settle();
                    let expected = state(&mut simulated, &self.kinds, &used, &own, &mut sides[1].1)?;
                    let (real, kinds) = (&mut self.real, &self.kinds);
                    // Names given while waiting would depend on how long it takes, so each look starts from the same.
                    let reached = until(
                        REST_WITHIN,
                        || {
                            let mut names = sides[0].1.clone();
                            state(real, kinds, &used, &own, &mut names).map(|state| (state, names))
                        },
                        |(state, _)| *state == expected,
                    )?;
                    sides[0].1 = reached.1;
                    (reached.0, expected)
                }
                Step::Watch { path } => {
                    if let Some(report) = report.as_deref_mut() {
                        *report.rows.entry((11, "watch".to_owned())).or_default() += 1;
                    }
                    let [one, other] = &mut sides;
                    let in_order = !acts_on_many(&steps);
                    (
                        watch(&mut self.real, path, in_order, one, &own)?,
                        watch(&mut simulated, path, in_order, other, &own)?,
                    )
                }
            };
            if real.get("code") == Some(&json!(0)) {
                // Nobody can be like that, and what it left is not to be relied upon.
                if let Some(report) = report.as_deref_mut() {
                    *report.allowed.entry(BROKEN_OFF).or_default() += 1;
                }
                break;
            }
            let paths = differences(&real, &imagined);
            let kind = match step {
                Step::Request(request) => request.kind.as_str(),
                _ => "",
            };
            let paths: Vec<String> = paths
                .into_iter()
                .filter(|path| {
                    let allowed = ALLOWED.iter().find(|allowed| {
                        (allowed.kind.is_empty() || allowed.kind == kind) && path.contains(allowed.path)
                    });
                    if let (Some(allowed), Some(report)) = (allowed, report.as_deref_mut()) {
                        *report.allowed.entry(allowed.name).or_default() += 1;
                    }
                    allowed.is_none()
                })
                .collect();
            if !paths.is_empty() {
                found = Some(Difference {
                    step: step.shown(),
                    paths,
                    is_slow: matches!(step, Step::Settle),
                    at,
                });
                break;
            }
        }
        self.clean(&own)?;
        Ok(found)
    }

    /// Takes away what a sequence left on the real server.
    fn clean(&mut self, own: &str) -> Result<()> {
        for kind in &self.kinds {
            // A namespace takes the real controllers a hundred requests to end, and what is in it bothers nobody.
            if kind.namespaced || kind.plural == "namespaces" {
                continue;
            }
            let path = format!("{}/{}", kind.root, kind.plural);
            let list = self.real.send(&Method::GET, &path, "", "", Bytes::new())?;
            for item in list.body.get("items").and_then(Value::as_array).into_iter().flatten() {
                let name = item
                    .pointer("/metadata/name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                if is_own(item, own) {
                    let patch = Bytes::from(json!({"metadata": {"finalizers": null}}).to_string());
                    let object = format!("{path}/{name}");
                    self.real
                        .send(&Method::PATCH, &object, "application/merge-patch+json", "", patch)?;
                    self.real.send(&Method::DELETE, &object, "", "", Bytes::new())?;
                }
            }
        }
        Ok(())
    }
}

/// The sequence with every name that others could see made unique to this round.
fn renamed(steps: &[Step], mark: &str, own: &str) -> Result<Vec<Step>> {
    let text = serde_json::to_string(steps).context("writing a sequence")?;
    serde_json::from_str(&text.replace(mark, own)).context("reading a sequence")
}

fn current_version(side: &mut impl Side) -> Result<String> {
    let list = side.send(&Method::GET, "/api/v1/configmaps?limit=1", "", "", Bytes::new())?;
    Ok(list
        .body
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned())
}

type Known = (Memory, Normaliser, String);

fn ask(side: &mut impl Side, request: &Request, (memory, normaliser, _): &mut Known, own: &str) -> Result<Value> {
    let method: Method = request.method.parse().context("reading a method")?;
    let path = memory.fill(&request.path);
    let body = match &request.body {
        Value::Null if !request.raw.is_empty() => Bytes::from(request.raw.clone()),
        Value::Null => Bytes::new(),
        body => Bytes::from(memory.fill_value(body).to_string()),
    };
    let answer = side.send(&method, &path, &request.content_type, &request.accept, body)?;
    memory.learn(request, &answer);
    Ok(comparable(answer, normaliser, own))
}

fn comparable(answer: Answer, normaliser: &mut Normaliser, own: &str) -> Value {
    let mut body = answer.body;
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        // Lists of the cluster show what other sequences left.
        items.retain(|item| is_own(item, own));
    }
    json!({"code": answer.code, "warnings": answer.warnings, "body": normaliser.value(&body).replace_mark(own)})
}

/// Whether an object belongs to a sequence.
fn is_own(item: &Value, own: &str) -> bool {
    let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let name = text("/metadata/name");
    text("/metadata/namespace") == own
        || name == own
        || name.starts_with(&format!("{own}-"))
        || name.contains(&format!(".{own}."))
}

/// The kinds that a sequence can have left objects of.
fn used_kinds(kinds: &[kinds::Kind], steps: &[Step]) -> Vec<usize> {
    let named = |kind: &kinds::Kind| {
        steps
            .iter()
            .any(|step| matches!(step, Step::Request(request) if request.kind == kind.kind))
    };
    let always = |kind: &kinds::Kind| matches!(kind.kind, "ConfigMap" | "ServiceAccount");
    kinds
        .iter()
        .enumerate()
        .filter(|(_, kind)| named(kind) || always(kind))
        .map(|(at, _)| at)
        .collect()
}

/// All of a sequence's objects, after the controllers.
fn state(
    side: &mut impl Side,
    kinds: &[kinds::Kind],
    used: &[usize],
    own: &str,
    normaliser: &mut Normaliser,
) -> Result<Value> {
    let mut all = serde_json::Map::new();
    for kind in used.iter().filter_map(|at| kinds.get(*at)) {
        let path = if kind.namespaced {
            format!("{}/namespaces/{own}/{}", kind.root, kind.plural)
        } else {
            format!("{}/{}", kind.root, kind.plural)
        };
        let list = side.send(&Method::GET, &path, "", "", Bytes::new())?;
        let mut items = list
            .body
            .get("items")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        items.retain(|item| is_own(item, own));
        for item in &mut items {
            // The certificates are those of each server.
            if item
                .pointer("/metadata/name")
                .is_some_and(|name| name == "kube-root-ca.crt")
            {
                *item = json!("certificates");
            } else {
                strip_versions(item);
            }
        }
        all.insert(
            format!("{}/{}", kind.root, kind.plural),
            normaliser.value(&Value::Array(items)),
        );
    }
    Ok(Value::Object(all))
}

/// How many writes controllers need is their affair.
fn strip_versions(item: &mut Value) {
    if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
}

/// Whether the controllers had several objects to act on at once: in which order they do is luck.
fn acts_on_many(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Request(request) => {
            request.verb == "deletecollection" || request.body.to_string().contains("ownerReferences")
        }
        _ => false,
    })
}

fn watch(
    side: &mut impl Side,
    path: &str,
    in_order: bool,
    (_, normaliser, from): &mut Known,
    own: &str,
) -> Result<Value> {
    // The last event is one of our own making: when it comes, all others came.
    let (root, plural) = path.rsplit_once('/').unwrap_or_default();
    let (api, kind) = sentinel_kind(root, plural);
    let Some((name, body)) = sentinel(&api, &kind, plural, own) else {
        return Ok(Value::Null);
    };
    let answer = side.send(
        &Method::POST,
        path,
        "application/json",
        "",
        Bytes::from(body.to_string()),
    )?;
    let Some(uid) = answer.body.pointer("/metadata/uid").and_then(Value::as_str) else {
        return Ok(Value::Null);
    };
    let events = side.events(path, from, uid)?;
    side.send(&Method::DELETE, &format!("{path}/{name}"), "", "", Bytes::new())?;
    let mut own_events: Vec<Value> = events
        .into_iter()
        .filter(|event| event.get("object").is_some_and(|object| is_own(object, own)))
        .filter(|event| {
            event
                .pointer("/object/metadata/name")
                .is_none_or(|name| name != "kube-root-ca.crt")
        })
        .collect();
    if !in_order {
        // Of each object they still come in their order.
        own_events.sort_by_key(|event| event.pointer("/object/metadata/name").map(ToString::to_string));
    }
    Ok(normaliser.value(&Value::Array(own_events)))
}

fn sentinel_kind(root: &str, plural: &str) -> (String, String) {
    let root = root.split("/namespaces/").next().unwrap_or_default();
    let kind = kinds::all()
        .into_iter()
        .find(|kind| kind.root == root && kind.plural == plural);
    kind.map(|kind| (kind.api_version().to_owned(), kind.kind.to_owned()))
        .unwrap_or_default()
}

fn sentinel(api: &str, kind: &str, plural: &str, own: &str) -> Option<(String, Value)> {
    let known = kinds::all()
        .into_iter()
        .find(|known| known.plural == plural && known.api_version() == api)?;
    let name = if known.namespaced {
        "zz-sentinel".to_owned()
    } else {
        format!("{own}-zz-sentinel")
    };
    let mut body = known.base;
    let map = body.as_object_mut()?;
    map.insert("apiVersion".to_owned(), api.into());
    map.insert("kind".to_owned(), kind.into());
    map.insert("metadata".to_owned(), json!({"name": name}));
    Some((name, body))
}

/// The shortest sequence that still shows a difference at its last step, found by leaving out steps.
pub(super) fn shrink(pair: &mut Pair, steps: &[Step], first: &Difference, mark: &str) -> Result<Vec<Step>> {
    let mut best: Vec<Step> = steps.get(..=first.at).unwrap_or(steps).to_vec();
    let shows = |pair: &mut Pair, steps: &[Step]| -> Result<bool> {
        let found = pair.play(steps, mark, None)?;
        Ok(found.is_some_and(|found| found.at + 1 == steps.len() && alike(&found, first)))
    };
    let mut width = best.len() / 2;
    while width > 0 {
        let mut at = 1;
        while at + 1 < best.len() {
            let end = (at + width).min(best.len() - 1);
            let mut shorter = best.clone();
            shorter.drain(at..end);
            if shows(pair, &shorter)? {
                best = shorter;
            } else {
                at += width;
            }
        }
        width /= 2;
    }
    Ok(best)
}

/// Whether two differences are of the same sort: the same places differ.
fn alike(one: &Difference, other: &Difference) -> bool {
    let places = |difference: &Difference| -> Vec<String> {
        difference
            .paths
            .iter()
            .map(|path| path.split(':').next().unwrap_or_default().to_owned())
            .collect()
    };
    places(one).iter().any(|place| places(other).contains(place))
}

trait ReplaceMark {
    fn replace_mark(self, own: &str) -> Value;
}

impl ReplaceMark for Value {
    /// Names of one round look alike in all.
    fn replace_mark(self, own: &str) -> Value {
        match self {
            Value::String(text) => Value::String(text.replace(own, "OWN")),
            Value::Array(items) => items.into_iter().map(|item| item.replace_mark(own)).collect(),
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(key, value)| (key, value.replace_mark(own)))
                    .collect(),
            ),
            other => other,
        }
    }
}
