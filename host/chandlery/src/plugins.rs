//! The plugins of one host by name: what each may do, who may use it, and the component behind it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use chandlery_api::{AllowedNamespaces, Grants};
use chandlery_core::cluster::Problem;
use chandlery_core::grant::Grant;
use chandlery_core::limits::Limits;
use chandlery_core::task::Description;
use chandlery_core::{Class, Digest, Setback};
use serde_json::Value;

/// A plugin that can be called.
pub struct Registered {
    /// The component.
    pub plugin: Arc<chandlery_runtime::Plugin>,
    /// What it says of itself.
    pub description: Description,
    /// Its spec schema, compiled; schemas that are elsewhere are never fetched.
    pub validator: jsonschema::Validator,
    /// What it may do.
    pub grants: Grants,
    /// What one call may use.
    pub limits: Limits,
    /// Whose Provisions may use it; all when absent.
    pub allowed: Option<AllowedNamespaces>,
}

/// Where a Plugin object stands.
#[derive(Clone)]
pub enum PluginState {
    /// Can be called.
    Ready(Arc<Registered>),
    /// Cannot, and why.
    Unready(Setback),
}

/// All plugins of one host.
#[derive(Default)]
pub struct Plugins {
    by_name: RwLock<HashMap<String, PluginState>>,
}

impl Registered {
    /// Puts together what is needed to call a plugin.
    ///
    /// # Errors
    /// A sentence, if its spec schema is not a JSON Schema by itself.
    pub fn new(
        plugin: Arc<chandlery_runtime::Plugin>,
        description: Description,
        grants: Grants,
        limits: Limits,
        allowed: Option<AllowedNamespaces>,
    ) -> Result<Self, String> {
        let validator = compile_schema(&description.spec_schema)?;
        Ok(Self {
            plugin,
            description,
            validator,
            grants,
            limits,
            allowed,
        })
    }

    /// What a spec breaks of the schema, at most 20 problems; paths are in the spec.
    pub fn schema_problems(&self, spec: &Value) -> Vec<Problem> {
        problems_of(&self.validator, spec)
    }
}

/// What a document breaks of a schema, at most 20 problems.
pub(crate) fn problems_of(validator: &jsonschema::Validator, document: &Value) -> Vec<Problem> {
    let errors = validator.iter_errors(document).take(20);
    errors
        .map(|error| Problem {
            path: error.instance_path().to_string(),
            message: chandlery_core::readiness::one_line(&error.to_string()),
        })
        .collect()
}

/// Compiles a JSON Schema that refers to nothing outside itself.
pub(crate) fn compile_schema(schema: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::draft202012::options()
        .build(schema)
        .map_err(|error| format!("its spec schema is not a JSON Schema of its own: {error}"))
}

/// Why a step that wants a plugin cannot go on.
pub(crate) fn not_ready(name: &str, setback: Setback) -> Setback {
    Setback {
        message: format!("Plugin {name} is not ready: {}", setback.message),
        class: setback.class,
        reason: "PluginNotReady".into(),
    }
}

impl Plugins {
    /// Sets where a plugin stands.
    pub fn set(&self, name: &str, state: PluginState) {
        self.by_name
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), state);
    }

    /// Forgets a plugin.
    pub fn remove(&self, name: &str) {
        self.by_name
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    /// Where a plugin stands, if it is known.
    pub fn state(&self, name: &str) -> Option<PluginState> {
        self.by_name
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    /// Digests that are in use by name.
    pub fn digests(&self) -> Vec<Digest> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        by_name
            .values()
            .filter_map(|state| match state {
                PluginState::Ready(registered) => Some(registered.plugin.digest().clone()),
                PluginState::Unready(_) => None,
            })
            .collect()
    }

    /// A plugin for Provisions of a namespace with these labels.
    ///
    /// # Errors
    /// `Wait` while there is no Plugin of the name, `UserFix` where it is not ready or not for this namespace.
    pub fn usable(
        &self,
        name: &str,
        namespace: &str,
        labels: impl FnOnce() -> Option<BTreeMap<String, String>>,
    ) -> Result<Arc<Registered>, Setback> {
        let registered = match self.state(name) {
            None => {
                return Err(Setback::new(
                    Class::Wait,
                    "PluginMissing",
                    format!("there is no Plugin {name}"),
                ));
            }
            Some(PluginState::Unready(setback)) => {
                return Err(not_ready(name, setback));
            }
            Some(PluginState::Ready(registered)) => registered,
        };
        let Some(allowed) = &registered.allowed else {
            return Ok(registered);
        };
        let refuse = |why: String| Setback::new(Class::UserFix, "PluginNotAllowed", why);
        match allowed.allows(&labels().unwrap_or_default()) {
            Ok(true) => Ok(registered),
            Ok(false) => Err(refuse(format!(
                "Plugin {name} is not for namespace {namespace}: its labels do not match allowedNamespaces"
            ))),
            Err(error) => Err(refuse(format!("Plugin {name}: {error}"))),
        }
    }

    /// What a plugin may do; nothing if it is not known.
    pub fn grant(&self, name: &str, on_hub: bool) -> Grant {
        match self.state(name) {
            Some(PluginState::Ready(registered)) if on_hub => Grant::new(registered.grants.hub.clone()),
            Some(PluginState::Ready(registered)) => Grant::new(registered.grants.remote.clone()),
            _ => Grant::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_is_missing_or_being_loaded_is_waited_for_and_a_bad_one_is_not() {
        let plugins = Plugins::default();
        let told = |plugins: &Plugins| match plugins.usable("p", "team", || None) {
            Err(setback) => (setback.class, setback.reason, setback.message),
            Ok(_) => panic!("it cannot be used"),
        };
        let (class, reason, _) = told(&plugins);
        assert_eq!((class, reason.as_str()), (Class::Wait, "PluginMissing"));
        let unready = |class| PluginState::Unready(Setback::new(class, "Any", "it is being loaded"));
        plugins.set("p", unready(Class::Wait));
        let (class, reason, message) = told(&plugins);
        assert_eq!((class, reason.as_str()), (Class::Wait, "PluginNotReady"));
        assert_eq!(message, "Plugin p is not ready: it is being loaded");
        plugins.set("p", unready(Class::UserFix));
        assert_eq!(told(&plugins).0, Class::UserFix);
    }
}
