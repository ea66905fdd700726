//! `chandlery crds`

use std::process::ExitCode;

use crate::failure::Failure;
use crate::output::print;

/// Print the CustomResourceDefinitions as YAML.
#[derive(clap::Args)]
pub(crate) struct Crds {}

impl Crds {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        print(&chandlery_api::crds_yaml().map_err(Failure::new)?)?;
        Ok(ExitCode::SUCCESS)
    }
}
