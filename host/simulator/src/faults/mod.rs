//! Everything that can go wrong between a caller and an API server, put there on purpose: one layer around a client.
//!
//! [`Faults`] is a [`tower::Layer`] around anything that answers requests: a [`crate::Simulator`], or the service a real
//! client is made of. It counts the requests that pass, does to each what its [`Plan`] says, and writes down what it did; the
//! trace is a plan again ([`Plan::of`]), so that a run can be repeated. Nothing here sleeps in real time unless the
//! runtime does: with tokio's time paused, an hour costs nothing.
//!
//! Whoever calls is run by [`Faults::run`], which can stop it for good at any request ([`Fault::Crash`]): its future is
//! dropped, whatever it left running is never answered again, and the world stays as it is at that moment.
//!
//! ```
//! use bytes::Bytes;
//! use chandlery_simulator::faults::{Fault, Faults, Plan, Ran, Stop};
//! use chandlery_simulator::{Settings, Simulator};
//! use http::Request;
//! use http_body_util::Full;
//! use tower::{Layer, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let simulator = Simulator::new(Settings::default());
//! let create = || {
//!     Request::post("/api/v1/namespaces/default/configmaps")
//!         .header("content-type", "application/json")
//!         .body(Full::new(Bytes::from_static(br#"{"metadata": {"name": "a"}}"#)))
//!         .unwrap()
//! };
//! // The caller's first request reaches the server, and then the caller is no more.
//! let faults = Faults::new(Plan::at(0, Fault::Crash { at: Stop::AfterCommit }));
//! let client = faults.layer(simulator.clone());
//! let ran = faults.run(async move { client.oneshot(create()).await.unwrap().status() }).await;
//! assert!(matches!(ran, Ran::Crashed));
//! // The next one finds what it left.
//! let faults = Faults::new(Plan::default());
//! let client = faults.layer(simulator);
//! assert_eq!(client.oneshot(create()).await.unwrap().status(), 409);
//! assert_eq!(faults.trace().len(), 1);
//! # }
//! ```
//!
//! With kube it is `kube::Client::new(faults.layer(simulator), "default")`. A `kube::Client` of a real cluster is wrapped by a
//! function that sends: `faults.layer(tower::service_fn(move |request| { let client = client.clone(); async move {
//! client.send(request).await } }))`.

mod error;
mod events;
mod layer;
mod others;
mod plan;
mod trace;
mod turns;

pub use error::ApiError;
pub use layer::{AnswerBody, Faults, Faulty, Ran};
pub use others::{Replacement, Write};
pub use plan::{Fault, Matches, Moment, Plan, Rule, Stop, WatchFault, When};
pub use trace::{Done, Entry, TraceError, lines, read_lines};
pub use turns::Turns;
