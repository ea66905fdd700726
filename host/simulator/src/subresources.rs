//! Parts of objects with a path of their own, and resources that are only a question and its answer.

use chandlery_merge::{Managed, Scaled, Writer};
use http::StatusCode;
use serde_json::{Value, json};

use crate::access::{Attributes, User};
use crate::catalog::{Resource, Subresource};
use crate::object;
use crate::options::{Strictness, WriteOptions};
use crate::reply::{Answer, Reply};
use crate::request::Call;
use crate::status::{Cause, Failure};
use crate::tokens::AUDIENCE;
use crate::world::{Target, World};
use crate::write::{Change, Written};

/// The shortest life of a token, in seconds.
const SHORTEST: i64 = 600;

impl World {
    pub(crate) fn answer_subresource(
        &mut self,
        call: &Call,
        target: &Target,
        of: &Subresource,
        verb: &str,
    ) -> Result<Reply, Failure> {
        let is_namespace = target.resource.is("", "namespaces");
        let answer = match (of.name.as_str(), verb) {
            ("status", "get") => self.get(call, target),
            ("status", "update") => self.update(call, target, "status"),
            ("status", "patch") => self.patch(call, target, "status"),
            ("scale", _) => self.scale(call, target, verb),
            ("finalize", "update") if is_namespace => self.update(call, target, "finalize"),
            ("token", "create") if target.resource.is("", "serviceaccounts") => self.create_token(call, target),
            (name, _) => Err(Failure::not_simulated(&format!("{}/{name}", target.resource.plural))),
        }?;
        Ok(Reply::Answer(answer))
    }

