//! Connections to worker pods, keyed by pod uid. IO.
//!
//! hyper's bare HTTP/1.1 connections, not a pooled client: only so can the leader check its trust right before the
//! first byte, tell "nothing was sent" from "cut after the first byte", and be sure nothing is sent again by itself.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::wire;
use crate::domain::dispatch::Destination;
use crate::ops::clock::Clock;

const CONNECT: Duration = Duration::from_secs(2);
/// Silence in a body after which the rest is given up.
const BODY_SILENCE: Duration = Duration::from_secs(10);
/// An idle connection is kept this long, unless the worker's `Keep-Alive` says longer.
const IDLE: Duration = Duration::from_secs(1);
/// The longest an idle connection is kept, whatever the worker says.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// Idle connections kept a pod.
const MAX_IDLE_PER_POD: usize = 64;
/// Largest response head.
const MAX_HEAD: usize = 16 * 1024;
/// Keepalive while an answer is awaited: 5 s, every 5 s, 3 misses.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_MISSES: u32 = 3;

/// A request, complete but for what depends on the moment of sending.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// `POST` or `GET`.
    pub method: Method,
    /// Path.
    pub path: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// How much of the answer's body is read.
    pub read: usize,
}

/// What came of a request.
#[derive(Debug)]
pub enum Exchange {
    /// The sender was not trusted any more when the connection stood: nothing was sent.
    NotTrusted,
    /// Nothing was sent: no connection, or it closed before the first byte.
    Unsent(String),
    /// The worker answered.
    Answered(Reply),
    /// Cut after the first byte may have gone out.
    Cut(String),
}

/// An answer, as far as it was read.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// At most what was asked for.
    pub body: Vec<u8>,
    /// Whether the body was longer, or broke off.
    pub cut: bool,
}

impl Reply {
    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Connections to pods; clones share them.
#[derive(Debug, Clone)]
pub struct Connections {
    idle: Arc<Mutex<HashMap<Arc<str>, Vec<Idle>>>>,
    dial: Dial,
    clock: Clock,
}

/// How a pod is reached.
#[derive(Clone)]
pub enum Dial {
    /// Over the network.
    Tcp,
    /// By whatever this function returns for the pod's address; for pods that are not on the network.
    By(Arc<dyn Fn(SocketAddr) -> io::Result<DuplexStream> + Send + Sync>),
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "Tcp",
            Self::By(_) => "By",
        })
    }
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<Full<Bytes>>,
    until: Duration,
}

impl Connections {
    /// No connections yet.
    pub fn new(dial: Dial, clock: Clock) -> Self {
        Self { idle: Arc::default(), dial, clock }
    }

