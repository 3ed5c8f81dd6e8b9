//! The loop around the state: inputs and timers in, outputs to the hands that do them. IO.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tracing::debug;

use super::alarm::Alarm;
use super::input::{Input, Output};
use super::state::{Config, State};
use crate::cluster::events::Teller;
use crate::cluster::lease::LeaseCommand;
use crate::cluster::runs::RunMaker;
use crate::cluster::server_clock::ServerClock;
use crate::cluster::status::StatusWriter;
use crate::cluster::takeover;
use crate::domain::dispatch::Order;
use crate::ops::clock::Clock;

/// The longest the loop sleeps: a bug in a timer costs a second, not a day.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Inputs taken at once before time gets its turn.
const BATCH: usize = 256;
/// How long what is known may take to be written when stopping.
const FLUSH: Duration = Duration::from_secs(2);

/// Who does what the loop wants done.
pub struct Hands {
    /// Sends to workers.
    pub orders: mpsc::Sender<Order>,
    /// Writes statuses.
    pub writer: StatusWriter,
    /// Makes and deletes runs.
    pub runs: RunMaker,
    /// Writes Events.
    pub teller: Teller,
    /// Holds the Lease.
    pub lease: mpsc::Sender<LeaseCommand>,
    /// Lists tasks and templates at a takeover.
    pub lister: Client,
    /// Knows how far the API server's clock is off.
    pub server_clock: ServerClock,
    /// Where hands put what they learn.
    pub inputs: mpsc::Sender<Input>,
}

/// How the loop is, for the probes.
#[derive(Debug, Clone, Default)]
pub struct Health {
    synced: Arc<AtomicBool>,
    last_turn: Arc<AtomicU64>,
}

impl Health {
    /// Whether every watch has delivered its first list.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// Whether the loop has turned within `limit`.
    pub fn turns(&self, now: Duration, limit: Duration) -> bool {
        let last = Duration::from_millis(self.last_turn.load(Ordering::Relaxed));
        now.saturating_sub(last) < limit
    }

    fn turned(&self, now: Duration, synced: bool) {
        self.last_turn.store(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.synced.store(synced, Ordering::Relaxed);
    }
}

/// Runs until `stop` says so and what is known is written, at most 2 s later.
pub async fn run(
    config: Config,
    clock: Clock,
    mut inputs: mpsc::Receiver<Input>,
    hands: Hands,
    health: Health,
    mut stop: watch::Receiver<bool>,
) {
    let mut state = State::new(config.clone(), clock.now());
    let mut alarm = Alarm::new(clock);
    let mut batch = Vec::with_capacity(BATCH);
    let mut flush_until = None;
    loop {
        // 1. Time and sends.
        state.set_offset(hands.server_clock.bounds());
        let outputs = state.turn(clock.now());
        health.turned(clock.mono(), state.is_synced());
        // 2. What is to be done.
        for output in outputs {
            hands.carry_out(output, &config).await;
        }
        if flush_until.is_some_and(|until| clock.mono() >= until || !state.has_unwritten()) {
            return;
        }
        // 3. The next input or timer. While more is due than one turn takes, the alarm rings at once, but inputs and the
        // stop signal come first.
        let latest = clock.mono() + LONGEST_SLEEP;
        alarm.set(state.next_due().map_or(latest, |due| due.min(latest)));
        tokio::select! {
            biased;
            changed = stop.changed(), if flush_until.is_none() => {
                if changed.is_err() || *stop.borrow() {
                    state.handle(Input::Stop, clock.now());
                    flush_until = Some(clock.mono() + FLUSH);
                }
            }
            taken = inputs.recv_many(&mut batch, BATCH) => {
                if taken == 0 {
                    return;
                }
                for input in batch.drain(..) {
                    state.handle(input, clock.now());
                }
            }
            () = alarm.rings() => {}
        }
    }
}

impl Hands {
    async fn carry_out(&self, output: Output, config: &Config) {
        match output {
            Output::Order(order) => {
                // Closed only when the process ends.
                let _: Result<(), _> = self.orders.send(order).await;
            }
            Output::WriteTask { task, serial, write } => {
                let (writer, inputs) = (self.writer.clone(), self.inputs.clone());
                tokio::spawn(async move {
                    let result = writer.task(write).await;
                    let _: Result<(), _> = inputs.send(Input::TaskWritten { task, serial, result }).await;
                });
            }
            Output::WriteTemplate { template, serial, write } => {
                let (writer, inputs) = (self.writer.clone(), self.inputs.clone());
                tokio::spawn(async move {
                    let result = writer.template(write).await;
                    let _: Result<(), _> = inputs.send(Input::TemplateWritten { template, serial, result }).await;
                });
            }
            Output::MakeRun { template, serial, run, term } => {
                let (maker, inputs) = (self.runs.clone(), self.inputs.clone());
                tokio::spawn(async move {
                    let result = maker.make(&run, term).await;
                    let run = run.metadata.name.clone().unwrap_or_default();
                    let _: Result<(), _> = inputs.send(Input::RunMade { template, run, serial, result }).await;
                });
            }
            Output::RemoveRun(removal) => {
                let maker = self.runs.clone();
                tokio::spawn(async move { maker.delete(removal).await });
            }
            Output::Tell(told) => self.teller.tell(told),
            Output::List { reign } => {
                let (client, scopes) = (self.lister.clone(), config.scopes.clone());
                let inputs = self.inputs.clone();
                tokio::spawn(async move {
                    let result = takeover::list(client, &scopes).await;
                    let _: Result<(), _> = inputs.send(Input::Listed { reign, result }).await;
                });
            }
            Output::FetchPods { reign, pods } => {
                let (client, inputs) = (self.lister.clone(), self.inputs.clone());
                tokio::spawn(async move {
                    let result = takeover::fetch_pods(client, pods).await;
                    let _: Result<(), _> = inputs.send(Input::Fetched { reign, result }).await;
                });
            }
            Output::SawTerm(term) => self.lease(LeaseCommand::SawTerm(term)).await,
            Output::RaiseTermAbove(term) => self.lease(LeaseCommand::RaiseTermAbove(term)).await,
        }
    }

    async fn lease(&self, command: LeaseCommand) {
        if self.lease.send(command).await.is_err() {
            debug!("the lease loop has ended");
        }
    }
}
