//! What is to go wrong, and when.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::ApiError;
use super::others::{Replacement, Write};
use super::trace::Entry;
use crate::access::Attributes;
use crate::ids::Ids;

/// What is to be done to a caller. Rules that name the same request all act on it, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What happens when.
    pub rules: Vec<Rule>,
}

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// At which requests.
    pub when: When,
    /// What happens to them.
    pub fault: Fault,
}

/// Which requests a rule means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// The one with this index; the caller's first request is 0.
    Call(u64),
    /// Those that look like this.
    Matches(Matches),
}

/// What a request must look like; what is not said may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Matches {
    /// As in roles: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: Option<String>,
    /// The group; empty for the core group.
    pub group: Option<String>,
    /// The plural, such as `configmaps`.
    pub resource: Option<String>,
    /// Such as `status`; empty for the object itself.
    pub subresource: Option<String>,
    /// The namespace; empty for what has none.
    pub namespace: Option<String>,
    /// The name; empty for collections, and for creates, whose name stands in the body.
    pub name: Option<String>,
    /// Only the one of this index among those that match; without it, each.
    pub nth: Option<u64>,
}

/// Before or after the server does what it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// The server has not seen the request.
    Before,
    /// The server has done it.
    After,
}

/// Where a caller is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The request is not sent.
    BeforeSent,
    /// The server has done it; the caller never learns.
    AfterCommit,
    /// The caller has the answer, and comes no further than to the next thing it waits for.
    AfterReply,
}

/// What is done to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Fault {
    /// An error instead of the answer. [`ApiError::ConnectionReset`] after the commit is the lost answer.
    Error {
        /// Which.
        error: ApiError,
        /// Whether the server did it all the same.
        commit: Moment,
    },
    /// The answer begins, and then the connection is cut in the middle of it.
    CutAnswer,
    /// The answer takes its time.
    Slow {
        /// How long.
        millis: u64,
    },
    /// There never is an answer, nor an end of the connection.
    Hang {
        /// Whether the server did it all the same.
        commit: Moment,
    },
    /// A read shows what was there this many changes of the object or list ago.
    Stale {
        /// 1 is the state before the last change.
        back: u32,
    },
    /// The next page of a list is no longer to be had; a request for anything else is let be.
    PageExpired,
    /// Somebody else writes.
    ThirdParty {
        /// Just before the request, or just after.
        moment: Moment,
        /// What they write.
        write: Write,
    },
    /// Before the request, something is deleted and made again under its name.
    Replaced {
        /// What.
        what: Replacement,
    },
    /// Something happens to the events of a watch.
    Watch {
        /// What.
        fault: WatchFault,
    },
    /// The caller is stopped for good; see [`super::Faults::run`].
    Crash {
        /// Where.
        at: Stop,
    },
}

/// What happens to the events of a watch. Events are counted from 0, without bookmarks and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchFault {
    /// This event is not told.
    Lost(u64),
    /// This event and the next one become one, if they are of the same object.
    Coalesced(u64),
    /// This event is told after the next ones of other objects, or when nothing has happened for a second.
    Late {
        /// Which.
        event: u64,
        /// How many pass it.
        by: u64,
    },
    /// After this many events the connection is cut.
    Cut(u64),
}

impl Plan {
    /// One fault at one request.
    #[must_use]
    pub fn at(call: u64, fault: Fault) -> Self {
        Self::default().and(When::Call(call), fault)
    }

    /// One more rule.
    #[must_use]
    pub fn and(mut self, when: When, fault: Fault) -> Self {
        self.rules.push(Rule { when, fault });
        self
    }

    /// What was done in a run, request by request: the same caller on the same world meets the same faults.
    #[must_use]
    pub fn of(trace: &[Entry]) -> Self {
        let rules = trace.iter().flat_map(|entry| {
            entry.faults.iter().map(|done| Rule {
                when: When::Call(entry.call),
                fault: done.fault.clone(),
            })
        });
        Self { rules: rules.collect() }
    }

    /// Some of the faults that can happen to the requests of an undisturbed run; equal seeds give equal plans.
    #[must_use]
    pub fn random(seed: u64, trace: &[Entry], faults: usize) -> Self {
        let mut ids = Ids::new(seed);
        let mut plan = Self::default();
        for _ in 0..faults {
            let entry = trace.get(ids.below(trace.len()));
            let possible = entry.map(Fault::possible).unwrap_or_default();
            if let (Some(entry), Some(fault)) = (entry, possible.get(ids.below(possible.len()))) {
                plan = plan.and(When::Call(entry.call), fault.clone());
            }
        }
        plan
    }
}

impl Fault {
    /// Every fault that means something for a request, each once: for runs that try them all.
    #[must_use]
    pub fn possible(entry: &Entry) -> Vec<Self> {
        let writes = entry.writes();
        let watches = entry.verb == "watch";
        let moments: &[Moment] = if writes {
            &[Moment::Before, Moment::After]
        } else {
            &[Moment::Before]
        };
        let mut faults: Vec<Self> = Self::crashes(entry);
        for commit in moments.iter().copied() {
            faults.extend(ApiError::ALL.map(|error| Self::Error { error, commit }));
            faults.push(Self::Hang { commit });
        }
        faults.push(Self::Slow { millis: 60_000 });
        if watches {
            let watch = [
                WatchFault::Lost(0),
                WatchFault::Coalesced(0),
                WatchFault::Late { event: 0, by: 1 },
                WatchFault::Cut(0),
                WatchFault::Cut(1),
            ];
            faults.extend(watch.map(|fault| Self::Watch { fault }));
        } else {
            faults.push(Self::CutAnswer);
            if !writes {
                faults.extend((1..=3).map(|back| Self::Stale { back }));
            }
        }
        if entry.continues() {
            faults.push(Self::PageExpired);
        }
        if !entry.name.is_empty() && entry.subresource.is_empty() {
            for moment in [Moment::Before, Moment::After] {
                let write = Write::note();
                faults.push(Self::ThirdParty { moment, write });
            }
            for what in [Replacement::Object, Replacement::Stranger] {
                faults.push(Self::Replaced { what });
            }
        }
        if !entry.namespace.is_empty() {
            let what = Replacement::Namespace;
            faults.push(Self::Replaced { what });
        }
        faults
    }

    /// The places to stop a caller at a request that are not one and the same: between a request and the next nothing can
    /// happen, so that before a read is after the request before it.
    #[must_use]
    pub fn crashes(entry: &Entry) -> Vec<Self> {
        let stops: &[Stop] = if entry.writes() {
            &[Stop::BeforeSent, Stop::AfterCommit]
        } else {
            &[Stop::AfterReply]
        };
        stops.iter().map(|at| Self::Crash { at: *at }).collect()
    }

    /// How long an answer takes.
    pub(super) fn delay(&self) -> Option<Duration> {
        match self {
            Self::Slow { millis } => Some(Duration::from_millis(*millis)),
            _ => None,
        }
    }
}

impl Matches {
    /// Whether a request looks like this, its place among its like aside.
    pub(super) fn looks_like(&self, what: &Attributes) -> bool {
        [
            (&self.verb, &what.verb),
            (&self.group, &what.group),
            (&self.resource, &what.resource),
            (&self.subresource, &what.subresource),
            (&self.namespace, &what.namespace),
            (&self.name, &what.name),
        ]
        .into_iter()
        .all(|(wanted, found)| wanted.as_ref().is_none_or(|wanted| wanted == found))
    }
}
