//! From the create call to the worker: without a delay, and with one.

use std::time::Duration;

use futures::StreamExt;

use crate::api::order;
use crate::report::{Row, millis, percentile, row};
use crate::stage::{SOON, Stage};

const TASKS: usize = 200;
/// Before the first that counts: connections, caches.
const WARM_UP: usize = 20;
/// Creates of delayed tasks under way at once: few, so that a task does not wait long for its own creation.
const CREATES: usize = 4;
/// Longest delay, milliseconds.
const LONGEST: u64 = 2000;

/// One task after another, each when the one before has ended and is written.
pub async fn submit(stage: &Stage) -> Vec<Row> {
    let mut took = Vec::new();
    for n in 0..WARM_UP + TASKS {
        let prefix = if n < WARM_UP { "warm-up" } else { "submit" };
        let name = format!("{prefix}-{n:03}");
        let before = stage.seen.counts().succeeded;
        let created = order(&name).create(&stage.ns).await;
        let arrival = stage.arrivals.wait(&name, |arrivals| arrivals.of(&name)).await;
        stage.seen.wait(&name, SOON, |counts| counts.succeeded > before).await;
        if n >= WARM_UP {
            took.push(millis(arrival.at - created.sent_at));
        }
    }
    let writes = stage.seen.writes_of("submit-") as f64 / TASKS as f64;
    let case = "submit, no delay, idle";
    vec![
        row(case, "create sent to request at the worker, p50", "ms").ax(percentile(&mut took, 50)).at_most(10.0),
        row(case, "the same, p99", "ms").ax(percentile(&mut took, 99)).at_most(30.0),
        row(case, "status writes per task", "writes").ax(writes).at_most(1.0),
    ]
}

/// Created one after another as fast as a few connections go, each due after a random time of up to 2 s.
pub async fn delays(stage: &Stage) -> Vec<Row> {
    let mut creating = Vec::new();
    let before = stage.seen.counts().succeeded;
    for (n, delay) in random_millis().take(TASKS).enumerate() {
        let task = order(&format!("delay-{n:03}")).delay(&format!("{delay}ms"));
        creating.push(async move { (task.create(&stage.ns).await, Duration::from_millis(delay)) });
    }
    let created: Vec<_> = futures::stream::iter(creating).buffer_unordered(CREATES).collect().await;
    stage.seen.wait("the delayed tasks", SOON, |counts| counts.succeeded >= before + TASKS).await;

    let (mut from_create, mut decided, mut arrived, mut early) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (created, delay) in created {
        let arrival = stage.arrivals.of(&created.name).expect("it has succeeded");
        let since = arrival.at - created.sent_at;
        early += usize::from(since < delay);
        from_create.push(millis(since) - millis(delay));
        let status = stage.ns.get(&created.name).await.status.expect("it has succeeded");
        let ready = status.ready_time.expect("a ready time").0;
        let sent = status.attempts.first().expect("an attempt").sent_time.expect("a sent time").0;
        decided.push(sent.duration_since(ready).as_secs_f64() * 1000.0);
        arrived.push(arrival.wall.duration_since(ready).as_secs_f64() * 1000.0);
    }
    let case = "200 delays, 0 to 2000 ms";
    vec![
        row(case, "ready time to sent time, p50", "ms").ax(percentile(&mut decided, 50)),
        row(case, "ready time to sent time, p99", "ms").ax(percentile(&mut decided, 99)).at_most(20.0),
        row(case, "ready time to request at the worker, p50", "ms").ax(percentile(&mut arrived, 50)),
        row(case, "ready time to request at the worker, p99", "ms").ax(percentile(&mut arrived, 99)),
        row(case, "create sent + delay to request at the worker, p50", "ms").ax(percentile(&mut from_create, 50)),
        row(case, "create sent + delay to request at the worker, p99", "ms").ax(percentile(&mut from_create, 99)),
        row(case, "early", "tasks").ax(early as f64).at_most(0.0),
    ]
}

/// The same in every run, so that runs can be compared.
fn random_millis() -> impl Iterator<Item = u64> {
    let mut state = 20_250_101_u64;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 33) % (LONGEST + 1))
    })
}
