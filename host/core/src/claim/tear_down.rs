//! Tearing a remote down: fence first, then the registrars, then the claims, then the registration, then the end.

use super::rules::{Rule, Rules};
use super::words::{Answer, Call, Machine, Next, Registration, Remote, Words};

/// Why a remote is torn down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// It is being deleted: the fence is its `deletionTimestamp`, the end that our finalizer goes.
    Deletion,
    /// Its last claim is gone: the fence is `Draining`, the end that this is taken back.
    LastClaim,
}

/// What a tear-down comes to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TornDown<W: Words> {
    /// No registration is left, and our finalizer or `Draining` is gone.
    Done,
    /// There is nothing to tear down: the remote is gone, or what triggered it is not so.
    Nothing,
    /// These use it.
    InUse(Vec<W::Holder>),
    /// These may be writing its registration.
    Registering(Vec<W::Instance>),
    /// The registration is still there.
    Deregistering,
    /// Something changed under it: from the start.
    Again,
}

/// Tears one remote down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TearDown<W: Words> {
    own: W::Instance,
    trigger: Trigger,
    /// Whether this process has borne claims on it that it has not released: told to nobody but a protocol that counts.
    counted: bool,
    rules: Rules,
    /// What was registered before the fence was read.
    registered: Option<W::Registration>,
    /// Holders listed too early, by a protocol that does so.
    listed: Option<Vec<W::Holder>>,
    at: At<W>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At<W: Words> {
    /// Reading the registration, before the fence.
    Registered,
    /// Listing before the fence, which breaks it.
    ListEarly,
    /// Reading the fence.
    Fence,
    /// Making it durable.
    Drain(Remote<W>),
    /// Asking for the registrars.
    Sight(Remote<W>),
    /// Striking the gone ones off.
    Strike(Remote<W>, Vec<W::Instance>),
    /// Listing the claims.
    List(Remote<W>),
    /// Taking the fence down again, for it is used.
    Reopen(Remote<W>, Vec<W::Holder>),
    /// Reading the registration too late, which breaks it.
    RegisteredLate(Remote<W>),
    /// Deleting the registration.
    Deregister(Remote<W>, W::Registration),
    /// Seeing it gone.
    Absent(Remote<W>),
    /// The end at the fence's version.
    Finish(Remote<W>),
    /// The end.
    End(TornDown<W>),
}

impl<W: Words> TearDown<W> {
    /// Tears down by `own`; one at a time per remote in one process. `counted`: whether this process knows claims of its own.
    pub fn new(own: W::Instance, trigger: Trigger, counted: bool, rules: Rules) -> Self {
        let at = if rules.keep(Rule::RegistrationReadFirst) {
            At::Registered
        } else {
            At::Fence
        };
        Self {
            own,
            trigger,
            counted,
            rules,
            registered: None,
            listed: None,
            at,
        }
    }

    fn fenced(&self, remote: Remote<W>) -> At<W> {
        match self.trigger {
            Trigger::Deletion if !remote.deleting || !remote.protected => At::End(TornDown::Nothing),
            // Deletion has a tear-down of its own.
            Trigger::LastClaim if remote.deleting || !remote.protected => At::End(TornDown::Nothing),
            // Whoever registers after this read, drains after it.
            Trigger::LastClaim
                if !remote.draining && self.registered.is_none() && self.rules.keep(Rule::RegistrationReadFirst) =>
            {
                At::End(TornDown::Nothing)
            }
            Trigger::LastClaim if !remote.draining => At::Drain(remote),
            Trigger::Deletion | Trigger::LastClaim => self.registrars(remote),
        }
    }

    fn registrars(&self, remote: Remote<W>) -> At<W> {
        if remote.registrars.is_empty() {
            self.claims(remote)
        } else {
            At::Sight(remote)
        }
    }

    fn claims(&self, remote: Remote<W>) -> At<W> {
        if !self.rules.keep(Rule::NothingIsCounted) {
            return if self.counted {
                self.used(remote, Vec::new())
            } else {
                self.unused(remote)
            };
        }
        match &self.listed {
            Some(holders) if holders.is_empty() => self.unused(remote),
            Some(holders) => self.used(remote, holders.clone()),
            None => At::List(remote),
        }
    }

    fn used(&self, remote: Remote<W>, holders: Vec<W::Holder>) -> At<W> {
        match self.trigger {
            Trigger::Deletion => At::End(TornDown::InUse(holders)),
            Trigger::LastClaim => At::Reopen(remote, holders),
        }
    }

    fn unused(&self, remote: Remote<W>) -> At<W> {
        match &self.registered {
            _ if !self.rules.keep(Rule::RegistrationReadFirst) => At::RegisteredLate(remote),
            Some(uid) => At::Deregister(remote, uid.clone()),
            None => At::Absent(remote),
        }
    }

    fn fence_at(&self, remote: &Remote<W>) -> Option<W::Version> {
        self.rules.keep(Rule::EndAtTheFence).then(|| remote.version.clone())
    }
}

impl<W: Words> Machine<W> for TearDown<W> {
    type Outcome = TornDown<W>;

