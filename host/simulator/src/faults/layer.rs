//! The layer: counts what passes, does to it what the plan says, and writes it down.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::sync::watch;
use tower::{BoxError, Layer, Service, ServiceExt};

use super::error::ApiError;
use super::events::tamper;
use super::others::{self, Scene, Sender};
use super::plan::{Fault, Moment, Plan, Stop, WatchFault, When};
use super::trace::{Done, Entry};
use super::turns::Turns;
use crate::access::{Attributes, User};
use crate::request::Call;
use crate::service::{Earlier, Simulator};

/// The body of an answer that passed through.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// What goes wrong for one caller. Clones are the same; every client of the caller gets a layer of it.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
    /// In whose place requests of others are sent; without it, the caller's own client sends them.
    others: Option<Sender>,
    turns: Option<(Turns, usize)>,
}

struct Shared {
    plan: Plan,
    state: Mutex<State>,
    crashed: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    trace: Vec<Entry>,
    /// How many requests have matched each rule.
    matched: Vec<u64>,
    /// Answers to reads by their path and query, for servers that do not show their past: oldest first.
    answers: Vec<(String, Response<Bytes>)>,
}

/// How a caller ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran<T> {
    /// By itself.
    Finished(T),
    /// It was stopped, as [`Fault::Crash`] told.
    Crashed,
}

/// A client with faults.
#[derive(Clone)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl Faults {
    /// Faults of one caller, by a plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let state = State {
            matched: vec![0; plan.rules.len()],
            ..State::default()
        };
        let shared = Shared {
            plan,
            state: Mutex::new(state),
            crashed: watch::channel(false).0,
        };
        Self {
            shared: Arc::new(shared),
            others: None,
            turns: None,
        }
    }

    /// Others write to this simulator as its administrator, and not with what the caller may do.
    #[must_use]
    pub fn with_others_on(self, simulator: &Simulator) -> Self {
        let simulator = simulator.as_user(User::admin());
        Self {
            others: Some(sender::<_, Full<Bytes>, _>(simulator)),
            ..self
        }
    }

    /// The caller is this one of several, and sends when it is its turn.
    #[must_use]
    pub fn in_turn(self, turns: &Turns, caller: usize) -> Self {
        Self {
            turns: Some((turns.clone(), caller)),
            ..self
        }
    }

    /// Runs the caller, until it ends or is stopped; what is left of a stopped one is dropped. What it has spawned is not,
    /// but none of its requests will be sent or answered.
    pub async fn run<F: Future>(&self, caller: F) -> Ran<F::Output> {
        let mut crashed = self.shared.crashed.subscribe();
        let stopped = pin!(crashed.wait_for(|crashed| *crashed));
        let ended = match select(stopped, pin!(caller)).await {
            Either::Left(_) => None,
            Either::Right((output, _)) => Some(output),
        };
        // One that ends with the answer after which it was to stop has not told anybody.
        match ended.filter(|_| !*self.shared.crashed.borrow()) {
            Some(output) => Ran::Finished(output),
            None => Ran::Crashed,
        }
    }

    /// What has passed so far.
    #[must_use]
    pub fn trace(&self) -> Vec<Entry> {
        self.state().trace.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the request its index, and says what is to be done to it.
    fn enter(&self, request: &Request<Bytes>, what: &Attributes) -> (usize, Vec<Fault>) {
        let mut state = self.state();
        let at = state.trace.len();
        let call = u64::try_from(at).unwrap_or(u64::MAX);
        let faults = self
            .shared
            .plan
            .rules
            .iter()
            .enumerate()
            .filter(|(rule, entry)| match &entry.when {
                When::Call(wanted) => *wanted == call,
                When::Matches(matches) => {
                    matches.looks_like(what)
                        && state.matched.get_mut(*rule).is_some_and(|matched| {
                            let index = *matched;
                            *matched += 1;
                            matches.nth.is_none_or(|nth| nth == index)
                        })
                }
            })
            .map(|(_, rule)| rule.fault.clone())
            .collect();
        let entry = Entry::of(call, request.method(), request.uri(), what, request.body());
        state.trace.push(entry);
        (at, faults)
    }

    fn note(&self, at: usize, fault: &Fault, missed: Option<String>) {
        if let Some(entry) = self.state().trace.get_mut(at) {
            let fault = fault.clone();
            entry.faults.push(Done { fault, missed });
        }
    }

    fn answered(&self, at: usize, status: http::StatusCode) {
        if let Some(entry) = self.state().trace.get_mut(at) {
            entry.status = Some(status.as_u16());
        }
    }

    /// Stops the caller; nothing of what it waits for ever comes.
    async fn crash(&self) -> ! {
        self.shared.crashed.send_replace(true);
        futures::future::pending().await
    }

    /// What this caller was told earlier of the same question.
    fn earlier(&self, uri: &str, now: &Response<Bytes>, back: u32) -> Option<Response<Bytes>> {
        let state = self.state();
        let mut before = now.body();
        let mut left = back;
        for (_, answer) in state.answers.iter().rev().filter(|(known, _)| known == uri) {
            if answer.body() != before {
                before = answer.body();
                left -= 1;
            }
            if left == 0 {
                return Some(answer.clone());
            }
        }
        None
    }
}

