//! Order. It has never heard of Kubernetes or WebAssembly; it is tested with ports that are ten-line fakes.
//!
//! [`compile`] turns what a person wrote into a [`Graph`], or into everything that is wrong with it, each with its field
//! path; so does [`Tree::compile`] with what a program put together. [`pass`] runs the steps of a graph whose needs are done, at the same time up to a limit; [`undo_all`] takes all
//! steps away in the reverse order. Both go on where one step fails, and report every step.

mod compile;
mod expression;
mod pass;
mod provisioner;
mod row;
mod step;
mod template;
mod tree;

pub use compile::{Graph, Node, compile};
pub use expression::{Context, Expression};
pub use pass::{Look, Pass, pass, undo_all};
pub use provisioner::{DeletionMode, OwnersProvisioners, Provisioner, Provisioners};
pub use row::{RowState, StepRow};
pub use template::Template;
pub use tree::{On, Tree, background, concurrent, remote, serial, step, when};
