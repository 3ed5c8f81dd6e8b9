//! Paths, methods and bodies; what each request is answered.
//!
//! IO: reads the request's body, and waits for the execution that it starts. Every answer says how much room there
//! is, counted at that moment.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderName};
use http::{HeaderValue, Method, Request as HttpRequest, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};

use super::admit::{self, Admission, Refusal, Seen};
use super::answer::{Answer, Reply};
use super::request::{self, Request};
use super::{Delivery, Worker, connection, execution};
use crate::worker::wire;

/// A body must be here within this long.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// So much of a body that is too large is read and dropped, for its sender to get to read the 413.
const BODY_DRAINED: usize = 4 * wire::MAX_PAYLOAD;

/// Answers one request.
pub async fn answer(worker: Arc<Worker>, request: HttpRequest<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let mut delivery = None;
    let reply = match (path, request.method()) {
        ("/healthz", &Method::GET) => Reply::ok(String::new()),
        ("/readyz", &Method::GET) => readiness(&worker),
        (wire::INVENTORY_PATH, &Method::GET) => inventory(&worker, &request),
        ("/healthz" | "/readyz" | wire::INVENTORY_PATH, _) => not_allowed("GET"),
        _ if is_below(path, "/ax") || !is_below(path, &worker.config.path) => {
            Reply::problem(StatusCode::NOT_FOUND, "NotFound", "no task is taken here")
        }
        (_, &Method::POST) => dispatch(&worker, request, &mut delivery).await,
        _ => not_allowed("POST"),
    };
    let mut response = with_room(&worker, reply);
    if let Some(delivery) = delivery {
        response.extensions_mut().insert(delivery);
    }
    response
}

fn readiness(worker: &Worker) -> Reply {
    if worker.is_draining() {
        return Reply::refused(Refusal::Draining);
    }
    Reply::ok(String::new())
}

fn inventory(worker: &Worker, request: &HttpRequest<Incoming>) -> Reply {
    let (pod_uid, term) = match request::asker(request.headers()) {
        Ok(asker) => asker,
        Err(invalid) => return Reply::invalid(&invalid),
    };
    let now = worker.now_ms();
    let own_uid = &worker.config.pod_uid;
    let inventory = {
        let mut state = worker.lock();
        admit::question(own_uid, pod_uid.as_deref(), term, &mut state.terms, unsigned(now))
            .map(|()| state.table.inventory(now))
    };
    match inventory {
        // Names and numbers always serialise.
        Ok(inventory) => Reply::ok(serde_json::to_string(&inventory).unwrap_or_default()),
        Err(refusal) => {
            tracing::debug!(reason = refusal.reason(), term, "inventory refused");
            Reply::refused(refusal)
        }
    }
}

/// What comes of a `POST`; `delivery` is set if that is an attempt's answer.
async fn dispatch(worker: &Arc<Worker>, request: HttpRequest<Incoming>, delivery: &mut Option<Delivery>) -> Reply {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(BODY_TIMEOUT, read(body)).await;
    let payload = match body {
        Ok(Ok(payload)) => payload,
        Ok(Err(reply)) => return reply,
        Err(_) => {
            return Reply::problem(StatusCode::SERVICE_UNAVAILABLE, "BodyTooSlow", "the body did not arrive in time")
                .retry_after(1)
                .closing();
        }
    };
    let request = match Request::parse(&head.headers) {
        Ok(request) => request,
        Err(invalid) => return Reply::invalid(&invalid),
    };
    let of = |attempt| Delivery { worker: Arc::clone(worker), id: request.id.clone(), attempt };
    match admit(worker, &request) {
        Admission::Runs => {
            *delivery = Some(of(request.attempt));
            let answered = execution::start(Arc::clone(worker), request, payload);
            // Fails only if the execution's task panicked.
            answered.await.unwrap_or_else(|_| {
                Reply::problem(StatusCode::INTERNAL_SERVER_ERROR, "Internal", "a fault of the worker")
            })
        }
        Admission::Stored { attempt, status } => {
            tracing::debug!(execution_id = request.id, attempt, "stored answer repeated");
            *delivery = Some(of(attempt));
            stored(worker, &request.id, attempt, status).await
        }
        Admission::Refused(refusal) => {
            tracing::debug!(
                reason = refusal.reason(),
                execution_id = request.id,
                attempt = request.attempt,
                term = request.term,
                "refused"
            );
            Reply::refused(refusal)
        }
    }
}

