//! What is durable and what the hosts hold, small enough to be looked at in every state it can be in.
//!
//! Equal states must be equal values. So a version is kept as "current" or "not any more", all hosts that died are one, host
//! 0 is the one that leads, and of states that differ only in which holder is called what, one is kept.

use chandlery_core::claim::{Claim, HolderState, Remote, Rename, Words};

use super::task::{RemoteTask, StepTask};

/// How many holders there are.
pub(super) const HOLDERS: usize = 3;
/// How many hosts live.
pub(super) const HOSTS: usize = 2;
/// All hosts that died, seen from those that live.
const DEAD: Host = 2;

/// A host process.
pub(super) type Host = u8;

/// The words of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Small;

impl Words for Small {
    type Instance = Host;
    /// Whether it is the object's version now.
    type Version = bool;
    /// Whether it is the registration there is now.
    type Registration = bool;
    type Holder = ();
}

/// A set of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Hosts(u8);

impl Hosts {
    pub(super) fn of(hosts: &[Host]) -> Self {
        Self(hosts.iter().fold(0, |set, host| set | 1 << host))
    }

    pub(super) fn list(self) -> Vec<Host> {
        (0..=DEAD).filter(|host| self.0 & 1 << host != 0).collect()
    }

    fn map(self, to: impl Fn(Host) -> Host) -> Self {
        Self::of(&self.list().into_iter().map(to).collect::<Vec<_>>())
    }
}

/// A step's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Record {
    /// Stamped before the first write to the remote.
    pub(super) used: bool,
    /// Being undone, for good.
    pub(super) leaving: bool,
}

/// A claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StoredClaim {
    pub(super) finalizer: bool,
    pub(super) deleting: bool,
    pub(super) instances: Hosts,
}

/// A holder with all that is kept of its one step, and the passes over it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Seat {
    pub(super) holder: HolderState,
    /// Somebody took its finalizer off by force.
    pub(super) forced: bool,
    pub(super) record: Option<Record>,
    pub(super) claim: Option<StoredClaim>,
    /// Whether the step has something on the remote.
    pub(super) written: bool,
    /// Which hosts know themselves on the claim.
    pub(super) borne: [bool; HOSTS],
    /// Passes that stand still.
    pub(super) tasks: [Option<Box<StepTask>>; HOSTS],
}

/// The RemoteCluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StoredRemote {
    pub(super) deleting: bool,
    pub(super) draining: bool,
    pub(super) protected: bool,
    pub(super) registrars: Hosts,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct World {
    pub(super) seats: [Seat; HOLDERS],
    /// Gone for good when `None`.
    pub(super) remote: Option<StoredRemote>,
    pub(super) registered: bool,
    /// The registration was deleted under the fence that is up.
    pub(super) torn: bool,
    /// The namespace of them all is ending: nothing new can be made in it.
    pub(super) ending: bool,
    /// Looks at the remote that stand still.
    pub(super) looks: [Option<Box<RemoteTask>>; HOSTS],
}

/// What is to be renamed.
pub(super) struct Renaming {
    hosts: [Host; 3],
    claim: bool,
    remote: bool,
    registration: bool,
}

impl Renaming {
    const NOTHING: Self = Self {
        hosts: [0, 1, DEAD],
        claim: false,
        remote: false,
        registration: false,
    };

    pub(super) fn old_claim() -> Self {
        Self {
            claim: true,
            ..Self::NOTHING
        }
    }

    pub(super) fn old_remote() -> Self {
        Self {
            remote: true,
            ..Self::NOTHING
        }
    }

    pub(super) fn old_registration() -> Self {
        Self {
            registration: true,
            ..Self::NOTHING
        }
    }

    fn host(&self, host: Host) -> Host {
        self.hosts.get(usize::from(host)).copied().unwrap_or(DEAD)
    }
}

impl Rename<Small> for Renaming {
    fn instance(&self, host: &Host) -> Host {
        self.host(*host)
    }

    fn claim(&self, current: &bool) -> bool {
        *current && !self.claim
    }

    fn remote(&self, current: &bool) -> bool {
        *current && !self.remote
    }

    fn registration(&self, current: &bool) -> bool {
        *current && !self.registration
    }
}

/// What was written just now, so that who read it before holds an old version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Claim(usize),
    Record(usize),
    Remote,
    Registration,
}

