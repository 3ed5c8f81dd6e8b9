//! Terms: numbers of reigns, which only grow. Pure.

use jiff::Timestamp;

/// How far ahead of now a term may lie and still be believed.
const BELIEVED_AHEAD_MS: u64 = 24 * 60 * 60 * 1000;

/// Whether a term may be taken over from where it was seen. One more than a day ahead of now is forged or broken.
pub fn is_believed(term: u64, wall: Timestamp) -> bool {
    term <= unix_ms(wall).saturating_add(BELIEVED_AHEAD_MS)
}

/// The term after the highest seen, and after the Unix milliseconds of now: so it grows even when every record of
/// earlier terms was deleted.
pub fn next_term(highest: u64, wall: Timestamp) -> u64 {
    highest.max(unix_ms(wall)).saturating_add(1)
}

fn unix_ms(wall: Timestamp) -> u64 {
    u64::try_from(wall.as_millisecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    #[test]
    fn c068_a_term_exceeds_the_clock_and_all_seen() {
        let wall = Timestamp::from_millisecond(1_000_000).expect("an instant");
        for (case, seen, want) in [
            ("nothing seen", 0, 1_000_001),
            ("a lower one seen", 999_999, 1_000_001),
            ("a higher one seen", 2_000_000, 2_000_001),
        ] {
            assert_eq!(next_term(seen, wall), want, "{case}");
        }
    }

    #[test]
    fn a_term_over_a_day_ahead_is_not_believed() {
        let wall = Timestamp::from_millisecond(1_000_000).expect("an instant");
        for (case, term, want) in [
            ("past", 1, true),
            ("a day ahead", 1_000_000 + DAY, true),
            ("more", 1_000_001 + DAY, false),
            ("forged", u64::MAX, false),
        ] {
            assert_eq!(is_believed(term, wall), want, "{case}");
        }
    }
}
