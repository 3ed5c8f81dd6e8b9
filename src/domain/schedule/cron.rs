//! Local times of a zone as instants, forwards and backwards. Pure.
//!
//! All instants here are whole seconds since 1970.

use jiff::Timestamp;

use super::fields::Fields;
use super::zone::{LARGEST_OFFSET, Zone};
use super::{Refused, parse};

/// Follows the local clock across this much time at most: twice the 8 years between two days, and some.
const HORIZON: i64 = 20 * 366 * 86_400;

/// A cron expression in its zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    fields: Fields,
    zone: Zone,
}

impl Cron {
    /// Reads five fields or one of the `@hourly` family. No zone is UTC.
    pub fn read(expression: &str, zone: Option<&str>) -> Result<Self, Refused> {
        let fields = parse::read(expression)?;
        let zone = zone.map_or_else(|| Ok(Zone::utc()), Zone::named)?;
        Ok(Self { fields, zone })
    }

    /// The zone whose local clock it reads.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The first run strictly after an instant.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let from = floor(after) + 1;
        let at = if self.fields.follows { self.shown_from(from) } else { self.reached_from(from) };
        Timestamp::from_second(at?).ok()
    }

    /// The last run strictly before an instant.
    pub fn previous(&self, before: Timestamp) -> Option<Timestamp> {
        let end = floor(before) + i64::from(before.subsec_nanosecond() != 0);
        let at = if self.fields.follows { self.shown_before(end) } else { self.reached_before(end) };
        Timestamp::from_second(at?).ok()
    }

    /// The first instant at or after `from` at which the local clock shows a named time.
    fn shown_from(&self, from: i64) -> Option<i64> {
        let mut at = from;
        while at < from + HORIZON {
            let stretch = self.zone.stretch(at);
            let found = self.fields.first_from(at + stretch.offset)? - stretch.offset;
            if found < stretch.end {
                return Some(found);
            }
            at = stretch.end;
        }
        None
    }

    /// The last such instant before `end`.
    fn shown_before(&self, end: i64) -> Option<i64> {
        let mut at = end - 1;
        while at > end - HORIZON {
            let stretch = self.zone.stretch(at);
            let found = self.fields.last_to(at + stretch.offset)? - stretch.offset;
            if found >= stretch.start {
                return Some(found);
            }
            at = stretch.start - 1;
        }
        None
    }

    /// The first instant at or after `from` at which the local clock reaches a named time it has not reached before.
    fn reached_from(&self, from: i64) -> Option<i64> {
        self.fields.first_from(self.reached_until(from)).map(|local| self.reaches(local))
    }

    /// The last such instant before `end`.
    fn reached_before(&self, end: i64) -> Option<i64> {
        self.fields.last_to(self.reached_until(end) - 1).map(|local| self.reaches(local))
    }

    /// The local clock has reached every time before this one, and none from it on, when `end` begins.
    fn reached_until(&self, end: i64) -> i64 {
        let mut stretch = self.zone.stretch(end - 1);
        let mut reached = end + stretch.offset;
        // A stretch that ended longer ago than two offsets can differ was not ahead of this one.
        while stretch.start > end - 2 * LARGEST_OFFSET {
            stretch = self.zone.stretch(stretch.start - 1);
            reached = reached.max(stretch.local_end());
        }
        reached
    }

    /// The first instant at which the local clock shows `local` or, if a gap skips it, more.
    fn reaches(&self, local: i64) -> i64 {
        let mut stretch = self.zone.stretch(local - LARGEST_OFFSET);
        while stretch.local_end() <= local {
            stretch = self.zone.stretch(stretch.end);
        }
        stretch.start.max(local - stretch.offset)
    }
}

/// The second in which an instant lies. jiff's own rounds towards 1970.
fn floor(at: Timestamp) -> i64 {
    at.as_second() - i64::from(at.subsec_nanosecond() < 0)
}
