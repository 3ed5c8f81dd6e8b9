//! Decides whether this replica may act as leader, in which term, and until when.
//!
//! Pure: every reading of a clock, every roll and every answer of the API server is an argument. The caller asks
//! [`Elector::next`], makes the one call it is given, and reports the answer. There is never a second call.
//!
//! ```text
//!              somebody else's claim, unchanged for its own duration,
//!              or released, or none, or an own one no longer trusted
//!   candidate ─────────────────────────────────────────────────────► leader: term, trusted_until, may_start_at
//!       ▲                                                              │  renews every retry_period
//!       └──────────────────────────────────────────────────────────────┘
//!         trusted_until passed; foreign, edited or missing Lease seen; released
//! ```
//!
//! **Trust window.** A claim is trusted for `renew_deadline` from the *start* of the call that wrote it. A candidate
//! sees a change no earlier than the API server made it, which is no earlier than that start, and then leaves the
//! record alone for the record's *own* duration, which is longer. Both count on their own monotonic clock; no wall
//! clock takes part, so theirs may differ by any amount. Clocks need only run equally fast.
//!
//! **Writes** carry the resourceVersion they were decided on, so of two candidates one wins, and a write that was
//! overtaken by anything never lands. A write without a clear answer (timeout, 409, 5xx) is looked up: if the Lease
//! shows our identity and the `renewTime` of that write, it landed, and counts from its start. What others change
//! beside the claim (a label) costs one more round, not the leadership.
//!
//! **Whoever cannot know that the last holder stopped waits.** A Lease that is missing, was emptied by hand, or shows
//! our identity with a claim we did not write, is taken at once, but nothing may be started for one lease duration
//! (`may_start_at`). That wait is not lost on the way: it survives a loss of trust, and a holder that gives the Lease
//! back before it is over leaves it marked as not proven, so that its successor waits too.
//!
//! **Terms** only grow: above the Lease's, above the highest seen anywhere, above the Unix milliseconds; every
//! acquisition makes a new one, also that of an own Lease no longer trusted. A term more than a day ahead is not
//! believed. A leader that learns of a higher one renews at once with a term above it; that the write met its
//! resourceVersion proves that it still held the Lease.
//!
//! Accepted races: bytes sent just before trust ended arrive after it, and the worker refuses them once it has seen
//! the higher term. A person who forges a release while the holder is cut off, or deletes the Lease of a holder with
//! longer intervals than a creator that never saw it, makes two leaders; again the term decides.

mod config;
mod record;
#[cfg(test)]
mod sim;
mod term;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;

pub use config::{Config, ConfigError};
pub use record::{LeaseRecord, Occupancy, RELEASED_DURATION};
pub use term::{is_believed, next_term};

use crate::api::instant::Instant;

/// A creator waits for the duration of the last claim it saw, if that is longer than its own: at most this.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Rolls lie in `0..=ROLL_MAX`.
pub const ROLL_MAX: u32 = 1_000_000;

/// What the caller must do now. `timeout` counts from the `now` that was passed to [`Elector::next`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read the Lease from the API server (no cache), then `on_read` or `on_read_failed`.
    Read { timeout: Duration },
    /// POST it, then `on_written` or `on_write_failed`.
    Create { record: LeaseRecord, timeout: Duration },
    /// PUT it with the record's resourceVersion, then `on_written` or `on_write_failed`.
    Write { record: LeaseRecord, timeout: Duration },
    /// Ask again at this reading, or earlier after any command.
    Wait { until: Duration },
    /// Released, or given up on releasing: the end.
    Stop,
}

/// What the rest of the replica must hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// This replica leads, in a new term. Nothing may be started before `may_start_at`.
    Acquired { term: u64, may_start_at: Duration, previous_address: Option<String> },
    /// It still leads, in a higher term.
    TermRaised { term: u64 },
    /// It no longer leads.
    Lost { reason: LossReason },
    /// The Lease names another holder than before; `None` = nobody.
    Observed { holder: Option<String>, address: Option<String>, previous_address: Option<String> },
}

