//! Protobuf, as far as kubectl writes it: the few objects its own commands make (`create namespace`, `create token`, `auth`).
//! Answers are JSON, which every client takes; any other object in protobuf is refused with a word about it.

use serde_json::{Map, Value};

/// What a field holds.
enum Shape {
    Text,
    Number,
    /// Of the field, one after the other.
    Texts,
    /// Keys and values, one message each.
    TextMap,
    Message(&'static [Field]),
    /// What a server fills in itself.
    Ignored,
}

type Field = (u64, &'static str, Shape);

const METADATA: &[Field] = &[
    (1, "name", Shape::Text),
    (2, "generateName", Shape::Text),
    (3, "namespace", Shape::Text),
    (4, "selfLink", Shape::Ignored),
    (5, "uid", Shape::Text),
    (6, "resourceVersion", Shape::Text),
    (7, "generation", Shape::Ignored),
    (8, "creationTimestamp", Shape::Ignored),
    (11, "labels", Shape::TextMap),
    (12, "annotations", Shape::TextMap),
    (14, "finalizers", Shape::Texts),
];
const NAMESPACE: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (2, "spec", Shape::Message(&[(1, "finalizers", Shape::Texts)])),
    (3, "status", Shape::Ignored),
];
const TOKEN_REQUEST: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (
        2,
        "spec",
        Shape::Message(&[
            (1, "audiences", Shape::Texts),
            (
                3,
                "boundObjectRef",
                Shape::Message(&[
                    (1, "kind", Shape::Text),
                    (2, "apiVersion", Shape::Text),
                    (3, "name", Shape::Text),
                    (4, "uid", Shape::Text),
                ]),
            ),
            (4, "expirationSeconds", Shape::Number),
        ]),
    ),
    (3, "status", Shape::Ignored),
];
const ACCESS_REVIEW: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (
        2,
        "spec",
        Shape::Message(&[
            (
                1,
                "resourceAttributes",
                Shape::Message(&[
                    (1, "namespace", Shape::Text),
                    (2, "verb", Shape::Text),
                    (3, "group", Shape::Text),
                    (4, "version", Shape::Text),
                    (5, "resource", Shape::Text),
                    (6, "subresource", Shape::Text),
                    (7, "name", Shape::Text),
                ]),
            ),
            (
                2,
                "nonResourceAttributes",
                Shape::Message(&[(1, "path", Shape::Text), (2, "verb", Shape::Text)]),
            ),
        ]),
    ),
    (3, "status", Shape::Ignored),
];
const RULES_REVIEW: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (2, "spec", Shape::Message(&[(1, "namespace", Shape::Text)])),
    (3, "status", Shape::Ignored),
];
const SUBJECT_REVIEW: &[Field] = &[(1, "metadata", Shape::Message(METADATA)), (2, "status", Shape::Ignored)];

/// The envelope around every object.
const ENVELOPE: &[u8] = b"k8s\0";

/// The object in a body; none if it is of a kind, or has a field, that is not known here.
pub(crate) fn read(body: &[u8]) -> Option<Value> {
    let mut rest = body.strip_prefix(ENVELOPE)?;
    let (mut kind, mut raw) = (None, &[][..]);
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, Wire::Bytes(bytes)) => {
                let fields: &[Field] = &[(1, "apiVersion", Shape::Text), (2, "kind", Shape::Text)];
                kind = Some(message(bytes, fields)?);
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let kind = kind?;
    let text = |name: &str| kind.get(name).and_then(Value::as_str).unwrap_or_default();
    let fields = match (text("apiVersion"), text("kind")) {
        ("v1", "Namespace") => NAMESPACE,
        ("authentication.k8s.io/v1", "TokenRequest") => TOKEN_REQUEST,
        ("authentication.k8s.io/v1", "SelfSubjectReview") => SUBJECT_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => ACCESS_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => RULES_REVIEW,
        _ => return None,
    };
    let mut object = message(raw, fields)?;
    object.extend(kind);
    Some(Value::Object(object))
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(first & 0x7f).checked_shl(shift)?;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let key = number(rest)?;
    let wire = match key & 7 {
        0 => Wire::Number(number(rest)?),
        2 => {
            let length = usize::try_from(number(rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(length)?;
            *rest = after;
            Wire::Bytes(bytes)
        }
        _ => return None,
    };
    Some((key >> 3, wire))
}

fn message(mut rest: &[u8], fields: &[Field]) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    while !rest.is_empty() {
        let (index, wire) = field(&mut rest)?;
        let (_, name, shape) = fields.iter().find(|(known, _, _)| *known == index)?;
        let name = (*name).to_owned();
        match (shape, wire) {
            (Shape::Ignored, _) => {}
            (Shape::Number, Wire::Number(value)) => {
                object.insert(name, value.into());
            }
            (Shape::Text, Wire::Bytes(bytes)) => {
                // A text that is not there is written as an empty one.
                if !bytes.is_empty() {
                    object.insert(name, std::str::from_utf8(bytes).ok()?.into());
                }
            }
            (Shape::Texts, Wire::Bytes(bytes)) => {
                let text = std::str::from_utf8(bytes).ok()?.into();
                let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut()?.push(text);
            }
            (Shape::TextMap, Wire::Bytes(bytes)) => {
                let entry = message(bytes, &[(1, "key", Shape::Text), (2, "value", Shape::Text)])?;
                let text = |part: &str| entry.get(part).and_then(Value::as_str).unwrap_or_default().to_owned();
                let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
                map.as_object_mut()?.insert(text("key"), text("value").into());
            }
            (Shape::Message(fields), Wire::Bytes(bytes)) => {
                object.insert(name, Value::Object(message(bytes, fields)?));
            }
            _ => return None,
        }
    }
    Some(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(index: u8, text: &str) -> Vec<u8> {
        bytes(index, text.as_bytes())
    }

    fn bytes(index: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).unwrap();
        [&[index << 3 | 2, length][..], bytes].concat()
    }

    fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let of = [text(1, api_version), text(2, kind)].concat();
        [
            ENVELOPE.to_vec(),
            bytes(1, &of),
            bytes(2, raw),
            text(3, ""),
            text(4, ""),
        ]
        .concat()
    }

    #[test]
    fn a_namespace_is_read_with_its_name_and_labels() {
        let label = [text(1, "a"), text(2, "b")].concat();
        let metadata = [text(1, "team"), text(2, ""), bytes(11, &label), bytes(8, &[])].concat();
        let raw = [bytes(1, &metadata), bytes(2, &[]), bytes(3, &[])].concat();
        assert_eq!(
            read(&enveloped("v1", "Namespace", &raw)),
            Some(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"a": "b"}}, "spec": {}})
            )
        );
    }

    #[test]
    fn other_kinds_unknown_fields_and_halves_are_not_read() {
        assert_eq!(read(&enveloped("v1", "Pod", &[])), None);
        assert_eq!(read(&enveloped("v1", "Namespace", &text(9, "x"))), None);
        assert_eq!(read(b"k8s\0\x0a\x7f"), None);
        assert_eq!(read(b"{}"), None);
    }
}
