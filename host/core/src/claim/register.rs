//! Writing a remote's registration: only by who is on the remote's list meanwhile, which a fence keeps shut.

use super::rules::{Rule, Rules};
use super::words::{Answer, Call, Machine, Next, Registration, Remote, Words};

/// What registering comes to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Registered {
    /// It is there and says what it is to say.
    Current,
    /// The remote is gone, is being torn down, or does not bear our finalizer yet.
    Closed,
    /// Something that is not ours has its name; it was left alone.
    Foreign,
}

/// Writes one remote's registration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register<W: Words> {
    own: W::Instance,
    rules: Rules,
    at: At<W>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At<W: Words> {
    /// Reading the fence.
    Fence,
    /// Putting this instance on the list.
    Enlist(Remote<W>),
    /// Looking for what is there.
    Look,
    /// Creating it, or changing this one.
    Write(Option<W::Registration>),
    /// Reading the list, to strike this instance off.
    Leave(Registered),
    /// Striking this instance off.
    Delist(Remote<W>, Registered),
    /// The end.
    End(Registered),
}

impl<W: Words> Register<W> {
    /// Registers by `own`; one at a time per remote in one process.
    pub fn new(own: W::Instance, rules: Rules) -> Self {
        Self {
            own,
            rules,
            at: At::Fence,
        }
    }

    fn leave(&self, outcome: Registered) -> At<W> {
        if self.rules.keep(Rule::RegistrarsAreListed) {
            At::Leave(outcome)
        } else {
            At::End(outcome)
        }
    }

    fn write_fence(&self, remote: &Remote<W>, listed: bool) -> Call<W> {
        let mut registrars: Vec<_> = remote.registrars.iter().filter(|r| **r != self.own).cloned().collect();
        if listed {
            registrars.push(self.own.clone());
        }
        Call::WriteFence {
            at: Some(remote.version.clone()),
            draining: remote.draining,
            registrars,
        }
    }
}

impl<W: Words> Machine<W> for Register<W> {
    type Outcome = Registered;

    fn next(&self) -> Next<W, Registered> {
        Next::Call(match &self.at {
            At::Fence | At::Leave(_) => Call::ReadRemote,
            At::Enlist(remote) => self.write_fence(remote, true),
            At::Look => Call::ReadRegistration,
            At::Write(there) => Call::WriteRegistration(there.clone()),
            At::Delist(remote, _) => self.write_fence(remote, false),
            At::End(registered) => return Next::End(registered.clone()),
        })
    }

    fn learn(&mut self, answer: Answer<W>) {
        self.at = match (std::mem::replace(&mut self.at, At::Fence), answer) {
            (At::Fence, Answer::Remote(Some(remote))) if !remote.is_fenced() && remote.protected => {
                if remote.registrars.contains(&self.own) || !self.rules.keep(Rule::RegistrarsAreListed) {
                    At::Look
                } else {
                    At::Enlist(remote)
                }
            }
            // On the list by an earlier run whose last answer was lost.
            (At::Fence, Answer::Remote(Some(remote))) if remote.registrars.contains(&self.own) => {
                At::Delist(remote, Registered::Closed)
            }
            (At::Fence, Answer::Remote(_)) => At::End(Registered::Closed),
            (At::Enlist(_), Answer::Remote(_)) => At::Look,
            (At::Enlist(_), Answer::Conflict) => At::Fence,
            (At::Look, Answer::Registration(Registration::Absent)) => At::Write(None),
            (At::Look, Answer::Registration(Registration::Ours { uid, current: false })) => At::Write(Some(uid)),
            (At::Look, Answer::Registration(Registration::Ours { current: true, .. }))
            | (At::Write(_), Answer::Done) => self.leave(Registered::Current),
            (At::Look, Answer::Registration(Registration::Foreign)) => self.leave(Registered::Foreign),
            (At::Write(_), Answer::Conflict) => At::Look,
            (At::Leave(outcome), Answer::Remote(Some(remote))) if remote.registrars.contains(&self.own) => {
                At::Delist(remote, outcome)
            }
            (At::Leave(outcome), Answer::Remote(_)) => At::End(outcome),
            (At::Delist(_, outcome), Answer::Remote(_)) => At::End(outcome),
            (At::Delist(_, outcome), Answer::Conflict) => At::Leave(outcome),
            (at, _) => at,
        };
    }
}

#[cfg(feature = "broken-rules")]
impl<W: Words> Register<W> {
    /// The same with other names.
    #[must_use]
    pub fn renamed(&self, names: &impl super::Rename<W>) -> Self {
        let at = match &self.at {
            At::Enlist(remote) => At::Enlist(names.remote_read(remote)),
            At::Write(there) => At::Write(there.as_ref().map(|uid| names.registration(uid))),
            At::Delist(remote, outcome) => At::Delist(names.remote_read(remote), outcome.clone()),
            other => other.clone(),
        };
        Self {
            own: names.instance(&self.own),
            at,
            ..self.clone()
        }
    }
}
