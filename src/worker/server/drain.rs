//! From serving to gone, by signals.
//!
//! IO: waits for signals. The phases only go forward: the first SIGTERM or SIGINT takes no new work any more and
//! lets the running work end; the drain timeout, if there is one, stops it politely; a second signal kills it.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How far the worker is on its way out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It takes work.
    #[default]
    Serving,
    /// It takes no new work; what runs, runs on.
    Draining,
    /// What runs is asked to end: SIGTERM, then SIGKILL.
    Stopping,
    /// What runs is killed.
    Killing,
}

/// The signals that end the worker, caught from the moment this exists.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to catch them.
    pub fn catch() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Turns signals into phases, until the last one.
pub async fn run(mut signals: Signals, drain_timeout: Option<Duration>, phase: watch::Sender<Phase>) {
    signals.next().await;
    tracing::info!(reason = "Signal", "draining");
    phase.send_replace(Phase::Draining);
    if let Some(timeout) = drain_timeout {
        tokio::select! {
            () = tokio::time::sleep(timeout) => {
                tracing::warn!(reason = "DrainTimeout", "stopping what still runs");
                phase.send_replace(Phase::Stopping);
                signals.next().await;
            }
            () = signals.next() => {}
        }
    } else {
        signals.next().await;
    }
    tracing::warn!(reason = "SecondSignal", "killing what still runs");
    phase.send_replace(Phase::Killing);
}
