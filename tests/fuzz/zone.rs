//! Names of zones: exactly IANA's are taken, and what is proposed instead is one of them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use ax::domain::schedule::{Schedule, Why};
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

use crate::cron::{check_at, check_refusal};
use crate::dice::Dice;

pub const TOKENS: &[&str] = &[
    "/", "_", "-", "+", "GMT", "UTC", "Etc/", "Europe/", "America/", "Berlin", "New_York", "Local", "posix/", "right/",
    "..", "\0", " ", "EST5EDT", ",M3.2.0", "<+02>-2", ":", "Unknown", "\u{130}",
];

static NAMES: LazyLock<BTreeSet<String>> =
    LazyLock::new(|| TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect());

pub fn draw(dice: &mut Dice) -> String {
    let name = NAMES.iter().nth(dice.index(NAMES.len())).unwrap();
    match dice.index(4) {
        0 => name.to_lowercase(),
        1 => name.rsplit('/').next().unwrap_or(name).to_owned(),
        _ => name.clone(),
    }
}

pub fn check(text: &str) -> bool {
    match Schedule::cron("30 2 * * *", Some(text)) {
        Ok(schedule) => {
            assert!(NAMES.contains(text), "taken");
            for second in (-1_000_000_000..5_000_000_000).step_by(777_777_777) {
                check_at(&schedule, Timestamp::from_second(second).unwrap());
            }
            true
        }
        Err(refused) => {
            assert!(!NAMES.contains(text), "refused: {refused}");
            assert_eq!(refused.reason, Why::UnknownTimeZone);
            check_refusal(&refused, "spec.schedule.timeZone");
            if let Some((_, meant)) = refused.message.rsplit_once("did you mean \"") {
                assert!(NAMES.contains(meant.trim_end_matches("\"?")), "{refused}");
            }
            false
        }
    }
}
