//! What a plugin may do in a scope, evaluated completely: cluster, group, resource, subresource, verb, namespace, name.
//!
//! The evaluation is a pure function of a grant and an act, so that it can be compared with an independent one. The host
//! calls it at one choke point, after discovery has told which resource a kind is and whether it is namespaced.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Verbs of the Kubernetes API that an act on the handle can come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Make an object.
    Create,
    /// Change an object; server-side apply is a patch.
    Patch,
    /// Only on `RESOURCE/finalizers`: set finalizers or blocking owner references.
    Update,
    /// Delete an object.
    Delete,
}

impl Verb {
    /// As RBAC spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Create => "create",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Delete => "delete",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One rule of a grant. An act is allowed if one rule covers all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantRule {
    /// API groups; `""` is the core group, `*` is every group.
    #[schemars(length(min = 1, max = 64))]
    pub api_groups: Vec<String>,
    /// Plural resource names, `RESOURCE/SUBRESOURCE` for a subresource. `*` is every namespaced resource that is not
    /// escalating; cluster-scoped resources, subresources and escalating resources must be named.
    #[schemars(length(min = 1, max = 128))]
    pub resources: Vec<String>,
    /// `get` (to be told of changes, too), `list`, `create`, `patch`, `update`, `delete`, or `*` for all.
    #[schemars(length(min = 1, max = 16))]
    pub verbs: Vec<String>,
    /// Namespaces in which the rule holds; all when absent. Has no meaning for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub namespaces: Option<Vec<String>>,
    /// Object names for which the rule holds; all when absent. A rule with names covers no list that names no object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub names: Option<Vec<String>>,
}

/// One act, as it would go over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act<'a> {
    /// What is done.
    pub verb: Verb,
    /// API group.
    pub group: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
    /// Subresource, if any.
    pub subresource: Option<&'a str>,
    /// Whether the resource is namespaced, as discovery told.
    pub namespaced: bool,
    /// Namespace; absent for cluster-scoped resources and for lists over all namespaces.
    pub namespace: Option<&'a str>,
    /// Object name; absent for lists.
    pub name: Option<&'a str>,
}

impl fmt::Display for Act<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match (self.namespace, self.name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (Some(namespace), None) => write!(f, " in namespace {namespace}"),
            (None, Some(name)) => write!(f, " {name}"),
            (None, None) if self.namespaced => f.write_str(" in all namespaces"),
            (None, None) => Ok(()),
        }
    }
}

/// Whether writing objects of this resource can widen what somebody may do. Such resources are never covered by `*`.
pub fn is_escalating(group: &str, resource: &str) -> bool {
    matches!(
        (group, resource),
        (
            "rbac.authorization.k8s.io"
                | "admissionregistration.k8s.io"
                | "certificates.k8s.io"
                | "apiregistration.k8s.io",
            _
        ) | ("apiextensions.k8s.io", "customresourcedefinitions")
            | ("", "secrets" | "serviceaccounts" | "nodes" | "persistentvolumes")
            | (crate::names::GROUP, _)
    ) || matches!(resource, "users" | "groups" | "uids")
}

/// The rules of one scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    rules: Vec<GrantRule>,
    /// Said by no rule, so that nobody who writes rules can say it.
    everything: bool,
}

impl Grant {
    /// A grant of these rules: an act is allowed if one of them covers all of it.
    pub fn new(rules: Vec<GrantRule>) -> Self {
        Self {
            rules,
            everything: false,
        }
    }

    /// Everything, escalating and cluster-scoped resources included. For the host's own acts, never for a tenant's plugin.
    pub fn everything() -> Self {
        Self {
            rules: Vec::new(),
            everything: true,
        }
    }

    /// Whether one rule covers all of the act.
    pub fn allows(&self, act: &Act<'_>) -> bool {
        self.everything || self.rules.iter().any(|rule| rule.covers(act))
    }

    /// Whether some object of the resource might be allowed: what a list over all namespaces is filtered from.
    pub fn namespaces_for(&self, act: &Act<'_>) -> Namespaces {
        if self.everything {
            return Namespaces::All;
        }
        let mut named = std::collections::BTreeSet::new();
        for rule in &self.rules {
            let anywhere = GrantRule {
                namespaces: None,
                ..rule.clone()
            };
            if anywhere.covers(act) {
                match &rule.namespaces {
                    None => return Namespaces::All,
                    Some(list) => named.extend(list.iter().cloned()),
                }
            }
        }
        Namespaces::Only(named.into_iter().collect())
    }
}

/// Where a list over all namespaces may look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// Everywhere.
    All,
    /// Only here; perhaps nowhere.
    Only(Vec<String>),
}

impl GrantRule {
    fn covers(&self, act: &Act<'_>) -> bool {
        self.covers_group(act) && self.covers_resource(act) && self.covers_verb(act) && self.covers_place(act)
    }

    fn covers_group(&self, act: &Act<'_>) -> bool {
        self.api_groups.iter().any(|group| group == act.group || group == "*")
    }

    fn covers_resource(&self, act: &Act<'_>) -> bool {
        self.resources.iter().any(|resource| {
            match (resource.split_once('/'), act.subresource) {
                // A wildcard never reaches what is cluster-scoped, escalating or a subresource.
                (None, None) if resource == "*" => act.namespaced && !is_escalating(act.group, act.resource),
                (None, None) => resource == act.resource,
                (Some((resource, subresource)), Some(wanted)) => resource == act.resource && subresource == wanted,
                _ => false,
            }
        })
    }

