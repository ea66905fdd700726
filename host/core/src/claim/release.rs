//! Giving a claim back: only while nobody else may use it and no record says that something was written under it, and with
//! the version of that very check.
//!
//! A step that was undone has its record closed before, so that the one question "was anything written that is not taken
//! away?" has one answer for all: those who undid it, those who were refused, and those who collect what others left.

use super::rules::{Rule, Rules};
use super::words::{Answer, Call, Claim, Machine, Next, Words};

/// What giving back comes to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Released<W: Words> {
    /// There is no claim any more.
    Gone,
    /// It was used, and stays without this instance: the step is to be deprovisioned.
    Kept,
    /// These may be using it; this instance is not on it any more.
    InUse(Vec<W::Instance>),
}

/// Gives one claim back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release<W: Words> {
    own: W::Instance,
    rules: Rules,
    at: At<W>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At<W: Words> {
    Read,
    Sight(Claim<W>),
    Record {
        claim: Claim<W>,
        gone: Vec<W::Instance>,
    },
    Strike {
        claim: Claim<W>,
        off: Vec<W::Instance>,
        then: Released<W>,
    },
    Free(Claim<W>),
    Delete(W::Version),
    End(Released<W>),
}

impl<W: Words> Release<W> {
    /// A release by `own`. No pass over the holder runs in this process meanwhile.
    pub fn new(own: W::Instance, rules: Rules) -> Self {
        Self {
            own,
            rules,
            at: At::Read,
        }
    }

    fn nobody_else(&self, claim: Claim<W>, gone: Vec<W::Instance>) -> At<W> {
        if self.rules.keep(Rule::UsedClaimStays) {
            At::Record { claim, gone }
        } else {
            At::Free(claim)
        }
    }

    /// Without those who are off; nothing is written where nobody is.
    fn strike(claim: Claim<W>, off: Vec<W::Instance>, then: Released<W>) -> At<W> {
        if claim.instances.iter().any(|instance| off.contains(instance)) {
            At::Strike { claim, off, then }
        } else {
            At::End(then)
        }
    }
}

impl<W: Words> Machine<W> for Release<W> {
    type Outcome = Released<W>;

    fn next(&self) -> Next<W, Released<W>> {
        Next::Call(match &self.at {
            At::Read => Call::ReadClaim,
            At::Sight(claim) => Call::Sight(claim.others(&self.own)),
            At::Record { .. } => Call::ReadRecord,
            At::Strike { claim, off, .. } => Call::WriteInstances {
                at: claim.version.clone(),
                instances: claim.instances.iter().filter(|i| !off.contains(i)).cloned().collect(),
            },
            At::Free(claim) => Call::FreeClaim {
                at: claim.version.clone(),
            },
            At::Delete(at) => Call::DeleteClaim { at: at.clone() },
            At::End(released) => return Next::End(released.clone()),
        })
    }

    fn learn(&mut self, answer: Answer<W>) {
        let own = self.own.clone();
        self.at = match (std::mem::replace(&mut self.at, At::Read), answer) {
            (At::Read | At::Free(_), Answer::Claim(None)) | (At::Delete(_), Answer::Done) => At::End(Released::Gone),
            (At::Read, Answer::Claim(Some(claim))) if !claim.held => At::Delete(claim.version),
            (At::Read, Answer::Claim(Some(claim))) => {
                if claim.others(&own).is_empty() || !self.rules.keep(Rule::SoleUser) {
                    self.nobody_else(claim, Vec::new())
                } else {
                    At::Sight(claim)
                }
            }
            (At::Sight(claim), Answer::Gone(gone)) => {
                let living = claim.living(&own, &gone);
                if living.is_empty() {
                    self.nobody_else(claim, gone)
                } else {
                    let off = gone.into_iter().chain([own]).collect();
                    Self::strike(claim, off, Released::InUse(living))
                }
            }
            (At::Record { claim, .. }, Answer::Record { used: false, .. }) => At::Free(claim),
            (At::Record { claim, gone }, Answer::Record { used: true, .. }) => {
                let off = gone.into_iter().chain([own]).collect();
                Self::strike(claim, off, Released::Kept)
            }
            (At::Strike { then, .. }, Answer::Claim(_)) => At::End(then),
            (At::Free(_), Answer::Claim(Some(claim))) => At::Delete(claim.version),
            (At::Strike { .. } | At::Free(_) | At::Delete(_), Answer::Conflict) => At::Read,
            (at, _) => at,
        };
    }
}

#[cfg(feature = "broken-rules")]
impl<W: Words> Release<W> {
    /// The same with other names.
    #[must_use]
    pub fn renamed(&self, names: &impl super::Rename<W>) -> Self {
        let released = |released: &Released<W>| match released {
            Released::InUse(living) => Released::InUse(names.instances(living)),
            other => other.clone(),
        };
        let at = match &self.at {
            At::Read => At::Read,
            At::Sight(claim) => At::Sight(names.claim_read(claim)),
            At::Record { claim, gone } => At::Record {
                claim: names.claim_read(claim),
                gone: names.instances(gone),
            },
            At::Strike { claim, off, then } => At::Strike {
                claim: names.claim_read(claim),
                off: names.instances(off),
                then: released(then),
            },
            At::Free(claim) => At::Free(names.claim_read(claim)),
            At::Delete(at) => At::Delete(names.claim(at)),
            At::End(end) => At::End(released(end)),
        };
        Self {
            own: names.instance(&self.own),
            at,
            ..self.clone()
        }
    }
}
