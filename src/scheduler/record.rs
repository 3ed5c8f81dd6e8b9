//! What the leader loop knows of one task. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::timers::Timer;
use crate::api::{AxTaskSpec, AxTaskStatus, Phase};
use crate::domain::dispatch::Dispatch;
use crate::domain::effective::{RetryRules, Trigger};
use crate::domain::lifecycle::{Life, Notice, later};
use crate::domain::offset::OffsetBounds;
use crate::domain::pool::PoolKey;
use crate::domain::ready::Place;
use crate::domain::run::Cause;

/// The API server's creation times are cut to it.
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// What is known of one task. The object's part is kept by every replica, `life` by the leader alone.
#[derive(Debug)]
pub(super) struct Record {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// For logs: `namespace/name`.
    pub path: Arc<str>,
    /// `None` if the uid is no UUID: such a task never runs.
    pub execution: Option<Uuid>,
    pub spec: AxTaskSpec,
    pub traceparent: Option<String>,
    pub trace_id: Option<String>,
    pub generation: i64,
    /// Whole seconds, by the API server's clock.
    pub created: Timestamp,
    /// When this replica saw it come into being, if it did.
    pub seen_live: Option<Timestamp>,
    /// The template whose run it is, and what made it.
    pub made_by: Option<(String, Cause)>,
    /// Names of the tasks it waits for, as indexed.
    pub depends_on: Vec<String>,
    /// The gates it is inside of.
    pub gates: Vec<GateKey>,
    /// Sent once its `Running` is persisted.
    pub ahead: Option<Box<Dispatch>>,
    /// A deletion was ordered; not again before this.
    pub removing_until: Option<Duration>,
    /// Why it can never run, if so.
    pub problem: Option<Problem>,
    /// Last version seen or written; anything older is old news.
    pub version: u64,
    /// The status at that version.
    pub written: AxTaskStatus,
    /// By how much the wall clock was set since this leader wrote the instants in `written`, or saw the creation.
    pub shift: SignedDuration,
    pub life: Option<Life>,
    /// Raised by each change of `life`; what is saved and what must be saved before anything is sent is told by it.
    pub revision: u64,
    pub saved: u64,
    pub must_save: u64,
    pub writing: Option<Writing>,
    /// After failures or conflicts: no write before this.
    pub hold_writes_until: Option<Timestamp>,
    pub failed_writes: u32,
    /// A write of this version can never be recorded.
    pub unwritable: Option<u64>,
    pub wake: Option<(Timer, Timestamp)>,
    pub write: Option<(Timer, Timestamp)>,
    /// Nobody can be asked after the attempt under way: it is presumed to work on until this timer.
    pub presumed: Option<Timer>,
    /// If nothing is heard of the attempt under way by then, something is wrong here: it is given up.
    pub overdue: Option<Timer>,
    /// Its place in a line, or that it is blocked there.
    pub line: Option<Line>,
    /// The attempt under way keeps the rules it was sent under.
    pub rules: RetryRules,
    /// To be told once the status of that revision is written.
    pub notices: Vec<(u64, Notice)>,
    /// Credits to be given back once the outcome is persisted: pod uid and attempt.
    pub owed: BTreeSet<(Arc<str>, u32)>,
}

#[derive(Debug)]
pub(super) struct Writing {
    /// Tells its answer from that of an earlier write.
    pub serial: u64,
    pub revision: u64,
    pub status: AxTaskStatus,
    /// [`Record::shift`] that `status` has in it.
    pub shift: SignedDuration,
}

/// Why a task can never run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub reason: &'static str,
    pub message: String,
}

/// Where a due task waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// In the ready queue of a pool.
    Queued(PoolKey, Place),
    /// For the Deployment, its opt-in or its port.
    Blocked(PoolKey),
    /// For its template.
    NoTemplate,
    /// Outside a gate.
    Outside(GateKey, Place),
}

/// A gate before the lines: see [`crate::domain::gate`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum GateKey {
    /// `concurrencyPolicy: Queue`: the runs of the template of this uid.
    Turn(String),
    /// `concurrencyKey`, in its namespace.
    Key(String, String),
    /// `maxConcurrent` of the template of this namespace and name.
    Cap(String, String),
}

