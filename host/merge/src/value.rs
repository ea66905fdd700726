//! How values are compared, ordered and printed by an API server, where that is not how JSON libraries do it.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// Equality in which `1` is `1.0`.
pub(crate) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare_numbers(one, other) == Ordering::Equal,
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|((name, one), (other_name, other))| name == other_name && equal(one, other))
        }
        _ => one == other,
    }
}

/// A total order: numbers, texts, booleans, lists, maps, null.
pub(crate) fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare_numbers(one, other),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            let differing = one.iter().zip(other).map(|(one, other)| compare(one, other));
            differing
                .into_iter()
                .find(|order| order.is_ne())
                .unwrap_or_else(|| one.len().cmp(&other.len()))
        }
        (Value::Object(one), Value::Object(other)) => compare_maps(one, other),
        _ => rank(one).cmp(&rank(other)),
    }
}

fn compare_maps(one: &Map<String, Value>, other: &Map<String, Value>) -> Ordering {
    for ((name, value), (other_name, other_value)) in one.iter().zip(other) {
        let order = name.cmp(other_name).then_with(|| compare(value, other_value));
        if order.is_ne() {
            return order;
        }
    }
    one.len().cmp(&other.len())
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(one: &Number, other: &Number) -> Ordering {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
            float(one).partial_cmp(&float(other)).unwrap_or(Ordering::Equal)
        }
    }
}

/// Appends a value as it appears in a path: `[name="a",port=80]`.
pub(crate) fn write_in_path(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => quote(out, text),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_in_path(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            for (name, value) in map {
                out.push_str(name);
                out.push('=');
                write_in_path(out, value);
            }
        }
    }
}

/// A number as Go prints it: whole ones as they are, the others by [`write_float`].
pub(crate) fn write_number(out: &mut String, number: &Number) {
    if number.is_i64() || number.is_u64() {
        let _ = write!(out, "{number}");
        return;
    }
    write_float(out, number.as_f64().unwrap_or(f64::NAN));
}

/// A float as Go prints it: whole floats without a fraction, those of seven digits and more with an exponent.
fn write_float(out: &mut String, float: f64) {
    if float == 0.0 || (1e-4..1e6).contains(&float.abs()) {
        let _ = write!(out, "{float}");
        return;
    }
    let scientific = format!("{float:e}");
    match scientific.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            let _ = write!(out, "{mantissa}e{sign}{digits:0>2}");
        }
        None => out.push_str(&scientific),
    }
}

/// Appends a value as Go prints it plainly: `map[a:1 b:[x y]]`.
pub(crate) fn write_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(' ');
                }
                write_plain(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => write_plain_map(out, object),
    }
}

/// [`write_plain`] of an object.
pub(crate) fn write_plain_map(out: &mut String, object: &Map<String, Value>) {
    out.push_str("map[");
    for (position, (name, value)) in object.iter().enumerate() {
        if position > 0 {
            out.push(' ');
        }
        out.push_str(name);
        out.push(':');
        write_plain(out, value);
    }
    out.push(']');
}

/// A text in quotes as Go quotes it.
pub(crate) fn quote(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                let _ = write!(out, "\\x{:02x}", control as u32);
            }
            control if control.is_control() || control == '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

/// [`quote`], as a new text.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_and_broken_numbers_of_the_same_size_are_equal() {
        assert!(equal(&json!({ "a": [1] }), &json!({ "a": [1.0] })));
        assert!(!equal(&json!(1), &json!("1")));
    }

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        let printed = |value: Value| {
            let mut out = String::new();
            write_in_path(&mut out, &value);
            out
        };
        assert_eq!(printed(json!(80.0)), "80");
        assert_eq!(printed(json!(1e21)), "1e+21");
        assert_eq!(printed(json!(1_234_567.0)), "1.234567e+06");
        assert_eq!(printed(json!(1_234_567)), "1234567");
        assert_eq!(printed(json!(0.00001)), "1e-05");
        assert_eq!(printed(json!(1.5)), "1.5");
        assert_eq!(printed(json!("a\"\u{1}")), "\"a\\\"\\x01\"");
    }
}
