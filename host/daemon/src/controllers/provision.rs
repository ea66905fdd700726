//! Provision: reads the object once; decides nothing.

use std::sync::Arc;
use std::time::Instant;

use chandlery::core::{Setback, StepName, Uid};
use chandlery::engine::{Pass, compile};
use chandlery_api::condition::READY;
use chandlery_api::{Provision, ProvisionStatus};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use serde_json::json;

use super::{Failed, Shared, ended, timed, uid_of};
use crate::metrics::Ended;
use crate::status;
use chandlery::scope::finalizer;

/// One look at one Provision.
pub(crate) async fn reconcile(provision: Arc<Provision>, shared: Arc<Shared>) -> Result<Action, Failed> {
    let meta = &provision.metadata;
    let uid = uid_of(provision.as_ref())?;
    let api: Api<Provision> = Api::namespaced(shared.client.clone(), meta.namespace.as_deref().unwrap_or_default());
    let one = One {
        provision: &provision,
        uid,
        api,
        shared: &shared,
    };
    ended(if meta.deletion_timestamp.is_some() {
        one.undo().await
    } else {
        one.bring().await
    })
}

struct One<'a> {
    provision: &'a Provision,
    uid: Uid,
    api: Api<Provision>,
    shared: &'a Shared,
}

impl One<'_> {
    async fn bring(&self) -> Result<Action, Setback> {
        let generation = self.provision.metadata.generation;
        if !finalizer::has(self.provision) {
            finalizer::add(&self.api, self.provision).await?;
        }
        let before = self.before();
        if before.conditions.is_empty() {
            // So that nobody who waits for Ready passes too early.
            self.write(status::of_state(
                None,
                "Reconciling",
                "not looked at yet",
                &before,
                None,
            ))
            .await?;
        }
        if self.provision.spec.0.paused {
            self.write(status::of_state(
                Some(false),
                "Paused",
                "spec.paused is true",
                &self.before(),
                generation,
            ))
            .await?;
            return Ok(Action::await_change());
        }
        let graph = self
            .shared
            .memory
            .with(&self.uid, |r| r.graph(generation, || compile(&self.provision.spec.0)));
        let graph = match graph.as_ref() {
            Ok(graph) => graph,
            Err(problems) => {
                self.write(status::of_problems(problems, &self.before(), generation))
                    .await?;
                return Ok(Action::await_change());
            }
        };
        let steps: Vec<StepName> = graph.nodes().iter().map(|node| node.name.clone()).collect();
        let look = self
            .shared
            .memory
            .with(&self.uid, |r| r.look(&steps, self.shared.concurrent_steps));
        let Some(pass) = self.run(Some(graph), &look).await? else {
            return Ok(Action::await_change());
        };
        self.report(&pass, false).await?;
        Ok(Action::requeue(self.shared.memory.with(&self.uid, |r| r.next_look())))
    }

    async fn undo(&self) -> Result<Action, Setback> {
        if !finalizer::has(self.provision) {
            self.forget();
            return Ok(Action::await_change());
        }
        let look = self
            .shared
            .memory
            .with(&self.uid, |r| r.look(&[], self.shared.concurrent_steps));
        let Some(pass) = self.run(None, &look).await? else {
            return Ok(Action::await_change());
        };
        if pass.rows.is_empty() {
            self.give_back().await?;
            finalizer::remove(&self.api, self.provision).await?;
            self.forget();
            tracing::info!(provision = %self.name(), "is gone");
            return Ok(Action::await_change());
        }
        self.report(&pass, true).await?;
        Ok(Action::requeue(self.shared.memory.with(&self.uid, |r| r.next_look())))
    }

    /// Gives back claims that no record tells of any more: a record is closed before its claim is released, and a process may
    /// have died in between.
    async fn give_back(&self) -> Result<(), Setback> {
        for claim in self.shared.claims.state() {
            if claim.spec.holder.uid == self.uid.as_str() {
                self.shared.host.collect(&claim).await?;
            }
        }
        Ok(())
    }

    /// Runs a pass that deletion can end. `None`: it was ended, and the event that did so brings the object back.
    async fn run(
        &self,
        graph: Option<&chandlery::engine::Graph>,
        look: &chandlery::engine::Look,
    ) -> Result<Option<Pass>, Setback> {
        let cancel = self.shared.memory.with(&self.uid, |r| r.begin());
        let started = Instant::now();
        let work = self.shared.host.pass(self.provision, graph, look);
        let report = tokio::select! {
            report = work => report?,
            // A deletion is not ended by itself.
            () = cancel.cancelled(), if graph.is_some() => return Ok(None),
        };
        let metrics = &self.shared.metrics;
        metrics.pass_seconds.observe(started.elapsed().as_secs_f64());
        metrics
            .watches
            .set(i64::try_from(self.shared.watches.open()).unwrap_or(i64::MAX));
        for row in report.pass.rows.iter().filter(|row| row.tried) {
            let outcome = row.class.map_or("done", |class| class.effect().label);
            metrics.steps.get_or_create(&Ended { outcome }).inc();
            tracing::debug!(provision = %self.name(), step = %row.step, on = row.on, state = ?row.state, reason = row.reason, message = row.message, "step");
        }
        let outcome = report
            .pass
            .worst()
            .and_then(|row| row.class)
            .map_or("done", |class| class.effect().label);
        metrics.passes.get_or_create(&Ended { outcome }).inc();
        self.shared.memory.with(&self.uid, |r| r.take_in(&report.pass));
        for left in &report.left {
            let message = format!(
                "step {} leaves {} objects on remote {}: {}",
                left.step,
                left.objects.len(),
                left.remote,
                left.objects.join(", ")
            );
            self.shared.teller.tell(self.provision, false, left.why, &message).await;
        }
        Ok(Some(report.pass))
    }

    fn name(&self) -> String {
        let meta = &self.provision.metadata;
        format!(
            "{}/{}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        )
    }

    fn forget(&self) {
        self.shared.host.forget(&self.uid);
        self.shared.memory.forget(&self.uid);
    }

    /// The status as this process last wrote it; what the watch shows may be older.
    fn before(&self) -> ProvisionStatus {
        let written = self.shared.memory.with(&self.uid, |r| r.status.clone());
        written.or_else(|| self.provision.status.clone()).unwrap_or_default()
    }

    async fn report(&self, pass: &Pass, deleting: bool) -> Result<(), Setback> {
        let before = self.before();
        let attempts = |row: &chandlery::engine::StepRow| self.shared.memory.with(&self.uid, |r| r.attempts(&row.step));
        self.write(status::after_pass(
            pass,
            deleting,
            &before,
            attempts,
            self.provision.metadata.generation,
        ))
        .await
    }

    /// Writes the status if it tells something new, and an event if `Ready` has turned or has another reason.
    async fn write(&self, after: ProvisionStatus) -> Result<(), Setback> {
        let before = self.before();
        if status::same(&before, &after) {
            return Ok(());
        }
        let name = self.provision.metadata.name.clone().unwrap_or_default();
        let patch = json!({"apiVersion": "chandlery.dev/v1alpha1", "kind": "Provision", "metadata": {"name": name, "uid": self.uid}, "status": after});
        let parameters = PatchParams::apply("chandlery").force();
        timed(
            "the status",
            self.api.patch_status(&name, &parameters, &Patch::Apply(&patch)),
        )
        .await?;
        let ready = |status: &ProvisionStatus| {
            status
                .conditions
                .iter()
                .find(|c| c.type_ == READY)
                .map(|c| (c.status.clone(), c.reason.clone()))
        };
        if let Some(condition) = after.conditions.iter().find(|c| c.type_ == READY)
            && ready(&before) != ready(&after)
        {
            tracing::info!(provision = %self.name(), ready = condition.status, reason = condition.reason, message = condition.message, "state");
            let good = !after
                .conditions
                .iter()
                .any(|c| c.type_ == chandlery_api::condition::STALLED);
            self.shared
                .teller
                .tell(self.provision, good, &condition.reason, &condition.message)
                .await;
        }
        self.shared.memory.with(&self.uid, |r| r.status = Some(after));
        Ok(())
    }
}
