//! Instants in status: RFC 3339, UTC, exactly six digits of a second. Pure.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant. Any offset is read; UTC with microseconds is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub Timestamp);

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        // The API server's calendar goes a day further than jiff's: the last day of 9999 is the end of time.
        if text.starts_with("9999-12-31") {
            return Ok(Self(text.parse().unwrap_or(Timestamp::MAX)));
        }
        text.parse()
            .map(Self)
            .map_err(|error| serde::de::Error::custom(format!("{text:?} is not an RFC 3339 instant: {error}")))
    }
}

impl JsonSchema for Instant {
    fn schema_name() -> Cow<'static, str> {
        "Instant".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time", "maxLength": 40 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_any_offset_and_writes_utc_with_six_digits() {
        let read: Instant = serde_json::from_str("\"2026-12-01T10:00:00.5+02:00\"").expect("an instant");
        assert_eq!(read.to_string(), "2026-12-01T08:00:00.500000Z");
    }

    #[test]
    fn the_last_day_of_9999_is_the_end_of_time() {
        let read: Instant = serde_json::from_str("\"9999-12-31T23:59:59Z\"").expect("an instant");
        assert_eq!(read.0, Timestamp::MAX);
    }
}
