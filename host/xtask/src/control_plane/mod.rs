//! A control plane is real Kubernetes on loopback, owned by whoever started it, and gone without a trace afterwards.
//!
//! `certificates` and `kubeconfig` say who may call, `plan` says what runs with which flags, `cluster` runs it for as long
//! as a value lives, `detached` for people until they stop it, `guard` cleans up if we are killed.

mod binary;
mod certificates;
mod cluster;
mod detached;
mod guard;
mod kubeconfig;
mod kubectl;
mod plan;
mod ports;
mod probe;

pub use binary::{Binaries, Part};
pub use certificates::{Certificates, Identity};
pub use cluster::ControlPlane;
pub(crate) use detached::adopt;
pub use detached::{Detached, down, up};
pub(crate) use guard::Guard;
pub use kubectl::Kubectl;
pub use plan::ControlPlaneBuilder;
pub(crate) use ports::Reserved;
