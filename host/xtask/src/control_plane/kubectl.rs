//! The client that judges: kubectl, never our own code, with nothing taken from the user's environment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use super::binary::{Binaries, Part};

/// kubectl for one cluster.
#[derive(Clone, Debug)]
pub struct Kubectl {
    binaries: Binaries,
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    /// kubectl with a kubeconfig. `cache` is where it may remember what the server offers: never shared between
    /// clusters, as ports are used again.
    pub fn new(binaries: Binaries, kubeconfig: impl Into<PathBuf>, cache: impl Into<PathBuf>) -> Self {
        Self {
            binaries,
            kubeconfig: kubeconfig.into(),
            cache: cache.into(),
        }
    }

    /// The same with another identity.
    pub fn with_kubeconfig(&self, kubeconfig: impl Into<PathBuf>) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            ..self.clone()
        }
    }

    /// The kubeconfig in use.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A command still to be run, for callers that stream or kill it.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.binaries.command(Part::Kubectl);
        command
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", &self.cache)
            // Preferences of whoever runs the tests must not change what they see.
            .env("KUBERC", "off")
            .stdin(Stdio::null());
        command
    }

    /// Runs kubectl; how it ended is in the answer.
    ///
    /// # Errors
    /// Only if it cannot be started.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Output> {
        self.command(arguments).output().context("starting kubectl")
    }

    /// Runs kubectl and answers what it printed.
    ///
    /// # Errors
    /// If it ends without success; its messages are in the error.
    pub fn text<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String> {
        let mut command = self.command(arguments);
        let output = command.output().context("starting kubectl")?;
        text_of(&command, output)
    }

    /// Runs kubectl with text on its standard input (`apply -f -`) and answers what it printed.
    ///
    /// # Errors
    /// If it ends without success; its messages are in the error.
    pub fn text_with_input<S: AsRef<std::ffi::OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Result<String> {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("starting kubectl")?;
        let written = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().context("waiting for kubectl")?;
        // Its own message says more than that it stopped reading.
        let text = text_of(&command, output)?;
        written.transpose().context("writing to kubectl")?;
        Ok(text)
    }
}

fn text_of(command: &Command, output: Output) -> Result<String> {
    if !output.status.success() {
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        bail!(
            "{}: {}\n{}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    String::from_utf8(output.stdout).context("reading what kubectl printed as text")
}
