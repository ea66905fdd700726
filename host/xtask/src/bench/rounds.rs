//! One round is both ways one after the other, so that whatever else the machine does is shared by both.

use super::measure::{Requests, Times};
use super::table::Figures;

/// What one round came to.
pub(super) struct Round {
    pub(super) ours: Times,
    pub(super) twin: Times,
    pub(super) making: Requests,
    pub(super) taking: Requests,
}

/// What the rounds with one number of Provisions came to.
pub(super) fn report_rounds(count: usize, rounds: &[Round], figures: &mut Figures) {
    let each = |value: fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<_>>();
    let per_provision = |value: fn(&Round) -> usize| {
        let one = |round: &Round| value(round) as f64 / count as f64;
        rounds.iter().map(one).collect::<Vec<_>>()
    };
    let whose = format!("{count} provision{}", if count == 1 { "" } else { "s" });
    let mut add = |what: &str, unit, values: Vec<f64>| figures.add(format!("{whose}, {what}"), unit, None, values);
    add("creation to Ready", "s", each(|round| round.ours.made));
    add(
        "… by kubectl apply --server-side --wait",
        "s",
        each(|round| round.twin.made),
    );
    add("… ratio", "×", each(|round| round.ours.made / round.twin.made));
    add("deletion to gone", "s", each(|round| round.ours.gone));
    add("… by kubectl delete", "s", each(|round| round.twin.gone));
    add(
        "… ratio of deletion",
        "×",
        each(|round| round.ours.gone / round.twin.gone),
    );
    add(
        "requests to the hub to make one",
        "",
        per_provision(|round| round.making.hub),
    );
    add(
        "requests to the remote to make one",
        "",
        per_provision(|round| round.making.remote),
    );
    add(
        "requests to the hub to take one away",
        "",
        per_provision(|round| round.taking.hub),
    );
    add(
        "requests to the remote to take one away",
        "",
        per_provision(|round| round.taking.remote),
    );
}
