//! A component as one Provisioner among those written in Rust.

use std::sync::Arc;

use async_trait::async_trait;
use chandlery_core::cluster::{ClusterAccess, Problem};
use chandlery_core::grant::Grant;
use chandlery_core::limits::Limits;
use chandlery_core::task::{Export, Failure, Outcome, Request};
use chandlery_core::{Digest, Setback};
use chandlery_engine::{DeletionMode, Provisioner};
use chandlery_runtime::{Plugin, Runtime};
use serde_json::Value;

use crate::plugins::{compile_schema, problems_of};

/// One step that is a call of a component: in a sandbox, within limits, and by a grant.
///
/// A step that was run with another component of the same name is undone with this one.
pub struct Component {
    name: String,
    runtime: Arc<Runtime>,
    plugin: Arc<Plugin>,
    spec: Value,
    on_remotes: Grant,
    on_the_hub: Grant,
    limits: Limits,
}

/// Why there is no step of a component.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// It does not answer, or not as a plugin does.
    #[error("asking the component of step {0}")]
    Failure(String, #[source] Failure),
    /// Its spec schema is not a JSON Schema of its own.
    #[error("step {0}: {1}")]
    Schema(String, String),
    /// The settings are not what it takes.
    #[error("the settings of step {0}: {problems}", problems = chandlery_core::cluster::join_problems(.1))]
    Settings(String, Vec<Problem>),
}

impl Component {
    /// A step of this name, with these settings; they are checked now. It may do nothing yet: see [`Component::granted`].
    ///
    /// # Errors
    /// [`ComponentError`], by what the component says.
    pub async fn new(
        runtime: Arc<Runtime>,
        plugin: Arc<Plugin>,
        name: impl Into<String>,
        spec: Value,
    ) -> Result<Self, ComponentError> {
        let name = name.into();
        let limits = Limits::default();
        let failed = |failure| ComponentError::Failure(name.clone(), failure);
        let description = runtime.describe(&plugin).await.map_err(failed)?;
        let validator =
            compile_schema(&description.spec_schema).map_err(|error| ComponentError::Schema(name.clone(), error))?;
        let mut problems = problems_of(&validator, &spec);
        if problems.is_empty() {
            problems = runtime.check(&plugin, &spec, &limits).await.map_err(failed)?;
        }
        if !problems.is_empty() {
            return Err(ComponentError::Settings(name, problems));
        }
        Ok(Self {
            name,
            runtime,
            plugin,
            spec,
            on_remotes: Grant::default(),
            on_the_hub: Grant::default(),
            limits,
        })
    }

    /// The same with a grant on remotes, and one on the hub.
    #[must_use]
    pub fn granted(self, on_remotes: Grant, on_the_hub: Grant) -> Self {
        Self {
            on_remotes,
            on_the_hub,
            ..self
        }
    }

    /// The same with other limits of a call.
    #[must_use]
    pub fn limited(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    async fn call(&self, export: Export, scope: &Arc<dyn ClusterAccess>, task: &Request) -> Result<Outcome, Setback> {
        self.runtime
            .call(&self.plugin, &self.name, export, scope.clone(), task, &self.limits)
            .await
            .map_err(Failure::into_setback)
    }
}

#[async_trait]
impl Provisioner for Component {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> Value {
        self.spec.clone()
    }

    fn digest(&self) -> Digest {
        self.plugin.digest().clone()
    }

    fn grant(&self, on_hub: bool) -> Grant {
        if on_hub {
            self.on_the_hub.clone()
        } else {
            self.on_remotes.clone()
        }
    }

    async fn provision(&self, scope: &Arc<dyn ClusterAccess>, task: &Request) -> Result<Outcome, Setback> {
        self.call(Export::Provision, scope, task).await
    }

    async fn deprovision(
        &self,
        scope: &Arc<dyn ClusterAccess>,
        task: &Request,
        deletion: DeletionMode,
    ) -> Result<Outcome, Setback> {
        let doomed = deletion == DeletionMode::Background;
        self.call(Export::Deprovision { doomed }, scope, task).await
    }
}
