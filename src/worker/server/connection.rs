//! Sockets: how many, how long, and their end.
//!
//! IO: accepts and serves HTTP/1.1. A client gets a short time to send a request's head once it has begun, a long
//! one between two requests, and all the time the work takes while it waits for an answer.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};

use super::{Delivery, Worker, routes};

/// An idle connection is kept this long; the `Keep-Alive` header says so.
pub const IDLE: Duration = Duration::from_secs(60);
/// A request's head must be complete this long after its first byte, and a connection begin its first this soon.
const HEAD: Duration = Duration::from_secs(5);
/// Largest request head, bytes.
const MAX_HEAD: usize = 16 * 1024;
/// After the last execution has ended its answer has this long to go out.
const LAST_ANSWER: Duration = Duration::from_secs(5);
/// A silent client is probed after this long: one whose node died must not hold its socket for ever.
const PROBE: Duration = Duration::from_secs(30);
/// After a failed accept (no file descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until the worker is drained and the answers are out.
pub async fn serve(worker: Arc<Worker>, listener: TcpListener) {
    // Each place may have its own connection, and as many again to be told 409 or 429, to ask and to probe.
    let places = Arc::new(Semaphore::new(worker.config.concurrency * 4 + 64));
    let (close, closing) = watch::channel(false);
    let mut connections = JoinSet::new();
    let drained = worker.drained();
    tokio::pin!(drained);
    loop {
        let accepted = tokio::select! {
            () = &mut drained => break,
            accepted = listener.accept() => accepted,
            // Ended ones are let go as they end.
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            connections.spawn(turn_away(Arc::clone(&worker), stream));
            continue;
        };
        let served = serve_one(Arc::clone(&worker), stream, closing.clone());
        connections.spawn(async move {
            served.await;
            drop(place);
        });
    }
    drop(listener);
    close.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(LAST_ANSWER, all).await.is_err() {
        tracing::warn!("a client did not take its answer in time");
    }
}

async fn serve_one(worker: Arc<Worker>, stream: TcpStream, closing: watch::Receiver<bool>) {
    // Neither is vital: without them the socket is slower, or stays longer.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE));
    let patience = Patience::new(stream, HEAD, IDLE);
    let answer = move |request| routes::answer(Arc::clone(&worker), request);
    if let Err(error) = converse(patience, answer, closing).await {
        tracing::debug!(%error, "connection ended");
    }
}

