//! `chandlery plugin run FILE --kubeconfig … --spec …`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use chandlery::core::grant::{Grant, GrantRule};
use chandlery::core::limits::Limits;
use chandlery::core::record::Entry;
use chandlery::core::task::{Export, Outcome};
use chandlery::core::{Class, Digest, StepName, Uid};
use chandlery::scope::kubeconfig::{self, Policy};
use chandlery::scope::{WriteFence, connect};
use chandlery::{Once, OnceError, call_once};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plugin::{parse_document, read, read_document};
use crate::failure::Failure;
use crate::output::{Output, print, print_json};

/// Make one call of a plugin on a cluster, within a grant. What it makes stays there until a call with --deprovision and the
/// same --state takes it away.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// The component, or a gzip of it.
    file: PathBuf,
    /// Kubeconfig of the cluster, judged as a tenant's would be. Never taken from KUBECONFIG.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Context of the kubeconfig; its current one when absent.
    #[arg(long)]
    context: Option<String>,
    /// Accept a cluster at a loopback address.
    #[arg(long)]
    allow_loopback: bool,
    /// Accept a kubeconfig with a proxy-url.
    #[arg(long)]
    allow_proxy: bool,
    /// The step's settings: a file (YAML or JSON), or the document itself.
    #[arg(long)]
    spec: Option<String>,
    /// Grant: a file with a list of rules, as in a Plugin's `grants.remote`. Nothing is allowed without it.
    #[arg(long, conflicts_with = "allow_everything")]
    grant: Option<PathBuf>,
    /// Allow everything that the credential allows.
    #[arg(long)]
    allow_everything: bool,
    /// Call `deprovision`, then take away what `--state` shows.
    #[arg(long)]
    deprovision: bool,
    /// File that holds what calls leave for the next: inventory and memory. Made if it is not there.
    #[arg(long)]
    state: Option<PathBuf>,
    /// Step that the call is made for: it goes into field manager and owner mark.
    #[arg(long, default_value = "run")]
    step: String,
}

/// What calls leave for the next.
#[derive(Default, Serialize, Deserialize)]
struct State {
    #[serde(default)]
    inventory: Vec<Entry>,
    #[serde(default)]
    memory: Option<Value>,
}

impl Run {
    pub(crate) async fn run(self, output: Output) -> Result<ExitCode, Failure> {
        let bytes = read(&self.file)?;
        let digest = Digest::of(&bytes);
        let spec: Value = match &self.spec {
            None => json!({}),
            Some(text) if text.trim_start().starts_with(['{', '[']) => parse_document("--spec", text)?,
            Some(file) => read_document(&PathBuf::from(file))?,
        };
        let grant = match &self.grant {
            Some(file) => Grant::new(read_document::<Vec<GrantRule>>(file)?),
            None if self.allow_everything => Grant::everything(),
            None => Grant::default(),
        };
        let state: State = match &self.state {
            Some(file) if file.exists() => read_document(file)?,
            _ => State::default(),
        };
        let policy = Policy {
            allow_loopback: self.allow_loopback,
            allow_proxy: self.allow_proxy,
        };
        let text = std::fs::read(&self.kubeconfig).with_context(|| format!("reading {}", self.kubeconfig.display()))?;
        let endpoint = kubeconfig::parse(&text, self.context.as_deref(), policy, jiff::Timestamp::now())
            .map_err(|error| Failure::classed(Class::UserFix, error.reason(), error.to_string()))?;
        let connection = connect(&endpoint, &WriteFence::open()).map_err(anyhow::Error::from)?;
        let runtime = super::runtime(&super::cache_dir())?;
        let plugin = runtime.load(&digest, &bytes).await.map_err(anyhow::Error::from)?;
        let step: StepName = self
            .step
            .parse()
            .map_err(|error: chandlery::core::ids::InvalidId| Failure::usage(error.to_string()))?;
        let once = Once {
            plugin,
            connection,
            grant,
            spec,
            export: if self.deprovision {
                Export::Deprovision { doomed: false }
            } else {
                Export::Provision
            },
            inventory: state.inventory,
            memory: state.memory.clone(),
            // The same for all calls by hand, so that a later one knows an earlier one's objects.
            provision_uid: COMMAND_LINE
                .parse::<Uid>()
                .map_err(|error| Failure::new(error.to_string()))?,
            step,
            limits: Limits::default(),
        };
        let memory = state.memory;
        let report = match call_once(&runtime, once).await {
            Ok(report) => report,
            Err(OnceError::Cluster(error)) => return Err(Failure::from(error.into_setback())),
            Err(OnceError::Schema(message)) => return Err(Failure::classed(Class::Bug, "InvalidSchema", message)),
            // What a failed call wrote must be found by the next, or nothing would ever take it away.
            Err(OnceError::Failure { failure, inventory }) => {
                keep(self.state.as_deref(), &State { inventory, memory })?;
                return Err(Failure::from(failure.into_setback()));
            }
            Err(OnceError::Undo { setback, inventory }) => {
                keep(self.state.as_deref(), &State { inventory, memory })?;
                return Err(Failure::from(setback));
            }
        };
        let (memory, outputs, waits) = match &report.outcome {
            Outcome::Done(done) => (
                done.memory.clone(),
                done.outputs.clone(),
                report
                    .waiting
                    .clone()
                    .map(|message| ("WaitingForDeletion".to_owned(), message)),
            ),
            Outcome::Yield(wait) => (
                wait.memory.clone(),
                None,
                Some((wait.reason.clone(), wait.message.clone())),
            ),
        };
        let inventory = report.inventory.clone();
        keep(self.state.as_deref(), &State { inventory, memory })?;
        match output {
            Output::Json => print_json(&json!({
                "outcome": if waits.is_some() { "yield" } else { "done" },
                "reason": waits.as_ref().map(|(reason, _)| reason), "message": waits.as_ref().map(|(_, message)| message),
                "outputs": outputs, "inventory": report.inventory,
            }))?,
            Output::Text => {
                let mut text = match &waits {
                    None => "done\n".to_owned(),
                    Some((reason, message)) => format!("waits: {reason}: {message}\n"),
                };
                for entry in &report.inventory {
                    text.push_str(&format!("  owns {}\n", entry.object));
                }
                if let Some(outputs) = &outputs {
                    text.push_str(&format!("  outputs {outputs}\n"));
                }
                print(&text)?;
            }
        }
        Ok(if waits.is_some() {
            ExitCode::from(Class::Wait.effect().exit_code)
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// Writes what a call left for the next, if a file for it was named.
fn keep(file: Option<&Path>, state: &State) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(state).map_err(|error| Failure::new(error.to_string()))?;
    std::fs::write(file, text + "\n").with_context(|| format!("writing {}", file.display()))?;
    Ok(())
}

/// UID that stands for whoever calls by hand.
const COMMAND_LINE: &str = "00000000-0000-0000-0000-000000000000";
