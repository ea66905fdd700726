//! The witness: everything a cluster lists, read by kubectl and never by our own code, and what differs later.
//!
//! Left out are Events and Leases, which change by themselves, and of each object its `resourceVersion` and
//! `managedFields`. Everything else counts: an object that was deleted and made again has another UID and is a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::control_plane::Kubectl;

/// Resources that are not part of a cluster's state, by their full names.
const LEFT_OUT: &[&str] = &["events", "events.events.k8s.io", "leases.coordination.k8s.io"];

/// Where an object is: resource (`deployments.apps`), namespace (empty for the cluster), name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The resource's plural, with its group if it has one.
    pub resource: String,
    /// The namespace; empty for objects of the cluster.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl Display for Place {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(formatter, "{} {}", self.resource, self.name),
            namespace => write!(formatter, "{} {namespace}/{}", self.resource, self.name),
        }
    }
}

/// An object, as far as it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its UID; empty for the few kinds that have none.
    pub uid: String,
    /// All of it, without what changes at every write.
    pub content: Value,
}

/// Everything in a cluster at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// The objects by place.
    pub place_to_object: BTreeMap<Place, Object>,
}

impl Inventory {
    /// Reads everything that can be listed. Takes about a second for a fresh control plane.
    ///
    /// # Errors
    /// If anything cannot be listed: a witness that saw only half is none.
    pub fn take(kubectl: &Kubectl) -> Result<Self> {
        let table = kubectl
            .text(["api-resources", "--verbs=list", "--no-headers=true"])
            .context("listing the kinds")?;
        let kinds = Kinds::read(&table)?;
        let resources: Vec<_> = kinds
            .resources()
            .into_iter()
            .filter(|resource| !LEFT_OUT.contains(resource))
            .collect();
        let list = kubectl
            .text(["get", "--all-namespaces", "--output=json", &resources.join(",")])
            .context("listing all objects")?;
        Self::read(&kinds, &list)
    }

    fn read(kinds: &Kinds, list: &str) -> Result<Self> {
        let mut list: Value = serde_json::from_str(list).context("reading the list of all objects")?;
        let items = list
            .get_mut("items")
            .and_then(Value::as_array_mut)
            .context("finding the items in the list")?;
        let mut place_to_object = BTreeMap::new();
        for mut content in items.drain(..) {
            let resource = kinds.resource_of(&content)?.to_owned();
            let metadata = content
                .get_mut("metadata")
                .and_then(Value::as_object_mut)
                .context("finding metadata")?;
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
            let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let place = Place {
                resource,
                namespace: text("namespace"),
                name: text("name"),
            };
            let uid = text("uid");
            place_to_object.insert(place, Object { uid, content });
        }
        Ok(Self { place_to_object })
    }

    /// What is different in a later inventory of the same cluster.
    pub fn compare(&self, later: &Self) -> Difference {
        let mut difference = Difference::default();
        for (place, before) in &self.place_to_object {
            match later.place_to_object.get(place) {
                None => difference.missing.push(place.clone()),
                Some(after) if after.uid != before.uid => difference.recreated.push(place.clone()),
                Some(after) => {
                    let mut fields = Vec::new();
                    compare_values("", Some(&before.content), Some(&after.content), &mut fields);
                    if !fields.is_empty() {
                        difference.changed.push((place.clone(), fields));
                    }
                }
            }
        }
        let new = later
            .place_to_object
            .keys()
            .filter(|place| !self.place_to_object.contains_key(place));
        difference.added.extend(new.cloned());
        difference
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.place_to_object.len()
    }

    /// Whether there is nothing; no real cluster is like that.
    pub fn is_empty(&self) -> bool {
        self.place_to_object.is_empty()
    }
}

/// Which resource the objects of a kind are listed under.
#[derive(Debug)]
struct Kinds {
    group_and_kind_to_resource: BTreeMap<(String, String), String>,
}

impl Kinds {
    /// Reads the table of `kubectl api-resources`: NAME, SHORTNAMES (may be empty), APIVERSION, NAMESPACED, KIND.
    fn read(table: &str) -> Result<Self> {
        let mut group_and_kind_to_resource = BTreeMap::new();
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            let columns: Vec<_> = line.split_whitespace().collect();
            let (Some(name), [.., version, _, kind]) = (columns.first(), columns.as_slice()) else {
                anyhow::bail!("reading the list of kinds: {line:?}");
            };
            let group = group_of(version);
            let resource = if group.is_empty() {
                (*name).to_owned()
            } else {
                format!("{name}.{group}")
            };
            group_and_kind_to_resource.insert((group.to_owned(), (*kind).to_owned()), resource);
        }
        Ok(Self {
            group_and_kind_to_resource,
        })
    }

    fn resources(&self) -> BTreeSet<&str> {
        self.group_and_kind_to_resource.values().map(String::as_str).collect()
    }

    fn resource_of(&self, object: &Value) -> Result<&str> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let key = (group_of(text("apiVersion")).to_owned(), text("kind").to_owned());
        let resource = self.group_and_kind_to_resource.get(&key);
        resource
            .map(String::as_str)
            .with_context(|| format!("finding the resource of kind {} in group {:?}", key.1, key.0))
    }
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// What differs between two inventories. It prints as one line per object and field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Was there before, is not there now.
    pub missing: Vec<Place>,
    /// Was not there before, is there now.
    pub added: Vec<Place>,
    /// The same place, another object: it was deleted and made again.
    pub recreated: Vec<Place>,
    /// The same object with other content.
    pub changed: Vec<(Place, Vec<Field>)>,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its path, as in `.spec.ports[0].name`.
    pub path: String,
    /// What it was; nothing if it was not there.
    pub before: Option<Value>,
    /// What it is; nothing if it is not there.
    pub after: Option<Value>,
}

