//! Get and list: of now, of an earlier version, page by page.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::catalog::Resource;
use crate::form::{self, Form};
use crate::object;
use crate::reply::Answer;
use crate::request::Call;
use crate::selector::Selection;
use crate::status::{Cause, Failure};
use crate::store::{Key, Stored};
use crate::world::{Target, World};

/// Which version of the collection a list wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Now,
    Exactly(u64),
}

/// Where a page begins.
struct Continuation {
    version: Option<u64>,
    start: String,
}

impl World {
    pub(crate) fn get(&self, call: &Call, target: &Target) -> Result<Answer, Failure> {
        let name = target.path.name.as_deref().unwrap_or_default();
        let form = Form::negotiate(call, true)?;
        self.check_not_future(parse_version(call.query.text("resourceVersion"))?)?;
        let stored = self
            .store
            .get(&target.key(name))
            .ok_or_else(|| target.not_found(name))?;
        if form == Form::Json {
            return Ok(Answer::json(StatusCode::OK, self.stored_body(target, stored)));
        }
        let document = self.seen_document(&target.resource, &target.path.version, stored);
        self.object_answer(call, target, StatusCode::OK, &document)
    }

    fn check_not_future(&self, version: Option<u64>) -> Result<(), Failure> {
        match version {
            Some(version) if version > self.store.version() => {
                Err(Failure::version_too_large(version, self.store.version()))
            }
            _ => Ok(()),
        }
    }

    /// The selection of a request and the keys it has to look at.
    pub(crate) fn selected(&self, call: &Call, target: &Target) -> Result<(Selection, Vec<Key>), Failure> {
        let selection = self.selection(call, target)?;
        let namespace = target.path.namespace.as_deref().filter(|_| target.resource.namespaced);
        let keys = self
            .store
            .list(target.resource.id, namespace)
            .map(|(key, _)| key.clone())
            .collect();
        Ok((selection, keys))
    }

    pub(crate) fn selection(&self, call: &Call, target: &Target) -> Result<Selection, Failure> {
        let mut known = vec!["metadata.name", "metadata.namespace"];
        if let Some(kind) = target.resource.built_in_kind() {
            known.extend(kind.selectors());
        }
        let custom: Vec<String> = target
            .resource
            .custom()
            .map(|custom| custom.selectable_fields(&target.path.version))
            .unwrap_or_default();
        known.extend(custom.iter().map(String::as_str));
        let mut selection = Selection::parse(
            call.query.text("labelSelector"),
            call.query.text("fieldSelector"),
            &known,
            target.resource.custom().is_some(),
        )?;
        if let Some(name) = target.path.name.as_deref() {
            selection.narrow_to(name);
        }
        Ok(selection)
    }

    /// Whether a selection shows an object.
    pub(crate) fn shows(&self, resource: &Resource, selection: &Selection, key: &Key, stored: &Stored) -> bool {
        if selection.is_empty() {
            return true;
        }
        let own: Vec<(String, String)> = if selection.has_fields() {
            own_fields(resource, stored)
        } else {
            Vec::new()
        };
        selection.shows(stored, |name| match name {
            "metadata.name" => key.name.to_string(),
            "metadata.namespace" => key.namespace.to_string(),
            name => own
                .iter()
                .find(|(field, _)| field == name)
                .map(|(_, value)| value.clone())
                .unwrap_or_default(),
        })
    }

