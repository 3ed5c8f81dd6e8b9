//! How long nothing starts when the leader dies, and when it is told to go.

use std::time::Instant;

use crate::api::{order, orders};
use crate::report::{Row, row};
use crate::stage::{SOON, Stage};
use crate::support::wait::{millis, secs};

const DELAYED: usize = 100;
const STREAMED: usize = 300;

pub async fn measure(stage: &mut Stage) -> Vec<Row> {
    // 1. kill -9. Its tasks come due while nobody leads.
    stage.tasks.create_all(orders("delayed", DELAYED, |order| order.delay("3s"))).await;
    let killed = Instant::now();
    stage.leader().kill9();
    let first = stage.arrivals.wait("a start after the kill", |arrivals| arrivals.all().first().copied()).await;
    let kill_gap = first.at - killed;
    stage.seen.wait("the delayed tasks", SOON, |counts| counts.succeeded >= DELAYED).await;
    let starts = stage.arrivals.all().len();

    // 2. SIGTERM, in a stream of tasks that are due at once.
    stage.operators.extend(stage.ns.operator().start_many(1).await);
    stage.leader = stage.ns.wait_leader(&stage.operators, SOON).await;
    tokio::time::sleep(secs(1)).await;
    let before = stage.arrivals.all().iter().map(|arrival| arrival.term).max().unwrap_or(0);
    let stage = &*stage;
    let stream = async {
        for n in 0..STREAMED {
            order(&format!("streamed-{n:03}")).create(&stage.ns).await;
            tokio::time::sleep(millis(8)).await;
        }
    };
    let go = async {
        tokio::time::sleep(millis(500)).await;
        let told = Instant::now();
        stage.leader().sigterm();
        let newer = |arrival: &crate::stage::Arrival| arrival.term > before;
        let first = stage.arrivals.wait("a start after SIGTERM", |arrivals| arrivals.all().into_iter().find(newer));
        first.await.at - told
    };
    let ((), term_gap) = tokio::join!(stream, go);
    stage.seen.wait("the streamed tasks", SOON, |counts| counts.succeeded >= DELAYED + STREAMED).await;
    let starts = stage.arrivals.all().len().max(starts);
    let twice = starts.saturating_sub(DELAYED + STREAMED);
    vec![
        row("kill -9 of the leader", "kill to first start", "s").ax(kill_gap.as_secs_f64()).at_most(7.0),
        row("SIGTERM of the leader", "signal to the successor's first start", "s")
            .ax(term_gap.as_secs_f64())
            .at_most(1.0),
        row("both takeovers, 400 tasks", "started twice", "tasks").ax(twice as f64).at_most(0.0),
    ]
}
