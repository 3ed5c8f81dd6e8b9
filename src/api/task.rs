//! `AxTask`: one task to run, and what the user may say about it. Pure.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AxTaskStatus, Duration, Instant, Payload};

/// One task: what to do, when, and by which worker. ax holds it until it is due, pushes it to a ready pod of the
/// worker Deployment, and records attempts, retries and the end in `status`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ax.dev",
    version = "v1alpha1",
    kind = "AxTask",
    plural = "axtasks",
    singular = "axtask",
    shortname = "axt",
    category = "ax",
    namespaced,
    doc = "AxTask is one task to run: what to do, when, and by which worker.",
    status = "AxTaskStatus",
    derive = "PartialEq",
    selectable = ".status.phase",
    selectable = ".spec.templateRef.name",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.reason"}"#,
    printcolumn = r#"{"name":"Due","type":"string","jsonPath":".status.readyTime"}"#,
    printcolumn = r#"{"name":"Attempts","type":"integer","jsonPath":".status.attempt"}"#,
    printcolumn = r#"{"name":"Progress","type":"integer","jsonPath":".status.progress.percent"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Priority","type":"integer","priority":1,"jsonPath":".spec.priority"}"#,
    printcolumn = r#"{"name":"Topic","type":"string","priority":1,"jsonPath":".spec.work.topic"}"#,
    printcolumn = r#"{"name":"Template","type":"string","priority":1,"jsonPath":".spec.templateRef.name"}"#,
    printcolumn = r#"{"name":"Pod","type":"string","priority":1,"jsonPath":".status.attempts[-1:].pod"}"#,
    printcolumn = r#"{"name":"Finished","type":"date","priority":1,"jsonPath":".status.finishTime"}"#,
    printcolumn = r#"{"name":"Message","type":"string","priority":1,"jsonPath":".status.message"}"#,
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.startTime) || (has(self.spec.delay) == has(oldSelf.spec.delay) \
         && (!has(self.spec.delay) || self.spec.delay == oldSelf.spec.delay))"
    ).message("spec.delay may change only before the first start; create a new task instead"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.startTime) || (has(self.spec.runAt) == has(oldSelf.spec.runAt) \
         && (!has(self.spec.runAt) || self.spec.runAt == oldSelf.spec.runAt))"
    ).message("spec.runAt may change only before the first start; create a new task instead"),
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.startTime) \
         || (has(self.spec.startDeadline) == has(oldSelf.spec.startDeadline) \
         && (!has(self.spec.startDeadline) || self.spec.startDeadline == oldSelf.spec.startDeadline))"
    ).message("spec.startDeadline may change only before the first start; create a new task instead"),
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.templateRef) != has(self.worker)",
     "message": "exactly one of spec.templateRef and spec.worker must be set"},
    {"rule": "!(has(self.delay) && has(self.runAt))",
     "message": "at most one of spec.delay and spec.runAt may be set"},
    {"rule": "has(self.templateRef) == has(oldSelf.templateRef) && (!has(self.templateRef) || self.templateRef == oldSelf.templateRef)",
     "message": "spec.templateRef may not change; create a new task instead"},
    {"rule": "has(self.worker) == has(oldSelf.worker) && (!has(self.worker) || self.worker == oldSelf.worker)",
     "message": "spec.worker may not change; create a new task instead"},
    {"rule": "has(self.work) == has(oldSelf.work) && (!has(self.work) || self.work == oldSelf.work)",
     "message": "spec.work (topic and payload) may not change; create a new task instead"},
    {"rule": "has(self.dependsOn) == has(oldSelf.dependsOn) && (!has(self.dependsOn) || self.dependsOn == oldSelf.dependsOn)",
     "message": "spec.dependsOn may not change; create a new task instead"},
    {"rule": "has(self.concurrencyKey) == has(oldSelf.concurrencyKey) && (!has(self.concurrencyKey) || self.concurrencyKey == oldSelf.concurrencyKey)",
     "message": "spec.concurrencyKey may not change; create a new task instead"},
    {"rule": "!has(oldSelf.cancel) || !oldSelf.cancel || (has(self.cancel) && self.cancel)",
     "message": "spec.cancel stays true once it is true; create a new task instead"}
]))]
pub struct AxTaskSpec {
    /// The AxTaskTemplate that supplies the worker and the defaults. A live reference: an attempt is sent with what
    /// the template says at that moment. Exactly one of templateRef and worker. May not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
    /// The worker that runs the task. Exactly one of templateRef and worker. May not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Worker>,
    /// What to do. May not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Wait this long after creation, such as 30m; never starts early. At most one of delay and runAt; neither means
    /// due at once. May change before the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Start at this instant, RFC 3339 with any offset, such as 2026-12-01T08:00:00Z; an instant in the past means
    /// due at once. At most one of delay and runAt. May change before the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
    ))]
    pub run_at: Option<Instant>,
    /// How long after its ready time the first attempt may still start, such as 10m; more than 0s. What has not
    /// started by then, whatever it waits for, ends Dead with DeadlineExceeded. It binds no retry. Default: the
    /// template's, else no limit. May change before the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "duration(self) > duration('0s')", "message": "startDeadline must be more than 0s"}
    ]))]
    pub start_deadline: Option<Duration>,
    /// Names of AxTasks of this namespace that must have succeeded first, 1 to 100. One that ends otherwise ends this
    /// one Dead with DependencyFailed; one that does not exist yet is waited for. Default: the template's. May not
    /// change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub depends_on: Option<Vec<String>>,
    /// At most one task with this key runs at a time in the namespace; the others wait in the order of their ready
    /// times. Free between attempts. 1 to 128 characters. Default: the template's. May not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f\x7f]+$"))]
    pub concurrency_key: Option<String>,
    /// 0 to 9, 9 is the most urgent. Default: the template's, else 5. May change at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9))]
    pub priority: Option<i32>,
    /// How long one attempt may take, from the request having been sent; more than 0s, at most 24h. Default: the
    /// template's, else 60s. A change holds from the next attempt on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "duration(self) > duration('0s') && duration(self) <= duration('24h')",
         "message": "timeout must be more than 0s and at most 24h"}
    ]))]
    pub timeout: Option<Duration>,
    /// What to do when an attempt fails. Each field defaults by itself to the template's. A change holds from the
    /// next attempt on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// True: cancel the task. Once true it stays true. What is not running ends at once, what runs when the worker
    /// is done or after 30 s; a success that is recorded first wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// True: no new attempt starts. What runs goes on. False: go on; a due time that has passed meanwhile is due at
    /// once. May change at any time.
    #[serde(default)]
    #[schemars(extend("default" = false))]
    pub suspend: bool,
}