    fn covers_verb(&self, act: &Act<'_>) -> bool {
        self.verbs.iter().any(|verb| verb == act.verb.as_str() || verb == "*")
    }

    fn covers_place(&self, act: &Act<'_>) -> bool {
        let namespace = match (&self.namespaces, act.namespaced, act.namespace) {
            (None, _, _) => true,
            // A rule bound to namespaces says nothing of what has none.
            (Some(_), false, _) => false,
            (Some(list), true, Some(namespace)) => list.iter().any(|n| n == namespace),
            (Some(_), true, None) => false,
        };
        let name = match (&self.names, act.name) {
            (None, _) => true,
            (Some(list), Some(name)) => list.iter().any(|n| n == name),
            (Some(_), None) => false,
        };
        namespace && name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> GrantRule {
        let own = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        GrantRule {
            api_groups: own(groups),
            resources: own(resources),
            verbs: own(verbs),
            namespaces: None,
            names: None,
        }
    }

    fn act<'a>(
        verb: Verb,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
        name: Option<&'a str>,
    ) -> Act<'a> {
        let namespaced = !matches!(
            resource,
            "namespaces" | "customresourcedefinitions" | "clusterroles" | "nodes"
        );
        Act {
            verb,
            group,
            resource,
            subresource: None,
            namespaced,
            namespace,
            name,
        }
    }

    #[test]
    fn a_wildcard_covers_neither_cluster_scoped_nor_escalating_resources_nor_subresources() {
        let grant = Grant::new(vec![rule(&["*"], &["*"], &["*"])]);
        assert!(grant.allows(&act(Verb::Patch, "", "configmaps", Some("a"), Some("b"))));
        assert!(!grant.allows(&act(Verb::Patch, "", "namespaces", None, Some("b"))));
        assert!(!grant.allows(&act(Verb::Get, "", "secrets", Some("a"), Some("b"))));
        assert!(!grant.allows(&act(
            Verb::Patch,
            "rbac.authorization.k8s.io",
            "roles",
            Some("a"),
            Some("b")
        )));
        let exec = Act {
            subresource: Some("exec"),
            ..act(Verb::Create, "", "pods", Some("a"), Some("b"))
        };
        assert!(!grant.allows(&exec));
        assert!(Grant::everything().allows(&exec));
    }

    #[test]
    fn naming_a_resource_covers_it_but_not_its_subresources() {
        let grant = Grant::new(vec![rule(&[""], &["namespaces", "pods", "pods/status"], &["patch"])]);
        assert!(grant.allows(&act(Verb::Patch, "", "namespaces", None, Some("a"))));
        let status = Act {
            subresource: Some("status"),
            ..act(Verb::Patch, "", "pods", Some("a"), Some("b"))
        };
        assert!(grant.allows(&status));
        assert!(!grant.allows(&Act {
            subresource: Some("exec"),
            ..status.clone()
        }));
        assert!(!grant.allows(&Act {
            verb: Verb::Delete,
            ..status
        }));
        assert!(!grant.allows(&act(Verb::Patch, "apps", "namespaces", None, Some("a"))));
    }

    #[test]
    fn namespaces_and_names_narrow() {
        let narrow = GrantRule {
            namespaces: Some(vec!["a".into()]),
            names: Some(vec!["x".into()]),
            ..rule(&[""], &["configmaps"], &["*"])
        };
        let grant = Grant::new(vec![narrow]);
        assert!(grant.allows(&act(Verb::Get, "", "configmaps", Some("a"), Some("x"))));
        assert!(!grant.allows(&act(Verb::Get, "", "configmaps", Some("b"), Some("x"))));
        assert!(!grant.allows(&act(Verb::Get, "", "configmaps", Some("a"), Some("y"))));
        assert!(!grant.allows(&act(Verb::List, "", "configmaps", Some("a"), None)));
        assert!(!grant.allows(&act(Verb::List, "", "configmaps", None, None)));
    }

    #[test]
    fn one_rule_must_cover_all_of_an_act() {
        let grant = Grant::new(vec![
            rule(&[""], &["configmaps"], &["get"]),
            rule(&["apps"], &["deployments"], &["delete"]),
        ]);
        assert!(!grant.allows(&act(Verb::Delete, "", "configmaps", Some("a"), Some("x"))));
        assert!(!grant.allows(&act(Verb::Get, "apps", "deployments", Some("a"), Some("x"))));
    }

    #[test]
    fn a_list_over_all_namespaces_is_told_where_it_may_look() {
        let in_a = GrantRule {
            namespaces: Some(vec!["a".into()]),
            ..rule(&[""], &["configmaps"], &["list"])
        };
        let list = act(Verb::List, "", "configmaps", None, None);
        assert_eq!(
            Grant::new(vec![in_a.clone()]).namespaces_for(&list),
            Namespaces::Only(vec!["a".into()])
        );
        assert_eq!(
            Grant::new(vec![in_a, rule(&["*"], &["*"], &["list"])]).namespaces_for(&list),
            Namespaces::All
        );
        assert_eq!(Grant::default().namespaces_for(&list), Namespaces::Only(vec![]));
    }
}
