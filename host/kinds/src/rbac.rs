//! Roles and bindings. What a writer must be allowed himself before he may allow it to others is not judged here.

use serde_json::Value;

use crate::document::{at, default, elements_mut, list, member_mut, text};
use crate::fault::{Fault, FaultKind, quoted};
use crate::kind::{Cell, Kind};
use crate::strategy::{NameRule, Strategy};
use crate::{meta, names, selector, table};

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLE: &str = "Role";
const CLUSTER_ROLE: &str = "ClusterRole";

const fn strategy(kind: &'static str) -> Strategy {
    Strategy::new(GROUP, kind)
        .unconditional()
        .creates_on_update()
        .named(NameRule::PathSegment)
}

/// What is said of the metadata of an update beside what is said of all updates.
fn metadata(object: &Value, namespaced: bool) -> Vec<Fault> {
    meta::validate_again(object, namespaced, &|name, _| names::path_segment(name, false))
}

/// Role, and ClusterRole which also reaches beyond namespaces.
pub(crate) struct Roles {
    strategy: Strategy,
    namespaced: bool,
}

/// Role.
pub(crate) static ROLES: Roles = Roles {
    strategy: strategy(ROLE),
    namespaced: true,
};
/// ClusterRole.
pub(crate) static CLUSTER_ROLES: Roles = Roles {
    strategy: strategy(CLUSTER_ROLE),
    namespaced: false,
};

fn validate_rule(rule: &Value, namespaced: bool, field: &str) -> Vec<Fault> {
    let count = |name: &str| list(rule, name).len();
    let mut faults = Vec::new();
    if count("verbs") == 0 {
        faults.push(Fault::required(
            format!("{field}.verbs"),
            "verbs must contain at least one value",
        ));
    }
    if count("nonResourceURLs") > 0 {
        let urls = at(rule, &["nonResourceURLs"]);
        let field = format!("{field}.nonResourceURLs");
        if namespaced {
            faults.push(Fault::invalid(
                field.as_str(),
                urls,
                "namespaced rules cannot apply to non-resource URLs",
            ));
        }
        if count("apiGroups") + count("resources") + count("resourceNames") > 0 {
            faults.push(Fault::invalid(
                field,
                urls,
                "rules cannot apply to both regular resources and non-resource URLs",
            ));
        }
        return faults;
    }
    if count("apiGroups") == 0 {
        faults.push(Fault::required(
            format!("{field}.apiGroups"),
            "resource rules must supply at least one api group",
        ));
    }
    if count("resources") == 0 {
        faults.push(Fault::required(
            format!("{field}.resources"),
            "resource rules must supply at least one resource",
        ));
    }
    faults
}

impl Roles {
    fn faults(&self, object: &Value) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (index, rule) in list(object, "rules").enumerate() {
            faults.extend(validate_rule(rule, self.namespaced, &format!("rules[{index}]")));
        }
        let aggregation = at(object, &["aggregationRule"]);
        if aggregation.is_null() {
            return faults;
        }
        const SELECTORS: &str = "aggregationRule.clusterRoleSelectors";
        if list(aggregation, "clusterRoleSelectors").len() == 0 {
            faults.push(Fault::required(
                SELECTORS,
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ));
        }
        for (index, value) in list(aggregation, "clusterRoleSelectors").enumerate() {
            let field = format!("{SELECTORS}[{index}]");
            let wrong = selector::validate(value, &field);
            let is_wrong = !wrong.is_empty();
            faults.extend(wrong);
            if is_wrong {
                faults.push(Fault::shown_as(
                    FaultKind::Invalid,
                    field,
                    "null",
                    "invalid label selector.",
                ));
            }
        }
        faults
    }
}

impl Kind for Roles {
    fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name, false)
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(self.faults(object));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = Vec::new();
        for _ in 0..2 {
            faults.extend(metadata(new, self.namespaced));
            faults.extend(self.faults(new));
        }
        faults.extend(meta::validate_change_again(new, old));
        faults
    }
}

/// RoleBinding, and ClusterRoleBinding which binds in all namespaces.
pub(crate) struct Bindings {
    strategy: Strategy,
    namespaced: bool,
}

