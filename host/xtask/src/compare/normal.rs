//! What may differ between two servers and says nothing: UIDs, times, counters, addresses. Each is replaced by a name that
//! tells whether two of them were the same on one side.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

/// The names one side's accidental values got, in the order in which they appeared.
#[derive(Clone)]
pub(super) struct Normaliser {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
    names: BTreeMap<String, String>,
    uid: Regex,
    time: Regex,
    generated: Regex,
    mount: Regex,
    counter: Regex,
    inner: Regex,
    address: Regex,
    age: Regex,
    node_port: Regex,
}

impl Normaliser {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            uids: BTreeMap::new(),
            versions: BTreeMap::new(),
            names: BTreeMap::new(),
            uid: Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")?,
            time: Regex::new(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")?,
            generated: Regex::new("gen-[bcdfghjklmnpqrstvwxz2456789]{5}")?,
            mount: Regex::new("kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}")?,
            age: Regex::new(r"^(\d+[dhms])+$")?,
            node_port: Regex::new(r"(\d+:)3\d{4}/")?,
            address: Regex::new(r"\b10\.0\.0\.\d+\b")?,
            inner: Regex::new(r"(?s)Invalid value: (?:[a-z0-9]+\.[A-Z]|[{&]).*: field is immutable")?,
            counter: Regex::new(
                r"(record \(|current: |resource version: |precondition \(|ResourceVersion in (?:precondition|object meta): )\d+(\s*\(\d+\))?",
            )?,
        })
    }

    /// A whole answer.
    pub(super) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) => self.map(map),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn map(&mut self, map: &Map<String, Value>) -> Value {
        let mut out = Map::new();
        let is_status = map.get("kind").is_some_and(|kind| kind == "Status");
        let is_list = map.contains_key("items") || map.contains_key("columnDefinitions");
        for (key, value) in map {
            let value = match (key.as_str(), value) {
                // Of a list it is the state of the whole server.
                ("metadata", Value::Object(metadata)) if is_list => self.list_metadata(metadata),
                ("resourceVersion", Value::String(text)) if !text.is_empty() => Value::String(self.version(text)),
                ("clusterIP", Value::String(text)) if text.starts_with("10.") => Value::from("ADDRESS"),
                ("clusterIPs", Value::Array(items))
                    if items
                        .iter()
                        .any(|item| item.as_str().is_some_and(|text| text.starts_with("10."))) =>
                {
                    Value::from(vec!["ADDRESS"])
                }
                // Each server has its own.
                ("ca.crt", Value::String(_)) => Value::from("CERTIFICATE"),
                ("nodePort" | "healthCheckNodePort", Value::Number(_)) => Value::from("PORT"),
                // Of definitions of one group, one comes before the other by the luck of a Go map.
                ("resources", Value::Array(entries)) if map.contains_key("groupVersion") => {
                    let mut entries: Vec<Value> = entries.iter().map(|entry| self.value(entry)).collect();
                    entries.sort_by_key(|entry| entry.get("name").map(ToString::to_string));
                    Value::Array(entries)
                }
                // Ages, addresses and ports among them.
                ("cells", Value::Array(cells)) => cells.iter().map(|cell| self.cell(cell)).collect(),
                // Their order depends on which writes fell into the same second.
                ("managedFields", Value::Array(entries)) => {
                    let mut entries: Vec<Value> = entries.iter().map(|entry| self.value(entry)).collect();
                    entries.sort_by_key(|entry| {
                        ["manager", "operation", "apiVersion", "subresource"]
                            .map(|key| entry.get(key).map(ToString::to_string))
                    });
                    Value::Array(entries)
                }
                ("message", Value::String(text)) if is_status => Value::String(self.message(text)),
                ("message", Value::String(text)) if map.contains_key("field") => {
                    let text = self.without_inner_types(text);
                    Value::String(self.text(&text))
                }
                _ => self.value(value),
            };
            out.insert(self.text(key), value);
        }
        if is_status {
            sort_causes(&mut out);
        }
        Value::Object(out)
    }

    fn cell(&mut self, cell: &Value) -> Value {
        let Some(text) = cell.as_str() else {
            return self.value(cell);
        };
        if self.age.is_match(text) {
            return Value::from("AGE");
        }
        let text = self.address.replace_all(text, "ADDRESS");
        let text = self.node_port.replace_all(&text, "${1}PORT/");
        Value::String(self.text(&text))
    }

    fn list_metadata(&mut self, metadata: &Map<String, Value>) -> Value {
        let mut out = Map::new();
        for (key, value) in metadata {
            out.insert(
                key.clone(),
                match key.as_str() {
                    "resourceVersion" => Value::from("..."),
                    "continue" if value != "" => Value::from("..."),
                    _ => value.clone(),
                },
            );
        }
        Value::Object(out)
    }

    fn version(&mut self, text: &str) -> String {
        let next = format!("version-{}", self.versions.len() + 1);
        self.versions.entry(text.to_owned()).or_insert(next).clone()
    }

    /// Where a real server shows what it has in Go: a difference of its inner types, or one of them whole.
    fn without_inner_types(&self, text: &str) -> String {
        let text = text.split("\n@@").next().unwrap_or_default().trim_end();
        let text = self.inner.replace_all(text, "Invalid value: ...: field is immutable");
        // Which address a Service got is luck, also where it is quoted.
        self.address.replace_all(&text, "ADDRESS").into_owned()
    }

    /// Sentences in which one server quotes what its parser choked on.
    fn message(&mut self, text: &str) -> String {
        let text = self.without_inner_types(text);
        let mut text = self.text(&text);
        for mark in [
            "json parse error:",
            "json: cannot unmarshal",
            "error decoding YAML",
            "parsing time",
            "illegal base64",
            "strict decoding error:",
            // The whole object follows, in the order of a Go map.
            "patch: Invalid value:",
            "failed to create typed patch object",
        ] {
            if let Some(at) = text.find(mark) {
                text.truncate(at + mark.len());
            }
        }
        text
    }

    fn text(&mut self, text: &str) -> String {
        let mut out = text.to_owned();
        let uids: Vec<String> = self
            .uid
            .find_iter(text)
            .map(|found| found.as_str().to_owned())
            .collect();
        for uid in uids {
            let next = format!("uid-{}", self.uids.len() + 1);
            let name = self.uids.entry(uid.clone()).or_insert(next).clone();
            out = out.replace(&uid, &name);
        }
        let names: Vec<String> = self
            .generated
            .find_iter(text)
            .map(|found| found.as_str().to_owned())
            .collect();
        for generated in names {
            let next = format!("generated-{}", self.names.len() + 1);
            let name = self.names.entry(generated.clone()).or_insert(next).clone();
            out = out.replace(&generated, &name);
        }
        out = self.time.replace_all(&out, "TIME").into_owned();
        out = self.mount.replace_all(&out, "kube-api-access-...").into_owned();
        self.counter.replace_all(&out, "${1}N").into_owned()
    }
}

