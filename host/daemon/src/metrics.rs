//! What is counted. Base units in the names, labels are few and closed.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// How a pass or a step ended: `done`, or the class of what holds it up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Ended {
    pub(crate) outcome: &'static str,
}

/// All metrics of the daemon.
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    pub(crate) passes: Family<Ended, Counter>,
    pub(crate) steps: Family<Ended, Counter>,
    pub(crate) pass_seconds: Histogram,
    pub(crate) leading: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) provisions: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("chandlery");
        let passes = Family::default();
        let steps = Family::default();
        // 1 ms to 65 s: a no-op pass to the longest call with its waits.
        let pass_seconds = Histogram::new(exponential_buckets(0.001, 2.0, 17));
        let (leading, watches, provisions) = (Gauge::default(), Gauge::default(), Gauge::default());
        registry.register(
            "provision_passes",
            "Passes over Provisions, by how they ended",
            passes.clone(),
        );
        registry.register("step_calls", "Steps that were tried, by how they ended", steps.clone());
        registry.register("provision_pass_seconds", "Duration of passes", pass_seconds.clone());
        registry.register("leading", "1 while this process leads", leading.clone());
        registry.register(
            "remote_watches",
            "Watches open on clusters for steps that wait",
            watches.clone(),
        );
        registry.register("provisions", "Provisions there are", provisions.clone());
        Self {
            registry,
            passes,
            steps,
            pass_seconds,
            leading,
            watches,
            provisions,
        }
    }

    /// As Prometheus reads it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
