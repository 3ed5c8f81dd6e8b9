//! 1,000 random pairs of expression and zone, two years each.

use jiff::ToSpan;
use jiff::civil::date;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::compare::{Runs, schedule};
use crate::dice::Dice;
use crate::expression;
use crate::rule::Rule;

const PAIRS: u64 = 250;
const DAYS: i32 = 731;
/// Longer lists are not walked but probed.
const LONG: usize = 5000;

/// In four parts, so that more than one core has something to do.
#[test]
fn c093_random_pairs_of_the_years_around_1970() {
    check(1, 1955..=1985);
}

#[test]
fn c093_random_pairs_of_the_years_around_2000() {
    check(2, 1985..=2024);
}

#[test]
fn c093_random_pairs_of_the_years_to_come() {
    check(3, 2024..=2037);
}

#[test]
fn c093_random_pairs_of_any_year() {
    check(4, 1850..=2400);
}

fn check(seed: u64, years: std::ops::RangeInclusive<i64>) {
    let names: Vec<String> = TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    let mut dice = Dice::new(seed);
    let (mut pairs, mut compared, mut never) = (0, 0, 0);
    while pairs < PAIRS {
        let text = expression::draw(&mut dice);
        let name = &names[dice.index(names.len())];
        let zone: TimeZone = crate::compare::zone(name);
        let year = dice.between(*years.start(), *years.end());
        let first = date(year as i16, dice.between(1, 12) as i8, dice.between(1, 28) as i8);
        let runs = Rule::read(&text).runs(&zone, first, DAYS);
        let Some(schedule) = schedule(&text, name) else {
            assert!(runs.is_empty(), "{text:?} fires, but was refused");
            never += 1;
            continue;
        };
        pairs += 1;
        // Gaps and offsets move what is near the ends across them.
        let from = first.checked_add(3.days()).unwrap().to_zoned(TimeZone::UTC).unwrap().timestamp();
        let to = first.checked_add((DAYS - 3).days()).unwrap().to_zoned(TimeZone::UTC).unwrap().timestamp();
        let runs = Runs::new(format!("seed {seed}, {text:?} in {name}, from {first}"), &runs, from, to);
        if runs.all.len() <= LONG {
            compared += runs.walk(&schedule);
        }
        compared += runs.probe(&schedule, &mut dice, 200);
    }
    println!("seed {seed}: {pairs} pairs, {compared} answers compared; {never} more have no day");
}

#[test]
fn c084_what_is_refused_has_no_day_in_28_years_and_the_rest_has_one_in_8() {
    for month in 1..=12 {
        for day in 1..=31 {
            let text = format!("0 0 {day} {month} *");
            let runs = Rule::read(&text).runs(&TimeZone::UTC, date(2000, 1, 1), 28 * 366);
            let Some(schedule) = schedule(&text, "UTC") else {
                assert!(runs.is_empty(), "{text:?} fires, but was refused");
                continue;
            };
            assert!(!runs.is_empty(), "{text:?} never fires");
            let from = date(1896, 2, 29).to_zoned(TimeZone::UTC).unwrap().timestamp();
            let next = schedule.next(from).unwrap().to_zoned(TimeZone::UTC);
            assert!(next.year() <= 1904, "{text:?}: {next}");
        }
    }
}
