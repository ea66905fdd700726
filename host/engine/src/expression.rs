//! CEL expressions over `inputs` and the outputs of steps: parsed when the graph is compiled, evaluated in a pass.

use std::collections::{BTreeMap, HashMap};

use chandlery_core::StepName;
use serde_json::{Map, Value, json};

/// Longest expression in bytes: parsing is recursive, and a tenant writes it.
const LONGEST: usize = 4_096;
/// Deepest nesting of brackets, for the same reason.
const DEEPEST: usize = 32;

/// Values an expression may use.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The provision's inputs.
    pub inputs: Map<String, Value>,
    /// Outputs of the steps that are done.
    pub outputs: BTreeMap<StepName, Value>,
}

/// A parsed expression.
#[derive(Debug)]
pub struct Expression {
    program: cel::Program,
    text: String,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// One sentence: too long, nested too deep, does not parse, or names a variable there is not.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("the expression is longer than {LONGEST} bytes"));
        }
        let mut depth = 0_usize;
        for byte in text.bytes() {
            match byte {
                b'(' | b'[' | b'{' | b'?' | b'!' | b'-' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > DEEPEST {
                return Err(format!("the expression is nested deeper than {DEEPEST} levels"));
            }
        }
        let program = cel::Program::compile(text).map_err(|error| {
            format!(
                "`{text}` is not a CEL expression: {}",
                error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
            )
        })?;
        let unknown: Vec<_> = program
            .references()
            .variables()
            .into_iter()
            .filter(|v| !["inputs", "steps"].contains(v))
            .map(str::to_owned)
            .collect();
        match unknown.first() {
            Some(name) => Err(format!("`{text}` uses `{name}`; there are `inputs` and `steps`")),
            None => Ok(Self {
                program,
                text: text.to_owned(),
            }),
        }
    }

    /// Evaluates to JSON.
    ///
    /// # Errors
    /// One sentence: what is missing or of the wrong type.
    pub fn evaluate(&self, context: &Context) -> Result<Value, String> {
        let mut variables = cel::Context::default();
        let steps: Map<String, Value> = context
            .outputs
            .iter()
            .map(|(step, outputs)| (step.to_string(), json!({"outputs": outputs})))
            .collect();
        for (name, value) in [
            ("inputs", Value::Object(context.inputs.clone())),
            ("steps", Value::Object(steps)),
        ] {
            variables.add_variable_from_value(name, to_cel(&value));
        }
        let value = self
            .program
            .execute(&variables)
            .map_err(|error| format!("`{}`: {error}", self.text))?;
        value
            .json()
            .map_err(|error| format!("`{}` gives no JSON: {error}", self.text))
    }

    /// Evaluates to a truth value.
    ///
    /// # Errors
    /// As [`Expression::evaluate`], and where the value is not a truth value.
    pub fn is_true(&self, context: &Context) -> Result<bool, String> {
        match self.evaluate(context)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(format!("`{}` gives {other}, not true or false", self.text)),
        }
    }
}

/// JSON as CEL sees it. A whole number is an `int`: were it a `uint`, `inputs.count + 1` would not add.
fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(int), _, _) => int.into(),
            (None, Some(uint), _) => uint.into(),
            (None, None, float) => float.unwrap_or(f64::NAN).into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(to_cel).collect::<Vec<_>>().into(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), to_cel(value)))
            .collect::<HashMap<_, _>>()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        let mut context = Context::default();
        context.inputs.insert("retain".into(), json!(true));
        context.inputs.insert("count".into(), json!(3));
        context
            .outputs
            .insert("net".parse().unwrap(), json!({"cidr": "10.0.0.0/8"}));
        context
    }

    #[test]
    fn inputs_and_outputs_are_seen() {
        assert!(
            Expression::parse("inputs.retain && steps.net.outputs.cidr.startsWith('10.')")
                .unwrap()
                .is_true(&context())
                .unwrap()
        );
        assert_eq!(
            Expression::parse("inputs.count + 1")
                .unwrap()
                .evaluate(&context())
                .unwrap(),
            json!(4)
        );
        assert_eq!(
            Expression::parse("[inputs.count, 2]")
                .unwrap()
                .evaluate(&context())
                .unwrap(),
            json!([3, 2])
        );
    }

    #[test]
    fn what_is_missing_is_told() {
        let missing = Expression::parse("inputs.absent")
            .unwrap()
            .evaluate(&context())
            .unwrap_err();
        assert!(missing.contains("absent"), "{missing}");
        let not_bool = Expression::parse("inputs.count")
            .unwrap()
            .is_true(&context())
            .unwrap_err();
        assert!(not_bool.contains("not true or false"), "{not_bool}");
    }

    #[test]
    fn nonsense_is_refused_when_parsed() {
        for bad in [
            "inputs.",
            "1 +",
            "secrets.a",
            &"(".repeat(5_000),
            &"!".repeat(2_000),
            &"a".repeat(5_000),
        ] {
            assert!(Expression::parse(bad).is_err(), "{}", &bad[..bad.len().min(40)]);
        }
    }
}
