//! `AxTask.status`: what ax answers. Written by the leader alone. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, Instant};

/// What has become of the task. Written by ax alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(oldSelf.phase) || !(oldSelf.phase in ['Succeeded', 'Canceled']) || (has(self.phase) && self.phase == oldSelf.phase)",
     "message": "Succeeded and Canceled are final"}
]))]
pub struct AxTaskStatus {
    /// The generation of the spec that this status answers to; kept up also when final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Where the task stands. Pending: not due or not yet allowed. Ready: due, waits for a place. Running: sent to a
    /// pod. Retrying: the last attempt failed, the next is scheduled. Succeeded, Canceled: final. Dead: dead letter,
    /// kept for a person. Unknown: it may have run. For people; automation uses conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Pending"))]
    pub phase: Option<Phase>,
    /// Why it stands there, one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,
    /// Why, for people, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub message: Option<String>,
    /// Facts for automation: Complete, Failed, Stalled, Suspended, CancelRequested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The instant from which it may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_time: Option<Instant>,
    /// First send since creation or the last requeue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Instant>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Instant>,
    /// When the next attempt is scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_time: Option<Instant>,
    /// When ax deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<Instant>,
    /// The last attempt number used; numbers are never reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub attempt: Option<i32>,
    /// The attempt number from which the retry budget counts; raised by a requeue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub budget_from: Option<i32>,
    /// The last 10 attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["number"]))]
    pub attempts: Vec<Attempt>,
    /// How often a pod refused it (full, draining, out of reach). A refusal uses no attempt up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub refusals: Option<i32>,
    /// How far the running attempt says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What the worker answered, JSON text, at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub result: Option<String>,
    /// True: the result was longer and is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_truncated: Option<bool>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// The tasks it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub dependencies: Vec<Dependency>,
    /// Term of the leader that wrote this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub term: Option<i64>,
    /// Annotation values that have been acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled: Option<Handled>,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Phase {
    Pending,
    Ready,
    Running,
    Retrying,
    Succeeded,
    Canceled,
    Dead,
    Unknown,
}

impl Phase {
    /// Whether nothing but a person moves the task on.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Canceled | Self::Dead | Self::Unknown)
    }

    /// The name, as in status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Ready => "Ready",
            Self::Running => "Running",
            Self::Retrying => "Retrying",
            Self::Succeeded => "Succeeded",
            Self::Canceled => "Canceled",
            Self::Dead => "Dead",
            Self::Unknown => "Unknown",
        }
    }
}

/// One attempt: one decision to have the task run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Attempt {
    /// 1, 2, 3 ...; never reused.
    #[schemars(range(min = 1))]
    pub number: i32,
    /// Pod it was sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pod: Option<String>,
    /// Uid of that pod.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub pod_uid: Option<String>,
    /// Callback address of the replica that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub sender: Option<String>,
    /// Term of the leader that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub term: Option<i64>,
    /// When the request was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_time: Option<Instant>,
    /// When it times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_time: Option<Instant>,
    /// When its outcome was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Instant>,
    /// How it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Error code, such as HTTP500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub code: Option<String>,
    /// What went wrong, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub message: Option<String>,
    /// Tail of the failed work's log, at most 2 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub log: Option<String>,
    /// Members a newer version wrote; they survive.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

impl Attempt {
    /// An attempt of which only the number is known.
    pub fn numbered(number: i32) -> Self {
        Self {
            number,
            pod: None,
            pod_uid: None,
            sender: None,
            term: None,
            sent_time: None,
            timeout_time: None,
            finish_time: None,
            outcome: None,
            code: None,
            message: None,
            log: None,
            unknown: serde_json::Map::new(),
        }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Outcome {
    Succeeded,
    Failed,
    TimedOut,
    WorkerLost,
    Canceled,
    Unknown,
}

impl Outcome {
    /// The name, as in status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::TimedOut => "TimedOut",
            Self::WorkerLost => "WorkerLost",
            Self::Canceled => "Canceled",
            Self::Unknown => "Unknown",
        }
    }
}

/// Why an attempt failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct TaskError {
    /// Machine-readable code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub code: Option<String>,
    /// One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub title: Option<String>,
    /// More.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub detail: Option<String>,
}

/// How far the running attempt says it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Progress {
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: Option<i32>,
    /// What it does now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}

/// One task that this one waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Dependency {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its uid, pinned once it has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uid: Option<String>,
    /// Whether it has succeeded.
    #[serde(default)]
    pub satisfied: bool,
}

/// Annotation values that have been acted on; each acts once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Handled {
    /// Last value of ax.dev/requeue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub requeue: Option<String>,
    /// Last value of ax.dev/run-now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub run_now: Option<String>,
    /// Last value of ax.dev/resolve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub resolve: Option<String>,
}