/// Why leadership ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossReason {
    /// No renewal came through in time.
    TrustEnded,
    /// The machine slept, or its wall clock was set ahead.
    ClockJumped,
    /// Somebody else holds the Lease.
    ForeignHolder,
    /// Somebody changed our claim.
    Edited,
    /// The Lease is gone.
    Missing,
    /// We were told to give it back.
    Released,
}

impl LossReason {
    /// Static label for logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TrustEnded => "TrustEnded",
            Self::ClockJumped => "ClockJumped",
            Self::ForeignHolder => "ForeignHolder",
            Self::Edited => "Edited",
            Self::Missing => "Missing",
            Self::Released => "Released",
        }
    }
}

/// Leadership as far as it is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reign {
    pub term: u64,
    /// Start of the last call that is known to have written our claim.
    pub proved_at: Duration,
    /// `proved_at` + `renew_deadline`: from then on it may no longer be acted upon.
    pub trusted_until: Duration,
    /// Nothing may be started before.
    pub may_start_at: Duration,
}

/// What was last read or written successfully.
struct Seen {
    /// `None` = there is no Lease.
    record: Option<LeaseRecord>,
    /// When this version was first seen, by our own clock.
    first_seen: Duration,
}

/// A write whose fate is not known yet.
struct Written {
    record: LeaseRecord,
    started: Duration,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `unproven`: nothing proves that the last holder stopped.
    Acquire {
        unproven: bool,
    },
    Renew,
    Release,
}

enum Claim {
    Now { unproven: bool },
    At(Duration),
}

/// One replica's view of the election.
pub struct Elector {
    identity: String,
    address: Option<String>,
    config: Config,

    seen: Option<Seen>,
    /// Our last claim that is known to have landed.
    own_claim: Option<LeaseRecord>,
    reign: Option<Reign>,
    /// Writes that may have landed, or may land yet. The last one may be on its way.
    unsettled: Vec<Written>,
    /// Carried over from one reign of ours to the next.
    may_start_at: Duration,
    /// Duration of the last claim seen of anybody else.
    last_duration: Duration,

    /// The state is in doubt, or somebody hinted at a change: read before anything is decided.
    must_read: bool,
    next_read_at: Duration,
    next_write_at: Duration,
    /// Failed writes in a row.
    failed_writes: u32,
    /// The last roll and wall reading, for what an answer decides.
    roll: u32,
    wall: Timestamp,

    /// The highest term believed of all that were seen or made.
    highest_term: u64,
    raise_above: Option<u64>,
    last_renew: Option<Timestamp>,
    /// Set by `release`: give up then.
    release_until: Option<Duration>,

    notices: Vec<Notice>,
}

impl Elector {
    /// A candidate that has seen nothing. `identity` must be unique to this start of the process.
    pub fn new(identity: impl Into<String>, address: Option<String>, config: Config) -> Self {
        Self {
            identity: identity.into(),
            address,
            config,
            seen: None,
            own_claim: None,
            reign: None,
            unsettled: Vec::new(),
            may_start_at: Duration::ZERO,
            last_duration: Duration::ZERO,
            must_read: true,
            next_read_at: Duration::ZERO,
            next_write_at: Duration::ZERO,
            failed_writes: 0,
            roll: 0,
            wall: Timestamp::UNIX_EPOCH,
            highest_term: 0,
            raise_above: None,
            last_renew: None,
            release_until: None,
            notices: Vec::new(),
        }
    }

    /// Leadership at `now`; `None` once trust has ended, whether or not that was noticed yet.
    pub fn reign(&self, now: Duration) -> Option<Reign> {
        self.reign.filter(|reign| now < reign.trusted_until)
    }

