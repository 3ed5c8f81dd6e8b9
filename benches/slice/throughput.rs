//! Tasks per second with one object each, beside what the API server alone can do with the same calls.

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};

use crate::api::{IN_FLIGHT, Tasks, orders};
use crate::report::{Row, row};
use crate::stage::{Stage, delete_tasks};
use crate::support::TestNamespace;

const TASKS: usize = 3000;
/// Calls of each kind without ax.
const RAW: usize = 1500;
const LIMIT: Duration = Duration::from_secs(120);

/// Calls per second without any operator.
pub struct Ceiling {
    creates: f64,
    writes: f64,
    /// A create and one status write each.
    both: f64,
}

impl Ceiling {
    pub async fn measure() -> Self {
        let ns = TestNamespace::new("bench-ceiling").await;
        let tasks = Tasks::of(&ns);
        // Connections.
        tasks.create_all(orders("warm-up", 200, |order| order)).await;

        let begin = Instant::now();
        let created = tasks.create_all(orders("raw", RAW, |order| order)).await;
        let creates = per_second(RAW, begin.elapsed());

        let (status, begin) = (status(), Instant::now());
        let writes = created.iter().map(|(name, version)| tasks.write_status(name, version, &status));
        futures::stream::iter(writes).buffer_unordered(IN_FLIGHT).collect::<Vec<()>>().await;
        let writes = per_second(RAW, begin.elapsed());

        let both = create_and_write(&tasks).await;
        delete_tasks(&ns).await;
        Self { creates, writes, both }
    }

    /// Measured once more after ax, so that a machine that slows down or recovers meanwhile falsifies nothing.
    pub async fn again(self) -> Self {
        let ns = TestNamespace::new("bench-ceiling").await;
        let tasks = Tasks::of(&ns);
        tasks.create_all(orders("warm-up", 200, |order| order)).await;
        let both = create_and_write(&tasks).await;
        delete_tasks(&ns).await;
        Self { both: f64::midpoint(self.both, both), ..self }
    }
}

async fn create_and_write(tasks: &Tasks) -> f64 {
    let (status, begin) = (status(), Instant::now());
    let calls = orders("both", RAW, |order| order).into_iter().map(|(name, order)| {
        let status = &status;
        async move {
            let version = tasks.create(&order).await;
            tasks.write_status(&name, &version, status).await;
        }
    });
    futures::stream::iter(calls).buffer_unordered(IN_FLIGHT).collect::<Vec<()>>().await;
    per_second(RAW, begin.elapsed())
}

/// What ax did.
pub struct Throughput {
    per_second: f64,
    writes: f64,
    cpu_micros: f64,
}

impl Throughput {
    /// From the first create call to the last `Succeeded` in a status.
    pub async fn measure(stage: &Stage) -> Self {
        let (before, cpu) = (stage.seen.counts().succeeded, stage.leader().cpu());
        let begin = Instant::now();
        let creating = stage.tasks.create_all(orders("many", TASKS, |order| order));
        let all = stage.seen.wait("all tasks to succeed", LIMIT, |counts| counts.succeeded >= before + TASKS);
        let (_, counts) = tokio::join!(creating, all);
        let took = counts.last.expect("a change was seen") - begin;
        let cpu = stage.leader().cpu() - cpu;
        Self {
            per_second: per_second(TASKS, took),
            writes: stage.seen.writes_of("many-") as f64 / TASKS as f64,
            cpu_micros: cpu.as_secs_f64() * 1e6 / TASKS as f64,
        }
    }
}

pub fn rows(ax: &Throughput, ceiling: &Ceiling) -> Vec<Row> {
    let (alone, case) = ("the API server alone", "3000 tasks, 64 creates in flight");
    vec![
        row(alone, "creates", "/s").peer("64 in flight", ceiling.creates),
        row(alone, "status writes", "/s").peer("64 in flight", ceiling.writes),
        row(alone, "create and status write", "tasks/s").peer("64 in flight", ceiling.both),
        row(case, "tasks, first create to last Succeeded", "tasks/s")
            .ax(ax.per_second)
            .peer("create and status write", ceiling.both)
            .at_least_of_peer(0.6),
        row(case, "status writes per task", "writes").ax(ax.writes),
        row(case, "CPU of the leader per task", "us").ax(ax.cpu_micros),
    ]
}

fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// As the operator writes it for a short task.
fn status() -> Value {
    let at = "2025-01-01T00:00:00.000000Z";
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "observedGeneration": 1, "lastTransitionTime": at,
            "reason": "Succeeded", "message": "done in attempt 1",
        })
    };
    json!({
        "observedGeneration": 1,
        "phase": "Succeeded",
        "reason": "Succeeded",
        "message": "done in attempt 1",
        "conditions": [condition("Complete", "True"), condition("Failed", "False")],
        "readyTime": at,
        "startTime": at,
        "finishTime": at,
        "attempt": 1,
        "attempts": [{
            "number": 1, "pod": "order-worker-5d5c6f7b9c-abcde", "podUID": "5f3f3f0a-0000-4000-8000-000000000000",
            "term": 1, "outcome": "Succeeded", "sentTime": at, "timeoutTime": at, "finishTime": at,
        }],
        "result": "{\"ok\":true}",
        "term": 1,
    })
}