    fn create_token(&mut self, call: &Call, target: &Target) -> Result<Answer, Failure> {
        WriteOptions::parse(call, "CreateOptions", false)?;
        let name = target.path.name.as_deref().unwrap_or_default();
        let request = crate::decode::read(call)?.value;
        let account = self
            .read("", "serviceaccounts", target.namespace(), name)
            .ok_or_else(|| target.not_found(name))?;
        let seconds = request
            .pointer("/spec/expirationSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(3_600);
        if seconds < SHORTEST {
            let cause = Cause::new(
                "FieldValueInvalid",
                "spec.expirationSeconds",
                format!("Invalid value: {seconds}: may not specify a duration less than 10 minutes"),
            );
            return Err(Failure::invalid(
                "TokenRequest",
                "authentication.k8s.io",
                "",
                vec![cause],
            ));
        }
        if request
            .pointer("/spec/boundObjectRef")
            .is_some_and(|reference| !reference.is_null())
        {
            return Err(Failure::not_simulated("tokens bound to an object"));
        }
        let audiences: Vec<String> = request
            .pointer("/spec/audiences")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|audience| audience.as_str().map(str::to_owned))
            .collect();
        let audiences = if audiences.is_empty() {
            vec![AUDIENCE.to_owned()]
        } else {
            audiences
        };
        let now = self.timestamp();
        let (token, expires) = self.issue(target.namespace(), &account, &audiences, seconds);
        let expires = jiff::Timestamp::from_second(expires)
            .map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
            .unwrap_or_default();
        let answer = json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": target.namespace(), "creationTimestamp": now},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null},
            "status": {"token": token, "expirationTimestamp": expires},
        });
        Ok(Answer::value(StatusCode::CREATED, &answer))
    }

    /// How many of something there are to be, and are.
    fn scale(&mut self, call: &Call, target: &Target, verb: &str) -> Result<Answer, Failure> {
        let name = target.path.name.as_deref().unwrap_or_default().to_owned();
        let version = target.version()?;
        let key = target.key(&name);
        let old = self
            .live(&key, &target.resource, version)
            .ok_or_else(|| target.not_found(&name))?;
        let paths = Paths::of(&target.resource, &version.name);
        let current = paths.scale(&old);
        if verb == "get" {
            if paths.is_custom && old.pointer(&Paths::pointer(&paths.spec)).is_none() {
                let why = format!("the spec replicas field \"{}\" does not exist", paths.spec);
                return Err(Failure::internal(&why));
            }
            return Ok(Answer::value(StatusCode::OK, &current));
        }
        let kind = if verb == "patch" {
            "PatchOptions"
        } else {
            "UpdateOptions"
        };
        let options = WriteOptions::parse(call, kind, false)?;
        let wanted = match (verb, call.media_type()) {
            ("update", _) => crate::decode::read(call)?.value,
            (_, "application/merge-patch+json" | "application/strategic-merge-patch+json") => {
                let patch = crate::json::parse(&call.body)
                    .map_err(|error| Failure::bad_request(error.to_string()))?
                    .value;
                chandlery_merge::patch::merge_patch(&current, &patch)
                    .map_err(|error| Failure::bad_request(error.to_string()))?
            }
            (_, "application/json-patch+json") => {
                let patch = crate::json::parse(&call.body)
                    .map_err(|error| Failure::bad_request(error.to_string()))?
                    .value;
                chandlery_merge::patch::json_patch(&current, &patch)
                    .map_err(|error| Failure::unprocessable(error.to_string()))?
            }
            (_, "application/apply-patch+yaml") => return Err(Failure::not_simulated("server-side apply to scale")),
            _ => return Err(Failure::unsupported_patch()),
        };
        let replicas = wanted
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        if replicas < 0 {
            return Err(negative_scale(&target.resource, &name, replicas));
        }
        let mut new = old.clone();
        let given = object::resource_version(&wanted).to_owned();
        if !given.is_empty() {
            object::set(&mut new, "resourceVersion", Some(given.into()));
        }
        paths.set_replicas(&mut new, replicas);
        let mut change = Change {
            target,
            version,
            subresource: "scale",
            options,
            manager: call.manager(),
        };
        let before = current.pointer("/spec/replicas").and_then(Value::as_i64);
        let happened = match (replicas, before.unwrap_or_default()) {
            (now, was) if now == was => Scaled::Kept,
            (0, _) => Scaled::Removed,
            _ => Scaled::Set,
        };
        let api_version = target.resource.api_version(&version.name);
        let time = self.timestamp();
        let writer = Writer {
            manager: &change.manager,
            api_version: &api_version,
            subresource: "scale",
            time: &time,
            reset_fields: None,
        };
        let path: Vec<&str> = paths.spec.trim_start_matches('.').split('.').collect();
        let parent = Managed::of_object(&old).unwrap_or_default();
        let managed = chandlery_merge::scale(&parent, &path, &writer, happened);
        managed.write_to(&mut new);
        let document = self.replace(&mut change, key, &old, new, &managed)?;
        Ok(Answer::value(StatusCode::OK, &paths.scale(&document)))
    }

    /// Questions: reviews of tokens and access. Nothing of them is kept.
    pub(crate) fn converse(&mut self, call: &Call, target: &Target, verb: &str) -> Result<Reply, Failure> {
        let resource = &target.resource;
        if verb != "create" {
            return Err(Failure::not_simulated(&format!(
                "{verb} of {}",
                crate::status::qualified(&resource.plural, &resource.group)
            )));
        }
        let version = target.version()?;
        let mut document = self.decode_body(call, resource, version, Strictness::Warn)?;
        let status = match resource.kind.as_str() {
            "TokenReview" => self.review_token(&document),
            "SubjectAccessReview" | "LocalSubjectAccessReview" => self.review_access(&user_of(&document), &document),
            "SelfSubjectAccessReview" => self.review_access(&call.user, &document),
            "SelfSubjectRulesReview" => self.review_rules(&call.user, &document),
            "SelfSubjectReview" => json!({"userInfo": user_info(&call.user)}),
            kind => return Err(Failure::not_simulated(&format!("create of {kind}"))),
        };
        object::set(&mut document, "creationTimestamp", None);
        object::map_mut(&mut document).insert("status".into(), status);
        self.written(
            call,
            target,
            Written {
                code: StatusCode::CREATED,
                document,
            },
        )
        .map(Reply::Answer)
    }

    fn review_token(&self, document: &Value) -> Value {
        let token = document
            .pointer("/spec/token")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let audiences: Vec<String> = document
            .pointer("/spec/audiences")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|audience| audience.as_str().map(str::to_owned))
            .collect();
        let audiences = if audiences.is_empty() {
            vec![AUDIENCE.to_owned()]
        } else {
            audiences
        };
        match self.authenticate_for(token, &audiences) {
            Some((user, shared)) => json!({"authenticated": true, "user": user_info(&user), "audiences": shared}),
            None => json!({"user": {}, "error": "[invalid bearer token, token lookup failed]"}),
        }
    }

    fn review_access(&self, user: &User, document: &Value) -> Value {
        let text = |pointer: &str| {
            document
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let attributes = if document
            .pointer("/spec/nonResourceAttributes")
            .is_some_and(Value::is_object)
        {
            Attributes {
                verb: text("/spec/nonResourceAttributes/verb"),
                path: text("/spec/nonResourceAttributes/path"),
                ..Attributes::default()
            }
        } else {
            let of = |name: &str| text(&format!("/spec/resourceAttributes/{name}"));
            Attributes {
                verb: of("verb"),
                group: of("group"),
                resource: of("resource"),
                subresource: of("subresource"),
                namespace: of("namespace"),
                name: of("name"),
                path: String::new(),
            }
        };
        match self.allowing_binding(user, &attributes) {
            Some(reason) if reason.is_empty() => json!({"allowed": true}),
            Some(reason) => json!({"allowed": true, "reason": reason}),
            None => json!({"allowed": false}),
        }
    }

    fn review_rules(&self, user: &User, document: &Value) -> Value {
        let namespace = document
            .pointer("/spec/namespace")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (resources, paths) = self.rules_for(user, namespace);
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
    }
}

