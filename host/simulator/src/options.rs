//! The options of writes, and what is wrong with them.

use serde_json::Value;

use crate::request::Call;
use crate::status::{Cause, Failure};

/// Options that all writes share.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) strictness: Strictness,
    pub(crate) force: bool,
}

/// What becomes of fields that nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strictness {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Options of a deletion, from the query or the body.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) orphan: Option<bool>,
    pub(crate) propagation: Option<Propagation>,
}

/// What becomes of what an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

const META: &str = "meta.k8s.io";

impl WriteOptions {
    /// Reads and judges the options of a create (`CreateOptions`), an update or a patch.
    pub(crate) fn parse(call: &Call, kind: &str, is_apply: bool) -> Result<Self, Failure> {
        let mut causes = Vec::new();
        let manager = call.query.text("fieldManager").unwrap_or_default();
        if kind == "PatchOptions" {
            if is_apply && manager.is_empty() {
                causes.push(Cause::new(
                    "FieldValueRequired",
                    "fieldManager",
                    "Required value: is required for apply patch",
                ));
            } else if !is_apply && call.query.text("force").is_some() {
                causes.push(Cause::new(
                    "FieldValueForbidden",
                    "force",
                    "Forbidden: may not be specified for non-apply patch",
                ));
            }
        }
        causes.extend(judge_manager(manager));
        causes.extend(judge_dry_run(call.query.all("dryRun")));
        let strictness = match call.query.text("fieldValidation").unwrap_or_default() {
            "" | "Warn" => Strictness::Warn,
            "Ignore" => Strictness::Ignore,
            "Strict" => Strictness::Strict,
            other => {
                causes.push(Cause::new(
                    "FieldValueNotSupported",
                    "fieldValidation",
                    format!("Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""),
                ));
                Strictness::Warn
            }
        };
        if !causes.is_empty() {
            return Err(Failure::invalid(kind, META, "", causes));
        }
        Ok(Self {
            dry_run: !call.query.all("dryRun").is_empty(),
            strictness,
            force: call.query.flag("force"),
        })
    }
}

fn judge_manager(manager: &str) -> Option<Cause> {
    if manager.len() > 128 {
        return Some(Cause::new(
            "FieldValueTooLong",
            "fieldManager",
            "Too long: may not be more than 128 bytes",
        ));
    }
    let unprintable = manager.char_indices().find(|(_, character)| character.is_control());
    unprintable.map(|(at, _)| {
        Cause::new(
            "FieldValueInvalid",
            "fieldManager",
            format!(
                "Invalid value: {}: invalid character U+{:04X} (at position {at})",
                quoted(manager),
                u32::from(manager.as_bytes().get(at).copied().unwrap_or_default())
            ),
        )
    })
}

fn judge_dry_run(values: &[String]) -> Option<Cause> {
    let known = values.iter().all(|value| value == "All");
    (!known).then(|| {
        let shown: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        Cause::new(
            "FieldValueNotSupported",
            "dryRun",
            format!("Unsupported value: [{}]: supported values: \"All\"", shown.join(",")),
        )
    })
}

impl DeleteOptions {
    /// Reads the options: the body's if there is one, else the query's.
    pub(crate) fn parse(call: &Call) -> Result<Self, Failure> {
        let options = if call.body.is_empty() {
            Self::from_query(call)?
        } else {
            Self::from_body(call)?
        };
        let (options, dry_run, propagation) = options;
        let mut causes = Vec::new();
        if options.orphan.is_some() && !propagation.is_empty() {
            causes.push(Cause::new(
                "FieldValueInvalid",
                "propagationPolicy",
                format!("Invalid value: {propagation:?}: orphanDependents and deletionPropagation cannot be both set"),
            ));
        }
        let parsed = match propagation.as_str() {
            "" => None,
            "Orphan" => Some(Propagation::Orphan),
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            other => {
                causes.push(Cause::new(
                    "FieldValueNotSupported",
                    "propagationPolicy",
                    format!("Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""),
                ));
                None
            }
        };
        causes.extend(judge_dry_run(&dry_run));
        if !causes.is_empty() {
            return Err(Failure::invalid("DeleteOptions", META, "", causes));
        }
        Ok(Self {
            propagation: parsed,
            dry_run: !dry_run.is_empty(),
            ..options
        })
    }

    fn from_query(call: &Call) -> Result<(Self, Vec<String>, String), Failure> {
        let options = Self {
            grace: call.query.number("gracePeriodSeconds")?,
            orphan: call
                .query
                .text("orphanDependents")
                .map(|_| call.query.flag("orphanDependents")),
            ..Self::default()
        };
        let propagation = call.query.text("propagationPolicy").unwrap_or_default().to_owned();
        Ok((options, call.query.all("dryRun").to_vec(), propagation))
    }

    fn from_body(call: &Call) -> Result<(Self, Vec<String>, String), Failure> {
        if !matches!(call.media_type(), "" | "application/json" | "application/yaml") {
            return Err(crate::decode::unsupported_body());
        }
        let body = crate::decode::read(call)?.value;
        let kind = body.get("kind").and_then(Value::as_str).unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            return Err(Failure::bad_request(format!(
                "decoded object cannot be converted to DeleteOptions: it is a {kind}"
            )));
        }
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let preconditions = body.get("preconditions");
        let options = Self {
            grace: body.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: text(preconditions.and_then(|preconditions| preconditions.get("uid"))),
            resource_version: text(preconditions.and_then(|preconditions| preconditions.get("resourceVersion"))),
            orphan: body.get("orphanDependents").and_then(Value::as_bool),
            ..Self::default()
        };
        let dry_run = body.get("dryRun").and_then(Value::as_array).into_iter().flatten();
        let dry_run = dry_run.filter_map(|value| value.as_str().map(str::to_owned)).collect();
        Ok((
            options,
            dry_run,
            text(body.get("propagationPolicy")).unwrap_or_default(),
        ))
    }
}

/// A text as Go quotes it, as far as control characters go.
fn quoted(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        letter if u32::from(letter) < 0x80 && letter.is_control() => format!("\\x{:02x}", u32::from(letter)),
        letter => letter.to_string(),
    });
    format!("\"{}\"", letters.collect::<String>())
}
