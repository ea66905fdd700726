//! What holds of any object: laws of field sets, and of apply over them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use std::sync::LazyLock;

use chandlery_merge::{ApplyError, ApplyRequest, FieldSet, Managed, Schema, Writer, apply};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};
use serde_json::{Value, json};

/// The same cases in every run; a case that fails is a case to paste.
fn check<S: Strategy>(strategy: &S, law: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config {
        cases: 512,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(7),
        ..Config::default()
    };
    TestRunner::new(config).run(strategy, law).unwrap();
}

fn schema() -> Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(compiled);
    SCHEMA.clone()
}

fn compiled() -> Schema {
    let port = json!({
        "type": "object",
        "properties": {
            "port": { "type": "integer" }, "protocol": { "type": "string", "default": "TCP" }, "name": { "type": "string" },
        },
    });
    Schema::from_structural(&json!({ "type": "object", "properties": { "spec": {
        "type": "object",
        "properties": {
            "text": { "type": "string" },
            "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": port,
            },
            "map": { "type": "object", "additionalProperties": { "type": "object", "properties": { "x": { "type": "string" } } } },
            "atom": { "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": { "type": "string" } },
            "loose": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    } } }))
    .unwrap()
}

fn optional(name: &'static str, value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Vec<(String, Value)>> {
    proptest::option::of(value)
        .prop_map(move |value| value.into_iter().map(|value| (name.to_owned(), value)).collect())
        .boxed()
}

fn text() -> impl Strategy<Value = Value> {
    "[a-c]".prop_map(Value::from)
}

/// Configurations of one object; few names, so that they meet. No empty lists: nobody owns those.
fn configuration() -> impl Strategy<Value = Value> {
    let set = btree_map("[a-e]", Just(()), 1..4).prop_map(|set| Value::from(set.into_keys().collect::<Vec<_>>()));
    let ports = btree_map((1..4, "TCP|UDP"), proptest::option::of("[ab]"), 1..4).prop_map(|ports| {
        ports
            .into_iter()
            .map(|((port, protocol), name)| match name {
                Some(name) => json!({ "port": port, "protocol": protocol, "name": name }),
                None => json!({ "port": port, "protocol": protocol }),
            })
            .collect::<Value>()
    });
    let map = btree_map("[ab]", proptest::option::of(text()), 0..3).prop_map(|map| {
        map.into_iter()
            .map(|(name, value)| (name, value.map_or(json!({}), |value| json!({ "x": value }))))
            .collect::<Value>()
    });
    let texts = || btree_map("[ab]", text(), 0..3).prop_map(|map| map.into_iter().collect::<Value>());
    let loose = prop_oneof![
        texts(),
        text().prop_map(|text| json!({ "a": { "b": text } })),
        text().prop_map(|text| json!({ "a": [text] })),
    ];
    let fields = (
        optional("text", text()),
        optional("set", set),
        optional("ports", ports),
        optional("map", map),
        optional("atom", texts()),
        optional("loose", loose),
    );
    fields.prop_map(|(one, two, three, four, five, six)| {
        let spec: Value = [one, two, three, four, five, six].concat().into_iter().collect();
        json!({ "apiVersion": "merge.test/v1", "kind": "Thing", "metadata": { "name": "a" }, "spec": spec })
    })
}

/// An object with its managers, as a store keeps it.
#[derive(Clone, Debug)]
struct Stored {
    object: Value,
    managed: Managed,
}

fn empty() -> Value {
    json!({ "apiVersion": "merge.test/v1", "kind": "Thing" })
}

fn applied(stored: &Stored, manager: &str, configuration: &Value, force: bool) -> Result<(Stored, bool), ApplyError> {
    let result = apply(&ApplyRequest {
        schema: &schema(),
        other_versions: &[],
        live: &stored.object,
        empty: &empty(),
        live_managed: Some(&stored.managed),
        configuration,
        writer: Writer {
            manager,
            api_version: "merge.test/v1",
            subresource: "",
            time: "2026-01-01T00:00:00Z",
            reset_fields: None,
        },
        force,
    })?;
    let changed = result.object.is_some() || result.managed_changed;
    let object = result.object.unwrap_or_else(|| stored.object.clone());
    Ok((
        Stored {
            object,
            managed: result.managed,
        },
        changed,
    ))
}

fn nothing() -> Stored {
    Stored {
        object: empty(),
        managed: Managed::default(),
    }
}

/// A history of forced applies by three managers.
fn history() -> impl Strategy<Value = Vec<(u8, Value)>> {
    vec((0..3_u8, configuration()), 1..6)
}

/// What is left of a map whose last entry was removed is null, which a server then refuses.
fn is_refused(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(is_refused),
        Value::Object(object) => object.values().any(is_refused),
        _ => false,
    }
}

fn after(history: &[(u8, Value)]) -> Stored {
    history.iter().fold(nothing(), |stored, (manager, configuration)| {
        let (now, _) = applied(&stored, &format!("m{manager}"), configuration, true).unwrap();
        if is_refused(&now.object) { stored } else { now }
    })
}

