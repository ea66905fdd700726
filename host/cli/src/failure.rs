//! What went wrong, for a person or a program: one sentence, what would help, and an exit code.

use std::process::ExitCode;

use chandlery::core::{Class, Setback};
use miette::{Diagnostic, GraphicalReportHandler};
use serde_json::json;

use crate::output::Output;

/// Why a verb did not do what it was asked.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub(crate) struct Failure {
    message: String,
    #[help]
    help: Option<String>,
    #[source_code]
    source_code: Option<miette::NamedSource<String>>,
    #[label("here")]
    label: Option<miette::SourceSpan>,
    code: u8,
    reason: String,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            source_code: None,
            label: None,
            code: 1,
            reason: "Failed".into(),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            code: 2,
            reason: "Usage".into(),
            ..Self::new(message)
        }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }

    /// Shows the place in a file: line and column from 1.
    pub(crate) fn at(self, file: &str, text: &str, line: usize, column: usize) -> Self {
        let start: usize = text
            .split_inclusive('\n')
            .take(line.saturating_sub(1))
            .map(str::len)
            .sum();
        let offset = (start + column.saturating_sub(1)).min(text.len());
        Self {
            source_code: Some(miette::NamedSource::new(file, text.to_owned())),
            label: Some((offset, 1).into()),
            ..self
        }
    }

    pub(crate) fn classed(class: Class, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code: class.effect().exit_code,
            reason: reason.to_owned(),
            ..Self::new(message)
        }
    }

    pub(crate) fn report(&self, output: Output) -> ExitCode {
        match output {
            Output::Json => {
                let text = json!({"error": {"reason": self.reason, "message": self.message, "help": self.help}});
                eprintln!("{text}");
            }
            Output::Text => {
                let mut text = String::new();
                let handler = GraphicalReportHandler::new().with_links(false);
                if handler.render_report(&mut text, self).is_err() {
                    text.clone_from(&self.message);
                }
                eprintln!("{}", text.trim_end());
            }
        }
        ExitCode::from(self.code)
    }
}

impl From<Setback> for Failure {
    fn from(setback: Setback) -> Self {
        Self::classed(setback.class, &setback.reason.clone(), setback.message)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
        Self::new(causes.join(": "))
    }
}
