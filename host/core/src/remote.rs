//! The states of a remote, and what each means for a step: two tables as two functions.
//!
//! "The credential could not be read just now" is never "the remote is gone". What is on a remote that cannot be reached is
//! given up only where its owner said so: by deleting the remote, or by a policy whose time has passed.

use std::time::Duration;

/// What a look at a remote came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Glimpse {
    /// There is no RemoteCluster of this UID.
    NoRemote,
    /// Its Secret is not there.
    NoSecret,
    /// Its credential is refused, by us or by the cluster.
    Refused,
    /// Nobody answers.
    Silent,
    /// It answers.
    Seen {
        /// Whether it is the cluster that it was.
        same: bool,
    },
}

/// What was known of a remote before the look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Known {
    /// It has had a credential.
    pub had_credential: bool,
    /// It is recorded as abandoned. It stays so.
    pub is_abandoned: bool,
    /// It has been out of reach for longer than its policy waits, and the policy is to abandon.
    pub abandon_is_due: bool,
}

/// Where a remote stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RemoteState {
    /// Never existed, or is gone.
    Absent,
    /// Its credential is not there yet.
    NotReady,
    /// It answers, and is who it was.
    Ready,
    /// It does not answer.
    Unreachable,
    /// Its credential was there, and is gone.
    CredentialMissing,
    /// Its credential is refused.
    CredentialInvalid,
    /// Another cluster is at its place.
    Replaced,
    /// What is on it is given up.
    Abandoned,
}

impl RemoteState {
    /// All of them.
    pub const ALL: [RemoteState; 8] = [
        RemoteState::Absent,
        RemoteState::NotReady,
        RemoteState::Ready,
        RemoteState::Unreachable,
        RemoteState::CredentialMissing,
        RemoteState::CredentialInvalid,
        RemoteState::Replaced,
        RemoteState::Abandoned,
    ];

    /// Where a remote stands after a look.
    pub fn of(glimpse: Glimpse, known: Known) -> Self {
        if known.is_abandoned {
            return RemoteState::Abandoned;
        }
        let out_of_reach = |state| {
            if known.abandon_is_due {
                RemoteState::Abandoned
            } else {
                state
            }
        };
        match glimpse {
            Glimpse::NoRemote => RemoteState::Absent,
            Glimpse::NoSecret if known.had_credential => out_of_reach(RemoteState::CredentialMissing),
            Glimpse::NoSecret => RemoteState::NotReady,
            Glimpse::Refused => out_of_reach(RemoteState::CredentialInvalid),
            Glimpse::Silent => out_of_reach(RemoteState::Unreachable),
            Glimpse::Seen { same: true } => RemoteState::Ready,
            Glimpse::Seen { same: false } => RemoteState::Replaced,
        }
    }

    /// As a condition's reason.
    pub const fn reason(self) -> &'static str {
        match self {
            RemoteState::Absent | RemoteState::NotReady => "WaitingForRemote",
            RemoteState::Ready => "Reachable",
            RemoteState::Unreachable => "RemoteUnreachable",
            RemoteState::CredentialMissing => "CredentialMissing",
            RemoteState::CredentialInvalid => "CredentialInvalid",
            RemoteState::Replaced => "RemoteReplaced",
            RemoteState::Abandoned => "RemoteAbandoned",
        }
    }
}

/// What is asked of a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asked {
    /// To bring a step.
    Provision,
    /// To take a step away, and to see it gone.
    Foreground,
    /// To take a step away that goes with its remote.
    Background,
}

/// What a step has on a remote, and what the remote's owner says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stake {
    /// Anything may have been written.
    pub applied: bool,
    /// The RemoteCluster is being deleted, or is gone.
    pub owner_lets_go: bool,
}

/// What becomes of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It runs.
    Run,
    /// Nothing was ever applied: it is done.
    NothingToDo,
    /// It waits for somebody else.
    Wait,
    /// It is tried again, ever more rarely.
    BackOff,
    /// Only a person can help; nothing is written.
    Refuse,
    /// It is done, and what it had there is recorded as left behind.
    LeaveBehind,
}

