//! Two objects made one: what the second sets, it sets; all else stays as in the first.

use serde_json::{Map as Object, Value};

use super::{Deduced, Item, Mismatch, Positions, Shape, deduce, same_shape, shape};
use crate::schema::{List, Map, Node, NodeId, Types};
use crate::value;

/// Merges `wanted` into `live`; nothing if that leaves `live` as it is. Both must be valid.
pub(crate) fn merge(types: &Types, root: NodeId, live: &Value, wanted: &Value) -> Result<Option<Value>, Mismatch> {
    visit(types, root, live, wanted)
}

fn visit(types: &Types, id: NodeId, live: &Value, wanted: &Value) -> Result<Option<Value>, Mismatch> {
    let node = types.node(id);
    let (of_live, of_wanted) = (deduce(node, live), deduce(node, wanted));
    if !same_shape(node, of_live, of_wanted) && of_wanted != Deduced::Any {
        return Ok(Some(taken(wanted)));
    }
    as_shape(types, node, of_wanted, live, wanted)
}

fn as_shape(
    types: &Types,
    node: &Node,
    deduced: Deduced,
    live: &Value,
    wanted: &Value,
) -> Result<Option<Value>, Mismatch> {
    match shape(node, deduced) {
        Shape::Map(map) if !map.atomic => match (live, wanted) {
            (Value::Object(live), Value::Object(wanted)) if !live.is_empty() && !wanted.is_empty() => {
                maps(types, map, live, wanted)
            }
            // Null and nothing ask for nothing where there is something.
            (Value::Object(live), _) if !live.is_empty() => Ok(None),
            _ => Ok(replaced(live, wanted)),
        },
        Shape::List(list) if list.associative => match (live, wanted) {
            (Value::Array(live), Value::Array(wanted)) if !live.is_empty() && !wanted.is_empty() => {
                lists(types, list, live, wanted)
            }
            (Value::Array(live), _) if !live.is_empty() => Ok(None),
            _ => Ok(replaced(live, wanted)),
        },
        _ => Ok(replaced(live, wanted)),
    }
}

fn replaced(live: &Value, wanted: &Value) -> Option<Value> {
    (!value::equal(live, wanted)).then(|| taken(wanted))
}

/// A value as a server keeps it: whole numbers have no fraction, however they were written.
fn taken(wanted: &Value) -> Value {
    if let Value::Number(number) = wanted
        && let (true, Some(float)) = (number.is_f64(), number.as_f64())
        && float.fract() == 0.0
        && float.abs() < 9_007_199_254_740_992.0
    {
        #[allow(clippy::cast_possible_truncation, reason = "whole and within 53 bits")]
        return Value::from(float as i64);
    }
    wanted.clone()
}

fn maps(
    types: &Types,
    map: &Map,
    live: &Object<String, Value>,
    wanted: &Object<String, Value>,
) -> Result<Option<Value>, Mismatch> {
    let mut changes: Vec<(&String, Value)> = Vec::new();
    // Both are sorted, so one pass over each finds what they share.
    let mut there = live.iter().peekable();
    for (name, wanted) in wanted {
        while there.next_if(|(found, _)| *found < name).is_some() {}
        let found = there.next_if(|(found, _)| *found == name).map(|(_, value)| value);
        let change = match (found, map.child(name)) {
            (Some(live), Some(child)) => {
                visit(types, child, live, wanted).map_err(|mismatch| beneath(&format!(".{name}"), mismatch))?
            }
            (Some(live), None) => replaced(live, wanted),
            (None, _) => Some(taken(wanted)),
        };
        if let Some(change) = change {
            changes.push((name, change));
        }
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let mut changes = changes.into_iter().peekable();
    let mut out = Object::new();
    for (name, value) in live {
        while let Some((name, change)) = changes.next_if(|(changed, _)| *changed < name) {
            out.insert(name.clone(), change);
        }
        let value = match changes.next_if(|(changed, _)| *changed == name) {
            Some((_, change)) => change,
            None => value.clone(),
        };
        out.insert(name.clone(), value);
    }
    out.extend(changes.map(|(name, change)| (name.clone(), change)));
    Ok(Some(Value::Object(out)))
}

fn beneath(step: &str, mismatch: Mismatch) -> Mismatch {
    Mismatch {
        path: format!("{step}{}", mismatch.path),
        message: mismatch.message,
    }
}

/// Where an item of the merged list comes from.
enum Source {
    Live(usize),
    Made(Value),
}

fn told_apart<'a>(types: &'a Types, list: &'a List, items: &'a [Value]) -> Result<Vec<Item<'a>>, Mismatch> {
    items
        .iter()
        .enumerate()
        .map(|(position, item)| {
            Item::of(types, list, item).map_err(|message| Mismatch {
                path: String::new(),
                message: format!("element {position}: {message}"),
            })
        })
        .collect()
}

