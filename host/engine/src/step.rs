//! One step, forward or back: receipt, scope, call, settle, always in this order.

use std::sync::Arc;

use chandlery_core::claim::Purpose;
use chandlery_core::ports::{Call, Entered, Ledger, Ports, Scope, TakenAway};
use chandlery_core::record::{Entry, LARGEST_SPEC, Phase, Receipt, Record};
use chandlery_core::task::{Done, Export, Outcome};
use chandlery_core::{Class, ObjectRef, Setback};
use serde_json::Value;

use crate::compile::Node;
use crate::expression::Context;
use crate::row::{RowState, StepRow};

/// What one step is run with in a pass.
pub(crate) struct Forward<'a> {
    pub(crate) node: &'a Node,
    pub(crate) context: Context,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    /// Run it though it is done with this very receipt.
    pub(crate) due: bool,
    pub(crate) round: u32,
}

/// Brings one step to its spec, or takes it away where its condition is false.
pub(crate) async fn forward(ports: Ports<'_>, step: Forward<'_>) -> StepRow {
    let (name, on) = (&step.node.name, step.node.on.as_str());
    match try_forward(ports, &step).await {
        Ok(row) => row,
        Err(setback) => {
            let inventory = step.ledger.as_ref().map_or(0, |l| l.record().inventory.len());
            StepRow {
                inventory,
                ..StepRow::held_up(name, on, false, setback)
            }
        }
    }
}

async fn try_forward(ports: Ports<'_>, step: &Forward<'_>) -> Result<StepRow, Setback> {
    let (node, name, on) = (step.node, &step.node.name, step.node.on.as_str());
    if let Some(when) = &node.when
        && !when
            .is_true(&step.context)
            .map_err(|message| Setback::new(Class::UserFix, "InvalidCondition", format!("when: {message}")))?
    {
        if let Some(ledger) = &step.ledger {
            let row = back(ports, ledger.clone(), step.round).await;
            if row.state != RowState::Done {
                return Ok(row);
            }
        }
        return Ok(StepRow::new(
            name,
            on,
            RowState::Skipped,
            "ConditionFalse",
            "its condition is false",
        ));
    }
    let spec = node
        .with
        .render(&step.context)
        .map_err(|problem| Setback::new(Class::UserFix, "InvalidExpression", format!("with{problem}")))?;
    check_size(&spec)?;
    let mut receipt = Receipt {
        plugin: node.plugin.clone(),
        digest: ports.plugins.digest(&node.plugin)?,
        spec,
        target: ports.remotes.target(on)?,
        cluster_identity: String::new(),
        background_deletion: node.background_deletion,
        needs: node.needs.clone(),
    };
    let ledger = match &step.ledger {
        None => ports.records.open(Record::new(name.clone(), receipt)).await?,
        Some(ledger) => {
            let record = ledger.record();
            let undone = matches!(record.phase, Phase::Deprovisioning | Phase::Emptying);
            if undone || !record.receipt.is_continued_by(&receipt) {
                let row = back(ports, ledger.clone(), step.round).await;
                if row.state != RowState::Done {
                    return Ok(row);
                }
                ports.records.open(Record::new(name.clone(), receipt)).await?
            } else {
                receipt.cluster_identity = record.receipt.cluster_identity.clone();
                let same = record.receipt == receipt;
                if same && record.phase == Phase::Done && !step.due {
                    return Ok(done_row(node, &record));
                }
                let phase = if same { record.phase } else { Phase::Provisioning };
                ledger.begin(phase, receipt).await?;
                ledger.clone()
            }
        }
    };
    let record = ledger.record();
    let scope = match ports
        .remotes
        .enter(&record.receipt.target, Purpose::Provision, ledger.clone())
        .await?
    {
        Entered::Scope(scope) => scope,
        Entered::Vanished(why) => return Err(Setback::new(Class::UserFix, "RemoteReplaced", why)),
    };
    let call = Call {
        record: &record,
        export: Export::Provision,
        scope: scope.clone(),
        round: step.round,
    };
    let outcome = match ports.plugins.call(call).await {
        Ok(outcome) => outcome,
        Err(setback) => {
            // What the call wrote before it failed is in the inventory; what became known of it is kept.
            ledger
                .settle(Phase::Provisioning, record.outputs, record.memory)
                .await?;
            let inventory = ledger.record().inventory.len();
            return Ok(StepRow {
                watch: scope.seen(),
                inventory,
                ..StepRow::held_up(name, on, false, setback)
            });
        }
    };
    let row = match outcome {
        Outcome::Yield(wait) => {
            ledger
                .settle(Phase::Provisioning, record.outputs, wait.memory.clone())
                .await?;
            let (watch, after) = (scope.watched(bounded(wait.watch)).await, wait.after);
            let row = StepRow::held_up(name, on, false, Setback::new(Class::Wait, wait.reason, wait.message));
            StepRow { watch, after, ..row }
        }
        Outcome::Done(done) => settle_done(node, done, scope.as_ref(), &ledger).await?,
    };
    Ok(StepRow {
        inventory: ledger.record().inventory.len(),
        ..row
    })
}

/// The settings are kept in the receipt, and what the hub cannot store is not begun.
fn check_size(spec: &Value) -> Result<(), Setback> {
    let bytes = spec.to_string().len();
    if bytes > LARGEST_SPEC {
        let message =
            format!("with: {bytes} bytes once its expressions are replaced; {LARGEST_SPEC} may be kept of a step");
        return Err(Setback::new(Class::UserFix, "SpecTooLarge", message));
    }
    Ok(())
}

