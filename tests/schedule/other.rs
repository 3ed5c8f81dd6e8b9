//! Against croner, another implementation of cron, wherever both follow the same rule.
//!
//! Left out, because the two mean different things by them:
//! - Instants from which an answer lies at or across a change of the offset: croner has its own rule for DST.
//! - `n/step` and a list with a star in it, which croner does not read, and `?` in other fields than those of the day.
//! - `*/1` in one day field while the other says something: for croner that is a restriction, and either field is
//!   enough; for ax, as for a CronJob, it says nothing.
//! - `SUN` at the end of a range: croner's second Sunday, the first for ax and CronJobs.

use croner::Cron;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::compare::schedule;
use crate::dice::Dice;
use crate::expression;

const PAIRS: usize = 5000;
const ASKED: usize = 20;

#[test]
fn croner_agrees_where_both_follow_the_same_rule() {
    let names: Vec<String> = TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    let mut dice = Dice::new(5);
    let (mut pairs, mut compared, mut near_a_change) = (0, 0, 0);
    while pairs < PAIRS {
        let text = expression::draw(&mut dice);
        let name = &names[dice.index(names.len())];
        if is_read_otherwise(&text) {
            continue;
        }
        let Some(ours) = schedule(&text, name) else { continue };
        let theirs: Cron = text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let zone = crate::compare::zone(name);
        pairs += 1;
        for _ in 0..ASKED {
            let now = Timestamp::from_second(dice.between(0, 4_000_000_000)).unwrap();
            for forwards in [true, false] {
                let got = if forwards { ours.next(now) } else { ours.previous(now) };
                let got = got.unwrap();
                if changes_between(&zone, now, got) {
                    near_a_change += 1;
                    continue;
                }
                let zoned = now.to_zoned(zone.clone());
                let want = if forwards {
                    theirs.find_next_occurrence(&zoned, false)
                } else {
                    theirs.find_previous_occurrence(&zoned, false)
                };
                let want = want.map(|want| want.timestamp()).map_err(|error| error.to_string());
                assert_eq!(Ok(got), want, "{text:?} in {name}, forwards: {forwards}, from {now}");
                compared += 1;
            }
        }
    }
    println!("{pairs} pairs, {compared} answers compared, {near_a_change} left out: a change of the offset is near");
}

fn is_read_otherwise(text: &str) -> bool {
    let fields: Vec<&str> = text.split(' ').collect();
    let open_step = |item: &str| item.split_once('/').is_some_and(|(range, _)| !range.contains(['-', '*']));
    let plain = |field: &str| matches!(field, "*" | "?");
    let starred_list = |field: &&str| field.contains(',') && field.split(',').any(plain);
    let starred = |field: &str| field.split(',').any(|item| item == "*/1");
    let (day, weekday) = (fields[2], fields[4]);
    text.split([' ', ',']).any(open_step)
        || fields.iter().any(starred_list)
        || weekday.to_uppercase().contains("-SUN")
        || [0, 1, 3].iter().any(|n| fields[*n].contains('?'))
        || (starred(day) && !plain(weekday))
        || (starred(weekday) && !plain(day))
}

/// Whether the offset changes within a day of what lies between the two.
fn changes_between(zone: &TimeZone, a: Timestamp, b: Timestamp) -> bool {
    let day = SignedDuration::from_hours(24);
    zone.following(a.min(b) - day).next().is_some_and(|change| change.timestamp() < a.max(b) + day)
}
