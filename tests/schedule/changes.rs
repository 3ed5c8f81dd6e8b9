//! Every change of the offset in twenty zones, 2000 to 2040, with two days on either side.

use ax::domain::schedule::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::compare::{Runs, schedule, zone};
use crate::rule::Rule;

const ZONES: [&str; 20] = [
    "Africa/Cairo",
    "Africa/Casablanca", // standard time is summer time, but for Ramadan
    "America/Caracas",   // half an hour, 2007 and 2016
    "America/Havana",    // changes at midnight
    "America/Los_Angeles",
    "America/New_York",
    "America/Nuuk",      // changes at the evening before
    "America/Sao_Paulo", // no midnight on the first day of summer
    "America/St_Johns",  // changed a minute past midnight
    "Antarctica/Casey",  // three hours and more at once
    "Antarctica/Troll",  // two hours
    "Asia/Gaza",
    "Asia/Pyongyang", // half an hour, 2015 and 2018
    "Asia/Tehran",
    "Australia/Lord_Howe", // half an hour
    "Europe/Berlin",
    "Europe/Dublin", // winter time is the exception
    "Pacific/Apia",  // no 30th of December 2011
    "Pacific/Kiritimati",
    "Pacific/Norfolk",
];

const EXPRESSIONS: [&str; 16] = [
    "0 0 * * *",
    "0 2 * * *",
    "30 2 * * *",
    "30 1 * * *",
    "59 23 * * *",
    "0,30 1-3 * * *",
    "7-59/26 0-23 * * *",
    "0,15,30,45 0,23 * * 0,6",
    "1 0-4 * * *",
    "10/25 2/3 1-31 * *",
    "0 * * * *",
    "*/15 * * * *",
    "*/20 0-3 * * *",
    "*/7 2 * * *",
    "45 */3 * * *",
    "* 23,0,1 * * *",
];

#[test]
fn c093_every_change_of_the_offset_in_half_the_zones() {
    check(&ZONES[..10]);
}

#[test]
fn c093_every_change_of_the_offset_in_the_other_half() {
    check(&ZONES[10..]);
}

fn check(zones: &[&str]) {
    let (mut found, mut compared) = (0, 0);
    for name in zones {
        let zone = zone(name);
        let schedules: Vec<(&str, Rule, Schedule)> =
            EXPRESSIONS.map(|text| (text, Rule::read(text), schedule(text, name).unwrap())).into();
        let changes = changes(&zone);
        found += changes.len();
        for change in changes {
            let day = SignedDuration::from_hours(24);
            let first = zone.to_datetime(change).date().checked_sub(4.days()).unwrap();
            for (text, rule, schedule) in &schedules {
                let runs = rule.runs(&zone, first, 9);
                let about = format!("{text:?} in {name} around {change}");
                let runs = Runs::new(about, &runs, change - day * 2, change + day * 2);
                compared += runs.walk(schedule) + runs.sweep(schedule, change, 4);
            }
        }
    }
    println!("{found} changes, {compared} answers compared");
}

/// Found hour by hour, then by halves to the second.
fn changes(zone: &TimeZone) -> Vec<Timestamp> {
    let instant = |second| Timestamp::from_second(second).unwrap();
    let offset = |second| zone.to_offset(instant(second));
    let year = |text: &str| text.parse::<Timestamp>().unwrap().as_second();
    let (start, end) = (year("2000-01-01T00:00:00Z"), year("2041-01-01T00:00:00Z"));
    let mut changes = Vec::new();
    for hour in (start..end).step_by(3600) {
        let (mut low, mut high) = (hour, hour + 3600);
        if offset(low) == offset(high) {
            continue;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if offset(middle) == offset(low) { low = middle } else { high = middle }
        }
        changes.push(instant(high));
    }
    changes
}