    /// The holder last seen; `None` = nobody, or nothing seen.
    pub fn holder(&self) -> Option<&str> {
        holder(self.seen.as_ref().and_then(|seen| seen.record.as_ref()))
    }

    /// What happened since the last call, in order.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The next step. A call that is returned must be started at once: its trust counts from this `now`.
    pub fn next(&mut self, now: Duration, wall: Timestamp, roll: u32) -> Action {
        self.roll = roll.min(ROLL_MAX);
        self.wall = wall;
        self.expire(now);
        if let Some(until) = self.release_until {
            return self.next_release(now, wall, until);
        }
        let Some(seen) = self.seen.as_ref().filter(|_| !self.must_read) else {
            return if now < self.next_read_at { self.wait(self.next_read_at) } else { self.read(now) };
        };
        if let Some(reign) = self.reign {
            let raise = self.raise_above.is_some_and(|above| above >= reign.term);
            return match &seen.record {
                Some(base) if raise || now >= self.next_write_at => {
                    if raise && self.failed_writes > 0 && now < self.next_write_at {
                        return self.wait(self.next_write_at);
                    }
                    let base = base.clone();
                    self.renew(base, reign, now, wall)
                }
                // A reign over no Lease was ended when it was found missing.
                Some(_) | None => self.wait(self.next_write_at),
            };
        }
        let claim = match &seen.record {
            None => Claim::Now { unproven: true },
            Some(record) => self.claim(record, seen.first_seen, now),
        };
        match claim {
            Claim::Now { unproven } if now >= self.next_write_at => self.acquire(unproven, now, wall),
            Claim::Now { .. } => self.wait(self.next_write_at),
            Claim::At(_) if now >= self.next_read_at => self.read(now),
            Claim::At(free_at) => self.wait(free_at.min(self.next_read_at)),
        }
    }

    /// The Lease as it is; `None` = there is none.
    pub fn on_read(&mut self, record: Option<LeaseRecord>, now: Duration) {
        self.expire(now);
        self.next_read_at = now + self.config.retry_period + self.spread();
        self.take_in(record, now);
        self.must_read = false;
    }

    /// No usable answer.
    pub fn on_read_failed(&mut self, now: Duration) {
        self.expire(now);
        self.must_read = true;
        self.next_read_at = now + self.pause();
    }

    /// The write succeeded; `record` is what the API server answered.
    pub fn on_written(&mut self, record: LeaseRecord, now: Duration) {
        self.expire(now);
        self.must_read = false;
        self.failed_writes = 0;
        self.next_read_at = now + self.config.retry_period + self.spread();
        self.take_in(Some(record), now);
    }

    /// The write got no answer, or any but success. It may have landed, or may land yet.
    pub fn on_write_failed(&mut self, now: Duration) {
        self.expire(now);
        self.must_read = true;
        self.next_read_at = now;
        self.failed_writes += 1;
        // A first failure is most often a conflict with something harmless: once more at once.
        self.next_write_at = if self.reign.is_some() && self.failed_writes == 1 { now } else { now + self.pause() };
    }

    /// Somebody saw the Lease change: look at once.
    pub fn nudge(&mut self, now: Duration) {
        self.must_read = true;
        self.next_read_at = now;
    }

    /// A term seen in a status. Returns whether it is believed; a higher one than ours makes us raise ours.
    pub fn saw_term(&mut self, term: u64, wall: Timestamp) -> bool {
        if !is_believed(term, wall) {
            return false;
        }
        self.highest_term = self.highest_term.max(term);
        if self.reign.is_some_and(|reign| term > reign.term) {
            self.raise_above = self.raise_above.max(Some(term));
        }
        true
    }

    /// A worker refused our term and named this one: lead in a higher one, if the Lease is still ours. Returns whether
    /// it is believed.
    pub fn raise_term_above(&mut self, term: u64, wall: Timestamp) -> bool {
        let believed = self.saw_term(term, wall);
        if believed && self.reign.is_some() {
            self.raise_above = self.raise_above.max(Some(term));
        }
        believed
    }

