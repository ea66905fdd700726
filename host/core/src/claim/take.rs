//! Taking a claim: the claim durable first, then the holder, then the fence, in this order.

use super::release::{Release, Released};
use super::rules::{Rule, Rules};
use super::words::{Answer, Call, Claim, HolderState, Machine, Next, Purpose, Remote, Words};

/// What a take comes to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Taken<W: Words> {
    /// The scope may be used; the claim bears this instance.
    Use,
    /// It may not, and this instance is not on the claim any more. A claim that was used stays, for deprovision alone.
    Refused(Refusal),
    /// Others may be using it; whoever is to deprovision waits for them, and is not on the claim meanwhile.
    InUse(Vec<W::Instance>),
    /// The step's record is another than the one held: it is to be read again before anything is done.
    RecordChanged,
}

/// Why a take was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The holder is not there any more.
    HolderGone,
    /// The holder no longer wants the step.
    HolderLeaves,
    /// There is no such remote any more.
    RemoteGone,
    /// The remote is being deleted, or its registration is being removed.
    RemoteCloses,
    /// The remote does not bear our finalizer yet.
    RemoteUnprotected,
}

/// Takes a claim for one step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Take<W: Words> {
    own: W::Instance,
    purpose: Purpose,
    /// Whether the record that is held is known to be the one there is, since this instance is on the claim.
    confirmed: bool,
    rules: Rules,
    at: At<W>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At<W: Words> {
    /// Making the claim.
    Create,
    /// Reading the claim that may be there.
    Read,
    /// Putting this instance on the claim.
    Join(Claim<W>),
    /// Deleting a free claim that is in the way.
    Clear(W::Version),
    /// On the claim since now: is the record still what it was?
    Confirm { claim: Claim<W>, made: bool },
    /// Asking for the other users of the claim, for a deprovision.
    Sight(Claim<W>),
    /// Striking these off, who are gone, and perhaps this instance.
    Strike {
        claim: Claim<W>,
        off: Vec<W::Instance>,
        then: Taken<W>,
    },
    /// Reading the holder.
    Holder,
    /// Reading the fence.
    Fence { holder: HolderState },
    /// Giving the claim back.
    GiveBack { why: Refusal, release: Box<Release<W>> },
    /// The end.
    End(Taken<W>),
}

impl<W: Words> Take<W> {
    /// A take by `own`. `used` is what the record that is held says; `borne` whether an earlier take of this process came to
    /// [`Taken::Use`], and nothing was given back since. A record that was not used needs no second look: its first use is a
    /// write at its version.
    pub fn new(own: W::Instance, purpose: Purpose, used: bool, borne: bool, rules: Rules) -> Self {
        let at = match purpose {
            Purpose::Provision if borne || !rules.keep(Rule::ClaimBeforeFence) => At::Holder,
            // Mostly there is none yet, and the creation itself says so.
            Purpose::Provision if !used => At::Create,
            _ => At::Read,
        };
        Self {
            own,
            purpose,
            confirmed: borne || !used || !rules.keep(Rule::RecordReadAgain),
            rules,
            at,
        }
    }

    /// Whether the next call may end this instance's time on the claim: from then on it is not known to be there.
    pub fn gives_back(&self) -> bool {
        matches!(self.at, At::GiveBack { .. } | At::Strike { .. })
    }

    /// On the claim, which this take has made or found.
    fn on(&self, claim: Claim<W>, made: bool) -> At<W> {
        if self.purpose == Purpose::Provision && !self.rules.keep(Rule::ClaimBeforeFence) {
            return At::End(Taken::Use);
        }
        if !self.confirmed {
            return At::Confirm { claim, made };
        }
        match self.purpose {
            Purpose::Provision => At::Holder,
            Purpose::Deprovision if made => At::Holder,
            Purpose::Deprovision => self.alone(claim),
        }
    }

    fn alone(&self, claim: Claim<W>) -> At<W> {
        if claim.others(&self.own).is_empty() || !self.rules.keep(Rule::SoleUser) {
            At::End(Taken::Use)
        } else {
            At::Sight(claim)
        }
    }

    fn judge(&self, holder: HolderState, remote: Option<&Remote<W>>) -> At<W> {
        let unprotected = |remote: &Remote<W>| !remote.protected && self.rules.keep(Rule::RemoteIsProtected);
        let why = match (holder, remote) {
            // What somebody's claim held is taken away though its holder leaves; here the claim was new.
            (HolderState::Gone, _) if self.purpose == Purpose::Provision => Refusal::HolderGone,
            (HolderState::Leaving, _) if self.purpose == Purpose::Provision => Refusal::HolderLeaves,
            (_, None) => Refusal::RemoteGone,
            (_, Some(remote)) if remote.is_fenced() => Refusal::RemoteCloses,
            (_, Some(remote)) if unprotected(remote) => Refusal::RemoteUnprotected,
            _ if self.purpose == Purpose::Provision && !self.rules.keep(Rule::ClaimBeforeFence) => return At::Read,
            _ => return At::End(Taken::Use),
        };
        At::GiveBack {
            why,
            release: Box::new(Release::new(self.own.clone(), self.rules)),
        }
    }
}

