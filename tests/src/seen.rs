//! An object of ours as people see it: conditions and rows.

use std::fmt;

use serde_json::Value;

/// An object with conditions.
#[derive(Clone)]
pub struct Seen(pub Value);

impl Seen {
    /// A condition's status, reason and message; empty where there is no such condition.
    pub fn condition(&self, kind: &str) -> (&str, &str, &str) {
        let conditions = self.0.pointer("/status/conditions").and_then(Value::as_array);
        let found = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == kind);
        let text = |key: &str| found.and_then(|condition| condition[key].as_str()).unwrap_or_default();
        (text("status"), text("reason"), text("message"))
    }

    /// Whether `Ready` is true for the generation that is there now.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").0 == "True" && self.is_current()
    }

    /// Reason of `Ready`.
    pub fn reason(&self) -> &str {
        self.condition("Ready").1
    }

    /// Message of `Ready`.
    pub fn message(&self) -> &str {
        self.condition("Ready").2
    }

    /// Whether only a person can help.
    pub fn is_stalled(&self) -> bool {
        self.condition("Stalled").0 == "True"
    }

    /// Whether the status speaks of the generation that is there now.
    pub fn is_current(&self) -> bool {
        self.0.pointer("/status/observedGeneration") == self.0.pointer("/metadata/generation")
    }

    /// The row of a step; null where there is none.
    pub fn row(&self, step: &str) -> &Value {
        let rows = self.0.pointer("/status/steps").and_then(Value::as_array);
        rows.into_iter()
            .flatten()
            .find(|row| row["name"] == step)
            .unwrap_or(&Value::Null)
    }

    /// State of a step, empty where there is no row.
    pub fn state(&self, step: &str) -> &str {
        self.row(step)["state"].as_str().unwrap_or_default()
    }

    /// The object's UID.
    pub fn uid(&self) -> &str {
        self.0
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = serde_json::json!({"metadata": self.0["metadata"], "status": self.0["status"]});
        write!(formatter, "{told:#}")
    }
}
