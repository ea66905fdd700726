//! One pass: which steps now, in which direction, how many at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chandlery_core::ports::{Ledger, Ports};
use chandlery_core::record::Phase;
use chandlery_core::{Setback, StepName};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::json;

use crate::compile::{Graph, Node};
use crate::expression::Context;
use crate::row::{RowState, StepRow};
use crate::step::{Forward, back, forward};

/// With what eyes a pass looks at the steps.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Steps to run though they are done with the very same receipt: woken by a watch, or by the slow timer.
    pub due: BTreeSet<StepName>,
    /// Steps whose delay has not passed: not run, their last row holds.
    pub held: BTreeMap<StepName, StepRow>,
    /// How often in a row each step has yielded or failed.
    pub rounds: BTreeMap<StepName, u32>,
    /// How many steps run at the same time, at least 1.
    pub concurrency: usize,
}

/// What a pass came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// One row per step of the graph, in its order, then one per step that is being undone without being in it.
    pub rows: Vec<StepRow>,
}

impl Pass {
    /// The row that stands for the pass: errors before waits before done; the first among equals.
    pub fn worst(&self) -> Option<&StepRow> {
        self.rows.iter().rev().max_by_key(|row| row.severity())
    }

    /// The rows of all that went wrong or is not done yet: errors before waits, else in the order of the graph.
    pub fn troubles(&self) -> Vec<&StepRow> {
        let mut rows: Vec<&StepRow> = self.rows.iter().filter(|row| row.severity() > 0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.severity()));
        rows
    }

    /// Whether every step is done or skipped and nothing is being undone.
    pub fn is_done(&self) -> bool {
        self.rows.iter().all(|row| row.severity() == 0)
    }
}

type Running<'a> = FuturesUnordered<BoxFuture<'a, StepRow>>;

/// Runs every step whose needs are done, and undoes every step that left the graph.
///
/// A step that fails leaves its siblings alone; its dependents wait. Cancel safety: may be dropped at any await; the next
/// pass goes on from what the records say.
///
/// # Errors
/// Only if the records cannot be read; all else is in the rows.
pub async fn pass(graph: &Graph, ports: Ports<'_>, look: &Look) -> Result<Pass, Setback> {
    let ledgers = by_step(ports.records.load().await?);
    let mut rows: BTreeMap<StepName, StepRow> = BTreeMap::new();
    let mut started: BTreeSet<StepName> = BTreeSet::new();
    let leaving: BTreeMap<StepName, Arc<dyn Ledger>> = ledgers
        .iter()
        .filter(|(name, _)| graph.node(name).is_none())
        .map(|(n, l)| (n.clone(), l.clone()))
        .collect();
    let mut undoing = Undoing::new(leaving);
    let mut running: Running<'_> = FuturesUnordered::new();
    loop {
        for node in graph.nodes() {
            if started.contains(&node.name) || running.len() >= look.concurrency.max(1) {
                continue;
            }
            if let Some(row) = look.held.get(&node.name).filter(|_| !look.due.contains(&node.name)) {
                started.insert(node.name.clone());
                rows.insert(node.name.clone(), row.clone());
                continue;
            }
            if !node
                .needs
                .iter()
                .all(|need| rows.get(need).is_some_and(|row| row.severity() == 0))
            {
                continue;
            }
            started.insert(node.name.clone());
            let step = Forward {
                node,
                context: context(graph, node, &rows),
                ledger: ledgers.get(&node.name).cloned(),
                due: look.due.contains(&node.name),
                round: look.rounds.get(&node.name).copied().unwrap_or(0),
            };
            running.push(Box::pin(forward(ports, step)));
        }
        undoing.start(ports, look, &mut running);
        match running.next().await {
            Some(row) => {
                undoing.ended(&row);
                // A step that left the graph and is gone is told no more.
                if graph.node(&row.step).is_some() || row.state != RowState::Done {
                    rows.insert(row.step.clone(), row);
                }
            }
            // Rows that were held may have made more steps ready: go on until nothing starts.
            None if graph.nodes().iter().any(|n| {
                !started.contains(&n.name)
                    && n.needs
                        .iter()
                        .all(|need| rows.get(need).is_some_and(|r| r.severity() == 0))
            }) => {}
            None => break,
        }
    }
    for node in graph.nodes() {
        if !rows.contains_key(&node.name) {
            rows.insert(node.name.clone(), not_started(node, ledgers.get(&node.name), &rows));
        }
    }
    let mut ordered: Vec<StepRow> = graph
        .nodes()
        .iter()
        .filter_map(|node| rows.remove(&node.name))
        .collect();
    ordered.extend(rows.into_values());
    ordered.extend(undoing.waiting_rows());
    Ok(Pass { rows: ordered })
}