impl Difference {
    /// Whether the cluster is as it was.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.added.is_empty() && self.recreated.is_empty() && self.changed.is_empty()
    }
}

impl Display for Difference {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for (sign, what, places) in [
            ("-", "missing", &self.missing),
            ("+", "left over", &self.added),
            ("!", "made anew", &self.recreated),
        ] {
            for place in places {
                writeln!(formatter, "{sign} {place} ({what})")?;
            }
        }
        for (place, fields) in &self.changed {
            writeln!(formatter, "~ {place} (changed)")?;
            for Field { path, before, after } in fields {
                writeln!(
                    formatter,
                    "    {path}: {} → {}",
                    Short(before.as_ref()),
                    Short(after.as_ref())
                )?;
            }
        }
        Ok(())
    }
}

/// A value in one line that is not too long to read.
struct Short<'a>(Option<&'a Value>);

impl Display for Short<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        const LETTERS: usize = 80;
        let Some(value) = self.0 else {
            return formatter.write_str("(nothing)");
        };
        let text = value.to_string();
        if text.chars().count() <= LETTERS {
            return formatter.write_str(&text);
        }
        let start: String = text.chars().take(LETTERS).collect();
        write!(formatter, "{start}…")
    }
}

fn compare_values(path: &str, before: Option<&Value>, after: Option<&Value>, fields: &mut Vec<Field>) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                let inner = if key.contains(['.', '/']) {
                    format!("{path}[{key:?}]")
                } else {
                    format!("{path}.{key}")
                };
                compare_values(&inner, before.get(key), after.get(key), fields);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for index in 0..before.len().max(after.len()) {
                compare_values(&format!("{path}[{index}]"), before.get(index), after.get(index), fields);
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            fields.push(Field {
                path: path.to_owned(),
                before: before.cloned(),
                after: after.cloned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str = "\
configmaps   cm       v1        true    ConfigMap
nodes        no       v1        false   Node
widgets               ex.io/v1  true    Widget
";

    fn inventory(items: Value) -> Inventory {
        Inventory::read(&Kinds::read(TABLE).unwrap(), &json!({ "items": items }).to_string()).unwrap()
    }

    fn widget(name: &str, uid: &str, version: &str, spec: Value) -> Value {
        json!({"apiVersion": "ex.io/v1", "kind": "Widget", "spec": spec, "metadata": {
            "name": name, "namespace": "n", "uid": uid, "resourceVersion": version, "managedFields": [{"time": version}]}})
    }

    #[test]
    fn a_write_that_changes_nothing_is_no_difference() {
        let before = inventory(json!([widget("a", "1", "5", json!({"x": 1}))]));
        let after = inventory(json!([widget("a", "1", "9", json!({"x": 1}))]));
        assert!(before.compare(&after).is_empty());
        assert_eq!(before.len(), 1);
    }

    #[test]
    fn every_difference_is_found_and_can_be_read() {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "7"}});
        let before = inventory(json!([
            node,
            widget("changed", "1", "1", json!({"ports": [{"name": "a"}], "gone": true})),
            widget("again", "2", "1", json!({})),
        ]));
        let after = inventory(json!([
            widget("changed", "1", "2", json!({"ports": [{"name": "b"}]})),
            widget("again", "3", "2", json!({})),
            widget("extra", "4", "2", json!({})),
        ]));
        let difference = before.compare(&after);
        assert!(!difference.is_empty());
        assert_eq!(
            difference.to_string(),
            "- nodes n1 (missing)
+ widgets.ex.io n/extra (left over)
! widgets.ex.io n/again (made anew)
~ widgets.ex.io n/changed (changed)
    .spec.gone: true → (nothing)
    .spec.ports[0].name: \"a\" → \"b\"
"
        );
    }

    #[test]
    fn an_object_of_a_kind_that_was_not_listed_is_an_error() {
        let list = json!({"items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]}).to_string();
        let error = Inventory::read(&Kinds::read(TABLE).unwrap(), &list)
            .unwrap_err()
            .to_string();
        assert!(error.contains("kind Pod"), "{error}");
    }
}
