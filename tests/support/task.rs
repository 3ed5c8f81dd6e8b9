//! Making tasks and waiting for what becomes of them.

use std::time::{Duration, Instant};

use ax::api::{AxTask, Phase};
use futures::TryStreamExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::deployment::PORT;
use super::dump;
use super::namespace::TestNamespace;

/// A task in the making: `task("close-order").worker("order-worker").delay("5s").create(&ns).await`.
#[derive(Debug, Clone)]
pub struct TaskMaker {
    object: Value,
}

/// A task named `name`.
pub fn task(name: &str) -> TaskMaker {
    TaskMaker {
        object: json!({
            "apiVersion": "ax.dev/v1alpha1",
            "kind": "AxTask",
            "metadata": {"name": name},
            "spec": {},
        }),
    }
}

/// A task that the API server has accepted.
#[derive(Debug, Clone)]
pub struct Created {
    pub name: String,
    pub uid: String,
    /// Right before the create call was sent.
    pub sent_at: Instant,
    /// Wall clock of the same moment.
    pub sent_wall: jiff::Timestamp,
}

impl TaskMaker {
    /// For a worker Deployment that tests make: their port.
    pub fn worker(self, deployment: &str) -> Self {
        self.spec("worker", json!({"deployment": deployment, "port": PORT}))
    }

    pub fn template(self, template: &str) -> Self {
        self.spec("templateRef", json!({"name": template}))
    }

    pub fn topic(self, topic: &str) -> Self {
        self.at(&["spec", "work", "topic"], json!(topic))
    }

    pub fn payload(self, payload: Value) -> Self {
        self.at(&["spec", "work", "payload"], payload)
    }

    pub fn delay(self, delay: &str) -> Self {
        self.spec("delay", json!(delay))
    }

    pub fn run_at(self, at: jiff::Timestamp) -> Self {
        self.spec("runAt", json!(at.to_string()))
    }

    pub fn priority(self, priority: i32) -> Self {
        self.spec("priority", json!(priority))
    }

    pub fn timeout(self, timeout: &str) -> Self {
        self.spec("timeout", json!(timeout))
    }

    pub fn suspended(self) -> Self {
        self.spec("suspend", json!(true))
    }

    pub fn max_retries(self, retries: i32) -> Self {
        self.at(&["spec", "retry", "maxRetries"], json!(retries))
    }

    /// Without jitter.
    pub fn delays(self, delays: &[&str]) -> Self {
        self.at(&["spec", "retry", "delays"], json!(delays)).at(&["spec", "retry", "jitterPercent"], json!(0))
    }

    pub fn non_retryable(self, codes: &[&str]) -> Self {
        self.at(&["spec", "retry", "nonRetryable"], json!(codes))
    }

    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.at(&["metadata", "annotations", key], json!(value))
    }

    pub fn spec(self, field: &str, value: Value) -> Self {
        self.at(&["spec", field], value)
    }

    pub fn at(mut self, path: &[&str], value: Value) -> Self {
        let mut node = &mut self.object;
        for key in path {
            node = &mut node[*key];
        }
        *node = value;
        self
    }

    pub fn object(&self) -> Value {
        self.object.clone()
    }

    /// Sends the create call as it is, also if it is wrong.
    pub async fn try_create(&self, ns: &TestNamespace) -> kube::Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(self.object.clone()).expect("an object");
        ns.raw("AxTask").create(&PostParams::default(), &object).await
    }

    pub async fn create(&self, ns: &TestNamespace) -> Created {
        let (sent_at, sent_wall) = (Instant::now(), jiff::Timestamp::now());
        let made =
            self.try_create(ns).await.unwrap_or_else(|error| panic!("failed to create {}: {error}", self.object));
        let metadata = made.metadata;
        Created { name: metadata.name.unwrap_or_default(), uid: metadata.uid.unwrap_or_default(), sent_at, sent_wall }
    }

    /// The message with which the API server refuses it.
    pub async fn refused(&self, ns: &TestNamespace) -> String {
        match self.try_create(ns).await {
            Err(kube::Error::Api(status)) => status.message,
            Err(error) => panic!("expected a refusal of {}, got {error}", self.object),
            Ok(_) => panic!("expected a refusal of {}, but it was accepted", self.object),
        }
    }
}

impl TestNamespace {
    /// The task as it is now.
    pub async fn get(&self, name: &str) -> AxTask {
        self.tasks().get(name).await.unwrap_or_else(|error| panic!("failed to get task {name}: {error}"))
    }

