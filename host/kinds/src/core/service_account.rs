//! ServiceAccount: of the secrets it names, only the name is kept.

use serde_json::{Value, json};

use crate::document::{at, elements_mut, list, text};
use crate::fault::Fault;
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{meta, names, table};

/// The kind.
pub(crate) struct ServiceAccount;

static STRATEGY: Strategy = Strategy::new("", "ServiceAccount")
    .unconditional()
    .answers_with_deleted();
const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

fn keep_names(object: &mut Value) {
    for secret in elements_mut(object, "secrets") {
        let name = text(secret, "name").to_owned();
        *secret = if name.is_empty() {
            json!({})
        } else {
            json!({"name": name})
        };
    }
}

impl Kind for ServiceAccount {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn prepare_create(&self, object: &mut Value) {
        keep_names(object);
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value) {
        keep_names(new);
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        meta::unknown_finalizers(object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(meta::validate_again(new, true, &names::subdomain));
        faults
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let has = |object: &Value| at(object, &["metadata", "annotations"]).get(MOUNTABLE).is_some();
        if !has(new) || old.is_some_and(has) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Cell> {
        vec![
            table::name(object),
            list(object, "secrets").len().into(),
            table::created(object, now),
        ]
    }
}
