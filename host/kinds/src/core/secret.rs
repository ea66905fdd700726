//! Secret: its type says which keys must be there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::MAX_SIZE;
use super::config_map::validate_immutable;
use crate::document::{at, default, map_mut, member_mut, object, set, text};
use crate::fault::Fault;
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{meta, names, table};

/// The kind.
pub(crate) struct Secret;

static STRATEGY: Strategy = Strategy::new("", "Secret").unconditional().selected_by(&["type"]);
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

fn bytes(document: &Value, key: &str) -> Option<Vec<u8>> {
    let text = at(document, &["data"]).get(key)?.as_str()?;
    Some(STANDARD.decode(text).unwrap_or_default())
}

fn validate(document: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut size = 0;
    for (key, value) in object(document.get("data")) {
        faults.extend(Fault::each(&format!("data[{key}]"), key, names::config_key(key)));
        size += STANDARD
            .decode(value.as_str().unwrap_or_default())
            .unwrap_or_default()
            .len();
    }
    if size > MAX_SIZE {
        faults.push(Fault::too_long("data", MAX_SIZE));
    }
    let missing = |key: &str| Fault::required(format!("data[{key}]"), "");
    let has = |key: &str| at(document, &["data"]).get(key).is_some();
    match text(document, "type") {
        "kubernetes.io/service-account-token" => {
            let annotations = at(document, &["metadata", "annotations"]);
            if text(annotations, ACCOUNT_NAME).is_empty() {
                faults.push(Fault::required(format!("metadata.annotations[{ACCOUNT_NAME}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => faults.extend(validate_json(document, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => faults.extend(validate_json(document, ".dockerconfigjson")),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            faults.push(missing("username"));
            faults.push(missing("password"));
        }
        "kubernetes.io/ssh-auth" if bytes(document, "ssh-privatekey").is_none_or(|key| key.is_empty()) => {
            faults.push(missing("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            faults.extend(
                ["tls.crt", "tls.key"]
                    .iter()
                    .filter(|key| !has(key))
                    .map(|key| missing(key)),
            );
        }
        _ => {}
    }
    faults
}

fn validate_json(document: &Value, key: &str) -> Option<Fault> {
    let field = format!("data[{key}]");
    let Some(bytes) = bytes(document, key) else {
        return Some(Fault::required(field, ""));
    };
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            match other {
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::Array(_) => "array",
                _ => "string",
            }
        ),
        Err(error) if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Err(error) => {
            let line = error.line().saturating_sub(1);
            let start = bytes
                .split(|byte| *byte == b'\n')
                .take(line)
                .map(|line| line.len() + 1)
                .sum::<usize>();
            let wrong = bytes
                .get(start + error.column().saturating_sub(1))
                .copied()
                .unwrap_or_default();
            format!(
                "invalid character '{}' looking for beginning of value",
                char::from(wrong)
            )
        }
    };
    Some(Fault::invalid(field, &"<secret contents redacted>".into(), &why))
}

impl Kind for Secret {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, document: &mut Value) {
        // Plain texts are only ever written, and what is read are bytes.
        if let Some(Value::Object(plain)) = map_mut(document).remove("stringData")
            && !plain.is_empty()
        {
            let data = member_mut(document, "data");
            for (key, value) in plain {
                let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
                set(data, &key, Some(encoded.into()));
            }
        }
        default(document, "type", "Opaque");
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate(object));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        if text(new, "type") != text(old, "type") {
            faults.push(Fault::immutable("type", at(new, &["type"])));
        }
        faults.extend(validate_immutable(new, old, &["data"]));
        faults.extend(meta::validate_again(new, true, &names::subdomain));
        faults.extend(validate(new));
        faults
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        if text(new, "type") != "kubernetes.io/tls" {
            return Vec::new();
        }
        let has_pem = |key: &str| {
            let bytes = bytes(new, key).unwrap_or_default();
            bytes.windows(11).any(|window| window == b"-----BEGIN ")
        };
        let what = match (has_pem("tls.crt"), has_pem("tls.key")) {
            (false, _) => "certificate",
            (true, false) => "key",
            (true, true) => return Vec::new(),
        };
        vec![format!("tls: failed to find any PEM data in {what} input")]
    }

    fn row(&self, document: &Value, now: i64) -> Vec<Cell> {
        vec![
            table::name(document),
            text(document, "type").into(),
            object(document.get("data")).count().into(),
            table::created(document, now),
        ]
    }
}
