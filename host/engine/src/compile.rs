//! From what a person wrote to a graph: everything wrong is found here, with its field path, before anything runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chandlery_core::StepName;
use chandlery_core::cluster::Problem;
use chandlery_core::names::{HUB, OBJECTS_PLUGIN};
use chandlery_core::provision::{ProvisionSpec, StepSpec};
use serde_json::{Value, json};

use crate::expression::Expression;
use crate::template::Template;

/// A provision's steps in an order in which each comes after what it needs.
#[derive(Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    inputs: serde_json::Map<String, Value>,
}

/// One step of a graph.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: StepName,
    /// Steps that must be done first.
    pub needs: Vec<StepName>,
    /// All steps that are done before it: `needs`, their needs, and so on.
    pub before: BTreeSet<StepName>,
    /// The remote's name within the provision, or `hub`.
    pub on: String,
    /// Condition.
    pub when: Option<Expression>,
    /// Whether it may be left to go with its cluster.
    pub background_deletion: bool,
    /// Name of the Plugin object.
    pub plugin: String,
    /// Its settings.
    pub with: Template,
}

impl Graph {
    /// Of nodes that each come after all that they need.
    pub(crate) fn new(nodes: Vec<Node>, inputs: serde_json::Map<String, Value>) -> Self {
        Self { nodes, inputs }
    }

    /// The steps; each comes after all that it needs.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The provision's inputs.
    pub fn inputs(&self) -> &serde_json::Map<String, Value> {
        &self.inputs
    }

    /// One step by name.
    pub fn node(&self, name: &StepName) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == *name)
    }
}

/// Compiles a spec.
///
/// # Errors
/// All problems, each with a JSON pointer from the object's root (`/spec/steps/2/needs/0`), in the order of the spec.
pub fn compile(spec: &ProvisionSpec) -> Result<Graph, Vec<Problem>> {
    let mut problems = Vec::new();
    let remotes = check_remotes(spec, &mut problems);
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, step) in spec.steps.iter().enumerate() {
        if let Some(first) = names.insert(&step.name, i) {
            names.insert(&step.name, first);
            problems.push(at(
                i,
                "name",
                format!("step \"{}\" is already there as steps[{first}]", step.name),
            ));
        }
    }
    if spec.steps.is_empty() {
        problems.push(Problem {
            path: "/spec/steps".into(),
            message: "there is no step".into(),
        });
    }
    let nodes: Vec<Option<Node>> = spec
        .steps
        .iter()
        .enumerate()
        .map(|(i, step)| compile_step(i, step, spec, &remotes, &names, &mut problems))
        .collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let nodes = sorted(nodes.into_iter().flatten().collect(), &names)?;
    Ok(Graph {
        nodes,
        inputs: spec.inputs.clone(),
    })
}

fn at(step: usize, field: &str, message: String) -> Problem {
    Problem {
        path: format!("/spec/steps/{step}/{field}"),
        message,
    }
}

fn check_remotes<'a>(spec: &'a ProvisionSpec, problems: &mut Vec<Problem>) -> BTreeSet<&'a str> {
    let mut remotes = BTreeSet::new();
    for (i, remote) in spec.remotes.iter().enumerate() {
        let mut problem = |message: String| {
            problems.push(Problem {
                path: format!("/spec/remotes/{i}/name"),
                message,
            })
        };
        if remote.name == HUB {
            problem("\"hub\" is the cluster Chandlery runs in; give the remote another name".into());
        } else if !chandlery_core::ids::is_dns_label(&remote.name) {
            problem(format!("\"{}\" is not a DNS label", remote.name));
        } else if !remotes.insert(remote.name.as_str()) {
            problem(format!("remote \"{}\" is there twice", remote.name));
        }
    }
    remotes
}

fn compile_step(
    i: usize,
    step: &StepSpec,
    spec: &ProvisionSpec,
    remotes: &BTreeSet<&str>,
    names: &BTreeMap<&str, usize>,
    problems: &mut Vec<Problem>,
) -> Option<Node> {
    let name = match step.name.parse::<StepName>() {
        Ok(name) => Some(name),
        Err(error) => {
            problems.push(at(i, "name", error.to_string()));
            None
        }
    };
    let mut needs = Vec::new();
    for (n, need) in step.needs.iter().enumerate() {
        let mut problem = |message: String| problems.push(at(i, &format!("needs/{n}"), message));
        if *need == step.name {
            problem(format!("step \"{need}\" needs itself"));
        } else if !names.contains_key(need.as_str()) {
            problem(format!("there is no step \"{need}\""));
        } else if let Ok(need) = need.parse::<StepName>()
            && !needs.contains(&need)
        {
            needs.push(need);
        }
    }
    if step.cluster == HUB {
        if spec.service_account_name.is_none() {
            problems.push(at(
                i,
                "cluster",
                "a step on the hub acts as a ServiceAccount: set spec.serviceAccountName".into(),
            ));
        }
    } else if !remotes.contains(step.cluster.as_str()) {
        let there = if remotes.is_empty() {
            "there are no remotes".into()
        } else {
            format!("there are: {}", remotes.iter().copied().collect::<Vec<_>>().join(", "))
        };
        problems.push(at(
            i,
            "cluster",
            format!("there is no remote \"{}\"; {there}", step.cluster),
        ));
    }
    let when = step.when.as_deref().and_then(|text| match Expression::parse(text) {
        Ok(expression) => Some(expression),
        Err(message) => {
            problems.push(at(i, "when", message));
            None
        }
    });
    let (plugin, with) = match (&step.plugin, &step.objects) {
        (Some(plugin), None) => {
            let with = step.with.clone().unwrap_or_else(|| json!({}));
            (
                plugin.clone(),
                Template::parse(&with, &format!("/spec/steps/{i}/with"), problems),
            )
        }
        (None, Some(objects)) => {
            if step.with.is_some() {
                problems.push(at(
                    i,
                    "with",
                    "`objects` is all the settings of its step; `with` goes with `plugin`".into(),
                ));
            }
            let before = problems.len();
            let with = Template::parse(&json!({"objects": objects}), &format!("/spec/steps/{i}"), problems);
            debug_assert!(problems.len() >= before);
            (OBJECTS_PLUGIN.to_owned(), with)
        }
        (Some(_), Some(_)) => {
            problems.push(at(i, "plugin", "give either `plugin` or `objects`, not both".into()));
            return None;
        }
        (None, None) => {
            problems.push(at(i, "plugin", "give `plugin` (with `with`) or `objects`".into()));
            return None;
        }
    };
    Some(Node {
        name: name?,
        needs,
        before: BTreeSet::new(),
        on: step.cluster.clone(),
        when,
        background_deletion: step.background_deletion,
        plugin,
        with,
    })
}

