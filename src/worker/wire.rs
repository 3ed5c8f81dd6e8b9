//! Names and bodies both sides of the worker protocol share. Pure.
//!
//! The contract itself is described in `docs/worker-protocol.md`; header names are lower case, as HTTP/1.1 lets
//! either side write them as it likes.

use serde::{Deserialize, Serialize};

/// CloudEvents version, `1.0`.
pub const CE_SPECVERSION: &str = "ce-specversion";
/// CloudEvents type, [`EVENT_TYPE`].
pub const CE_TYPE: &str = "ce-type";
/// Resource path of the task, `/apis/ax.dev/v1alpha1/namespaces/<ns>/axtasks/<name>`.
pub const CE_SOURCE: &str = "ce-source";
/// Execution id: the dedup key, the same for all attempts.
pub const CE_ID: &str = "ce-id";
/// Topic; chooses the handler.
pub const CE_SUBJECT: &str = "ce-subject";
/// Nominal time, RFC 3339 UTC: the same in every attempt.
pub const CE_TIME: &str = "ce-time";
/// Attempt number, decimal, from 1.
pub const CE_ATTEMPT: &str = "ce-axattempt";
/// Last attempt number that the retry budget allows, decimal.
pub const CE_MAX_ATTEMPTS: &str = "ce-axmaxattempts";
/// The leader's term, decimal: fencing.
pub const CE_TERM: &str = "ce-axterm";
/// What made the task due: [`Trigger`](crate::domain::effective::Trigger) by name.
pub const CE_TRIGGER: &str = "ce-axtrigger";
/// Name of the template, if the task refers to one.
pub const CE_TEMPLATE: &str = "ce-axtemplate";
/// Business trace id of the annotation `ax.dev/trace-id`.
pub const CE_TRACE_ID: &str = "ce-axtraceid";
/// The creator's trace, of the annotation `ax.dev/traceparent`.
pub const CE_TRACEPARENT: &str = "ce-traceparent";
/// W3C Trace Context of this attempt.
pub const TRACEPARENT: &str = "traceparent";
/// `"<execution id>"`, quoted (IETF draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// What remains of the attempt's timeout, a GEP-2257 duration.
pub const REQUEST_TIMEOUT: &str = "request-timeout";
/// Uid of the pod that is meant: pod IPs are reused.
pub const POD_UID: &str = "ax-pod-uid";
/// On an inventory question the asker's term; on a 412 the highest term seen.
pub const TERM: &str = "ax-term";
/// `true` or `false`: overrules whether a failure is retried.
pub const RETRYABLE: &str = "ax-retryable";
/// Room now: `"ax";r=7` (IETF draft-ietf-httpapi-ratelimit-headers).
pub const RATE_LIMIT: &str = "ratelimit";
/// Capacity: `"ax";q=16;qu="concurrent-requests"`.
pub const RATE_LIMIT_POLICY: &str = "ratelimit-policy";

/// Value of [`CE_TYPE`].
pub const EVENT_TYPE: &str = "dev.ax.task.run.v1";
/// Where a worker that keeps an inventory answers `GET`.
pub const INVENTORY_PATH: &str = "/ax/v1/executions";
/// A term more than this many milliseconds ahead of now is not believed.
pub const TERM_BELIEF_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// Largest request body, bytes.
pub const MAX_PAYLOAD: usize = 256 * 1024;
/// Largest part of a response body that is read, bytes.
pub const MAX_RESPONSE_READ: usize = 64 * 1024;

/// Answer to an inventory question: the executions running here, and those finished within 10 min, newest 1,000.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// One entry an execution.
    pub executions: Vec<InventoryEntry>,
}

/// One execution that a worker knows of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryEntry {
    /// Execution id.
    pub id: String,
    /// Attempt number.
    pub attempt: u32,
    /// Where it stands.
    pub state: InventoryState,
}

/// Where an execution stands at the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InventoryState {
    /// At work.
    Running,
    /// Handed back while draining; the hand-back is not yet acknowledged.
    Released,
    /// Done, its answer is in the journal.
    Finished,
    /// A state this version does not know; treated as running, the careful reading.
    #[serde(other)]
    Other,
}

/// An error body, RFC 9457 `application/problem+json`, with ax's members `code` and `log`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Machine-readable code, matched with `retry.nonRetryable`; at most 64 bytes are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// One line for people; at most 128 bytes are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// More for people; at most 1 KiB is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Tail of the log of the failed work; at most 2 KiB is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}
