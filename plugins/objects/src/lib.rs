//! Applies the Kubernetes objects in its spec, in an order that works for any of them, and waits until they are ready.
//!
//! One call does all that can be done now: namespaces, then CustomResourceDefinitions, then what others refer to, then the
//! rest, then what could stand in the way of the rest (webhooks). What needs something that is not there yet is left out,
//! and the call yields with what it waits for. What it applied is taken away by the host.

mod plan;
mod readiness;
mod report;
#[cfg(test)]
mod tests;

use chandlery_plugin::prelude::*;

use plan::{Item, Plan};
use report::Report;

/// What is to be in the cluster.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// Kubernetes objects of any kind, in any order. A `List` stands for its items. An object of a namespaced kind must name
    /// its namespace.
    #[schemars(with = "Vec<serde_json::Map<String, Json>>")]
    objects: Vec<Json>,
    /// Whether the step is done only when all objects are ready: Deployments available, Jobs complete, and so on.
    #[serde(default = "yes")]
    wait_for_ready: bool,
    /// Whether fields that somebody else manages are taken over. Objects of other steps never are.
    #[serde(default)]
    force: bool,
}

/// What later steps may refer to.
#[derive(Serialize, JsonSchema)]
pub struct Outputs {
    /// How many objects were applied.
    count: usize,
    /// Their names, the first 100.
    objects: Vec<Name>,
}

/// Name of one object.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Name {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
}

/// Names in the outputs: bounded in number and in bytes, as outputs are.
const LISTED: usize = 100;
const LISTED_BYTES: usize = 12 * 1024;

fn yes() -> bool {
    true
}

/// The plugin.
pub struct Objects;

#[provisioner(
    name = "chandlery.dev/objects",
    summary = "Applies Kubernetes objects and waits until they are ready.",
    needs = ["*.*: get, create, patch"],
)]
impl Provisioner for Objects {
    type Spec = Spec;
    type Outputs = Outputs;

    fn check(spec: Spec) -> Vec<Problem> {
        Plan::of(spec.objects).err().unwrap_or_default()
    }

    fn provision(on: &Cluster, task: Task<Spec>) -> Result<Outcome> {
        let Spec {
            objects,
            wait_for_ready,
            force,
        } = task.spec;
        let plan = Plan::of(objects).map_err(Failure::Invalid)?;
        let report = apply(on, &plan, force)?;
        if let Some(outcome) = report.outcome(task.round) {
            return outcome;
        }
        if wait_for_ready && let Some(outcome) = readiness::wait(on, &plan) {
            return outcome;
        }
        Outcome::done().outputs(outputs(&plan)).into()
    }
}

/// Applies wave after wave. One object's error leaves the others alone; a scope that was taken back ends it at once.
fn apply<'a>(on: &Cluster, plan: &'a Plan, force: bool) -> Result<Report<'a>> {
    let mut report = Report::default();
    for wave in plan.waves() {
        let (now, later): (Vec<&Item>, Vec<&Item>) = wave.into_iter().partition(|item| report.defining(item).is_none());
        for item in later {
            report.waits_for_definition(item);
        }
        for batch in plan::batches(&now) {
            let documents = batch.iter().map(|item| &item.object);
            let results = if force {
                on.apply_all_forced(documents)
            } else {
                on.apply_all(documents)
            };
            for (item, result) in batch.iter().zip(results) {
                report.note(item, result)?;
            }
        }
        let definitions: Vec<&Item> = now.into_iter().filter(|item| item.is_definition()).collect();
        if !definitions.is_empty() {
            let states = on.assess_all(definitions.iter().map(|item| item.name.clone()));
            for (item, state) in definitions.into_iter().zip(states) {
                match state {
                    Ok(state) if state.is_ready() => {}
                    Ok(state) => report.not_served(item, readiness::why(state)),
                    Err(error @ CallError::Fenced) => return Err(error.into()),
                    // Not known: the objects of its kinds will tell.
                    Err(_) => {}
                }
            }
        }
    }
    Ok(report)
}

fn outputs(plan: &Plan) -> Outputs {
    let mut bytes = 0;
    let names = plan.items.iter().map(|item| {
        let ObjectRef {
            api_version,
            kind,
            namespace,
            name,
        } = item.name.clone();
        Name {
            api_version,
            kind,
            namespace,
            name,
        }
    });
    let within = |name: &Name| {
        // Keys and punctuation of an entry are some 60 bytes.
        bytes += name.api_version.len() + name.kind.len() + name.name.len() + 60;
        bytes += name.namespace.as_ref().map_or(0, String::len);
        bytes <= LISTED_BYTES
    };
    Outputs {
        count: plan.items.len(),
        objects: names.take(LISTED).take_while(within).collect(),
    }
}
