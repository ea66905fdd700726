//! A guest's own time: while it runs, not while it waits for the cluster or for its turn on a worker.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Measures one call.
#[derive(Default)]
pub(crate) struct Clock(Mutex<Meter>);

#[derive(Default)]
struct Meter {
    used: Duration,
    running_since: Option<Instant>,
    in_host: bool,
}

impl Meter {
    fn stop(&mut self) {
        if let Some(since) = self.running_since.take() {
            self.used += since.elapsed();
        }
    }
}

impl Clock {
    fn change<T>(&self, change: impl FnOnce(&mut Meter) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The guest's own time up to now.
    pub(crate) fn used(&self) -> Duration {
        self.change(|meter| meter.used + meter.running_since.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// The guest has called, and the host works or waits.
    pub(crate) fn enter_host(&self) {
        self.change(|meter| {
            meter.stop();
            meter.in_host = true;
        });
    }

    /// The guest goes on.
    pub(crate) fn leave_host(&self) {
        self.change(|meter| {
            meter.in_host = false;
            meter.running_since = Some(Instant::now());
        });
    }
}

/// A call whose guest is on the clock while it is polled.
pub(crate) struct Timed<F> {
    inner: Pin<Box<F>>,
    clock: Arc<Clock>,
}

impl<F: Future> Timed<F> {
    pub(crate) fn new(clock: Arc<Clock>, inner: F) -> Self {
        Self {
            inner: Box::pin(inner),
            clock,
        }
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.clock
            .change(|meter| meter.running_since = (!meter.in_host).then(Instant::now));
        let polled = self.inner.as_mut().poll(context);
        self.clock.change(Meter::stop);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_not_own_time() {
        let clock = Arc::new(Clock::default());
        let busy = |milliseconds| std::thread::sleep(Duration::from_millis(milliseconds));
        let mut polls = 0;
        let call = std::future::poll_fn(|context| {
            polls += 1;
            busy(20);
            if polls == 1 {
                clock.enter_host();
                busy(200);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            clock.leave_host();
            busy(20);
            Poll::Ready(())
        });
        let mut timed = Timed::new(clock.clone(), call);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut timed).poll(&mut context).is_pending());
        busy(200);
        assert!(Pin::new(&mut timed).poll(&mut context).is_ready());
        let used = clock.used();
        assert!(
            (Duration::from_millis(40)..Duration::from_millis(150)).contains(&used),
            "{used:?}"
        );
    }
}
