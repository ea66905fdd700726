//! Label and field selectors, with the words in which a server refuses them.

use std::collections::BTreeSet;

use crate::status::Failure;
use crate::store::Stored;

/// What a list or a watch shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    Missing,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Selection {
    /// Reads both selectors; `fields` are the names a field selector may use.
    pub(crate) fn parse(
        labels: Option<&str>,
        fields: Option<&str>,
        known: &[&str],
        is_custom: bool,
    ) -> Result<Self, Failure> {
        Ok(Self {
            labels: Parser::new(labels.unwrap_or_default())
                .requirements()
                .map_err(Failure::bad_request)?,
            fields: parse_fields(fields.unwrap_or_default(), known, is_custom)?,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Shows nothing but the object of this name.
    pub(crate) fn narrow_to(&mut self, name: &str) {
        self.fields.push(("metadata.name".to_owned(), true, name.to_owned()));
    }

    /// Whether an object is shown; `field` answers a field selector's name.
    pub(crate) fn shows(&self, stored: &Stored, field: impl Fn(&str) -> String) -> bool {
        self.labels.iter().all(|requirement| requirement.holds(stored))
            && self
                .fields
                .iter()
                .all(|(name, equal, value)| (field(name) == *value) == *equal)
    }

    /// The name a field selector asks for, which spares a look at all the others.
    pub(crate) fn only_name(&self) -> Option<&str> {
        self.fields
            .iter()
            .find(|(name, equal, _)| name == "metadata.name" && *equal)
            .map(|(_, _, value)| value.as_str())
    }

    pub(crate) fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }
}

impl Requirement {
    fn holds(&self, stored: &Stored) -> bool {
        let value = stored
            .labels
            .iter()
            .find(|(key, _)| *key == self.key)
            .map(|(_, value)| value.as_str());
        match (&self.test, value) {
            (Test::Exists, value) => value.is_some(),
            (Test::Missing, value) => value.is_none(),
            (Test::In(values), value) => value.is_some_and(|value| values.contains(value)),
            (Test::NotIn(values), value) => value.is_none_or(|value| !values.contains(value)),
            (Test::Above(limit), value) => value
                .and_then(|value| value.parse().ok())
                .is_some_and(|value: i64| value > *limit),
            (Test::Below(limit), value) => value
                .and_then(|value| value.parse().ok())
                .is_some_and(|value: i64| value < *limit),
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn new(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text;
        'next: while let Some(first) = rest.chars().next() {
            if first.is_whitespace() {
                rest = rest.trim_start();
                continue;
            }
            for symbol in ["==", "!=", "=", "!", ",", "(", ")", "<", ">"] {
                if let Some(after) = rest.strip_prefix(symbol) {
                    tokens.push(Token::Symbol(symbol));
                    rest = after;
                    continue 'next;
                }
            }
            let end = rest
                .find(|c: char| c.is_whitespace() || "=!,()<>".contains(c))
                .unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        }
        Self { tokens, at: 0 }
    }

    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            if !matches!(self.peek(), Token::Word(_) | Token::Symbol("!")) {
                return Err(format!(
                    "found '{}', expected: !, identifier, or 'end of string'",
                    shown(&self.peek())
                ));
            }
            let requirement = self.requirement();
            requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => {
                    if !matches!(self.peek(), Token::Word(_) | Token::Symbol("!")) {
                        return Err(format!(
                            "found '{}', expected: identifier after ','",
                            shown(&self.peek())
                        ));
                    }
                }
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", shown(&other))),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.at += 1;
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other if negated => return Err(format!("found '{}', expected: identifier", shown(&other))),
            other => {
                return Err(format!(
                    "found '{}', expected: !, identifier, or 'end of string'",
                    shown(&other)
                ));
            }
        };
        judge_key(&key)?;
        if negated {
            return Ok(Requirement {
                key,
                test: Test::Missing,
            });
        }
        let test = match self.peek() {
            Token::End | Token::Symbol(",") => {
                return Ok(Requirement {
                    key,
                    test: Test::Exists,
                });
            }
            Token::Symbol("=" | "==") => {
                self.at += 1;
                Test::In(BTreeSet::from([self.value(&key)?]))
            }
            Token::Symbol("!=") => {
                self.at += 1;
                Test::NotIn(BTreeSet::from([self.value(&key)?]))
            }
            Token::Symbol(symbol @ (">" | "<")) => {
                self.at += 1;
                let text = self.value(&key)?;
                let Ok(limit) = text.parse() else {
                    return Err(format!(
                        "values[0]: Invalid value: \"{text}\": for 'Gt', 'Lt' operators, the value must be an integer"
                    ));
                };
                if symbol == ">" {
                    Test::Above(limit)
                } else {
                    Test::Below(limit)
                }
            }
            Token::Word(word) if word == "in" || word == "notin" => {
                self.at += 1;
                let values = self.values(&key)?;
                if word == "in" {
                    Test::In(values)
                } else {
                    Test::NotIn(values)
                }
            }
            other => {
                return Err(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                    shown(&other)
                ));
            }
        };
        Ok(Requirement { key, test })
    }

    fn value(&mut self, key: &str) -> Result<String, String> {
        match self.peek() {
            Token::Word(value) => {
                self.at += 1;
                judge_value(key, &value)?;
                Ok(value)
            }
            Token::End | Token::Symbol(",") => Ok(String::new()),
            other => Err(format!("found '{}', expected: identifier", shown(&other))),
        }
    }

    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", shown(&other))),
        }
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    judge_value(key, &value)?;
                    values.insert(value);
                }
                Token::Symbol(")") if values.is_empty() => {
                    values.insert(String::new());
                    return Ok(values);
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", shown(&other))),
            }
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',' or ')'", shown(&other))),
            }
        }
    }
}

