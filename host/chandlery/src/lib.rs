//! The only place where real ports are put together: the library for those who embed the host, the daemon first of all.
//!
//! [`Host`] holds the parts of one process. [`Host::pass`] runs one pass over one Provision with real clusters and real
//! components. [`Outfitter`] does the same for trees of [`Provisioner`](engine::Provisioner)s and owners of a program's own, without
//! Provisions and without the daemon; a [`Component`] is a Provisioner that is a plugin. [`call_once`] runs one call of one plugin
//! by hand.

mod component;
mod once;
mod outfitter;
mod plugins;
mod source;
mod wire;

pub use component::{Component, ComponentError};
pub use once::{Once, OnceError, OnceReport, call_once};
pub use outfitter::{OutfitError, Outfitter, OutfitterOptions};
pub use plugins::{PluginState, Plugins, Registered};
pub use source::{SourceError, read_source};
pub use wire::{Host, HostOptions, PassReport, finished};

pub use chandlery_api as api;
pub use chandlery_artifact as artifact;
pub use chandlery_core as core;
pub use chandlery_engine as engine;
pub use chandlery_runtime as runtime;
pub use chandlery_scope as scope;
