//! `/healthz` and `/readyz`. IO.
//!
//! Liveness asks only this process, never the API server: an outage there must not restart anyone. Ready means the
//! caches are complete, never "leader": a rollout of standbys would hang.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tracing::debug;

const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// What the probes are told.
pub trait Probes: Clone + Send + Sync + 'static {
    /// Whether this process does its work.
    fn live(&self) -> bool;
    /// Whether it could lead at once.
    fn ready(&self) -> bool;
}

/// Answers probes until the process ends.
///
/// # Errors
/// If the address cannot be bound.
pub async fn serve(addr: SocketAddr, probes: impl Probes) -> std::io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!(%error, "probe connection not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let probes = probes.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(request.uri().path(), &probes);
                async move { Ok::<_, Infallible>(answer) }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            if let Err(error) = served {
                debug!(%error, "probe connection ended");
            }
        });
    }
}

fn answer(path: &str, probes: &impl Probes) -> Response<Full<Bytes>> {
    let (status, text) = match path {
        "/healthz" if probes.live() => (200, "ok\n"),
        "/healthz" => (503, "the leader loop does not turn\n"),
        "/readyz" if probes.ready() => (200, "ok\n"),
        "/readyz" => (503, "not all watches have delivered their first list\n"),
        _ => (404, "try /healthz or /readyz\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response
}