    fn next(&self) -> Next<W, TornDown<W>> {
        let write_fence =
            |remote: &Remote<W>, at: Option<W::Version>, draining: bool, off: &[W::Instance]| Call::WriteFence {
                at,
                draining,
                registrars: remote.registrars.iter().filter(|r| !off.contains(r)).cloned().collect(),
            };
        Next::Call(match &self.at {
            At::Registered | At::RegisteredLate(_) | At::Absent(_) => Call::ReadRegistration,
            At::ListEarly | At::List(_) => Call::ListClaims,
            At::Fence => Call::ReadRemote,
            At::Drain(remote) => write_fence(remote, Some(remote.version.clone()), true, &[]),
            At::Sight(remote) => Call::Sight(remote.registrars.iter().filter(|r| **r != self.own).cloned().collect()),
            At::Strike(remote, off) => write_fence(remote, Some(remote.version.clone()), remote.draining, off),
            At::Reopen(remote, _) => write_fence(remote, self.fence_at(remote), false, &[]),
            At::Deregister(_, uid) => Call::DeleteRegistration(uid.clone()),
            At::Finish(remote) => match self.trigger {
                Trigger::Deletion => Call::DropFinalizer {
                    at: self.fence_at(remote),
                },
                Trigger::LastClaim => write_fence(remote, self.fence_at(remote), false, &[]),
            },
            At::End(torn_down) => return Next::End(torn_down.clone()),
        })
    }

    fn learn(&mut self, answer: Answer<W>) {
        self.at = match (std::mem::replace(&mut self.at, At::Fence), answer) {
            (At::Registered, Answer::Registration(there)) => {
                self.registered = match there {
                    Registration::Ours { uid, .. } => Some(uid),
                    Registration::Absent | Registration::Foreign => None,
                };
                if self.rules.keep(Rule::ListAfterFence) {
                    At::Fence
                } else {
                    At::ListEarly
                }
            }
            (At::ListEarly, Answer::Claims(holders)) => {
                self.listed = Some(holders);
                At::Fence
            }
            (At::Fence, Answer::Remote(None)) => At::End(TornDown::Nothing),
            (At::Fence | At::Drain(_), Answer::Remote(Some(remote))) => self.fenced(remote),
            (At::Drain(_) | At::Strike(..), Answer::Conflict) => At::Fence,
            (At::Sight(remote), Answer::Gone(gone)) => {
                let is_off = |host: &W::Instance| *host == self.own || gone.contains(host);
                let (off, living): (Vec<_>, Vec<_>) = remote.registrars.iter().cloned().partition(is_off);
                if off.is_empty() {
                    At::End(TornDown::Registering(living))
                } else {
                    // Two who wait for each other would wait for ever: who waits is not on the list.
                    At::Strike(remote, off)
                }
            }
            (At::Strike(..), Answer::Remote(Some(remote))) => self.registrars(remote),
            (At::List(remote), Answer::Claims(holders)) if holders.is_empty() => self.unused(remote),
            (At::List(remote), Answer::Claims(holders)) => self.used(remote, holders),
            (At::Reopen(_, holders), Answer::Remote(_)) => At::End(TornDown::InUse(holders)),
            (At::RegisteredLate(remote), Answer::Registration(Registration::Ours { uid, .. })) => {
                At::Deregister(remote, uid)
            }
            (At::RegisteredLate(remote), Answer::Registration(_)) => At::Finish(remote),
            (At::Deregister(remote, _), Answer::Done | Answer::Conflict) => At::Absent(remote),
            (At::Absent(_), Answer::Registration(Registration::Ours { uid, .. })) => {
                At::End(if self.registered.as_ref() == Some(&uid) {
                    TornDown::Deregistering
                } else {
                    // Made between the first read and the fence.
                    TornDown::Again
                })
            }
            (At::Absent(remote), Answer::Registration(_)) => At::Finish(remote),
            (At::Finish(_), Answer::Remote(_) | Answer::Done) => At::End(TornDown::Done),
            (At::Reopen(..) | At::Finish(_), Answer::Conflict) => At::End(TornDown::Again),
            (At::Strike(..), Answer::Remote(None)) => At::End(TornDown::Nothing),
            (at, _) => at,
        };
    }
}

#[cfg(feature = "broken-rules")]
impl<W: Words> TearDown<W> {
    /// The same with other names.
    #[must_use]
    pub fn renamed(&self, names: &impl super::Rename<W>) -> Self {
        let at = match &self.at {
            At::Drain(remote) => At::Drain(names.remote_read(remote)),
            At::Sight(remote) => At::Sight(names.remote_read(remote)),
            At::Strike(remote, off) => At::Strike(names.remote_read(remote), names.instances(off)),
            At::List(remote) => At::List(names.remote_read(remote)),
            At::Reopen(remote, holders) => At::Reopen(names.remote_read(remote), holders.clone()),
            At::RegisteredLate(remote) => At::RegisteredLate(names.remote_read(remote)),
            At::Deregister(remote, uid) => At::Deregister(names.remote_read(remote), names.registration(uid)),
            At::Absent(remote) => At::Absent(names.remote_read(remote)),
            At::Finish(remote) => At::Finish(names.remote_read(remote)),
            At::End(TornDown::Registering(living)) => At::End(TornDown::Registering(names.instances(living))),
            other => other.clone(),
        };
        Self {
            own: names.instance(&self.own),
            registered: self.registered.as_ref().map(|uid| names.registration(uid)),
            at,
            ..self.clone()
        }
    }
}
