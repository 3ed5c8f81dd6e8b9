//! The installed operator: who leads, its pods, their processes and logs.

use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use crate::cluster::{Cluster, archive, output};
use crate::support::eventually;
use crate::support::wait::{millis, secs};

pub const NAMESPACE: &str = "ax-system";
pub const SELECTOR: &str = "app.kubernetes.io/name=ax-operator";
const REPLICAS: usize = 2;

/// As the README says.
pub fn apply(cluster: &Cluster) -> Result<(), String> {
    cluster.kubectl(&["apply", "--server-side", "-k", "config/default"]).map(drop)
}

/// Applied, rolled out, and what runs then is what is to be tested.
pub fn install(cluster: &Cluster) -> Result<(), String> {
    apply(cluster)?;
    let established = ["wait", "--for=condition=Established", "--timeout=30s"];
    cluster.kubectl(&[&established[..], &["crd/axtasks.ax.dev", "crd/axtasktemplates.ax.dev"]].concat())?;
    if runs_another_image(cluster)? {
        cluster.kubectl(&["-n", NAMESPACE, "rollout", "restart", "deploy/ax-operator"])?;
    }
    let status = ["-n", NAMESPACE, "rollout", "status", "deploy/ax-operator", "--timeout=180s"];
    cluster.kubectl(&status).map(drop)
}

/// Whether a pod may run something else than the archive: left by an earlier run. A cluster that is not from here does
/// not say which archive an image is from.
fn runs_another_image(cluster: &Cluster) -> Result<bool, String> {
    let ids = "jsonpath={range .items[*]}{.status.containerStatuses[*].imageID}{\"\\n\"}{end}";
    let ids = cluster.kubectl(&["-n", NAMESPACE, "get", "pods", "-l", SELECTOR, "-o", ids])?;
    let mut ids = ids.lines().filter(|id| !id.is_empty());
    if !cluster.is_own() {
        return Ok(ids.next().is_some());
    }
    let mut command = Command::new("tar");
    command.args(["--extract", "--to-stdout", "--file"]).arg(archive("ax-operator")).arg("manifest.json");
    let manifest: serde_json::Value = serde_json::from_str(&output(command)?).map_err(|error| error.to_string())?;
    let config = manifest[0]["Config"].as_str().and_then(|file| file.strip_suffix(".json"));
    let config = config.ok_or_else(|| format!("an archive without a config: {manifest}"))?;
    Ok(ids.any(|id| !id.contains(config)))
}

fn pods_api(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Its pods, once all are ready, none is going, and one of them leads. The leader comes first.
pub async fn settled(client: &Client) -> Vec<Pod> {
    eventually("two ready operators, one of them leading", secs(90), || async {
        tokio::time::sleep(millis(100)).await;
        let pods = pods_api(client).list(&ListParams::default().labels(SELECTOR)).await;
        let mut pods = pods.map_err(|error| error.to_string())?.items;
        let states: Vec<String> = pods.iter().map(state).collect();
        let holder = holder(client).await?;
        let leads = |pod: &Pod| holder.split('_').next() == Some(&pod.name_any());
        let well = pods.len() == REPLICAS && pods.iter().all(is_ready);
        pods.sort_by_key(|pod| !leads(pod));
        match well && leads(&pods[0]) {
            true => Ok(pods),
            false => Err(format!("holder {holder:?}, pods {states:?}")),
        }
    })
    .await
}

/// The replica that leads: its pod's name, and what tells apart its containers.
async fn holder(client: &Client) -> Result<String, String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = leases.get("ax-leader").await.map_err(|error| error.to_string())?;
    Ok(lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn state(pod: &Pod) -> String {
    let going = if pod.metadata.deletion_timestamp.is_some() { " (going)" } else { "" };
    format!("{}: ready {}{going}", pod.name_any(), is_ready(pod))
}

pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|status| status.restart_count).sum()
}

/// The pid, on this machine, of the one process in a pod of a cluster from here.
pub fn pid(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let id = statuses.filter_map(|status| status.container_id.as_deref()).next().expect("a container");
    let (_, id) = id.split_once("://").expect("RUNTIME://ID");
    let is_its = |pid: &i32| {
        let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        cgroup.contains(id)
    };
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids: Vec<i32> = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_its).collect();
    match pids[..] {
        [pid] => pid,
        _ => panic!("one process in container {id} expected, found {pids:?}"),
    }
}

/// What the API server did not let it do, by the logs of its pods of now, and of their containers before.
pub fn forbidden(cluster: &Cluster) -> Vec<String> {
    let pods = ["get", "pods", "--namespace", NAMESPACE, "-l", SELECTOR, "-o", "name"];
    let pods = cluster.kubectl(&pods).unwrap_or_else(|error| panic!("{error}"));
    let mut refusals = Vec::new();
    for pod in pods.lines() {
        let logs = ["logs", "--namespace", NAMESPACE, pod];
        let now = cluster.kubectl(&logs).unwrap_or_else(|error| panic!("{error}"));
        assert!(now.contains("\"started\""), "{pod} logs what it does: {now}");
        // Fails where there was no container before.
        let before = cluster.kubectl(&[&logs[..], &["--previous"]].concat()).unwrap_or_default();
        let lines = now.lines().chain(before.lines());
        refusals.extend(lines.filter(|line| line.to_lowercase().contains("forbidden")).map(str::to_owned));
    }
    refusals
}
