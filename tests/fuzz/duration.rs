//! Durations, against the grammar written down once more.

use ax::api::Duration;
use ax::api::duration::format;

use crate::dice::Dice;

pub const TOKENS: &[&str] = &[
    "h", "m", "s", "ms", "0", "1", "9", "99999", "100000", ".5", "-", "+", " ", "d", "us", "ns", "H", "\u{661}", "e9",
];

pub fn draw(dice: &mut Dice) -> String {
    let groups = dice.between(1, 4);
    let group = |dice: &mut Dice| format!("{}{}", dice.between(0, 99_999), dice.pick(&["h", "m", "s", "ms"]));
    (0..groups).map(|_| group(dice)).collect()
}

pub fn check(text: &str) -> bool {
    let Ok(read) = text.parse::<Duration>() else {
        assert!(!is_duration(text), "refused");
        let json = serde_json::to_string(text).unwrap();
        assert!(serde_json::from_str::<Duration>(&json).is_err());
        return false;
    };
    assert!(is_duration(text), "read as {:?}", read.get());
    assert_eq!(read.as_str(), text);
    assert!(read.get().as_secs() <= 4 * 99_999 * 3600);
    if read.get().as_secs() < 100_000 * 3600 {
        let again: Duration = format(read.get()).parse().unwrap();
        assert_eq!(again.get(), read.get());
    }
    true
}

/// `^([0-9]{1,5}(h|m|s|ms)){1,4}$`
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    for _ in 0..4 {
        let tail = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = rest.len() - tail.len();
        // A group begins with a digit: behind an `m`, an `s` belongs to it.
        let tail = ["ms", "m", "h", "s"].into_iter().find_map(|unit| tail.strip_prefix(unit));
        match tail {
            Some("") => return (1..=5).contains(&digits),
            Some(tail) if (1..=5).contains(&digits) => rest = tail,
            _ => return false,
        }
    }
    false
}
