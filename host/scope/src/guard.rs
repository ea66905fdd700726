//! The one choke point: no act of a plugin reaches the wire beside it. Checks the grant, writes the journal.

use std::time::Instant;

use chandlery_core::ObjectRef;
use chandlery_core::cluster::{CallError, Problem};
use chandlery_core::grant::{Act, Grant, Verb};
use chandlery_core::names::{FINALIZER, OWNER_ANNOTATION};
use chandlery_core::object::is_path_segment;
use serde_json::Value;
use tracing::{Span, field};

use crate::discovery::Served;

/// A target that was found, is well formed, and may be acted on.
pub(crate) struct Admitted {
    pub(crate) served: std::sync::Arc<Served>,
    pub(crate) target: ObjectRef,
    span: Span,
    started: Instant,
}

/// What the guard of one scope goes by.
pub(crate) struct Guard {
    /// The way to the cluster, for the journal.
    pub(crate) scope: String,
    pub(crate) grant: Grant,
    /// Secrets (`namespace/name`) that hold credentials of remotes: denied whatever the grant.
    pub(crate) sealed_secrets: Vec<(String, String)>,
}

fn invalid(path: &str, message: impl Into<String>) -> CallError {
    CallError::Invalid(vec![Problem {
        path: path.to_owned(),
        message: message.into(),
    }])
}

impl Guard {
    /// Checks that the target's form fits its kind, and that the grant covers the act. A namespace is demanded of a namespaced
    /// kind, and overlooked where the kind is cluster-scoped (`wit/types.wit` promises both).
    pub(crate) fn admit(
        &self,
        served: std::sync::Arc<Served>,
        target: &ObjectRef,
        verb: Verb,
        subresource: Option<&str>,
    ) -> Result<Admitted, CallError> {
        let mut target = target.clone();
        if !served.namespaced {
            // The API server overlooks it, and published manifests have it (a ClusterRole "in" kube-system).
            target.namespace = None;
        } else if target.namespace.is_none() {
            return Err(invalid(
                "/metadata/namespace",
                format!("{} lives in a namespace: give metadata.namespace", target.gvk.kind),
            ));
        }
        if !is_path_segment(&target.name) || target.namespace.as_deref().is_some_and(|n| !is_path_segment(n)) {
            return Err(invalid(
                "/metadata/name",
                format!("{target} has a name that no object has"),
            ));
        }
        self.check(&served, &target, verb, subresource)?;
        Ok(Admitted {
            served,
            span: span(&self.scope, verb, &target),
            target,
            started: Instant::now(),
        })
    }

    /// Checks one more verb on a target.
    pub(crate) fn check(
        &self,
        served: &Served,
        target: &ObjectRef,
        verb: Verb,
        subresource: Option<&str>,
    ) -> Result<(), CallError> {
        let act = Act {
            verb,
            group: served.gvk.group(),
            resource: &served.resource,
            subresource,
            namespaced: served.namespaced,
            namespace: target.namespace.as_deref(),
            name: Some(&target.name),
        };
        let sealed = act.group.is_empty()
            && act.resource == "secrets"
            && self
                .sealed_secrets
                .iter()
                .any(|(namespace, name)| Some(namespace.as_str()) == act.namespace && *name == target.name);
        if sealed {
            return Err(CallError::Denied(format!("{target} holds the credential of a remote")));
        }
        if self.grant.allows(&act) {
            Ok(())
        } else {
            Err(CallError::Denied(format!("the plugin's grant does not cover: {act}")))
        }
    }

