//! What every figure of the operator is measured on: a namespace, four pods that answer at once, a leader and a standby.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::api::{DeleteParams, ListParams};
use tokio::sync::watch;

use crate::api::{Seen, Tasks, WORKER};
use crate::support::wait::secs;
use crate::support::{Inventory, Operator, Reply, Script, TestNamespace};

const PODS: i32 = 4;
const CREDITS: u32 = 30;
/// How long a figure waits for anything.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Stage {
    pub operators: Vec<Operator>,
    /// Index of the one that leads.
    pub leader: usize,
    pub arrivals: Arrivals,
    pub seen: Seen,
    pub tasks: Tasks,
    pub ns: TestNamespace,
}

impl Stage {
    pub async fn new(prefix: &str) -> Self {
        Self::with_credits(prefix, CREDITS).await
    }

    /// With so many places in each pod.
    pub async fn with_credits(prefix: &str, credits: u32) -> Self {
        let ns = TestNamespace::new(prefix).await;
        let arrivals = Arrivals::default();
        let rule = arrivals.clone();
        let script = Script::with_inventory(Inventory::Kept, move |request| {
            let arrival = Arrival { at: request.at, wall: request.wall, term: request.term() };
            rule.record(request.task(), arrival);
            Reply::ok()
        });
        ns.workers(WORKER).replicas(PODS).credits(credits).scripted(&script).await;
        let operators = ns.operator().start_many(2).await;
        let leader = ns.wait_leader(&operators, SOON).await;
        // It looks round before it sends.
        tokio::time::sleep(secs(1)).await;
        let (seen, tasks) = (Seen::watch(&ns).await, Tasks::of(&ns));
        Self { operators, leader, arrivals, seen, tasks, ns }
    }

    pub fn leader(&self) -> &Operator {
        &self.operators[self.leader]
    }

    /// As [`Stage::end`]; says so if the lead changed hands though nobody was to die.
    pub async fn end_of_one_reign(self) {
        let now = self.ns.wait_leader(&self.operators, SOON).await;
        let terms: BTreeSet<u64> = self.arrivals.all().iter().map(|arrival| arrival.term).collect();
        if now != self.leader || terms.len() > 1 {
            eprintln!("bench: the lead changed hands meanwhile, so busy is the machine: these figures say little");
        }
        self.end().await;
    }

    /// Takes everything down, so that the next figure finds the API server at rest.
    pub async fn end(self) {
        let Self { operators, ns, seen, .. } = self;
        drop(operators);
        drop(seen);
        delete_tasks(&ns).await;
    }
}

/// One call, however many there are.
pub async fn delete_tasks(ns: &TestNamespace) {
    let deleted = ns.tasks().delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    deleted.expect("tasks can be deleted");
}

/// Requests that arrived at the workers.
#[derive(Clone, Default)]
pub struct Arrivals(Arc<Inner>);

#[derive(Default)]
struct Inner {
    by_task: Mutex<HashMap<String, Vec<Arrival>>>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub at: Instant,
    /// Wall clock of the same moment.
    pub wall: jiff::Timestamp,
    pub term: u64,
}

impl Arrivals {
    fn record(&self, task: &str, arrival: Arrival) {
        self.0.by_task.lock().unwrap_or_else(PoisonError::into_inner).entry(task.to_owned()).or_default().push(arrival);
        self.0.count.send_modify(|count| *count += 1);
    }

    pub fn of(&self, task: &str) -> Option<Arrival> {
        self.0.by_task.lock().unwrap_or_else(PoisonError::into_inner).get(task)?.first().copied()
    }

    /// All requests, in order of arrival.
    pub fn all(&self) -> Vec<Arrival> {
        let by_task = self.0.by_task.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arrival> = by_task.values().flatten().copied().collect();
        all.sort_by_key(|arrival| arrival.at);
        all
    }

    /// Waits until some requests are as wanted, and returns what was picked.
    pub async fn wait<T>(&self, what: &str, pick: impl Fn(&Self) -> Option<T>) -> T {
        let mut count = self.0.count.subscribe();
        let waited = tokio::time::timeout(SOON, async {
            loop {
                count.borrow_and_update();
                if let Some(picked) = pick(self) {
                    return picked;
                }
                count.changed().await.expect("arrivals go on");
            }
        });
        waited.await.unwrap_or_else(|_| panic!("waited {SOON:?} for {what}"))
    }
}
