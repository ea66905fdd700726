//! A figure is a ratio in one run, or stands beside its goal; nothing here passes or fails.

mod cluster;
mod load;
mod measure;
mod path;
mod rounds;
mod scopes;
mod table;

use std::path::PathBuf;

use crate::consent::Consent;

pub use path::run as path;
pub use scopes::{Part, run as scopes};

/// How figures are taken.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds with one Provision.
    pub rounds: usize,
    /// Rounds with many Provisions.
    pub rounds_of_many: usize,
    /// How many that is.
    pub many: usize,
    /// This `chandlery` instead of a fresh release build.
    pub binary: Option<PathBuf>,
    /// Who agrees to changes outside the cache.
    pub consent: Consent,
}
