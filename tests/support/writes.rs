//! Counts what is written to tasks, by a watch from before their creation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::namespace::TestNamespace;
use super::{background, cluster, dump, wait};

/// Every state of every task of a namespace, as written. A watch does not merge writes: each is one event.
pub struct StatusWrites {
    seen: Arc<Mutex<HashMap<String, Vec<Seen>>>>,
    watching: JoinHandle<()>,
}

/// One state of a task.
#[derive(Debug, Clone)]
pub struct Seen {
    pub at: Instant,
    pub object: Value,
}

impl StatusWrites {
    /// From now on.
    pub async fn watch(ns: &TestNamespace) -> Self {
        let version = ns.raw("AxTask").list(&ListParams::default()).await.expect("tasks can be listed");
        let version = version.metadata.resource_version.unwrap_or_default();
        let seen: Arc<Mutex<HashMap<String, Vec<Seen>>>> = Arc::default();
        let (kubeconfig, name, record) = (ns.kubeconfig.clone(), ns.name.clone(), seen.clone());
        let watching = background::runtime().spawn(async move {
            let client = cluster::client(&kubeconfig).await;
            let kind = json!({"apiVersion": "ax.dev/v1alpha1", "kind": "AxTask"});
            let api = cluster::api_of(&client, &kind, Some(&name));
            let mut version = version;
            loop {
                let Ok(events) = api.watch(&WatchParams::default().timeout(290), &version).await else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let mut events = std::pin::pin!(events);
                while let Ok(Some(event)) = events.try_next().await {
                    if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                        version = object.metadata.resource_version.clone().unwrap_or_default();
                        let name = object.metadata.name.clone().unwrap_or_default();
                        let object = serde_json::to_value(&object).expect("JSON");
                        let mut record = record.lock().expect("no panic while held");
                        record.entry(name).or_default().push(Seen { at: Instant::now(), object });
                    }
                }
            }
        });
        Self { seen, watching }
    }

    pub fn history(&self, task: &str) -> Vec<Seen> {
        self.seen.lock().expect("no panic while held").get(task).cloned().unwrap_or_default()
    }

    /// Writes that changed the status.
    pub fn count(&self, task: &str) -> usize {
        self.history(task).windows(2).filter(|pair| pair[0].object["status"] != pair[1].object["status"]).count()
    }

    /// Phases in order, each once per stay.
    pub fn phases(&self, task: &str) -> Vec<String> {
        let mut phases: Vec<String> = Vec::new();
        for seen in self.history(task) {
            let phase = seen.object["status"]["phase"].as_str().unwrap_or("-").to_owned();
            if phases.last() != Some(&phase) {
                phases.push(phase);
            }
        }
        phases
    }

    /// `phase/reason` of every status write in order.
    pub fn steps(&self, task: &str) -> Vec<String> {
        let text = |seen: &Seen, field: &str| seen.object["status"][field].as_str().unwrap_or("-").to_owned();
        let steps: Vec<_> = self.history(task).iter().map(|s| (text(s, "phase"), text(s, "reason"))).collect();
        steps.into_iter().map(|(phase, reason)| format!("{phase}/{reason}")).collect()
    }

    /// Asserts that there were exactly `want` status writes, also a moment later.
    pub async fn assert_count(&self, task: &str, want: usize) {
        let what = format!("{want} status writes of task {task}");
        wait::until(&what, wait::secs(10), || self.count(task) >= want).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        let last = self.history(task).last().map(|seen| seen.object.clone());
        assert_eq!(
            self.count(task),
            want,
            "status writes of task {task}: {:?}; last: {}",
            self.steps(task),
            dump::line(last.as_ref())
        );
    }
}

impl Drop for StatusWrites {
    fn drop(&mut self) {
        self.watching.abort();
    }
}
