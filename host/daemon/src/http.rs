//! Probes and metrics over HTTP: `/livez`, `/readyz`, `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// What probes tell.
#[derive(Default)]
pub(crate) struct Health {
    /// The hub was reached, and this process leads with its caches filled, or stands by.
    pub(crate) ready: AtomicBool,
}

/// Serves until `end`.
pub(crate) async fn serve(
    listener: tokio::net::TcpListener,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    end: CancellationToken,
) -> std::io::Result<()> {
    let ready = move || async move {
        if health.ready.load(Ordering::SeqCst) {
            (StatusCode::OK, "ok\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "the hub has not been reached yet\n")
        }
    };
    let app = Router::new()
        // That it answers is that it lives: a stuck controller ends the process.
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(move || async move { metrics.text() }));
    axum::serve(listener, app)
        .with_graceful_shutdown(async move { end.cancelled().await })
        .await
}

/// Binds before anything else starts, so that a port in use is told at once.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::bind(address).await
}
