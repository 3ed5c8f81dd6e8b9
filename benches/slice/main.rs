//! The slice in figures, on a real API server: `make bench`.
//!
//! One operator leads and one stands by, as child processes; the workers answer at once, in this process. All of it and
//! the API server share the machine's cores, so that figures are told beside what the API server alone does in the same
//! run. A goal that is missed is said, and is no failure.
#![allow(clippy::disallowed_methods, reason = "a bench reads the real clocks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on ends by a panic")]

#[path = "../support/report.rs"]
mod report;
#[path = "../../tests/support/mod.rs"]
mod support;

mod api;
mod memory;
mod stage;
mod takeover;
mod throughput;
mod timing;

use std::time::Instant;

use report::Row;
use stage::Stage;
use throughput::{Ceiling, Throughput};

#[tokio::main]
async fn main() {
    let begin = Instant::now();
    let say = |what: &str| eprintln!("bench: {:5.1} s: {what}", begin.elapsed().as_secs_f64());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let machine = format!("{cores} cores, load before the run {}", load.join(" "));
    let mut rows: Vec<Row> = Vec::new();

    say("the API server alone");
    let ceiling = Ceiling::measure().await;

    say("submit");
    let stage = Stage::new("bench").await;
    rows.extend(timing::submit(&stage).await);
    say("delays");
    rows.extend(timing::delays(&stage).await);
    say("tasks per second");
    let throughput = Throughput::measure(&stage).await;
    stage.end_of_one_reign().await;
    say("the API server alone, again");
    let ceiling = ceiling.again().await;
    rows.extend(throughput::rows(&throughput, &ceiling));

    say("10000 pending tasks");
    let stage = Stage::new("bench-pending").await;
    rows.extend(memory::measure(&stage).await);
    stage.end_of_one_reign().await;

    say("takeovers");
    let mut stage = Stage::new("bench-takeover").await;
    rows.extend(takeover::measure(&mut stage).await);
    stage.end().await;

    let path = report::write("slice", &rows).expect("target/bench can be written");
    say(&format!("done; {}", path.display()));
    println!("slice: {machine}\n\n{}", report::table(&rows));
}
