//! When a template runs: a cron expression in a time zone, or a fixed interval from an anchor. Pure.
//!
//! Two questions, mirrors of one another: the first run strictly after an instant, and the last strictly before one.
//! What was missed is found by asking backwards, never by counting intervals.
//!
//! **Local clock.** A cron expression names local times. If its minute or its hour field begins with `*`, it runs
//! whenever the local clock shows one of them: through both passes of an overlap, and not at all inside a gap. Any other
//! runs when the local clock first reaches each of them: at its first pass if an overlap repeats it, at the first
//! instant after the gap if a gap skips it. Times that meet at one instant are one run.
//!
//! **Cost.** No answer steps through time: bits find the minute, hour and day, and a search for a day ends after the
//! 8 years that may lie between two 29ths of February. What has no day at all is refused when it is read.

mod civil;
mod cron;
mod every;
mod fields;
mod hint;
mod item;
mod parse;
#[cfg(test)]
mod tests;
mod zone;

use std::time::Duration;

use jiff::Timestamp;

pub use cron::Cron;
pub use every::Every;
pub use zone::Zone;

/// Where the expression stands in an `AxTaskTemplate`.
const CRON: &str = "spec.schedule.cron";
/// Where the interval stands.
const EVERY: &str = "spec.schedule.every";
/// Where the zone stands.
const TIME_ZONE: &str = "spec.schedule.timeZone";

/// When a template runs. Every answer is a whole second for cron, exact for an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Local times of a zone.
    Cron(Cron),
    /// Equal steps on the clock of UTC.
    Every(Every),
}

impl Schedule {
    /// Reads five fields or one of the `@hourly` family. No zone is UTC.
    pub fn cron(expression: &str, zone: Option<&str>) -> Result<Self, Refused> {
        Cron::read(expression, zone).map(Self::Cron)
    }

    /// `anchor + k * every` for all whole `k >= 0`. Refuses less than a second.
    pub fn every(every: Duration, anchor: Timestamp) -> Result<Self, Refused> {
        Every::new(every, anchor).map(Self::Every)
    }

    /// The first run strictly after an instant; `None` only past the end of the calendar.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => cron.next(after),
            Self::Every(every) => every.next(after),
        }
    }

    /// The last run strictly before an instant; `None` before the anchor and before the calendar.
    pub fn previous(&self, before: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => cron.previous(before),
            Self::Every(every) => every.previous(before),
        }
    }
}

/// Why a schedule cannot be: the reason of a condition, and what to tell the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    pub reason: Why,
    /// The field of the template, such as `spec.schedule.cron`.
    pub field: &'static str,
    /// Names the field, what was understood, and what to write instead.
    pub message: String,
}

/// The kinds of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The expression or the interval cannot be read.
    InvalidSchedule,
    /// The zone is none of IANA's.
    UnknownTimeZone,
    /// The expression is well formed, and no calendar has such a day.
    ScheduleNeverFires,
}

impl Why {
    /// The reason as conditions write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSchedule => "InvalidSchedule",
            Self::UnknownTimeZone => "UnknownTimeZone",
            Self::ScheduleNeverFires => "ScheduleNeverFires",
        }
    }
}

/// `value` is what stands in the field; only its beginning is repeated.
fn refused(reason: Why, field: &'static str, value: &str, why: &str) -> Refused {
    Refused { reason, field, message: format!("{field} {}: {why}", hint::quoted(value)) }
}
