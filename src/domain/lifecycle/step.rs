//! The transition function. Pure.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;

use super::event::{Dependencies, Event, Rules, Sent, Shown};
use super::{Current, KEPT_ATTEMPTS, Life, Notice, reason};
use crate::api::{Attempt, Instant, Outcome, Phase, TaskError};
use crate::domain::answer::Failure;
use crate::domain::retry;

/// How long a cancel waits for a running attempt.
pub const CANCEL_GRACE: Duration = Duration::from_secs(30);

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It acted (or said what is known already); these are worth telling once written.
    Took(Vec<Notice>),
    /// It has no effect here.
    Refused(Refusal),
}

/// Why an event has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The task has ended.
    Final,
    /// The attempt is closed, or another one has started.
    Stale,
    /// The event belongs to another phase.
    OutOfPlace,
}

impl Life {
    /// Takes an event in. Total: in every phase every event acts or is refused.
    pub fn step(&mut self, event: Event, rules: &Rules, now: Timestamp) -> Step {
        match event {
            Event::Wanted { suspend, cancel, ready_at, deadline } => {
                if self.start_time.is_none() && !self.phase.is_final() {
                    self.deadline = deadline;
                }
                self.wanted(suspend, cancel, ready_at, now)
            }
            Event::Dependencies(dependencies) => self.depends(dependencies, now),
            Event::DeadlinePassed => self.deadline_passed(now),
            Event::Replaced { by } => self.replaced(&by, now),
            Event::Due => self.due(now),
            Event::Waits { reason, message } => self.waits(reason, message, now),
            Event::Stall => self.stall(now),
            Event::Sent(sent) => self.sent(sent, now),
            Event::Refused { number, why } => self.refused(number, &why, now),
            Event::Busy { number } => self.busy(number),
            Event::NeverStarted { number } => self.never_started(number, now),
            Event::Succeeded { number, result, truncated } => self.succeeded(number, result, truncated, now),
            Event::Failed { number, outcome, failure } => self.failed(number, outcome, failure, rules, now),
            Event::CancelGrace => self.cancel_grace(now),
            Event::Bury { reason, message } => self.bury(reason, message, now),
            Event::Shown(shown) => self.shown(shown, now),
        }
    }

    fn wanted(&mut self, suspend: bool, cancel: bool, ready_at: Timestamp, now: Timestamp) -> Step {
        if self.phase.is_final() {
            return Step::Refused(Refusal::Final);
        }
        let mut notices = Vec::new();
        if suspend != self.suspended {
            self.suspended = suspend;
            self.changed_at = now;
            notices.push(if suspend {
                normal("Suspended", "suspended: no new attempt starts".to_owned())
            } else {
                normal("Resumed", "resumed".to_owned())
            });
        }
        if cancel && !self.cancel {
            self.cancel = true;
            self.changed_at = now;
            if self.phase == Phase::Running {
                if self.cancel_asked_at.is_none() {
                    self.cancel_asked_at = Some(now);
                    let message = "cancel asked; waiting for the running attempt, at most 30 s".to_owned();
                    self.say(reason::CANCEL_REQUESTED, message, now);
                }
                return Step::Took(notices);
            }
            notices.push(self.end_canceled("canceled before it ran".to_owned(), now));
            return Step::Took(notices);
        }
        let untouched = self.start_time.is_none();
        let moved = ready_at != self.ready_at;
        if untouched && moved && matches!(self.phase, Phase::Pending | Phase::Ready) {
            self.ready_at = ready_at;
            self.changed_at = now;
        }
        match self.phase {
            Phase::Pending => self.say_pending(now),
            Phase::Ready if untouched && (suspend || (moved && self.ready_at > now)) => {
                self.phase = Phase::Pending;
                self.say_pending(now);
            }
            Phase::Ready if suspend => {
                self.phase = Phase::Retrying;
                self.next_attempt_at = Some(now);
                self.say_suspended(now);
            }
            Phase::Retrying if suspend => {
                self.say_suspended(now);
            }
            Phase::Retrying => self.say_backoff(now),
            Phase::Ready | Phase::Running => {}
            Phase::Succeeded | Phase::Canceled | Phase::Dead | Phase::Unknown => {}
        }
        Step::Took(notices)
    }

