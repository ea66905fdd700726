//! Combinators: Provisioners put together in Rust, and compiled to the same graph that a Provision is compiled to.
//!
//! A tree says order and conditions; how often, how many at once, in which direction and from which record is the engine's
//! business. So there is no state in a tree: any process may hold it, and any other go on.

use std::collections::BTreeSet;
use std::sync::Arc;

use chandlery_core::StepName;
use chandlery_core::cluster::Problem;
use serde_json::{Map, Value};

use crate::compile::{Graph, Node};
use crate::expression::Expression;
use crate::provisioner::{Provisioner, Provisioners};
use crate::template::Template;

/// Provisioners in some shape.
pub struct Tree(Shape);

enum Shape {
    Step(Arc<dyn Provisioner>),
    Serial(Vec<Tree>),
    Concurrent(Vec<Tree>),
    When(String, Box<Tree>),
    On(String, Box<Tree>),
    Background(Box<Tree>),
}

/// One step.
pub fn step(provisioner: impl Provisioner + 'static) -> Tree {
    Tree(Shape::Step(Arc::new(provisioner)))
}

/// One after the other: each begins once the one before it is done. The first that fails or yields is where a pass ends.
/// Taken away in reverse order.
pub fn serial(children: impl IntoIterator<Item = Tree>) -> Tree {
    Tree(Shape::Serial(children.into_iter().collect()))
}

/// All at once: all are started and awaited, none is cut off because of another, and all that went wrong is told, errors
/// before yields.
pub fn concurrent(children: impl IntoIterator<Item = Tree>) -> Tree {
    Tree(Shape::Concurrent(children.into_iter().collect()))
}

/// Only while a condition is true: CEL over `inputs`, and over `steps.NAME.outputs` of steps before it in a [`serial`]. While
/// it is false, the child is deprovisioned, and what comes after goes on. Deprovisioning asks no condition.
pub fn when(condition: impl Into<String>, child: Tree) -> Tree {
    Tree(Shape::When(condition.into(), Box::new(child)))
}

/// A remote by its name among the owner's remotes, or [`HUB`](chandlery_core::names::HUB). It is made ready once however many
/// children there are, of this tree or of others, and let go after the last.
pub fn remote(name: impl Into<String>) -> On {
    On(name.into())
}

/// A place to provision on.
pub struct On(String);

impl On {
    /// A child in this cluster. Of two nested places the inner one counts.
    pub fn provision_on(self, child: Tree) -> Tree {
        Tree(Shape::On(self.0, Box::new(child)))
    }
}

/// A child that need not be seen gone where its remote is itself about to be destroyed, in the same deletion. It is asked anew
/// each time, and holds for this child only: never for what is deeper in another remote.
pub fn background(child: Tree) -> Tree {
    Tree(Shape::Background(Box::new(child)))
}

impl Tree {
    /// All Provisioners in the tree.
    pub fn provisioners(&self) -> Provisioners {
        let mut all = Provisioners::default();
        self.each(&mut |provisioner| all.insert(provisioner.clone()));
        all
    }

    fn each(&self, see: &mut impl FnMut(&Arc<dyn Provisioner>)) {
        match &self.0 {
            Shape::Step(provisioner) => see(provisioner),
            Shape::Serial(children) | Shape::Concurrent(children) => {
                for child in children {
                    child.each(see);
                }
            }
            Shape::When(_, child) | Shape::On(_, child) | Shape::Background(child) => child.each(see),
        }
    }

    /// The graph of the tree, with the values that its conditions may use.
    ///
    /// # Errors
    /// All problems: a name that is no DNS label or is there twice, a condition that does not parse, a step on no remote. A
    /// path is that of the step in the tree (`/serial/1/when/namespace`).
    pub fn compile(&self, inputs: Map<String, Value>) -> Result<Graph, Vec<Problem>> {
        let mut compiling = Compiling::default();
        compiling.walk(self, &Place::default(), "");
        if compiling.problems.is_empty() {
            Ok(Graph::new(compiling.nodes, inputs))
        } else {
            Err(compiling.problems)
        }
    }
}

