//! The rule of docs/schedules.md, word for word and minute by minute.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// An expression that is known to be good, as tables of what each number is.
pub struct Rule {
    minutes: [bool; 60],
    hours: [bool; 24],
    days: [bool; 32],
    months: [bool; 13],
    weekdays: [bool; 8],
    day_is_open: bool,
    weekday_is_open: bool,
    follows_the_clock: bool,
}

impl Rule {
    pub fn read(text: &str) -> Self {
        let fields: Vec<&str> = text.split(' ').collect();
        let [minute, hour, day, month, weekday] = fields[..] else { panic!("{text:?}") };
        let mut weekdays = table(weekday, 0, 6);
        weekdays[0] |= weekdays[7];
        let begins_with_star = |field: &str| field.starts_with(['*', '?']);
        Self {
            minutes: table(minute, 0, 59),
            hours: table(hour, 0, 23),
            days: table(day, 1, 31),
            months: table(month, 1, 12),
            weekdays,
            day_is_open: is_open(day),
            weekday_is_open: is_open(weekday),
            follows_the_clock: begins_with_star(minute) || begins_with_star(hour),
        }
    }

    /// Every run of which the nominal time lies on one of these days, in order.
    pub fn runs(&self, zone: &TimeZone, first: Date, days: i32) -> Vec<Timestamp> {
        let mut runs = Vec::new();
        let mut date = first;
        for _ in 0..days {
            let named = |table: &[bool]| (0..table.len()).filter(|n| table[*n]).map(|n| n as i8).collect::<Vec<_>>();
            let hours = if self.names_day(date) { named(&self.hours) } else { Vec::new() };
            for hour in hours {
                for minute in named(&self.minutes) {
                    self.run_at(zone, date.at(hour, minute, 0, 0), &mut runs);
                }
            }
            date = date.tomorrow().unwrap();
        }
        runs.sort();
        runs.dedup(); // two nominal times at one instant are one run
        runs
    }

    fn names_day(&self, date: Date) -> bool {
        if !self.months[date.month() as usize] {
            return false;
        }
        let day = self.days[date.day() as usize];
        let weekday = self.weekdays[date.weekday().to_sunday_zero_offset() as usize];
        if self.day_is_open || self.weekday_is_open { day && weekday } else { day || weekday }
    }

    fn run_at(&self, zone: &TimeZone, local: DateTime, runs: &mut Vec<Timestamp>) {
        match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => runs.push(offset.to_timestamp(local).unwrap()),
            AmbiguousOffset::Fold { before, after } => {
                runs.push(before.to_timestamp(local).unwrap());
                if self.follows_the_clock {
                    runs.push(after.to_timestamp(local).unwrap());
                }
            }
            AmbiguousOffset::Gap { .. } if self.follows_the_clock => {}
            AmbiguousOffset::Gap { before, after } => {
                // By the offset before the gap the time lies behind it, by the one after the gap before it.
                let (before, after) = (before.to_timestamp(local).unwrap(), after.to_timestamp(local).unwrap());
                runs.push(first_showing(zone, local, after.as_second(), before.as_second()));
            }
        }
    }
}

/// The first second in `low < t <= high` at which the clock shows `local` or more.
fn first_showing(zone: &TimeZone, local: DateTime, mut low: i64, mut high: i64) -> Timestamp {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let shown = zone.to_datetime(Timestamp::from_second(middle).unwrap());
        if shown >= local { high = middle } else { low = middle }
    }
    Timestamp::from_second(high).unwrap()
}

/// Which numbers a field names.
fn table<const N: usize>(field: &str, low: usize, high: usize) -> [bool; N] {
    let mut table = [false; N];
    for item in field.split(',') {
        let (range, step) = item.split_once('/').unwrap_or((item, ""));
        let (from, to) = match range {
            "*" | "?" => (low, high),
            _ => match range.split_once('-') {
                Some((from, to)) => (number(from), number(to)),
                None if step.is_empty() => (number(range), number(range)),
                None => (number(range), high),
            },
        };
        let step = if step.is_empty() { 1 } else { number(step) };
        for (value, named) in table.iter_mut().enumerate() {
            *named |= from <= value && value <= to && (value - from) % step == 0;
        }
    }
    table
}

fn is_open(field: &str) -> bool {
    field.split(',').any(|item| ["*", "?", "*/1", "?/1"].contains(&item))
}

fn number(text: &str) -> usize {
    const NAMES: [(&str, usize); 19] = [
        ("JAN", 1),
        ("FEB", 2),
        ("MAR", 3),
        ("APR", 4),
        ("MAY", 5),
        ("JUN", 6),
        ("JUL", 7),
        ("AUG", 8),
        ("SEP", 9),
        ("OCT", 10),
        ("NOV", 11),
        ("DEC", 12),
        ("SUN", 0),
        ("MON", 1),
        ("TUE", 2),
        ("WED", 3),
        ("THU", 4),
        ("FRI", 5),
        ("SAT", 6),
    ];
    let name = NAMES.iter().find(|(name, _)| *name == text.to_uppercase());
    name.map_or_else(|| text.parse().unwrap(), |(_, number)| *number)
}