/// Sorts the steps so that each comes after its needs, in the order of the spec where that leaves a choice.
fn sorted(nodes: Vec<Node>, names: &BTreeMap<&str, usize>) -> Result<Vec<Node>, Vec<Problem>> {
    let mut waiting: VecDeque<Node> = nodes.into();
    let mut done: Vec<Node> = Vec::new();
    let mut since_progress = 0;
    while let Some(mut node) = waiting.pop_front() {
        let before: Option<Vec<&Node>> = node
            .needs
            .iter()
            .map(|need| done.iter().find(|d| d.name == *need))
            .collect();
        match before {
            Some(before) => {
                node.before = before
                    .iter()
                    .flat_map(|b| b.before.iter().cloned().chain([b.name.clone()]))
                    .collect();
                done.push(node);
                since_progress = 0;
            }
            None => {
                waiting.push_back(node);
                since_progress += 1;
                if since_progress > waiting.len() {
                    return Err(vec![cycle(&waiting, names)]);
                }
            }
        }
    }
    Ok(done)
}

/// Names one cycle among the steps that are left, each of which needs another of them or leads to one that does.
fn cycle(left: &VecDeque<Node>, names: &BTreeMap<&str, usize>) -> Problem {
    let mut path: Vec<&StepName> = Vec::new();
    let mut here = left.front();
    while let Some(node) = here {
        if let Some(start) = path.iter().position(|p| **p == node.name) {
            let mut round: Vec<&str> = path.iter().skip(start).map(|p| p.as_str()).collect();
            round.push(node.name.as_str());
            let index = names.get(node.name.as_str()).copied().unwrap_or(0);
            return at(
                index,
                "needs",
                format!("steps need each other in a circle: {}", round.join(" → ")),
            );
        }
        path.push(&node.name);
        here = node.needs.iter().find_map(|need| left.iter().find(|l| l.name == *need));
    }
    Problem {
        path: "/spec/steps".into(),
        message: "steps need each other in a circle".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(spec: Value) -> Vec<(String, String)> {
        let spec: ProvisionSpec = serde_json::from_value(spec).unwrap();
        compile(&spec)
            .expect_err("is wrong")
            .into_iter()
            .map(|p| (p.path, p.message))
            .collect()
    }

    #[test]
    fn a_cycle_is_named() {
        let found = problems(json!({"remotes": [{"name": "r", "ref": "r"}], "steps": [
            {"name": "x", "cluster": "r", "plugin": "p", "needs": ["a"]},
            {"name": "a", "cluster": "r", "plugin": "p", "needs": ["b"]},
            {"name": "b", "cluster": "r", "plugin": "p", "needs": ["a"]}]}));
        assert_eq!(
            found,
            [(
                "/spec/steps/1/needs".to_owned(),
                "steps need each other in a circle: a → b → a".to_owned()
            )]
        );
    }

    #[test]
    fn all_problems_are_found_at_once_each_at_its_place() {
        let found = problems(
            json!({"remotes": [{"name": "r", "ref": "r"}, {"name": "r", "ref": "s"}, {"name": "hub", "ref": "s"}], "steps": [
            {"name": "a", "cluster": "nowhere", "plugin": "p", "when": "1 +"},
            {"name": "a", "cluster": "hub", "plugin": "p", "objects": []},
            {"name": "B", "cluster": "r", "needs": ["gone", "B"]},
            {"name": "c", "cluster": "r", "plugin": "p", "with": {"x": "${inputs"}}]}),
        );
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/spec/remotes/1/name",
                "/spec/remotes/2/name",
                "/spec/steps/1/name",
                "/spec/steps/0/cluster",
                "/spec/steps/0/when",
                "/spec/steps/1/cluster",
                "/spec/steps/1/plugin",
                "/spec/steps/2/name",
                "/spec/steps/2/needs/0",
                "/spec/steps/2/needs/1",
                "/spec/steps/2/plugin",
                "/spec/steps/3/with/x",
            ]
        );
    }

    #[test]
    fn steps_come_after_what_they_need() {
        let spec = serde_json::from_value(json!({"remotes": [{"name": "r", "ref": "r"}], "steps": [
            {"name": "c", "cluster": "r", "plugin": "p", "needs": ["b", "b"]},
            {"name": "b", "cluster": "r", "plugin": "p", "needs": ["a"]},
            {"name": "a", "cluster": "r", "objects": []}]}))
        .unwrap();
        let graph = compile(&spec).unwrap();
        assert_eq!(
            graph.nodes().iter().map(|n| n.name.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
        assert_eq!(graph.nodes()[2].before.len(), 2);
        assert_eq!(graph.nodes()[2].needs.len(), 1);
        assert_eq!(graph.nodes()[0].plugin, "objects");
    }
}