impl World {
    /// So many holders that want their step, a remote that nobody has looked at yet.
    pub(super) fn new(holders: usize) -> Self {
        let seat = Seat {
            holder: HolderState::Wants,
            forced: false,
            record: None,
            claim: None,
            written: false,
            borne: [false; HOSTS],
            tasks: [None, None],
        };
        let mut seats = [seat.clone(), seat.clone(), seat];
        for seat in seats.iter_mut().skip(holders) {
            seat.holder = HolderState::Gone;
        }
        Self {
            seats,
            remote: Some(StoredRemote {
                deleting: false,
                draining: false,
                protected: false,
                registrars: Hosts::default(),
            }),
            registered: false,
            torn: false,
            ending: false,
            looks: [None, None],
        }
    }

    /// All who hold what was written hold an old version.
    pub(super) fn age(&mut self, written: Written) {
        let names = Renaming {
            claim: matches!(written, Written::Claim(_)),
            remote: written == Written::Remote,
            registration: written == Written::Registration,
            ..Renaming::NOTHING
        };
        for (at, seat) in self.seats.iter_mut().enumerate() {
            for task in seat.tasks.iter_mut().flatten() {
                match written {
                    Written::Record(whose) if whose == at => task.current = false,
                    Written::Claim(whose) if whose != at => {}
                    Written::Record(_) => {}
                    _ => task.rename(&names),
                }
            }
        }
        if matches!(written, Written::Remote | Written::Registration) {
            for task in self.looks.iter_mut().flatten() {
                task.rename(&names);
            }
        }
    }

    /// A host dies with all it was doing, and another begins in its place.
    pub(super) fn crash(&mut self, host: Host) {
        let index = usize::from(host);
        for seat in &mut self.seats {
            if let Some(task) = seat.tasks.get_mut(index) {
                *task = None;
            }
            if let Some(borne) = seat.borne.get_mut(index) {
                *borne = false;
            }
        }
        if let Some(look) = self.looks.get_mut(index) {
            *look = None;
        }
        let mut hosts = Renaming::NOTHING.hosts;
        if let Some(name) = hosts.get_mut(index) {
            *name = DEAD;
        }
        self.rename(&Renaming {
            hosts,
            ..Renaming::NOTHING
        });
    }

    fn rename(&mut self, names: &Renaming) {
        for seat in &mut self.seats {
            if let Some(claim) = &mut seat.claim {
                claim.instances = claim.instances.map(|host| names.host(host));
            }
            for task in seat.tasks.iter_mut().flatten() {
                task.rename(names);
            }
        }
        if let Some(remote) = &mut self.remote {
            remote.registrars = remote.registrars.map(|host| names.host(host));
        }
        for task in self.looks.iter_mut().flatten() {
            task.rename(names);
        }
    }

    /// The other host leads from now on. Who leads is always host 0.
    pub(super) fn hand_over(&mut self) {
        self.rename(&Renaming {
            hosts: [1, 0, DEAD],
            ..Renaming::NOTHING
        });
        self.looks.swap(0, 1);
        for seat in &mut self.seats {
            seat.borne.swap(0, 1);
            seat.tasks.swap(0, 1);
        }
    }

    /// The one of all states that differ from this one only in which holder is called what.
    pub(super) fn canonical(self) -> Self {
        self.canonical_with_names().0
    }

    /// The same, with which seat each seat was before.
    pub(super) fn canonical_with_names(mut self) -> (Self, [usize; HOLDERS]) {
        let order = self.sort_seats();
        (self, order)
    }

    fn sort_seats(&mut self) -> [usize; HOLDERS] {
        let mut order = [0, 1, 2];
        order.sort_by(|one, other| self.seats.get(*one).cmp(&self.seats.get(*other)));
        self.seats.sort();
        order
    }

    /// The claim as a reader gets it. Where the finalizer is left out, a claim is held without it.
    pub(super) fn claim(&self, seat: usize, needs_finalizer: bool) -> Option<Claim<Small>> {
        let claim = self.seats.get(seat)?.claim?;
        Some(Claim {
            version: true,
            held: claim.finalizer || !needs_finalizer,
            instances: claim.instances.list(),
        })
    }

    /// The RemoteCluster as a reader gets it.
    pub(super) fn remote(&self) -> Option<Remote<Small>> {
        let remote = self.remote?;
        Some(Remote {
            version: true,
            deleting: remote.deleting,
            draining: remote.draining,
            protected: remote.protected,
            registrars: remote.registrars.list(),
        })
    }

    /// Which of these are seen gone.
    pub(super) fn gone(hosts: &[Host]) -> Vec<Host> {
        hosts.iter().copied().filter(|host| *host == DEAD).collect()
    }
}
