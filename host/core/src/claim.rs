//! The protocol by which a shared remote lives exactly as long as someone uses it, as pure decisions.
//!
//! Nothing is counted. A claim is a durable object that names its holder and the host instances that use it; each
//! decision below is a function of what was read, and the effects (in the room `scope`) do as they say. Who decides on
//! what, and in which order it must have been read, is told at each function.

use serde::{Deserialize, Serialize};

use crate::{StepName, Uid};

/// One running host process. An instance is told gone only by evidence, never by an expired lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// UID of its Pod, or for a process outside a cluster the machine's boot id.
    pub home: String,
    /// Names the process within its home: what a restart changes.
    pub process: String,
    /// `namespace/name` of its Pod; empty for a process outside a cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
}

/// What is known of another instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighting {
    /// Its Pod or process is observed absent.
    Gone,
    /// Seen, or nothing is known: treated the same.
    MayLive,
}

/// Who holds a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// UID of the Provision.
    pub provision: Uid,
    /// Which of its steps.
    pub step: StepName,
}

/// What the second read of a take found of the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderState {
    /// Same UID, not being deleted, and its step is wanted.
    Wants,
    /// There, but being deleted or no longer in want of the step.
    Leaving,
    /// Not there, or another UID.
    Gone,
}

/// What the third read of a take found of the RemoteCluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteFence {
    /// Same UID, our finalizer on it, neither being deleted nor draining.
    Open,
    /// Being deleted or draining.
    Closing,
    /// Not there, or another UID.
    Gone,
    /// No finalizer of ours on it: it could vanish under the claim.
    Unprotected,
}

/// What a claim is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To bring something to the remote.
    Provision,
    /// To take away what this claim's step brought there.
    Deprovision,
}

/// What a take comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The scope may be used.
    Use,
    /// Strike this instance off and delete the claim: nothing was ever written under it.
    Release,
    /// Strike this instance off; the claim stays, and only deprovision may go on.
    KeepForDeprovision,
}

/// Decides a take, after the claim bears this instance durably, from quorum reads of holder and then RemoteCluster made
/// since (an earlier read breaks the property).
///
/// `ever_used`: whether the step's inventory holds anything or its receipt says that a call was made.
pub fn take(purpose: Purpose, holder: HolderState, fence: RemoteFence, ever_used: bool) -> Take {
    match purpose {
        // A closing remote is exactly where deprovision must still go; its own end waits for this claim.
        Purpose::Deprovision => Take::Use,
        Purpose::Provision => match (holder, fence) {
            (HolderState::Wants, RemoteFence::Open) => Take::Use,
            _ if ever_used => Take::KeepForDeprovision,
            _ => Take::Release,
        },
    }
}

/// What a release may do with a claim that was just read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Release {
    /// Delete it, with the resourceVersion of that read as precondition.
    Delete,
    /// First write the claim without these instances (compare-and-swap), then read again.
    StrikeOff(Vec<Instance>),
    /// These may still be using it.
    WaitFor(Vec<Instance>),
}

/// Decides a release by `own` of a claim used by `users`; `sight` tells what is known of another instance.
pub fn release(own: &Instance, users: &[Instance], sight: impl Fn(&Instance) -> Sighting) -> Release {
    let others: Vec<&Instance> = users.iter().filter(|user| *user != own).collect();
    let living: Vec<Instance> = others
        .iter()
        .filter(|user| sight(user) == Sighting::MayLive)
        .map(|user| (*user).clone())
        .collect();
    if !living.is_empty() {
        Release::WaitFor(living)
    } else if others.is_empty() {
        Release::Delete
    } else {
        Release::StrikeOff(others.into_iter().cloned().collect())
    }
}

/// Whether a RemoteCluster whose fence is durable may go on to its end, from a quorum list of its claims made after it.
///
/// # Errors
/// The holders that still use it.
pub fn tear_down(claims: &[Holder]) -> Result<(), Vec<&Holder>> {
    if claims.is_empty() {
        Ok(())
    } else {
        Err(claims.iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(home: &str, process: &str) -> Instance {
        Instance {
            home: home.into(),
            process: process.into(),
            pod: String::new(),
        }
    }

    #[test]
    fn provisioning_needs_a_willing_holder_and_an_open_fence() {
        use {HolderState as H, RemoteFence as R};
        for holder in [H::Wants, H::Leaving, H::Gone] {
            for fence in [R::Open, R::Closing, R::Gone, R::Unprotected] {
                let expected = if (holder, fence) == (H::Wants, R::Open) {
                    Take::Use
                } else {
                    Take::Release
                };
                assert_eq!(
                    take(Purpose::Provision, holder, fence, false),
                    expected,
                    "{holder:?} {fence:?}"
                );
            }
        }
    }

    #[test]
    fn c2_a_used_claim_outlives_a_refused_take() {
        assert_eq!(
            take(Purpose::Provision, HolderState::Leaving, RemoteFence::Open, true),
            Take::KeepForDeprovision
        );
        assert_eq!(
            take(Purpose::Provision, HolderState::Wants, RemoteFence::Closing, true),
            Take::KeepForDeprovision
        );
    }

    #[test]
    fn c1_a_claim_is_released_only_by_its_sole_user() {
        let (own, other) = (instance("pod-a", "1"), instance("pod-b", "1"));
        assert_eq!(
            release(&own, std::slice::from_ref(&own), |_| Sighting::MayLive),
            Release::Delete
        );
        assert_eq!(
            release(&own, &[own.clone(), other.clone()], |_| Sighting::MayLive),
            Release::WaitFor(vec![other.clone()])
        );
        assert_eq!(
            release(&own, &[own.clone(), other.clone()], |_| Sighting::Gone),
            Release::StrikeOff(vec![other])
        );
    }

    #[test]
    fn a_remote_with_a_claim_is_not_torn_down() {
        let holder = Holder {
            provision: "u".parse().unwrap(),
            step: "s".parse().unwrap(),
        };
        assert!(tear_down(&[]).is_ok());
        assert!(tear_down(&[holder]).is_err());
    }
}
