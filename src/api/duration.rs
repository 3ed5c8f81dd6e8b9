//! Durations as Kubernetes' GEP-2257 writes them: `1500ms`, `3s`, `1h30m`. Pure.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One to four groups of at most five digits, each with its unit.
pub const PATTERN: &str = "^([0-9]{1,5}(h|m|s|ms)){1,4}$";
const MAX_LENGTH: usize = 28;

/// A length of time, GEP-2257: whole numbers with the units `h`, `m`, `s`, `ms`; no sign, no fraction.
///
/// The text is kept as the user wrote it: `90m` never becomes `1h30m`.
#[derive(Clone, PartialEq, Eq)]
pub struct Duration {
    text: String,
    value: std::time::Duration,
}

impl Duration {
    /// The length. At most 4 x 99999 h, so sums with any instant of this millennium do not overflow.
    pub fn get(&self) -> std::time::Duration {
        self.value
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: write whole numbers with h, m, s or ms, such as 1500ms, 3s or 1h30m")]
pub struct ParseError {
    text: String,
}

impl FromStr for Duration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match millis(text) {
            Some(millis) => Ok(Self { text: text.to_owned(), value: std::time::Duration::from_millis(millis) }),
            None => Err(ParseError { text: text.chars().take(64).collect() }),
        }
    }
}

fn millis(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0u64;
    let mut groups = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        groups += 1;
        if digits == 0 || digits > 5 || groups > 4 {
            return None;
        }
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        // `ms` before `m`: the longer unit wins.
        let (unit, scale) = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        total += number * scale;
    }
    (groups > 0).then_some(total)
}

/// Writes a length in whole milliseconds, rounded up, in the fewest groups: `90s` is `1m30s`.
pub fn format(value: std::time::Duration) -> String {
    let total = value.as_nanos().div_ceil(1_000_000);
    if total == 0 {
        return "0s".to_owned();
    }
    let hours = (total / 3_600_000).min(99_999);
    let parts = [(hours, "h"), (total / 60_000 % 60, "m"), (total / 1000 % 60, "s"), (total % 1000, "ms")];
    parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect()
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MAX_LENGTH, "pattern": PATTERN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c002_reads_what_gep_2257_allows() {
        for (text, want) in [
            ("1500ms", 1500),
            ("3s", 3000),
            ("1h30m", 5_400_000),
            ("00060m", 3_600_000),
            ("99999h", 359_996_400_000),
            ("99999h59m59s999ms", 359_999_999_999),
            ("0s", 0),
            ("1m1ms", 60_001),
        ] {
            assert_eq!(text.parse::<Duration>().map(|d| d.get().as_millis()), Ok(want), "{text}");
        }
    }

    #[test]
    fn c002_refuses_everything_else() {
        for text in ["1.5s", "-5s", "5", "1d", "100000h", "", "s", "1h 2m", "1s1s1s1s1s", "1S", "١s", "3 weeks"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn keeps_the_text_as_written() {
        let read: Duration = serde_json::from_str("\"90m\"").expect("a duration");
        assert_eq!(serde_json::to_string(&read).expect("text"), "\"90m\"");
    }

    #[test]
    fn formats_back_to_what_it_reads() {
        for (millis, want) in [(0, "0s"), (1500, "1s500ms"), (90_000, "1m30s"), (3_600_000, "1h"), (50, "50ms")] {
            assert_eq!(format(std::time::Duration::from_millis(millis)), want);
            assert_eq!(super::millis(want), Some(millis));
        }
        assert_eq!(format(std::time::Duration::from_micros(1)), "1ms", "rounded up");
    }
}