    pub(crate) fn list(&self, call: &Call, target: &Target) -> Result<Answer, Failure> {
        let form = Form::negotiate(call, true)?;
        call.query.number("timeoutSeconds")?;
        let selection = self.selection(call, target)?;
        if call
            .query
            .text("sendInitialEvents")
            .is_some_and(|value| !value.is_empty())
        {
            let cause = Cause::new(
                "FieldValueForbidden",
                "sendInitialEvents",
                "Forbidden: sendInitialEvents is forbidden for list",
            );
            return Err(Failure::invalid("ListOptions", "meta.k8s.io", "", vec![cause]));
        }
        let limit = call
            .query
            .number("limit")?
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or_default();
        let continuation = call
            .query
            .text("continue")
            .filter(|token| !token.is_empty())
            .map(Continuation::parse)
            .transpose()?;
        let at = self.list_version(call, continuation.as_ref())?;
        let resource = &target.resource;
        let namespace = target.path.namespace.as_deref().filter(|_| resource.namespaced);
        let (version, objects) = match at {
            At::Now => (self.store.version(), None),
            At::Exactly(version) => {
                let then = self.store.list_at(version, resource.id, namespace);
                (version, Some(then.ok_or_else(|| expired(continuation.as_ref()))?))
            }
        };
        let start = continuation.map(|continuation| continuation.start).unwrap_or_default();
        let mut page = Page {
            limit,
            shown: Vec::new(),
            remaining: 0,
            last: None,
        };
        let consider = |page: &mut Page, key: &Key, stored: &Arc<Stored>| {
            if !start.is_empty() && path_of(key, namespace) < start || !self.shows(resource, &selection, key, stored) {
                return;
            }
            page.take(key, stored);
        };
        match &objects {
            None => match selection
                .only_name()
                .zip(namespace.or((!resource.namespaced).then_some("")))
            {
                // One name in one namespace needs no look at the others.
                Some((name, namespace)) => {
                    let key = Key {
                        resource: resource.id,
                        namespace: namespace.into(),
                        name: SmolStr::new(name),
                    };
                    if let Some(stored) = self.store.get(&key) {
                        consider(&mut page, &key, stored);
                    }
                }
                None => self
                    .store
                    .list(resource.id, namespace)
                    .for_each(|(key, stored)| consider(&mut page, key, stored)),
            },
            Some(objects) => objects
                .iter()
                .for_each(|(key, stored)| consider(&mut page, key, stored)),
        }
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if resource.custom().is_some() {
            // Lists of custom resources say that there is no more.
            object::map_mut(&mut metadata).insert("continue".into(), "".into());
        }
        if let (true, Some(last)) = (page.remaining > 0, &page.last) {
            let token = Continuation {
                version: Some(version),
                start: format!("{}\0", path_of(last, namespace)),
            };
            object::map_mut(&mut metadata).insert("continue".into(), token.encode().into());
            if selection.is_empty() {
                object::map_mut(&mut metadata).insert("remainingItemCount".into(), page.remaining.into());
            }
        }
        Ok(self.list_answer(target, &form, &metadata, &page.shown))
    }

    fn list_answer(&self, target: &Target, form: &Form, metadata: &Value, shown: &[Arc<Stored>]) -> Answer {
        let resource = &target.resource;
        let version = target.path.version.as_str();
        let api_version = resource.api_version(version);
        match form {
            Form::Json => {
                let mut body =
                    Vec::with_capacity(256 + shown.iter().map(|stored| stored.body.len() + 64).sum::<usize>());
                body.extend_from_slice(
                    format!(
                        "{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[",
                        resource.list_kind
                    )
                    .as_bytes(),
                );
                for (position, stored) in shown.iter().enumerate() {
                    if position > 0 {
                        body.push(b',');
                    }
                    let seen = self.seen(resource, version, stored);
                    if resource.custom().is_some() {
                        object::write_with_type(&mut body, &seen, &api_version, &resource.kind);
                    } else {
                        // Items of a typed list say no type.
                        body.extend_from_slice(&seen);
                    }
                }
                body.extend_from_slice(b"]}");
                Answer::json(StatusCode::OK, body)
            }
            Form::Yaml => {
                let items: Vec<Value> = shown
                    .iter()
                    .map(|stored| self.seen_document(resource, version, stored))
                    .collect();
                form::yaml(
                    StatusCode::OK,
                    &json!({"kind": resource.list_kind.as_str(), "apiVersion": api_version, "metadata": metadata, "items": items}),
                )
            }
            Form::Table { include } => {
                let mut table = self.table_head(resource, version);
                let rows = shown.iter().map(|stored| {
                    self.table_row(
                        resource,
                        version,
                        &self.seen_document(resource, version, stored),
                        *include,
                    )
                });
                let rows: Vec<Value> = rows.collect();
                // A kind without printer of its own has no list of rows before it has a row.
                let columns = resource.built_in_kind().and_then(|kind| kind.columns());
                let is_plain = columns.is_none_or(|all| all.iter().any(|column| column.name == "Created At"));
                let has_printer = resource.custom().is_some() || !is_plain;
                let rows = (has_printer || !rows.is_empty()).then_some(rows);
                let map = object::map_mut(&mut table);
                let mut metadata = metadata.clone();
                if metadata.get("continue").is_some_and(|token| token == "") {
                    object::map_mut(&mut metadata).remove("continue");
                }
                map.insert("metadata".into(), metadata);
                map.insert("rows".into(), json!(rows));
                Answer::value(StatusCode::OK, &table)
            }
            Form::Metadata => {
                let items: Vec<Value> = shown.iter().map(|stored| form::partial(&stored.document())).collect();
                Answer::value(
                    StatusCode::OK,
                    &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items}),
                )
            }
        }
    }

    fn list_version(&self, call: &Call, continuation: Option<&Continuation>) -> Result<At, Failure> {
        let text = call.query.text("resourceVersion").unwrap_or_default();
        let how = call.query.text("resourceVersionMatch").unwrap_or_default();
        judge_match(text, how, continuation.is_some())?;
        let wanted = parse_version(Some(text))?;
        if let Some(continuation) = continuation {
            if wanted.is_some_and(|wanted| wanted != 0) {
                return Err(Failure::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            return Ok(continuation.version.map_or(At::Now, At::Exactly));
        }
        self.check_not_future(wanted)?;
        let limited = call.query.number("limit")?.unwrap_or_default() > 0;
        Ok(match (wanted, how) {
            (Some(version), "Exact") => At::Exactly(version),
            // Without a word about it, pages are cut from just the version that is asked for.
            (Some(version), "") if limited && version > 0 => At::Exactly(version),
            _ => At::Now,
        })
    }
}

/// What was asked for is forgotten.
fn expired(continuation: Option<&Continuation>) -> Failure {
    match continuation {
        Some(continuation) => {
            let mut failure = Failure::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            );
            let token = Continuation {
                version: None,
                start: continuation.start.clone(),
            };
            failure.continuation = Some(token.encode());
            failure
        }
        None => Failure::expired("The resourceVersion for the provided list is too old."),
    }
}

