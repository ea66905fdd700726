//! Lists of a strategic merge patch: merged by key or as sets, then put in order.
//!
//! Items of the patch come in the order of the patch, the others in the order they had, and where both can be had the two
//! are woven together by the order of before.

use std::mem::discriminant;

use serde_json::Value;

use super::{DIRECTIVE, ListField, Object, bad_argument, bad_format, internal, no_merge_key, taken, unknown_directive};
use crate::patch::PatchError;
use crate::value::write_plain;

/// What items are compared by: their merge key, or themselves.
#[derive(Clone, Copy)]
struct Key<'a>(Option<&'a str>);

impl Key<'_> {
    fn of<'b>(&self, item: &'b Value) -> Option<&'b Value> {
        match self.0 {
            None => Some(item),
            Some(name) => item.get(name),
        }
    }

    fn position(&self, list: &[Value], item: &Value) -> Option<usize> {
        let key = self.of(item);
        list.iter().position(|candidate| self.of(candidate) == key)
    }
}

/// Whether items are maps; they all have to be of one type.
fn are_maps(lists: [&[Value]; 2]) -> Result<bool, PatchError> {
    let mut items = lists.into_iter().flatten();
    let Some(first) = items.next() else {
        return internal("no elements in any of the given slices".into());
    };
    if first.is_array() {
        return Err(PatchError::Unprocessable("lists of lists are not supported".into()));
    }
    if items.any(|item| discriminant(item) != discriminant(first)) {
        let mut out = String::from("list element types are not identical: ");
        write_plain(
            &mut out,
            &Value::from(lists.map(|list| Value::from(list.to_vec())).to_vec()),
        );
        return internal(out);
    }
    Ok(first.is_object())
}

fn as_map(item: &Value) -> Result<&Object, PatchError> {
    match item {
        Value::Object(object) => Ok(object),
        other => bad_argument("map[string]interface {}", other),
    }
}

