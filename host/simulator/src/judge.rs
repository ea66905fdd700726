//! What is wrong with an object that is to be stored, and what its writer is warned of.

use chandlery_kinds::Fault;
use serde_json::Value;

use crate::catalog::Resource;
use crate::object;
use crate::status::{Cause, Failure};
use crate::world::World;
use crate::write::Change;

impl World {
    pub(crate) fn validate_create(&self, change: &Change<'_>, document: &Value) -> Result<(), Failure> {
        let resource = &change.target.resource;
        check_kind(change, document)?;
        let mut faults = chandlery_kinds::meta::validate(document, resource.namespaced, &|name, prefix| match resource
            .built_in_kind()
        {
            Some(kind) => kind.validate_name(name, prefix),
            None => chandlery_kinds::names::subdomain(name, prefix),
        });
        match resource.custom() {
            Some(custom) => custom.validate(change.version, document, None, false, &mut faults),
            None => faults.extend(
                resource
                    .built_in_kind()
                    .map(|kind| kind.validate(document))
                    .unwrap_or_default(),
            ),
        }
        refuse(resource, object::name(document), faults)
    }

    pub(crate) fn validate_update(&self, change: &Change<'_>, new: &Value, old: &Value) -> Result<(), Failure> {
        let resource = &change.target.resource;
        check_kind(change, new)?;
        let mut faults = chandlery_kinds::meta::validate_update(new, old);
        match (resource.custom(), resource.built_in_kind()) {
            (Some(custom), _) => {
                faults.extend(chandlery_kinds::meta::validate_change(new, old));
                custom.validate(
                    change.version,
                    new,
                    Some(old),
                    change.subresource == "status",
                    &mut faults,
                );
            }
            (_, Some(kind)) if change.subresource == "status" => faults.extend(kind.validate_status_update(new, old)),
            (_, Some(kind)) => faults.extend(kind.validate_update(new, old)),
            (None, None) => {}
        }
        refuse(resource, object::name(old), faults)
    }

    pub(crate) fn warn(&mut self, change: &Change<'_>, new: &Value, old: Option<&Value>) {
        let resource = &change.target.resource;
        if let Some(kind) = resource.built_in_kind() {
            self.warned.extend(kind.warnings(new, old));
        }
        if resource.custom().is_some() {
            self.warned.extend(finalizer_warnings(new, old));
        }
        if resource.structure_only {
            self.warned.push(format!(
                "the simulator knows only the structure of {}: nothing is defaulted and little is validated",
                resource.kind
            ));
        }
    }
}

/// A custom object of another kind than its path's: little else is looked at.
fn check_kind(change: &Change<'_>, document: &Value) -> Result<(), Failure> {
    let resource = &change.target.resource;
    let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
    let Some(custom) = resource.custom().filter(|_| kind != resource.kind) else {
        return Ok(());
    };
    let why = format!("Invalid value: \"{kind}\": must be {}", resource.kind);
    let mut causes = vec![Cause::new("FieldValueInvalid", "kind", why)];
    let faults = custom.validate_lists(change.version, document);
    causes.extend(
        faults
            .into_iter()
            .map(|fault| Cause::new(fault.kind.reason(), &fault.field, fault.message)),
    );
    Err(Failure::invalid(kind, &resource.group, object::name(document), causes))
}

/// A finalizer of a custom object that could be anybody's.
fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let had: Vec<&str> = old.into_iter().flat_map(object::finalizers).collect();
    let mut added: Vec<&str> = object::finalizers(new)
        .filter(|finalizer| !had.contains(finalizer) && !finalizer.contains('/'))
        .filter(|finalizer| !matches!(*finalizer, "orphan" | "foregroundDeletion" | "kubernetes"))
        .collect();
    added.sort_unstable();
    added.dedup();
    added
        .into_iter()
        .map(|finalizer| {
            format!("metadata.finalizers: \"{finalizer}\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
        })
        .collect()
}

pub(crate) fn refuse(resource: &Resource, name: &str, faults: Vec<Fault>) -> Result<(), Failure> {
    if faults.is_empty() {
        return Ok(());
    }
    let causes = faults
        .into_iter()
        .map(|fault| Cause::new(fault.kind.reason(), &fault.field, fault.message))
        .collect();
    Err(Failure::invalid(&resource.kind, &resource.group, name, causes))
}
