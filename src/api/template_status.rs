//! `AxTaskTemplate.status`. Written by the leader alone. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, Instant};

/// What has become of the template. Written by ax alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AxTaskTemplateStatus {
    /// The generation of the spec that this status answers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Facts for automation: Ready, Stalled, WorkersAvailable and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Nominal time of the next run, or of one that is still being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Instant>,
    /// Nominal time of the last run that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Instant>,
    /// When a run last succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_time: Option<Instant>,
    /// When a run last ended Dead or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_time: Option<Instant>,
    /// Runs that failed in a row up to now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub consecutive_failures: Option<i32>,
    /// Tasks that refer to the template, by phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Runs that were not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// The worker pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
    /// Annotation values that have been acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled: Option<TemplateHandled>,
}

/// Tasks by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Counts {
    /// Not due or not yet allowed.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub pending: i32,
    /// Due, waiting for a place.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub ready: i32,
    /// Sent to a pod.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub running: i32,
    /// Waiting for the next attempt.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub retrying: i32,
    /// Ended well.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub succeeded: i32,
    /// Canceled.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub canceled: i32,
    /// Dead letters.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub dead: i32,
    /// May have run.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub unknown: i32,
}

/// Runs that were not made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Missed {
    /// How many.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub total: i64,
    /// The last one's nominal time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_time: Option<Instant>,
    /// Why the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,
}

/// The worker pods of the template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Pool {
    /// Ready pods.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub pods: i32,
    /// Places in them.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub credits: i32,
    /// Executions live there.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub live: i32,
}

/// Annotation values that have been acted on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct TemplateHandled {
    /// Last value of ax.dev/trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub trigger: Option<String>,
}