impl ListField<'_> {
    pub(super) fn merge(
        &self,
        before: Vec<Value>,
        wanted: Vec<Value>,
        deletes: bool,
    ) -> Result<Vec<Value>, PatchError> {
        if !self.merges && !deletes {
            return Ok(wanted);
        }
        if before.is_empty() && wanted.is_empty() {
            return Ok(before);
        }
        if !are_maps([&before, &wanted])? {
            if deletes {
                return Ok(before.into_iter().filter(|item| !wanted.contains(item)).collect());
            }
            let mut merged: Vec<Value> = Vec::with_capacity(before.len() + wanted.len());
            for item in before.iter().chain(&wanted) {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            return in_order(merged, &wanted, &before, Key(None));
        }
        if self.merge_key.is_empty() {
            return internal("cannot merge lists without merge key for struct".into());
        }
        let (before, wanted) = self.follow_directives(before, wanted)?;
        let merged = self.merge_items(before.clone(), &wanted)?;
        in_order(merged, &wanted, &before, Key(Some(self.merge_key)))
    }

    /// Items that bear a directive delete others, or say that the list is replaced.
    fn follow_directives(
        &self,
        mut before: Vec<Value>,
        wanted: Vec<Value>,
    ) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
        let mut plain = Vec::with_capacity(wanted.len());
        let mut replaces = false;
        for item in wanted {
            let object = as_map(&item)?;
            let Some(directive) = object.get(DIRECTIVE) else {
                plain.push(item);
                continue;
            };
            match directive.as_str() {
                Some("delete") => {
                    let Some(key) = object.get(self.merge_key) else {
                        return no_merge_key(object, self.merge_key);
                    };
                    before.retain(|candidate| candidate.get(self.merge_key) != Some(key));
                }
                Some("replace") => replaces = true,
                Some("merge") => return internal("merging lists cannot yet be specified in the patch".into()),
                _ => return unknown_directive(directive, object),
            }
        }
        if replaces {
            Ok((plain, Vec::new()))
        } else {
            Ok((before, plain))
        }
    }

    fn merge_items(&self, mut merged: Vec<Value>, wanted: &[Value]) -> Result<Vec<Value>, PatchError> {
        for item in wanted {
            let object = as_map(item)?;
            let Some(key) = object.get(self.merge_key) else {
                return no_merge_key(object, self.merge_key);
            };
            let found = merged
                .iter_mut()
                .find(|candidate| candidate.get(self.merge_key) == Some(key));
            match found {
                Some(Value::Object(before)) => {
                    *before = self.items.merge(std::mem::take(before), object.clone())?;
                }
                _ => merged.push(item.clone()),
            }
        }
        Ok(merged)
    }

    /// Merges a list for which the patch gives an order; nothing if there is no list.
    pub(super) fn merge_in_order(
        &self,
        before: Option<Vec<Value>>,
        wanted: Option<Vec<Value>>,
        order: &[Value],
    ) -> Result<Option<Vec<Value>>, PatchError> {
        self.check_order(wanted.as_deref().unwrap_or_default(), order)?;
        let live = before.clone().unwrap_or_default();
        let types = are_maps_of(&live, wanted.as_deref().unwrap_or_default());
        let merged = match (before, wanted) {
            (None, None) => return Ok(None),
            (Some(before), None) => before,
            (None, Some(wanted)) => wanted.iter().filter_map(taken).collect(),
            (Some(before), Some(wanted)) => self.merge(before, wanted, false)?,
        };
        let key = Key((!self.merge_key.is_empty()).then_some(self.merge_key));
        if key.0.is_some() {
            for item in &merged {
                let object = as_map(item)?;
                if !object.contains_key(self.merge_key) {
                    return no_merge_key(object, self.merge_key);
                }
            }
        }
        types?;
        in_order(merged, order, &live, key).map(Some)
    }

    /// The items of the patch have to be in the order that it gives.
    fn check_order(&self, wanted: &[Value], order: &[Value]) -> Result<(), PatchError> {
        if order.is_empty() || wanted.is_empty() {
            return Ok(());
        }
        let key = Key((!self.merge_key.is_empty()).then_some(self.merge_key));
        let mut left = Vec::with_capacity(wanted.len());
        for item in wanted {
            let deleted = match key.0 {
                None => false,
                Some(_) => as_map(item)?
                    .get(DIRECTIVE)
                    .is_some_and(|directive| directive == "delete"),
            };
            if !deleted {
                left.push(item);
            }
        }
        let mut left = left.into_iter().filter(|item| item.get(DIRECTIVE).is_none()).peekable();
        for ordered in order {
            let Some(item) = left.peek() else { break };
            if let Some(merge_key) = key.0 {
                for side in [*item, ordered] {
                    let object = as_map(side)?;
                    if !object.contains_key(merge_key) {
                        return no_merge_key(object, merge_key);
                    }
                }
            }
            if key.of(item) == key.of(ordered) {
                left.next();
            }
        }
        if left.peek().is_none() {
            return Ok(());
        }
        let mut out = String::from("The order in patch list:\n");
        write_plain(&mut out, &Value::from(wanted.to_vec()));
        out.push_str("\n doesn't match $setElementOrder list:\n");
        write_plain(&mut out, &Value::from(order.to_vec()));
        out.push('\n');
        internal(out)
    }
}

fn are_maps_of(before: &[Value], wanted: &[Value]) -> Result<bool, PatchError> {
    are_maps([before, wanted])
}

/// Puts merged items in order.
fn in_order(
    merged: Vec<Value>,
    patch_order: &[Value],
    live_order: &[Value],
    key: Key<'_>,
) -> Result<Vec<Value>, PatchError> {
    if key.0.is_some() && patch_order.iter().any(|item| !item.is_object()) {
        return bad_format("setElementOrder list");
    }
    let (mut of_patch, mut of_live) = (Vec::new(), Vec::new());
    for item in merged {
        let in_live = key.position(live_order, &item);
        match key.position(patch_order, &item) {
            Some(position) => of_patch.push((position, in_live, item)),
            None => of_live.push((in_live, item)),
        }
    }
    of_patch.sort_by_key(|(position, _, _)| *position);
    of_live.sort_by_key(|(position, _)| *position);
    let mut out = Vec::with_capacity(of_patch.len() + of_live.len());
    let mut of_live = of_live.into_iter().peekable();
    for (_, in_live, item) in of_patch {
        let is_before = |candidate: &(Option<usize>, Value)| match (candidate.0, in_live) {
            (Some(candidate), Some(position)) => candidate < position,
            _ => false,
        };
        while let Some((_, item)) = of_live.next_if(is_before) {
            out.push(item);
        }
        out.push(item);
    }
    out.extend(of_live.map(|(_, item)| item));
    Ok(out)
}