impl<S> Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Faulty {
            inner,
            faults: self.clone(),
        }
    }
}

impl<S, B, R> Service<Request<B>> for Faulty<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The inner service is waited for when it is known whether it is asked at all.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (faults, inner) = (self.faults.clone(), self.inner.clone());
        let others = faults
            .others
            .clone()
            .unwrap_or_else(|| sender::<S, B, R>(self.inner.clone()));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            let _turn = match &faults.turns {
                Some((turns, caller)) => Some(turns.take(*caller).await),
                None => None,
            };
            if *faults.shared.crashed.borrow() {
                return futures::future::pending().await;
            }
            let send =
                |request: Request<Bytes>| inner.oneshot(request.map(B::from)).map(|sent| sent.map_err(Into::into));
            faults.pass(Request::from_parts(parts, body), &others, send).await
        }
        .boxed()
    }
}

impl Faults {
    /// One request through all that is to be done to it.
    async fn pass<R, F>(
        &self,
        mut request: Request<Bytes>,
        others: &Sender,
        send: impl FnOnce(Request<Bytes>) -> F,
    ) -> Result<Response<AnswerBody>, BoxError>
    where
        F: Future<Output = Result<Response<R>, BoxError>>,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let what = Call::new(
            User::default(),
            request.method().clone(),
            request.uri(),
            &http::HeaderMap::new(),
            Bytes::new(),
        )
        .attributes();
        let (at, planned) = self.enter(&request, &what);
        let (uri, body) = (request.uri().clone(), request.body().clone());
        let scene = Scene {
            what: &what,
            uri: &uri,
            body: &body,
        };
        let mut back = None;
        for fault in &planned {
            match fault {
                Fault::Crash { at: Stop::BeforeSent } => {
                    self.note(at, fault, None);
                    self.crash().await;
                }
                Fault::ThirdParty {
                    moment: Moment::Before,
                    write,
                } => {
                    let done = others::write(others, &scene, write).await;
                    self.note(at, fault, done.err());
                }
                Fault::Replaced { what } => {
                    let done = others::replace(others, &scene, *what).await;
                    self.note(at, fault, done.err());
                }
                Fault::Hang { commit: Moment::Before } => {
                    self.note(at, fault, None);
                    return futures::future::pending().await;
                }
                Fault::Error {
                    error,
                    commit: Moment::Before,
                } => {
                    self.note(at, fault, None);
                    return self.refuse(at, *error, &what);
                }
                Fault::PageExpired => {
                    let continues = self.state().trace.get(at).is_some_and(Entry::continues);
                    self.note(
                        at,
                        fault,
                        (!continues).then(|| "the request is for no later page".to_owned()),
                    );
                    if continues {
                        return self.refuse(at, ApiError::Expired, &what);
                    }
                }
                Fault::Stale { back: wanted } if what.verb == "get" || what.verb == "list" => {
                    back = Some((fault, *wanted));
                    request.extensions_mut().insert(Earlier(*wanted));
                }
                Fault::Stale { .. } => self.note(at, fault, Some("the request is no read".to_owned())),
                _ => {}
            }
        }
        let mut response = self.remember(send(request).await?, &uri, &what).await?;
        if let Some((fault, back)) = back {
            let mut missed = None;
            if response.extensions().get::<Earlier>().is_none() {
                match self.earlier_of(&uri, response, back).await? {
                    Ok(earlier) => response = earlier,
                    Err(now) => {
                        response = now;
                        missed = Some("there is no such earlier version".to_owned());
                    }
                }
            }
            self.note(at, fault, missed);
        }
        self.after(at, &planned, response, others, &scene).await
    }

    /// What happens when the server has done what it was asked for.
    async fn after(
        &self,
        at: usize,
        planned: &[Fault],
        mut response: Response<AnswerBody>,
        others: &Sender,
        scene: &Scene<'_>,
    ) -> Result<Response<AnswerBody>, BoxError> {
        let mut watch: Vec<WatchFault> = Vec::new();
        for fault in planned {
            match fault {
                Fault::Crash { at: Stop::AfterCommit } => {
                    self.note(at, fault, None);
                    self.crash().await;
                }
                Fault::ThirdParty {
                    moment: Moment::After,
                    write,
                } => {
                    let done = others::write(others, scene, write).await;
                    self.note(at, fault, done.err());
                }
                Fault::Hang { commit: Moment::After } => {
                    self.note(at, fault, None);
                    return futures::future::pending().await;
                }
                Fault::Error {
                    error,
                    commit: Moment::After,
                } => {
                    self.note(at, fault, None);
                    return self.refuse(at, *error, scene.what);
                }
                Fault::Slow { .. } => {
                    self.note(at, fault, None);
                    tokio::time::sleep(fault.delay().unwrap_or_default()).await;
                }
                Fault::CutAnswer if scene.what.verb != "watch" => {
                    self.note(at, fault, None);
                    response = cut(response).await?;
                }
                Fault::CutAnswer => self.note(at, fault, Some("a watch is cut by its events".to_owned())),
                Fault::Watch { fault: what } if scene.what.verb == "watch" => {
                    self.note(at, fault, None);
                    watch.push(*what);
                }
                Fault::Watch { .. } => self.note(at, fault, Some("the request is no watch".to_owned())),
                _ => {}
            }
        }
        if !watch.is_empty() {
            response = response.map(|body| {
                let pieces = tamper(body, watch);
                BodyExt::boxed_unsync(StreamBody::new(futures::StreamExt::map(Box::pin(pieces), |piece| {
                    piece.map(Frame::data)
                })))
            });
        }
        self.answered(at, response.status());
        let stops = Fault::Crash { at: Stop::AfterReply };
        if planned.contains(&stops) {
            self.note(at, &stops, None);
            self.shared.crashed.send_replace(true);
        }
        Ok(response)
    }

    fn refuse(&self, at: usize, error: ApiError, what: &Attributes) -> Result<Response<AnswerBody>, BoxError> {
        let answer = error.answer(what)?;
        self.answered(at, answer.status());
        Ok(answer.map(whole))
    }

    /// Keeps the answers to reads, if a later one may be answered by them.
    async fn remember<R>(
        &self,
        response: Response<R>,
        uri: &http::Uri,
        what: &Attributes,
    ) -> Result<Response<AnswerBody>, BoxError>
    where
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let rules = &self.shared.plan.rules;
        let wanted = rules.iter().any(|rule| matches!(rule.fault, Fault::Stale { .. }));
        if !wanted || !matches!(what.verb.as_str(), "get" | "list") || !response.status().is_success() {
            return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
        }
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(Into::into)?.to_bytes();
        let response = Response::from_parts(parts, body);
        if response.extensions().get::<Earlier>().is_none() {
            self.state().answers.push((uri.to_string(), response.clone()));
        }
        Ok(response.map(whole))
    }

    /// An earlier answer to the same question, or the one there is now.
    async fn earlier_of(
        &self,
        uri: &http::Uri,
        now: Response<AnswerBody>,
        back: u32,
    ) -> Result<Result<Response<AnswerBody>, Response<AnswerBody>>, BoxError> {
        let (parts, body) = now.into_parts();
        let now = Response::from_parts(parts, body.collect().await?.to_bytes());
        Ok(match self.earlier(&uri.to_string(), &now, back) {
            Some(earlier) => Ok(earlier.map(whole)),
            None => Err(now.map(whole)),
        })
    }
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The first half of an answer, and then the end of the connection.
async fn cut(response: Response<AnswerBody>) -> Result<Response<AnswerBody>, BoxError> {
    let (parts, body) = response.into_parts();
    let whole = body.collect().await?.to_bytes();
    let half = whole.slice(..whole.len() / 2);
    let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was cut within an answer");
    let pieces = [Ok(Frame::data(half)), Err(error.into())];
    let body = BodyExt::boxed_unsync(StreamBody::new(futures::stream::iter(pieces)));
    Ok(Response::from_parts(parts, body))
}

/// Sends requests of others by the caller's own client.
fn sender<S, B, R>(service: S) -> Sender
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: From<Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let service = Mutex::new(service);
    Arc::new(move |request| {
        let service = service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        async move {
            let response = service.oneshot(request.map(B::from)).await.map_err(Into::into)?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            Ok(Response::from_parts(parts, body))
        }
        .boxed()
    })
}