/// Judges a dispatch, and takes its place if it runs.
fn admit(worker: &Worker, request: &Request) -> Admission {
    let now = worker.now_ms();
    let mut guard = worker.lock();
    let state = &mut *guard;
    let seen = Seen {
        draining: worker.is_draining(),
        pod_uid: &worker.config.pod_uid,
        capacity: worker.config.concurrency,
        running: state.table.running(),
        known: state.table.known(&request.id),
    };
    let admission = admit::dispatch(
        seen,
        request.attempt,
        request.pod_uid.as_deref(),
        request.term,
        &mut state.terms,
        unsigned(now),
    );
    if admission == Admission::Runs {
        worker.journal.forget(state.table.forget(now));
        state.table.begin(&request.id, request.attempt);
        worker.publish(&state.table);
    }
    admission
}

/// The answer of an earlier request. Without a legible one its status still tells how the execution ended.
async fn stored(worker: &Worker, id: &str, attempt: u32, status: u16) -> Reply {
    let answer = match worker.journal.read(id).await {
        Some(record) if record.attempt == attempt => record.answer,
        _ => None,
    };
    answer.unwrap_or(Answer { status, retryable: None, body: String::new() }).into()
}

async fn read(mut body: Incoming) -> Result<Bytes, Reply> {
    let too_large =
        || Reply::problem(StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLarge", "the body has over 256 KiB").closing();
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > BODY_DRAINED {
        return Err(too_large());
    }
    let mut payload = Vec::with_capacity(announced.min(wire::MAX_PAYLOAD));
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Reply::problem(StatusCode::BAD_REQUEST, "BodyCut", "the body breaks off").closing())?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length += data.len();
        if length > BODY_DRAINED {
            break;
        }
        if length <= wire::MAX_PAYLOAD {
            payload.extend_from_slice(&data);
        }
    }
    if length > wire::MAX_PAYLOAD {
        return Err(too_large());
    }
    Ok(payload.into())
}

fn not_allowed(method: &str) -> Reply {
    Reply::problem(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "this path knows another method").allow(method)
}

/// Adds what every answer carries: capacity, room, and how long the connection stays.
fn with_room(worker: &Worker, reply: Reply) -> Response<Full<Bytes>> {
    let draining = worker.is_draining();
    let reply = if draining { reply.closing() } else { reply };
    let mut response = reply.into_response();
    let headers = response.headers_mut();
    for (name, value) in worker.room() {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    if !headers.contains_key(CONNECTION) {
        let seconds = connection::IDLE.as_secs();
        if let Ok(value) = HeaderValue::from_str(&format!("timeout={seconds}")) {
            headers.insert(HeaderName::from_static("keep-alive"), value);
        }
    }
    response
}

impl Worker {
    /// The headers that tell a sender how much it may send. A draining worker has no room, whatever is free.
    pub fn room(&self) -> [(&'static str, String); 2] {
        let capacity = self.config.concurrency;
        let free = if self.is_draining() { 0 } else { capacity.saturating_sub(*self.running.borrow()) };
        [
            (wire::RATE_LIMIT_POLICY, format!("\"ax\";q={capacity};qu=\"concurrent-requests\"")),
            (wire::RATE_LIMIT, format!("\"ax\";r={free}")),
        ]
    }
}

/// Whether `path` is `root` or lies below it.
fn is_below(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A clock before 1970 believes no term.
fn unsigned(millis: i64) -> u64 {
    u64::try_from(millis).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_its_root_by_whole_segments() {
        for (path, root, want) in [
            ("/", "/", true),
            ("/tasks/a", "/", true),
            ("/tasks", "/tasks", true),
            ("/tasks/", "/tasks", true),
            ("/tasks/a", "/tasks/", true),
            ("/tasksabc", "/tasks", false),
            ("/", "/tasks", false),
            ("/ax/v2", "/ax", true),
            ("/axe", "/ax", false),
        ] {
            assert_eq!(is_below(path, root), want, "{path} below {root}");
        }
    }
}
