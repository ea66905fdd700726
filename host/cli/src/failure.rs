//! What went wrong, for a person or a program: one sentence, what would help, and an exit code.

use std::process::ExitCode;

use chandlery::core::{Class, Setback};
use miette::{Diagnostic, GraphicalReportHandler};
use serde_json::json;

use crate::output::Output;

/// Why a verb did not do what it was asked. On the heap: it is rare, and results are everywhere.
#[derive(Debug)]
pub(crate) struct Failure(Box<Told>);

#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
struct Told {
    message: String,
    #[help]
    help: Option<String>,
    #[source_code]
    source_code: Option<miette::NamedSource<String>>,
    #[label("here")]
    label: Option<miette::SourceSpan>,
    exit_code: u8,
    reason: String,
}

impl Failure {
    fn told(exit_code: u8, reason: &str, message: impl Into<String>) -> Self {
        let (message, reason) = (message.into(), reason.to_owned());
        Self(Box::new(Told {
            message,
            help: None,
            source_code: None,
            label: None,
            exit_code,
            reason,
        }))
    }

    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::told(1, "Failed", message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::told(2, "Usage", message)
    }

    pub(crate) fn classed(class: Class, reason: &str, message: impl Into<String>) -> Self {
        Self::told(class.effect().exit_code, reason, message)
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Shows the place in a file: line and column from 1.
    pub(crate) fn at(mut self, file: &str, text: &str, line: usize, column: usize) -> Self {
        let start: usize = text
            .split_inclusive('\n')
            .take(line.saturating_sub(1))
            .map(str::len)
            .sum();
        let offset = (start + column.saturating_sub(1)).min(text.len());
        self.0.source_code = Some(miette::NamedSource::new(file, text.to_owned()));
        self.0.label = Some((offset, 1).into());
        self
    }

    pub(crate) fn report(&self, output: Output) -> ExitCode {
        let told = self.0.as_ref();
        match output {
            Output::Json => {
                let text = json!({"error": {"reason": told.reason, "message": told.message, "help": told.help}});
                eprintln!("{text}");
            }
            Output::Text => {
                let mut text = String::new();
                let handler = GraphicalReportHandler::new().with_links(false);
                if handler.render_report(&mut text, told).is_err() {
                    text.clone_from(&told.message);
                }
                eprintln!("{}", text.trim_end());
            }
        }
        ExitCode::from(told.exit_code)
    }
}

impl From<Setback> for Failure {
    fn from(setback: Setback) -> Self {
        Self::classed(setback.class, &setback.reason, setback.message)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
        Self::new(causes.join(": "))
    }
}
