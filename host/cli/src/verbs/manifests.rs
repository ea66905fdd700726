//! `chandlery manifests`

use std::process::ExitCode;

use chandlery_daemon::{ManifestOptions, manifests};

use crate::failure::Failure;
use crate::output::{Output, print, print_json, yaml};

/// Print namespace, ServiceAccount, rights and Deployment of the daemon. The CustomResourceDefinitions are apart: `chandlery crds`.
#[derive(clap::Args)]
pub(crate) struct Manifests {
    /// Namespace of the daemon.
    #[arg(long, default_value_t = ManifestOptions::default().namespace)]
    namespace: String,
    /// Its image.
    #[arg(long, default_value_t = ManifestOptions::default().image)]
    image: String,
    /// How many stand by beside the one that leads, itself included.
    #[arg(long, default_value_t = ManifestOptions::default().replicas, value_parser = clap::value_parser!(u32).range(1..=10))]
    replicas: u32,
    /// Namespace of an Argo CD with which remotes may be registered; may be given several times. It must be there.
    #[arg(long = "argocd-namespace", value_name = "NAMESPACE")]
    argocd: Vec<String>,
}

impl Manifests {
    pub(crate) fn run(self, output: Output) -> Result<ExitCode, Failure> {
        let Self {
            namespace,
            image,
            replicas,
            argocd,
        } = self;
        let objects = manifests(&ManifestOptions {
            namespace,
            image,
            replicas,
            argocd,
        });
        match output {
            Output::Json => print_json(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects}))?,
            Output::Text => print(&yaml(&objects)?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
