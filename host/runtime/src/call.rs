//! One call: a fresh store and instance, the limits on it, and its answer.

use std::sync::Arc;

use chandlery_bindings::{ClusterHandle, Plugin as Bindings, convert};
use chandlery_core::cluster::{ClusterAccess, Problem};
use chandlery_core::limits::Limits;
use chandlery_core::task::{Description, Export, Failure, Outcome, Request};
use serde_json::Value;
use wasmtime::component::Resource;
use wasmtime::{Store, UpdateDeadline};

use crate::answer::{self, OutOfTime, broken};
use crate::clock::{Clock, Timed};
use crate::log::LogBook;
use crate::state::State;
use crate::{Plugin, Runtime};

/// Most bytes that a guest may hand over in one host call, or in its answer; what is more traps. Above the sum that is
/// allowed by default (8 MiB), so that the guest is told in good order first.
const HOST_CALL_BYTES: usize = 10 * 1024 * 1024;

/// Who a call is for, as the log and the journal tell it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Name of the Plugin object, or of the file.
    pub plugin: String,
    /// `namespace/name` of the provision.
    pub provision: String,
    /// Name of the step.
    pub step: String,
    /// Name of the cluster.
    pub cluster: String,
}

impl Labels {
    /// A call that is for nobody: the plugin is asked about itself.
    fn of(plugin: &Plugin) -> Self {
        Self {
            plugin: plugin.digest().to_string(),
            ..Self::default()
        }
    }
}

impl Runtime {
    /// What the plugin says of itself. Asked once per [`Plugin`], then known.
    ///
    /// # Errors
    /// [`Failure::Broken`].
    ///
    /// Cancel safety: may be dropped at any await.
    pub async fn describe<'a>(&self, plugin: &'a Plugin) -> Result<&'a Description, Failure> {
        plugin
            .description
            .get_or_try_init(|| async {
                let limits = Limits::default();
                let answered = self.run(plugin, Labels::of(plugin), &limits, async |plugin, store| {
                    plugin.chandlery_provision_provisioner().call_describe(store).await
                });
                answer::description(answered.await?)
            })
            .await
    }

    /// What the plugin finds wrong with a spec that fits its schema. No cluster is involved.
    ///
    /// # Errors
    /// [`Failure::Broken`].
    ///
    /// Cancel safety: may be dropped at any await.
    pub async fn check(&self, plugin: &Plugin, spec: &Value, limits: &Limits) -> Result<Vec<Problem>, Failure> {
        let spec = spec.to_string();
        let answered = self.run(plugin, Labels::of(plugin), limits, async |plugin, store| {
            plugin.chandlery_provision_provisioner().call_check(store, &spec).await
        });
        Ok(answer::problems(answered.await?.into_iter().map(Into::into)))
    }

    /// Runs one task on one cluster, in a fresh instance. Waits for its turn if too many calls run.
    ///
    /// # Errors
    /// What the plugin answered; [`Failure::Broken`] after a trap, at a limit of time or memory, or for an answer that
    /// breaks the contract; `exhausted` when the whole call took too long.
    ///
    /// Cancel safety: may be dropped at any await; that ends the call. What `on` had on the wire is `on`'s affair.
    pub async fn call(
        &self,
        plugin: &Plugin,
        name: &str,
        export: Export,
        on: Arc<dyn ClusterAccess>,
        request: &Request,
        limits: &Limits,
    ) -> Result<Outcome, Failure> {
        let labels = Labels {
            plugin: name.to_owned(),
            provision: request.provision.clone(),
            step: request.step.to_string(),
            cluster: on.facts().name.clone(),
        };
        let request = convert::request(request);
        let answered = self.run(plugin, labels, limits, async |plugin, store| {
            // The handle is the host's; the guest borrows it for the length of the call.
            let handle = store.data_mut().table.push(ClusterHandle(on))?;
            let lent = || Resource::new_borrow(handle.rep());
            let provisioner = plugin.chandlery_provision_provisioner();
            match export {
                Export::Provision => provisioner.call_provision(store, lent(), &request).await,
                Export::Deprovision { doomed } => provisioner.call_deprovision(store, lent(), &request, doomed).await,
            }
        });
        answer::outcome(answered.await?)
    }

    /// Instantiates under limits and runs `work` in the instance.
    async fn run<T>(
        &self,
        plugin: &Plugin,
        labels: Labels,
        limits: &Limits,
        work: impl AsyncFnOnce(&Bindings, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T, Failure> {
        // It is never closed; were it, the call would run without a turn, and the pool refuse it in good order.
        let _turn = self.turns.acquire().await;
        let _ticking = self.ticker.run();
        let clock = Arc::new(Clock::default());
        let mut store = Store::new(
            &self.engine,
            State::new(limits, clock.clone(), LogBook::new(labels, limits.log_bytes)),
        );
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(HOST_CALL_BYTES);
        store.set_epoch_deadline(1);
        let own_time = limits.own_time;
        store.epoch_deadline_callback(move |context| {
            // At each tick others get their turn on the worker, and a dropped call ends here.
            if context.data().clock.used() > own_time {
                Err(OutOfTime.into())
            } else {
                Ok(UpdateDeadline::Yield(1))
            }
        });
        let running = Timed::new(clock.clone(), async {
            let instance = plugin.pre.instantiate_async(&mut store).await?;
            work(&instance, &mut store).await
        });
        let ended = tokio::time::timeout(limits.call_time, running).await;
        match ended {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(answer::trapped(&error, store.data(), limits)),
            Err(_elapsed) if clock.used() > limits.own_time => {
                Err(broken("OutOfTime", "it ran for the whole time of the call"))
            }
            Err(_elapsed) => Err(answer::timed_out(limits, clock.used())),
        }
    }
}
