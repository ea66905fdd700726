//! Where results and what is told go: results to standard output, the rest to standard error.

use std::io::Write as _;

use clap::ValueEnum;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// How results are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// Writes a result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever reads has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::new(format!("writing the result: {error}"))),
    }
}

/// Writes a result as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(error.to_string()))?;
    print(&format!("{text}\n"))
}

/// Writes objects as one YAML stream.
pub(crate) fn yaml(objects: &[serde_json::Value]) -> Result<String, Failure> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object).map_err(|error| Failure::new(error.to_string()))?);
    }
    Ok(text)
}

/// Begins to tell, on standard error.
pub(crate) fn start_log(filter: &str, json: bool) -> Result<(), String> {
    // kube warns with the whole of an answer that it cannot read: whatever a server sends, 32 MiB of it. What is said first
    // gives way to the filter.
    let filter = EnvFilter::try_new(format!("kube_client=error,{filter}"))
        .map_err(|error| format!("--log {filter}: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if json {
        builder.json().init();
    } else {
        builder
            .with_ansi(!no_color && std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init();
    }
    Ok(())
}