    /// Sends a request to a pod and reads the answer, however long it takes; the caller limits the time.
    ///
    /// `trusted` is asked after connecting, right before the first byte; its term goes out as `header`.
    pub async fn exchange(
        &self,
        pod: &Destination,
        outgoing: Outgoing,
        header: &'static str,
        trusted: impl Fn() -> Option<u64> + Send,
    ) -> Exchange {
        loop {
            let (mut sender, reused) = match self.take_idle(&pod.uid) {
                Some(sender) => (sender, true),
                None => match self.connect(pod).await {
                    Ok(sender) => (sender, false),
                    Err(why) => return Exchange::Unsent(why),
                },
            };
            let Some(term) = trusted() else { return Exchange::NotTrusted };
            let request = match request(&outgoing, pod, header, term) {
                Ok(request) => request,
                Err(error) => return Exchange::Unsent(format!("the request cannot be built: {error}")),
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let (reply, whole) = read(response, outgoing.read).await;
                    if whole {
                        self.keep(&pod.uid, sender, &reply);
                    }
                    return Exchange::Answered(reply);
                }
                Err(mut error) => match error.take_message() {
                    // A kept connection was closed meanwhile: a fresh one, nothing has gone out.
                    Some(_) if reused => {}
                    Some(_) => return Exchange::Unsent(error.error().to_string()),
                    None => return Exchange::Cut(error.error().to_string()),
                },
            }
        }
    }

    async fn connect(&self, pod: &Destination) -> Result<SendRequest<Full<Bytes>>, String> {
        match &self.dial {
            Dial::Tcp => speak(tcp(pod.addr).await?).await,
            Dial::By(dial) => speak(dial(pod.addr).map_err(|error| error.to_string())?).await,
        }
    }

    /// Closes the idle connections to a pod.
    pub fn close(&self, pod: &str) {
        self.lock().remove(pod);
    }

    /// Closes what has been idle for too long; to be called now and then.
    pub fn sweep(&self) {
        let now = self.clock.mono();
        self.lock().retain(|_, idle| {
            idle.retain(|c| c.until > now && !c.sender.is_closed());
            !idle.is_empty()
        });
    }

    fn take_idle(&self, pod: &str) -> Option<SendRequest<Full<Bytes>>> {
        let now = self.clock.mono();
        let mut all = self.lock();
        let idle = all.get_mut(pod)?;
        // The one used last: the others grow old and are closed.
        while let Some(Idle { sender, until }) = idle.pop() {
            if until > now && sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, pod: &Arc<str>, sender: SendRequest<Full<Bytes>>, reply: &Reply) {
        let closes = reply.header("connection").is_some_and(|c| c.to_ascii_lowercase().contains("close"));
        if closes || sender.is_closed() {
            return;
        }
        let said = reply.header("keep-alive").and_then(keep_alive_timeout).map(|t| t.saturating_sub(IDLE));
        let until = self.clock.mono() + said.unwrap_or(IDLE).max(IDLE).min(MAX_IDLE);
        let mut all = self.lock();
        let idle = all.entry(pod.clone()).or_default();
        if idle.len() < MAX_IDLE_PER_POD {
            idle.push(Idle { sender, until });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn tcp(addr: SocketAddr) -> Result<TcpStream, String> {
    let stream = timeout(CONNECT, TcpStream::connect(addr))
        .await
        .map_err(|_| "no connection within 2 s".to_owned())?
        .map_err(|error| error.to_string())?;
    let keepalive =
        socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(KEEPALIVE_MISSES);
    // Without keepalive the timeout still ends the wait; no reason to refuse the pod.
    let _: std::io::Result<()> = socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    let _: std::io::Result<()> = stream.set_nodelay(true);
    Ok(stream)
}

async fn speak<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // Its errors reach the one who waits for the answer.
        let _: hyper::Result<()> = connection.await;
    });
    Ok(sender)
}

fn request(
    outgoing: &Outgoing,
    pod: &Destination,
    term_header: &'static str,
    term: u64,
) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request = Request::builder()
        .method(outgoing.method.clone())
        .uri(&outgoing.path)
        .header(HOST, pod.addr.to_string())
        .header(wire::POD_UID, &*pod.uid)
        .header(term_header, term)
        .body(Full::new(outgoing.body.clone()))?;
    if outgoing.method == Method::POST {
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &outgoing.headers {
        request.headers_mut().insert(name.clone(), value.clone());
    }
    Ok(request)
}

/// The body, up to a limit; whether all of it was read, so that the connection can be used again.
async fn read(response: hyper::Response<Incoming>, limit: usize) -> (Reply, bool) {
    let (head, mut body) = response.into_parts();
    let mut reply = Reply { status: head.status.as_u16(), headers: head.headers, body: Vec::new(), cut: false };
    loop {
        match timeout(BODY_SILENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => {
                let Some(data) = frame.data_ref() else { continue };
                let room = limit.saturating_sub(reply.body.len());
                reply.body.extend_from_slice(&data[..data.len().min(room)]);
                if data.len() > room {
                    reply.cut = true;
                    return (reply, false);
                }
            }
            Ok(None) => return (reply, true),
            Ok(Some(Err(_))) | Err(_) => {
                reply.cut = true;
                return (reply, false);
            }
        }
    }
}

/// `timeout=5, max=100`.
fn keep_alive_timeout(header: &str) -> Option<Duration> {
    header.split(',').find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let seconds = value.trim().parse().ok()?;
        key.trim().eq_ignore_ascii_case("timeout").then_some(Duration::from_secs(seconds))
    })
}

/// Header values from text; what HTTP does not allow is left out.
pub fn header_map(pairs: &[(&'static str, String)]) -> HeaderMap {
    let valid = pairs
        .iter()
        .filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?)));
    valid.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_alive_is_read_leniently() {
        assert_eq!(keep_alive_timeout("timeout=5, max=100"), Some(Duration::from_secs(5)));
        assert_eq!(keep_alive_timeout("max=100, Timeout = 60"), Some(Duration::from_secs(60)));
        assert_eq!(keep_alive_timeout("close"), None);
    }
}
