//! Who may do what: users, and the roles in the store.

use serde_json::Value;

use crate::status::Failure;
use crate::store::Stored;
use crate::world::World;

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `system:serviceaccount:team-a:default`.
    pub name: String,
    /// The UID, if whoever vouches for the user knows one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known, by key.
    pub extra: Vec<(String, Vec<String>)>,
}

/// What is asked for, in the words of authorization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Set instead of all the above but the verb.
    pub(crate) path: String,
}

const MASTERS: &str = "system:masters";

impl User {
    /// May do everything, as the first administrator of a real cluster.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            name: "admin".to_owned(),
            groups: vec![MASTERS.to_owned(), "system:authenticated".to_owned()],
            ..Self::default()
        }
    }

    /// Nobody in particular.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// A ServiceAccount.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.to_owned(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            extra: Vec::new(),
        }
    }

    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }
}

impl Attributes {
    /// `pods/log`.
    fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    fn denial(&self, user: &User) -> Failure {
        if !self.path.is_empty() {
            return Failure::forbidden(
                "",
                "",
                "",
                &format!("User \"{}\" cannot {} path \"{}\"", user.name, self.verb, self.path),
            );
        }
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", self.namespace)
        };
        let why = format!(
            "User \"{}\" cannot {} resource \"{}\" in API group \"{}\" {place}",
            user.name,
            self.verb,
            self.full_resource(),
            self.group
        );
        Failure::forbidden(&self.resource, &self.group, &self.name, &why)
    }
}

impl World {
    /// # Errors
    /// If no role lets the user.
    pub(crate) fn authorize(&self, user: &User, attributes: &Attributes) -> Result<(), Failure> {
        if user.is_in(MASTERS) || self.allowing_binding(user, attributes).is_some() {
            return Ok(());
        }
        Err(attributes.denial(user))
    }

    /// Why the user may: the sentence of a review's `reason`.
    pub(crate) fn allowing_binding(&self, user: &User, attributes: &Attributes) -> Option<String> {
        if user.is_in(MASTERS) {
            return Some(String::new());
        }
        let cluster_wide = self.bindings(user, "clusterrolebindings", None);
        let in_namespace = (!attributes.namespace.is_empty() && attributes.path.is_empty())
            .then(|| self.bindings(user, "rolebindings", Some(&attributes.namespace)));
        cluster_wide
            .into_iter()
            .chain(in_namespace.into_iter().flatten())
            .find_map(|binding| {
                let subjects = binding.get("subjects").and_then(Value::as_array)?;
                let namespace = crate::object::namespace(&binding).to_owned();
                let subject = subjects.iter().find(|subject| names(subject, user, &namespace))?;
                let reference = binding.get("roleRef")?;
                let rules = self.rules_of(reference, &namespace)?;
                rules
                    .iter()
                    .any(|rule| allows(rule, attributes))
                    .then(|| reason(&binding, reference, subject, &namespace))
            })
    }

    /// The bindings that could name the user: only what has one of the user's names in its text is taken apart.
    fn bindings(&self, user: &User, plural: &str, namespace: Option<&str>) -> Vec<Value> {
        let own = user.name.rsplit(':').next().unwrap_or_default();
        let names: Vec<&str> = user.groups.iter().map(String::as_str).chain([own]).collect();
        let is_plain = |name: &&str| !name.contains(|letter: char| matches!(letter, '"' | '\\') || letter.is_control());
        let can_tell = names.iter().all(is_plain);
        let could_name = |stored: &Stored| {
            let text = std::str::from_utf8(&stored.body).unwrap_or_default();
            !can_tell || names.iter().any(|name| text.contains(name))
        };
        let Some(resource) = self.resource("rbac.authorization.k8s.io", plural) else {
            return Vec::new();
        };
        self.store
            .list(resource.id, namespace)
            .filter(|(_, stored)| could_name(stored))
            .map(|(_, stored)| Stored::document(stored))
            .collect()
    }

    fn rules_of(&self, reference: &Value, namespace: &str) -> Option<Vec<Value>> {
        let name = reference.get("name").and_then(Value::as_str)?;
        let (plural, namespace) = match reference.get("kind").and_then(Value::as_str)? {
            "ClusterRole" => ("clusterroles", ""),
            _ => ("roles", namespace),
        };
        let role = self.read("rbac.authorization.k8s.io", plural, namespace, name)?;
        role.get("rules").and_then(Value::as_array).cloned()
    }
}

fn names(subject: &Value, user: &User, binding_namespace: &str) -> bool {
    let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("kind") {
        "User" => text("name") == user.name,
        "Group" => user.is_in(text("name")),
        "ServiceAccount" => {
            let namespace = if text("namespace").is_empty() {
                binding_namespace
            } else {
                text("namespace")
            };
            user.name == format!("system:serviceaccount:{namespace}:{}", text("name"))
        }
        _ => false,
    }
}

fn allows(rule: &Value, attributes: &Attributes) -> bool {
    let list = |key: &str| {
        rule.get(key)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let has = |key: &str, wanted: &str| list(key).iter().any(|entry| entry == "*" || entry == wanted);
    if !has("verbs", &attributes.verb) {
        return false;
    }
    if !attributes.path.is_empty() {
        return list("nonResourceURLs").iter().filter_map(Value::as_str).any(|pattern| {
            match pattern.strip_suffix('*') {
                Some(prefix) => attributes.path.starts_with(prefix),
                None => attributes.path == pattern,
            }
        });
    }
    let resource = attributes.full_resource();
    let any_of_subresource = format!("*/{}", attributes.subresource);
    has("apiGroups", &attributes.group)
        && (has("resources", &resource)
            || !attributes.subresource.is_empty() && list("resources").iter().any(|entry| *entry == any_of_subresource))
        && (list("resourceNames").is_empty() || list("resourceNames").iter().any(|entry| *entry == attributes.name))
}

fn reason(binding: &Value, reference: &Value, subject: &Value, namespace: &str) -> String {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = crate::object::name(binding);
    let bound = if namespace.is_empty() {
        format!("ClusterRoleBinding \"{name}\"")
    } else {
        format!("RoleBinding \"{name}/{namespace}\"")
    };
    let whom = match text(subject, "kind").as_str() {
        "ServiceAccount" => format!(
            "ServiceAccount \"{}/{}\"",
            text(subject, "name"),
            text(subject, "namespace")
        ),
        kind => format!("{kind} \"{}\"", text(subject, "name")),
    };
    format!(
        "RBAC: allowed by {bound} of {} \"{}\" to {whom}",
        text(reference, "kind"),
        text(reference, "name")
    )
}

impl World {
    /// The rules that hold for a user in a namespace: on resources, and on paths.
    pub(crate) fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Value>, Vec<Value>) {
        let mut found = Vec::new();
        if user.is_in(MASTERS) {
            found.push(serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
            found.push(serde_json::json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
        }
        let bindings = self
            .bindings(user, "clusterrolebindings", None)
            .into_iter()
            .chain(self.bindings(user, "rolebindings", Some(namespace)));
        for binding in bindings {
            let of = crate::object::namespace(&binding).to_owned();
            let subjects = binding
                .get("subjects")
                .and_then(Value::as_array)
                .map(Vec::as_slice)
                .unwrap_or_default();
            if subjects.iter().any(|subject| names(subject, user, &of)) {
                let rules = binding
                    .get("roleRef")
                    .and_then(|reference| self.rules_of(reference, &of));
                found.extend(rules.unwrap_or_default());
            }
        }
        found
            .into_iter()
            .partition(|rule| rule.get("nonResourceURLs").is_none())
    }
}
