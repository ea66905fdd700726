//! Pods and the templates of pods, which all workloads share.

mod containers;
mod defaults;
mod environment;
mod pod;
mod resources;
mod spec;
mod volumes;
mod warnings;

pub(crate) use defaults::{claim_spec, default_spec, drop_disabled, resource_list};
pub(crate) use pod::Pod;
pub(crate) use resources::validate_amount;
pub(crate) use spec::validate_template;
pub(crate) use warnings::{hostname_warning, template_warnings};
