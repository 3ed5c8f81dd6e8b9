//! `AxTaskTemplate`: the standing definition tasks refer to and runs are made from. Pure.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AxTaskTemplateStatus, Duration, Instant, Retry, Work, Worker};

/// A standing definition: the worker and the defaults of the tasks that refer to it, and when runs are made from it.
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
    doc = "AxTaskTemplate is a standing definition: the worker and the defaults of the tasks that refer to it, and when runs are made from it.",
    status = "AxTaskTemplateStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Schedule","type":"string","jsonPath":".spec.schedule.cron"}"#,
    printcolumn = r#"{"name":"Suspend","type":"boolean","jsonPath":".spec.suspend"}"#,
    printcolumn = r#"{"name":"Next","type":"string","jsonPath":".status.nextScheduleTime"}"#,
    printcolumn = r#"{"name":"Last","type":"date","jsonPath":".status.lastScheduleTime"}"#,
    printcolumn = r#"{"name":"Running","type":"integer","jsonPath":".status.counts.running"}"#,
    printcolumn = r#"{"name":"Dead","type":"integer","jsonPath":".status.counts.dead"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Every","type":"string","priority":1,"jsonPath":".spec.schedule.every"}"#,
    printcolumn = r#"{"name":"Zone","type":"string","priority":1,"jsonPath":".spec.schedule.timeZone"}"#,
    printcolumn = r#"{"name":"Worker","type":"string","priority":1,"jsonPath":".spec.worker.deployment"}"#,
    printcolumn = r#"{"name":"Pods","type":"integer","priority":1,"jsonPath":".status.pool.pods"}"#,
    printcolumn = r#"{"name":"Credits","type":"integer","priority":1,"jsonPath":".status.pool.credits"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type=='Ready')].reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AxTaskTemplateSpec {
    /// The worker that runs the tasks. May change: the next attempt goes there.
    pub worker: Worker,
    /// What runs are made of, and the defaults of the tasks that refer to this template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_template: Option<TaskTemplate>,
    /// When runs are made. Without it only tasks that refer to the template, and ax.dev/trigger, use it. An edit counts
    /// from now on: it never makes a run for an instant that has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    /// What happens when a run is due while another run of this template is open (not ended). Allow: both run. Forbid:
    /// the new one is skipped. Replace: the open ones end as Canceled. Queue: they run one at a time, in order.
    /// Default: Allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// At most this many tasks that refer to the template run at once, whoever made them, 1 to 100000. Default: no
    /// limit but the workers' places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_concurrent: Option<i32>,
    /// True: the schedule makes no run; what is open goes on. Time spent suspended is not made up later.
    #[serde(default)]
    #[schemars(extend("default" = false))]
    pub suspend: bool,
    /// How many ended runs are kept; older ones are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
}

/// When runs are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.cron) != has(self.every)",
     "message": "exactly one of schedule.cron and schedule.every must be set"},
    {"rule": "!has(self.timeZone) || has(self.cron)",
     "message": "schedule.timeZone goes with schedule.cron; schedule.every knows no zone"},
    {"rule": "!has(self.anchor) || has(self.every)",
     "message": "schedule.anchor goes with schedule.every; a cron expression needs none"}
]))]
pub struct ScheduleSpec {
    /// Five fields: minute hour day-of-month month day-of-week, such as 30 8 * * 1-5; or @hourly, @daily, @weekly,
    /// @monthly, @yearly. Exactly one of cron and every.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 128),
        extend("x-kubernetes-validations" = [
            {"rule": "self.matches('^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$') || self.matches('^[0-9A-Za-z*?,/-]+( +[0-9A-Za-z*?,/-]+){4}$')",
             "message": "schedule.cron must have five fields (minute hour day-of-month month day-of-week) of digits, names, * ? , / and -, or be one of @hourly @daily @midnight @weekly @monthly @yearly @annually; seconds, years, L, W, #, TZ= and @every are not known; the zone goes into schedule.timeZone"}
        ])
    )]
    pub cron: Option<String>,
    /// A fixed interval, at least 1s, such as 15m. Counts from anchor. Exactly one of cron and every.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "duration(self) >= duration('1s')", "message": "schedule.every must be at least 1s"}
    ]))]
    pub every: Option<Duration>,
    /// The instant from which every counts, RFC 3339. Default: the template's creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
    ))]
    pub anchor: Option<Instant>,
    /// IANA name of the zone whose local time cron means, such as Europe/Berlin. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 64),
        regex(pattern = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"),
        extend("x-kubernetes-validations" = [
            {"rule": "self != 'Local'", "message": "schedule.timeZone must be an IANA name such as Europe/Berlin; Local would differ from host to host"}
        ])
    )]
    pub time_zone: Option<String>,
    /// How many missed runs are made up after ax could not make them in time (the newest ones, oldest first), 0 to
    /// 100. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub catch_up: Option<i32>,
    /// Each run is made up to this much later than its nominal time, always the same for one template, so that
    /// templates with one schedule do not all start at once; at most 24h. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "duration(self) <= duration('24h')", "message": "schedule.spread must be at most 24h"}
    ]))]
    pub spread: Option<Duration>,
}

/// What happens when a run is due while another is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ConcurrencyPolicy {
    #[default]
    Allow,
    Forbid,
    Replace,
    Queue,
}

/// How many ended runs are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct History {
    /// Succeeded runs, 0 to 1000. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub succeeded: Option<i32>,
    /// Canceled runs, 0 to 1000. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub canceled: Option<i32>,
    /// Dead and Unknown runs, 0 to 1000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub dead: Option<i32>,
}

/// What runs are made of, and the defaults of the tasks that refer to a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct TaskTemplate {
    /// Labels and annotations of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RunMetadata>,
    /// Default values, field by field; retry by its own fields, work by topic and payload. Runs carry a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<TaskDefaults>,
}

/// Labels and annotations of the runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RunMetadata {
    /// Labels, at most 64. A value that Kubernetes does not accept keeps runs from being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations, at most 64 of at most 4096 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 4096}))]
    pub annotations: Option<BTreeMap<String, String>>,
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
    /// How long after its ready time (of a run: its nominal time, and its part of the spread) the first attempt may
    /// still start; more than 0s. A missed run whose deadline has passed is not made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "duration(self) > duration('0s')", "message": "startDeadline must be more than 0s"}
    ]))]
    pub start_deadline: Option<Duration>,
    /// Names of AxTasks of this namespace that must have succeeded first, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub depends_on: Option<Vec<String>>,
    /// At most one task with this key runs at a time in the namespace. 1 to 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f\x7f]+$"))]
    pub concurrency_key: Option<String>,
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