/// Items keep the order of `live`, but items that `wanted` names come in its order.
///
/// The walk goes through both lists at once. A shared item of `live` that is not the next shared one of `wanted` is
/// passed over and comes when `wanted` reaches it; items of `live` alone are put where they are met.
fn lists(types: &Types, list: &List, live: &[Value], wanted: &[Value]) -> Result<Option<Value>, Mismatch> {
    let live_items = told_apart(types, list, live)?;
    let wanted_items = told_apart(types, list, wanted)?;
    let live_positions = Positions::of(&live_items);
    let wanted_positions = Positions::of(&wanted_items);
    let in_live = |item: &Item<'_>| !live_positions.find(item).is_empty();
    let in_wanted = |item: &Item<'_>| wanted_positions.find(item).first().copied();

    let mut shared = wanted_items.iter().filter(|item| in_live(item));
    let mut next_shared = shared.next();
    let mut merged = vec![false; wanted_items.len()];
    let mut out = Vec::with_capacity(live.len().max(wanted.len()));
    let (mut left, mut right) = (0, 0);

    let merge_item = |position: usize| -> Result<Option<Source>, Mismatch> {
        let (Some(item), Some(value)) = (wanted_items.get(position), wanted.get(position)) else {
            return Ok(None);
        };
        match live_positions.find(item) {
            [] => Ok(Some(Source::Made(taken(value)))),
            [only] => {
                let before = live.get(*only).unwrap_or(&Value::Null);
                let change = visit(types, list.element, before, value)
                    .map_err(|mismatch| beneath(&item.element().to_string(), mismatch))?;
                Ok(Some(change.map_or(Source::Live(*only), Source::Made)))
            }
            // Which of several would be meant is not known, so none of them has a say.
            _ => Ok(Some(Source::Made(taken(value)))),
        }
    };

    while left < live_items.len() || right < wanted_items.len() {
        if let (Some(of_live), Some(of_wanted)) = (live_items.get(left), wanted_items.get(right)) {
            if of_live == of_wanted {
                if let Some(done) = merged.get_mut(right) {
                    *done = true;
                }
                out.extend(merge_item(right)?);
                left += 1;
                right += 1;
                next_shared = shared.next();
                continue;
            }
            if in_wanted(of_live).is_some() && next_shared.is_some_and(|next| next != of_live) {
                left += 1;
                continue;
            }
        }
        if let Some(of_live) = live_items.get(left) {
            match in_wanted(of_live) {
                None => {
                    out.push(Source::Live(left));
                    left += 1;
                    continue;
                }
                Some(position) if merged.get(position) == Some(&true) => left += 1,
                Some(_) => {}
            }
        }
        if let Some(of_wanted) = wanted_items.get(right) {
            if let Some(done) = merged.get_mut(right) {
                *done = true;
            }
            out.extend(merge_item(right)?);
            right += 1;
            if next_shared == Some(of_wanted) {
                next_shared = shared.next();
            }
        }
    }

    let unchanged = out.len() == live.len()
        && out
            .iter()
            .enumerate()
            .all(|(position, source)| matches!(source, Source::Live(from) if *from == position));
    if unchanged {
        return Ok(None);
    }
    let items = out.into_iter().filter_map(|source| match source {
        Source::Live(position) => live.get(position).cloned(),
        Source::Made(value) => Some(value),
    });
    Ok(Some(Value::Array(items.collect())))
}
