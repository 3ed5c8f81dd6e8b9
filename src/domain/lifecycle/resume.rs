//! A life from what the status records: how a leader takes over. Pure.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;

use super::{Current, Life, reason};
use crate::api::{AxTaskStatus, Phase};

/// What the object says of itself besides its status.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// From the spec and the creation.
    pub ready_at: Timestamp,
    /// `spec.suspend`.
    pub suspend: bool,
    /// `spec.cancel`.
    pub cancel: bool,
    /// `startDeadline`.
    pub deadline: Option<Duration>,
}

impl Life {
    /// The life a status records. A `Running` whose attempt is not recorded counts as `Ready`.
    pub fn resume(status: &AxTaskStatus, seen: Seen, now: Timestamp) -> Self {
        let count = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let mut life = Self::new(seen.ready_at, now);
        life.attempt = count(status.attempt);
        life.budget_from = count(status.budget_from);
        life.attempts.clone_from(&status.attempts);
        life.refusals = count(status.refusals);
        life.start_time = status.start_time.map(|t| t.0);
        life.finish_time = status.finish_time.map(|t| t.0);
        life.next_attempt_at = status.next_attempt_time.map(|t| t.0);
        life.result.clone_from(&status.result);
        life.result_truncated = status.result_truncated.unwrap_or(false);
        life.error.clone_from(&status.error);
        life.suspended = seen.suspend;
        life.deadline = seen.deadline;
        life.dependencies.clone_from(&status.dependencies);
        life.phase = status.phase.unwrap_or(Phase::Pending);
        if let Some(ready_at) = status.ready_time.filter(|_| life.start_time.is_some() || life.phase.is_final()) {
            life.ready_at = ready_at.0;
        }
        life.queued_at = life.ready_at;
        match status.reason.as_ref() {
            Some(reason) => life.reason = Cow::Owned(reason.clone()),
            None => life.say_pending(now),
        }
        if let Some(message) = &status.message {
            life.message.clone_from(message);
        }
        if let Some(stalled) = status.conditions.iter().find(|c| c.type_ == "Stalled") {
            life.stalled = stalled.status == crate::api::ConditionStatus::True && !life.phase.is_final();
            life.waiting_since = stalled.last_transition_time.0.min(now);
        }
        let asked = status.conditions.iter().find(|c| c.type_ == "CancelRequested");
        life.replaced = asked.is_some_and(|c| c.reason == reason::REPLACED);
        match life.phase {
            Phase::Running => {
                life.current = life.recorded_current();
                life.cancel = asked.is_some() && (seen.cancel || life.replaced);
                life.cancel_asked_at = asked.filter(|_| life.cancel).map(|c| c.last_transition_time.0);
                if life.current.is_none() {
                    life.phase = Phase::Ready;
                }
            }
            Phase::Ready => {
                life.queued_at = life.entry(life.attempt).and_then(|a| a.finish_time).map_or(life.ready_at, |t| t.0)
            }
            Phase::Pending | Phase::Retrying => {}
            Phase::Succeeded | Phase::Canceled | Phase::Dead | Phase::Unknown => life.cancel = seen.cancel,
        }
        life
    }

    fn recorded_current(&self) -> Option<Current> {
        let entry = self.entry(self.attempt).filter(|a| a.outcome.is_none())?;
        let sent_at = entry.sent_time?.0;
        Some(Current {
            number: self.attempt,
            pod: entry.pod.clone()?,
            pod_uid: entry.pod_uid.clone()?,
            sent_at,
            timeout_at: entry.timeout_time.map_or(sent_at, |t| t.0),
            busy: false,
            first: self.start_time == Some(sent_at),
        })
    }
}