/// What stands around a step.
#[derive(Clone, Default)]
struct Place<'a> {
    on: Option<&'a str>,
    conditions: Vec<&'a str>,
    in_background: bool,
    /// Steps that must be done first.
    after: Vec<StepName>,
}

#[derive(Default)]
struct Compiling {
    nodes: Vec<Node>,
    names: BTreeSet<StepName>,
    problems: Vec<Problem>,
}

impl Compiling {
    /// Compiles a part; answers the names of its steps.
    fn walk<'a>(&mut self, tree: &'a Tree, place: &Place<'a>, path: &str) -> Vec<StepName> {
        match &tree.0 {
            Shape::Step(provisioner) => self.step(provisioner.as_ref(), place, path).into_iter().collect(),
            Shape::Serial(children) => {
                let mut place = place.clone();
                let mut all = Vec::new();
                for (at, child) in children.iter().enumerate() {
                    let names = self.walk(child, &place, &format!("{path}/serial/{at}"));
                    // A child without steps leaves its follower to what came before.
                    if !names.is_empty() {
                        place.after.clone_from(&names);
                    }
                    all.extend(names);
                }
                all
            }
            Shape::Concurrent(children) => children
                .iter()
                .enumerate()
                .flat_map(|(at, child)| self.walk(child, place, &format!("{path}/concurrent/{at}")))
                .collect(),
            Shape::When(condition, child) => {
                let mut place = place.clone();
                place.conditions.push(condition);
                self.walk(child, &place, &format!("{path}/when"))
            }
            Shape::Background(child) => {
                let place = Place {
                    in_background: true,
                    ..place.clone()
                };
                self.walk(child, &place, &format!("{path}/background"))
            }
            Shape::On(remote, child) => {
                let mut place = place.clone();
                place.on = Some(remote);
                place.in_background = false;
                self.walk(child, &place, &format!("{path}/on"))
            }
        }
    }

    fn step(&mut self, provisioner: &dyn Provisioner, place: &Place<'_>, path: &str) -> Option<StepName> {
        let path = format!("{path}/{}", provisioner.name());
        let mut problem = |message: String| {
            self.problems.push(Problem {
                path: path.clone(),
                message,
            });
        };
        let name = match provisioner.name().parse::<StepName>() {
            Ok(name) => name,
            Err(error) => {
                problem(error.to_string());
                return None;
            }
        };
        if self.names.contains(&name) {
            problem(format!("there is another step \"{name}\" in the tree"));
        }
        if place.on.is_none() {
            problem("it is on no remote: put it into remote(…).provision_on(…)".into());
        }
        let when = match place.conditions.as_slice() {
            [] => None,
            [condition] => Some((*condition).to_owned()),
            conditions => Some(
                conditions
                    .iter()
                    .map(|one| format!("({one})"))
                    .collect::<Vec<_>>()
                    .join(" && "),
            ),
        };
        let when = match when.map(|text| Expression::parse(&text)).transpose() {
            Ok(when) => when,
            Err(message) => {
                problem(message);
                None
            }
        };
        self.names.insert(name.clone());
        let before = place.after.iter().flat_map(|after| {
            let earlier = self.nodes.iter().filter(move |node| node.name == *after);
            earlier
                .flat_map(|node| node.before.iter().cloned())
                .chain([after.clone()])
        });
        let node = Node {
            name: name.clone(),
            needs: place.after.clone(),
            before: before.collect(),
            on: place.on.unwrap_or_default().to_owned(),
            when,
            background_deletion: place.in_background,
            plugin: name.to_string(),
            with: Template::literal(provisioner.settings()),
        };
        self.nodes.push(node);
        Some(name)
    }
}
