//! Watches: each kind's events, in order, into one bounded channel. IO.
//!
//! A list that follows a gap is marked by `Restarted` and `Synced`, so that the receiver drops what vanished in the
//! gap: the API server sends no deletion for that.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tracing::warn;

use super::guarded::Guarded;
use crate::api::{AxTask, AxTaskTemplate};

/// Namespace a watch is limited to; `None`: the whole cluster.
pub type Scope = Option<String>;

/// Which kind a change is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Task,
    Template,
    Deployment,
    ReplicaSet,
    Pod,
}

impl Kind {
    /// All that are watched.
    pub const ALL: [Self; 5] = [Self::Task, Self::Template, Self::Deployment, Self::ReplicaSet, Self::Pod];
}

/// One step of a watch.
#[derive(Debug)]
pub enum Change {
    /// A list begins: what is not seen before `Synced` is gone.
    Restarted(Kind, Scope),
    /// The list is complete.
    Synced(Kind, Scope),
    /// A task is there; `live` if it was seen by the watch, not in a list.
    Task { task: Box<Guarded<AxTask>>, live: bool },
    /// A task is gone.
    TaskGone(Box<Guarded<AxTask>>),
    /// A template is there.
    Template(Box<Guarded<AxTaskTemplate>>),
    /// A template is gone.
    TemplateGone(Box<Guarded<AxTaskTemplate>>),
    /// A Deployment is there.
    Deployment(Box<Deployment>),
    /// A Deployment is gone.
    DeploymentGone(Box<Deployment>),
    /// A ReplicaSet is there.
    ReplicaSet(Box<ReplicaSetMeta>),
    /// A ReplicaSet is gone.
    ReplicaSetGone(Box<ReplicaSetMeta>),
    /// A pod is there.
    Pod(Box<Pod>),
    /// A pod is gone.
    PodGone(Box<Pod>),
}

/// Of a ReplicaSet only the metadata is fetched.
pub type ReplicaSetMeta = kube::core::PartialObjectMeta<ReplicaSet>;

/// Watches all kinds in `scope` until the receiver is dropped.
pub async fn run(client: Client, scope: Scope, changes: mpsc::Sender<Change>) {
    let tasks = follow(
        watcher(api::<Guarded<AxTask>>(&client, &scope), config()).boxed(),
        Kind::Task,
        &scope,
        &changes,
        |task, live| Change::Task { task, live },
        Change::TaskGone,
    );
    let templates = follow(
        watcher(api::<Guarded<AxTaskTemplate>>(&client, &scope), config()).boxed(),
        Kind::Template,
        &scope,
        &changes,
        |template, _| Change::Template(template),
        Change::TemplateGone,
    );
    let deployments = follow(
        watcher(api::<Deployment>(&client, &scope), config()).boxed(),
        Kind::Deployment,
        &scope,
        &changes,
        |deployment, _| Change::Deployment(deployment),
        Change::DeploymentGone,
    );
    let replica_sets = follow(
        watcher(api::<ReplicaSetMeta>(&client, &scope), config()).boxed(),
        Kind::ReplicaSet,
        &scope,
        &changes,
        |set, _| Change::ReplicaSet(set),
        Change::ReplicaSetGone,
    );
    let pods = follow(
        watcher(api::<Pod>(&client, &scope), config()).boxed(),
        Kind::Pod,
        &scope,
        &changes,
        |pod, _| Change::Pod(pod),
        Change::PodGone,
    );
    futures::join!(tasks, templates, deployments, replica_sets, pods);
}

/// Load balancers drop idle connections at 240 s: the watch ends itself before.
fn config() -> watcher::Config {
    watcher::Config::default().timeout(200)
}

fn api<K>(client: &Client, scope: &Scope) -> Api<K>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

type Stream<K> = futures::stream::BoxStream<'static, watcher::Result<watcher::Event<K>>>;

async fn follow<K>(
    stream: Stream<K>,
    kind: Kind,
    scope: &Scope,
    changes: &mpsc::Sender<Change>,
    there: fn(Box<K>, bool) -> Change,
    gone: fn(Box<K>) -> Change,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut stream = std::pin::pin!(stream);
    let mut failures = 0;
    while let Some(event) = stream.next().await {
        // `Init` comes before the first request of a new list, so it says nothing of the API server.
        if matches!(&event, Ok(event) if !matches!(event, watcher::Event::Init)) {
            failures = 0;
        }
        let change = match event {
            Ok(watcher::Event::Init) => Change::Restarted(kind, scope.clone()),
            Ok(watcher::Event::InitApply(object)) => there(slim(object), false),
            Ok(watcher::Event::InitDone) => Change::Synced(kind, scope.clone()),
            Ok(watcher::Event::Apply(object)) => there(slim(object), true),
            Ok(watcher::Event::Delete(object)) => gone(slim(object)),
            Err(error) => {
                warn!(kind = ?kind, error = %super::chain(&error), "watch interrupted; it is taken up again");
                // Too old a version is no failure: the list that follows is what mends it.
                if !is_expired(&error) {
                    tokio::time::sleep(wait(failures)).await;
                    failures += 1;
                }
                continue;
            }
        };
        if changes.send(change).await.is_err() {
            return;
        }
    }
}

/// Half a second, doubling to two: a leader must not be blind for long once the API server is back.
fn wait(failures: u32) -> Duration {
    Duration::from_millis(500 << failures.min(2))
}

fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchError(status) => status.code == 410,
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

fn slim<K: Resource>(mut object: K) -> Box<K> {
    object.meta_mut().managed_fields = None;
    Box::new(object)
}
