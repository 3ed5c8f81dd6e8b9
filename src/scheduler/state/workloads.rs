//! What the API server says of Deployments, ReplicaSets and pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;

use super::State;
use crate::cluster::watch::{Kind, ReplicaSetMeta};
use crate::cluster::workloads;
use crate::domain::dispatch::Order;
use crate::domain::pool::PoolKey;
use crate::scheduler::input::Output;

impl State {
    pub(super) fn observe_deployment(&mut self, object: &Deployment) {
        let Some((key, deployment)) = workloads::deployment(object) else { return };
        self.note_listed(Kind::Deployment, Some(&key.namespace), &deployment.uid);
        if self.pools.deployment(&key) == Some(&deployment) {
            return;
        }
        self.pools.set_deployment(key.clone(), deployment);
        self.pool_changed(&key);
    }

    pub(super) fn forget_deployment(&mut self, object: &Deployment) {
        let Some((key, deployment)) = workloads::deployment(object) else { return };
        self.drop_deployment(&key, &deployment.uid);
    }

    pub(super) fn drop_deployment(&mut self, key: &PoolKey, uid: &str) {
        self.pools.drop_deployment(key, uid);
        self.pool_changed(key);
        if self.lines.get(key).is_some_and(|line| line.queue.is_empty() && line.blocked.is_empty()) {
            self.lines.remove(key);
        }
    }

    pub(super) fn observe_replica_set(&mut self, object: &ReplicaSetMeta) {
        let Some((uid, deployment)) = workloads::replica_set(&object.metadata) else { return };
        self.note_listed(Kind::ReplicaSet, object.metadata.namespace.as_deref(), &uid);
        self.pools.set_replica_set(uid, deployment);
        // Its pods may have been seen before it.
        self.stir_namespace(object.meta().namespace.as_deref());
    }

    pub(super) fn forget_replica_set(&mut self, object: &ReplicaSetMeta) {
        self.pools.drop_replica_set(object.metadata.uid.as_deref().unwrap_or_default());
        self.stir_namespace(object.metadata.namespace.as_deref());
    }

    pub(super) fn observe_pod(&mut self, object: &Pod) {
        let Some(pod) = workloads::pod(object) else { return };
        self.note_listed(Kind::Pod, Some(&pod.namespace), &pod.uid);
        let uid = pod.uid.clone();
        let before = self.pools.set_pod(pod);
        let Some(after) = self.pools.pod(&uid) else { return };
        if before.as_ref() == Some(after) {
            return;
        }
        let restarted = before.as_ref().is_some_and(|before| after.restarted_since(before));
        let key = self.pools.key_of(after).cloned();
        if restarted {
            self.cut(&uid, "its container restarted");
        }
        if let Some(key) = key {
            self.pool_seen(&key);
        }
    }

    pub(super) fn forget_pod(&mut self, uid: &str) {
        let key = self.pools.pod(uid).and_then(|pod| self.pools.key_of(pod)).cloned();
        if self.pools.drop_pod(uid).is_none() {
            return;
        }
        self.cut(uid, "its pod is gone");
        if self.books.get(uid).is_some_and(|books| books.live() == 0) {
            self.books.remove(uid);
        }
        if let Some(key) = key {
            self.pool_seen(&key);
        }
    }

    /// Nobody there will answer what was sent before now.
    fn cut(&mut self, uid: &str, why: &'static str) {
        self.out.push(Output::Order(Order::Cut { pod: Arc::from(uid), why }));
        let executions =
            self.books.get(uid).map(|books| books.executions().map(|(id, _)| *id).collect::<BTreeSet<_>>());
        for execution in executions.unwrap_or_default() {
            if let Some(id) = self.by_execution.get(&execution).copied() {
                self.lose_presumed(id, why);
            }
        }
    }

    /// The Deployment itself changed: what its tasks wait for may have.
    pub(super) fn pool_changed(&mut self, key: &PoolKey) {
        self.touch_pool(key);
        let Some(line) = self.lines.get(key) else { return };
        for id in self.in_ready_order(line.blocked.iter().copied().chain(line.queue.ids())) {
            self.leave_line(id);
            self.settle(id);
        }
        self.pool_seen(key);
    }

    /// Its pods changed.
    fn pool_seen(&mut self, key: &PoolKey) {
        self.touch_pool(key);
        self.queue_sees(key);
        self.stirred.insert(key.clone());
    }

    fn stir_namespace(&mut self, namespace: Option<&str>) {
        let keys = self.lines.keys().filter(|key| Some(key.namespace.as_str()) == namespace).cloned();
        for key in keys.collect::<BTreeSet<_>>() {
            self.pool_seen(&key);
        }
    }
}
