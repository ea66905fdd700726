//! What is served: groups, versions, resources, and their descriptions.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use crate::catalog::{Resource, Subresource};
use crate::object;
use crate::reply::Answer;
use crate::request::{Call, Path};
use crate::status::Failure;
use crate::world::World;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl World {
    pub(crate) fn discovery(&self, call: &Call, path: &Path) -> Result<Answer, Failure> {
        let value = match path {
            Path::CoreVersions if wants_aggregated(call) => return Ok(self.aggregated(&[String::new()])),
            Path::Groups if wants_aggregated(call) => {
                let groups: Vec<String> = self.groups().iter().map(name_of).collect();
                return Ok(self.aggregated(&groups));
            }
            Path::CoreVersions => json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
            }),
            Path::Groups => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": self.groups()}),
            Path::Group(name) => {
                let mut group = self
                    .groups()
                    .into_iter()
                    .find(|group| name_of(group) == *name)
                    .ok_or_else(Failure::no_such_page)?;
                crate::object::set_type(&mut group, "v1", "APIGroup");
                group
            }
            Path::GroupVersion { group, version } => self.resource_list(group, version)?,
            _ => return Err(Failure::no_such_page()),
        };
        Ok(Answer::value(StatusCode::OK, &value))
    }

    /// The groups beside the core group: the recorded ones, then those of custom resources by their names.
    fn groups(&self) -> Vec<Value> {
        let mut groups = self.base().groups.clone();
        let mut names: Vec<&SmolStr> = self.custom.values().map(|resource| &resource.group).collect();
        names.dedup();
        for name in names {
            if groups.iter().any(|group| name_of(group) == *name) {
                continue;
            }
            let versions: Vec<Value> = self
                .versions_of(name)
                .iter()
                .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version.as_str()}))
                .collect();
            let preferred = versions.first().cloned().unwrap_or_default();
            groups.push(json!({"name": name.as_str(), "versions": versions, "preferredVersion": preferred}));
        }
        groups
    }

    /// The served versions of a group, the most stable first.
    fn versions_of(&self, group: &str) -> Vec<SmolStr> {
        let mut versions: Vec<SmolStr> = self
            .resources()
            .filter(|resource| resource.group == group)
            .flat_map(|resource| resource.versions.iter().map(|version| version.name.clone()))
            .collect();
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        versions.dedup();
        versions
    }

    fn resource_list(&self, group: &str, version: &str) -> Result<Value, Failure> {
        let mut resources = Vec::new();
        for resource in self.resources().filter(|resource| resource.group == group) {
            let Some(found) = resource.version(version) else {
                continue;
            };
            resources.push(entry(resource, &found.storage_hash));
            resources.extend(
                found
                    .subresources
                    .iter()
                    .map(|subresource| subresource_entry(resource, subresource)),
            );
        }
        if resources.is_empty() {
            let is_group = group.is_empty() || self.groups().iter().any(|known| name_of(known) == group);
            return Err(if is_group {
                Failure::no_such_resource()
            } else {
                Failure::no_such_page()
            });
        }
        // In groups of definitions, what belongs to an object comes in an order of its own.
        let place = |entry: &Value| {
            let name = name_of(entry);
            let (plural, part) = name.split_once('/').unwrap_or((name.as_str(), ""));
            let is_custom = self
                .resource(group, plural)
                .is_some_and(|resource| resource.custom().is_some());
            let is_late = is_custom && part == "scale";
            (plural.to_owned(), is_late, part.to_owned())
        };
        resources.sort_by_key(place);
        let mut list = json!({
            "kind": "APIResourceList",
            "groupVersion": crate::catalog::api_version(group, version),
            "resources": resources,
        });
        // The oldest of the lists does not say what it is.
        if !group.is_empty() {
            object::map_mut(&mut list).insert("apiVersion".into(), "v1".into());
        }
        Ok(list)
    }

    fn aggregated(&self, groups: &[String]) -> Answer {
        let items: Vec<Value> = groups
            .iter()
            .map(|group| {
                let versions: Vec<Value> = self
                    .versions_of(group)
                    .iter()
                    .map(|version| self.aggregated_version(group, version))
                    .collect();
                let metadata = if group.is_empty() {
                    json!({"creationTimestamp": null})
                } else {
                    json!({"name": group})
                };
                json!({"metadata": metadata, "versions": versions})
            })
            .collect();
        let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
        Answer {
            content_type: AGGREGATED,
            ..Answer::value(StatusCode::OK, &list)
        }
    }

    fn aggregated_version(&self, group: &str, version: &str) -> Value {
        let mut resources: Vec<&Resource> = self
            .resources()
            .filter(|resource| resource.group == group && resource.version(version).is_some())
            .map(std::convert::AsRef::as_ref)
            .collect();
        resources.sort_by(|one, other| one.plural.cmp(&other.plural));
        let resources: Vec<Value> = resources
            .into_iter()
            .map(|resource| aggregated_entry(resource, version))
            .collect();
        json!({"version": version, "resources": resources, "freshness": "Current"})
    }

    /// The index of OpenAPI v3, or one of its documents.
    pub(crate) fn openapi(&self, document: Option<&str>) -> Result<Answer, Failure> {
        let recorded = &self.settings.release.openapi().documents;
        let Some(path) = document else {
            let mut paths = Map::new();
            for (path, document) in recorded {
                paths.insert(
                    path.clone(),
                    json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={}", hash(document))}),
                );
            }
            for (path, document) in self.custom_openapi() {
                paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={}", hash(document.to_string().as_bytes()))}));
            }
            return Ok(Answer::value(StatusCode::OK, &json!({"paths": paths})));
        };
        if let Some(document) = recorded.get(path) {
            return Ok(Answer::json(StatusCode::OK, Bytes::clone(document)));
        }
        let custom = self.custom_openapi().into_iter().find(|(known, _)| known == path);
        custom
            .map(|(_, document)| Answer::value(StatusCode::OK, &document))
            .ok_or_else(Failure::no_such_page)
    }

    /// One document for each version of each group of custom resources.
    fn custom_openapi(&self) -> Vec<(String, Value)> {
        let mut documents: std::collections::BTreeMap<String, Value> = std::collections::BTreeMap::new();
        for resource in self.custom.values() {
            let Some(custom) = resource.custom() else { continue };
            for version in &resource.versions {
                let path = format!("apis/{}/{}", resource.group, version.name);
                let document = documents.entry(path).or_insert_with(|| {
                    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}, "paths": {}, "components": {"schemas": {}}})
                });
                custom.describe(resource, version, document);
            }
        }
        documents.into_iter().collect()
    }
}