/// Causes come in the order of Go's maps where the server checks a map, which is none.
fn sort_causes(status: &mut Map<String, Value>) {
    let whole_object = |cause: &mut Value| {
        if cause.get("field").is_some_and(|field| field == "patch")
            && let Some(cause) = cause.as_object_mut()
        {
            cause.remove("message");
        }
    };
    let causes = status
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"))
        .and_then(Value::as_array_mut);
    let Some(causes) = causes else { return };
    causes.iter_mut().for_each(whole_object);
    let before = causes.clone();
    causes.sort_by_key(Value::to_string);
    // A server that looks at metadata in two places says the same twice; how often means nothing.
    causes.dedup();
    if *causes != before || causes.len() > 1 {
        // The sentence lists them in the same order; the parts are compared, one by one.
        let head = status
            .get("message")
            .and_then(Value::as_str)
            .and_then(|message| message.split_once(": [").map(|(head, _)| head.to_owned()));
        if let Some(head) = head {
            status.insert("message".to_owned(), Value::String(head));
        }
    }
}

/// Where two values differ, as paths; at most a few.
pub(super) fn differences(one: &Value, other: &Value) -> Vec<String> {
    let mut found = Vec::new();
    differ(one, other, &mut String::new(), &mut found);
    found
}

fn differ(one: &Value, other: &Value, path: &mut String, found: &mut Vec<String>) {
    if one == other || found.len() > 20 {
        return;
    }
    let length = path.len();
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                path.push('.');
                path.push_str(key);
                match (one.get(key), other.get(key)) {
                    (Some(one), Some(other)) => differ(one, other, path, found),
                    (Some(one), None) => found.push(format!("{path}: only real: {}", short(one))),
                    (None, Some(other)) => found.push(format!("{path}: only simulated: {}", short(other))),
                    (None, None) => {}
                }
                path.truncate(length);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (position, (one, other)) in one.iter().zip(other).enumerate() {
                path.push_str(&format!("[{position}]"));
                differ(one, other, path, found);
                path.truncate(length);
            }
        }
        (one, other) => found.push(format!("{path}: real {} · simulated {}", short(one), short(other))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(400) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}
