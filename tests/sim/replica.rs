//! One replica of the operator: its own loops, wired as `src/bin/ax-operator.rs` wires them, on a machine of its own.

use std::time::Duration;

use ax::cluster::client::Connector;
use ax::cluster::lease::{self, Leadership, LeaseCommand, LeaseConfig, LeaseEvent};
use ax::cluster::room::Room;
use ax::cluster::runs::RunMaker;
use ax::cluster::server_clock::ServerClock;
use ax::cluster::status::StatusWriter;
use ax::cluster::{events, watch as watches};
use ax::dispatcher;
use ax::domain::election;
use ax::ops::clock::Simulated;
use ax::ops::dice::Dice;
use ax::scheduler::input::Input;
use ax::scheduler::run::{self, Hands, Health};
use ax::scheduler::state;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::api::Server;
use crate::api::link::{Line, State};
use crate::worker::Network;

/// Where the Lease is.
pub const NAMESPACE: &str = "ax-system";

pub struct Replica {
    pub name: String,
    pub machine: &'static Simulated,
    pub leadership: Leadership,
    pub health: Health,
    line: Line,
    loops: Vec<JoinHandle<()>>,
    looping: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    commands: mpsc::Sender<LeaseCommand>,
}

impl Replica {
    /// Must be called inside the runtime.
    pub fn start(
        name: &str,
        machine: &'static Simulated,
        election: election::Config,
        dice: Dice,
        server: &Server,
        network: &Network,
    ) -> Self {
        let clock = machine.clock();
        let line = Line::up();
        let client = || server.client(name, &line);
        let leadership = Leadership::new(clock);
        let server_clock = ServerClock::default();
        let health = Health::default();
        let (input_tx, input_rx) = mpsc::channel(4096);
        let (order_tx, order_rx) = mpsc::channel(4096);
        let (told_tx, told_rx) = mpsc::channel(4096);
        let (change_tx, change_rx) = mpsc::channel(4096);
        let (command_tx, command_rx) = mpsc::channel(64);
        let (event_tx, event_rx) = mpsc::channel(16);
        let (stop_tx, stop_rx) = watch::channel(false);
        let (teller, told_events) = events::channel();

        let lease_config =
            LeaseConfig { namespace: NAMESPACE.to_owned(), identity: name.to_owned(), address: None, election, dice };
        let connector = {
            let (server, line, name) = (server.clone(), line.clone(), name.to_owned());
            Connector::from_fn(move || Ok(server.client(&name, &line)))
        };
        let dial = network.dial(line.clone());
        let loops = vec![
            tokio::spawn(watches::run(client(), None, change_tx)),
            tokio::spawn(forward(change_rx, input_tx.clone(), |change| Some(Input::Change(change)))),
            tokio::spawn(forward(told_rx, input_tx.clone(), |told| {
                Some(match told {
                    dispatcher::Told::Report(report) => Input::Report(report),
                    dispatcher::Told::Inventory { pod, reign, inventory } => Input::Inventory { pod, reign, inventory },
                })
            })),
            tokio::spawn(forward(event_rx, input_tx.clone(), |event| match event {
                LeaseEvent::Acquired { term, may_start_at, .. } => Some(Input::Acquired { term, may_start_at }),
                LeaseEvent::TermRaised { term } => Some(Input::TermRaised { term }),
                LeaseEvent::Lost { .. } => Some(Input::Lost),
                LeaseEvent::Observed { .. } => None,
            })),
            tokio::spawn(events::run(client(), name.to_owned(), clock, told_events)),
            tokio::spawn(dispatcher::run(leadership.clone(), clock, dial, order_rx, told_tx)),
            tokio::spawn(lease::run(
                lease_config,
                connector,
                clock,
                command_rx,
                event_tx,
                leadership.clone(),
                server_clock.clone(),
            )),
        ];
        let room = Room::new(64);
        let hands = Hands {
            orders: order_tx,
            writer: StatusWriter::new(client(), room.clone(), leadership.clone(), clock),
            runs: RunMaker::new(client(), room, leadership.clone(), clock),
            teller,
            lease: command_tx.clone(),
            lister: client(),
            server_clock,
            inputs: input_tx,
        };
        let config = state::Config { scopes: vec![None], allow_loopback: false };
        let looping = Some(tokio::spawn(run::run(config, clock, input_rx, hands, health.clone(), stop_rx)));
        Self {
            name: name.to_owned(),
            machine,
            leadership,
            health,
            line,
            loops,
            looping,
            stop: stop_tx,
            commands: command_tx,
        }
    }

    pub fn is_leading(&self) -> bool {
        self.leadership.grant(self.machine.clock().mono()).is_some()
    }

    /// kill -9: nothing of it goes on, what is open breaks.
    pub fn crash(&mut self) {
        self.line.set(State::Cut);
        self.leadership.set(None);
        for running in self.loops.drain(..).chain(self.looping.take()) {
            running.abort();
        }
    }

    /// Its network: silent, cut, or up again.
    pub fn network(&self, state: State) {
        self.line.set(state);
    }

    /// SIGTERM: writes what it knows, releases the Lease, ends.
    pub async fn stop(&mut self) {
        self.stop.send_replace(true);
        if let Some(looping) = self.looping.take() {
            looping.await.expect("the leader loop ends well");
        }
        let (done_tx, done_rx) = oneshot::channel();
        if self.commands.send(LeaseCommand::Release(done_tx)).await.is_ok() {
            _ = tokio::time::timeout(Duration::from_secs(3), done_rx).await;
        }
        self.crash();
    }
}

async fn forward<T>(mut from: mpsc::Receiver<T>, to: mpsc::Sender<Input>, wrap: fn(T) -> Option<Input>) {
    while let Some(item) = from.recv().await {
        let Some(input) = wrap(item) else { continue };
        if to.send(input).await.is_err() {
            return;
        }
    }
}
