//! What a cluster does that no API server does by itself: run pods, answer behind an APIService. Nothing of it happens unless
//! a script says so, since a world without it is the more predictable one.

use jiff::SignedDuration;

/// What happens to which objects. The first entry that matches an object counts; what nothing matches stays as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// How Jobs fare. If there are any, the controller of Jobs is at work, also for what deleted Jobs leave behind.
    pub jobs: Vec<JobScript>,
    /// Which APIServices are available.
    pub api_services: Vec<ApiServiceScript>,
}

/// How the Jobs of a name fare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobScript {
    /// Where; everywhere without it.
    pub namespace: Option<String>,
    /// The name; a `*` at its end stands for any rest.
    pub name: String,
    /// What becomes of their pods.
    pub outcome: Outcome,
    /// How long a pod runs before that; zero for one that is done when it is first looked at.
    pub runs: SignedDuration,
}

/// What becomes of the pods of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Each succeeds.
    Succeed,
    /// Each fails, until the Job does.
    Fail,
    /// Each runs until it is stopped, and then as long as it may.
    Hang,
    /// There is one more than there should be from the beginning, as after a hand-over between controllers; all succeed.
    DuplicatePod,
    /// The first one is deleted under way, as when its node is drained; those after it succeed.
    ReplacedPod,
}

/// Whether the APIServices of a name are available. Only those with a Service behind them are meant: what the API server
/// serves itself always is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServiceScript {
    /// The name, such as `v1beta1.metrics.k8s.io`; a `*` at its end stands for any rest.
    pub name: String,
    /// Whether whoever is behind it answers the API server.
    pub available: bool,
}

impl Script {
    /// All Jobs fare like this.
    #[must_use]
    pub fn jobs(outcome: Outcome) -> Self {
        let job = JobScript {
            namespace: None,
            name: "*".to_owned(),
            outcome,
            runs: SignedDuration::ZERO,
        };
        Self {
            jobs: vec![job],
            ..Self::default()
        }
    }

    pub(crate) fn job(&self, namespace: &str, name: &str) -> Option<&JobScript> {
        self.jobs.iter().find(|script| {
            script.namespace.as_deref().is_none_or(|wanted| wanted == namespace) && matches(&script.name, name)
        })
    }

    pub(crate) fn api_service(&self, name: &str) -> Option<&ApiServiceScript> {
        self.api_services.iter().find(|script| matches(&script.name, name))
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}
