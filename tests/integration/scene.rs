//! The usual stage: one namespace, one Deployment `w` of scripted workers, one operator.

use std::time::Duration;

use futures::StreamExt;

use crate::support::{Created, Operator, Reply, Request, Script, TaskMaker, TestNamespace, WorkerDeployment};

pub struct Scene {
    pub operator: Operator,
    pub script: Script,
    pub workers: WorkerDeployment,
    pub ns: TestNamespace,
}

/// How long an operator may take for what it does at once, on a machine that runs many tests.
pub const SOON: Duration = Duration::from_secs(20);

impl Scene {
    /// One pod with 30 credits whose workers answer by `rule`.
    pub async fn new(prefix: &str, rule: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(prefix, 1, 30, rule).await
    }

    pub async fn with(
        prefix: &str,
        replicas: i32,
        credits: u32,
        rule: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let ns = TestNamespace::new(prefix).await;
        let make = ns.workers("w").replicas(replicas).credits(credits).answering(rule);
        let ((workers, script), operator) = tokio::join!(make, ns.operator().start());
        Self { operator, script, workers, ns }
    }
}

/// Creates tasks 16 at a time; in the order given.
pub async fn create_all(ns: &TestNamespace, makers: Vec<TaskMaker>) -> Vec<Created> {
    let creating = makers.into_iter().map(|maker| async move { maker.create(ns).await });
    futures::stream::iter(creating).buffered(16).collect().await
}

/// Sorted: the value at `percent` of the way.
pub fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    values.sort();
    values[(values.len() * percent / 100).min(values.len() - 1)]
}
