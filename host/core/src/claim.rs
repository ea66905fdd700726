//! The protocol by which a shared remote lives exactly as long as someone uses it, as machines without a clock or a wire.
//!
//! Nothing is counted. A claim is a durable object that names its holder and the host instances that use it; a fence on the
//! RemoteCluster lets no new use begin while the remote is torn down. Each operation ([`Take`], [`Release`], [`Register`],
//! [`TearDown`]) is a [`Machine`]: from what was read so far it says the one next call, and takes in its answer. Whoever
//! drives a machine (the room `scope` against an API server, `cargo xtask model claims` against all that could happen) makes
//! exactly these calls in exactly this order, so what the model shows holds of the code that runs.
//!
//! Two promises are asked of a driver. A read is a quorum read, never one of a cache. A write at a version is refused if the
//! object has another one by then. A call that fails otherwise ends the run; the next run begins from the start, from what
//! is durable.

mod register;
mod release;
mod rules;
mod take;
mod tear_down;
mod words;

pub use register::{Register, Registered};
pub use release::{Release, Released};
pub use rules::{Rule, Rules};
pub use take::{Refusal, Take, Taken};
pub use tear_down::{TearDown, TornDown, Trigger};
#[cfg(feature = "broken-rules")]
pub use words::Rename;
pub use words::{
    Answer, Call, Claim, HolderState, Instance, Machine, Next, Purpose, Registration, Remote, Sighting, Words,
};
