//! Conditions by the kstatus convention: `Ready` always, `Reconciling` and `Stalled` only while true.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The condition that says whether an object is as it was asked to be.
pub const READY: &str = "Ready";
/// There while the host works on it.
pub const RECONCILING: &str = "Reconciling";
/// There while only a person can help.
pub const STALLED: &str = "Stalled";

/// There while a credential has no more than seven days left.
pub const CREDENTIAL_EXPIRES: &str = "CredentialExpires";

/// A condition's content without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// `Ready`, `Stalled`, …
    pub kind: &'static str,
    /// `True`, `False`; `None` is `Unknown`.
    pub status: Option<bool>,
    /// One CamelCase word.
    pub reason: String,
    /// One sentence; cut at 1,024 characters.
    pub message: String,
}

impl State {
    /// A condition that is true or false.
    pub fn new(kind: &'static str, status: bool, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: Some(status),
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// A condition of which nothing is known yet.
    pub fn unknown(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Makes conditions of `states` for this generation; a condition whose status did not change keeps its transition time,
/// so that equal states give equal conditions and nothing is written.
pub fn merge(before: &[Condition], states: &[State], generation: Option<i64>, now: Timestamp) -> Vec<Condition> {
    states
        .iter()
        .map(|state| {
            let status = match state.status {
                Some(true) => "True",
                Some(false) => "False",
                None => "Unknown",
            };
            let last_transition_time = before
                .iter()
                .find(|c| c.type_ == state.kind && c.status == status)
                .map_or(Time(now), |c| c.last_transition_time.clone());
            Condition {
                type_: state.kind.to_owned(),
                status: status.to_owned(),
                reason: reason_word(&state.reason),
                message: state.message.chars().take(1024).collect(),
                last_transition_time,
                observed_generation: generation,
            }
        })
        .collect()
}

/// The API asks for `[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?`; a plugin's word may be anything.
fn reason_word(text: &str) -> String {
    let word: String = text.chars().filter(|c| c.is_ascii_alphanumeric()).take(64).collect();
    if word.chars().next().is_some_and(|c| c.is_ascii_alphabetic()) {
        word
    } else {
        format!("Reason{word}")
    }
}

/// Whether `Ready` is true.
pub fn is_ready(conditions: &[Condition]) -> bool {
    conditions.iter().any(|c| c.type_ == READY && c.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_states_keep_their_transition_time() {
        let (early, late) = (Timestamp::from_second(1).unwrap(), Timestamp::from_second(2).unwrap());
        let states = [State::new(READY, false, "Waiting", "a")];
        let first = merge(&[], &states, Some(1), early);
        assert_eq!(merge(&first, &states, Some(1), late), first);
        let turned = merge(&first, &[State::new(READY, true, "Done", "")], Some(1), late);
        assert_eq!(turned[0].last_transition_time, Time(late));
    }

    #[test]
    fn a_plugins_reason_is_made_a_word() {
        assert_eq!(reason_word("Quota Pending!"), "QuotaPending");
        assert_eq!(reason_word("404"), "Reason404");
        assert_eq!(reason_word(""), "Reason");
    }
}
