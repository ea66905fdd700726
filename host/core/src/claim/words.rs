//! What the machines read, ask for and answer.

use std::fmt::Debug;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

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

/// What a claim is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// To bring something to the remote.
    Provision,
    /// To take away what this claim's step brought there.
    Deprovision,
}

/// How a driver spells what the machines only compare.
pub trait Words: Debug + Clone + Copy + PartialEq + Eq + PartialOrd + Ord + Hash {
    /// A host process.
    type Instance: Debug + Clone + PartialEq + Eq + PartialOrd + Ord + Hash;
    /// A `resourceVersion`: equal if and only if nobody wrote in between.
    type Version: Debug + Clone + PartialEq + Eq + PartialOrd + Ord + Hash;
    /// UID of a registration.
    type Registration: Debug + Clone + PartialEq + Eq + PartialOrd + Ord + Hash;
    /// Names a claim's holder to people.
    type Holder: Debug + Clone + PartialEq + Eq + PartialOrd + Ord + Hash;
}

/// A RemoteClaim as it was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim<W: Words> {
    /// Its version.
    pub version: W::Version,
    /// Whether our finalizer is on it. One without is free: nobody uses it, anybody may delete it.
    pub held: bool,
    /// Host processes that act under it.
    pub instances: Vec<W::Instance>,
}

impl<W: Words> Claim<W> {
    /// The instances other than `own`.
    pub(super) fn others(&self, own: &W::Instance) -> Vec<W::Instance> {
        self.instances.iter().filter(|user| *user != own).cloned().collect()
    }

    /// The instances other than `own` that are not among those seen gone.
    pub(super) fn living(&self, own: &W::Instance, gone: &[W::Instance]) -> Vec<W::Instance> {
        let mut living = self.others(own);
        living.retain(|other| !gone.contains(other));
        living
    }
}

/// A RemoteCluster as it was read, with what matters of it here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Remote<W: Words> {
    /// Its version.
    pub version: W::Version,
    /// It is being deleted: the fence that stays.
    pub deleting: bool,
    /// Its registration is being removed: the fence that is taken down again.
    pub draining: bool,
    /// Our finalizer is on it. Without it the remote could vanish under a claim.
    pub protected: bool,
    /// Host processes that are writing its registration just now.
    pub registrars: Vec<W::Instance>,
}

impl<W: Words> Remote<W> {
    /// Whether no new use may begin.
    pub(super) fn is_fenced(&self) -> bool {
        self.deleting || self.draining
    }
}

/// What a quorum read found of the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderState {
    /// Same UID, not being deleted, and its step is wanted.
    Wants,
    /// There, but being deleted or no longer in want of the step.
    Leaving,
    /// Not there, or another UID.
    Gone,
}

/// What a read found under the registration's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Registration<W: Words> {
    /// Nothing.
    Absent,
    /// Ours.
    Ours {
        /// Its UID.
        uid: W::Registration,
        /// Whether it says what it is to say.
        current: bool,
    },
    /// Somebody else's: neither adopted nor deleted.
    Foreign,
}

/// One call on the hub. `at` is the version the object must still have; `None` stands only in a protocol with a rule left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call<W: Words> {
    /// Creates the claim, with our finalizer and with this instance on it.
    CreateClaim(W::Instance),
    /// Reads the claim.
    ReadClaim,
    /// Writes who uses the claim.
    WriteInstances {
        /// The version.
        at: W::Version,
        /// All of them.
        instances: Vec<W::Instance>,
    },
    /// Takes our finalizer off the claim. That is the release; one that was being deleted is gone with it.
    FreeClaim {
        /// The version.
        at: W::Version,
    },
    /// Deletes a free claim.
    DeleteClaim {
        /// The version.
        at: W::Version,
    },
    /// Reads the holder.
    ReadHolder,
    /// Reads the step's record.
    ReadRecord,
    /// Reads the RemoteCluster.
    ReadRemote,
    /// Asks which of these instances are observed gone.
    Sight(Vec<W::Instance>),
    /// Lists the holders of all claims on the remote that are not free.
    ListClaims,
    /// Writes the part of the RemoteCluster that fences.
    WriteFence {
        /// The version.
        at: Option<W::Version>,
        /// Whether it drains.
        draining: bool,
        /// Who is writing its registration.
        registrars: Vec<W::Instance>,
    },
    /// Takes our finalizer off the RemoteCluster.
    DropFinalizer {
        /// The version.
        at: Option<W::Version>,
    },
    /// Looks for the registration.
    ReadRegistration,
    /// Creates the registration, or changes this one in place.
    WriteRegistration(Option<W::Registration>),
    /// Deletes this registration and no other.
    DeleteRegistration(W::Registration),
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer<W: Words> {
    /// The claim, as it is after a read or a write.
    Claim(Option<Claim<W>>),
    /// The object has another version, is there already, or is not there any more.
    Conflict,
    /// The step's record.
    Record {
        /// Whether anything may have been written to the remote under it.
        used: bool,
        /// Whether it is the very version that the pass holds.
        held: bool,
    },
    /// The holder.
    Holder(HolderState),
    /// The RemoteCluster, as it is after a read or a write.
    Remote(Option<Remote<W>>),
    /// Those observed gone.
    Gone(Vec<W::Instance>),
    /// Holders of claims that are not free.
    Claims(Vec<W::Holder>),
    /// What is there under the registration's name.
    Registration(Registration<W>),
    /// It is done, and nothing is to be learnt from it.
    Done,
}

/// What a machine wants next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Next<W: Words, O> {
    /// One call; its answer is to be taken in.
    Call(Call<W>),
    /// The operation has come to its end.
    End(O),
}

/// One operation of the protocol: a pure function from what was read to what is done next.
pub trait Machine<W: Words> {
    /// What it comes to.
    type Outcome;
    /// The next call, or the end. Asking again gives the same.
    fn next(&self) -> Next<W, Self::Outcome>;
    /// Takes in the answer to that call. An answer of another kind than the call's leaves everything as it is.
    fn learn(&mut self, answer: Answer<W>);
}

/// Renames what a machine holds, so that a model can tell equal states apart from different ones.
#[cfg(feature = "broken-rules")]
pub trait Rename<W: Words> {
    /// A host process.
    fn instance(&self, instance: &W::Instance) -> W::Instance;
    /// A version of the claim.
    fn claim(&self, version: &W::Version) -> W::Version;
    /// A version of the RemoteCluster.
    fn remote(&self, version: &W::Version) -> W::Version;
    /// A registration.
    fn registration(&self, uid: &W::Registration) -> W::Registration;

    /// Several host processes, in order.
    fn instances(&self, instances: &[W::Instance]) -> Vec<W::Instance> {
        let mut renamed: Vec<_> = instances.iter().map(|one| self.instance(one)).collect();
        renamed.sort();
        renamed.dedup();
        renamed
    }
    /// What was read of a claim.
    fn claim_read(&self, claim: &Claim<W>) -> Claim<W> {
        Claim {
            version: self.claim(&claim.version),
            held: claim.held,
            instances: self.instances(&claim.instances),
        }
    }
    /// What was read of a RemoteCluster.
    fn remote_read(&self, remote: &Remote<W>) -> Remote<W> {
        Remote {
            version: self.remote(&remote.version),
            registrars: self.instances(&remote.registrars),
            ..remote.clone()
        }
    }
}
