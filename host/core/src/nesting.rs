//! Remotes within remotes: the way from the hub to one, and what a remote on the way says of those beyond it.

use std::collections::HashSet;

use crate::remote::{Glimpse, Known, RemoteState};

/// Most remotes on one way. Every look goes all of it: nobody nests clusters this deep, but anyone may write it down.
pub const LONGEST_WAY: usize = 32;

/// Why a remote cannot be reached from the hub. Each has the names that lead to it as far as they are known, outermost first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoWay {
    /// One on the way is not there.
    #[error("there is no RemoteCluster {missing}, through which it is reached")]
    Missing {
        /// Its name.
        missing: String,
        /// It, and what comes after it.
        names: Vec<String>,
    },
    /// The way leads back to where it has been.
    #[error("it is reached through itself: {}", .0.join(" < "))]
    Cycle(Vec<String>),
    /// More than [`LONGEST_WAY`].
    #[error("more than {LONGEST_WAY} remotes lead to it")]
    TooLong(Vec<String>),
}

impl NoWay {
    /// The names that are known.
    pub fn known(self) -> Vec<String> {
        match self {
            NoWay::Missing { names, .. } | NoWay::Cycle(names) | NoWay::TooLong(names) => names,
        }
    }
}

/// The names on the way from the hub to a remote, outermost first, its own the last. `via` tells through which other a remote
/// is reached, if through any; nothing where there is no remote of that name.
///
/// # Errors
/// [`NoWay`].
pub fn way(name: &str, via: impl Fn(&str) -> Option<Option<String>>) -> Result<Vec<String>, NoWay> {
    let outermost_first = |mut names: Vec<String>| {
        names.reverse();
        names
    };
    let (mut names, mut passed) = (Vec::new(), HashSet::new());
    let mut next = Some(name.to_owned());
    while let Some(name) = next {
        if !passed.insert(name.clone()) {
            names.push(name);
            return Err(NoWay::Cycle(outermost_first(names)));
        }
        if names.len() == LONGEST_WAY {
            return Err(NoWay::TooLong(outermost_first(names)));
        }
        let Some(via) = via(&name) else {
            names.push(name.clone());
            return Err(NoWay::Missing {
                missing: name,
                names: outermost_first(names),
            });
        };
        names.push(name);
        next = via;
    }
    Ok(outermost_first(names))
}

/// What the state of a remote says of one that is reached through it: nothing if it leads on, else what a look at the inner
/// one comes to. A credential that cannot be read just now is not one that is gone.
pub const fn beyond(outer: RemoteState, inner: Known) -> Option<Glimpse> {
    use RemoteState as S;
    match outer {
        S::Ready => None,
        // Whoever deleted the outer remote by force has taken the way to the credential with it.
        S::Absent => Some(Glimpse::NoSecret),
        S::NotReady | S::Unreachable | S::CredentialMissing if inner.had_credential => Some(Glimpse::Silent),
        S::NotReady | S::Unreachable | S::CredentialMissing => Some(Glimpse::NoSecret),
        S::CredentialInvalid | S::Replaced | S::Abandoned => Some(Glimpse::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn via<'a>(pairs: &'a [(&'a str, Option<&'a str>)]) -> impl Fn(&str) -> Option<Option<String>> + 'a {
        move |name| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, via)| via.map(str::to_owned))
        }
    }

    #[test]
    fn a_way_begins_at_the_hub() {
        let remotes = [("a", None), ("b", Some("a")), ("c", Some("b"))];
        assert_eq!(way("c", via(&remotes)).unwrap(), ["a", "b", "c"]);
        assert_eq!(way("a", via(&remotes)).unwrap(), ["a"]);
    }

    #[test]
    fn a_way_in_a_circle_is_told_with_all_its_names() {
        let remotes = [("a", Some("c")), ("b", Some("a")), ("c", Some("b"))];
        let error = way("c", via(&remotes)).unwrap_err();
        assert_eq!(error.to_string(), "it is reached through itself: c < a < b < c");
        let error = way("a", via(&[("a", Some("a"))])).unwrap_err();
        assert_eq!(error.to_string(), "it is reached through itself: a < a");
        // Not only those who are in the circle are refused.
        let remotes = [("a", Some("b")), ("b", Some("a")), ("x", Some("a"))];
        assert!(matches!(way("x", via(&remotes)), Err(NoWay::Cycle(_))));
    }

    #[test]
    fn a_way_that_misses_a_remote_says_which() {
        let error = way("c", via(&[("c", Some("b")), ("b", Some("a"))])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no RemoteCluster a, through which it is reached"
        );
        assert_eq!(error.known(), ["a", "b", "c"]);
    }

    #[test]
    fn a_way_has_an_end() {
        let endless = |name: &str| Some(Some(format!("{name}x")));
        assert!(matches!(way("x", endless), Err(NoWay::TooLong(names)) if names.len() == LONGEST_WAY));
    }

    #[test]
    fn what_cannot_be_read_through_another_is_not_gone() {
        let seen = Known {
            had_credential: true,
            ..Known::default()
        };
        for outer in RemoteState::ALL {
            let (once_seen, never_seen) = (beyond(outer, seen), beyond(outer, Known::default()));
            match outer {
                RemoteState::Ready => assert_eq!((once_seen, never_seen), (None, None)),
                RemoteState::Absent => assert_eq!(once_seen, Some(Glimpse::NoSecret)),
                RemoteState::NotReady | RemoteState::Unreachable | RemoteState::CredentialMissing => {
                    assert_eq!(
                        (once_seen, never_seen),
                        (Some(Glimpse::Silent), Some(Glimpse::NoSecret)),
                        "{outer:?}"
                    );
                }
                _ => assert_eq!(
                    (once_seen, never_seen),
                    (Some(Glimpse::Refused), Some(Glimpse::Refused)),
                    "{outer:?}"
                ),
            }
        }
    }
}
