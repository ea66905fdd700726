//! Watch, queue, lead, report. The daemon decides nothing about clusters or components: it says when, the library does.
//!
//! One process leads by a Lease; the others stand by. The leader's controllers read an object once per event, hand it to
//! the library and write its status if that changed. What it remembers between passes is only when to look again; what
//! matters is on the hub, so that a kill at any moment loses nothing.

mod access;
mod controllers;
mod events;
mod http;
mod lease;
mod manifests;
mod memory;
mod metrics;
mod run;
mod settings;
mod status;
mod uninstall;

pub use access::{Access, HUB_ACCESS};
pub use manifests::{ManifestOptions, manifests};
pub use run::{COMPILE_VERB, run};
pub use settings::{Identity, Settings};
pub use uninstall::{Leftover, UninstallError, abandon, leftovers};
