//! The life of a task: the only place where a phase changes. Pure.
//!
//! ```text
//!              due                 sent                  success
//!   Pending ---------> Ready ----------------> Running -----------> Succeeded
//!      ^                 |  ^    refused          |  |
//!      | suspend, moved  |  +---------------------+  | failed, budget left
//!      +-----------------+  ^                        v
//!                           +------ backoff over -- Retrying
//!   cancel, from anywhere but a final phase --> Canceled
//!   failed without budget, not repeatable, too large, invalid, too late, a dependency failed --> Dead
//! ```
//!
//! [`Life::step`] is total: every event in every phase either moves the life on or is refused with a name. A recorded
//! outcome closes its attempt: afterwards only its success counts, and only while no later attempt has started.

mod event;
pub mod reason;
mod resume;
mod step;
#[cfg(test)]
mod tests;
mod wake;

use std::borrow::Cow;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use event::{Dependencies, Event, Rules, Sent, Shown};
pub use resume::Seen;
pub use step::{Refusal, Step, later};
pub use wake::{Wake, wake, write_at};

use crate::api::status::Dependency;
use crate::api::{Attempt, Outcome, Phase, TaskError};

/// How many attempts are kept in status.
pub const KEPT_ATTEMPTS: usize = 10;

/// One task's life. What status does not record is lost with the leader and found again by asking workers.
#[derive(Debug, Clone, PartialEq)]
pub struct Life {
    /// Where it stands.
    pub phase: Phase,
    /// Why, one of [`reason`].
    pub reason: Cow<'static, str>,
    /// Why, for people.
    pub message: String,
    /// The instant from which it may start.
    pub ready_at: Timestamp,
    /// Its place in the ready queue: when it last became due.
    pub queued_at: Timestamp,
    /// First send since creation or requeue that was not refused.
    pub start_time: Option<Timestamp>,
    /// When it ended.
    pub finish_time: Option<Timestamp>,
    /// When the backoff is over.
    pub next_attempt_at: Option<Timestamp>,
    /// Last attempt number used.
    pub attempt: u32,
    /// The number from which the budget counts.
    pub budget_from: u32,
    /// The last attempts.
    pub attempts: Vec<Attempt>,
    /// How often pods refused it.
    pub refusals: u32,
    /// What the worker answered.
    pub result: Option<String>,
    /// Whether that is cut.
    pub result_truncated: bool,
    /// Why the last attempt failed.
    pub error: Option<TaskError>,
    /// The spec says suspend.
    pub suspended: bool,
    /// The spec says cancel.
    pub cancel: bool,
    /// A newer run of its template takes its place: it ends as if the spec said cancel.
    pub replaced: bool,
    /// How long after `ready_at` the first attempt may start.
    pub deadline: Option<Duration>,
    /// The tasks that must have succeeded first.
    pub dependencies: Vec<Dependency>,
    /// Some of them have not.
    pub blocked: bool,
    /// When a cancel met a running attempt.
    pub cancel_asked_at: Option<Timestamp>,
    /// Since when it waits for the present reason.
    pub waiting_since: Timestamp,
    /// It has waited so long that a person must act.
    pub stalled: bool,
    /// The attempt under way.
    pub current: Option<Current>,
    /// When something last changed that a person could see.
    pub changed_at: Timestamp,
}

/// The attempt under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// Its number.
    pub number: u32,
    /// The pod it was sent to, by name.
    pub pod: String,
    /// That pod's uid.
    pub pod_uid: String,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// When it times out.
    pub timeout_at: Timestamp,
    /// Answered 409 on its first send: another attempt of this execution runs there, this one has not started.
    pub busy: bool,
    /// Whether `start_time` is this attempt's.
    pub first: bool,
}

/// Something a person is told by a Kubernetes Event, once the status that says the same is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// `Warning`, else `Normal`.
    pub warning: bool,
    /// CamelCase.
    pub reason: &'static str,
    /// What, why, what next; no bodies.
    pub note: String,
}

impl Life {
    /// A task nobody has acted on.
    pub fn new(ready_at: Timestamp, now: Timestamp) -> Self {
        Self {
            phase: Phase::Pending,
            reason: Cow::Borrowed(reason::DELAYED),
            message: String::new(),
            ready_at,
            queued_at: ready_at,
            start_time: None,
            finish_time: None,
            next_attempt_at: None,
            attempt: 0,
            budget_from: 0,
            attempts: Vec::new(),
            refusals: 0,
            result: None,
            result_truncated: false,
            error: None,
            suspended: false,
            cancel: false,
            replaced: false,
            deadline: None,
            dependencies: Vec::new(),
            blocked: false,
            cancel_asked_at: None,
            waiting_since: now,
            stalled: false,
            current: None,
            changed_at: now,
        }
    }

    /// The entry of an attempt, if it is still kept.
    pub fn entry_mut(&mut self, number: u32) -> Option<&mut Attempt> {
        self.attempts.iter_mut().find(|a| u32::try_from(a.number) == Ok(number))
    }

    /// The entry of an attempt, if it is still kept.
    pub fn entry(&self, number: u32) -> Option<&Attempt> {
        self.attempts.iter().find(|a| u32::try_from(a.number) == Ok(number))
    }

    /// The wall clock was set by `by`: instants that stand for a length of time move with it, so that it stays as long.
    /// `fixed`: the ready time is one that the user has named.
    pub fn clock_set(&mut self, by: SignedDuration, fixed: bool) {
        let moved = |at: Timestamp| at.saturating_add(by).unwrap_or(at);
        if !fixed {
            self.ready_at = moved(self.ready_at);
        }
        self.queued_at = moved(self.queued_at);
        self.waiting_since = moved(self.waiting_since);
        self.changed_at = moved(self.changed_at);
        self.next_attempt_at = self.next_attempt_at.map(moved);
        self.cancel_asked_at = self.cancel_asked_at.map(moved);
        if let Some(current) = &mut self.current {
            current.timeout_at = moved(current.timeout_at);
        }
    }

    /// The latest instant at which the first attempt may start, while that still matters.
    pub fn deadline_at(&self) -> Option<Timestamp> {
        let waits = self.start_time.is_none() && matches!(self.phase, Phase::Pending | Phase::Ready);
        self.deadline.filter(|_| waits).map(|deadline| later(self.ready_at, deadline))
    }

    /// How the last attempt ended, if it has.
    pub fn last_outcome(&self) -> Option<Outcome> {
        self.entry(self.attempt).and_then(|a| a.outcome)
    }
}
