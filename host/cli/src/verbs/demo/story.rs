//! What a person reads while it runs: when, and what; plain lines, the same on a terminal and in a file.

use std::time::Instant;

use kube::Client;
use serde_json::Value;

use crate::output::print;

/// The telling of one run.
pub(super) struct Story {
    started: Instant,
}

type Told = anyhow::Result<()>;

impl Story {
    pub(super) fn begin() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// Opens a part.
    pub(super) fn chapter(&self, title: &str) -> Told {
        write(&format!("\n== {title}\n"))
    }

    /// One thing that happened just now.
    pub(super) fn say(&self, text: &str) -> Told {
        write(&format!("{:7.2} s  {text}\n", self.started.elapsed().as_secs_f64()))
    }

    /// Text that stands as it is, indented.
    pub(super) fn show(&self, text: &str) -> Told {
        text.trim_end()
            .lines()
            .try_for_each(|line| write(&format!("           {line}\n")))
    }

    /// What `kubectl get` would print.
    pub(super) fn view(&self, kind: &str, table: &str) -> Told {
        write(&format!("  $ kubectl get {kind}\n"))?;
        self.show(table)
    }
}

fn write(text: &str) -> Told {
    print(text).map_err(|failure| anyhow::anyhow!("{failure:?}"))
}

/// A collection as its server would have a person see it: columns of priority 0, as wide as they need.
pub(super) async fn table(client: &Client, path: &str) -> anyhow::Result<String> {
    let request = http::Request::get(path)
        .header(http::header::ACCEPT, "application/json;as=Table;g=meta.k8s.io;v=v1")
        .body(Vec::new())?;
    let answer: Value = client.request(request).await?;
    let list = |pointer: &str, of: &Value| {
        of.pointer(pointer)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let columns = list("/columnDefinitions", &answer);
    let shown: Vec<usize> = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.get("priority").and_then(Value::as_i64) == Some(0))
        .map(|(at, _)| at)
        .collect();
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let mut lines = vec![
        shown
            .iter()
            .map(|at| text(columns.get(*at).and_then(|column| column.get("name"))).to_uppercase())
            .collect::<Vec<_>>(),
    ];
    for row in list("/rows", &answer) {
        let cells = list("/cells", &row);
        lines.push(shown.iter().map(|at| text(cells.get(*at))).collect());
    }
    let width = |at: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(at))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..shown.len()).map(|at| width(at).unwrap_or(0)).collect();
    let line = |cells: &Vec<String>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    Ok(lines.iter().map(line).collect::<Vec<_>>().join("\n"))
}
