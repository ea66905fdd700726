//! Where a plugin's bytes come from: a ConfigMap of the hub, or a file of the plugin directory.

use std::path::{Component, Path};

use chandlery_api::PluginSource;
use chandlery_artifact::{ArtifactError, assemble};
use chandlery_core::Class;
use chandlery_core::cluster::REQUEST_TIMEOUT;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

/// Largest component, unpacked. A Python guest is 18 MB.
pub(crate) const LARGEST_COMPONENT: u64 = 64 * 1024 * 1024;

/// Why there are no bytes.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The daemon has no plugin directory.
    #[error("source.file works only where the daemon was started with --plugin-dir")]
    NoDirectory,
    /// The path leaves the plugin directory.
    #[error("source.file.path \"{0}\" leaves the plugin directory")]
    LeavesDirectory(String),
    /// No such file, or it cannot be read.
    #[error("plugin file {path} cannot be read: {source}")]
    File {
        /// As the Plugin names it.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// No such ConfigMap.
    #[error("there is no ConfigMap {0}")]
    NoConfigMap(String),
    /// No such key.
    #[error("ConfigMap {config_map} has no key \"{key}\" in binaryData; it has: {there}")]
    NoKey {
        /// `namespace/name`.
        config_map: String,
        /// Which key.
        key: String,
        /// Those there are.
        there: String,
    },
    /// The pieces do not make a file.
    #[error(transparent)]
    Pieces(#[from] ArtifactError),
    /// The hub did not answer.
    #[error("the hub did not answer: {0}")]
    Hub(String),
}

impl SourceError {
    /// What it asks of the host.
    pub const fn class(&self) -> Class {
        match self {
            Self::Hub(_) => Class::Retry,
            // Whoever is to bring them may be on the way.
            Self::NoConfigMap(_) | Self::File { .. } => Class::Retry,
            _ => Class::UserFix,
        }
    }

    /// One CamelCase word for a condition.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoDirectory => "NoPluginDirectory",
            Self::LeavesDirectory(_) => "PathLeavesDirectory",
            Self::File { .. } => "FileMissing",
            Self::NoConfigMap(_) => "ConfigMapMissing",
            Self::NoKey { .. } => "ConfigMapKeyMissing",
            Self::Pieces(_) => "SourceUnreadable",
            Self::Hub(_) => "HubUnreachable",
        }
    }
}

/// Reads a plugin's bytes.
///
/// # Errors
/// [`SourceError`], by what is missing.
pub async fn read_source(
    source: &PluginSource,
    hub: &Client,
    directory: Option<&Path>,
) -> Result<Vec<u8>, SourceError> {
    if let Some(file) = &source.file {
        let directory = directory.ok_or(SourceError::NoDirectory)?;
        let relative = Path::new(&file.path);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(SourceError::LeavesDirectory(file.path.clone()));
        }
        let failed = |source| SourceError::File {
            path: file.path.clone(),
            source,
        };
        // A link may lead out as well as dots may.
        let real = tokio::fs::canonicalize(directory.join(relative))
            .await
            .map_err(failed)?;
        let root = tokio::fs::canonicalize(directory).await.map_err(failed)?;
        if !real.starts_with(root) {
            return Err(SourceError::LeavesDirectory(file.path.clone()));
        }
        let bytes = tokio::fs::read(real).await.map_err(failed)?;
        return Ok(assemble(&[bytes], LARGEST_COMPONENT)?);
    }
    let Some(reference) = &source.config_map else {
        return Err(SourceError::NoDirectory);
    };
    let config_map = format!("{}/{}", reference.namespace, reference.name);
    let api: Api<ConfigMap> = Api::namespaced(hub.clone(), &reference.namespace);
    let found = match tokio::time::timeout(REQUEST_TIMEOUT, api.get_opt(&reference.name)).await {
        Err(_) => return Err(SourceError::Hub("no answer in time".into())),
        Ok(Err(error)) => {
            return Err(SourceError::Hub(chandlery_core::readiness::one_line(
                &error.to_string(),
            )));
        }
        Ok(Ok(None)) => return Err(SourceError::NoConfigMap(config_map)),
        Ok(Ok(Some(found))) => found,
    };
    let data = found.binary_data.unwrap_or_default();
    let mut pieces = Vec::new();
    for key in &reference.keys {
        let piece = data.get(key).ok_or_else(|| SourceError::NoKey {
            config_map: config_map.clone(),
            key: key.clone(),
            there: if data.is_empty() {
                "none".into()
            } else {
                data.keys().cloned().collect::<Vec<_>>().join(", ")
            },
        })?;
        pieces.push(&piece.0);
    }
    Ok(assemble(&pieces, LARGEST_COMPONENT)?)
}
