//! How late a trigger is: `make bench-trigger`.
//!
//! The alarm alone; wheel, alarm and ready queue driven as the leader loop drives them; and, where there is a cluster,
//! the real operator on a real API server, from the instant a task is due to its request at a worker. All of it shares
//! the machine's cores. A goal that is missed is said, and is no failure.
//!
//! `AX_BENCH_SECONDS`: how long each rate is kept up, 10 if not said.
#![allow(clippy::disallowed_methods, reason = "a bench reads the real clocks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on ends by a panic")]

#[path = "../slice/api.rs"]
#[allow(dead_code, reason = "each bench uses a part of it")]
mod api;
#[path = "../support/report.rs"]
mod report;
#[path = "../slice/stage.rs"]
#[allow(dead_code, reason = "each bench uses a part of it")]
mod stage;
#[path = "../../tests/support/mod.rs"]
mod support;

mod lateness;
mod operator;
mod turns;

use std::time::{Duration, Instant};

use ax::ops::clock::Clock;
use ax::scheduler::alarm::Alarm;

/// How the loop is woken.
#[derive(Debug, Clone, Copy)]
pub enum Wake {
    Alarm,
    SleepUntil,
}

impl Wake {
    pub const PEER: &str = "sleep_until";

    pub fn alarm(self, clock: Clock) -> Alarm {
        match self {
            Self::Alarm => Alarm::new(clock),
            Self::SleepUntil => Alarm::of_tokio(clock.instant(Duration::ZERO)),
        }
    }
}

/// The value that `share` of all do not exceed.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[tokio::main]
async fn main() {
    let begin = Instant::now();
    let say = |what: &str| eprintln!("bench: {:5.1} s: {what}", begin.elapsed().as_secs_f64());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let seconds = std::env::var("AX_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let time = Duration::from_secs(seconds);

    let mut rows = Vec::new();
    say("wake-ups");
    rows.extend(lateness::rows().await);
    for rate in [10_000, 100_000] {
        say(&format!("{rate} triggers/s"));
        rows.extend(turns::rows(rate, time).await);
    }
    if std::env::var_os("KUBECONFIG").is_some() {
        for rate in [10, 100, 500] {
            say(&format!("{rate} due/s, end to end"));
            rows.extend(operator::rows(rate, time).await);
        }
    } else {
        say("no KUBECONFIG: no end to end");
    }
    let path = report::write("trigger", &rows).expect("target/bench can be written");
    say(&format!("done; {}", path.display()));
    println!("trigger: {cores} cores, load before the run {}\n\n{}", load.join(" "), report::table(&rows));
}