/// Refers to a template of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct TemplateRef {
    /// Name of an AxTaskTemplate in the task's namespace. It need not exist yet.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
}

/// Where the work is sent: the ready pods of one Deployment in the task's own namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Worker {
    /// Name of a Deployment in the same namespace. It must carry the annotation ax.dev/worker: "true"; without it
    /// nothing is ever sent. It need not exist yet.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub deployment: String,
    /// Port to send to, 1 to 65535; must be a containerPort declared in the Deployment. Default: 8080.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Path to send to, at most 256 characters. Default: /.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = r"^/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*$"))]
    pub path: Option<String>,
}

/// What to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Work {
    /// Chooses the handler in the worker, such as order.close. Default: the template's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f\x7f]+$"))]
    pub topic: Option<String>,
    /// Any JSON, at most 256 KiB. The worker gets it as the API server gives it back: 1.0 as 1, integers beyond int64
    /// rounded (send those as strings). Default: the template's. Everyone who may read the task can see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

/// When and how often a failed attempt is repeated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Retry {
    /// Attempts after the first, 0 to 100. Default: the template's, else 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_retries: Option<i32>,
    /// Waits before retry 1, 2, 3 ...; past the end the last one repeats. 1 to 20 entries. Default: the template's,
    /// else 30s, 2m, 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub delays: Option<Vec<Duration>>,
    /// Spreads each wait by up to this many percent either way, 0 to 100. Default: the template's, else 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub jitter_percent: Option<i32>,
    /// Error codes that end the task at once, such as CardRevoked or HTTP500. At most 32 of at most 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub non_retryable: Option<Vec<String>>,
}
