//! From the instant a task is due to its request at a worker: the real operator, a real API server.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::api::orders;
use crate::quantile;
use crate::report::{Row, row};
use crate::stage::{SOON, Stage};

/// What the API server takes a second at least, while the others measure too.
const CREATES: u64 = 300;
const MARGIN: Duration = Duration::from_secs(3);

pub async fn rows(rate: u64, time: Duration) -> Vec<Row> {
    // A place is free once the end is written, and the API server takes some 400 status writes a second here: with few
    // places 500 due tasks a second would measure that.
    let stage = Stage::with_credits(&format!("bench-trigger-{rate}"), 1000).await;
    let count = rate * time.as_secs();
    // All are there before the first is due, so that creates do not count.
    let lead = MARGIN + Duration::from_secs(count / CREATES);
    let first = Timestamp::now().checked_add(SignedDuration::try_from(lead).expect("short")).expect("an instant");
    let due = |n: u64| {
        let after = Duration::from_micros(n * 1_000_000 / rate);
        first.checked_add(SignedDuration::try_from(after).expect("short")).expect("an instant")
    };
    let mut tasks = orders("due", count as usize, |order| order);
    for (n, (_, task)) in tasks.iter_mut().enumerate() {
        *task = std::mem::replace(task, crate::api::order("")).run_at(due(n as u64));
    }
    let names: Vec<String> = tasks.iter().map(|(name, _)| name.clone()).collect();
    stage.tasks.create_all(tasks).await;
    let behind = Timestamp::now() >= first;
    let cpu = stage.leader().cpu();
    stage.seen.wait("all tasks to succeed", SOON + time, |counts| counts.succeeded >= names.len()).await;
    let cpu = (stage.leader().cpu() - cpu).as_secs_f64() * 1e6 / names.len() as f64;

    let mut late: Vec<f64> = (0..)
        .zip(&names)
        .map(|(n, name)| {
            let arrival = stage.arrivals.of(name).expect("it has succeeded");
            arrival.wall.duration_since(due(n)).as_secs_f64() * 1000.0
        })
        .collect();
    late.sort_by(f64::total_cmp);
    stage.end_of_one_reign().await;

    let case = format!("end to end, {rate} due/s");
    if behind {
        eprintln!("bench: {case}: the API server was too slow to take all tasks before the first was due");
    }
    // Few in ten: nothing stands in their way.
    let limit = if rate <= 10 { 4.0 } else { 10.0 };
    let early = late.iter().filter(|late| **late < 0.0).count();
    vec![
        row(&case, "due to request at the worker, p50", "ms").ax(quantile(&late, 0.5)),
        row(&case, "the same, p99", "ms").ax(quantile(&late, 0.99)).at_most(limit),
        row(&case, "the same, p999", "ms").ax(quantile(&late, 0.999)).at_most(100.0),
        row(&case, "early", "tasks").ax(early as f64).at_most(0.0),
        row(&case, "CPU of the leader per task", "us").ax(cpu),
    ]
}
