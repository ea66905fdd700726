//! Packages of the system: installed from Debian when something is missing and somebody agreed.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::consent::Consent;
use crate::progress;

/// Installs packages. `purpose` completes the sentence "packages that …".
///
/// # Errors
/// If this is no Debian or not root (says what to install by hand), nobody agrees, or they cannot be had.
pub fn install(packages: &[&str], purpose: &str, consent: Consent) -> Result<()> {
    let names = packages.join(" ");
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!("missing what {purpose}: install what Debian has as {names}");
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("missing what {purpose}: run `sudo apt-get update && sudo apt-get install {names}`");
    }
    consent.ask(&format!("install the Debian packages {names}, which {purpose}"))?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    // A new machine has no lists of packages, and old lists name packages that are gone. If one of many sources fails, the
    // packages may still be in another.
    if let Err(error) = progress::run("reading the lists of Debian packages", &mut apt(&["update"])) {
        eprintln!("{error:#}");
    }
    progress::run(
        &format!("installing {names} (once)"),
        apt(&["install", "--yes", "--no-install-recommends"]).args(packages),
    )
}

/// Installs the package of a program that is not in the path.
///
/// # Errors
/// As [`install`].
pub fn program(name: &str, purpose: &str, consent: Consent) -> Result<()> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&paths).any(|directory| directory.join(name).is_file()) {
        return Ok(());
    }
    install(&[name], purpose, consent)
}