/// Answers one request after the other, until the client goes, loses our patience, or `closing` changes.
async fn converse<A>(
    patience: Patience,
    answer: impl Fn(Request<Incoming>) -> A,
    mut closing: watch::Receiver<bool>,
) -> hyper::Result<()>
where
    A: Future<Output = Response<Full<Bytes>>>,
{
    let activity = Arc::clone(&patience.activity);
    let service = service_fn(|request| {
        let activity = Arc::clone(&activity);
        activity.turn();
        let answer = answer(request);
        async move {
            let mut response = answer.await;
            if let Some(delivery) = response.extensions_mut().remove() {
                activity.unwritten().push(delivery);
            }
            activity.turn();
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new().max_header_size(MAX_HEAD).serve_connection(TokioIo::new(patience), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        result = connection.as_mut() => Some(result),
        _ = closing.changed() => None,
    };
    match ended {
        Some(result) => result,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// One connection too many: it is told so, not left waiting. Should it not even read that, it was refused as well.
async fn turn_away(worker: Arc<Worker>, mut stream: TcpStream) {
    let mut head = String::from(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n",
    );
    for (name, value) in worker.room() {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let _ = timeout(HEAD, stream.write_all(head.as_bytes())).await;
    let _ = stream.shutdown().await;
}

/// Counts the turns of a connection: even while the client is to send, odd while an answer is made. And knows
/// which answers are made but not written.
#[derive(Debug, Default)]
struct Activity {
    turns: AtomicU64,
    reader: AtomicWaker,
    unwritten: Mutex<Vec<Delivery>>,
}

impl Activity {
    /// Also wakes the connection: hyper itself reads again only when bytes arrive, and until then no limit runs.
    fn turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.reader.wake();
    }

    fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    fn unwritten(&self) -> MutexGuard<'_, Vec<Delivery>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was answered is in the kernel's hands.
    fn written(&self) {
        let written = std::mem::take(&mut *self.unwritten());
        written.into_iter().for_each(Delivery::done);
    }
}

/// A socket that waits for its client's next request only so long.
///
/// While an answer is made there is no limit here: the body's is in `routes`, and the work takes its time.
#[derive(Debug)]
struct Patience {
    stream: TcpStream,
    activity: Arc<Activity>,
    turn: u64,
    head_begun: bool,
    head: Duration,
    idle: Duration,
    limit: Pin<Box<Sleep>>,
}

impl Patience {
    fn new(stream: TcpStream, head: Duration, idle: Duration) -> Self {
        Self { stream, activity: Arc::default(), turn: 0, head_begun: false, head, idle, limit: Box::pin(sleep(head)) }
    }
}

impl AsyncRead for Patience {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let turn = this.activity.turns();
        if turn != this.turn {
            this.turn = turn;
            this.head_begun = false;
            this.limit.set(sleep(this.idle));
        }
        let is_answering = turn % 2 == 1;
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Ready(result) => {
                if !is_answering && !this.head_begun {
                    this.head_begun = true;
                    this.limit.set(sleep(this.head));
                }
                Poll::Ready(result)
            }
            Poll::Pending => {
                if is_answering {
                    this.activity.reader.register(context.waker());
                    return Poll::Pending;
                }
                ready!(this.limit.as_mut().poll(context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl AsyncWrite for Patience {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        // hyper flushes once it has written all it holds, and it takes an answer whole: the largest is far smaller
        // than its buffer. One whose client has gone is dropped with its connection and never gets here.
        self.activity.written();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_millis(200);

    async fn pair() -> (TcpStream, Patience) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (client, Patience::new(stream, SHORT, LONG))
    }

    async fn waited(patience: &mut Patience) -> Duration {
        let start = tokio::time::Instant::now();
        let error = patience.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        start.elapsed()
    }

    #[tokio::test]
    async fn a_head_gets_less_time_than_an_idle_connection() {
        let (mut client, mut patience) = pair().await;
        client.write_all(b"PO").await.unwrap();
        patience.read_u8().await.unwrap();
        patience.read_u8().await.unwrap();
        assert!((SHORT..LONG).contains(&waited(&mut patience).await));
        patience.activity.turn();
        let answering = timeout(2 * LONG, patience.read_u8()).await;
        assert!(answering.is_err(), "an answer may take any time");
        patience.activity.turn();
        assert!(waited(&mut patience).await >= LONG, "idle again");
    }

    #[tokio::test]
    async fn a_connection_that_never_speaks_is_closed() {
        let (_client, mut patience) = pair().await;
        assert!((SHORT..LONG).contains(&waited(&mut patience).await));
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed_in_its_time() {
        let (mut client, patience) = pair().await;
        let (_close, closing) = watch::channel(false);
        let slow = |_| async {
            sleep(2 * LONG).await;
            Response::new(Full::default())
        };
        // A task of its own: nothing but its own timers and bytes may wake it.
        tokio::spawn(converse(patience, slow, closing));
        let request = b"GET / HTTP/1.1\r\nHost: w\r\n\r\n";
        client.write_all(request).await.unwrap();
        let mut answer = [0; 15];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        let answered = tokio::time::Instant::now();
        let mut rest = Vec::new();
        let closed = timeout(20 * LONG, client.read_to_end(&mut rest)).await;
        closed.unwrap().unwrap();
        let idle = answered.elapsed();
        assert!(idle >= LONG / 2, "{idle:?}");
    }
}
