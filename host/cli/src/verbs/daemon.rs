//! `chandlery daemon`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use chandlery_daemon::{Identity, Settings};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::output::print;

/// Run the daemon until SIGTERM or SIGINT.
#[derive(clap::Args)]
pub(crate) struct Daemon {
    /// Kubeconfig of the hub; the cluster this Pod runs in when absent. Never taken from KUBECONFIG.
    #[arg(long, env = "CHANDLERY_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Run on a hub in memory, beside a remote in memory, both in this process and gone with it; prints their kubeconfigs.
    #[arg(long, conflicts_with = "kubeconfig")]
    embedded: bool,
    /// Directory for Plugins of source `file`; there are none when absent.
    #[arg(long, env = "CHANDLERY_PLUGIN_DIR")]
    plugin_dir: Option<PathBuf>,
    /// Where components and their compiled form are kept. Whoever may write there may have the daemon run any code.
    #[arg(long, env = "CHANDLERY_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    /// Namespace of the Lease.
    #[arg(long, env = "POD_NAMESPACE", default_value = "chandlery-system")]
    namespace: String,
    /// Seconds that a Lease lasts when it is not renewed.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=600))]
    lease_seconds: u64,
    /// Where probes and metrics are served, as ADDRESS:PORT; nowhere when absent.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Accept remotes at loopback addresses: for tests and single machines.
    #[arg(long)]
    allow_loopback_remotes: bool,
    /// Accept kubeconfigs with a proxy-url. What is behind a proxy cannot be judged by its address.
    #[arg(long)]
    allow_proxy: bool,
    /// Provisions worked on at the same time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    concurrent_provisions: u16,
    /// Steps of one Provision that run at the same time.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    concurrent_steps: u16,
    /// Seconds that a pass may still run after SIGTERM.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=600))]
    grace_seconds: u64,
    /// Name of this Pod.
    #[arg(long, env = "POD_NAME", hide = true)]
    pod_name: Option<String>,
    /// UID of this Pod.
    #[arg(long, env = "POD_UID", hide = true)]
    pod_uid: Option<String>,
}

impl Daemon {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let identity = match (self.pod_name, self.pod_uid) {
            (Some(name), Some(uid)) => Identity::Pod {
                namespace: self.namespace.clone(),
                name,
                uid,
            },
            (None, None) => Identity::Process,
            _ => return Err(Failure::usage("POD_NAME and POD_UID go together")),
        };
        let directory = tempfile::tempdir().context("making a directory for kubeconfigs")?;
        let embedded = match self.embedded {
            true => Some(Embedded::start(directory.path()).await?),
            false => None,
        };
        let mut settings = Settings {
            kubeconfig: self.kubeconfig,
            identity,
            plugin_dir: self.plugin_dir,
            cache_dir: self.cache_dir.unwrap_or_else(super::cache_dir),
            namespace: self.namespace,
            lease: Duration::from_secs(self.lease_seconds),
            listen: self.listen,
            allow_loopback: self.allow_loopback_remotes,
            allow_proxy: self.allow_proxy,
            concurrent_provisions: self.concurrent_provisions,
            concurrent_steps: self.concurrent_steps,
            compiler: std::env::current_exe().ok(),
            grace: Duration::from_secs(self.grace_seconds),
        };
        if let Some(embedded) = &embedded {
            settings = embedded.settings(settings);
            let [hub, remote] = [&embedded.hub, &embedded.remote].map(|cluster| cluster.kubeconfig.display());
            print(&format!(
                "hub      export KUBECONFIG={hub}\nremote   export KUBECONFIG={remote}\n"
            ))?;
        }
        settings.validate().map_err(Failure::usage)?;
        let end = CancellationToken::new();
        let failed = |error: std::io::Error| Failure::new(format!("listening for signals: {error}"));
        let (mut term, mut int) = (
            signal(SignalKind::terminate()).map_err(failed)?,
            signal(SignalKind::interrupt()).map_err(failed)?,
        );
        let ending = end.clone();
        let listening = tokio::spawn(async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            tracing::info!("ends: what runs comes to its end first");
            ending.cancel();
        });
        let outcome = chandlery_daemon::run(settings, end).await;
        listening.abort();
        outcome?;
        Ok(ExitCode::SUCCESS)
    }
}
