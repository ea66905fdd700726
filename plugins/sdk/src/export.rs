//! From a [`Provisioner`] to the exports of the contract.

use std::marker::PhantomData;

use crate::bindings::chandlery::provision::cluster as wit;
use crate::bindings::exports::chandlery::provision::provisioner::{Description, Guest, Request};
use crate::log::report_panics;
use crate::schema::{parse, schema_of};
use crate::{Cluster, Failure, Outcome, Problem, Provisioner, Result, Rule, Task};

/// What `#[provisioner(…)]` says of a plugin. Written by the macro.
pub trait Described {
    /// `vendor.example/name`.
    const NAME: &'static str;
    /// Semantic version: the crate's own.
    const VERSION: &'static str;
    /// One sentence.
    const SUMMARY: &'static str;
    /// What it may ask for: API groups, resources, verbs.
    const NEEDS: &'static [(&'static str, &'static [&'static str], &'static [&'static str])];
}

/// A [`Provisioner`] as the contract wants it. Used by the macro.
pub struct Exported<P>(PhantomData<P>);

/// Uses a plugin where its exports do not: on the author's machine nothing is then reported as unused. Used by the macro.
pub const fn exports<P: Provisioner + Described>() {}

impl<P: Provisioner + Described> Guest for Exported<P> {
    fn describe() -> Description {
        report_panics();
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Description {
            name: P::NAME.to_owned(),
            version: P::VERSION.to_owned(),
            summary: P::SUMMARY.to_owned(),
            spec_schema: schema_of::<P::Spec>(),
            outputs_schema: schema_of::<P::Outputs>(),
            needs: P::NEEDS
                .iter()
                .map(|(group, resources, verbs)| Rule {
                    api_groups: owned(&[group]),
                    resources: owned(resources),
                    verbs: owned(verbs),
                })
                .collect(),
        }
    }

    fn check(spec: String) -> Vec<Problem> {
        report_panics();
        match parse(&spec) {
            Ok(spec) => P::check(spec),
            Err(problem) => vec![problem],
        }
    }

    fn provision(on: &wit::Cluster, request: Request) -> Result<Outcome, Failure> {
        report_panics();
        P::provision(&Cluster::new(on), Task::read(request)?)
    }

    fn deprovision(on: &wit::Cluster, request: Request, doomed: bool) -> Result<Outcome, Failure> {
        report_panics();
        P::deprovision(&Cluster::new(on), Task::read(request)?, doomed)
    }
}