    fn depends(&mut self, dependencies: Dependencies, now: Timestamp) -> Step {
        if self.phase.is_final() {
            return Step::Refused(Refusal::Final);
        }
        if self.phase != Phase::Pending {
            // What has become due once does not wait for them again.
            return Step::Refused(Refusal::OutOfPlace);
        }
        let Dependencies { list, waits } = dependencies;
        if self.dependencies != list {
            self.dependencies = list;
            self.changed_at = now;
        }
        if self.blocked != waits.is_some() {
            self.blocked = waits.is_some();
            self.changed_at = now;
        }
        match waits {
            Some((reason, message)) if !self.suspended => self.say(reason, message, now),
            Some(_) | None => self.say_pending(now),
        }
        Step::Took(Vec::new())
    }

    fn deadline_passed(&mut self, now: Timestamp) -> Step {
        if self.phase.is_final() {
            return Step::Refused(Refusal::Final);
        }
        match (self.deadline, self.deadline_at()) {
            (Some(deadline), Some(at)) if at <= now => {
                let waited =
                    if self.message.is_empty() { self.phase.as_str().to_owned() } else { self.message.clone() };
                let limit = crate::api::duration::format(deadline);
                let message =
                    format!("not started within startDeadline {limit} after {}: {waited}", Instant(self.ready_at));
                self.bury(reason::DEADLINE_EXCEEDED, message, now)
            }
            _ => Step::Refused(Refusal::OutOfPlace),
        }
    }

    fn replaced(&mut self, by: &str, now: Timestamp) -> Step {
        if self.phase.is_final() {
            return Step::Refused(Refusal::Final);
        }
        if self.replaced || self.cancel {
            return Step::Refused(Refusal::OutOfPlace);
        }
        self.replaced = true;
        self.changed_at = now;
        if self.phase == Phase::Running {
            self.cancel = true;
            self.cancel_asked_at = Some(now);
            let message = format!("replaced by {by}; waiting for the running attempt, at most 30 s");
            self.say(reason::CANCEL_REQUESTED, message, now);
            return Step::Took(Vec::new());
        }
        Step::Took(vec![self.end_canceled(format!("replaced by {by} before it ran"), now)])
    }

    fn due(&mut self, now: Timestamp) -> Step {
        let at = match self.phase {
            Phase::Pending => self.ready_at,
            Phase::Retrying => self.next_attempt_at.unwrap_or(now),
            Phase::Ready | Phase::Running => return Step::Refused(Refusal::OutOfPlace),
            Phase::Succeeded | Phase::Canceled | Phase::Dead | Phase::Unknown => {
                return Step::Refused(Refusal::Final);
            }
        };
        if self.suspended || self.blocked || now < at {
            return Step::Refused(Refusal::OutOfPlace);
        }
        self.phase = Phase::Ready;
        self.queued_at = at;
        self.next_attempt_at = None;
        self.reason = Cow::Borrowed("");
        self.say(reason::QUEUED, "due, waiting for a place".to_owned(), now);
        Step::Took(Vec::new())
    }

    fn waits(&mut self, reason: &'static str, message: String, now: Timestamp) -> Step {
        if self.phase != Phase::Ready {
            return Step::Refused(Refusal::OutOfPlace);
        }
        let warn = reason == reason::NO_READY_WORKERS && self.reason != reason;
        let notice = warn.then(|| warning("NoReadyWorkers", message.clone()));
        self.say(reason, message, now);
        Step::Took(notice.into_iter().collect())
    }

    fn stall(&mut self, now: Timestamp) -> Step {
        let waits = matches!(self.phase, Phase::Pending | Phase::Ready);
        if !waits || !reason::stalls(&self.reason) || self.stalled {
            return Step::Refused(Refusal::OutOfPlace);
        }
        self.stalled = true;
        self.changed_at = now;
        let reason = reason::known_stall(&self.reason).unwrap_or(reason::INVALID);
        Step::Took(vec![warning(reason, self.message.clone())])
    }

    fn sent(&mut self, sent: Sent, now: Timestamp) -> Step {
        if self.phase != Phase::Ready {
            return Step::Refused(Refusal::OutOfPlace);
        }
        let number = self.attempt + 1;
        let note = format!("attempt {number} sent to {}", sent.pod);
        self.start(number, sent, now);
        Step::Took(vec![normal("Dispatched", note)])
    }

