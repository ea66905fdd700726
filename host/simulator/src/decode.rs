//! From the bytes of a body to the document the server holds, or the reason why not.

use serde_json::Value;

use crate::catalog::{Resource, Version};
use crate::json::{self, Parsed};
use crate::object;
use crate::options::Strictness;
use crate::request::Call;
use crate::status::Failure;
use crate::world::World;

pub(crate) fn unsupported_body() -> Failure {
    Failure::unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// Reads a body by its media type.
pub(crate) fn read(call: &Call) -> Result<Parsed, Failure> {
    match call.media_type() {
        "" if !call.content_type.is_empty() => Err(unsupported_body()),
        "" | "application/json" => json::parse(&call.body).map_err(|error| {
            Failure::bad_request(format!(
                "couldn't get version/kind; json parse error: {}",
                json::complaint(&call.body, &error)
            ))
        }),
        "application/yaml" | "application/apply-patch+yaml" => yaml(&call.body),
        "application/vnd.kubernetes.protobuf" => match crate::protobuf::read(&call.body) {
            Some(value) => Ok(Parsed {
                value,
                duplicates: Vec::new(),
            }),
            None => Err(Failure::unsupported_media_type(
                "the simulator reads protobuf only of what kubectl itself makes; send application/json or application/yaml",
            )),
        },
        _ => Err(unsupported_body()),
    }
}

/// Reads YAML, of which JSON is a part.
pub(crate) fn yaml(body: &[u8]) -> Result<Parsed, Failure> {
    if let Ok(parsed) = json::parse(body) {
        return Ok(parsed);
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| Failure::bad_request("error decoding YAML: yaml: invalid leading UTF-8 octet"))?;
    let value = serde_saphyr::from_str(text).map_err(|error| {
        Failure::bad_request(format!(
            "error decoding YAML: error converting YAML to JSON: yaml: {error}"
        ))
    })?;
    Ok(Parsed {
        value,
        duplicates: Vec::new(),
    })
}

impl World {
    /// Reads the body of a create or an update as an object of a resource.
    pub(crate) fn decode_body(
        &mut self,
        call: &Call,
        resource: &Resource,
        version: &Version,
        strictness: Strictness,
    ) -> Result<Value, Failure> {
        let unrecognized = |failure: Failure| match failure.reason {
            "BadRequest" => {
                let shown = if call.body.is_empty() {
                    "<empty>".to_owned()
                } else {
                    shown(&call.body)
                };
                Failure::bad_request(format!(
                    "the object provided is unrecognized (must be of type {}): {} ({shown})",
                    resource.kind, failure.message
                ))
            }
            _ => failure,
        };
        let mut parsed = read(call).map_err(unrecognized)?;
        if parsed.value.is_null() {
            // Nothing is an object in which nothing is said.
            parsed.value = Value::Object(serde_json::Map::new());
        }
        let is_typed = |key: &str| {
            parsed
                .value
                .get(key)
                .is_none_or(|value| value.is_string() || value.is_null())
        };
        if parsed.value.is_object() && !(is_typed("kind") && is_typed("apiVersion")) {
            return Err(unrecognized(Failure::bad_request(
                "couldn't get version/kind; json parse error: json: cannot unmarshal into Go struct field",
            )));
        }
        if !parsed.value.is_object() {
            let what = if parsed.value.is_array() { "array" } else { "value" };
            return Err(unrecognized(Failure::bad_request(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            ))));
        }
        self.check_type(call, resource, version, &parsed.value)?;
        self.decode(parsed, resource, version, strictness)
    }

    fn check_type(&self, call: &Call, resource: &Resource, version: &Version, document: &Value) -> Result<(), Failure> {
        let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let expected = resource.api_version(&version.name);
        if resource.custom().is_some() {
            if kind.is_empty() || api_version.is_empty() {
                let body = String::from_utf8_lossy(&call.body);
                let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
                let why = format!("Object '{missing}' is missing in '{body}'");
                // Of which kind it is to be is said only if it says nothing of it.
                return Err(Failure::bad_request(if kind.is_empty() && api_version.is_empty() {
                    format!(
                        "the object provided is unrecognized (must be of type {}): {why} ({})",
                        resource.kind,
                        shown(&call.body)
                    )
                } else {
                    why
                }));
            }
            if api_version != expected {
                return Err(Failure::bad_request(format!(
                    "the API version in the data ({api_version}) does not match the expected API version ({expected})"
                )));
            }
            // Another kind is a matter of validation.
            return Ok(());
        }
        let same = (kind.is_empty() || kind == resource.kind) && (api_version.is_empty() || api_version == expected);
        if same {
            return Ok(());
        }
        let (_, of) = crate::catalog::split(api_version);
        let (group, _) = crate::catalog::split(api_version);
        let is_known = self.base().types.get(group, of, kind).is_some();
        let why = if is_known {
            format!(
                "converting ({of}.{kind}) to ({}.{}): unknown conversion",
                internal(&resource.group),
                resource.kind
            )
        } else {
            format!(
                "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:110\""
            )
        };
        Err(Failure::bad_request(format!(
            "{kind} in version \"{of}\" cannot be handled as a {}: {why}",
            resource.kind
        )))
    }

    /// Checks the structure of a document, and makes it what the server holds.
    pub(crate) fn decode(
        &mut self,
        parsed: Parsed,
        resource: &Resource,
        version: &Version,
        strictness: Strictness,
    ) -> Result<Value, Failure> {
        let Parsed {
            value: mut document,
            duplicates,
        } = parsed;
        let refused = |why: &str| {
            Failure::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: {why}",
                resource.kind, version.name, resource.kind
            ))
        };
        let mut oddities: Vec<String> = Vec::new();
        let is_foreign = resource.custom().is_some()
            && document
                .get("kind")
                .and_then(Value::as_str)
                .is_some_and(|kind| kind != resource.kind);
        if strictness != Strictness::Ignore && !is_foreign {
            oddities.extend(version.schema.unknown_fields(&document).iter().map(ToString::to_string));
            oddities.extend(duplicates.iter().map(|path| format!("duplicate field \"{path}\"")));
        }
        if strictness == Strictness::Strict && !oddities.is_empty() {
            return Err(refused(&format!("strict decoding error: {}", oddities.join(", "))));
        }
        self.settle_structure(&mut document, resource, version)
            .map_err(|why| refused(&why))?;
        self.warned.extend(oddities);
        Ok(document)
    }

    /// Brings a document into the form in which the server holds it: unknown fields gone, defaults set. Idempotent.
    pub(crate) fn settle_structure(
        &self,
        document: &mut Value,
        resource: &Resource,
        version: &Version,
    ) -> Result<(), String> {
        let structures = &self.base().structures;
        let given = document.get("kind").cloned();
        object::set_type(document, &resource.api_version(&version.name), &resource.kind);
        if let Some(custom) = resource.custom() {
            custom.settle_structure(document, version, structures)?;
            if let Some(kind) = given.filter(|kind| *kind != resource.kind.as_str()) {
                object::map_mut(document).insert("kind".to_owned(), kind);
            }
            return Ok(());
        }
        if let Some(why) = structures.mismatch(&version.schema, &resource.kind, document) {
            return Err(why);
        }
        version.schema.drop_unknown_fields(document);
        structures.normalise(&version.schema, document);
        if let Some(kind) = resource.built_in_kind() {
            kind.default(document);
            structures.normalise(&version.schema, document);
        }
        object::set_type(document, &resource.api_version(&version.name), &resource.kind);
        Ok(())
    }
}

/// Go's name of the package of a group's internal types.
fn internal(group: &str) -> &str {
    if group.is_empty() {
        "core"
    } else {
        group.split('.').next().unwrap_or_default()
    }
}

/// Text as it is, or as hexadecimal digits where the server shows bytes.
fn shown(body: &[u8]) -> String {
    let start = body.get(..1024).unwrap_or(body);
    if body.first() == Some(&b'{') {
        String::from_utf8_lossy(start).into_owned()
    } else {
        start.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
