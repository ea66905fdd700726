//! One file per verb.

pub(crate) mod compile_component;
pub(crate) mod crds;
pub(crate) mod daemon;
pub(crate) mod demo;
pub(crate) mod manifests;
pub(crate) mod plugin;
pub(crate) mod plugin_check;
pub(crate) mod plugin_run;
pub(crate) mod remote;
pub(crate) mod uninstall;
pub(crate) mod version;
pub(crate) mod wit;

use std::path::{Path, PathBuf};

use chandlery::runtime::{Config, Runtime};

use crate::failure::Failure;

/// Where components and their compiled form are kept for commands.
pub(crate) fn cache_dir() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    base.unwrap_or_else(std::env::temp_dir)
        .join("chandlery")
        .join("components")
}

/// A runtime for one command.
pub(crate) fn runtime(cache: &Path) -> Result<Runtime, Failure> {
    let mut config = Config::new(cache);
    config.concurrent_calls = 4;
    Runtime::new(config).map_err(|error| Failure::from(anyhow::Error::from(error)))
}
