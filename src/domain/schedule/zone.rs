//! A time zone by its IANA name, from the data in the program. Pure: no host's files, no host's zone.
//!
//! A zone's line of time is a row of stretches of one offset each. Everything else here follows from them.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{Refused, TIME_ZONE, Why, hint, refused};

/// No offset is as large, either way.
pub const LARGEST_OFFSET: i64 = 26 * 3600;

/// A zone of IANA's, with the name it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    zone: TimeZone,
    name: String,
}

/// The instants `start <= t < end`, at which the local clock shows `t + offset`. In seconds.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    pub start: i64,
    pub end: i64,
    pub offset: i64,
}

impl Stretch {
    /// The local time that is never reached, because the stretch ends before it.
    pub fn local_end(&self) -> i64 {
        self.end.saturating_add(self.offset)
    }
}

impl Zone {
    pub fn utc() -> Self {
        Self { zone: TimeZone::UTC, name: "UTC".to_owned() }
    }

    /// The zone of exactly this name. jiff reads names in any case, and has one of its own for none.
    pub fn named(name: &str) -> Result<Self, Refused> {
        let zones = TimeZoneDatabase::bundled();
        if let Ok(zone) = zones.get(name)
            && zone.iana_name() == Some(name)
            && !zone.is_unknown()
        {
            return Ok(Self { zone, name: name.to_owned() });
        }
        let why = hint::unknown_zone(name, zones.available().map(|known| known.as_str().to_owned()));
        Err(refused(Why::UnknownTimeZone, TIME_ZONE, name, &why))
    }

    /// The name as the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The zone itself, to write local times with.
    pub fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The stretch around an instant. Outside jiff's calendar its first and last stretch go on.
    pub fn stretch(&self, at: i64) -> Stretch {
        let at = at.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        let instant = Timestamp::from_second(at).unwrap_or_default();
        let past = Timestamp::from_second(at + 1).unwrap_or(Timestamp::MAX);
        let begun = self.zone.preceding(past).next().map(|change| change.timestamp());
        let ended = self.zone.following(instant).next().map(|change| change.timestamp());
        Stretch {
            start: begun.filter(|start| *start > Timestamp::MIN).map_or(i64::MIN, Timestamp::as_second),
            end: ended.map_or(i64::MAX, Timestamp::as_second),
            offset: self.zone.to_offset(instant).seconds().into(),
        }
    }
}