/// Undoes every step that has a record, each after those that need it.
///
/// The pass has no rows once nothing is left.
///
/// # Errors
/// Only if the records cannot be read.
pub async fn undo_all(ports: Ports<'_>, look: &Look) -> Result<Pass, Setback> {
    let mut undoing = Undoing::new(by_step(ports.records.load().await?));
    let mut running: Running<'_> = FuturesUnordered::new();
    let mut rows = Vec::new();
    loop {
        undoing.start(ports, look, &mut running);
        let Some(row) = running.next().await else { break };
        undoing.ended(&row);
        if row.state != RowState::Done {
            rows.push(row);
        }
    }
    rows.extend(undoing.waiting_rows());
    Ok(Pass { rows })
}

fn by_step(ledgers: Vec<Arc<dyn Ledger>>) -> BTreeMap<StepName, Arc<dyn Ledger>> {
    ledgers
        .into_iter()
        .map(|ledger| (ledger.record().step, ledger))
        .collect()
}

/// What a step's expressions see: inputs, and outputs of all steps before it.
fn context(graph: &Graph, node: &Node, rows: &BTreeMap<StepName, StepRow>) -> Context {
    let outputs = node
        .before
        .iter()
        .filter_map(|name| {
            rows.get(name)
                .map(|row| (name.clone(), row.outputs.clone().unwrap_or_else(|| json!({}))))
        })
        .collect();
    Context {
        inputs: graph.inputs().clone(),
        outputs,
    }
}

/// The row of a step whose needs are not done. What is done stays done: a dependency that wavers undoes nothing.
fn not_started(node: &Node, ledger: Option<&Arc<dyn Ledger>>, rows: &BTreeMap<StepName, StepRow>) -> StepRow {
    let record = ledger.map(|l| l.record());
    if let Some(record) = &record
        && record.phase == Phase::Done
    {
        return StepRow {
            outputs: record.outputs.clone(),
            inventory: record.inventory.len(),
            ..StepRow::new(&node.name, &node.on, RowState::Done, "Done", "")
        };
    }
    let waits: Vec<&str> = node
        .needs
        .iter()
        .filter(|need| rows.get(*need).is_none_or(|row| row.severity() != 0))
        .map(StepName::as_str)
        .collect();
    StepRow {
        inventory: record.map_or(0, |r| r.inventory.len()),
        ..StepRow::new(
            &node.name,
            &node.on,
            RowState::Pending,
            "WaitingForStep",
            format!("waits for {}", waits.join(", ")),
        )
    }
}

/// Steps to be undone, each after all those that name it in their receipt's needs.
struct Undoing {
    waiting: BTreeMap<StepName, Arc<dyn Ledger>>,
    needed_by: BTreeMap<StepName, BTreeSet<StepName>>,
}

impl Undoing {
    fn new(waiting: BTreeMap<StepName, Arc<dyn Ledger>>) -> Self {
        let mut needed_by: BTreeMap<StepName, BTreeSet<StepName>> = BTreeMap::new();
        for (name, ledger) in &waiting {
            for need in ledger.record().receipt.needs {
                needed_by.entry(need).or_default().insert(name.clone());
            }
        }
        Self { waiting, needed_by }
    }

    fn start<'a>(&mut self, ports: Ports<'a>, look: &Look, running: &mut Running<'a>) {
        let free: Vec<StepName> = self
            .waiting
            .keys()
            .filter(|name| self.needed_by.get(*name).is_none_or(BTreeSet::is_empty))
            .cloned()
            .collect();
        for name in free {
            if running.len() >= look.concurrency.max(1) {
                return;
            }
            let Some(ledger) = self.waiting.remove(&name) else {
                continue;
            };
            if let Some(row) = look
                .held
                .get(&name)
                .filter(|row| row.state != RowState::Done && !look.due.contains(&name))
            {
                let row = row.clone();
                running.push(Box::pin(async move { row }));
                continue;
            }
            let round = look.rounds.get(&name).copied().unwrap_or(0);
            running.push(Box::pin(back(ports, ledger, round)));
        }
    }

    fn ended(&mut self, row: &StepRow) {
        if row.state == RowState::Done {
            for needed_by in self.needed_by.values_mut() {
                needed_by.remove(&row.step);
            }
        }
    }

    fn waiting_rows(&self) -> Vec<StepRow> {
        self.waiting
            .iter()
            .map(|(name, ledger)| {
                let record = ledger.record();
                let after: Vec<&str> = self
                    .needed_by
                    .get(name)
                    .into_iter()
                    .flatten()
                    .map(StepName::as_str)
                    .collect();
                StepRow {
                    inventory: record.inventory.len(),
                    ..StepRow::new(
                        name,
                        record.receipt.target.name(),
                        RowState::Pending,
                        "WaitingForStep",
                        format!("is undone after {}", after.join(", ")),
                    )
                }
            })
            .collect()
    }
}
