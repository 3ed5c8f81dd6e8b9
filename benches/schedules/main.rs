//! Many schedules that meet at one minute, on a real API server: `make bench-schedules`.
//!
//! 5,000 templates fire every minute, as nobody should write them (`spread` is there for that): how long after the
//! minute each run exists, how long until a worker has it, and whether any is made twice or not at all. Everything
//! shares the machine's cores.
#![allow(clippy::disallowed_methods, reason = "a bench reads the real clocks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on ends by a panic")]
#![allow(dead_code, reason = "the stage has more than this bench needs")]

#[path = "../slice/api.rs"]
mod api;
#[path = "../support/report.rs"]
mod report;
#[path = "../slice/stage.rs"]
mod stage;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ax::api::AxTask;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;

use report::{Row, percentile, row};
use stage::Stage;
use support::template::template;

/// How many meet; `AX_BENCH_TEMPLATES` says otherwise.
const TEMPLATES: usize = 5000;
/// Minutes looked at.
const MINUTES: usize = 2;
/// How long all runs of a minute may take to be made.
const GOAL_MS: f64 = 10_000.0;

#[tokio::main]
async fn main() {
    let begin = Instant::now();
    let say = |what: &str| eprintln!("bench: {:5.1} s: {what}", begin.elapsed().as_secs_f64());
    let count = std::env::var("AX_BENCH_TEMPLATES").ok().and_then(|n| n.parse().ok()).unwrap_or(TEMPLATES);
    let stage = Stage::new("bench-schedules").await;
    let seen = Seen::watch(&stage);

    // All templates exist before the first minute that is looked at.
    say(&format!("making {count} templates"));
    let makers: Vec<_> = (0..count).map(|n| template(&format!("every-minute-{n:04}")).cron("* * * * *")).collect();
    let ns = &stage.ns;
    futures::stream::iter(&makers)
        .for_each_concurrent(api::IN_FLIGHT, |maker| async move {
            maker
                .clone()
                .spec("worker", serde_json::json!({"deployment": api::WORKER, "port": support::deployment::PORT}))
                .create(ns)
                .await;
        })
        .await;
    let first = next_minute(Timestamp::now() + SignedDuration::from_secs(10));
    let minutes: Vec<Timestamp> =
        (0..MINUTES).map(|n| first + SignedDuration::from_mins(i64::try_from(n).expect("small"))).collect();
    let mut rows = Vec::new();
    for minute in &minutes {
        let all = Duration::try_from((*minute + SignedDuration::from_secs(50)).duration_since(Timestamp::now()));
        say(&format!("waiting for the runs of {minute}"));
        tokio::time::sleep(all.unwrap_or_default()).await;
        rows.extend(judge(&stage, &seen, *minute, count));
    }
    let path = report::write("schedules", &rows).expect("target/bench can be written");
    say(&format!("done; {}", path.display()));
    println!("schedules: {count} templates\n\n{}", report::table(&rows));
    stage.end().await;
}

fn next_minute(at: Timestamp) -> Timestamp {
    Timestamp::from_second((at.as_second() / 60 + 1) * 60).expect("an instant")
}

fn judge(stage: &Stage, seen: &Seen, minute: Timestamp, count: usize) -> Vec<Row> {
    let suffix = format!("-{}", minute.as_second());
    let made = seen.of(&suffix);
    let after = |at: Timestamp| at.duration_since(minute).as_secs_f64() * 1000.0;
    let mut made_after: Vec<f64> = made.values().map(|at| after(*at)).collect();
    let starts: Vec<_> = made.keys().filter_map(|name| stage.arrivals.of(name)).collect();
    let mut sent_after: Vec<f64> = starts.iter().map(|start| after(start.wall)).collect();
    let case = format!("{count} templates, one minute");
    let missing = count.saturating_sub(made.len()) as f64;
    let mut rows = vec![
        row(&case, "runs not made within 50 s", "runs").ax(missing).at_most(0.0),
        row(&case, "runs not begun within 50 s", "runs").ax(count.saturating_sub(starts.len()) as f64),
    ];
    if !made_after.is_empty() && !sent_after.is_empty() {
        rows.extend([
            row(&case, "minute -> run made, p50", "ms").ax(percentile(&mut made_after, 50)),
            row(&case, "minute -> last run made", "ms").ax(percentile(&mut made_after, 100)).at_most(GOAL_MS),
            row(&case, "minute -> request at the worker, p50", "ms").ax(percentile(&mut sent_after, 50)),
            row(&case, "minute -> last request at the worker", "ms").ax(percentile(&mut sent_after, 100)),
        ]);
    }
    rows
}

/// When each run was first seen, by a watch of its own.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<HashMap<String, Timestamp>>>);

impl Seen {
    fn watch(stage: &Stage) -> Self {
        let seen = Self::default();
        let api: Api<PartialObjectMeta<AxTask>> = Api::namespaced(stage.ns.client.clone(), &stage.ns.name);
        let ours = seen.clone();
        tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
            while let Ok(event) = events.try_next().await {
                let Some(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = event else { continue };
                let name = object.metadata.name.unwrap_or_default();
                ours.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_insert_with(Timestamp::now);
            }
        });
        seen
    }

    fn of(&self, suffix: &str) -> BTreeMap<String, Timestamp> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|(name, _)| name.ends_with(suffix)).map(|(name, at)| (name.clone(), *at)).collect()
    }
}
