//! `chandlery plugin …`

use std::path::Path;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::output::Output;

/// Look at, and call, plugins.
#[derive(clap::Subcommand)]
pub(crate) enum PluginVerb {
    /// Say what a component is, whether this host can call it, and how to mend what is wrong.
    Check(super::plugin_check::Check),
    /// Make one call of a plugin on a cluster.
    Run(super::plugin_run::Run),
}

impl PluginVerb {
    pub(crate) async fn run(self, output: Output) -> Result<ExitCode, Failure> {
        match self {
            Self::Check(verb) => verb.run(output).await,
            Self::Run(verb) => verb.run(output).await,
        }
    }
}

/// Reads a component, unpacked if it is gzip.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = std::fs::read(file).map_err(|error| Failure::new(format!("reading {}: {error}", file.display())))?;
    chandlery::artifact::assemble(&[bytes], 64 * 1024 * 1024).map_err(|error| Failure::from(anyhow::Error::from(error)))
}

/// Reads a YAML or JSON file, showing the place of what is wrong.
pub(crate) fn read_document<T: serde::de::DeserializeOwned>(file: &Path) -> Result<T, Failure> {
    let text =
        std::fs::read_to_string(file).map_err(|error| Failure::new(format!("reading {}: {error}", file.display())))?;
    parse_document(&file.display().to_string(), &text)
}

/// Parses YAML or JSON.
pub(crate) fn parse_document<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<T, Failure> {
    serde_saphyr::from_str(text).map_err(|error| {
        let message = chandlery::core::readiness::one_line(&error.to_string());
        let failure = Failure::usage(format!("{name} cannot be read: {message}"));
        match error.location() {
            Some(place) => failure.at(
                name,
                text,
                usize::try_from(place.line()).unwrap_or(1),
                usize::try_from(place.column()).unwrap_or(1),
            ),
            None => failure,
        }
    })
}
