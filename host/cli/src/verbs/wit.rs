//! `chandlery wit DIR`

use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::output::{Output, print, print_json};

/// Write the plugin contract into a directory, which is made if it is not there.
#[derive(clap::Args)]
pub(crate) struct Wit {
    /// Where to. Files of the same names are overwritten.
    directory: PathBuf,
}

/// The contract as this host was built with it.
const FILES: [(&str, &str); 4] = [
    ("types.wit", include_str!("../../../../wit/types.wit")),
    ("cluster.wit", include_str!("../../../../wit/cluster.wit")),
    ("provisioner.wit", include_str!("../../../../wit/provisioner.wit")),
    ("world.wit", include_str!("../../../../wit/world.wit")),
];

impl Wit {
    pub(crate) fn run(self, output: Output) -> Result<ExitCode, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("writing to {}: {error}", self.directory.display()));
        std::fs::create_dir_all(&self.directory).map_err(failed)?;
        let mut written = Vec::new();
        for (name, text) in FILES {
            let path = self.directory.join(name);
            std::fs::write(&path, text).map_err(failed)?;
            written.push(path.display().to_string());
        }
        match output {
            Output::Json => print_json(&serde_json::json!({"written": written}))?,
            Output::Text => print(&format!("{}\n", written.join("\n")))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_of_the_contract_is_written() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
        let there = std::fs::read_dir(directory)
            .unwrap()
            .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|x| x == "wit"))
            .count();
        assert_eq!(there, super::FILES.len());
    }
}
