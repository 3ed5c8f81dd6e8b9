//! The operator: arguments and wiring.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info, warn};

use ax::api::Duration as Span;
use ax::cluster::client::Clients;
use ax::cluster::lease::{self, Leadership, LeaseCommand, LeaseConfig, LeaseEvent};
use ax::cluster::room::Room;
use ax::cluster::runs::RunMaker;
use ax::cluster::server_clock::ServerClock;
use ax::cluster::status::StatusWriter;
use ax::cluster::{events, watch as watches};
use ax::dispatcher;
use ax::domain::election;
use ax::ops::clock::Clock;
use ax::ops::dice::Dice;
use ax::ops::{health, logging};
use ax::scheduler::input::Input;
use ax::scheduler::run::{self, Hands, Health};
use ax::scheduler::state;
use ax::worker::client::Dial;

/// Runs delayed and manual tasks as Kubernetes resources: one leader, warm standbys.
#[derive(Debug, Parser)]
#[command(name = "ax-operator", version)]
struct Args {
    /// Namespace of the Lease `ax-leader`.
    #[arg(long, env = "AX_NAMESPACE", default_value = "ax-system")]
    namespace: String,

    /// Namespaces to watch, separated by commas; empty: all. Two installs must not watch the same one.
    #[arg(long, env = "AX_WATCH_NAMESPACES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,

    /// Name of this replica, usually the pod's.
    #[arg(long, env = "POD_NAME", default_value = "ax-operator")]
    identity: String,

    /// Timing of the leader election: default (5s, 3s, 1s) or calm (15s, 10s, 2s).
    #[arg(long, env = "AX_LEADER_ELECTION_PROFILE", default_value = "default")]
    leader_election_profile: Profile,

    /// How long a leader that falls silent keeps the Lease; default: the profile's.
    #[arg(long, env = "AX_LEADER_ELECTION_LEASE_DURATION")]
    leader_election_lease_duration: Option<Span>,

    /// How long a leader trusts its last renewal; default: the profile's.
    #[arg(long, env = "AX_LEADER_ELECTION_RENEW_DEADLINE")]
    leader_election_renew_deadline: Option<Span>,

    /// How often it renews; default: the profile's.
    #[arg(long, env = "AX_LEADER_ELECTION_RETRY_PERIOD")]
    leader_election_retry_period: Option<Span>,

    /// Status writes and runs being made under way at once, 1 to 1000.
    #[arg(long, env = "AX_KUBE_API_IN_FLIGHT", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    kube_api_in_flight: u16,

    /// Port of /healthz and /readyz.
    #[arg(long, env = "AX_HEALTH_PORT", default_value_t = 8081)]
    health_port: u16,

    /// Send to pods at loopback addresses. For tests only.
    #[arg(long, env = "AX_ALLOW_LOOPBACK_PODS", num_args = 0..=1, default_missing_value = "true", default_value_t = false)]
    allow_loopback_pods: bool,

    /// A level (error, warn, info, debug, trace), or a filter by target.
    #[arg(long, env = "AX_LOG_LEVEL", default_value = "info")]
    log_level: String,

    /// json or text.
    #[arg(long, env = "AX_LOG_FORMAT", default_value = "json")]
    log_format: logging::Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Profile {
    Default,
    Calm,
}

impl Args {
    fn election(&self) -> anyhow::Result<election::Config> {
        let mut config = match self.leader_election_profile {
            Profile::Default => election::Config::default(),
            Profile::Calm => election::Config::calm(),
        };
        let set = |to: &mut Duration, from: &Option<Span>| {
            if let Some(span) = from {
                *to = span.get();
            }
        };
        set(&mut config.lease_duration, &self.leader_election_lease_duration);
        set(&mut config.renew_deadline, &self.leader_election_renew_deadline);
        set(&mut config.retry_period, &self.leader_election_retry_period);
        config.check().context("--leader-election-* do not fit together")?;
        Ok(config)
    }