#[test]
fn a_second_apply_of_the_same_changes_nothing() {
    check(&history(), |history| {
        let (last, _) = history.split_last().unwrap();
        let before = after(&history);
        let (stored, _) = applied(&before, &format!("m{}", last.0), &last.1, true).unwrap();
        prop_assume!(!is_refused(&stored.object));
        let (again, changed) = applied(&stored, &format!("m{}", last.0), &last.1, false).unwrap();
        prop_assert!(!changed, "{stored:?}\n{again:?}");
        Ok(())
    });
}

#[test]
fn what_was_applied_last_is_there() {
    check(&history(), |history| {
        let (last, _) = history.split_last().unwrap();
        let before = after(&history);
        let (stored, _) = applied(&before, &format!("m{}", last.0), &last.1, true).unwrap();
        let fields = FieldSet::of_object(&last.1, &schema());
        let there = FieldSet::of_object(&stored.object, &schema());
        let missing: Vec<_> = fields.difference(&there).paths();
        // What asks for nothing where there is something already holds nothing of its own.
        let missing: Vec<_> = missing
            .iter()
            .filter(|path| !asks_for_nothing(&last.1, &path.to_string()))
            .collect();
        prop_assert!(missing.is_empty(), "{missing:?}\n{stored:?}");
        Ok(())
    });
}

fn asks_for_nothing(configuration: &Value, path: &str) -> bool {
    let pointer = path.replace('.', "/");
    configuration
        .pointer(&pointer)
        .is_some_and(|value| value.as_object().is_some_and(serde_json::Map::is_empty))
}

#[test]
fn when_all_managers_want_nothing_all_is_gone() {
    check(&history(), |history| {
        let bare = json!({ "apiVersion": "merge.test/v1", "kind": "Thing", "metadata": { "name": "a" } });
        let mut stored = after(&history);
        for manager in 0..3 {
            stored = applied(&stored, &format!("m{manager}"), &bare, false).unwrap().0;
        }
        prop_assert!(stored.managed.is_empty(), "{stored:?}");
        let left = stored.object.get("spec").filter(|spec| !spec.is_null());
        prop_assert_eq!(left, None);
        Ok(())
    });
}

#[test]
fn an_apply_that_is_refused_names_others_and_one_that_is_not_takes_nothing() {
    check(&(history(), configuration()), |(history, wanted)| {
        let stored = after(&history);
        match applied(&stored, "new", &wanted, false) {
            Err(ApplyError::Conflicts { conflicts, .. }) => {
                prop_assert!(!conflicts.is_empty());
                prop_assert!(conflicts.iter().all(|conflict| conflict.manager.starts_with("\"m")));
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
            Ok((now, _)) => {
                let others = now.managed.to_value();
                let others: Vec<_> = others
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|entry| entry["manager"] != "new")
                    .cloned()
                    .collect();
                prop_assert_eq!(Value::from(others), stored.managed.to_value());
            }
        }
        Ok(())
    });
}

#[test]
fn managers_and_their_fields_survive_being_written_and_read() {
    check(&history(), |history| {
        let stored = after(&history);
        let mut object = stored.object.clone();
        stored.managed.write_to(&mut object);
        prop_assert_eq!(Managed::of_object(&object).unwrap(), stored.managed.clone());
        let fields = FieldSet::of_object(&stored.object, &schema());
        let mut written = String::new();
        fields.write_json(&mut written);
        let read: Value = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(&read, &fields.to_value());
        prop_assert_eq!(FieldSet::from_value(&read).unwrap(), fields);
        Ok(())
    });
}

#[test]
fn field_sets_obey_the_laws_of_sets() {
    check(
        &(configuration(), configuration(), configuration()),
        |(one, two, three)| {
            let of = |object: &Value| FieldSet::of_object(object, &schema());
            let (one, two, three) = (of(&one), of(&two), of(&three));
            prop_assert_eq!(one.union(&two), two.union(&one));
            prop_assert_eq!(
                one.union(&two).intersection(&three),
                one.intersection(&three).union(&two.intersection(&three))
            );
            prop_assert_eq!(one.difference(&two).union(&one.intersection(&two)), one.clone());
            prop_assert!(one.difference(&two).intersection(&two).is_empty());
            prop_assert!(one.intersection(&two).is_subset(&one) && one.is_subset(&one.union(&two)));
            prop_assert_eq!(one.is_subset(&two), one.difference(&two).is_empty());
            prop_assert!(one.recursive_difference(&two).is_subset(&one.difference(&two)));
            prop_assert_eq!(one.paths().len(), one.len());
            prop_assert_eq!(FieldSet::of_paths(&one.paths()), one.clone());
            prop_assert!(one.paths().iter().all(|path| one.contains(&path.0)));
            Ok(())
        },
    );
}