    /// Another clock than the monotonic one says that trust has ended.
    pub fn clock_jumped(&mut self) {
        self.step_down(LossReason::ClockJumped);
    }

    /// Gives the Lease back. Ends leadership at once: whatever needs it must have stopped.
    pub fn release(&mut self, now: Duration) {
        if self.release_until.is_none() {
            self.expire(now);
            self.step_down(LossReason::Released);
            self.must_read = !self.unsettled.is_empty();
            self.next_read_at = now;
            self.next_write_at = now;
            self.release_until = Some(now + self.config.renew_deadline);
        }
    }

    fn next_release(&mut self, now: Duration, wall: Timestamp, until: Duration) -> Action {
        if now >= until {
            return Action::Stop;
        }
        let Some(seen) = &self.seen else { return Action::Stop };
        if self.must_read {
            return if now < self.next_read_at { self.wait(self.next_read_at) } else { self.read(now) };
        }
        match &seen.record {
            Some(base) if base.holder == self.identity => {
                if now < self.next_write_at {
                    return self.wait(self.next_write_at.min(until));
                }
                // Not before our own wait is over: the mark of a release would spare the next holder the rest of it.
                let ours = self.own_claim.as_ref().is_some_and(|own| own.same_claim(base));
                let proven = ours && now >= self.may_start_at;
                let duration = if proven { RELEASED_DURATION } else { self.config.lease_duration };
                let base = base.clone();
                let renew_time = self.renew_time(wall);
                let record = LeaseRecord { holder: String::new(), duration, renew_time, ..base };
                self.write(record, Kind::Release, now)
            }
            Some(_) | None => Action::Stop,
        }
    }

    fn claim(&self, record: &LeaseRecord, first_seen: Duration, now: Duration) -> Claim {
        if record.holder == self.identity {
            let ours = self.own_claim.as_ref().is_some_and(|own| own.same_claim(record));
            return Claim::Now { unproven: !ours };
        }
        match record.occupancy() {
            Occupancy::Released => Claim::Now { unproven: false },
            Occupancy::Vacant => Claim::Now { unproven: true },
            Occupancy::Held => {
                let free_at = first_seen + record.duration;
                if now >= free_at { Claim::Now { unproven: false } } else { Claim::At(free_at) }
            }
        }
    }

    fn acquire(&mut self, unproven: bool, now: Duration, wall: Timestamp) -> Action {
        let base = self.seen.as_ref().and_then(|seen| seen.record.clone());
        let exists = base.is_some();
        let base = base.unwrap_or_default();
        let recorded = base.term.filter(|term| is_believed(*term, wall)).unwrap_or(0);
        let term = next_term(self.highest_term.max(recorded), wall);
        let renew_time = self.renew_time(wall);
        // The address of a holder before us; ours is kept out, so that a regained Lease still names the other one.
        let previous = base.address.filter(|address| self.address.as_ref() != Some(address));
        let again = base.holder == self.identity;
        let record = LeaseRecord {
            holder: self.identity.clone(),
            duration: whole_seconds(self.config.lease_duration),
            acquire_time: if again { base.acquire_time } else { renew_time.clone() },
            renew_time,
            transitions: if again || !exists { base.transitions } else { base.transitions.saturating_add(1) },
            term: Some(term),
            address: self.address.clone(),
            previous_address: previous.or(base.previous_address),
            resource_version: base.resource_version,
        };
        self.write(record, Kind::Acquire { unproven }, now)
    }

    fn renew(&mut self, base: LeaseRecord, reign: Reign, now: Duration, wall: Timestamp) -> Action {
        let term = match self.raise_above {
            Some(above) if above >= reign.term => above.max(self.highest_term).saturating_add(1),
            Some(_) | None => reign.term,
        };
        let renew_time = self.renew_time(wall);
        let record = LeaseRecord { renew_time, term: Some(term), address: self.address.clone(), ..base };
        self.write(record, Kind::Renew, now)
    }

