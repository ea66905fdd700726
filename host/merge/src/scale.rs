//! Who owns the number of replicas after a write through `scale`, which knows it by another version and another path.
//!
//! An API server carries the entries of those who own the number over to the scale, lets the write be recorded there, and
//! carries what came of it back. An entry that updates is not recognised when it comes back, as its version is that of the
//! scale by then: it loses the number, and a new one without a time has it.

use smol_str::SmolStr;

use crate::fields::FieldSet;
use crate::managed::{Entry, Managed, Operation, Writer};

/// What happened to the number. To a scale, none is zero and zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaled {
    /// It is what it was.
    Kept,
    /// It is another one.
    Set,
    /// There is none any more.
    Removed,
}

/// The version of every scale.
const SCALE: &str = "autoscaling/v1";

/// The managers after a write to the scale. `path` is where the object has the number.
#[must_use]
pub fn scale(parent: &Managed, path: &[&str], writer: &Writer<'_>, happened: Scaled) -> Managed {
    let number = FieldSet::of_names([path]);
    let owns = |entry: &Entry| !entry.fields.intersection(&number).is_empty();
    let owners = parent.entries.iter().filter(|entry| owns(entry));
    let mut carried: Vec<Entry> = owners
        .map(|entry| Entry {
            api_version: SmolStr::new_static(SCALE),
            ..entry.clone()
        })
        .collect();
    // An object that nobody manages stays so.
    if happened != Scaled::Kept && !carried.is_empty() {
        carried.clear();
        if happened == Scaled::Set {
            let own = writer.entry(Operation::Update);
            carried.push(Entry {
                api_version: SmolStr::new_static(SCALE),
                ..own
            });
        }
    }
    let mut managed = Managed::default();
    for entry in &parent.entries {
        if !owns(entry) {
            managed.entries.push(entry.clone());
            continue;
        }
        match carried.iter().position(|back| back.is_same_manager(entry)) {
            Some(position) => {
                carried.remove(position);
                managed.entries.push(entry.clone());
            }
            None => {
                let fields = entry.fields.difference(&number);
                if !fields.is_empty() {
                    let entry = entry.clone();
                    managed.entries.push(Entry { fields, ..entry });
                }
            }
        }
    }
    managed.entries.extend(carried.into_iter().map(|entry| Entry {
        api_version: SmolStr::new(writer.api_version),
        time: None,
        fields: number.clone(),
        ..entry
    }));
    managed.sort();
    managed
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn managed(entries: Value) -> Managed {
        Managed::of_object(&json!({"metadata": {"managedFields": entries}})).unwrap()
    }

    fn entry(operation: &str, manager: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    const WRITER: Writer<'_> = Writer {
        manager: "scaler",
        api_version: "apps/v1",
        subresource: "scale",
        time: "2026-01-02T00:00:00Z",
        reset_fields: None,
    };

    #[test]
    fn one_that_applies_keeps_the_number_until_it_changes() {
        let before = managed(json!([entry("Apply", "a", json!({"f:spec": {"f:replicas": {}}}))]));
        assert_eq!(scale(&before, &["spec", "replicas"], &WRITER, Scaled::Kept), before);
        let after = scale(&before, &["spec", "replicas"], &WRITER, Scaled::Set).to_value();
        assert_eq!(
            after,
            json!([{"manager": "scaler", "operation": "Update", "subresource": "scale", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}])
        );
    }

    #[test]
    fn one_that_updates_is_two_afterwards_even_if_nothing_changes() {
        let before = managed(json!([entry(
            "Update",
            "a",
            json!({"f:spec": {"f:replicas": {}, "f:paused": {}}})
        )]));
        let after = scale(&before, &["spec", "replicas"], &WRITER, Scaled::Kept).to_value();
        let fields: Vec<&Value> = after
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| &entry["fieldsV1"])
            .collect();
        assert_eq!(
            fields,
            [
                &json!({"f:spec": {"f:replicas": {}}}),
                &json!({"f:spec": {"f:paused": {}}})
            ]
        );
    }

    #[test]
    fn nobody_owns_a_number_that_is_gone_and_one_that_nobody_owned_stays_so() {
        let before = managed(json!([entry("Update", "a", json!({"f:spec": {"f:replicas": {}}}))]));
        assert!(scale(&before, &["spec", "replicas"], &WRITER, Scaled::Removed).is_empty());
        let other = managed(json!([entry("Update", "a", json!({"f:spec": {"f:paused": {}}}))]));
        assert_eq!(scale(&other, &["spec", "replicas"], &WRITER, Scaled::Set), other);
    }
}