fn shown(token: &Token) -> &str {
    match token {
        Token::Word(word) => word,
        Token::Symbol(symbol) => symbol,
        Token::End => "",
    }
}

fn judge_key(key: &str) -> Result<(), String> {
    match chandlery_kinds::names::qualified_name(key).as_slice() {
        [] => Ok(()),
        faults => Err(format!("<nil>: Invalid value: \"{key}\": {}", faults.join("; "))),
    }
}

fn judge_value(key: &str, value: &str) -> Result<(), String> {
    match chandlery_kinds::names::label_value(value).as_slice() {
        [] => Ok(()),
        faults => Err(format!(
            "values[0][{key}]: Invalid value: \"{value}\": {}",
            faults.join("; ")
        )),
    }
}

fn parse_fields(text: &str, known: &[&str], is_custom: bool) -> Result<Vec<(String, bool, String)>, Failure> {
    let mut fields = Vec::new();
    for part in split_unescaped(text).into_iter().filter(|part| !part.is_empty()) {
        let Some((name, equal, value)) = split_field(part) else {
            return Err(Failure::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{part}'"
            )));
        };
        let value = unescaped(value)?;
        if !known.contains(&name) {
            return Err(unknown_field(name, known, is_custom));
        }
        fields.push((name.to_owned(), equal, value));
    }
    Ok(fields)
}

/// The terms of a field selector; a comma behind a backslash is part of one.
fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut is_escaped) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        if letter == ',' && !is_escaped {
            parts.extend(text.get(start..at));
            start = at + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    parts.extend(text.get(start..));
    parts
}

/// A value of a field selector, in which commas, equality signs and backslashes stand behind backslashes.
fn unescaped(value: &str) -> Result<String, Failure> {
    let refuse = |why: String| Err(Failure::bad_request(format!("invalid field selector: {why}")));
    let mut out = String::new();
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                other => {
                    return refuse(format!(
                        "invalid escape sequence: \\{}",
                        other.map(String::from).unwrap_or_default()
                    ));
                }
            },
            ',' | '=' => return refuse(format!("unescaped character in value: {}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    Ok(out)
}

fn split_field(part: &str) -> Option<(&str, bool, &str)> {
    if let Some((name, value)) = part.split_once("!=") {
        return Some((name, false, value));
    }
    let (name, value) = part.split_once("==").or_else(|| part.split_once('='))?;
    Some((name, true, value))
}

fn unknown_field(name: &str, known: &[&str], is_custom: bool) -> Failure {
    if known.contains(&"status.successful") {
        // Jobs have words of their own for it.
        return Failure::bad_request(format!("field label \"{name}\" not supported for Job"));
    }
    // Only built-in kinds without selectors of their own tell which there are.
    if is_custom || known.len() > 2 {
        Failure::bad_request(format!("field label not supported: {name}"))
    } else {
        Failure::bad_request(format!(
            "\"{name}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ))
    }
}