    /// Merge patch on the spec, as `kubectl patch`.
    pub async fn patch_spec(&self, name: &str, spec: Value) {
        self.try_patch(name, json!({"spec": spec})).await.unwrap_or_else(|e| panic!("failed to patch {name}: {e}"));
    }

    pub async fn try_patch(&self, name: &str, patch: Value) -> kube::Result<DynamicObject> {
        self.raw("AxTask").patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// The message with which the API server refuses a merge patch.
    pub async fn refused_patch(&self, name: &str, patch: Value) -> String {
        match self.try_patch(name, patch.clone()).await {
            Err(kube::Error::Api(status)) => status.message,
            Err(error) => panic!("expected a refusal of {patch}, got {error}"),
            Ok(_) => panic!("expected a refusal of {patch}, but it was accepted"),
        }
    }

    pub async fn delete_task(&self, name: &str) {
        self.tasks().delete(name, &DeleteParams::default()).await.expect("a task can be deleted");
    }

    /// Waits for a phase. A final phase that is another one ends the wait at once.
    pub async fn wait_phase(&self, name: &str, want: Phase, limit: Duration) -> AxTask {
        let what = format!("phase {}", want.as_str());
        let reached = |task: &AxTask| {
            let phase = phase(task);
            phase == want || (phase.is_final() && !want.is_final())
        };
        let task = self.wait_described(name, &what, limit, |task| reached(task) || phase(task).is_final()).await;
        if phase(&task) != want {
            let value = serde_json::to_value(&task).ok();
            panic!("waited for {what} of task {name}, but it ended: {}", dump::line(value.as_ref()));
        }
        task
    }

    /// Waits for a phase and its reason.
    pub async fn wait_reason(&self, name: &str, want: Phase, reason: &str, limit: Duration) -> AxTask {
        let what = format!("phase {} and reason {reason}", want.as_str());
        self.wait_described(name, &what, limit, |task| phase(task) == want && self::reason(task) == reason).await
    }

    /// Waits until `holds`, by a watch.
    pub async fn wait_for(&self, name: &str, holds: impl Fn(&AxTask) -> bool, limit: Duration) -> AxTask {
        self.wait_described(name, "a condition of the test", limit, holds).await
    }

    pub async fn wait_described(
        &self,
        name: &str,
        what: &str,
        limit: Duration,
        holds: impl Fn(&AxTask) -> bool,
    ) -> AxTask {
        let mut last = None;
        let waited = tokio::time::timeout(limit, self.watch_until(name, &holds, &mut last)).await;
        match waited {
            Ok(task) => task,
            Err(_) => panic!("waited {limit:?} for {what} of task {name}; last seen: {}", dump::line(last.as_ref())),
        }
    }

    async fn watch_until(&self, name: &str, holds: &impl Fn(&AxTask) -> bool, last: &mut Option<Value>) -> AxTask {
        let api = self.raw("AxTask");
        let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(60);
        loop {
            // Version 0 begins with the object as it is, if it is there.
            let Ok(events) = api.watch(&params, "0").await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let mut events = std::pin::pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        let value = serde_json::to_value(&object).expect("JSON");
                        let task: AxTask = serde_json::from_value(value.clone()).expect("an AxTask");
                        *last = Some(value);
                        if holds(&task) {
                            return task;
                        }
                    }
                    WatchEvent::Deleted(_) => *last = None,
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(_) => break,
                }
            }
        }
    }
}

pub fn phase(task: &AxTask) -> Phase {
    task.status.as_ref().and_then(|status| status.phase).unwrap_or(Phase::Pending)
}

pub fn reason(task: &AxTask) -> &str {
    task.status.as_ref().and_then(|status| status.reason.as_deref()).unwrap_or_default()
}

pub fn message(task: &AxTask) -> &str {
    task.status.as_ref().and_then(|status| status.message.as_deref()).unwrap_or_default()
}

/// Number of attempts used.
pub fn attempts(task: &AxTask) -> i32 {
    task.status.as_ref().and_then(|status| status.attempt).unwrap_or(0)
}

/// Outcomes of the recorded attempts, in order of their numbers; `-` while one runs.
pub fn outcomes(task: &AxTask) -> Vec<&'static str> {
    let mut attempts: Vec<_> = task.status.iter().flat_map(|status| &status.attempts).collect();
    attempts.sort_by_key(|attempt| attempt.number);
    attempts.iter().map(|attempt| attempt.outcome.map_or("-", |outcome| outcome.as_str())).collect()
}

/// `True`, `False`, `Unknown`, or `-` where there is no such condition.
pub fn condition(task: &AxTask, kind: &str) -> String {
    let value = serde_json::to_value(task).expect("JSON");
    let conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or("-").to_owned()
}
