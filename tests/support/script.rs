//! A worker whose every answer a test decides, and that records every request.
//!
//! One [`Script`] serves all pods of a Deployment. Its rule sees each request and says how it is answered. Without an
//! inventory it is the smallest worker there is; with [`Inventory::Kept`] it keeps a journal in memory as a full worker
//! does: the same attempt again is answered 409 while it runs and from the journal afterwards. Work goes on when the
//! connection is closed, and ends only with the pod.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ax::worker::wire;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::wait;

/// One request, as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// When its body had been read.
    pub at: Instant,
    /// Wall clock of the same moment.
    pub wall: jiff::Timestamp,
    /// Pod that got it, and that pod's own uid.
    pub pod: String,
    pub pod_uid: String,
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether the rule was asked. False: answered from the journal, or 409 because it runs already.
    pub asked: bool,
    /// Status that the rule chose; `None` if it chose none (never, close) or was not asked.
    pub status: Option<u16>,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap_or("not text")).unwrap_or_default()
    }

    /// Name of the task.
    pub fn task(&self) -> &str {
        self.header(wire::CE_SOURCE).rsplit('/').next().unwrap_or_default()
    }

    pub fn execution(&self) -> &str {
        self.header(wire::CE_ID)
    }

    pub fn topic(&self) -> &str {
        self.header(wire::CE_SUBJECT)
    }

    pub fn attempt(&self) -> i32 {
        self.header(wire::CE_ATTEMPT).parse().unwrap_or_else(|_| panic!("no attempt number in {:?}", self.headers))
    }

    pub fn term(&self) -> u64 {
        self.header(wire::CE_TERM).parse().unwrap_or_else(|_| panic!("no term in {:?}", self.headers))
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Whether the work began: not answered from the journal, and not refused.
    pub fn is_start(&self) -> bool {
        self.asked && !self.status.is_some_and(|status| matches!(status, 409 | 412 | 421 | 429 | 503))
    }
}

/// How a request is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    how: How,
    after: Duration,
    gate: Option<Gate>,
}

