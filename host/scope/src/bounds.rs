//! What a server may send to a watch: kube's watcher reads for as long, and as much, as it is sent, so every request of a
//! watch passes here. A line has a longest length, a list a largest size, both a time by which they end, and requests a pace.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chandlery_core::cluster::REQUEST_TIMEOUT;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::{BoxError, Service};

/// Longest line of a watch in bytes, one event. An object fits into 1.5 MiB of etcd, its metadata into less.
pub(crate) const LONGEST_LINE: usize = 4 * 1024 * 1024;
/// Largest page of a list in bytes: 500 objects' metadata of 64 KiB each.
pub(crate) const LARGEST_PAGE: usize = 32 * 1024 * 1024;
/// When a watch is to have ended: servers end one after the 290 s that kube asks for. One that has not is taken for dead.
const LONGEST_WATCH: Duration = Duration::from_secs(310);
/// Requests of one watch that may follow each other at once: a list of 20,000 objects has 40 pages.
const BURST: u32 = 64;
/// Time between two requests of one watch when they have used the burst up. A server may end each watch as it begins.
const PACE: Duration = Duration::from_secs(1);

/// The server sent more than there is room for; asking again would not help.
#[derive(Debug, thiserror::Error)]
#[error("the cluster sent more than {limit} bytes for {what}")]
pub(crate) struct TooMuch {
    limit: usize,
    what: &'static str,
}

/// The time is up; the watch begins anew.
#[derive(Debug, thiserror::Error)]
#[error("the cluster did not end its answer in time")]
struct TooSlow;

/// A client for one watch: the same connections, within these bounds.
pub(crate) fn bounded(client: &Client) -> Client {
    let service = Bounded {
        inner: client.clone(),
        due: Arc::default(),
    };
    Client::new(service, client.default_namespace())
}

struct Bounded {
    inner: Client,
    /// When the burst will be whole again.
    due: Arc<Mutex<Option<Instant>>>,
}

impl Bounded {
    /// When the next request may be sent, and that it will be.
    fn turn(&self, now: Instant) -> Instant {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let next = due.unwrap_or(now).max(now) + PACE;
        *due = Some(next);
        next.checked_sub(PACE * BURST).map_or(now, |turn| turn.max(now))
    }
}

impl Service<Request<Body>> for Bounded {
    type Response = Response<BoundedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (turn, client) = (self.turn(Instant::now()), self.inner.clone());
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        Box::pin(async move {
            sleep_until(turn).await;
            let response = tokio::time::timeout(REQUEST_TIMEOUT, client.send(request))
                .await
                .map_err(|_| TooSlow)??;
            Ok(response.map(|inner| BoundedBody::new(inner, is_watch)))
        })
    }
}

/// A body within bounds.
struct BoundedBody {
    inner: Body,
    /// Bytes since the last end of a line; in a list there is none.
    since: usize,
    is_watch: bool,
    end: Pin<Box<Sleep>>,
}

impl BoundedBody {
    fn new(inner: Body, is_watch: bool) -> Self {
        let time = if is_watch { LONGEST_WATCH } else { REQUEST_TIMEOUT };
        Self {
            inner,
            since: 0,
            is_watch,
            end: Box::pin(sleep(time)),
        }
    }

    fn count(&mut self, data: &[u8]) -> Result<(), TooMuch> {
        let (limit, what) = if self.is_watch {
            (LONGEST_LINE, "one event")
        } else {
            (LARGEST_PAGE, "one page")
        };
        // A list on many lines is one page all the same.
        let end_of_line = self.is_watch.then_some(b'\n');
        for (at, part) in data.split(|byte| Some(*byte) == end_of_line).enumerate() {
            self.since = if at == 0 { self.since } else { 0 } + part.len();
            if self.since > limit {
                return Err(TooMuch { limit, what });
            }
        }
        Ok(())
    }
}

impl HttpBody for BoundedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(TooSlow.into())));
        }
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        let counted = frame.data_ref().map_or(Ok(()), |data| self.count(data));
        Poll::Ready(Some(counted.map(|()| frame).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(is_watch: bool) -> BoundedBody {
        BoundedBody::new(Body::empty(), is_watch)
    }

    #[tokio::test]
    async fn lines_of_a_watch_are_counted_each_for_itself_and_a_page_as_a_whole() {
        let half = vec![b'x'; LONGEST_LINE / 2];
        let line = [half.as_slice(), b"\n"].concat();
        let mut watch = body(true);
        for _ in 0..20 {
            watch.count(&line).unwrap();
        }
        watch.count(&half).unwrap();
        watch.count(&half).unwrap();
        assert!(watch.count(b"x").is_err());
        let mut page = body(false);
        for _ in 0..15 {
            page.count(&line).unwrap();
        }
        assert!(page.count(&line).is_err());
    }

    #[tokio::test]
    async fn a_burst_of_requests_goes_at_once_and_what_follows_at_a_pace() {
        let nothing = tower::service_fn(|_: Request<Body>| async { Ok::<_, BoxError>(Response::new(Body::empty())) });
        let bounded = Bounded {
            inner: Client::new(nothing, "default"),
            due: Arc::default(),
        };
        let now = Instant::now();
        assert!((0..BURST).all(|_| bounded.turn(now) == now));
        assert_eq!(bounded.turn(now), now + PACE);
        assert_eq!(bounded.turn(now), now + PACE * 2);
        let later = now + PACE * BURST * 2;
        assert!((0..BURST).all(|_| bounded.turn(later) == later), "whole again");
    }
}
