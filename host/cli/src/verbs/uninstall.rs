//! `chandlery uninstall`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use chandlery_daemon::{abandon, leftovers};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::failure::Failure;
use crate::output::{Output, print, print_json};

/// Make sure that a hub can be left: refuses while objects bear Chandlery's finalizer, and lists them.
#[derive(clap::Args)]
pub(crate) struct Uninstall {
    /// Kubeconfig of the hub.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// Take the finalizer off all that is listed. What it stands for in remotes stays there for ever. Stop the daemon first.
    #[arg(long)]
    abandon: bool,
}

impl Uninstall {
    pub(crate) async fn run(self, output: Output) -> Result<ExitCode, Failure> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)
            .with_context(|| format!("reading {}", self.kubeconfig.display()))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("understanding the kubeconfig")?;
        let client = Client::try_from(config).context("connecting to the hub")?;
        let found = leftovers(&client).await.map_err(anyhow::Error::from)?;
        let list: String = found.iter().map(|leftover| format!("  {leftover}\n")).collect();
        if !found.is_empty() && !self.abandon {
            if output == Output::Json {
                print_json(&serde_json::json!({"leftovers": found}))?;
            }
            return Err(Failure::classed(chandlery::core::Class::UserFix, "InUse", format!("{} objects still stand for something:\n{list}", found.len())).help(
                "delete the Provisions and wait until they are gone, then the RemoteClusters and Plugins; or give up what is left in remotes with --abandon",
            ));
        }
        if !found.is_empty() {
            abandon(&client, &found).await.map_err(anyhow::Error::from)?;
        }
        match output {
            Output::Json => print_json(&serde_json::json!({"abandoned": found}))?,
            Output::Text if found.is_empty() => {
                print("nothing bears Chandlery's finalizer: manifests and CustomResourceDefinitions can be deleted\n")?
            }
            Output::Text => print(&format!(
                "freed:\n{list}manifests and CustomResourceDefinitions can be deleted\n"
            ))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
