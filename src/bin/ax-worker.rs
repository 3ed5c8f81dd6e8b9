//! `ax-worker`: the worker's side of the contract, for programs that know nothing of ax.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use ax::api::duration::Duration;
use ax::ops::clock::Clock;
use ax::ops::logging;
use ax::worker::server::drain::{self, Phase, Signals};
use ax::worker::server::exec::Program;
use ax::worker::server::{self, Config};
use clap::{Parser, Subcommand};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Takes tasks from ax over HTTP, for programs that know nothing of ax.
#[derive(Parser)]
#[command(name = "ax-worker", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a command for each task.
    ///
    /// The payload is its stdin; topic, attempt and the like are AX_* in its environment. Exit 0 is success, and
    /// stdout the result; 65 is a failure that no retry will mend; anything else is retried, with the end of
    /// stderr as log. SIGTERM lets what runs end, and takes nothing new.
    Exec(Exec),
}

#[derive(clap::Args)]
struct Exec {
    /// Address to listen on.
    #[arg(long, env = "AX_LISTEN", default_value = "0.0.0.0:8080", value_name = "ADDR")]
    listen: SocketAddr,
    /// Tasks that may run at once; the next one is told to go elsewhere.
    #[arg(long, env = "AX_CONCURRENCY", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1000), value_name = "N")]
    concurrency: u16,
    /// Where answers are kept, so that a restart runs nothing twice; an emptyDir serves. Created if missing.
    #[arg(long, env = "AX_JOURNAL_DIR", default_value = "/tmp/ax-journal", value_name = "DIR")]
    journal_dir: PathBuf,
    /// Uid of this pod, from the downward API (metadata.uid). Required.
    #[arg(long, env = "AX_POD_UID", value_name = "UID")]
    pod_uid: Option<String>,
    /// Path at and below which tasks are taken.
    #[arg(long, env = "AX_PATH", default_value = "/", value_name = "PATH")]
    path: String,
    /// After SIGTERM, how long tasks may run on before they are stopped (like 50s). Without it: to their end.
    #[arg(long, env = "AX_DRAIN_TIMEOUT", value_name = "DURATION")]
    drain_timeout: Option<Duration>,
    /// Drained, how long to stay for answers to be fetched that could not be delivered, their asker being gone
    /// (0s: not at all).
    #[arg(long, env = "AX_LINGER", default_value = "10s", value_name = "DURATION")]
    linger: Duration,
    /// Log level, or a filter by target (info,ax=debug).
    #[arg(long, env = "AX_LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    log_level: String,
    /// Log format: json or text.
    #[arg(long, env = "AX_LOG_FORMAT", default_value = "json", value_name = "FORMAT")]
    log_format: logging::Format,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn main() -> anyhow::Result<()> {
    let Command::Exec(exec) = Cli::parse().command;
    let Some(pod_uid) = exec.pod_uid.filter(|uid| !uid.is_empty()) else {
        eprintln!("{NO_POD_UID}");
        std::process::exit(2);
    };
    logging::init(logging::Config {
        level: exec.log_level,
        format: exec.log_format,
        replica: std::env::var("HOSTNAME").ok(),
    })?;
    let mut command = exec.command.into_iter();
    let config = Config {
        concurrency: exec.concurrency.into(),
        journal_dir: exec.journal_dir,
        pod_uid,
        path: exec.path,
        linger: exec.linger.get(),
        program: Program { name: command.next().unwrap_or_default(), args: command.collect() },
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(
        config,
        exec.listen,
        exec.drain_timeout,
    ))
}

const NO_POD_UID: &str = "error: the pod's own uid is not known: give --pod-uid, or AX_POD_UID from the downward API:

  env:
  - name: AX_POD_UID
    valueFrom: {fieldRef: {fieldPath: metadata.uid}}";

async fn run(config: Config, listen: SocketAddr, drain_timeout: Option<Duration>) -> anyhow::Result<()> {
    let signals = Signals::catch().context("failed to catch signals")?;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("failed to listen on {listen}"))?;
    let (move_phase, phase) = watch::channel(Phase::Serving);
    tokio::spawn(drain::run(signals, drain_timeout.map(|limit| limit.get()), move_phase));
    let address = listener.local_addr()?;
    tracing::info!(%address, concurrency = config.concurrency, "listening");
    server::run(config, listener, phase, Clock::start()).await?;
    tracing::info!("drained");
    Ok(())
}
