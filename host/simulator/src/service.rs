//! A world behind the interface of a client: one request, one answer, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tower::Service;

use crate::access::User;
use crate::reply::{Answer, Reply};
use crate::request::Call;
use crate::settings::Settings;
use crate::status::Failure;
use crate::watch::{Told, Watch};
use crate::world::World;

/// A body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A simulated API server. Clones are the same server.
#[derive(Clone)]
pub struct Simulator {
    shared: Arc<Shared>,
    user: User,
}

struct Shared {
    world: Mutex<World>,
    changed: watch::Sender<u64>,
    clock: Clock,
    /// The world's time and tokio's when the simulator was started.
    started: (Timestamp, tokio::time::Instant),
    body_limit: usize,
}

/// Sent with a read within this process: answer as before so many changes of what it asks for. Sent back with an answer
/// that does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier(pub(crate) u32);

/// Whose time it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Time passes only when it is told to.
    #[default]
    Virtual,
    /// The time of this machine.
    Wall,
    /// The time of tokio's clock since the simulator was started: where that is paused, the cluster's time passes with it.
    Runtime,
}

impl Simulator {
    /// Starts a server; every request is an administrator's until [`Simulator::as_user`] says otherwise.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::of(World::new(settings), Clock::Virtual)
    }

    /// Starts a server that continues a world.
    #[must_use]
    pub fn of(world: World, clock: Clock) -> Self {
        let body_limit = world.settings.body_limit;
        let (changed, _) = watch::channel(world.store.version());
        let started = (world.now(), tokio::time::Instant::now());
        let shared = Shared {
            started,
            world: Mutex::new(world),
            changed,
            clock,
            body_limit,
        };
        Self {
            shared: Arc::new(shared),
            user: User::admin(),
        }
    }

    /// The same server, asked by somebody else.
    #[must_use]
    pub fn as_user(&self, user: User) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            user,
        }
    }

    /// Another server that starts with this one's world as it is now.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::of(self.with_world(|world| world.clone()), self.shared.clock)
    }

    /// Looks at the world, or changes it; watchers are told of what changed. Requests wait meanwhile.
    pub fn with_world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.shared.world.lock().unwrap_or_else(PoisonError::into_inner);
        let version = world.store.version();
        if let Some(now) = self.time() {
            world.set_time(now);
        }
        // Time that passes by itself is nothing to tell; what happened because of it is.
        let now = world.now();
        let answer = look(&mut world);
        if world.store.version() != version || world.now() != now {
            self.shared.changed.send_replace(world.store.version());
        }
        answer
    }

    /// What time it is, if that is not the world's own affair.
    fn time(&self) -> Option<Timestamp> {
        match self.shared.clock {
            Clock::Virtual => None,
            Clock::Wall => Some(Timestamp::now()),
            Clock::Runtime => {
                let (begin, instant) = self.shared.started;
                let elapsed = SignedDuration::try_from(instant.elapsed()).unwrap_or(SignedDuration::MAX);
                Some(begin.saturating_add(elapsed).unwrap_or(Timestamp::MAX))
            }
        }
    }

    /// Answers one request whose body is read.
    pub fn respond(&self, method: &http::Method, uri: &http::Uri, headers: &HeaderMap, body: Bytes) -> Response<Body> {
        self.respond_as_of(None, method, uri, headers, body)
    }

    fn respond_as_of(
        &self,
        earlier: Option<Earlier>,
        method: &http::Method,
        uri: &http::Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Response<Body> {
        let user = match self.authenticate(headers) {
            Ok(user) => user,
            Err(failure) => return response(failure.into()),
        };
        let call = Call::new(user, method.clone(), uri, headers, body);
        if let Some(earlier) = earlier
            && let Some(mut past) = self.with_world(|world| world.earlier(&call, earlier.0))
            && let Reply::Answer(answer) = past.answer(&call)
        {
            let mut response = response(answer);
            response.extensions_mut().insert(earlier);
            return response;
        }
        match self.with_world(|world| world.answer(&call)) {
            Reply::Answer(answer) => response(answer),
            Reply::Watch(watch) => self.stream(*watch),
        }
    }

    fn authenticate(&self, headers: &HeaderMap) -> Result<User, Failure> {
        if headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Err(Failure::not_simulated("impersonation"));
        }
        let Some(token) = headers.get(http::header::AUTHORIZATION) else {
            return Ok(self.user.clone());
        };
        let token = token
            .to_str()
            .ok()
            .and_then(|text| text.strip_prefix("Bearer "))
            .ok_or_else(Failure::unauthorized)?;
        self.with_world(|world| world.authenticate(token))
            .ok_or_else(Failure::unauthorized)
    }

    fn stream(&self, watch: Watch) -> Response<Body> {
        let state = (self.clone(), watch, self.shared.changed.subscribe());
        let lines = futures::stream::unfold(state, |(simulator, mut watch, mut changed)| async move {
            loop {
                // Before the look, so that a write between the look and the wait is not slept through.
                changed.borrow_and_update();
                match simulator.with_world(|world| world.tell(&mut watch)) {
                    Told::Lines(lines) => return Some((Ok(Frame::data(lines)), (simulator, watch, changed))),
                    Told::End => return None,
                    Told::Nothing => simulator.wait(&watch, &mut changed).await,
                }
            }
        });
        let mut response = Response::new(StreamBody::new(Lines(Box::pin(lines))).boxed_unsync());
        response
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    /// Until there may be something to tell.
    async fn wait(&self, watch: &Watch, changed: &mut watch::Receiver<u64>) {
        let Some(now) = self.time() else {
            // An error means that the server is gone, but this clone is part of it.
            let _ = changed.changed().await;
            return;
        };
        let due = self.with_world(|world| world.due());
        let next = watch.deadline.into_iter().chain(due).min();
        let left = next.map_or(LONGEST_WAIT, |next| {
            // Something is due only after it, so that to come a little late is to come in time.
            Duration::try_from(next.duration_since(now)).unwrap_or_default() + Duration::from_millis(1)
        });
        let _ = tokio::time::timeout(left.min(LONGEST_WAIT), changed.changed()).await;
    }
}

