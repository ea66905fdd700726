//! Figures stand beside their goals and are never asserted: one that misses its goal is shown as missed.

#![allow(clippy::print_stdout, reason = "this is the answer of the program")]

use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::workspace;

/// One thing that was measured, perhaps several times.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    what: String,
    unit: &'static str,
    /// What it should not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<f64>,
    median: f64,
    least: f64,
    most: f64,
    rounds: usize,
}

impl Figure {
    /// Of nothing there is no figure.
    fn of(what: impl Into<String>, unit: &'static str, goal: Option<f64>, mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Self {
            what: what.into(),
            unit,
            goal,
            median: median(&values)?,
            least: *values.first()?,
            most: *values.last()?,
            rounds: values.len(),
        })
    }

    fn row(&self) -> [String; 5] {
        let verdict = match self.goal {
            None => "",
            Some(goal) if self.median <= goal => "reached",
            Some(_) => "MISSED",
        };
        let spread = if self.rounds > 1 {
            format!(
                "{} to {} in {} rounds",
                number(self.least),
                number(self.most),
                self.rounds
            )
        } else {
            String::new()
        };
        [
            self.what.clone(),
            self.goal
                .map_or(String::new(), |goal| format!("{} {}", number(goal), self.unit)),
            format!("{} {}", number(self.median), self.unit),
            spread,
            verdict.to_owned(),
        ]
    }
}

/// All that was measured, in the order in which it is shown.
#[derive(Default)]
pub(super) struct Figures(Vec<Figure>);

impl Figures {
    /// Adds what was measured in one or more rounds, with what it should not exceed.
    pub(super) fn add(
        &mut self,
        what: impl Into<String>,
        unit: &'static str,
        goal: Option<f64>,
        values: impl Into<Vec<f64>>,
    ) {
        self.0.extend(Figure::of(what, unit, goal, values.into()));
    }
}

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == v.trunc() => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Prints the table and writes the same as JSON to `target/bench/NAME.json`.
pub(super) fn report(name: &str, Figures(figures): &Figures) -> Result<()> {
    let head = ["what", "goal", "figure", "spread", ""].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(figures.iter().map(Figure::row)).collect();
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in &rows {
        let cells: Vec<_> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        println!("{}", cells.join("  ").trim_end());
    }
    let directory = workspace::root().join("target/bench");
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let path = directory.join(format!("{name}.json"));
    let json = serde_json::to_vec_pretty(figures).context("writing the figures as JSON")?;
    fs::write(&path, json).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_goal_is_shown_as_missed() {
        let figure = Figure::of("time", "s", Some(2.0), vec![5.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(figure.row(), ["time", "2 s", "2.50 s", "1 to 5 in 4 rounds", "MISSED"]);
        assert!(Figure::of("nothing", "s", None, vec![]).is_none());
    }
}