    /// Checks what a document would do beyond its own content.
    pub(crate) fn check_document(
        &self,
        served: &Served,
        target: &ObjectRef,
        document: &Value,
    ) -> Result<(), CallError> {
        let Some(metadata) = document.get("metadata").and_then(Value::as_object) else {
            return Err(invalid("/metadata", "metadata is missing"));
        };
        if metadata.contains_key("managedFields") {
            return Err(invalid(
                "/metadata/managedFields",
                "managedFields are the cluster's own: leave them out",
            ));
        }
        if chandlery_core::object::annotation(document, OWNER_ANNOTATION).is_some() {
            return Err(invalid(
                "/metadata/annotations/chandlery.dev~1owner",
                "the owner mark is the host's own: leave it out",
            ));
        }
        let is_set = |name: &str| {
            metadata
                .get(name)
                .is_some_and(|value| !value.is_null() && *value != serde_json::json!([]))
        };
        if is_set("finalizers") || is_set("ownerReferences") {
            // As the API server's own OwnerReferencesPermissionEnforcement has it.
            self.check(served, target, Verb::Update, Some("finalizers"))?;
        }
        if chandlery_core::object::finalizers(document)
            .iter()
            .any(|f| f == FINALIZER)
        {
            return Err(invalid("/metadata/finalizers", "this finalizer is the host's own"));
        }
        Ok(())
    }

    /// Checks the operations of a JSON patch.
    pub(crate) fn check_patch(&self, served: &Served, target: &ObjectRef, patch: &Value) -> Result<(), CallError> {
        let Some(operations) = patch.as_array() else {
            return Err(invalid("", "a JSON patch is a list of operations"));
        };
        for (i, operation) in operations.iter().enumerate() {
            let text = |name: &str| operation.get(name).and_then(Value::as_str);
            let (Some(verb), Some(path)) = (text("op"), text("path")) else {
                return Err(invalid(
                    &format!("/{i}"),
                    "an operation has an `op` and a `path`, both texts",
                ));
            };
            // The API server drops what stands before the first slash, and would find a place that was not judged here.
            if [Some(path), text("from")]
                .into_iter()
                .flatten()
                .any(|place| !place.is_empty() && !place.starts_with('/'))
            {
                return Err(invalid(
                    &format!("/{i}/path"),
                    "a JSON pointer is empty or starts with '/'",
                ));
            }
            if verb == "test" {
                continue;
            }
            for place in [Some(path), text("from").filter(|_| verb == "move")]
                .into_iter()
                .flatten()
            {
                let place = place.trim_end_matches('/');
                let touches = |part: &str| place == part || place.starts_with(&format!("{part}/"));
                let whole = ["", "/metadata", "/metadata/annotations"].contains(&place);
                if whole || touches("/metadata/managedFields") || touches("/metadata/annotations/chandlery.dev~1owner")
                {
                    return Err(invalid(
                        &format!("/{i}/path"),
                        format!(
                            "\"{place}\" holds what is the host's or the cluster's own: patch what is below it, one by one"
                        ),
                    ));
                }
                if touches("/metadata/finalizers") || touches("/metadata/ownerReferences") {
                    self.check(served, target, Verb::Update, Some("finalizers"))?;
                }
            }
        }
        Ok(())
    }
}

impl Admitted {
    /// Writes what became of the act into the journal, and hands it on.
    pub(crate) fn record<T>(self, outcome: Result<T, CallError>) -> Result<T, CallError> {
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let result = outcome.as_ref().err().map_or("ok", CallError::reason);
        self.span.record("result", result).record("micros", micros);
        tracing::debug!(target: "chandlery::journal", parent: &self.span, "acted");
        outcome
    }
}