/// RoleBinding.
pub(crate) static ROLE_BINDINGS: Bindings = Bindings {
    strategy: strategy("RoleBinding"),
    namespaced: true,
};
/// ClusterRoleBinding.
pub(crate) static CLUSTER_ROLE_BINDINGS: Bindings = Bindings {
    strategy: strategy("ClusterRoleBinding"),
    namespaced: false,
};

fn validate_subject(subject: &Value, namespaced: bool, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let (name, kind, group) = (text(subject, "name"), text(subject, "kind"), text(subject, "apiGroup"));
    if name.is_empty() {
        faults.push(Fault::required(format!("{field}.name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                faults.extend(Fault::each(
                    &format!("{field}.name"),
                    name,
                    names::subdomain(name, false),
                ));
            }
            if !group.is_empty() {
                faults.push(Fault::not_supported(format!("{field}.apiGroup"), &group.into(), &[""]));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                faults.push(Fault::required(format!("{field}.namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => {
            faults.push(Fault::not_supported(
                format!("{field}.apiGroup"),
                &group.into(),
                &[GROUP],
            ));
        }
        "User" | "Group" => {}
        _ => faults.push(Fault::not_supported(
            format!("{field}.kind"),
            &kind.into(),
            &["ServiceAccount", "User", "Group"],
        )),
    }
    faults
}

impl Bindings {
    fn faults(&self, object: &Value) -> Vec<Fault> {
        let reference = at(object, &["roleRef"]);
        let mut faults = Vec::new();
        let (group, kind, name) = (
            text(reference, "apiGroup"),
            text(reference, "kind"),
            text(reference, "name"),
        );
        if group != GROUP {
            faults.push(Fault::not_supported("roleRef.apiGroup", &group.into(), &[GROUP]));
        }
        let kinds: &[&str] = if self.namespaced {
            &[ROLE, CLUSTER_ROLE]
        } else {
            &[CLUSTER_ROLE]
        };
        if !kinds.contains(&kind) {
            faults.push(Fault::not_supported("roleRef.kind", &kind.into(), kinds));
        }
        if name.is_empty() {
            faults.push(Fault::required("roleRef.name", ""));
        } else {
            faults.extend(Fault::each("roleRef.name", name, names::path_segment(name, false)));
        }
        for (index, subject) in list(object, "subjects").enumerate() {
            faults.extend(validate_subject(
                subject,
                self.namespaced,
                &format!("subjects[{index}]"),
            ));
        }
        faults
    }
}

impl Kind for Bindings {
    fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    fn default(&self, object: &mut Value) {
        default(member_mut(object, "roleRef"), "apiGroup", GROUP);
        for subject in elements_mut(object, "subjects") {
            if matches!(text(subject, "kind"), "User" | "Group") {
                default(subject, "apiGroup", GROUP);
            }
        }
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name, false)
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(self.faults(object));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = Vec::new();
        for _ in 0..2 {
            faults.extend(metadata(new, self.namespaced));
            faults.extend(self.faults(new));
        }
        faults.extend(meta::validate_change_again(new, old));
        if new.get("roleRef") != old.get("roleRef") {
            let reference = at(new, &["roleRef"]);
            // The server shows its inner type, whose fields have no JSON names.
            let shown = format!(
                "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
                quoted(text(reference, "apiGroup")),
                quoted(text(reference, "kind")),
                quoted(text(reference, "name"))
            );
            faults.push(Fault::shown_as(
                FaultKind::Invalid,
                "roleRef",
                &shown,
                "cannot change roleRef",
            ));
        }
        faults
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Cell> {
        let reference = at(object, &["roleRef"]);
        let subjects = |kind: &str| {
            let shown: Vec<String> = list(object, "subjects")
                .filter(|subject| text(subject, "kind") == kind)
                .map(|subject| match kind {
                    "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
                    _ => text(subject, "name").to_owned(),
                })
                .collect();
            Cell::from(shown.join(", "))
        };
        vec![
            table::name(object),
            format!("{}/{}", text(reference, "kind"), text(reference, "name")).into(),
            table::created(object, now),
            subjects("User"),
            subjects("Group"),
            subjects("ServiceAccount"),
        ]
    }
}