impl<W: Words> Machine<W> for Take<W> {
    type Outcome = Taken<W>;

    fn next(&self) -> Next<W, Taken<W>> {
        Next::Call(match &self.at {
            At::Create => Call::CreateClaim(self.own.clone()),
            At::Read => Call::ReadClaim,
            At::Join(claim) => {
                let mut instances = claim.instances.clone();
                instances.push(self.own.clone());
                Call::WriteInstances {
                    at: claim.version.clone(),
                    instances,
                }
            }
            At::Clear(at) => Call::DeleteClaim { at: at.clone() },
            At::Confirm { .. } => Call::ReadRecord,
            At::Sight(claim) => Call::Sight(claim.others(&self.own)),
            At::Strike { claim, off, .. } => Call::WriteInstances {
                at: claim.version.clone(),
                instances: claim.instances.iter().filter(|i| !off.contains(i)).cloned().collect(),
            },
            At::Holder => Call::ReadHolder,
            At::Fence { .. } => Call::ReadRemote,
            At::GiveBack { why, release } => match release.next() {
                Next::Call(call) => call,
                Next::End(_) => return Next::End(Taken::Refused(*why)),
            },
            At::End(taken) => return Next::End(taken.clone()),
        })
    }

    fn learn(&mut self, answer: Answer<W>) {
        let own = self.own.clone();
        self.at = match (std::mem::replace(&mut self.at, At::Read), answer) {
            (At::Create, Answer::Claim(Some(claim))) => self.on(claim, true),
            (At::Create | At::Join(_) | At::Clear(_) | At::Strike { .. }, Answer::Conflict) => At::Read,
            (At::Read, Answer::Claim(None)) => At::Create,
            (At::Read, Answer::Claim(Some(claim))) if !claim.held => At::Clear(claim.version),
            (At::Read, Answer::Claim(Some(claim))) if claim.instances.contains(&own) => self.on(claim, false),
            (At::Read, Answer::Claim(Some(claim))) => At::Join(claim),
            (At::Join(_), Answer::Claim(Some(claim))) => self.on(claim, false),
            (At::Clear(_), Answer::Done) => At::Create,
            (At::Confirm { .. }, Answer::Record { held: false, .. }) => At::End(Taken::RecordChanged),
            (At::Confirm { claim, made }, Answer::Record { held: true, .. }) => {
                self.confirmed = true;
                self.on(claim, made)
            }
            (At::Sight(claim), Answer::Gone(gone)) => {
                let living = claim.living(&own, &gone);
                if living.is_empty() {
                    At::Strike {
                        claim,
                        off: gone,
                        then: Taken::Use,
                    }
                } else {
                    let off = gone.into_iter().chain([own]).collect();
                    At::Strike {
                        claim,
                        off,
                        then: Taken::InUse(living),
                    }
                }
            }
            (At::Strike { then, .. }, Answer::Claim(_)) => At::End(then),
            (At::Holder, Answer::Holder(holder)) => At::Fence {
                holder: if self.rules.keep(Rule::HolderStillWants) {
                    holder
                } else {
                    HolderState::Wants
                },
            },
            (At::Fence { holder }, Answer::Remote(remote)) => self.judge(holder, remote.as_ref()),
            (At::GiveBack { why, mut release }, answer) => {
                release.learn(answer);
                At::GiveBack { why, release }
            }
            (at, _) => at,
        };
        if let At::GiveBack { why, release } = &self.at
            && let Next::End(Released::Gone | Released::Kept | Released::InUse(_)) = release.next()
        {
            self.at = At::End(Taken::Refused(*why));
        }
    }
}

#[cfg(feature = "broken-rules")]
impl<W: Words> Take<W> {
    /// The same with other names.
    #[must_use]
    pub fn renamed(&self, names: &impl super::Rename<W>) -> Self {
        let taken = |taken: &Taken<W>| match taken {
            Taken::InUse(living) => Taken::InUse(names.instances(living)),
            other => other.clone(),
        };
        let at = match &self.at {
            At::Join(claim) => At::Join(names.claim_read(claim)),
            At::Clear(at) => At::Clear(names.claim(at)),
            At::Confirm { claim, made } => At::Confirm {
                claim: names.claim_read(claim),
                made: *made,
            },
            At::Sight(claim) => At::Sight(names.claim_read(claim)),
            At::Strike { claim, off, then } => At::Strike {
                claim: names.claim_read(claim),
                off: names.instances(off),
                then: taken(then),
            },
            At::GiveBack { why, release } => At::GiveBack {
                why: *why,
                release: Box::new(release.renamed(names)),
            },
            At::End(end) => At::End(taken(end)),
            other => other.clone(),
        };
        Self {
            own: names.instance(&self.own),
            at,
            ..self.clone()
        }
    }
}
