//! From the bytes of a body to the document the server holds, or the reason why not.

use serde_json::Value;

use crate::catalog::{Resource, Version};
use crate::json::{self, Parsed};
use crate::options::Strictness;
use crate::request::Call;
use crate::status::Failure;
use crate::world::World;

/// A document and the warnings it earned.
pub(crate) struct Decoded {
    pub(crate) document: Value,
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn unsupported_body() -> Failure {
    Failure::unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// Reads a body by its media type.
pub(crate) fn read(call: &Call) -> Result<Parsed, Failure> {
    match call.media_type() {
        "" | "application/json" => json::parse(&call.body).map_err(|error| {
            Failure::bad_request(format!(
                "couldn't get version/kind; json parse error: {}",
                json::complaint(&call.body, &error)
            ))
        }),
        "application/yaml" | "application/apply-patch+yaml" => yaml(&call.body),
        "application/vnd.kubernetes.protobuf" => Err(Failure::unsupported_media_type(
            "the simulator reads no protobuf; send application/json or application/yaml",
        )),
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
        &self,
        call: &Call,
        resource: &Resource,
        version: &Version,
        strictness: Strictness,
    ) -> Result<Decoded, Failure> {
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
        let parsed = read(call).map_err(unrecognized)?;
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
                let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
                return Err(Failure::bad_request(format!(
                    "Object '{missing}' is missing in '{}'",
                    String::from_utf8_lossy(&call.body)
                )));
            }
            if kind != resource.kind || api_version != expected {
                let (group, of) = crate::catalog::split(api_version);
                return Err(Failure::bad_request(format!(
                    "{kind} in version \"{of}\" cannot be handled as a {}: no kind \"{kind}\" is registered for version \"{}\" in scheme",
                    resource.kind,
                    crate::catalog::api_version(group, of)
                )));
            }
            return Ok(());
        }
        let same = (kind.is_empty() || kind == resource.kind) && (api_version.is_empty() || api_version == expected);
        if same {
            return Ok(());
        }
        let (_, of) = crate::catalog::split(api_version);
        let why = if api_version != expected && !api_version.is_empty() || kind.is_empty() {
            format!("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme")
        } else {
            format!(
                "converting ({of}.{kind}) to ({}.{}): unknown conversion",
                internal(&resource.group),
                resource.kind
            )
        };
        Err(Failure::bad_request(format!(
            "{kind} in version \"{of}\" cannot be handled as a {}: {why}",
            resource.kind
        )))
    }

    /// Checks the structure of a document, and makes it what the server holds.
    pub(crate) fn decode(
        &self,
        parsed: Parsed,
        resource: &Resource,
        version: &Version,
        strictness: Strictness,
    ) -> Result<Decoded, Failure> {
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
        if strictness != Strictness::Ignore {
            oddities.extend(version.schema.unknown_fields(&document).iter().map(ToString::to_string));
            oddities.extend(duplicates.iter().map(|path| format!("duplicate field \"{path}\"")));
        }
        if strictness == Strictness::Strict && !oddities.is_empty() {
            return Err(refused(&format!("strict decoding error: {}", oddities.join(", "))));
        }
        self.settle_structure(&mut document, resource, version)
            .map_err(|why| refused(&why))?;
        Ok(Decoded {
            document,
            warnings: oddities,
        })
    }

    /// Brings a document into the form in which the server holds it: unknown fields gone, defaults set. Idempotent.
    pub(crate) fn settle_structure(
        &self,
        document: &mut Value,
        resource: &Resource,
        version: &Version,
    ) -> Result<(), String> {
        let structures = &self.base().structures;
        crate::object::set_type(document, &resource.api_version(&version.name), &resource.kind);
        if let Some(custom) = resource.custom() {
            return custom.settle_structure(document, version, structures);
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
        crate::object::set_type(document, &resource.api_version(&version.name), &resource.kind);
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
