//! A floor may use floors below it, never above, never sideways; the tables here are the whole law.
//!
//! Checked on the resolved graph of `cargo metadata`, where dependencies of tests and build scripts count as well.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::workspace;

/// Which floor each crate of the workspace is on.
const FLOORS: &[(&str, u8)] = &[
    ("chandlery-core", 1),
    ("chandlery-merge", 1),
    ("chandlery-kinds", 1),
    ("chandlery-api", 2),
    ("chandlery-artifact", 2),
    ("chandlery-bindings", 2),
    ("chandlery-engine", 3),
    ("chandlery-install", 3),
    ("chandlery-runtime", 3),
    ("chandlery-scope", 3),
    ("chandlery-simulator", 4),
    ("chandlery-conformance", 4),
    ("chandlery", 5),
    ("chandlery-daemon", 6),
    ("chandlery-cli", 6),
    ("embedding", 6),
    ("xtask", 7),
];

/// May use anything: tests of several rooms at once live there, and nobody uses it.
const EXEMPT: &[&str] = &["chandlery-tests"];

/// The only steps sideways, each with its reason.
const SIDEWAYS: &[(&str, &str, &str)] = &[
    (
        "chandlery-conformance",
        "chandlery-simulator",
        "the kit runs plugins against the simulator",
    ),
    (
        "chandlery-cli",
        "chandlery-daemon",
        "`chandlery daemon` is a verb of the one program",
    ),
];

/// Libraries that only some crates may name.
const RESERVED: &[(Family, &[&str])] = &[
    (Family::Wasmtime, &["chandlery-runtime", "chandlery-bindings"]),
    (
        Family::Kube,
        &[
            "chandlery-api",
            "chandlery-scope",
            "chandlery-install",
            "chandlery",
            "embedding",
            "chandlery-daemon",
            "chandlery-cli",
        ],
    ),
];

/// Libraries that must not be reached, over however many steps.
const UNREACHABLE: &[(&str, &[Family])] = &[
    (
        "chandlery-core",
        &[Family::Tokio, Family::Hyper, Family::Kube, Family::Wasmtime],
    ),
    (
        "chandlery-merge",
        &[Family::Tokio, Family::Hyper, Family::Kube, Family::Wasmtime],
    ),
    (
        "chandlery-kinds",
        &[Family::Tokio, Family::Hyper, Family::Kube, Family::Wasmtime],
    ),
    ("chandlery-api", &[Family::Wasmtime]),
    ("chandlery-artifact", &[Family::Kube, Family::Wasmtime]),
    ("chandlery-bindings", &[Family::Kube]),
    ("chandlery-engine", &[Family::Kube, Family::Wasmtime]),
    ("chandlery-scope", &[Family::Wasmtime]),
    ("chandlery-install", &[Family::Wasmtime]),
    ("chandlery-runtime", &[Family::Kube]),
];

/// A library together with the crates it is published as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Kube,
    Wasmtime,
    Tokio,
    Hyper,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::Kube => "kube",
            Self::Wasmtime => "wasmtime",
            Self::Tokio => "tokio",
            Self::Hyper => "hyper",
        }
    }

    fn holds(self, package: &str) -> bool {
        // A language for rules, made for the field; it talks to no cluster.
        package != "kube-cel" && self.is_prefix_of(package)
    }

    fn is_prefix_of(self, package: &str) -> bool {
        package == self.name()
            || package
                .strip_prefix(self.name())
                .is_some_and(|rest| rest.starts_with('-'))
    }
}

/// Checks this workspace.
///
/// # Errors
/// If a rule is broken: all breaches, one per line.
pub fn check_workspace() -> Result<()> {
    check(workspace::metadata()?)
}