/// What becomes of a step on a remote in this state.
pub const fn verdict(state: RemoteState, asked: Asked, stake: Stake) -> Verdict {
    use RemoteState as S;
    match (state, asked) {
        (S::Absent | S::NotReady, Asked::Provision) => Verdict::Wait,
        (S::Absent | S::NotReady, _) if !stake.applied => Verdict::NothingToDo,
        // A remote that is gone with something of the step on it had its finalizer taken off by force.
        (S::Absent, _) if stake.owner_lets_go => Verdict::LeaveBehind,
        (S::Absent | S::NotReady, _) => Verdict::Wait,
        (S::Ready, _) => Verdict::Run,
        (S::Unreachable, Asked::Provision) => Verdict::BackOff,
        (S::CredentialMissing, Asked::Provision) => Verdict::Wait,
        (S::CredentialInvalid | S::Replaced | S::Abandoned, Asked::Provision) => Verdict::Refuse,
        (S::Unreachable | S::CredentialInvalid, Asked::Background) if stake.owner_lets_go => Verdict::LeaveBehind,
        (S::Unreachable | S::CredentialInvalid, _) => Verdict::BackOff,
        (S::CredentialMissing, _) if stake.owner_lets_go => Verdict::LeaveBehind,
        (S::CredentialMissing, _) => Verdict::Wait,
        (S::Replaced | S::Abandoned, _) => Verdict::LeaveBehind,
    }
}

/// How near the end of a credential is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiring {
    /// Seven days or less.
    WithinSevenDays,
    /// One day or less.
    WithinOneDay,
}

impl Expiring {
    const SEVEN_DAYS: Duration = Duration::from_secs(7 * 86_400);
    const ONE_DAY: Duration = Duration::from_secs(86_400);

    /// Of a credential that has this long to go, zero if it has ended; nothing while there is time.
    pub fn of(left: Duration) -> Option<Self> {
        match left {
            left if left <= Self::ONE_DAY => Some(Expiring::WithinOneDay),
            left if left <= Self::SEVEN_DAYS => Some(Expiring::WithinSevenDays),
            _ => None,
        }
    }

    /// How long until it is nearer by that measure; nothing on the last day.
    pub fn changes_in(left: Duration) -> Option<Duration> {
        let next = [Self::SEVEN_DAYS, Self::ONE_DAY]
            .into_iter()
            .find(|mark| left > *mark)?;
        Some(left - next)
    }

    /// As a condition's reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Expiring::WithinSevenDays => "WithinSevenDays",
            Expiring::WithinOneDay => "WithinOneDay",
        }
    }
}

