//! What can happen to a task. Pure.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::Outcome;
use crate::api::status::Dependency;
use crate::domain::answer::Failure;
use crate::domain::effective::RetryRules;

/// What can happen to a task.
#[derive(Debug, Clone)]
pub enum Event {
    /// What the spec says now: on creation and on each edit.
    Wanted {
        /// `spec.suspend`.
        suspend: bool,
        /// `spec.cancel`.
        cancel: bool,
        /// From `spec.delay` or `spec.runAt`.
        ready_at: Timestamp,
        /// `startDeadline`.
        deadline: Option<Duration>,
    },
    /// How the tasks stand that it waits for.
    Dependencies(Dependencies),
    /// Its deadline has passed.
    DeadlinePassed,
    /// A newer run of its template takes its place.
    Replaced {
        /// The newer one.
        by: String,
    },
    /// The ready time has come, or the backoff is over.
    Due,
    /// It is due, and waits for this.
    Waits {
        /// One of [`reason`](super::reason).
        reason: &'static str,
        /// The same for people.
        message: String,
    },
    /// It has waited so long that a person must act.
    Stall,
    /// It was sent to a pod.
    Sent(Sent),
    /// The pod refused: nothing ran.
    Refused {
        /// Which attempt.
        number: u32,
        /// Why, for people.
        why: String,
    },
    /// Answered 409 on its first send: an earlier attempt runs there.
    Busy {
        /// Which attempt.
        number: u32,
    },
    /// The pod that answered 409 is gone: this attempt never started.
    NeverStarted {
        /// Which attempt.
        number: u32,
    },
    /// An attempt succeeded.
    Succeeded {
        /// Which attempt.
        number: u32,
        /// What the worker answered.
        result: Option<String>,
        /// Whether that is cut.
        truncated: bool,
    },
    /// An attempt ended otherwise.
    Failed {
        /// Which attempt.
        number: u32,
        /// `Failed`, `TimedOut` or `WorkerLost`.
        outcome: Outcome,
        /// Why.
        failure: Failure,
    },
    /// A running attempt did not end within 30 s of the cancel.
    CancelGrace,
    /// It can never run.
    Bury {
        /// `PayloadTooLarge` or `Invalid`.
        reason: &'static str,
        /// What is wrong and what to do.
        message: String,
    },
    /// A worker's inventory lists an attempt whose send is not recorded, or recorded for another pod.
    Shown(Shown),
}

/// How the tasks stand that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependencies {
    /// Each, those that have succeeded with their uid.
    pub list: Vec<Dependency>,
    /// What keeps it from becoming due: one of [`reason`](super::reason), and the same for people.
    pub waits: Option<(&'static str, String)>,
}

/// A send.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Name of the pod.
    pub pod: String,
    /// Uid of the pod.
    pub pod_uid: String,
    /// Term of the sender.
    pub term: u64,
    /// When the attempt times out.
    pub timeout_at: Timestamp,
}

/// An attempt that a pod lists.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Its number.
    pub number: u32,
    /// Name of the pod.
    pub pod: String,
    /// Uid of the pod.
    pub pod_uid: String,
    /// Term of the leader that asked.
    pub term: u64,
    /// When the attempt times out, if its send is not recorded.
    pub timeout_at: Timestamp,
}

/// What a step needs to know besides the event.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// When a failure is repeated.
    pub retry: RetryRules,
    /// Chance, in `0..=2_000_000`, for the jitter.
    pub roll: u32,
}
