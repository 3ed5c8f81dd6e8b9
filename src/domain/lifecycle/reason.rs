//! The words of `status.reason` and of the condition `Stalled`. Pure.

pub const DELAYED: &str = "Delayed";
pub const SUSPENDED: &str = "Suspended";
pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";
pub const DEPENDENCY_NOT_FOUND: &str = "DependencyNotFound";

pub const QUEUED: &str = "Queued";
pub const WAITING_FOR_CREDIT: &str = "WaitingForCredit";
pub const WAITING_FOR_KEY: &str = "WaitingForKey";
pub const MAX_CONCURRENT: &str = "MaxConcurrent";
pub const NO_READY_WORKERS: &str = "NoReadyWorkers";
pub const PODS_REFUSING: &str = "PodsRefusing";
pub const WORKER_NOT_FOUND: &str = "WorkerNotFound";
pub const WORKER_NOT_OPTED_IN: &str = "WorkerNotOptedIn";
pub const PORT_NOT_DECLARED: &str = "PortNotDeclared";
pub const TEMPLATE_NOT_FOUND: &str = "TemplateNotFound";

pub const DISPATCHED: &str = "Dispatched";
pub const CANCEL_REQUESTED: &str = "CancelRequested";
pub const BACKOFF: &str = "Backoff";

pub const SUCCEEDED: &str = "Succeeded";
pub const REQUESTED: &str = "Requested";
pub const REPLACED: &str = "Replaced";

pub const RETRIES_EXHAUSTED: &str = "RetriesExhausted";
pub const NON_RETRYABLE: &str = "NonRetryable";
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
pub const DEPENDENCY_FAILED: &str = "DependencyFailed";
pub const DEPENDENCY_CYCLE: &str = "DependencyCycle";
pub const PAYLOAD_TOO_LARGE: &str = "PayloadTooLarge";
pub const INVALID: &str = "Invalid";

/// Whether a task that waits for this needs a person, once it has waited for a minute.
pub fn stalls(reason: &str) -> bool {
    known_stall(reason).is_some()
}

/// The same word, if a task that waits for it stalls.
pub fn known_stall(reason: &str) -> Option<&'static str> {
    let all = [TEMPLATE_NOT_FOUND, WORKER_NOT_FOUND, WORKER_NOT_OPTED_IN, PORT_NOT_DECLARED, DEPENDENCY_NOT_FOUND];
    all.into_iter().find(|known| *known == reason)
}
