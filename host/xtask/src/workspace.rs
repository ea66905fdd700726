//! Where the checkout is, and how cargo is called in it: always in the same way, so that nothing is built twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::progress;

/// The root of the checkout that this program was built from.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // host/xtask lies two levels below the root.
    here.ancestors().nth(2).unwrap_or(here)
}

/// Cargo, to be run in the root of the checkout with the toolchain that runs us.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        // Set by the cargo that runs us, about us; build scripts watch some of them and would run again.
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Builds one binary of the workspace (development profile) and answers where it is.
///
/// `CHANDLERY_BIN` names a ready binary instead, for the `chandlery` binary only.
///
/// # Errors
/// If it does not build; the compiler's messages are in the error.
pub fn binary(name: &str) -> Result<PathBuf> {
    if let Some(ready) = std::env::var_os("CHANDLERY_BIN")
        && name == "chandlery"
    {
        return Ok(ready.into());
    }
    // Not by package: the features of dependencies are those of the whole workspace, so what the tests built fits.
    one(build(name, &["--workspace", "--bin", name])?, name)
}

/// Builds `chandlery` as it is released, with the plugin `objects` inside for its demo, and answers where it is.
///
/// # Errors
/// If it does not build; the compiler's messages are in the error.
pub fn release_binary(objects: &Path) -> Result<PathBuf> {
    let arguments = ["--release", "--package", "chandlery-cli", "--bin", "chandlery"];
    let label = "chandlery as it is released (about 10 minutes on 2 cores)";
    let mut command = cargo();
    command.env("CHANDLERY_OBJECTS_COMPONENT", objects);
    one(build_by(command, label, &arguments)?, "chandlery")
}

/// Builds an example of the runtime, optimised, and answers where it is.
///
/// # Errors
/// If it does not build; the compiler's messages are in the error.
pub fn release_example(name: &str) -> Result<PathBuf> {
    // With the command line beside it the dependencies are those of the release, and are built once.
    let packages = ["--package", "chandlery-cli", "--package", "chandlery-runtime"];
    let arguments = [&["--release"], &packages[..], &["--example", name]].concat();
    one(build(&format!("the example {name}, optimised"), &arguments)?, name)
}

fn one(mut name_to_executable: BTreeMap<String, PathBuf>, name: &str) -> Result<PathBuf> {
    name_to_executable
        .remove(name)
        .with_context(|| format!("building {name}: cargo did not say where it is"))
}

fn build(label: &str, arguments: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    build_by(cargo(), label, arguments)
}

fn build_by(mut command: Command, label: &str, arguments: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    command
        .arg("build")
        .args(arguments)
        .args(["--message-format", "json-render-diagnostics"]);
    let mut name_to_executable = BTreeMap::new();
    let mut said = Vec::new();
    let shown = progress::Progress::start(format!("building {label}"));
    let status = progress::stream(&mut command, |line| match serde_json::from_str::<Value>(line) {
        Ok(message) => name_to_executable.extend(executable(&message)),
        Err(_) => {
            shown.detail(line.trim());
            said.push(line.to_owned());
        }
    })?;
    drop(shown);
    if !status.success() {
        bail!("building {label}: cargo ended with {status}\n{}", said.join("\n"));
    }
    Ok(name_to_executable)
}

fn executable(message: &Value) -> Option<(String, PathBuf)> {
    let name = message.get("target")?.get("name")?.as_str()?;
    Some((name.to_owned(), message.get("executable")?.as_str()?.into()))
}

/// `cargo metadata` of the workspace, with its dependencies resolved for this platform.
///
/// # Errors
/// If cargo fails or answers something that is not JSON.
pub fn metadata() -> Result<Value> {
    let output = cargo()
        .args([
            "metadata",
            "--format-version",
            "1",
            "--filter-platform",
            host_triple()?.as_str(),
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("reading the answer of cargo metadata")
}

fn host_triple() -> Result<String> {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("-vV")
        .output()
        .context("starting rustc -vV")?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .context("finding the host triple in the answer of rustc -vV")
}
