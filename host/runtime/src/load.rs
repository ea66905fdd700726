//! From a component's bytes to something that can be called: looked into, compiled once per digest, kept on disk.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use chandlery_artifact::{ArtifactError, inspect, verify};
use chandlery_bindings::PluginPre;
use chandlery_core::task::Description;
use chandlery_core::{Class, Digest};
use tokio::sync::OnceCell;
use wasmtime::component::Component;

use crate::Runtime;
use crate::state::State;

/// A plugin that can be called.
pub struct Plugin {
    digest: Digest,
    pub(crate) pre: PluginPre<State>,
    pub(crate) description: OnceCell<Description>,
}

impl Plugin {
    /// The digest of its component.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

pub(crate) type Slot = Arc<OnceCell<Arc<Plugin>>>;

/// Why a component cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes are not what they should be.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// It asks for what the host does not offer, or offers not what the host asks for. Each a sentence.
    #[error("the component is not a plugin that this host can call: {}", .0.join("; "))]
    Incompatible(Vec<String>),
    /// It is not valid, or too costly to compile.
    #[error("the component cannot be compiled: {0}")]
    Compile(String),
    /// The cache on disk.
    #[error("keeping the compiled component")]
    Cache(#[source] std::io::Error),
}

impl LoadError {
    /// What it asks of the host: only a disk may mend itself.
    pub const fn class(&self) -> Class {
        match self {
            Self::Artifact(_) | Self::Incompatible(_) | Self::Compile(_) => Class::UserFix,
            Self::Cache(_) => Class::Retry,
        }
    }

    /// One CamelCase word for a condition.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Artifact(ArtifactError::TooLarge { .. }) => "TooLarge",
            Self::Artifact(ArtifactError::OtherDigest { .. }) => "DigestMismatch",
            Self::Artifact(_) => "NotAComponent",
            Self::Incompatible(_) => "Incompatible",
            Self::Compile(_) => "CompileFailed",
            Self::Cache(_) => "CacheFailed",
        }
    }
}

impl Runtime {
    /// The plugin of this digest: at once if it is loaded, else from its bytes, which are checked against the digest, looked
    /// into, compiled unless the cache has the machine code, and linked. Two who ask at once share the work.
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// Cancel safety: may be dropped at any await; whoever asks next begins again.
    pub async fn load(&self, digest: &Digest, bytes: &[u8]) -> Result<Arc<Plugin>, LoadError> {
        let slot = self.slots(|slots| slots.entry(digest.clone()).or_default().clone());
        slot.get_or_try_init(|| self.make(digest, bytes)).await.cloned()
    }

    /// The plugin of this digest, if it is loaded.
    pub fn loaded(&self, digest: &Digest) -> Option<Arc<Plugin>> {
        self.slots(|slots| slots.get(digest).and_then(|slot| slot.get().cloned()))
    }

    /// Lets go of all loaded plugins but these. Calls that run go on.
    pub fn retain(&self, keep: impl Fn(&Digest) -> bool) {
        self.slots(|slots| slots.retain(|digest, _| keep(digest)));
    }

    fn slots<T>(&self, with: impl FnOnce(&mut std::collections::HashMap<Digest, Slot>) -> T) -> T {
        with(&mut self.plugins.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn make(&self, digest: &Digest, bytes: &[u8]) -> Result<Arc<Plugin>, LoadError> {
        verify(bytes, digest)?;
        let problems = inspect(bytes)?.problems();
        if !problems.is_empty() {
            return Err(LoadError::Incompatible(problems));
        }
        let component = match self.cached(digest)? {
            Some(component) => component,
            None => self.compile(digest, bytes).await?,
        };
        let incompatible = |error: wasmtime::Error| LoadError::Incompatible(vec![format!("{error:#}")]);
        let linked = self.linker.instantiate_pre(&component).map_err(incompatible)?;
        let pre = PluginPre::new(linked).map_err(incompatible)?;
        Ok(Arc::new(Plugin {
            digest: digest.clone(),
            pre,
            description: OnceCell::new(),
        }))
    }

    /// Machine code from the cache. What is there and cannot be used is removed, to be made again.
    fn cached(&self, digest: &Digest) -> Result<Option<Component>, LoadError> {
        let Some(path) = self
            .store
            .compiled(digest, &self.engine_key)
            .map_err(LoadError::Cache)?
        else {
            return Ok(None);
        };
        match self.deserialize(&path) {
            Ok(component) => Ok(Some(component)),
            Err(error) => {
                tracing::warn!(%digest, error = format!("{error:#}"), "the compiled form of a plugin is of no use and is made again");
                self.store
                    .forget_compiled(digest, &self.engine_key)
                    .map_err(LoadError::Cache)?;
                Ok(None)
            }
        }
    }

    async fn compile(&self, digest: &Digest, bytes: &[u8]) -> Result<Component, LoadError> {
        let scratch = self.store.scratch_path(".wasm");
        let code = self
            .compiler
            .run(&self.engine, bytes.to_vec(), &scratch)
            .await
            .map_err(LoadError::Compile)?;
        let path = self
            .store
            .put_compiled(digest, &self.engine_key, &code)
            .map_err(LoadError::Cache)?;
        self.deserialize(&path)
            .map_err(|error| LoadError::Compile(format!("{error:#}")))
    }

    /// The one unsafe act of the host.
    #[allow(unsafe_code)]
    fn deserialize(&self, path: &Path) -> wasmtime::Result<Component> {
        // SAFETY: the file was made by this program's own compiler: it lies in a directory that only its owner may write
        // to, under the name of this engine, and bears the checksum that was written after it. The engine checks its own
        // header besides.
        unsafe { Component::deserialize_file(&self.engine, path) }
    }
}
