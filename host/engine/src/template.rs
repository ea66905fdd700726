//! JSON with `${CEL}` in its texts. A text that is one `${…}` becomes the value itself; `$${` stands for a plain `${`.

use chandlery_core::cluster::Problem;
use serde_json::{Map, Value};

use crate::expression::{Context, Expression};

/// A document parsed once, rendered in every pass.
#[derive(Debug)]
pub struct Template(Node);

#[derive(Debug)]
enum Node {
    Plain(Value),
    Text(Vec<Part>),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

#[derive(Debug)]
enum Part {
    Plain(String),
    Hole(Expression),
}

impl Template {
    /// Parses all texts of a document; `path` is the JSON pointer to it.
    pub fn parse(document: &Value, path: &str, problems: &mut Vec<Problem>) -> Self {
        Self(parse(document, path, problems))
    }

    /// A document that is meant as it is, whatever its texts look like.
    pub fn literal(document: Value) -> Self {
        Self(Node::Plain(document))
    }

    /// Fills the holes.
    ///
    /// # Errors
    /// One problem, with the JSON pointer within the template.
    pub fn render(&self, context: &Context) -> Result<Value, Problem> {
        render(&self.0, context, &mut String::new())
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn parse(document: &Value, path: &str, problems: &mut Vec<Problem>) -> Node {
    match document {
        Value::String(text) if text.contains("${") => match split(text) {
            Ok(parts) => Node::Text(parts),
            Err(message) => {
                problems.push(Problem {
                    path: path.to_owned(),
                    message,
                });
                Node::Plain(Value::Null)
            }
        },
        Value::Array(items) => {
            let nodes: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(i, item)| parse(item, &format!("{path}/{i}"), problems))
                .collect();
            if nodes.iter().all(|n| matches!(n, Node::Plain(_))) {
                Node::Plain(document.clone())
            } else {
                Node::List(nodes)
            }
        }
        Value::Object(map) => {
            let nodes: Vec<_> = map
                .iter()
                .map(|(k, v)| (k.clone(), parse(v, &format!("{path}/{}", escape(k)), problems)))
                .collect();
            if nodes.iter().all(|(_, n)| matches!(n, Node::Plain(_))) {
                Node::Plain(document.clone())
            } else {
                Node::Map(nodes)
            }
        }
        plain => Node::Plain(plain.clone()),
    }
}

/// Splits a text into plain parts and expressions.
fn split(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        let after = after.get(2..).unwrap_or_default();
        if let Some(before) = before.strip_suffix('$') {
            plain.push_str(before);
            plain.push_str("${");
            rest = after;
            continue;
        }
        plain.push_str(before);
        let end = closing_brace(after).ok_or("`${` is not closed by `}`; write `$${` for a plain `${`")?;
        let (expression, tail) = after.split_at(end);
        if !plain.is_empty() {
            parts.push(Part::Plain(std::mem::take(&mut plain)));
        }
        parts.push(Part::Hole(Expression::parse(expression.trim())?));
        rest = tail.get(1..).unwrap_or_default();
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(Part::Plain(plain));
    }
    Ok(parts)
}

/// Where the brace that opened before `text` closes, quotes and nested braces minded.
fn closing_brace(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0_u32, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return Some(at),
            (None, '}') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn render(node: &Node, context: &Context, path: &mut String) -> Result<Value, Problem> {
    let within = |path: &mut String, step: &str, child: &Node| {
        let length = path.len();
        path.push('/');
        path.push_str(&escape(step));
        let value = render(child, context, path);
        path.truncate(length);
        value
    };
    match node {
        Node::Plain(value) => Ok(value.clone()),
        Node::List(items) => items
            .iter()
            .enumerate()
            .map(|(i, item)| within(path, &i.to_string(), item))
            .collect::<Result<_, _>>()
            .map(Value::Array),
        Node::Map(entries) => entries
            .iter()
            .map(|(key, child)| within(path, key, child).map(|value| (key.clone(), value)))
            .collect::<Result<Map<_, _>, _>>()
            .map(Value::Object),
        Node::Text(parts) => {
            let problem = |message: String| Problem {
                path: path.clone(),
                message,
            };
            if let [Part::Hole(only)] = parts.as_slice() {
                return only.evaluate(context).map_err(problem);
            }
            let mut text = String::new();
            for part in parts {
                match part {
                    Part::Plain(plain) => text.push_str(plain),
                    Part::Hole(expression) => match expression.evaluate(context).map_err(problem)? {
                        Value::String(value) => text.push_str(&value),
                        value @ (Value::Number(_) | Value::Bool(_)) => text.push_str(&value.to_string()),
                        other => {
                            return Err(Problem {
                                path: path.clone(),
                                message: format!("{other} cannot stand within a text"),
                            });
                        }
                    },
                }
            }
            Ok(Value::String(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rendered(document: Value) -> Result<Value, Problem> {
        let mut problems = Vec::new();
        let template = Template::parse(&document, "", &mut problems);
        assert_eq!(problems, vec![]);
        let mut context = Context::default();
        context.inputs.insert("n".into(), json!(2));
        context.inputs.insert("s".into(), json!("x"));
        context.inputs.insert("m".into(), json!({"a": 1}));
        template.render(&context)
    }

    #[test]
    fn a_text_that_is_one_hole_becomes_the_value() {
        assert_eq!(
            rendered(json!({"a": "${inputs.n}", "b": ["${inputs.m}"]})).unwrap(),
            json!({"a": 2, "b": [{"a": 1}]})
        );
    }

    #[test]
    fn holes_within_a_text_are_filled() {
        assert_eq!(rendered(json!("${inputs.s}-${inputs.n}!")).unwrap(), json!("x-2!"));
        assert_eq!(rendered(json!("${'}' + inputs.s}{}")).unwrap(), json!("}x{}"));
    }

    #[test]
    fn a_doubled_dollar_is_a_plain_one() {
        assert_eq!(
            rendered(json!("echo $${HOME} $(X) $$ {}")).unwrap(),
            json!("echo ${HOME} $(X) $$ {}")
        );
    }

    #[test]
    fn problems_name_their_place() {
        let mut problems = Vec::new();
        Template::parse(&json!({"a/b": ["${", "${nope}"]}), "/with", &mut problems);
        assert_eq!(
            problems.iter().map(|p| p.path.as_str()).collect::<Vec<_>>(),
            ["/with/a~1b/0", "/with/a~1b/1"]
        );
        assert_eq!(
            rendered(json!({"k": [1, "${inputs.absent}"]})).unwrap_err().path,
            "/k/1"
        );
        assert!(
            rendered(json!("a${inputs.m}"))
                .unwrap_err()
                .message
                .contains("within a text")
        );
    }
}