    fn start(&mut self, number: u32, sent: Sent, now: Timestamp) {
        self.phase = Phase::Running;
        self.attempt = number;
        let first = self.start_time.is_none();
        self.start_time.get_or_insert(now);
        self.next_attempt_at = None;
        let mut entry = Attempt::numbered(i32::try_from(number).unwrap_or(i32::MAX));
        entry.pod = Some(sent.pod.clone());
        entry.pod_uid = Some(sent.pod_uid.clone());
        entry.term = i64::try_from(sent.term).ok();
        entry.sent_time = Some(Instant(now));
        entry.timeout_time = Some(Instant(sent.timeout_at));
        self.attempts.push(entry);
        if self.attempts.len() > KEPT_ATTEMPTS {
            self.attempts.drain(..self.attempts.len() - KEPT_ATTEMPTS);
        }
        self.say(reason::DISPATCHED, format!("attempt {number} runs on {}", sent.pod), now);
        self.current = Some(Current {
            number,
            pod: sent.pod,
            pod_uid: sent.pod_uid,
            sent_at: now,
            timeout_at: sent.timeout_at,
            busy: false,
            first,
        });
        self.changed_at = now;
    }

    fn refused(&mut self, number: u32, why: &str, now: Timestamp) -> Step {
        let Some(current) = self.current.take_if(|c| c.number == number) else {
            return Step::Refused(Refusal::Stale);
        };
        self.refusals = self.refusals.saturating_add(1);
        let message = format!("{} refused: {why}", current.pod);
        self.undo_start(&current);
        if self.cancel {
            return Step::Took(vec![self.end_canceled("canceled; the attempt under way was refused".to_owned(), now)]);
        }
        self.back_to_ready(reason::PODS_REFUSING, message, now);
        Step::Took(Vec::new())
    }

    fn never_started(&mut self, number: u32, now: Timestamp) -> Step {
        let Some(current) = self.current.take_if(|c| c.number == number) else {
            return Step::Refused(Refusal::Stale);
        };
        self.undo_start(&current);
        if self.cancel {
            return Step::Took(vec![
                self.end_canceled("canceled; the attempt under way never started".to_owned(), now),
            ]);
        }
        let message = format!("{} is gone; attempt {number} never started there", current.pod);
        self.back_to_ready(reason::QUEUED, message, now);
        Step::Took(Vec::new())
    }

    /// The send did not happen: its number is free again.
    fn undo_start(&mut self, current: &Current) {
        self.attempts.retain(|a| u32::try_from(a.number) != Ok(current.number));
        self.attempt = current.number.saturating_sub(1);
        if current.first {
            self.start_time = None;
        }
    }

    /// It keeps its place in the queue; suspended meanwhile, it waits.
    fn back_to_ready(&mut self, reason: &'static str, message: String, now: Timestamp) {
        self.phase = Phase::Ready;
        self.changed_at = now;
        if !self.suspended {
            self.say(reason, message, now);
        } else if self.start_time.is_none() {
            self.phase = Phase::Pending;
            self.say_pending(now);
        } else {
            self.phase = Phase::Retrying;
            self.next_attempt_at = Some(now);
            self.say_suspended(now);
        }
    }

    fn busy(&mut self, number: u32) -> Step {
        match self.current.as_mut().filter(|c| c.number == number) {
            Some(current) => {
                current.busy = true;
                Step::Took(Vec::new())
            }
            None => Step::Refused(Refusal::Stale),
        }
    }

    fn succeeded(&mut self, number: u32, result: Option<String>, truncated: bool, now: Timestamp) -> Step {
        if self.phase.is_final() {
            return Step::Refused(Refusal::Final);
        }
        match self.current.take() {
            Some(current) if current.number == number => {}
            // The attempt before has succeeded late, while this one has not started.
            Some(current) if current.busy && number > 0 && number + 1 == current.number => self.undo_start(&current),
            Some(current) => {
                self.current = Some(current);
                return Step::Refused(Refusal::Stale);
            }
            None if number == self.attempt && number > 0 => {}
            None => return Step::Refused(Refusal::Stale),
        }
        let late = self.entry(number).is_some_and(|a| a.outcome.is_some());
        if let Some(entry) = self.entry_mut(number) {
            entry.outcome = Some(Outcome::Succeeded);
            entry.finish_time = Some(Instant(now));
            (entry.code, entry.message, entry.log) = (None, None, None);
        }
        self.result = result;
        self.result_truncated = truncated;
        self.error = None;
        let message =
            if late { format!("attempt {number} succeeded late") } else { format!("attempt {number} succeeded") };
        self.end(Phase::Succeeded, reason::SUCCEEDED, message.clone(), now);
        Step::Took(vec![normal("Succeeded", message)])
    }