/// Checks an answer of `cargo metadata`.
///
/// # Errors
/// As [`check_workspace`], or if it is no such answer.
pub fn check(metadata: Value) -> Result<()> {
    let breaches = Graph::read(metadata)?.breaches();
    if !breaches.is_empty() {
        bail!("the one-way order is broken\n{}", breaches.join("\n"));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// Nothing (normal), `dev` or `build`.
    kind: Option<String>,
}

/// One edge of the graph.
struct Edge {
    to: String,
    /// Only its tests need it, so whoever uses the crate does not get it.
    only_for_tests: bool,
}

struct Graph {
    id_to_name: BTreeMap<String, String>,
    id_to_edges: BTreeMap<String, Vec<Edge>>,
    members: Vec<String>,
}

impl Graph {
    fn read(metadata: Value) -> Result<Self> {
        let metadata: Metadata = serde_json::from_value(metadata).context("reading the answer of cargo metadata")?;
        let id_to_name = metadata
            .packages
            .into_iter()
            .map(|package| (package.id, package.name))
            .collect();
        let edges = |node: Node| {
            let edges = node.deps.into_iter().map(|dependency| Edge {
                only_for_tests: dependency
                    .dep_kinds
                    .iter()
                    .all(|kind| kind.kind.as_deref() == Some("dev")),
                to: dependency.pkg,
            });
            (node.id, edges.collect())
        };
        let id_to_edges = metadata.resolve.nodes.into_iter().map(edges).collect();
        Ok(Self {
            id_to_name,
            id_to_edges,
            members: metadata.workspace_members,
        })
    }

    fn breaches(&self) -> Vec<String> {
        let mut breaches = Vec::new();
        for member in self
            .members
            .iter()
            .filter(|member| !EXEMPT.contains(&self.name(member)))
        {
            self.check_floor(member, &mut breaches);
            self.check_reserved(member, &mut breaches);
            self.check_reach(member, &mut breaches);
        }
        breaches.sort();
        breaches
    }

    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.id_to_name.get(id).map_or(id, String::as_str)
    }

    fn edges(&self, id: &str) -> &[Edge] {
        self.id_to_edges.get(id).map_or(&[], Vec::as_slice)
    }

    fn check_floor(&self, member: &str, breaches: &mut Vec<String>) {
        let name = self.name(member);
        let Some(floor) = floor_of(name) else {
            breaches.push(format!("{name} has no floor: give it one in host/xtask/src/floors.rs"));
            return;
        };
        for edge in self.edges(member).iter().filter(|edge| self.members.contains(&edge.to)) {
            let used = self.name(&edge.to);
            let allowed = SIDEWAYS.iter().any(|(from, to, _)| (*from, *to) == (name, used));
            match floor_of(used) {
                Some(below) if below < floor || allowed => {}
                Some(other) => breaches.push(format!("{name} (floor {floor}) uses {used} (floor {other})")),
                None => breaches.push(format!("{name} (floor {floor}) uses {used}, which is for nobody's use")),
            }
        }
    }

    fn check_reserved(&self, member: &str, breaches: &mut Vec<String>) {
        let name = self.name(member);
        for (family, allowed) in RESERVED {
            for edge in self.edges(member) {
                let used = self.name(&edge.to);
                if family.holds(used) && !allowed.contains(&name) {
                    breaches.push(format!("{name} names {used}; only {} may", allowed.join(", ")));
                }
            }
        }
    }

    fn check_reach(&self, member: &str, breaches: &mut Vec<String>) {
        let name = self.name(member);
        for (_, families) in UNREACHABLE.iter().filter(|(from, _)| *from == name) {
            for family in *families {
                if let Some(way) = self.way_to(member, *family) {
                    breaches.push(format!("{name} reaches {}: {}", family.name(), way.join(" → ")));
                }
            }
        }
    }

    /// The shortest way from a crate to a library. Only the crate's own tests count, not those of what it uses.
    fn way_to<'a>(&'a self, from: &'a str, family: Family) -> Option<Vec<&'a str>> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([from]);
        while let Some(id) = queue.pop_front() {
            if id != from && family.holds(self.name(id)) {
                let mut way = vec![self.name(id)];
                let mut at = id;
                while let Some(previous) = came_from.get(at) {
                    way.push(self.name(previous));
                    at = previous;
                }
                way.reverse();
                return Some(way);
            }
            for edge in self.edges(id).iter().filter(|edge| id == from || !edge.only_for_tests) {
                if seen.insert(&edge.to) {
                    came_from.insert(&edge.to, id);
                    queue.push_back(&edge.to);
                }
            }
        }
        None
    }
}