#[derive(Debug, Clone)]
enum How {
    Answer { status: u16, headers: Vec<(String, String)>, body: String },
    Never,
    Close,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self {
            how: How::Answer { status, headers: Vec::new(), body: String::new() },
            after: Duration::ZERO,
            gate: None,
        }
    }

    pub fn ok() -> Self {
        Self::status(200).json(json!({"ok": true}))
    }

    /// The request is read and never answered; the connection stays open.
    pub fn never() -> Self {
        Self { how: How::Never, after: Duration::ZERO, gate: None }
    }

    /// The request is read, then the connection is closed without an answer.
    pub fn close() -> Self {
        Self { how: How::Close, after: Duration::ZERO, gate: None }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let How::Answer { headers, .. } = &mut self.how {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub fn text(mut self, text: &str) -> Self {
        if let How::Answer { body, .. } = &mut self.how {
            *body = text.to_owned();
        }
        self
    }

    pub fn json(self, value: Value) -> Self {
        self.text(&value.to_string()).header("content-type", "application/json")
    }

    /// The work takes this long.
    pub fn after(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }

    /// The work takes until the gate is opened.
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    fn chosen(&self) -> Option<u16> {
        match &self.how {
            How::Answer { status, .. } => Some(*status),
            How::Never | How::Close => None,
        }
    }
}

/// Holds answers back until a test opens it.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// What `GET /ax/v1/executions` answers.
#[derive(Debug, Clone, Default)]
pub enum Inventory {
    /// 404: a worker that keeps none.
    #[default]
    None,
    /// What runs and has run here; with it comes the journal.
    Kept,
    /// As `Kept`, answered after this long.
    Slow(Duration),
    /// These entries, whatever runs.
    Given(wire::Inventory),
}

type Rule = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// The worker of all pods of a Deployment. Cheap to clone.
#[derive(Clone)]
pub struct Script(Arc<Inner>);

struct Inner {
    rule: Rule,
    inventory: Inventory,
    record: Mutex<Vec<Request>>,
    questions: Mutex<Vec<Request>>,
    arrived: watch::Sender<usize>,
    pods: Mutex<HashMap<String, PodState>>,
}

#[derive(Default)]
struct PodState {
    running: usize,
    peak: usize,
    journal: HashMap<String, Entry>,
}

#[derive(Clone)]
struct Entry {
    attempt: i32,
    /// `None`: at work.
    answer: Option<Reply>,
}

impl Script {
    pub fn new(rule: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::with_inventory(Inventory::None, rule)
    }

    pub fn with_inventory(inventory: Inventory, rule: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            rule: Box::new(rule),
            inventory,
            record: Mutex::default(),
            questions: Mutex::default(),
            arrived: watch::Sender::new(0),
            pods: Mutex::default(),
        }))
    }

    /// Every request to run something, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.0.record.lock().expect("no panic while held").clone()
    }

    pub fn requests_of(&self, task: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.task() == task).collect()
    }

    /// Requests that began work.
    pub fn starts_of(&self, task: &str) -> Vec<Request> {
        self.requests_of(task).into_iter().filter(Request::is_start).collect()
    }

    /// Every inventory question.
    pub fn questions(&self) -> Vec<Request> {
        self.0.questions.lock().expect("no panic while held").clone()
    }

    /// Waits until `count` requests have arrived; returns them all.
    pub async fn wait_requests(&self, count: usize, limit: Duration) -> Vec<Request> {
        let mut arrived = self.0.arrived.subscribe();
        let waited = tokio::time::timeout(limit, arrived.wait_for(|n| *n >= count)).await;
        let requests = self.requests();
        if waited.is_err() {
            let seen: Vec<String> =
                requests.iter().map(|r| format!("{} #{}", r.task(), r.header("ce-axattempt"))).collect();
            panic!("waited {limit:?} for {count} requests; {} came: {seen:?}", requests.len());
        }
        requests
    }

    /// Waits for the request number `nth` (from 1) of a task.
    pub async fn wait_request(&self, task: &str, nth: usize, limit: Duration) -> Request {
        wait::eventually(format!("request {nth} of task {task}"), limit, || async {
            let requests = self.requests_of(task);
            requests.get(nth - 1).cloned().ok_or_else(|| format!("{} requests", requests.len()))
        })
        .await
    }

    /// Most executions at work at once in one pod.
    pub fn peak(&self) -> usize {
        self.0.pods.lock().expect("no panic while held").values().map(|pod| pod.peak).max().unwrap_or(0)
    }

    /// Executions at work now in the pod with this uid.
    pub fn running_in(&self, uid: &str) -> usize {
        self.0.pods.lock().expect("no panic while held").get(uid).map_or(0, |pod| pod.running)
    }

    /// Executions at work now, in all pods.
    pub fn running(&self) -> usize {
        self.0.pods.lock().expect("no panic while held").values().map(|pod| pod.running).sum()
    }

    /// Serves one pod until `stop`; then its work and connections are cut off.
    pub(super) async fn serve(self, pod: String, uid: String, address: SocketAddr, stop: CancellationToken) {
        let listener = TcpListener::bind(address).await.unwrap_or_else(|e| panic!("failed to bind {address}: {e}"));
        loop {
            let stream = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(_) => continue,
                },
            };
            let at = At { script: self.clone(), pod: pod.clone(), uid: uid.clone(), stop: stop.clone() };
            tokio::spawn(at.connection(stream));
        }
        if let Some(state) = self.0.pods.lock().expect("no panic while held").get_mut(&uid) {
            // Nothing outlives the process; the journal would, were it on a disk.
            state.journal.retain(|_, entry| entry.answer.is_some());
            state.running = 0;
        }
    }

    fn with_pod<T>(&self, uid: &str, act: impl FnOnce(&mut PodState) -> T) -> T {
        act(self.0.pods.lock().expect("no panic while held").entry(uid.to_owned()).or_default())
    }

    fn keeps_journal(&self) -> bool {
        matches!(self.0.inventory, Inventory::Kept | Inventory::Slow(_))
    }
}

/// The script at one pod.
#[derive(Clone)]
struct At {
    script: Script,
    pod: String,
    uid: String,
    stop: CancellationToken,
}

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("closed on purpose")]
struct Closed;