    fn failed(&mut self, number: u32, outcome: Outcome, failure: Failure, rules: &Rules, now: Timestamp) -> Step {
        if self.phase.is_final() {
            return Step::Refused(Refusal::Final);
        }
        let Some(current) = self.current.take_if(|c| c.number == number) else {
            return Step::Refused(Refusal::Stale);
        };
        if let Some(entry) = self.entry_mut(number) {
            entry.outcome = Some(outcome);
            entry.finish_time = Some(Instant(now));
            entry.code = Some(failure.code.clone());
            entry.message = failure.title.clone().or_else(|| failure.detail.clone());
            entry.log = failure.log.clone();
        }
        self.error = Some(TaskError {
            code: Some(failure.code.clone()),
            title: failure.title.clone(),
            detail: failure.detail.clone(),
        });
        let used = number.saturating_sub(self.budget_from);
        let allowed = rules.retry.max_retries.saturating_add(1);
        let what = format!(
            "attempt {used} of {allowed} on {} {}: {}",
            current.pod,
            match outcome {
                Outcome::TimedOut => "timed out",
                Outcome::WorkerLost => "lost its worker",
                Outcome::Succeeded | Outcome::Failed | Outcome::Canceled | Outcome::Unknown => "failed",
            },
            failure.as_text()
        );
        let told = if outcome == Outcome::WorkerLost { "WorkerLost" } else { "AttemptFailed" };
        if self.cancel {
            let end = self.end_canceled(format!("canceled; {what}"), now);
            return Step::Took(vec![warning(told, what), end]);
        }
        let never = rules.retry.non_retryable.contains(&failure.code);
        if !failure.retryable || never {
            let message = format!(
                "{what}; not repeated, since {}",
                if never {
                    format!("retry.nonRetryable lists {}", failure.code)
                } else {
                    "the worker's answer is final".to_owned()
                }
            );
            self.end(Phase::Dead, reason::NON_RETRYABLE, message.clone(), now);
            return Step::Took(vec![warning(told, what), warning("Dead", message)]);
        }
        if used >= allowed {
            let message = format!("{what}; no retries left");
            self.end(Phase::Dead, reason::RETRIES_EXHAUSTED, message.clone(), now);
            return Step::Took(vec![warning(told, what), warning("Dead", message)]);
        }
        let wait = retry::jittered(retry::base(&rules.retry.delays, used), rules.retry.jitter_percent, rules.roll);
        let wait = wait.max(failure.retry_after.unwrap_or_default());
        self.phase = Phase::Retrying;
        self.next_attempt_at = Some(later(now, wait));
        self.changed_at = now;
        let next = crate::api::duration::format(wait);
        if self.suspended {
            self.say(reason::SUSPENDED, format!("{what}; suspended before the next attempt"), now);
        } else {
            self.say(reason::BACKOFF, format!("{what}; next in {next}"), now);
        }
        Step::Took(vec![warning(told, format!("{what}; next in {next}"))])
    }

    fn cancel_grace(&mut self, now: Timestamp) -> Step {
        let over = self.cancel_asked_at.is_some_and(|at| later(at, CANCEL_GRACE) <= now);
        if self.phase != Phase::Running || !over {
            return Step::Refused(Refusal::OutOfPlace);
        }
        let Some(current) = self.current.take() else { return Step::Refused(Refusal::OutOfPlace) };
        let message = format!("canceled; attempt {} did not end within 30 s", current.number);
        if let Some(entry) = self.entry_mut(current.number) {
            entry.outcome = Some(Outcome::Canceled);
            entry.finish_time = Some(Instant(now));
        }
        Step::Took(vec![self.end_canceled(message, now)])
    }

