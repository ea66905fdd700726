//! `chandlery version`

use std::process::ExitCode;

use crate::failure::Failure;
use crate::output::{Output, print, print_json};

/// Print the versions of host and contract.
#[derive(clap::Args)]
pub(crate) struct Version {}

/// Version of the plugin contract in `wit/`.
const CONTRACT: &str = "chandlery:provision@0.1.0";

impl Version {
    pub(crate) fn run(self, output: Output) -> Result<ExitCode, Failure> {
        let host = env!("CARGO_PKG_VERSION");
        let objects = format!("{}/{}", chandlery::core::names::GROUP, chandlery::core::names::VERSION);
        match output {
            Output::Json => print_json(&serde_json::json!({"host": host, "contract": CONTRACT, "objects": objects}))?,
            Output::Text => print(&format!(
                "host      {host}\ncontract  {CONTRACT}\nobjects   {objects}\n"
            ))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
