//! `AxTaskTemplate`: the standing definition tasks refer to. Pure.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AxTaskTemplateStatus, Duration, Retry, Work, Worker};

/// A standing definition: the worker and the defaults of the tasks that refer to it.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ax.dev",
    version = "v1alpha1",
    kind = "AxTaskTemplate",
    plural = "axtasktemplates",
    singular = "axtasktemplate",
    shortname = "axtt",
    category = "ax",
    namespaced,
    doc = "AxTaskTemplate is a standing definition: the worker and the defaults of the tasks that refer to it.",
    status = "AxTaskTemplateStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Running","type":"integer","jsonPath":".status.counts.running"}"#,
    printcolumn = r#"{"name":"Dead","type":"integer","jsonPath":".status.counts.dead"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Worker","type":"string","priority":1,"jsonPath":".spec.worker.deployment"}"#,
    printcolumn = r#"{"name":"Pods","type":"integer","priority":1,"jsonPath":".status.pool.pods"}"#,
    printcolumn = r#"{"name":"Credits","type":"integer","priority":1,"jsonPath":".status.pool.credits"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type=='Ready')].reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AxTaskTemplateSpec {
    /// The worker that runs the tasks. May change: the next attempt goes there.
    pub worker: Worker,
    /// Defaults for the tasks that refer to this template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_template: Option<TaskTemplate>,
}

/// Defaults for the tasks that refer to a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct TaskTemplate {
    /// Default values, field by field; retry by its own fields, work by topic and payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<TaskDefaults>,
}

/// The fields of an AxTask's spec that a template can supply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct TaskDefaults {
    /// What to do, for tasks that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// 0 to 9, 9 is the most urgent; 5 where neither task nor template says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9))]
    pub priority: Option<i32>,
    /// How long one attempt may take; more than 0s, at most 24h; 60s where neither task nor template says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "duration(self) > duration('0s') && duration(self) <= duration('24h')",
         "message": "timeout must be more than 0s and at most 24h"}
    ]))]
    pub timeout: Option<Duration>,
    /// What to do when an attempt fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}
