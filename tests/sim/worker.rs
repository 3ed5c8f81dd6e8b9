//! Simulated workers: full ones, as `docs/worker-protocol.md` says (journal, inventory, 409, 412, 421, 429), whose
//! handler is a rule of the test. They are reached by address through [`Network`], over HTTP/1.1 as in earnest.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ax::ops::clock::Clock;
use ax::worker::client::Dial;
use ax::worker::wire;
use http::{HeaderMap, Method, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::json;
use tokio::io::DuplexStream;
use tokio::sync::watch;

use crate::api::link::{Line, State};

/// What a worker was asked to run.
#[derive(Debug, Clone)]
pub struct Start {
    /// Since the simulation began.
    pub at: Duration,
    pub wall: Timestamp,
    pub task: String,
    pub execution: String,
    pub attempt: u32,
    pub term: u64,
    pub pod: String,
    pub topic: String,
    pub payload: Bytes,
    pub headers: HeaderMap,
}

/// What it answers, and how long it works before.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    body: String,
    headers: Vec<(&'static str, String)>,
    after: Duration,
}

impl Answer {
    pub fn ok() -> Self {
        Self::status(200)
    }

    pub fn status(status: u16) -> Self {
        Self { status, body: String::new(), headers: Vec::new(), after: Duration::ZERO }
    }

    /// After so long: `Answer::ok().after("20s")`.
    pub fn after(mut self, span: &str) -> Self {
        self.after = crate::stage::span(span);
        self
    }

    pub fn body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// A test's rule: what to answer to this start.
pub type Rule = Arc<dyn Fn(&Start) -> Answer + Send + Sync>;

/// Every pod by its address.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    pods: Mutex<BTreeMap<IpAddr, Arc<Pod>>>,
    starts: Mutex<Vec<Start>>,
    clock: Clock,
}

/// One pod's worker.
pub struct Pod {
    pub name: String,
    pub uid: String,
    capacity: usize,
    rule: Rule,
    journal: Mutex<Journal>,
    /// Cut when its container dies; what ran then is gone.
    life: Line,
}

#[derive(Default)]
struct Journal {
    executions: BTreeMap<String, Entry>,
    highest_term: u64,
}

struct Entry {
    attempt: u32,
    /// `None` while it runs.
    answer: watch::Receiver<Option<Answer>>,
    ended: Option<Duration>,
}

impl Network {
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Shared { pods: Mutex::default(), starts: Mutex::default(), clock }))
    }

    pub fn starts(&self) -> MutexGuard<'_, Vec<Start>> {
        self.0.starts.lock().expect("the starts")
    }

    pub fn add(&self, ip: IpAddr, name: &str, uid: &str, capacity: usize, rule: Rule) {
        let (name, uid) = (name.to_owned(), uid.to_owned());
        let pod = Pod { name, uid, capacity, rule, journal: Mutex::default(), life: Line::up() };
        self.pods().insert(ip, Arc::new(pod));
    }

    /// The pod's process dies and nothing listens any more; `false` if there is none.
    pub fn kill(&self, name: &str) -> bool {
        let mut pods = self.pods();
        let Some(ip) = pods.iter().find(|(_, pod)| pod.name == name).map(|(ip, _)| *ip) else { return false };
        if let Some(pod) = pods.remove(&ip) {
            pod.life.set(State::Cut);
        }
        true
    }

    /// How a machine at the end of `line` reaches pods.
    pub fn dial(&self, line: Line) -> Dial {
        let network = self.clone();
        Dial::By(Arc::new(move |address| network.connect(address, &line)))
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Arc<Pod>>> {
        self.0.pods.lock().expect("the pods")
    }

    fn connect(&self, address: SocketAddr, line: &Line) -> io::Result<DuplexStream> {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let pod = self.pods().get(&address.ip()).cloned().ok_or_else(refused)?;
        if line.state() == State::Cut {
            return Err(refused());
        }
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (network, line) = (self.clone(), line.clone());
        tokio::spawn(async move {
            let served = pod.clone();
            let answer = service_fn(move |request| {
                let (network, pod) = (network.clone(), served.clone());
                async move { Ok::<_, Infallible>(network.answer(&pod, request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), answer);
            let connection = std::pin::pin!(connection);
            let served = std::pin::pin!(async {
                _ = connection.await;
            });
            let mut audible = std::pin::pin!(while_up(line.clone(), served));
            tokio::select! {
                biased;
                _ = pod.life.cut() => {}
                _ = line.cut() => {}
                () = &mut audible => {}
            }
        });
        Ok(near)
    }

    /// In the order that the protocol sets: 421, 412, the dedup rule, 429.
    async fn answer(&self, pod: &Arc<Pod>, request: http::Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let text = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        if text(wire::POD_UID) != pod.uid {
            return plain(421, String::new());
        }
        let inventory = head.method == Method::GET && head.uri.path() == wire::INVENTORY_PATH;
        let term: u64 = text(if inventory { wire::TERM } else { wire::CE_TERM }).parse().unwrap_or(0);
        {
            let mut journal = pod.journal.lock().expect("a journal");
            if term < journal.highest_term {
                let mut refusal = plain(412, String::new());
                refusal.headers_mut().insert(wire::TERM, journal.highest_term.into());
                return refusal;
            }
            journal.highest_term = term;
        }
        if inventory {
            return plain(200, self.inventory(pod));
        }
        let payload = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let start = Start {
            at: self.0.clock.mono(),
            wall: self.0.clock.now().wall,
            task: text(wire::CE_SOURCE).rsplit('/').next().unwrap_or_default().to_owned(),
            execution: text(wire::CE_ID),
            attempt: text(wire::CE_ATTEMPT).parse().unwrap_or(0),
            term,
            pod: pod.name.clone(),
            topic: text(wire::CE_SUBJECT),
            payload,
            headers: head.headers,
        };
        let mut answer = match self.admit(pod, start) {
            Ok(answer) => answer,
            Err(status) => return plain(status, String::new()),
        };
        let answered = answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        match answered {
            Some(answer) => respond(&answer),
            None => std::future::pending().await, // the container died: the connection is cut
        }
    }

    fn inventory(&self, pod: &Pod) -> String {
        let now = self.0.clock.mono();
        let journal = pod.journal.lock().expect("a journal");
        let recent = |entry: &&Entry| entry.ended.is_none_or(|ended| now < ended + Duration::from_secs(600));
        let entries = journal.executions.iter().filter(|(_, entry)| recent(entry)).map(|(id, entry)| {
            let state = if entry.ended.is_some() { "Finished" } else { "Running" };
            json!({"id": id, "attempt": entry.attempt, "state": state})
        });
        json!({"executions": entries.collect::<Vec<_>>()}).to_string()
    }

    /// The work, begun now or before; or the status of a refusal.
    fn admit(&self, pod: &Arc<Pod>, start: Start) -> Result<watch::Receiver<Option<Answer>>, u16> {
        let mut journal = pod.journal.lock().expect("a journal");
        if let Some(entry) = journal.executions.get(&start.execution) {
            let answer = entry.answer.borrow().clone();
            match answer {
                None => return Err(409),
                Some(answer) if answer.status < 300 || start.attempt <= entry.attempt => {
                    return Ok(entry.answer.clone());
                }
                Some(_) => {}
            }
        }
        let running = journal.executions.values().filter(|entry| entry.ended.is_none()).count();
        if running >= pod.capacity {
            return Err(429);
        }
        let answer = (pod.rule)(&start);
        let (tell, told) = watch::channel(None);
        let execution = start.execution.clone();
        let entry = Entry { attempt: start.attempt, answer: told.clone(), ended: None };
        journal.executions.insert(execution.clone(), entry);
        self.starts().push(start);
        let (network, pod) = (self.clone(), pod.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = pod.life.cut() => return,
                () = tokio::time::sleep(answer.after) => {}
            }
            if let Some(entry) = pod.journal.lock().expect("a journal").executions.get_mut(&execution) {
                entry.ended = Some(network.0.clock.mono());
            }
            tell.send_replace(Some(answer));
        });
        Ok(told)
    }
}

/// Goes on with `work` only while the line is not silent.
async fn while_up(line: Line, mut work: impl Future<Output = ()> + Unpin) {
    std::future::poll_fn(|context| {
        if line.state() == State::Silent {
            return std::task::Poll::Pending; // the line's end is awaited beside this
        }
        std::pin::Pin::new(&mut work).poll(context)
    })
    .await;
}

fn plain(status: u16, body: String) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(Bytes::from(body))).expect("a response")
}

fn respond(answer: &Answer) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    response.body(Full::new(Bytes::from(answer.body.clone()))).expect("a response")
}