fn hash(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

fn name_of(value: &Value) -> String {
    value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn wants_aggregated(call: &Call) -> bool {
    call.accept.split(',').any(|clause| {
        clause.contains("as=APIGroupDiscoveryList") && clause.contains("v=v2") && !clause.contains("v=v2beta1")
    })
}

/// Stable before beta before alpha, newer before older, anything else last.
pub(crate) fn priority(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse::<u32>().ok();
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    if let Some(major) = number(rest) {
        return (3, major, 0);
    }
    for (word, rank) in [("beta", 2), ("alpha", 1)] {
        if let Some((major, minor)) = rest.split_once(word)
            && let (Some(major), Some(minor)) = (number(major), number(if minor.is_empty() { "1" } else { minor }))
        {
            return (rank, major, minor);
        }
    }
    (0, 0, 0)
}

fn entry(resource: &Resource, hash: &str) -> Value {
    let mut entry = Map::new();
    entry.insert("name".into(), resource.plural.as_str().into());
    entry.insert("singularName".into(), resource.singular.as_str().into());
    entry.insert("namespaced".into(), resource.namespaced.into());
    entry.insert("kind".into(), resource.kind.as_str().into());
    entry.insert("verbs".into(), words(&resource.verbs));
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".into(), words(&resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".into(), words(&resource.categories));
    }
    if !hash.is_empty() {
        entry.insert("storageVersionHash".into(), hash.into());
    }
    Value::Object(entry)
}

fn subresource_entry(resource: &Resource, subresource: &Subresource) -> Value {
    let mut entry = Map::new();
    entry.insert(
        "name".into(),
        format!("{}/{}", resource.plural, subresource.name).into(),
    );
    entry.insert("singularName".into(), "".into());
    entry.insert("namespaced".into(), resource.namespaced.into());
    if !subresource.group.is_empty() {
        entry.insert("group".into(), subresource.group.as_str().into());
    }
    if !subresource.version.is_empty() {
        entry.insert("version".into(), subresource.version.as_str().into());
    }
    entry.insert("kind".into(), subresource.kind.as_str().into());
    entry.insert("verbs".into(), words(&subresource.verbs));
    Value::Object(entry)
}

fn aggregated_entry(resource: &Resource, version: &str) -> Value {
    let mut entry = Map::new();
    let kind_of = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    entry.insert("resource".into(), resource.plural.as_str().into());
    let own = if resource.custom().is_some() {
        (resource.group.as_str(), version)
    } else {
        ("", "")
    };
    entry.insert("responseKind".into(), kind_of(own.0, own.1, &resource.kind));
    entry.insert(
        "scope".into(),
        if resource.namespaced { "Namespaced" } else { "Cluster" }.into(),
    );
    entry.insert("singularResource".into(), resource.singular.as_str().into());
    entry.insert("verbs".into(), words(&resource.verbs));
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".into(), words(&resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".into(), words(&resource.categories));
    }
    let subresources: Vec<Value> = resource
        .version(version)
        .map(|version| version.subresources.as_slice())
        .unwrap_or_default()
        .iter()
        .map(|subresource| {
            json!({
                "subresource": subresource.name.as_str(),
                "responseKind": kind_of(&subresource.group, &subresource.version, &subresource.kind),
                "verbs": words(&subresource.verbs),
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry.insert("subresources".into(), Value::Array(subresources));
    }
    Value::Object(entry)
}

fn words(words: &[SmolStr]) -> Value {
    words.iter().map(|word| Value::from(word.as_str())).collect()
}
