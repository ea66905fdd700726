//! What can be chosen of a simulated cluster.

use jiff::{SignedDuration, Timestamp};

use crate::base::Release;

/// The choices for a world. Everything that could differ between two runs is here, so that equal settings and equal
/// requests give equal worlds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The version of Kubernetes.
    pub release: Release,
    /// What UIDs and generated names are made from.
    pub seed: u64,
    /// The time at the beginning.
    pub start: Timestamp,
    /// How many writes are remembered; who asks for older history gets 410. At least 1.
    pub log_limit: usize,
    /// Whether controllers act after each write. Without them only [`crate::World::settle`] lets them.
    pub controllers: bool,
    /// How long a CustomResourceDefinition takes until it is served.
    pub crd_delay: SignedDuration,
    /// The largest body that is read, in bytes.
    pub body_limit: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            release: Release::default(),
            seed: 0,
            start: Timestamp::UNIX_EPOCH,
            log_limit: 10_000,
            controllers: true,
            crd_delay: SignedDuration::ZERO,
            // As a real API server's.
            body_limit: 3 * 1024 * 1024,
        }
    }
}
