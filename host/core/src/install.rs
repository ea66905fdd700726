//! The installer's durable memory as pure functions: the plan of one Helm installation, the state it is in, and what may follow.
//!
//! A plan is written to the hub before anything is done in the remote, and every later write to it is one of [`Change`]: a
//! compare-and-swap that finds the plan in another state than the change is allowed in has lost, and does nothing. Absent:
//! Kubernetes, Helm, and what time it is.

mod change;
mod plan;
mod state;

pub use change::{Change, NotNow, Preparation, TRANSITIONS, Transition, transitions_table};
pub use plan::{JobResult, Operation, Plan, Recipe, Seal, SealedPlan, Target};
pub use state::State;
