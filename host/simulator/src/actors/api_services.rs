//! APIServices: what the API server serves itself is available; of those with a Service behind them a script says it.

use serde_json::{Value, json};

use super::API_SERVER;
use super::namespaces::merge_conditions;
use crate::object;
use crate::status::Failure;
use crate::store::Key;
use crate::world::World;

const GROUP: &str = "apiregistration.k8s.io";
const PLURAL: &str = "apiservices";

impl World {
    pub(super) fn tend_api_services(&mut self) {
        if self.script.api_services.is_empty() {
            return;
        }
        let Some(resource) = self.resource(GROUP, PLURAL).map(|resource| resource.id) else {
            return;
        };
        let keys: Vec<Key> = self.store.list(resource, None).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let Some(available) = self.script.api_service(&key.name).map(|script| script.available) else {
                continue;
            };
            let document = self.store.get(&key).map(|stored| stored.document()).unwrap_or_default();
            let place = |field: &str| {
                document
                    .pointer(&format!("/spec/service/{field}"))
                    .and_then(Value::as_str)
            };
            let (Some(name), Some(namespace)) = (place("name"), place("namespace")) else {
                continue;
            };
            let condition = if available {
                json!({"type": "Available", "status": "True", "reason": "Passed", "message": "all checks passed"})
            } else {
                let message = format!("service/{name} in \"{namespace}\" is not present");
                json!({"type": "Available", "status": "False", "reason": "ServiceNotFound", "message": message})
            };
            let now = self.timestamp();
            self.act(&key, API_SERVER, "status", |service| {
                let status = object::map_mut(object::map_mut(service).entry("status").or_insert_with(|| json!({})));
                let old = status.get("conditions").cloned();
                status.insert(
                    "conditions".into(),
                    merge_conditions(old.as_ref(), vec![condition], &now),
                );
            });
        }
    }

    /// What is answered where an APIService sends requests on to somebody: nobody is there.
    pub(crate) fn sent_on(&self, group: &str, version: &str) -> Option<Failure> {
        let document = self.read(GROUP, PLURAL, "", &format!("{version}.{group}"))?;
        document
            .pointer("/spec/service")
            .filter(|service| service.is_object())?;
        let is_available = document
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|one| one.get("type") == Some(&"Available".into()) && one.get("status") == Some(&"True".into()));
        Some(if is_available {
            Failure::not_simulated("requests to the server behind an APIService")
        } else {
            Failure::no_backend()
        })
    }
}
