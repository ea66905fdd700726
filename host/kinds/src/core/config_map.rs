//! ConfigMap: keys are file names, in two maps that share none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::MAX_SIZE;
use crate::document::{is_true, object};
use crate::fault::Fault;
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{meta, names, table};

/// The kind.
pub(crate) struct ConfigMap;

static STRATEGY: Strategy = Strategy::new("", "ConfigMap").unconditional();

fn validate(document: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut size = 0;
    for (key, value) in object(document.get("data")) {
        let field = format!("data[{key}]");
        faults.extend(Fault::each(&field, key, names::config_key(key)));
        if document.get("binaryData").and_then(|binary| binary.get(key)).is_some() {
            faults.push(Fault::invalid(
                field,
                &key.as_str().into(),
                "duplicate of key present in binaryData",
            ));
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in object(document.get("binaryData")) {
        faults.extend(Fault::each(&format!("binaryData[{key}]"), key, names::config_key(key)));
        size += STANDARD
            .decode(value.as_str().unwrap_or_default())
            .unwrap_or_default()
            .len();
    }
    if size > MAX_SIZE {
        faults.push(Fault::too_long("", MAX_SIZE));
    }
    faults
}

/// What an object that was made immutable does not let happen.
pub(super) fn validate_immutable(new: &Value, old: &Value, fields: &[&str]) -> Vec<Fault> {
    const WHY: &str = "field is immutable when `immutable` is set";
    if !is_true(old, "immutable") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    if !is_true(new, "immutable") {
        faults.push(Fault::forbidden("immutable", WHY));
    }
    for field in fields {
        if new.get(*field) != old.get(*field) {
            faults.push(Fault::forbidden(*field, WHY));
        }
    }
    faults
}

impl Kind for ConfigMap {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate(object));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(validate_immutable(new, old, &["data", "binaryData"]));
        faults.extend(meta::validate_again(new, true, &names::subdomain));
        faults.extend(validate(new));
        faults
    }

    fn row(&self, document: &Value, now: i64) -> Vec<Cell> {
        let count = object(document.get("data")).count() + object(document.get("binaryData")).count();
        vec![table::name(document), count.into(), table::created(document, now)]
    }
}