    fn write(&mut self, record: LeaseRecord, kind: Kind, now: Duration) -> Action {
        let timeout = self.timeout(now);
        self.next_write_at = now + self.config.retry_period;
        self.must_read = true; // until it is answered
        self.next_read_at = now;
        self.unsettled.push(Written { record: record.clone(), started: now, kind });
        if record.resource_version.is_empty() {
            Action::Create { record, timeout }
        } else {
            Action::Write { record, timeout }
        }
    }

    fn read(&mut self, now: Duration) -> Action {
        Action::Read { timeout: self.timeout(now) }
    }

    /// One try gets half the deadline, or the time left: one slow call must not eat the budget.
    fn timeout(&self, now: Duration) -> Duration {
        let half = self.config.renew_deadline / 2;
        let end = self.reign.map(|reign| reign.trusted_until).or(self.release_until);
        end.map_or(half, |end| half.min(end.saturating_sub(now)))
    }

    fn wait(&self, until: Duration) -> Action {
        let end = self.reign.map(|reign| reign.trusted_until).or(self.release_until);
        Action::Wait { until: end.map_or(until, |end| until.min(end)) }
    }

    /// Learns what the Lease says, and from it which of our writes landed.
    fn take_in(&mut self, record: Option<LeaseRecord>, now: Duration) {
        let before = self.holder().map(str::to_owned);
        let known = self.seen.take();
        if let Some(record) = &record
            && !record.duration.is_zero()
            && !record.holder.is_empty()
            && record.holder != self.identity
        {
            self.last_duration = record.duration;
        }
        // Remembered, since the Lease may be gone when it is needed.
        if let Some(term) = record.as_ref().and_then(|record| record.term).filter(|term| is_believed(*term, self.wall))
        {
            self.highest_term = self.highest_term.max(term);
        }
        let landed = record.as_ref().and_then(|record| self.settle(record));
        if record.is_none() {
            // A PUT cannot land on a Lease that is gone; a POST may yet.
            self.unsettled.retain(|write| write.record.resource_version.is_empty());
        }
        let first_seen = match &known {
            Some(known) if version(known.record.as_ref()) == version(record.as_ref()) => known.first_seen,
            Some(_) | None => now,
        };
        if before.as_deref() != holder(record.as_ref()) || known.is_none() {
            self.notices.push(Notice::Observed {
                holder: holder(record.as_ref()).map(str::to_owned),
                address: record.as_ref().and_then(|record| record.address.clone()),
                previous_address: record.as_ref().and_then(|record| record.previous_address.clone()),
            });
        }
        match (landed, &record) {
            (Some(write), Some(record)) => self.on_landed(write, record, now),
            (None, Some(record)) => self.on_unchanged_or_foreign(record),
            (_, None) => self.step_down(LossReason::Missing),
        }
        self.seen = Some(Seen { record, first_seen });
    }

    /// Which of our unsettled writes the record shows. All that were based on another version can never land any more.
    fn settle(&mut self, record: &LeaseRecord) -> Option<Written> {
        let shown = |write: &Written| {
            write.record.holder == record.holder
                && write.record.renew_time == record.renew_time
                && write.record.term == record.term
        };
        let landed = self.unsettled.iter().position(shown).map(|at| self.unsettled.swap_remove(at));
        self.unsettled.retain(|write| write.record.resource_version == record.resource_version);
        landed
    }