/// A watch is looked at at least this often, for bookmarks.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

type Item = Result<Frame<Bytes>, Infallible>;

struct Lines(Pin<Box<dyn Stream<Item = Item> + Send>>);

impl Stream for Lines {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl<B> Service<Request<B>> for Simulator
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let simulator = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let limit = simulator.shared.body_limit;
            let body = match Limited::new(body, limit).collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                    return Ok(response(Failure::too_large(limit).into()));
                }
                Err(error) => {
                    return Ok(response(
                        Failure::bad_request(format!("reading the body: {error}")).into(),
                    ));
                }
            };
            let earlier = parts.extensions.get::<Earlier>().copied();
            Ok(simulator.respond_as_of(earlier, &parts.method, &parts.uri, &parts.headers, body))
        })
    }
}

fn response(answer: Answer) -> Response<Body> {
    let mut response = Response::new(Full::new(answer.body).boxed_unsync());
    *response.status_mut() = answer.code;
    let headers = response.headers_mut();
    headers.insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static(answer.content_type),
    );
    headers.insert(
        http::header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    if let Some(seconds) = answer.retry_after {
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    for warning in answer.warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(http::header::WARNING, value);
        }
    }
    if answer.code == StatusCode::UNAUTHORIZED {
        headers.insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_woken_by_what_happens_and_by_time_that_is_moved_but_not_by_who_looks() {
        for clock in [Clock::Virtual, Clock::Wall] {
            let simulator = Simulator::of(World::new(Settings::default()), clock);
            let mut changed = simulator.shared.changed.subscribe();
            simulator.with_world(|_| ());
            // The first look brings the world to the time of the wall.
            changed.borrow_and_update();
            simulator.with_world(|_| ());
            assert!(!changed.has_changed().unwrap(), "{clock:?}");
            simulator.with_world(|world| world.advance(SignedDuration::from_secs(1)));
            assert!(changed.has_changed().unwrap(), "{clock:?}");
        }
    }
}