impl Record {
    /// From `spec.delay` or `spec.runAt`. `offset`: how far the API server's clock is ahead of this replica's, so that
    /// a creation time of whole seconds is never read too early.
    pub fn ready_at(&self, offset: Option<OffsetBounds>) -> Timestamp {
        if let Some(run_at) = &self.spec.run_at {
            // Long past is due at once; status knows no years before the first.
            return whole_microseconds(run_at.0.max(Timestamp::UNIX_EPOCH));
        }
        // What a leader has computed for this very spec stays.
        if let Some(ready_time) = self.written.ready_time
            && self.written.observed_generation == Some(self.generation)
        {
            let recorded = moved(ready_time.0, self.shift);
            return match (&self.spec.delay, offset) {
                // Another's clock may have been wrong: it cannot have been created earlier or later than this.
                (Some(delay), Some(offset)) if self.shift.is_zero() => recorded
                    .min(later(moved(self.created, SECOND - offset.lower), delay.get()))
                    .max(later(moved(self.created, -offset.upper), delay.get())),
                _ => recorded,
            };
        }
        // The latest that this replica's clock can have shown then.
        let recorded = moved(self.created, SECOND - offset.map_or(SignedDuration::ZERO, |bounds| bounds.lower));
        let seen_live = self.seen_live.map(|seen| moved(seen, self.shift));
        // After the clock was set, only this replica's own reading tells how long ago the creation was.
        let anchor = match seen_live {
            Some(seen) if self.shift.is_zero() => seen.min(recorded),
            Some(seen) => seen,
            None => recorded,
        };
        match &self.spec.delay {
            Some(delay) => later(anchor, delay.get()),
            // Due at once: there is nothing to be early for.
            None => seen_live.unwrap_or(self.created).min(anchor),
        }
    }

    /// The wall clock was set: what was to last still lasts as long.
    pub fn clock_set(&mut self, by: SignedDuration) {
        let Some(life) = self.life.as_mut().filter(|l| !l.phase.is_final()) else { return };
        life.clock_set(by, self.spec.run_at.is_some());
        self.shift = self.shift.saturating_add(by);
    }

    /// Whether the instant it waits for is one of the wall clock: `runAt`, or a `startDeadline` that counts from it.
    pub fn waits_for_the_clock(&self) -> bool {
        let untouched = self.life.as_ref().is_some_and(|l| l.start_time.is_none() && l.current.is_none());
        self.spec.run_at.is_some() && untouched
    }

    /// The same instant for every attempt, whoever computes it: `ce-time`.
    pub fn nominal_time(&self) -> Timestamp {
        if let Some((_, Cause::Tick(nominal))) = &self.made_by {
            return *nominal;
        }
        match (&self.spec.run_at, &self.spec.delay) {
            (Some(run_at), _) => run_at.0,
            (None, Some(delay)) => later(self.created, delay.get()),
            (None, None) => self.created,
        }
    }

    /// What made it due.
    pub fn trigger(&self) -> Trigger {
        match &self.made_by {
            Some((_, Cause::Tick(_))) => Trigger::Schedule,
            Some((_, Cause::Trigger(_))) => Trigger::Manual,
            None => Trigger::of(&self.spec),
        }
    }

    /// Whether it has ended, and that is persisted.
    pub fn has_ended(&self) -> bool {
        self.written.phase.is_some_and(Phase::is_final)
    }

    /// Where it stands, as far as is known here.
    pub fn phase(&self) -> Phase {
        self.life.as_ref().map(|l| l.phase).or(self.written.phase).unwrap_or(Phase::Pending)
    }

    /// Its template's name, if it refers to one.
    pub fn template(&self) -> Option<(String, String)> {
        self.spec.template_ref.as_ref().map(|r| (self.namespace.clone(), r.name.clone()))
    }
}

fn moved(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(at)
}

/// Status keeps microseconds: rounded up, since nothing may start early.
fn whole_microseconds(at: Timestamp) -> Timestamp {
    let cut = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    if cut < at { cut.checked_add(SignedDuration::from_micros(1)).unwrap_or(at) } else { cut }
}