/// A span as people write it: a number and `s`, `m`, `h` or `d`.
///
/// # Errors
/// A sentence, if it is none.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{text}\" is not a number with s, m, h or d, such as 24h");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(number.checked_mul(seconds).ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Stake = Stake {
        applied: false,
        owner_lets_go: false,
    };
    const SOMETHING: Stake = Stake {
        applied: true,
        owner_lets_go: false,
    };
    const LET_GO: Stake = Stake {
        applied: true,
        owner_lets_go: true,
    };

    /// One test per cell, by its name: the verdicts with nothing applied, with something, and when the owner lets go.
    macro_rules! cells {
        ($($name:ident: $state:ident $asked:ident => $nothing:ident $something:ident $let_go:ident;)*) => {
            $(#[test]
            fn $name() {
                for (stake, expected) in [(NOTHING, Verdict::$nothing), (SOMETHING, Verdict::$something), (LET_GO, Verdict::$let_go)] {
                    assert_eq!(verdict(RemoteState::$state, Asked::$asked, stake), expected, "{stake:?}");
                }
            })*
            #[test]
            fn every_cell_has_its_test() {
                assert_eq!([$(stringify!($name)),*].len(), RemoteState::ALL.len() * 3);
            }
        };
    }

    cells! {
        absent_provision: Absent Provision => Wait Wait Wait;
        absent_foreground: Absent Foreground => NothingToDo Wait LeaveBehind;
        absent_background: Absent Background => NothingToDo Wait LeaveBehind;
        not_ready_provision: NotReady Provision => Wait Wait Wait;
        not_ready_foreground: NotReady Foreground => NothingToDo Wait Wait;
        not_ready_background: NotReady Background => NothingToDo Wait Wait;
        ready_provision: Ready Provision => Run Run Run;
        ready_foreground: Ready Foreground => Run Run Run;
        ready_background: Ready Background => Run Run Run;
        unreachable_provision: Unreachable Provision => BackOff BackOff BackOff;
        unreachable_foreground: Unreachable Foreground => BackOff BackOff BackOff;
        unreachable_background: Unreachable Background => BackOff BackOff LeaveBehind;
        credential_missing_provision: CredentialMissing Provision => Wait Wait Wait;
        credential_missing_foreground: CredentialMissing Foreground => Wait Wait LeaveBehind;
        credential_missing_background: CredentialMissing Background => Wait Wait LeaveBehind;
        credential_invalid_provision: CredentialInvalid Provision => Refuse Refuse Refuse;
        credential_invalid_foreground: CredentialInvalid Foreground => BackOff BackOff BackOff;
        credential_invalid_background: CredentialInvalid Background => BackOff BackOff LeaveBehind;
        replaced_provision: Replaced Provision => Refuse Refuse Refuse;
        replaced_foreground: Replaced Foreground => LeaveBehind LeaveBehind LeaveBehind;
        replaced_background: Replaced Background => LeaveBehind LeaveBehind LeaveBehind;
        abandoned_provision: Abandoned Provision => Refuse Refuse Refuse;
        abandoned_foreground: Abandoned Foreground => LeaveBehind LeaveBehind LeaveBehind;
        abandoned_background: Abandoned Background => LeaveBehind LeaveBehind LeaveBehind;
    }

    #[test]
    fn briefly_missing_secret_does_not_skip_cleanup() {
        let known = Known {
            had_credential: true,
            ..Known::default()
        };
        let state = RemoteState::of(Glimpse::NoSecret, known);
        assert_eq!(state, RemoteState::CredentialMissing);
        assert_eq!(verdict(state, Asked::Foreground, SOMETHING), Verdict::Wait);
        assert_eq!(verdict(state, Asked::Background, SOMETHING), Verdict::Wait);
    }

    #[test]
    fn a_remote_of_another_identity_is_replaced_and_one_that_is_silent_is_not() {
        let known = Known {
            had_credential: true,
            ..Known::default()
        };
        assert_eq!(
            RemoteState::of(Glimpse::Seen { same: false }, known),
            RemoteState::Replaced
        );
        assert_eq!(RemoteState::of(Glimpse::Silent, known), RemoteState::Unreachable);
    }

    #[test]
    fn what_is_out_of_reach_is_abandoned_when_its_time_has_passed_and_stays_so() {
        let due = Known {
            had_credential: true,
            abandon_is_due: true,
            is_abandoned: false,
        };
        for glimpse in [Glimpse::Silent, Glimpse::NoSecret, Glimpse::Refused] {
            assert_eq!(RemoteState::of(glimpse, due), RemoteState::Abandoned, "{glimpse:?}");
        }
        assert_eq!(RemoteState::of(Glimpse::Seen { same: true }, due), RemoteState::Ready);
        let abandoned = Known {
            is_abandoned: true,
            ..Known::default()
        };
        assert_eq!(
            RemoteState::of(Glimpse::Seen { same: true }, abandoned),
            RemoteState::Abandoned
        );
    }

    #[test]
    fn the_end_of_a_credential_is_told_seven_days_and_one_day_ahead() {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let second = Duration::from_secs(1);
        assert_eq!(Expiring::of(days(7) + second), None);
        assert_eq!(Expiring::changes_in(days(7) + second), Some(second));
        assert_eq!(Expiring::of(days(7)), Some(Expiring::WithinSevenDays));
        assert_eq!(Expiring::changes_in(days(7)), Some(days(6)));
        assert_eq!(Expiring::of(days(1) + second), Some(Expiring::WithinSevenDays));
        assert_eq!(Expiring::of(days(1)), Some(Expiring::WithinOneDay));
        assert_eq!(Expiring::of(Duration::ZERO), Some(Expiring::WithinOneDay));
        assert_eq!(Expiring::changes_in(days(1)), None);
    }

    #[test]
    fn a_span_has_a_number_and_a_unit() {
        assert_eq!(parse_span("24h"), Ok(Duration::from_secs(86_400)));
        for wrong in ["", "h", "24", "-1h", "1w", "1.5h", "99999999999999999999d", "ä"] {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
    }
}
