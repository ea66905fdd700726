//! Kubernetes quantities: kept as they were written, checked when they are read.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// A Kubernetes quantity such as `500m`, `2`, `1.5Gi` or `1e3`, written as a string or a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Quantity(String);

impl Quantity {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix(['+', '-']).unwrap_or(text);
        let digits = number
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(number.len());
        let (number, suffix) = number.split_at(digits);
        let is_number = number.contains(|c: char| c.is_ascii_digit()) && number.matches('.').count() <= 1;
        let is_suffix = [
            "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
        ]
        .contains(&suffix)
            || suffix
                .strip_prefix(['e', 'E'])
                .is_some_and(|exponent| exponent.parse::<i32>().is_ok());
        if is_number && is_suffix {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("\"{text}\" is not a quantity such as 500m, 2 or 1.5Gi"))
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a quantity such as 500m, 2 or 1.5Gi")]
        enum Written {
            Text(String),
            Number(serde_json::Number),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Number(number) => number.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A Kubernetes quantity such as 500m, 2 or 1.5Gi.",
            "type": ["string", "number"],
            "pattern": "^[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_told_from_their_look_alikes() {
        for good in ["0", "500m", "2", "1.5Gi", "1e3", "1E3", "2E", "-1", "+.5k"] {
            assert!(good.parse::<Quantity>().is_ok(), "{good}");
        }
        for bad in ["", "m", ".", "1.2.3", "5x", "1 Gi", "Gi5", "1ee"] {
            assert!(bad.parse::<Quantity>().is_err(), "{bad}");
        }
        assert_eq!(serde_json::from_str::<Quantity>("2").unwrap().as_str(), "2");
    }
}
