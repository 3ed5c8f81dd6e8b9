//! Deployments, ReplicaSets and pods, cut down to what the pools need. Pure.

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::annotation;
use crate::domain::pool::{Deployment, Pod, PoolKey};

/// A Deployment and its key. `None` without uid, which the API server always sets.
pub fn deployment(object: &apps::Deployment) -> Option<(PoolKey, Deployment)> {
    let key = PoolKey { namespace: object.metadata.namespace.clone()?, deployment: object.metadata.name.clone()? };
    let annotations = object.metadata.annotations.as_ref();
    let annotation = |name| annotations.and_then(|a| a.get(name)).map(|text| text.trim());
    let containers = object.spec.as_ref().and_then(|s| s.template.spec.as_ref()).map(|s| s.containers.as_slice());
    let ports = containers.unwrap_or_default().iter().flat_map(|c| c.ports.iter().flatten());
    let deployment = Deployment {
        uid: object.metadata.uid.clone()?,
        opted_in: annotation(annotation::WORKER) == Some("true"),
        credits: annotation(annotation::CREDITS_PER_POD)
            .and_then(|text| text.parse().ok())
            .filter(|credits| (1..=1000).contains(credits)),
        ports: ports.filter_map(|p| u16::try_from(p.container_port).ok()).collect(),
    };
    Some((key, deployment))
}

/// Uid of a ReplicaSet and of the Deployment that controls it.
pub fn replica_set(meta: &ObjectMeta) -> Option<(String, String)> {
    Some((meta.uid.clone()?, controller(meta, "Deployment")?))
}

/// A pod, if a ReplicaSet controls it.
pub fn pod(object: &core::Pod) -> Option<Pod> {
    let meta = &object.metadata;
    let status = object.status.as_ref();
    let running = status.and_then(|s| s.phase.as_deref()) == Some("Running");
    let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
    let containers = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    Some(Pod {
        namespace: meta.namespace.clone()?,
        name: meta.name.clone()?,
        uid: meta.uid.clone()?,
        replica_set: controller(meta, "ReplicaSet")?,
        ip: status.and_then(|s| s.pod_ip.as_deref()).and_then(|ip| ip.parse().ok()),
        ready: running && ready,
        terminating: meta.deletion_timestamp.is_some(),
        host_network: object.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false),
        containers: containers
            .iter()
            .filter(|c| serves(object, &c.name))
            .filter_map(|c| Some((c.name.clone(), c.container_id.clone().filter(|id| !id.is_empty())?)))
            .collect(),
    })
}

/// Whether a container may be the worker: it declares a port, or none of the pod does.
fn serves(pod: &core::Pod, name: &str) -> bool {
    let containers = pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default();
    let declares = |c: &core::Container| c.ports.as_ref().is_some_and(|ports| !ports.is_empty());
    !containers.iter().any(declares) || containers.iter().any(|c| c.name == name && declares(c))
}

fn controller(meta: &ObjectMeta, kind: &str) -> Option<String> {
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|o| o.controller == Some(true) && o.kind == kind).map(|o| o.uid.clone())
}