fn floor_of(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A workspace of edges `from → to`; `kind` is that of cargo. Names that begin like ours are members.
    fn breaches(edges: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        let names: BTreeSet<&str> = edges.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        let is_member = |name: &&&str| name.starts_with("chandlery") || **name == "xtask";
        let nodes: Vec<_> = names
            .iter()
            .map(|name| {
                let deps: Vec<_> = edges
                    .iter()
                    .filter(|(from, ..)| from == name)
                    .map(|(_, to, kind)| json!({"pkg": format!("id {to}"), "dep_kinds": [{"kind": kind}]}))
                    .collect();
                json!({"id": format!("id {name}"), "deps": deps})
            })
            .collect();
        let metadata = json!({
            "packages": names.iter().map(|name| json!({"id": format!("id {name}"), "name": name})).collect::<Vec<_>>(),
            "workspace_members": names.iter().filter(is_member).map(|name| format!("id {name}")).collect::<Vec<_>>(),
            "resolve": {"nodes": nodes},
        });
        Graph::read(metadata).unwrap().breaches()
    }

    #[test]
    fn the_design_is_allowed() {
        let none: Vec<String> = Vec::new();
        assert_eq!(
            breaches(&[
                ("xtask", "chandlery-cli", None),
                ("chandlery-cli", "chandlery-daemon", None),
                ("chandlery-daemon", "chandlery", None),
                ("chandlery", "chandlery-runtime", None),
                ("chandlery", "chandlery-scope", None),
                ("chandlery-conformance", "chandlery-simulator", None),
                ("chandlery-runtime", "wasmtime", None),
                ("chandlery-scope", "kube", None),
                ("kube", "tokio", None),
                ("chandlery-engine", "tokio", None),
                ("chandlery-engine", "chandlery-core", None),
                ("chandlery-artifact", "wasmparser", None),
                ("chandlery-tests", "wasmtime", None),
                ("chandlery-tests", "xtask", None),
            ]),
            none
        );
    }

    #[test]
    fn no_floor_uses_one_above_or_beside_it_not_even_in_tests() {
        assert_eq!(
            breaches(&[("chandlery-core", "chandlery-engine", Some("dev"))]),
            ["chandlery-core (floor 1) uses chandlery-engine (floor 3)"]
        );
        assert_eq!(
            breaches(&[("chandlery-scope", "chandlery-runtime", Some("build"))]),
            ["chandlery-scope (floor 3) uses chandlery-runtime (floor 3)"]
        );
        assert_eq!(
            breaches(&[("chandlery-daemon", "chandlery-cli", None)]),
            ["chandlery-daemon (floor 6) uses chandlery-cli (floor 6)"]
        );
    }

    #[test]
    fn a_crate_without_a_floor_is_found_and_the_tests_are_for_nobodys_use() {
        let found = breaches(&[("chandlery-extra", "chandlery-core", None)]);
        assert!(
            found
                .iter()
                .any(|breach| breach.starts_with("chandlery-extra has no floor")),
            "{found:?}"
        );
        let found = breaches(&[("xtask", "chandlery-tests", None)]);
        assert_eq!(
            found,
            ["xtask (floor 7) uses chandlery-tests, which is for nobody's use"]
        );
    }

    #[test]
    fn only_some_name_wasmtime_and_kube() {
        let found = breaches(&[("chandlery-daemon", "wasmtime-wasi", None)]);
        assert_eq!(
            found,
            ["chandlery-daemon names wasmtime-wasi; only chandlery-runtime, chandlery-bindings may"]
        );
        let found = breaches(&[("chandlery-simulator", "kube-core", Some("dev"))]);
        assert!(
            found
                .iter()
                .any(|breach| breach.starts_with("chandlery-simulator names kube-core")),
            "{found:?}"
        );
        assert!(breaches(&[("chandlery-simulator", "kubernetes-names", None)]).is_empty());
        assert!(breaches(&[("chandlery-simulator", "kube-cel", None)]).is_empty());
    }

    #[test]
    fn what_must_not_be_reached_is_found_over_several_steps_and_the_way_is_shown() {
        let found = breaches(&[("chandlery-core", "a", None), ("a", "b", None), ("b", "tokio", None)]);
        assert_eq!(found, ["chandlery-core reaches tokio: chandlery-core → a → b → tokio"]);
        let found = breaches(&[
            ("chandlery-engine", "chandlery-core", Some("dev")),
            ("chandlery-core", "wasmtime", None),
        ]);
        assert!(
            found.contains(
                &"chandlery-engine reaches wasmtime: chandlery-engine → chandlery-core → wasmtime".to_owned()
            ),
            "{found:?}"
        );
        let found = breaches(&[("chandlery-core", "hyper", Some("dev"))]);
        assert_eq!(found, ["chandlery-core reaches hyper: chandlery-core → hyper"]);
    }

    #[test]
    fn the_tests_of_what_a_crate_uses_do_not_count() {
        let found = breaches(&[("chandlery-core", "library", None), ("library", "tokio", Some("dev"))]);
        assert!(found.is_empty(), "{found:?}");
    }
}