    fn scopes(&self) -> Vec<watches::Scope> {
        let named: Vec<_> = self.watch_namespaces.iter().map(|n| n.trim()).filter(|n| !n.is_empty()).collect();
        if named.is_empty() { vec![None] } else { named.into_iter().map(|n| Some(n.to_owned())).collect() }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let logs = logging::Config {
        // kube's client logs whole answers it cannot read: bodies do not belong in logs.
        level: format!("{},kube_client=off", args.log_level),
        format: args.log_format,
        replica: Some(args.identity.clone()),
    };
    if let Err(error) = logging::init(logs) {
        eprintln!("ax-operator: {error}");
        return ExitCode::from(2);
    }
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = %format!("{error:#}"), "stopping");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn serve(args: Args) -> anyhow::Result<()> {
    let clock = Clock::start();
    let election = args.election()?;
    let scopes = args.scopes();
    let clients = Clients::infer().await.context("no cluster: set KUBECONFIG, or run inside one")?;

    let leadership = Leadership::default();
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

    let probes = Probes { health: health.clone(), clock };
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), args.health_port);
    tokio::spawn(async move {
        if let Err(error) = health::serve(address, probes).await {
            error!(%error, %address, "the probes cannot be served");
        }
    });
    for scope in &scopes {
        tokio::spawn(watches::run(clients.watch.clone(), scope.clone(), change_tx.clone()));
    }
    drop(change_tx);
    tokio::spawn(forward(change_rx, input_tx.clone(), Input::Change));
    tokio::spawn(forward(told_rx, input_tx.clone(), |told| match told {
        dispatcher::Told::Report(report) => Input::Report(report),
        dispatcher::Told::Inventory { pod, reign, inventory } => Input::Inventory { pod, reign, inventory },
    }));
    tokio::spawn(lease_events(event_rx, input_tx.clone()));
    tokio::spawn(events::run(clients.write.clone(), args.identity.clone(), clock, told_events));
    tokio::spawn(dispatcher::run(leadership.clone(), clock, Dial::Tcp, order_rx, told_tx));
    let lease_config = LeaseConfig {
        namespace: args.namespace.clone(),
        identity: args.identity.clone(),
        address: None,
        election,
        dice: Dice::drawn(),
    };
    let mut holding = tokio::spawn(lease::run(
        lease_config,
        clients.lease.clone(),
        clock,
        command_rx,
        event_tx,
        leadership.clone(),
        server_clock.clone(),
    ));

    info!(namespace = %args.namespace, watching = ?scopes, "started");
    let room = Room::new(usize::from(args.kube_api_in_flight));
    let hands = Hands {
        orders: order_tx,
        runs: RunMaker::new(clients.write.clone(), room.clone(), leadership.clone(), clock),
        writer: StatusWriter::new(clients.write.clone(), room, leadership, clock),
        teller,
        lease: command_tx.clone(),
        lister: clients.write.clone(),
        server_clock,
        inputs: input_tx,
    };
    let config = state::Config { scopes, allow_loopback: args.allow_loopback_pods };
    let mut looping = tokio::spawn(run::run(config, clock, input_rx, hands, health, stop_rx));

    tokio::select! {
        signal = wait_for_signal() => signal?,
        // A replica without either is none: the kubelet starts another.
        ended = &mut looping => bail!("the leader loop ended by itself: {ended:?}"),
        ended = &mut holding => bail!("the lease loop ended by itself: {ended:?}"),
    }
    info!("stopping: nothing more is sent, what is known is written, the Lease is released");
    stop_tx.send_replace(true);
    if let Err(error) = looping.await {
        error!(%error, "the leader loop ended badly");
    }
    release(&command_tx).await;
    holding.abort();
    info!("stopped");
    Ok(())
}

async fn wait_for_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be watched")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be watched")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// A released Lease is taken over at once; one that is not, after its duration.
async fn release(commands: &mpsc::Sender<LeaseCommand>) {
    let (done_tx, done_rx) = oneshot::channel();
    let asked = commands.send(LeaseCommand::Release(done_tx)).await;
    if asked.is_err() || tokio::time::timeout(Duration::from_secs(3), done_rx).await.is_err() {
        warn!("the Lease could not be released; a standby takes over when it has run out");
    }
}

async fn forward<T>(mut from: mpsc::Receiver<T>, to: mpsc::Sender<Input>, wrap: fn(T) -> Input) {
    while let Some(item) = from.recv().await {
        if to.send(wrap(item)).await.is_err() {
            return;
        }
    }
}

async fn lease_events(mut from: mpsc::Receiver<LeaseEvent>, to: mpsc::Sender<Input>) {
    while let Some(event) = from.recv().await {
        let input = match event {
            LeaseEvent::Acquired { term, may_start_at, .. } => Input::Acquired { term, may_start_at },
            LeaseEvent::TermRaised { term } => Input::TermRaised { term },
            LeaseEvent::Lost { .. } => Input::Lost,
            LeaseEvent::Observed { .. } => continue,
        };
        if to.send(input).await.is_err() {
            return;
        }
    }
}

#[derive(Clone)]
struct Probes {
    health: Health,
    clock: Clock,
}

impl health::Probes for Probes {
    fn live(&self) -> bool {
        self.health.turns(self.clock.mono(), Duration::from_secs(30))
    }

    fn ready(&self) -> bool {
        self.health.is_synced()
    }
}