/// Prunes what this call did not name, then stores the step as done.
async fn settle_done(node: &Node, done: Done, scope: &dyn Scope, ledger: &Arc<dyn Ledger>) -> Result<StepRow, Setback> {
    let named: std::collections::HashSet<ObjectRef> = scope.named().into_iter().collect();
    let stale: Vec<Entry> = ledger
        .record()
        .inventory
        .into_iter()
        .filter(|entry| !named.contains(&entry.object))
        .collect();
    if !named.is_empty() && !stale.is_empty() {
        match scope.take_away(stale).await {
            Ok(TakenAway::Gone) => {}
            Ok(TakenAway::Waiting { on, message }) => {
                ledger.settle(Phase::Provisioning, done.outputs, done.memory).await?;
                let row = StepRow::held_up(
                    &node.name,
                    &node.on,
                    false,
                    Setback::new(Class::Wait, "Pruning", message),
                );
                return Ok(StepRow { watch: on, ..row });
            }
            Err(setback) => {
                ledger.settle(Phase::Provisioning, done.outputs, done.memory).await?;
                return Err(setback);
            }
        }
    }
    ledger.settle(Phase::Done, done.outputs.clone(), done.memory).await?;
    let mut row = done_row(node, &ledger.record());
    row.tried = true;
    row.watch = scope.seen();
    let more: Vec<ObjectRef> = done
        .watch
        .into_iter()
        .filter(|target| !row.watch.iter().any(|w| w.target == *target))
        .collect();
    row.watch.extend(scope.watched(bounded(more)).await);
    Ok(row)
}

fn done_row(node: &Node, record: &Record) -> StepRow {
    StepRow {
        outputs: record.outputs.clone(),
        inventory: record.inventory.len(),
        ..StepRow::new(&node.name, &node.on, RowState::Done, "Done", "")
    }
}

/// As many objects as a yield may have watched; what is beyond is polled.
fn bounded(mut targets: Vec<ObjectRef>) -> Vec<ObjectRef> {
    targets.truncate(chandlery_core::task::WATCHED);
    targets
}

/// Takes one step away as its receipt says. The row is `Done` once nothing of it is left, its claim and record included.
pub(crate) async fn back(ports: Ports<'_>, ledger: Arc<dyn Ledger>, round: u32) -> StepRow {
    let record = ledger.record();
    let on = record.receipt.target.name().to_owned();
    match try_back(ports, &ledger, round).await {
        Ok(row) => row,
        Err(setback) => StepRow {
            inventory: ledger.record().inventory.len(),
            ..StepRow::held_up(&record.step, &on, true, setback)
        },
    }
}

async fn try_back(ports: Ports<'_>, ledger: &Arc<dyn Ledger>, round: u32) -> Result<StepRow, Setback> {
    let mut record = ledger.record();
    let (name, target) = (record.step.clone(), record.receipt.target.clone());
    if !matches!(record.phase, Phase::Deprovisioning | Phase::Emptying) {
        ledger.begin(Phase::Deprovisioning, record.receipt.clone()).await?;
        record = ledger.record();
    }
    let gone = |message: String| StepRow::new(&name, target.name(), RowState::Done, "Undone", message);
    if !record.is_used() {
        ledger.close().await?;
        ports.remotes.leave(&target, &name).await?;
        return Ok(gone("nothing was ever written".into()));
    }
    let scope = match ports
        .remotes
        .enter(&target, Purpose::Deprovision, ledger.clone())
        .await?
    {
        Entered::Scope(scope) => scope,
        Entered::Vanished(why) => {
            ledger.close().await?;
            ports.remotes.leave(&target, &name).await?;
            return Ok(gone(why));
        }
    };
    // Never kept: what is doomed now may not be at the next look.
    let doomed = record.receipt.background_deletion && scope.is_doomed();
    if record.phase == Phase::Deprovisioning {
        let call = Call {
            record: &record,
            export: Export::Deprovision { doomed },
            scope: scope.clone(),
            round,
        };
        match ports.plugins.call(call).await {
            Ok(Outcome::Done(_)) => ledger.settle(Phase::Emptying, None, None).await?,
            Ok(Outcome::Yield(wait)) => {
                ledger
                    .settle(Phase::Deprovisioning, record.outputs, wait.memory.clone())
                    .await?;
                let watch = scope.watched(bounded(wait.watch)).await;
                let row = StepRow::held_up(
                    &name,
                    target.name(),
                    true,
                    Setback::new(Class::Wait, wait.reason, wait.message),
                );
                return Ok(StepRow {
                    watch,
                    after: wait.after,
                    inventory: record.inventory.len(),
                    ..row
                });
            }
            Err(setback) => {
                ledger
                    .settle(Phase::Deprovisioning, record.outputs, record.memory)
                    .await?;
                return Err(setback);
            }
        }
    }
    if doomed {
        ledger.close().await?;
        ports.remotes.leave(&target, &name).await?;
        return Ok(gone("goes with its cluster".into()));
    }
    match scope.take_away(ledger.record().inventory).await {
        Ok(TakenAway::Gone) => {
            // The record first: a claim without one stands for nothing on the remote, and may be given back by anybody.
            ledger.close().await?;
            ports.remotes.leave(&target, &name).await?;
            Ok(gone(String::new()))
        }
        Ok(TakenAway::Waiting { on, message }) => {
            ledger.settle(Phase::Emptying, None, None).await?;
            let row = StepRow::held_up(
                &name,
                target.name(),
                true,
                Setback::new(Class::Wait, "WaitingForDeletion", message),
            );
            Ok(StepRow {
                watch: on,
                inventory: ledger.record().inventory.len(),
                ..row
            })
        }
        Err(setback) => {
            ledger.settle(Phase::Emptying, None, None).await?;
            Err(setback)
        }
    }
}
