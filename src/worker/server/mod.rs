//! `ax-worker`: the worker's side of the contract, for programs that know nothing of ax.
//!
//! One `POST` runs one command, and its answer waits on the open connection for as long as the command takes.
//! The work does not: it runs in a task of its own, so that a closed connection ends nothing.
//!
//! ```text
//! connection  sockets, their limits and timeouts
//!   routes    which path, which method; the body; every answer's RateLimit
//!     request    PURE  headers -> a valid dispatch
//!     admit      PURE  the ordered checks -> runs, stored answer, refused
//!     execution  journal, command, journal, answer
//!       table    PURE  what runs and what has ended
//!       journal  the same on disk, with the answers
//!       exec     the process group
//!       answer   PURE  a command's end -> status and body
//! drain       signals -> no new work, then no work
//! ```

pub mod admit;
pub mod answer;
pub mod connection;
pub mod drain;
pub mod exec;
pub mod execution;
pub mod journal;
pub mod request;
pub mod routes;
pub mod table;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::ops::clock::Clock;
use admit::Terms;
use drain::Phase;
use exec::Program;
use journal::Journal;
use table::{Finished, Table};

/// What the worker is told at its start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Executions that may run at once.
    pub concurrency: usize,
    /// Where the journal lives. It must outlive the container, and be no other worker's.
    pub journal_dir: PathBuf,
    /// Uid of the pod this process runs in.
    pub pod_uid: String,
    /// Tasks are taken at this path and below it.
    pub path: String,
    /// Drained, how long it stays for answers to be fetched that could not be delivered.
    pub linger: Duration,
    /// The command.
    pub program: Program,
}

/// A running worker: what all of its connections and executions share.
#[derive(Debug)]
pub struct Worker {
    config: Config,
    clock: Clock,
    journal: Journal,
    state: Mutex<State>,
    /// How many executions run; changed under the lock of `state`.
    running: watch::Sender<usize>,
    /// How many answers have gone out to nobody yet; changed under the same lock.
    owed: watch::Sender<usize>,
    phase: watch::Receiver<Phase>,
}

/// What admission decides by; one lock, held only between awaits.
#[derive(Debug)]
struct State {
    table: Table,
    terms: Terms,
}

/// An attempt's answer on its way out, carried by the response for the connection that writes it.
#[derive(Debug, Clone)]
struct Delivery {
    worker: Arc<Worker>,
    id: String,
    attempt: u32,
}

impl Delivery {
    /// It has been written.
    fn done(self) {
        self.worker.change(|table| table.told(&self.id, self.attempt));
    }
}

/// Serves until the drain is over: every execution has ended, and its answer has been sent or awaited long enough.
pub async fn run(
    config: Config,
    listener: TcpListener,
    phase: watch::Receiver<Phase>,
    clock: Clock,
) -> Result<(), journal::Error> {
    let now = clock.now().wall.as_millisecond();
    let (journal, records) = Journal::open(&config.journal_dir, now).await?;
    let mut table = Table::default();
    for record in records {
        if let Some(finished) = Finished::of(&record) {
            table.restore(&record.id, finished);
        }
    }
    let worker = Arc::new(Worker {
        config,
        clock,
        journal,
        state: Mutex::new(State { table, terms: Terms::default() }),
        running: watch::Sender::new(0),
        owed: watch::Sender::new(0),
        phase,
    });
    connection::serve(Arc::clone(&worker), listener).await;
    let answers = *worker.owed.borrow();
    if answers > 0 {
        tracing::warn!(answers, "undelivered answers are lost with the pod");
    }
    Ok(())
}

impl Worker {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is complete in itself; a panic in between breaks none.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the table, and lets those know that wait for it.
    fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut state = self.lock();
        change(&mut state.table);
        self.publish(&state.table);
    }

    fn publish(&self, table: &Table) {
        // First, for `drained` reads it second.
        self.owed.send_replace(table.owed());
        self.running.send_replace(table.running());
    }

    fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().wall.as_millisecond()
    }

    /// Returns once no new work is taken, none is left, and no answer is worth waiting for any more.
    async fn drained(&self) {
        let mut phase = self.phase.clone();
        // An error means that nobody is left to start a drain; then there is none.
        if phase.wait_for(|phase| *phase >= Phase::Draining).await.is_err() {
            std::future::pending::<()>().await;
        }
        // Whoever was admitted before the phase changed has counted itself in by the time the lock is free.
        drop(self.lock());
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
        self.linger(phase).await;
    }

    /// Waits until every answer has gone out to somebody, for as long as it may.
    ///
    /// Whoever asked may be gone, crashed; the next leader asks again, and knows no other place to ask. The pod takes
    /// its journal with it.
    async fn linger(&self, mut phase: watch::Receiver<Phase>) {
        let mut owed = self.owed.subscribe();
        let all_told = owed.wait_for(|owed| *owed == 0);
        tokio::select! {
            _ = all_told => {}
            _ = phase.wait_for(|phase| *phase >= Phase::Killing) => {}
            () = tokio::time::sleep(self.config.linger) => {}
        }
    }
}
