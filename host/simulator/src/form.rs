//! In which form an answer goes out: JSON, YAML, a table, or the metadata alone.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::catalog::Resource;
use crate::object;
use crate::reply::Answer;
use crate::request::Call;
use crate::status::Failure;
use crate::store::Stored;
use crate::world::{Target, World};
use crate::write::Written;

/// The forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Yaml,
    /// Rows for people.
    Table {
        include: Include,
    },
    /// `PartialObjectMetadata`
    Metadata,
}

/// How much of each object a row carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

const AVAILABLE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Form {
    /// The first form of those that are asked for.
    pub(crate) fn negotiate(call: &Call, tables: bool) -> Result<Self, Failure> {
        if call.accept.trim().is_empty() {
            return Ok(Self::Json);
        }
        for clause in call.accept.split(',') {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
            let is_meta = parameter("g") == Some("meta.k8s.io") && parameter("v") == Some("v1");
            match (media_type, parameter("as")) {
                ("application/json" | "*/*" | "application/*", Some("Table")) if is_meta && tables => {
                    let include = match call.query.text("includeObject").unwrap_or_default() {
                        "None" => Include::Nothing,
                        "" | "Metadata" => Include::Metadata,
                        "Object" => Include::Object,
                        other => {
                            return Err(Failure::bad_request(format!(
                                "unrecognized includeObject value: {other:?}"
                            )));
                        }
                    };
                    return Ok(Self::Table { include });
                }
                (
                    "application/json" | "*/*" | "application/*",
                    Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
                ) if is_meta => {
                    return Ok(Self::Metadata);
                }
                (_, Some(_)) => {}
                ("application/json" | "*/*" | "application/*", None) => return Ok(Self::Json),
                ("application/yaml", None) => return Ok(Self::Yaml),
                _ => {}
            }
        }
        let asks_for_form = call
            .accept
            .split(',')
            .any(|clause| clause.contains(";as=") || clause.contains("; as="));
        Err(if asks_for_form {
            Failure::unknown_form(AVAILABLE)
        } else {
            Failure::not_acceptable(AVAILABLE)
        })
    }
}

impl World {
    /// The answer to a write.
    pub(crate) fn written(&self, call: &Call, target: &Target, written: Written) -> Result<Answer, Failure> {
        self.object_answer(call, target, written.code, &written.document)
    }

    /// One object in the form that is asked for.
    pub(crate) fn object_answer(
        &self,
        call: &Call,
        target: &Target,
        code: StatusCode,
        document: &Value,
    ) -> Result<Answer, Failure> {
        let answer = match Form::negotiate(call, true)? {
            Form::Json => {
                let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
                let body = object::encode(document);
                Answer::json(code, object::with_type(&body, text("apiVersion"), text("kind")))
            }
            Form::Yaml => yaml(code, document),
            Form::Table { include } => {
                let mut table = self.table_head(&target.resource, &target.path.version);
                object::set_resource_version(
                    &mut table,
                    object::resource_version(document).parse().unwrap_or_default(),
                );
                let row = self.table_row(&target.resource, &target.path.version, document, include);
                object::map_mut(&mut table).insert("rows".into(), Value::Array(vec![row]));
                Answer::value(code, &table)
            }
            Form::Metadata => Answer::value(code, &partial(document)),
        };
        Ok(answer)
    }

    /// The bytes of one stored object, as an answer to `get`.
    pub(crate) fn stored_body(&self, target: &Target, stored: &Stored) -> Bytes {
        let resource = &target.resource;
        let api_version = resource.api_version(&target.path.version);
        Bytes::from(object::with_type(
            &self.seen(resource, &target.path.version, stored),
            &api_version,
            &resource.kind,
        ))
    }

    /// An object as a reader at this version sees it.
    pub(crate) fn seen(&self, resource: &Resource, version: &str, stored: &Stored) -> Bytes {
        let revised = resource.custom().is_some_and(|custom| custom.revised);
        match resource.version(version) {
            Some(version) if revised => {
                let mut document = stored.document();
                // What does not fit the newer schema is shown as far as it does.
                let _ = self.settle_structure(&mut document, resource, version);
                object::encode(&document)
            }
            _ => stored.body.clone(),
        }
    }

    /// A document with its type, of something stored.
    pub(crate) fn seen_document(&self, resource: &Resource, version: &str, stored: &Stored) -> Value {
        let mut document: Value = serde_json::from_slice(&self.seen(resource, version, stored)).unwrap_or_default();
        object::set_type(&mut document, &resource.api_version(version), &resource.kind);
        document
    }
}

/// A document in YAML.
pub(crate) fn yaml(code: StatusCode, document: &Value) -> Answer {
    match serde_saphyr::to_string(document) {
        Ok(text) => Answer {
            content_type: "application/yaml",
            ..Answer::json(code, text)
        },
        // What came in as JSON can be written as YAML.
        Err(_) => Answer::value(code, document),
    }
}

/// The metadata of a document alone.
pub(crate) fn partial(document: &Value) -> Value {
    let metadata = document.get("metadata").cloned();
    let mut partial = json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata.unwrap_or_else(|| Value::Object(Map::new())),
    });
    // The server has this one as a field, and shows it as an annotation only of the whole object.
    let is_daemon_set = document.pointer("/spec/updateStrategy").is_some();
    let annotations = partial
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations.filter(|_| is_daemon_set) {
        annotations.remove("deprecated.daemonset.template.generation");
        if annotations.is_empty() {
            object::set(&mut partial, "annotations", None);
        }
    }
    partial
}