fn user_of(document: &Value) -> User {
    let text = |pointer: &str| {
        document
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let groups = document
        .pointer("/spec/groups")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    User {
        name: text("/spec/user"),
        uid: text("/spec/uid"),
        groups: groups.filter_map(|group| group.as_str().map(str::to_owned)).collect(),
        extra: Vec::new(),
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    let map = object::map_mut(&mut info);
    if !user.uid.is_empty() {
        map.insert("uid".into(), user.uid.clone().into());
    }
    if !user.extra.is_empty() {
        let extra: serde_json::Map<String, Value> = user
            .extra
            .iter()
            .map(|(key, values)| (key.clone(), json!(values)))
            .collect();
        map.insert("extra".into(), extra.into());
    }
    info
}

/// Where a kind keeps what `scale` shows.
struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
    is_custom: bool,
}

impl Paths {
    fn of(resource: &Resource, version: &str) -> Self {
        let scale = resource.custom().and_then(|custom| custom.scale(version));
        match scale {
            Some(scale) => Self {
                spec: scale.spec.clone(),
                status: scale.status.clone(),
                selector: scale.selector.clone(),
                is_custom: true,
            },
            None => Self {
                spec: ".spec.replicas".into(),
                status: ".status.replicas".into(),
                selector: Some(".spec.selector".into()),
                is_custom: false,
            },
        }
    }

    fn pointer(path: &str) -> String {
        path.replace('.', "/")
    }

    fn scale(&self, document: &Value) -> Value {
        let number = |path: &str| {
            document
                .pointer(&Self::pointer(path))
                .and_then(Value::as_i64)
                .unwrap_or_default()
        };
        let mut status = json!({"replicas": number(&self.status)});
        if let Some(selector) = self
            .selector
            .as_deref()
            .and_then(|path| document.pointer(&Self::pointer(path)))
        {
            let text = if self.is_custom {
                selector.as_str().unwrap_or_default().to_owned()
            } else {
                selector_text(selector)
            };
            if !text.is_empty() {
                object::map_mut(&mut status).insert("selector".into(), text.into());
            }
        }
        let metadata: serde_json::Map<String, Value> =
            ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
                .iter()
                .filter_map(|key| {
                    object::metadata(document)
                        .get(*key)
                        .map(|value| ((*key).to_owned(), value.clone()))
                })
                .collect();
        let replicas = number(&self.spec);
        let spec = if replicas == 0 {
            json!({})
        } else {
            json!({"replicas": replicas})
        };
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
    }

    fn set_replicas(&self, document: &mut Value, replicas: i64) {
        let mut at = document;
        let mut steps = self.spec.trim_start_matches('.').split('.').peekable();
        while let Some(step) = steps.next() {
            let map = object::map_mut(at);
            if steps.peek().is_none() {
                map.insert(step.to_owned(), replicas.into());
                return;
            }
            at = map.entry(step.to_owned()).or_insert_with(|| json!({}));
        }
    }
}

/// A label selector in one line: labels sorted, then expressions.
fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        parts.push(
            match expression.get("operator").and_then(Value::as_str).unwrap_or_default() {
                "Exists" => key.to_owned(),
                "DoesNotExist" => format!("!{key}"),
                "In" => format!("{key} in ({})", values.join(",")),
                _ => format!("{key} notin ({})", values.join(",")),
            },
        );
    }
    parts.sort();
    parts.join(",")
}

fn negative_scale(resource: &Resource, name: &str, replicas: i64) -> Failure {
    let refuse = |kind: &str, group: &str, field: &str, why: &str| {
        let cause = Cause::new("FieldValueInvalid", field, format!("Invalid value: {replicas}: {why}"));
        Failure::invalid(kind, group, name, vec![cause])
    };
    if resource.custom().is_some() {
        refuse(
            &resource.kind,
            &resource.group,
            ".spec.replicas",
            "should be a non-negative integer",
        )
    } else {
        refuse(
            "Scale",
            "autoscaling",
            "spec.replicas",
            "must be greater than or equal to 0",
        )
    }
}
