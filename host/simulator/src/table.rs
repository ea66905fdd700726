//! Tables: what `kubectl get` shows.

use serde_json::{Map, Value, json};

use crate::catalog::Resource;
use crate::form::{self, Include};
use crate::world::World;

impl World {
    /// A table without rows.
    pub(crate) fn table_head(&self, resource: &Resource, version: &str) -> Value {
        let columns: Vec<Value> = if let Some(custom) = resource.custom() {
            custom.columns(version)
        } else if let Some(columns) = resource.built_in_kind().and_then(|kind| kind.columns()) {
            columns
                .iter()
                .map(|column| {
                    definition(
                        column.name,
                        column.kind,
                        column.format,
                        column.description,
                        column.priority,
                    )
                })
                .collect()
        } else {
            // The word of a kind without printer of its own.
            vec![
                definition("Name", "string", "name", "", 0),
                definition("Created At", "date", "", "", 0),
            ]
        };
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": columns, "rows": []})
    }

    pub(crate) fn table_row(&self, resource: &Resource, version: &str, document: &Value, include: Include) -> Value {
        let name = crate::object::name(document);
        let cells: Vec<Value> = if let Some(custom) = resource.custom() {
            custom.cells(version, document, self.now.as_second())
        } else {
            match resource.built_in_kind() {
                Some(kind) if kind.columns().is_some() => kind.row(document, self.now.as_second()),
                _ => vec![
                    name.into(),
                    crate::object::metadata(document)
                        .get("creationTimestamp")
                        .cloned()
                        .unwrap_or_else(|| "<unknown>".into()),
                ],
            }
        };
        let mut row = Map::new();
        row.insert("cells".into(), Value::Array(cells));
        if resource.is("", "pods") {
            let ended = match document.pointer("/status/phase").and_then(Value::as_str) {
                Some("Succeeded") => Some(("Succeeded", "The pod has completed successfully.")),
                Some("Failed") => Some(("Failed", "The pod failed.")),
                _ => None,
            };
            if let Some((reason, message)) = ended {
                let condition = json!({"type": "Completed", "status": "True", "reason": reason, "message": message});
                row.insert("conditions".into(), json!([condition]));
            }
        }
        match include {
            Include::Nothing => {}
            Include::Metadata => {
                let partial = form::partial(document);
                row.insert("object".into(), partial);
            }
            Include::Object => {
                row.insert("object".into(), document.clone());
            }
        }
        Value::Object(row)
    }
}

pub(crate) fn definition(name: &str, kind: &str, format: &str, description: &str, priority: u8) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}
