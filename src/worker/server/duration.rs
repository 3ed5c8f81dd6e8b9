//! Durations as headers carry them (GEP-2257). Pure.

use std::time::Duration;

/// Reads `1h30m`, `60s`, `1500ms`: one to four numbers of at most five digits, each with its unit. `None` for
/// anything else, also for a bare number.
pub fn parse(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    for _ in 0..4 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=5).contains(&digits) {
            return None;
        }
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        // `ms` before `m`, which it begins with.
        let (unit, length) = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))?;
        total += Duration::from_millis(number * length);
        rest = &rest[unit.len()..];
        if rest.is_empty() {
            return Some(total);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gateway_durations_are_read() {
        for (text, want) in [
            ("60s", Some(60_000)),
            ("1500ms", Some(1_500)),
            ("1h30m", Some(5_400_000)),
            ("1h2m3s4ms", Some(3_723_004)),
            ("0s", Some(0)),
            ("99999h", Some(359_996_400_000)),
            ("", None),
            ("60", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("1s ", None),
            ("100000s", None),
            ("1h1m1s1ms1ms", None),
            ("1d", None),
            ("1µs", None),
        ] {
            assert_eq!(parse(text), want.map(Duration::from_millis), "{text:?}");
        }
    }
}