/// The journal's span of one act: who (the spans around it say), which verb, on what; what became of it is filled in later.
pub(crate) fn span(scope: &str, verb: Verb, object: &dyn std::fmt::Display) -> Span {
    tracing::debug_span!(target: "chandlery::journal", "act", scope, %verb, %object, result = field::Empty, micros = field::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chandlery_core::grant::GrantRule;
    use serde_json::json;

    fn guard(resources: &[&str]) -> Guard {
        let rule = GrantRule {
            api_groups: vec![String::new()],
            resources: resources.iter().map(ToString::to_string).collect(),
            verbs: vec!["*".into()],
            namespaces: None,
            names: None,
        };
        Guard {
            scope: "r".into(),
            grant: Grant::new(vec![rule]),
            sealed_secrets: vec![("a".into(), "kubeconfig".into())],
        }
    }

    fn served(resource: &str, kind: &str) -> Served {
        Served {
            gvk: ObjectRef::new("v1", kind, None, "x").gvk,
            resource: resource.into(),
            namespaced: true,
        }
    }

    #[test]
    fn a_secret_with_a_remotes_credential_is_denied_whatever_the_grant() {
        let guard = guard(&["secrets"]);
        let of = |name: &str| ObjectRef::new("v1", "Secret", Some("a"), name);
        assert!(matches!(
            guard.check(&served("secrets", "Secret"), &of("kubeconfig"), Verb::Get, None),
            Err(CallError::Denied(_))
        ));
        assert!(
            guard
                .check(&served("secrets", "Secret"), &of("other"), Verb::Get, None)
                .is_ok()
        );
    }

    #[test]
    fn finalizers_and_owner_references_need_a_grant_of_their_own() {
        let target = ObjectRef::new("v1", "ConfigMap", Some("a"), "b");
        let plain = served("configmaps", "ConfigMap");
        for field in [
            json!({"finalizers": ["x/y"]}),
            json!({"ownerReferences": [{"uid": "u"}]}),
        ] {
            assert!(matches!(
                guard(&["configmaps"]).check_document(&plain, &target, &json!({"metadata": field})),
                Err(CallError::Denied(_))
            ));
            assert!(
                guard(&["configmaps", "configmaps/finalizers"])
                    .check_document(&plain, &target, &json!({"metadata": field}))
                    .is_ok()
            );
        }
        for field in [
            json!({"managedFields": []}),
            json!({"annotations": {"chandlery.dev/owner": "x"}}),
            json!({"finalizers": ["chandlery.dev/teardown"]}),
        ] {
            assert!(
                guard(&["configmaps", "configmaps/finalizers"])
                    .check_document(&plain, &target, &json!({"metadata": field}))
                    .is_err(),
                "{field}"
            );
        }
    }

    #[test]
    fn a_patch_cannot_reach_the_owner_mark_by_any_way_round() {
        let (guard, served, target) = (
            guard(&["configmaps"]),
            served("configmaps", "ConfigMap"),
            ObjectRef::new("v1", "ConfigMap", Some("a"), "b"),
        );
        for path in [
            "",
            "/",
            "/metadata",
            "/metadata/annotations",
            "/metadata/annotations/chandlery.dev~1owner",
            "/metadata/managedFields/0",
            "/metadata/finalizers",
            "/metadata/ownerReferences/-",
            "x/metadata/finalizers",
            "x/metadata/annotations/chandlery.dev~1owner",
        ] {
            assert!(
                guard
                    .check_patch(&served, &target, &json!([{"op": "add", "path": path, "value": {}}]))
                    .is_err(),
                "{path}"
            );
        }
        assert!(
            guard
                .check_patch(
                    &served,
                    &target,
                    &json!([{"op": "move", "from": "/metadata/annotations", "path": "/data/x"}])
                )
                .is_err()
        );
        assert!(guard.check_patch(&served, &target, &json!([{"op": "test", "path": "/metadata/annotations", "value": {}}, {"op": "add", "path": "/data/x", "value": "y"}])).is_ok());
        assert!(guard.check_patch(&served, &target, &json!({})).is_err());
    }

    #[test]
    fn a_namespace_is_dropped_where_the_kind_has_no_use_for_it_and_demanded_where_it_has() {
        let guard = guard(&["nodes", "pods"]);
        let nodes = std::sync::Arc::new(Served {
            namespaced: false,
            ..served("nodes", "Node")
        });
        let node = ObjectRef::new("v1", "Node", Some("kube-system"), "n");
        let admitted = guard
            .admit(nodes, &node, Verb::Get, None)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(admitted.target.namespace, None);
        let pods = std::sync::Arc::new(served("pods", "Pod"));
        assert!(
            guard
                .admit(pods, &ObjectRef::new("v1", "Pod", None, "p"), Verb::Get, None)
                .is_err()
        );
    }
}