    fn bury(&mut self, reason: &'static str, message: String, now: Timestamp) -> Step {
        match self.phase {
            Phase::Pending | Phase::Ready | Phase::Retrying => {
                self.end(Phase::Dead, reason, message.clone(), now);
                Step::Took(vec![warning("Dead", format!("{reason}: {message}"))])
            }
            Phase::Running => Step::Refused(Refusal::OutOfPlace),
            Phase::Succeeded | Phase::Canceled | Phase::Dead | Phase::Unknown => Step::Refused(Refusal::Final),
        }
    }

    fn shown(&mut self, shown: Shown, now: Timestamp) -> Step {
        match (self.phase, &mut self.current) {
            (Phase::Pending | Phase::Ready | Phase::Retrying, None) if shown.number == self.attempt + 1 => {
                let Shown { number, pod, pod_uid, term, timeout_at } = shown;
                self.start(number, Sent { pod, pod_uid, term, timeout_at }, now);
                if self.cancel {
                    self.cancel_asked_at = Some(now);
                }
                Step::Took(Vec::new())
            }
            (Phase::Running, Some(current)) if shown.number == current.number => {
                if current.pod_uid != shown.pod_uid {
                    current.pod.clone_from(&shown.pod);
                    current.pod_uid.clone_from(&shown.pod_uid);
                    self.changed_at = now;
                    self.message = format!("attempt {} runs on {}", shown.number, shown.pod);
                    if let Some(entry) = self.entry_mut(shown.number) {
                        entry.pod = Some(shown.pod);
                        entry.pod_uid = Some(shown.pod_uid);
                    }
                }
                Step::Took(Vec::new())
            }
            (phase, _) if phase.is_final() => Step::Refused(Refusal::Final),
            _ => Step::Refused(Refusal::Stale),
        }
    }

    fn end_canceled(&mut self, message: String, now: Timestamp) -> Notice {
        let reason = if self.replaced { reason::REPLACED } else { reason::REQUESTED };
        self.end(Phase::Canceled, reason, message.clone(), now);
        normal("Canceled", message)
    }

    fn end(&mut self, phase: Phase, reason: &'static str, message: String, now: Timestamp) {
        self.phase = phase;
        self.finish_time = Some(now);
        self.next_attempt_at = None;
        self.current = None;
        self.stalled = false;
        self.say(reason, message, now);
        self.changed_at = now;
    }

    pub(super) fn say_pending(&mut self, now: Timestamp) {
        if self.suspended {
            self.say(reason::SUSPENDED, "suspended; it goes on when spec.suspend is false".to_owned(), now);
        } else if self.blocked {
            // Its own words say which.
            if self.reason != reason::DEPENDENCY_NOT_FOUND {
                let open = self.dependencies.iter().filter(|d| !d.satisfied).map(|d| d.name.as_str());
                let message = format!("waits for {} to succeed", open.collect::<Vec<_>>().join(", "));
                self.say(reason::DEPENDENCY_NOT_READY, message, now);
            }
        } else {
            self.say(reason::DELAYED, format!("due at {}", Instant(self.ready_at)), now);
        }
    }

    fn say_suspended(&mut self, now: Timestamp) {
        let message = "suspended before the next attempt; it goes on when spec.suspend is false".to_owned();
        self.say(reason::SUSPENDED, message, now);
    }

    fn say_backoff(&mut self, now: Timestamp) {
        let at = Instant(self.next_attempt_at.unwrap_or(now));
        // The failure's own words stay while the reason does.
        if self.reason != reason::BACKOFF {
            self.say(reason::BACKOFF, format!("next attempt at {at}"), now);
        }
    }

    fn say(&mut self, reason: &'static str, message: String, now: Timestamp) {
        if self.reason != reason {
            self.reason = Cow::Borrowed(reason);
            self.waiting_since = now;
            self.stalled = false;
            self.changed_at = now;
        }
        self.message = message;
    }
}

/// An instant and a wait; past the end of time, its end.
pub fn later(at: Timestamp, wait: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(wait).ok().and_then(|wait| at.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

fn normal(reason: &'static str, note: String) -> Notice {
    Notice { warning: false, reason, note }
}

fn warning(reason: &'static str, note: String) -> Notice {
    Notice { warning: true, reason, note }
}