/// The part of a list that is shown.
struct Page {
    limit: usize,
    shown: Vec<Arc<Stored>>,
    remaining: usize,
    last: Option<Key>,
}

impl Page {
    fn take(&mut self, key: &Key, stored: &Arc<Stored>) {
        if self.limit > 0 && self.shown.len() >= self.limit {
            self.remaining += 1;
            return;
        }
        self.shown.push(Arc::clone(stored));
        self.last = Some(key.clone());
    }
}

impl Continuation {
    fn parse(token: &str) -> Result<Self, Failure> {
        let refuse = |why: &str| Failure::bad_request(format!("invalid continue token: {why}"));
        let bytes = URL_SAFE_NO_PAD
            .decode(token.trim_end_matches('='))
            .map_err(|_| refuse("continue key is not valid: illegal base64 data at input byte 0"))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first = bytes.first().copied().map_or('?', char::from);
            let shown = if first.is_ascii_graphic() {
                first.to_string()
            } else {
                format!("\\u{:04x}", u32::from(first))
            };
            refuse(&format!(
                "continue key is not valid: invalid character '{shown}' looking for beginning of value"
            ))
        })?;
        if value.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
            return Err(refuse(
                "continue key is not valid: server does not recognize this encoded version",
            ));
        }
        let version = value.get("rv").and_then(Value::as_i64).unwrap_or_default();
        if version == 0 {
            return Err(refuse(
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        let start = value.get("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(refuse(
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
            ));
        }
        Ok(Self {
            version: u64::try_from(version).ok(),
            start: start.trim_start_matches('/').to_owned(),
        })
    }

    fn encode(&self) -> String {
        let version = self
            .version
            .and_then(|version| i64::try_from(version).ok())
            .unwrap_or(-1);
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": format!("/{}", self.start)});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }
}

/// What a page's start is compared with: the object's place below what is listed.
fn path_of(key: &Key, namespace: Option<&str>) -> String {
    if namespace.is_some() || key.namespace.is_empty() {
        key.name.to_string()
    } else {
        format!("{}/{}", key.namespace, key.name)
    }
}

/// A `resourceVersion` option; nothing if it is not given.
pub(crate) fn parse_version(text: Option<&str>) -> Result<Option<u64>, Failure> {
    match text {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            Failure::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
            ))
        }),
    }
}

fn judge_match(version: &str, how: &str, continues: bool) -> Result<(), Failure> {
    let mut causes = Vec::new();
    let mut forbid = |why: &str| {
        causes.push(Cause::new(
            "FieldValueForbidden",
            "resourceVersionMatch",
            format!("Forbidden: {why}"),
        ))
    };
    if !how.is_empty() {
        if version.is_empty() {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if continues {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        match how {
            "Exact" if version == "0" => {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
            }
            "Exact" | "NotOlderThan" => {}
            other => causes.push(Cause::new(
                "FieldValueNotSupported",
                "resourceVersionMatch",
                format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""),
            )),
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Failure::invalid("ListOptions", "meta.k8s.io", "", causes))
    }
}

/// The values of field selectors that only this kind has.
fn own_fields(resource: &Resource, stored: &Stored) -> Vec<(String, String)> {
    let document = stored.document();
    match (resource.custom(), resource.built_in_kind()) {
        (Some(custom), _) => custom.selectable(&document),
        (_, Some(kind)) => kind
            .selectable(&document)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        (None, None) => Vec::new(),
    }
}