impl At {
    async fn connection(self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let stop = self.stop.clone();
        let service = service_fn(move |request| {
            let at = self.clone();
            async move { at.request(request).await }
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            _ = connection => {}
            () = stop.cancelled() => {}
        }
    }

    async fn request(&self, request: hyper::Request<Incoming>) -> Result<Response<Full<Bytes>>, Closed> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
        let mut seen = Request {
            at: Instant::now(),
            wall: jiff::Timestamp::now(),
            pod: self.pod.clone(),
            pod_uid: self.uid.clone(),
            method: head.method,
            path: head.uri.path().to_owned(),
            headers: head.headers,
            body,
            asked: false,
            status: None,
        };
        if seen.method == Method::GET && seen.path == wire::INVENTORY_PATH {
            self.script.0.questions.lock().expect("no panic while held").push(seen);
            return self.inventory().await;
        }
        if let Some(reply) = self.journaled(&seen) {
            self.record(seen);
            return answer(reply);
        }
        let reply = (self.script.0.rule)(&seen);
        seen.asked = true;
        seen.status = reply.chosen();
        let work =
            self.clone().work(seen.execution().to_owned(), seen.header(wire::CE_ATTEMPT).parse().unwrap_or(0), reply);
        // Begun before it is seen, and apart from the connection: a closed connection is no cancel.
        let work = tokio::spawn(work);
        self.record(seen);
        answer(work.await.map_err(|_| Closed)?.ok_or(Closed)?)
    }

    fn record(&self, request: Request) {
        let mut record = self.script.0.record.lock().expect("no panic while held");
        record.push(request);
        self.script.0.arrived.send_replace(record.len());
    }

    /// The dedup rule of a full worker.
    fn journaled(&self, request: &Request) -> Option<Reply> {
        if !self.script.keeps_journal() {
            return None;
        }
        self.script.with_pod(&self.uid, |pod| {
            let entry = pod.journal.get(request.execution())?;
            let Some(answer) = &entry.answer else { return Some(Reply::status(409)) };
            let success = answer.chosen().is_some_and(|status| (200..300).contains(&status));
            let lower = request.header(wire::CE_ATTEMPT).parse::<i32>().unwrap_or(0) <= entry.attempt;
            (success || lower).then(|| answer.clone())
        })
    }

    /// Runs for as long as the reply says. `None`: the pod ended meanwhile.
    async fn work(self, execution: String, attempt: i32, reply: Reply) -> Option<Reply> {
        let begins = !matches!(reply.chosen(), Some(409 | 412 | 421 | 429 | 503));
        if begins {
            self.script.with_pod(&self.uid, |pod| {
                pod.running += 1;
                pod.peak = pod.peak.max(pod.running);
                pod.journal.insert(execution.clone(), Entry { attempt, answer: None });
            });
        }
        let duration = async {
            tokio::time::sleep(reply.after).await;
            if let Some(gate) = &reply.gate {
                gate.wait().await;
            }
            if matches!(reply.how, How::Never) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => return None,
            () = duration => {}
        }
        if begins {
            self.script.with_pod(&self.uid, |pod| {
                pod.running = pod.running.saturating_sub(1);
                pod.journal.insert(execution, Entry { attempt, answer: Some(reply.clone()) });
            });
        }
        Some(reply)
    }

    async fn inventory(&self) -> Result<Response<Full<Bytes>>, Closed> {
        let kept = || {
            let executions = self.script.with_pod(&self.uid, |pod| {
                pod.journal
                    .iter()
                    .map(|(id, entry)| wire::InventoryEntry {
                        id: id.clone(),
                        attempt: u32::try_from(entry.attempt).unwrap_or(0),
                        state: match entry.answer {
                            Some(_) => wire::InventoryState::Finished,
                            None => wire::InventoryState::Running,
                        },
                    })
                    .collect()
            });
            wire::Inventory { executions }
        };
        let inventory = match &self.script.0.inventory {
            Inventory::None => return answer(Reply::status(404)),
            Inventory::Kept => kept(),
            Inventory::Slow(after) => {
                tokio::time::sleep(*after).await;
                kept()
            }
            Inventory::Given(inventory) => inventory.clone(),
        };
        answer(Reply::status(200).json(serde_json::to_value(inventory).expect("JSON")))
    }
}

fn answer(reply: Reply) -> Result<Response<Full<Bytes>>, Closed> {
    let How::Answer { status, headers, body } = reply.how else { return Err(Closed) };
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(body))).expect("a response"))
}

/// Whether `ip` is free on this machine for `port`.
pub(super) fn is_free(ip: IpAddr, port: u16) -> bool {
    std::net::TcpListener::bind((ip, port)).is_ok()
}
