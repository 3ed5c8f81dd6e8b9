//! Calls to the API server as cheap as they get, and a watch that decodes only what is counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ax::api::AxTask;
use futures::{StreamExt, TryStreamExt};
use http::HeaderValue;
use http::header::ACCEPT;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ObjectList, PartialObjectMeta, Request};
use kube::{Client, Resource};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::{TaskMaker, TestNamespace, cluster, task};

/// Calls under way at once.
pub const IN_FLIGHT: usize = 64;
/// The worker Deployment of every stage.
pub const WORKER: &str = "order-worker";
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Calls for the tasks of one namespace.
#[derive(Clone)]
pub struct Tasks {
    client: Client,
    namespace: String,
}

impl Tasks {
    pub fn of(ns: &TestNamespace) -> Self {
        Self { client: ns.client.clone(), namespace: ns.name.clone() }
    }

    /// Creates one task; returns its resourceVersion.
    pub async fn create(&self, task: &TaskMaker) -> String {
        let body = task.object().to_string().into_bytes();
        let request = self.request().create(&PostParams::default(), body).expect("a request");
        self.send(request).await
    }

    /// Creates all of them, [`IN_FLIGHT`] at a time; returns their names and versions.
    pub async fn create_all(&self, tasks: Vec<(String, TaskMaker)>) -> Vec<(String, String)> {
        let creates = tasks.into_iter().map(|(name, task)| async move { (name, self.create(&task).await) });
        futures::stream::iter(creates).buffer_unordered(IN_FLIGHT).collect().await
    }

    /// Writes a status as the operator does: a merge patch on a version.
    pub async fn write_status(&self, name: &str, version: &str, status: &Value) {
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "status": status}));
        let request =
            self.request().patch_subresource("status", name, &PatchParams::default(), &patch).expect("a request");
        self.send(request).await;
    }

    async fn send(&self, mut request: http::Request<Vec<u8>>) -> String {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(METADATA_ONLY));
        let meta: PartialObjectMeta<AxTask> = self.client.request(request).await.expect("the API server takes it");
        meta.metadata.resource_version.unwrap_or_default()
    }

    fn request(&self) -> Request {
        Request::new(AxTask::url_path(&(), Some(&self.namespace)))
    }
}

/// A task for the worker, with a payload as a shop would send it.
pub fn order(name: &str) -> TaskMaker {
    let payload = json!({"orderId": name, "customer": "c-20250101", "amount": 129.9, "currency": "EUR"});
    task(name).worker(WORKER).topic("order.close").payload(payload)
}

/// `count` tasks named after `prefix`.
pub fn orders(prefix: &str, count: usize, shape: impl Fn(TaskMaker) -> TaskMaker) -> Vec<(String, TaskMaker)> {
    let name = |n| format!("{prefix}-{n:05}");
    (0..count).map(|n| (name(n), shape(order(&name(n))))).collect()
}

/// What a watch from before the first create has seen.
pub struct Seen {
    shared: Arc<Shared>,
    watching: JoinHandle<()>,
}

struct Shared {
    tasks: Mutex<HashMap<String, Facts>>,
    changed: watch::Sender<Counts>,
}

#[derive(Debug, Default)]
struct Facts {
    writes: usize,
    succeeded: bool,
}

/// Of all tasks of the namespace.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Writes after the creation. Nobody but the operator writes here, and it writes the status alone.
    pub writes: usize,
    /// Tasks in phase `Succeeded`.
    pub succeeded: usize,
    /// When the last change was seen.
    pub last: Option<Instant>,
}

#[derive(Debug, Clone, Deserialize)]
struct Slim {
    metadata: SlimMeta,
    #[serde(default)]
    status: SlimStatus,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMeta {
    name: String,
    resource_version: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct SlimStatus {
    #[serde(default)]
    phase: String,
}

impl Seen {
    /// From now on.
    pub async fn watch(ns: &TestNamespace) -> Self {
        let path = AxTask::url_path(&(), Some(&ns.name));
        let client = cluster::client(ns.kubeconfig_path()).await;
        let list = Request::new(&path).list(&ListParams::default().limit(1)).expect("a request");
        let list: ObjectList<Slim> = client.request(list).await.expect("tasks can be listed");
        let mut version = list.metadata.resource_version.unwrap_or_default();
        let shared = Arc::new(Shared { tasks: Mutex::default(), changed: watch::Sender::default() });
        let record = shared.clone();
        let watching = tokio::spawn(async move {
            loop {
                let params = WatchParams::default().timeout(290);
                let request = Request::new(&path).watch(&params, &version).expect("a request");
                let events = client.request_events::<Slim>(request).await.expect("tasks can be watched");
                let mut events = std::pin::pin!(events);
                while let Ok(Some(event)) = events.try_next().await {
                    if let WatchEvent::Added(task) | WatchEvent::Modified(task) = event {
                        version.clone_from(&task.metadata.resource_version);
                        record.take(task);
                    }
                }
            }
        });
        Self { shared, watching }
    }

    pub fn counts(&self) -> Counts {
        *self.shared.changed.borrow()
    }

    /// Status writes of the tasks whose names begin so.
    pub fn writes_of(&self, prefix: &str) -> usize {
        let tasks = self.shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, facts)| facts.writes).sum()
    }

    /// Waits until the counts are as wanted.
    pub async fn wait(&self, what: &str, limit: Duration, holds: impl Fn(&Counts) -> bool) -> Counts {
        let mut changed = self.shared.changed.subscribe();
        match tokio::time::timeout(limit, changed.wait_for(holds)).await {
            Ok(counts) => *counts.expect("the watch goes on"),
            Err(_) => panic!("waited {limit:?} for {what}; seen: {:?}", self.counts()),
        }
    }
}

impl Shared {
    fn take(&self, task: Slim) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tasks.contains_key(&task.metadata.name);
        let facts = tasks.entry(task.metadata.name).or_default();
        let succeeded = task.status.phase == "Succeeded" && !facts.succeeded;
        facts.writes += usize::from(known);
        facts.succeeded |= succeeded;
        self.changed.send_modify(|counts| {
            counts.writes += usize::from(known);
            counts.succeeded += usize::from(succeeded);
            counts.last = Some(Instant::now());
        });
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.watching.abort();
    }
}
