//! When a life must be looked at again, and when it must be written. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::step::{CANCEL_GRACE, later};
use super::{Life, reason};
use crate::api::Phase;

/// How long a reason may last before a person must act.
const STALL_AFTER: Duration = Duration::from_secs(60);
/// A task due later than this gets one write that shows when.
const WORTH_SHOWING: Duration = Duration::from_secs(10);
/// A due task that waits longer is shown as Ready.
const SHOW_READY_AFTER: Duration = Duration::from_secs(1);
/// A running task that runs longer is shown as Running.
const SHOW_RUNNING_AFTER: Duration = Duration::from_millis(250);
/// Within this, status follows a spec edit.
const SHOW_EDIT_AFTER: Duration = Duration::from_millis(500);

/// What time does to a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// [`Event::Due`](super::Event::Due).
    Due,
    /// [`Event::Stall`](super::Event::Stall).
    Stall,
    /// [`Event::CancelGrace`](super::Event::CancelGrace).
    CancelGrace,
    /// [`Event::DeadlinePassed`](super::Event::DeadlinePassed).
    Deadline,
}

/// The next thing that time alone does to this life.
pub fn wake(life: &Life) -> Option<(Timestamp, Wake)> {
    let deadline = life.deadline_at().map(|at| (at, Wake::Deadline));
    // What becomes due at its deadline starts.
    [moves(life), deadline].into_iter().flatten().min_by_key(|(at, _)| *at)
}

fn moves(life: &Life) -> Option<(Timestamp, Wake)> {
    let stalls = reason::stalls(&life.reason) && !life.stalled;
    match life.phase {
        Phase::Pending if life.suspended => None,
        Phase::Pending if life.blocked => stalls.then(|| (later(life.waiting_since, STALL_AFTER), Wake::Stall)),
        Phase::Pending => Some((life.ready_at, Wake::Due)),
        Phase::Retrying if !life.suspended => life.next_attempt_at.map(|at| (at, Wake::Due)),
        Phase::Ready if stalls => Some((later(life.waiting_since, STALL_AFTER), Wake::Stall)),
        Phase::Running => life.cancel_asked_at.map(|at| (later(at, CANCEL_GRACE), Wake::CancelGrace)),
        Phase::Retrying | Phase::Ready => None,
        Phase::Succeeded | Phase::Canceled | Phase::Dead | Phase::Unknown => None,
    }
}

/// When what differs from the recorded status must be written; `None`: not yet, something else will come first.
///
/// A short task costs one write in all: only what lasts is shown before the end. `shown` says whether any status was
/// written yet, `edited` whether the spec is ahead of the recorded `observedGeneration`.
pub fn write_at(life: &Life, shown: bool, edited: bool, now: Timestamp) -> Option<Timestamp> {
    let at = match life.phase {
        Phase::Pending if life.suspended || !life.dependencies.is_empty() => Some(life.changed_at),
        Phase::Pending if shown || life.ready_at > later(life.changed_at, WORTH_SHOWING) => Some(life.changed_at),
        Phase::Pending => None,
        Phase::Ready => Some(later(life.changed_at, SHOW_READY_AFTER)),
        Phase::Running if life.cancel_asked_at.is_some() => Some(life.changed_at),
        Phase::Running => Some(later(life.changed_at, SHOW_RUNNING_AFTER)),
        Phase::Retrying => Some(life.changed_at),
        Phase::Succeeded | Phase::Canceled | Phase::Dead | Phase::Unknown => Some(life.changed_at),
    };
    let followed = (shown && edited).then(|| later(now, SHOW_EDIT_AFTER));
    match (at, followed) {
        (Some(at), Some(followed)) => Some(at.min(followed)),
        (at, followed) => at.or(followed),
    }
}