    fn on_landed(&mut self, write: Written, record: &LeaseRecord, now: Duration) {
        self.failed_writes = 0;
        let trusted_until = write.started + self.config.renew_deadline;
        if write.kind != Kind::Release {
            self.own_claim = Some(record.clone());
            self.next_write_at = write.started + self.config.retry_period;
        }
        match write.kind {
            Kind::Acquire { unproven } => {
                if unproven {
                    let wait = self.config.lease_duration.max(self.last_duration.min(LONGEST_WAIT));
                    self.may_start_at = self.may_start_at.max(now + wait);
                }
                let term = write.record.term.unwrap_or(0);
                self.highest_term = self.highest_term.max(term);
                if now >= trusted_until || self.release_until.is_some() {
                    self.next_write_at = now; // too late to be trusted: claim it again, or give it back
                    return;
                }
                let may_start_at = self.may_start_at;
                self.reign = Some(Reign { term, proved_at: write.started, trusted_until, may_start_at });
                self.raise_above = None;
                self.notices.push(Notice::Acquired {
                    term,
                    may_start_at,
                    previous_address: record.previous_address.clone(),
                });
            }
            Kind::Renew => {
                let Some(reign) = &mut self.reign else {
                    self.next_write_at = now; // landed after the loss: claim it again
                    return;
                };
                if trusted_until > reign.trusted_until {
                    reign.trusted_until = trusted_until;
                    reign.proved_at = write.started;
                }
                let term = write.record.term.unwrap_or(reign.term);
                if term > reign.term {
                    reign.term = term;
                    self.highest_term = self.highest_term.max(term);
                    self.notices.push(Notice::TermRaised { term });
                }
                if self.raise_above.is_some_and(|above| above < term) {
                    self.raise_above = None;
                }
            }
            Kind::Release => {}
        }
    }

    fn on_unchanged_or_foreign(&mut self, record: &LeaseRecord) {
        if record.holder != self.identity {
            self.step_down(LossReason::ForeignHolder);
        } else if !self.own_claim.as_ref().is_some_and(|own| own.same_claim(record)) {
            self.step_down(LossReason::Edited);
        }
    }

    fn expire(&mut self, now: Duration) {
        if self.reign.is_some_and(|reign| now >= reign.trusted_until) {
            self.step_down(LossReason::TrustEnded);
        }
    }

    fn step_down(&mut self, reason: LossReason) {
        if self.reign.take().is_some() {
            self.raise_above = None;
            if reason != LossReason::TrustEnded || !self.must_read {
                // No call failed: no need to pause.
                self.next_read_at = Duration::ZERO;
                self.next_write_at = Duration::ZERO;
            }
            self.must_read = true;
            self.notices.push(Notice::Lost { reason });
        }
    }

    /// Pause after a failure.
    fn pause(&self) -> Duration {
        if self.release_until.is_some() {
            self.config.retry_period / 4
        } else if self.reign.is_some() {
            self.config.retry_period / 2
        } else {
            self.config.retry_period + self.spread()
        }
    }

    /// Up to a fifth of the retry period, so that candidates do not ask in step.
    fn spread(&self) -> Duration {
        self.config.retry_period / 5 * self.roll / ROLL_MAX
    }

    /// Wall time of a claim. Never the one before again: it tells our writes apart.
    fn renew_time(&mut self, wall: Timestamp) -> String {
        let micros = wall.as_microsecond();
        let wall = match self.last_renew {
            Some(last) if last.as_microsecond() == micros => {
                Timestamp::from_microsecond(micros.saturating_add(1)).unwrap_or(wall)
            }
            Some(_) | None => Timestamp::from_microsecond(micros).unwrap_or(wall),
        };
        self.last_renew = Some(wall);
        Instant(wall).to_string()
    }
}

/// The Lease has whole seconds, at least one. Rounded up: a longer claim is safe, a shorter one is not.
fn whole_seconds(duration: Duration) -> Duration {
    let up = u64::from(duration.subsec_nanos() > 0);
    Duration::from_secs((duration.as_secs() + up).max(1))
}

fn holder(record: Option<&LeaseRecord>) -> Option<&str> {
    record.map(|record| record.holder.as_str()).filter(|holder| !holder.is_empty())
}

fn version(record: Option<&LeaseRecord>) -> Option<&str> {
    record.map(|record| record.resource_version.as_str())
}
