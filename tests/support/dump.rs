//! What a failed test leaves to read: tasks, pods, events, the ends of the logs.

use std::fmt::Write as _;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::{cluster, process};

const TASKS: usize = 12;
const LOG_LINES: usize = 60;

/// Writes the state of a namespace to stderr.
pub async fn state(client: &Client, namespace: &str, dir: &Path) {
    let mut text = format!("\n===== state of namespace {namespace}\n");
    for kind in ["AxTaskTemplate", "AxTask"] {
        let kind = json!({"apiVersion": "ax.dev/v1alpha1", "kind": kind});
        let api = cluster::api_of(client, &kind, Some(namespace));
        match api.list(&ListParams::default()).await {
            Ok(list) => {
                let count = list.items.len();
                for mut object in list.items.into_iter().take(TASKS) {
                    object.managed_fields_mut().clear();
                    let _ = writeln!(text, "---\n{}", serde_yaml::to_string(&object).unwrap_or_default());
                }
                if count > TASKS {
                    let _ = writeln!(text, "--- and {} more", count - TASKS);
                }
            }
            Err(error) => _ = writeln!(text, "failed to list: {error}"),
        }
    }
    if let Ok(pods) = Api::<Pod>::namespaced(client.clone(), namespace).list(&ListParams::default()).await {
        for pod in pods {
            let status = pod.status.clone().unwrap_or_default();
            let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready").map(|c| c.status.clone());
            let _ = writeln!(
                text,
                "pod {} ip {:?} ready {ready:?} terminating {}",
                pod.name_any(),
                status.pod_ip,
                pod.metadata.deletion_timestamp.is_some()
            );
        }
    }
    if let Ok(events) = Api::<Event>::namespaced(client.clone(), namespace).list(&ListParams::default()).await {
        for event in events.iter().filter(|event| event.reporting_controller.as_deref() == Some("ax-operator")) {
            let regarding = event.regarding.as_ref().and_then(|object| object.name.clone());
            let _ = writeln!(text, "event {:?} {:?}: {:?}", regarding, event.reason, event.note);
        }
    }
    let mut logs: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    for log in logs {
        let name = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(text, "===== {name}\n{}", process::tail(&log, LOG_LINES));
    }
    eprintln!("{text}");
}

/// One line about a task, for messages.
pub fn line(task: Option<&Value>) -> String {
    let Some(task) = task else { return "no such object".to_owned() };
    let status = &task["status"];
    format!(
        "phase {} reason {} attempt {} message {} attempts {}",
        status["phase"], status["reason"], status["attempt"], status["message"], status["attempts"]
    )
}
