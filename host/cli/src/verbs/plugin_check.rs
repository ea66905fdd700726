//! `chandlery plugin check FILE`

use std::path::PathBuf;
use std::process::ExitCode;

use chandlery::core::Digest;
use chandlery::core::cluster::Problem;
use chandlery::core::limits::Limits;
use chandlery::core::task::Failure as CallFailure;
use serde_json::json;

use super::plugin::{read, read_document};
use crate::failure::Failure;
use crate::output::{Output, print, print_json};

/// Say what a component is, whether this host can call it, and how to mend what is wrong. Runs only its `describe`, and
/// `check` where a spec is given; no cluster is involved.
#[derive(clap::Args)]
pub(crate) struct Check {
    /// The component, or a gzip of it.
    file: PathBuf,
    /// Settings of a step (YAML or JSON) to check against the plugin's schema and its own `check`.
    #[arg(long)]
    spec: Option<PathBuf>,
}

impl Check {
    pub(crate) async fn run(self, output: Output) -> Result<ExitCode, Failure> {
        let bytes = read(&self.file)?;
        let compatibility = chandlery::artifact::inspect(&bytes).map_err(|error| Failure::from(anyhow::Error::from(error)).help(
            "a plugin is a WebAssembly component: `cargo xtask plugins` and the README of plugins/sdk show how one is made from a module",
        ))?;
        let digest = Digest::of(&bytes);
        let problems = compatibility.problems();
        if !problems.is_empty() {
            if output == Output::Json {
                print_json(
                    &json!({"digest": digest, "bytes": bytes.len(), "imports": compatibility.imports, "exports": compatibility.exports, "compatible": false, "problems": problems}),
                )?;
            }
            return Err(Failure::classed(chandlery::core::Class::UserFix, "Incompatible", format!("this host cannot call {}:\n  {}", self.file.display(), problems.join("\n  "))).help(
                "the host offers chandlery:provision/log and chandlery:provision/cluster and nothing else; `chandlery wit DIR` writes the contract out",
            ));
        }
        let runtime = super::runtime(&super::cache_dir())?;
        let plugin = runtime
            .load(&digest, &bytes)
            .await
            .map_err(|error| Failure::from(anyhow::Error::from(error)))?;
        let broken = |failure: CallFailure| Failure::from(failure.into_setback());
        let description = runtime.describe(&plugin).await.map_err(broken)?.clone();
        let registered = chandlery::Registered::new(
            plugin,
            description.clone(),
            chandlery_api::Grants::default(),
            Limits::default(),
            None,
        )
        .map_err(|message| {
            Failure::classed(chandlery::core::Class::Bug, "InvalidSchema", message)
                .help("refer to nothing outside the schema itself")
        })?;
        let spec_problems = match &self.spec {
            None => None,
            Some(file) => {
                let spec: serde_json::Value = read_document(file)?;
                let mut found = registered.schema_problems(&spec);
                if found.is_empty() {
                    found = runtime
                        .check(&registered.plugin, &spec, &registered.limits)
                        .await
                        .map_err(broken)?;
                }
                Some(found)
            }
        };
        match output {
            Output::Json => print_json(&json!({
                "digest": digest, "bytes": bytes.len(), "imports": compatibility.imports, "exports": compatibility.exports,
                "compatible": true, "description": description, "specProblems": spec_problems,
            }))?,
            Output::Text => {
                let needs: Vec<String> = description
                    .needs
                    .iter()
                    .map(|rule| {
                        format!(
                            "{} on {} of {}",
                            rule.verbs.join(","),
                            rule.resources.join(","),
                            rule.api_groups
                                .iter()
                                .map(|g| if g.is_empty() { "core" } else { g })
                                .collect::<Vec<_>>()
                                .join(",")
                        )
                    })
                    .collect();
                let mut text = format!(
                    "plugin    {} {}\nsummary   {}\ndigest    {digest}\nsize      {} bytes\nimports   {}\nexports   {}\nneeds     {}\n",
                    description.name,
                    description.version,
                    description.summary,
                    bytes.len(),
                    compatibility.imports.join(", "),
                    compatibility.exports.join(", "),
                    if needs.is_empty() {
                        "declares nothing".to_owned()
                    } else {
                        needs.join("; ")
                    },
                );
                text.push_str(&match &spec_problems {
                    None => "result    can be called by this host\n".to_owned(),
                    Some(found) if found.is_empty() => {
                        "result    can be called by this host; the spec is accepted\n".to_owned()
                    }
                    Some(found) => format!(
                        "result    can be called by this host; the spec is refused:\n{}",
                        lines(found)
                    ),
                });
                print(&text)?;
            }
        }
        Ok(match spec_problems {
            Some(found) if !found.is_empty() => ExitCode::from(chandlery::core::Class::UserFix.effect().exit_code),
            _ => ExitCode::SUCCESS,
        })
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("  {problem}\n")).collect()
}
