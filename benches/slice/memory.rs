//! What the leader costs while nothing is due.

use crate::api::orders;
use crate::report::{Row, row};
use crate::stage::{SOON, Stage};
use crate::support::Operator;
use crate::support::wait::secs;

const PENDING: usize = 10_000;
const QUIET_SECONDS: u64 = 30;

pub async fn measure(stage: &Stage) -> Vec<Row> {
    let mib = |operator: &Operator| operator.rss_kib() as f64 / 1024.0;
    let idle = mib(stage.leader());
    stage.tasks.create_all(orders("pending", PENDING, |order| order.delay("24h"))).await;
    // Each is shown once, and that it is due tomorrow needs no second write.
    stage.seen.wait("every task to be shown", SOON, |counts| counts.writes >= PENDING).await;
    tokio::time::sleep(secs(3)).await;
    let (loaded, writes, cpu) = (mib(stage.leader()), stage.seen.counts().writes, stage.leader().cpu());
    tokio::time::sleep(secs(QUIET_SECONDS)).await;
    let cpu = stage.leader().cpu() - cpu;
    let quiet_writes = stage.seen.counts().writes - writes;
    let standby = mib(&stage.operators[1 - stage.leader]);
    let fresh = stage.ns.operator().start().await;
    tokio::time::sleep(secs(1)).await;
    let case = "10000 pending tasks";
    vec![
        row("no tasks", "resident memory of the leader", "MiB").ax(idle),
        row(case, "resident memory of the leader", "MiB").ax(loaded),
        row(case, "resident memory of the standby", "MiB").ax(standby),
        row(case, "resident memory of a standby that starts now", "MiB").ax(mib(&fresh)),
        row(case, "status writes per task", "writes").ax(writes as f64 / PENDING as f64),
        row(case, "status writes in 30 quiet seconds", "writes").ax(quiet_writes as f64).at_most(0.0),
        row(case, "CPU of the leader in 30 quiet seconds", "s").ax(cpu.as_secs_f64()),
    ]
}
