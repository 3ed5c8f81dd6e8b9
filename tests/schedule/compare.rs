//! Asks a schedule forwards and backwards, and holds the answers against a list of runs.

use ax::domain::schedule::{Refused, Schedule, Why};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::dice::Dice;

/// A list of all runs in `from <= t <= to`.
pub struct Runs<'a> {
    pub about: String,
    pub all: &'a [Timestamp],
    pub from: Timestamp,
    pub to: Timestamp,
}

impl<'a> Runs<'a> {
    /// The runs of `all` that lie between the two.
    pub fn new(about: String, all: &'a [Timestamp], from: Timestamp, to: Timestamp) -> Self {
        let first = all.partition_point(|run| *run < from);
        let end = all.partition_point(|run| *run <= to);
        Self { about, all: &all[first..end], from, to }
    }

    /// From one to the next through all of them, and back. How many answers were compared.
    pub fn walk(&self, schedule: &Schedule) -> usize {
        let nano = SignedDuration::from_nanos(1);
        let mut now = self.from - nano;
        for want in self.all {
            let next = schedule.next(now);
            assert_eq!(next, Some(*want), "{}: next after {now}", self.about);
            now = *want;
        }
        let beyond = schedule.next(now);
        assert!(beyond.is_none_or(|next| next > self.to), "{}: {beyond:?} after {now}", self.about);

        let mut now = self.to + nano;
        for want in self.all.iter().rev() {
            let previous = schedule.previous(now);
            assert_eq!(previous, Some(*want), "{}: previous before {now}", self.about);
            now = *want;
        }
        let before = schedule.previous(now);
        assert!(before.is_none_or(|previous| previous < self.from), "{}: {before:?} before {now}", self.about);
        2 * self.all.len() + 2
    }

    /// From any instant between the first and the last run. How many answers were compared.
    pub fn probe(&self, schedule: &Schedule, dice: &mut Dice, times: usize) -> usize {
        let (Some(first), Some(last)) = (self.all.first(), self.all.last()) else { return 0 };
        for _ in 0..times {
            let second = dice.between(first.as_second(), last.as_second() - 1);
            let nanos = if dice.percent(50) { 0 } else { dice.between(0, 999_999_999) as i32 };
            self.ask(schedule, Timestamp::new(second, nanos).unwrap());
        }
        2 * times
    }

    /// Every ten minutes, and a nanosecond before, for some hours around an instant. How many answers were compared.
    pub fn sweep(&self, schedule: &Schedule, around: Timestamp, hours: i64) -> usize {
        let steps = -hours * 6..=hours * 6;
        for step in steps.clone() {
            let now = around + SignedDuration::from_mins(10 * step);
            self.ask(schedule, now);
            self.ask(schedule, now - SignedDuration::from_nanos(1));
        }
        4 * steps.count()
    }

    fn ask(&self, schedule: &Schedule, now: Timestamp) {
        let next = self.all.get(self.all.partition_point(|run| *run <= now));
        let got = schedule.next(now);
        let right = next.map_or(got.is_none_or(|got| got > self.to), |next| got == Some(*next));
        assert!(right, "{}: next after {now} is {got:?}, not {next:?}", self.about);
        let previous = self.all[..self.all.partition_point(|run| *run < now)].last();
        let got = schedule.previous(now);
        let right = previous.map_or(got.is_none_or(|got| got < self.from), |previous| got == Some(*previous));
        assert!(right, "{}: previous before {now} is {got:?}, not {previous:?}", self.about);
    }
}

/// The schedule, or `None` for one that has no day.
pub fn schedule(expression: &str, zone: &str) -> Option<Schedule> {
    match Schedule::cron(expression, Some(zone)) {
        Ok(schedule) => Some(schedule),
        Err(Refused { reason: Why::ScheduleNeverFires, .. }) => None,
        Err(refused) => panic!("{refused}"),
    }
}

pub fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}
