//! From a Rust type to its JSON Schema, and from a document to the type, with the place where it does not fit.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use crate::Problem;

/// The JSON Schema (2020-12) of a type.
pub(crate) fn schema_of<T: JsonSchema>() -> String {
    schemars::schema_for!(T).as_value().to_string()
}

/// Reads a document into a type.
pub(crate) fn parse<T: DeserializeOwned>(document: &str) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(document);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = pointer(error.path());
        let message = error.into_inner().to_string();
        // The document was not written on one line by the person who reads this.
        let message = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(what, _)| what)
            .to_owned();
        Problem { path, message }
    })
}

/// A path as JSON pointer (RFC 6901).
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        let part = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } => key.replace('~', "~0").replace('/', "~1"),
            Segment::Enum { variant } => variant.replace('~', "~0").replace('/', "~1"),
            Segment::Unknown => continue,
        };
        pointer.push('/');
        pointer.push_str(&part);
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Spec {
        teams: Vec<BTreeMap<String, u8>>,
    }

    #[test]
    fn a_wrong_document_is_told_by_its_place() {
        let wrong = parse::<Spec>(r#"{"teams": [{}, {"a/b~c": "many"}]}"#).unwrap_err();
        assert_eq!(wrong.path, "/teams/1/a~1b~0c");
        assert_eq!(wrong.message, "invalid type: string \"many\", expected u8");
        let missing = parse::<Spec>("{}").unwrap_err();
        assert_eq!(
            (missing.path.as_str(), missing.message.as_str()),
            ("", "missing field `teams`")
        );
    }

    #[test]
    fn a_schema_is_of_the_newest_draft() {
        assert!(schema_of::<Spec>().contains("https://json-schema.org/draft/2020-12/schema"));
    }
}
