//! Expressions, each in a zone that the text itself picks.

use ax::domain::schedule::{Refused, Schedule, Why};
use jiff::{SignedDuration, Timestamp};

use crate::dice::Dice;

pub const TOKENS: &[&str] = &[
    "*",
    "?",
    "/",
    "-",
    ",",
    "0",
    "1",
    "7",
    "23",
    "31",
    "59",
    "60",
    "00",
    "99999",
    "4294967296",
    " ",
    "\t",
    "\n",
    "*/",
    "/0",
    "0/",
    "1-",
    "L",
    "W",
    "#",
    "H",
    "~",
    "@",
    "@hourly",
    "@every ",
    "@reboot",
    "TZ=",
    "CRON_TZ=UTC ",
    "JAN",
    "dec",
    "SUN",
    "sat",
    "FEB-",
    "29 2",
    "30 2",
    "* * * * *",
    "\u{2013}",
    "\u{661}",
    "\0",
    "+",
    "1.5",
];

const ZONES: [&str; 8] = [
    "UTC",
    "Africa/Casablanca",
    "America/New_York",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Kwajalein",
];

pub fn check(text: &str) -> bool {
    let mut dice = Dice::new(text.bytes().fold(17, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(byte.into())));
    let zone = dice.pick(&ZONES);
    match Schedule::cron(text, Some(zone)) {
        Ok(schedule) => {
            assert!(text.is_ascii() && text.len() <= 128);
            for _ in 0..4 {
                let second = dice.between(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
                check_at(&schedule, Timestamp::from_second(second).unwrap());
                let second = dice.between(-3_000_000_000, 6_000_000_000);
                check_at(&schedule, Timestamp::from_second(second).unwrap());
            }
            check_at(&schedule, Timestamp::MIN);
            check_at(&schedule, Timestamp::MAX);
            true
        }
        Err(refused) => {
            assert_ne!(refused.reason, Why::UnknownTimeZone);
            check_refusal(&refused, "spec.schedule.cron");
            false
        }
    }
}

/// Forwards is later, backwards is earlier, and one is the mirror of the other.
pub fn check_at(schedule: &Schedule, at: Timestamp) {
    let nano = SignedDuration::from_nanos(1);
    if let Some(next) = schedule.next(at) {
        assert!(next > at, "next after {at} is {next}");
        assert!(next.duration_since(at) < SignedDuration::from_hours(8 * 366 * 24 + 48), "{next} is far from {at}");
        assert!(schedule.previous(next).is_none_or(|previous| previous <= at), "a run lies between {at} and {next}");
        if let Ok(later) = next.checked_add(nano) {
            assert_eq!(schedule.previous(later), Some(next));
        }
    } else {
        assert!(at > Timestamp::MAX - SignedDuration::from_hours(8 * 366 * 24 + 48), "nothing after {at}");
    }
    if let Some(previous) = schedule.previous(at) {
        assert!(previous < at, "previous before {at} is {previous}");
        assert!(schedule.next(previous).is_none_or(|next| next >= at), "a run lies between {previous} and {at}");
        if let Ok(earlier) = previous.checked_sub(nano) {
            assert_eq!(schedule.next(earlier), Some(previous));
        }
    } else {
        assert!(at < Timestamp::MIN + SignedDuration::from_hours(8 * 366 * 24 + 48), "nothing before {at}");
    }
}

/// A condition's message: names the field, is short, and holds no control characters.
pub fn check_refusal(refused: &Refused, field: &str) {
    assert_eq!(refused.field, field);
    let message = &refused.message;
    assert!(message.starts_with(field) && !message.chars().any(char::is_control), "{message:?}");
    assert!(message.len() <= 2048, "{} bytes: {message}", message.len());
}
