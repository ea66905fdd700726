//! The write fence: a daemon that lost its Lease starts no further write.
//!
//! Every client of the daemon has [`FenceLayer`] around it, so there is no way past it. A process that was stopped and goes
//! on reads a clock that went on without it, and finds the fence down before its next write leaves. A request that was
//! already past it and waited for its connection is held up by `gate`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Method, Request, Response};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

/// Until when this process may write. Cheap to clone; all clones are one fence.
#[derive(Debug, Clone)]
pub struct WriteFence {
    start: Instant,
    /// Milliseconds after `start`; `u64::MAX` is for ever, 0 is down.
    until: Arc<AtomicU64>,
}

/// Why a write did not leave.
#[derive(Debug, thiserror::Error)]
#[error("this process may not write now: it does not hold the lease")]
pub(crate) struct Fenced;

impl WriteFence {
    /// A fence that is up for ever: for commands that act once, for one person.
    pub fn open() -> Self {
        Self {
            start: Instant::now(),
            until: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }

    /// A fence that is down until [`WriteFence::extend`].
    pub fn closed() -> Self {
        Self {
            start: Instant::now(),
            until: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Up for `span` from `since`, the moment before the renewal was sent.
    pub fn extend(&self, since: Instant, span: Duration) {
        let until = since.saturating_duration_since(self.start).saturating_add(span);
        self.until.store(
            u64::try_from(until.as_millis()).unwrap_or(u64::MAX - 1),
            Ordering::SeqCst,
        );
    }

    /// Down at once.
    pub fn close(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// Whether a write may start now.
    pub fn is_up(&self) -> bool {
        let until = self.until.load(Ordering::SeqCst);
        until == u64::MAX || u128::from(until) > self.start.elapsed().as_millis()
    }
}

/// Puts a [`WriteFence`] around a client.
#[derive(Clone)]
pub(crate) struct FenceLayer(pub(crate) WriteFence);

impl<S> Layer<S> for FenceLayer {
    type Service = FencedService<S>;
    fn layer(&self, inner: S) -> Self::Service {
        FencedService {
            inner,
            fence: self.0.clone(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct FencedService<S> {
    inner: S,
    fence: WriteFence,
}

impl<S, B> Service<Request<Body>> for FencedService<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = futures::future::Either<S::Future, futures::future::Ready<Result<Response<B>, BoxError>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        if reads || self.fence.is_up() {
            futures::future::Either::Left(self.inner.call(request))
        } else {
            futures::future::Either::Right(futures::future::ready(Err(Box::new(Fenced))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_down_until_it_is_extended_and_again_after_its_time() {
        let fence = WriteFence::closed();
        assert!(!fence.is_up());
        fence.extend(Instant::now(), Duration::from_secs(60));
        assert!(fence.is_up());
        fence.extend(
            Instant::now()
                .checked_sub(Duration::from_secs(61))
                .unwrap_or_else(Instant::now),
            Duration::ZERO,
        );
        assert!(!fence.is_up());
        assert!(WriteFence::open().is_up());
        let other = fence.clone();
        other.extend(Instant::now(), Duration::from_secs(60));
        assert!(fence.is_up());
        fence.close();
        assert!(!other.is_up());
    }
}
