//! Which runs a schedule owes: made now, made up, or missed. Pure.
//!
//! A schedule's cursor is its first tick that is not handled yet. It is what `status.nextScheduleTime` records, so
//! that a successor goes on exactly there.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::lifecycle::later;
use super::schedule::Schedule;

/// A tick handled no later than this is on time, not missed: with the default timing a failover takes less.
pub const ON_TIME: SignedDuration = SignedDuration::from_secs(10);
/// Missed ticks are counted up to this many at once.
const MAX_COUNTED: u64 = 10_000;

/// What is owed at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// Nominal times of the runs to be made, oldest first.
    pub make: Vec<Timestamp>,
    /// Ticks for which no run is made.
    pub missed: Option<Missed>,
    /// The first tick after these.
    pub next: Option<Timestamp>,
}

/// Ticks for which no run is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// How many; counted up to 10,000 at once.
    pub count: u64,
    /// The newest of them.
    pub last: Timestamp,
    /// Why that one.
    pub why: Why,
}

/// Why a tick got no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// ax could not act in time, and `catchUp` makes up fewer.
    TooLate,
    /// Its `startDeadline` has passed.
    DeadlineExceeded,
}

impl Why {
    /// One CamelCase word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLate => "TooLate",
            Self::DeadlineExceeded => "DeadlineExceeded",
        }
    }
}

/// What a schedule's owner says besides the schedule itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How many missed ticks are made up.
    pub catch_up: u32,
    /// How long after its nominal time a run may start.
    pub deadline: Option<Duration>,
    /// How much later than its nominal time each run is made.
    pub offset: Duration,
}

/// What is owed for the ticks from `cursor` on, at `now`.
pub fn owed(schedule: &Schedule, cursor: Timestamp, rules: Rules, now: Timestamp) -> Owed {
    let offset = SignedDuration::try_from(rules.offset).unwrap_or(SignedDuration::MAX);
    let reached = now.checked_sub(offset).unwrap_or(Timestamp::MIN);
    let due = ticks_back(schedule, cursor, reached);
    let mut owed = Owed { make: Vec::new(), missed: None, next: schedule.next(reached.max(before(cursor))) };
    for tick in due.take(usize::try_from(MAX_COUNTED).unwrap_or(usize::MAX)) {
        // It counts from when the run is due to be made, as in the run itself.
        let late = rules.deadline.is_some_and(|deadline| later(tick, deadline) <= reached);
        let why = if late {
            Why::DeadlineExceeded
        } else if reached.duration_since(tick) <= ON_TIME || owed.make.len() < rules.catch_up as usize {
            owed.make.push(tick);
            continue;
        } else {
            Why::TooLate
        };
        match &mut owed.missed {
            Some(missed) => missed.count += 1,
            None => owed.missed = Some(Missed { count: 1, last: tick, why }),
        }
    }
    owed.make.reverse();
    owed
}

/// Ticks in `from..=to`, newest first.
fn ticks_back(schedule: &Schedule, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
    let after = to.checked_add(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX);
    let first = schedule.previous(after);
    std::iter::successors(first, |tick| schedule.previous(*tick)).take_while(move |tick| *tick >= from)
}

fn before(at: Timestamp) -> Timestamp {
    at.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}

/// How much later than its nominal time each run of a template is made: always the same for one template, evenly
/// spread over all, in whole milliseconds below `spread`.
pub fn offset(template_uid: &str, spread: Duration) -> Duration {
    let millis = spread.as_millis();
    if millis == 0 {
        return Duration::ZERO;
    }
    let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, template_uid.as_bytes()).as_u128();
    Duration::from_millis(u64::try_from(hash % millis).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    fn cron(expression: &str) -> Schedule {
        Schedule::cron(expression, None).expect("a schedule")
    }

    fn rules(catch_up: u32) -> Rules {
        Rules { catch_up, deadline: None, offset: Duration::ZERO }
    }

    fn minutes(ticks: &[Timestamp]) -> Vec<String> {
        ticks.iter().map(|t| t.to_string()[11..16].to_owned()).collect()
    }

    #[test]
    fn c096_after_an_outage_the_newest_ticks_are_made_up_oldest_first() {
        let schedule = cron("* * * * *");
        let (cursor, now) = (at("2026-12-01T10:01:00Z"), at("2026-12-01T11:41:30Z"));
        for (catch_up, made, first, missed) in
            [(0, 0, "", 101), (1, 1, "11:41", 100), (5, 5, "11:37", 96), (100, 100, "10:02", 1)]
        {
            let owed = owed(&schedule, cursor, rules(catch_up), now);
            assert_eq!(owed.make.len(), made, "catchUp {catch_up}");
            assert_eq!(minutes(&owed.make).first().map_or("", String::as_str), first);
            assert!(owed.make.is_sorted());
            assert_eq!(owed.missed.map(|m| (m.count, m.why)), Some((missed, Why::TooLate)));
            assert_eq!(owed.next, Some(at("2026-12-01T11:42:00Z")));
        }
    }

    #[test]
    fn c097_none_past_its_deadline_is_made_up() {
        let schedule = cron("*/10 * * * *");
        let (cursor, now) = (at("2026-12-01T08:20:00Z"), at("2026-12-01T08:42:00Z"));
        let made = |rules| minutes(&owed(&schedule, cursor, rules, now).make);
        assert_eq!(made(rules(1)), ["08:40"]);
        assert_eq!(made(rules(10)), ["08:20", "08:30", "08:40"]);
        let deadline = Some(Duration::from_secs(900));
        assert_eq!(made(Rules { deadline, ..rules(10) }), ["08:30", "08:40"]);
        let got = owed(&schedule, cursor, Rules { deadline, ..rules(10) }, now).missed;
        assert_eq!(got, Some(Missed { count: 1, last: cursor, why: Why::DeadlineExceeded }));
    }

    #[test]
    fn a_tick_handled_in_time_is_not_made_up_but_made() {
        let schedule = cron("* * * * *");
        let cursor = at("2026-12-01T10:01:00Z");
        let got = owed(&schedule, cursor, rules(0), at("2026-12-01T10:01:00.004Z"));
        assert_eq!((minutes(&got.make), got.missed), (vec!["10:01".to_owned()], None));
        assert_eq!(got.next, Some(at("2026-12-01T10:02:00Z")));
        // Within a failover's length it still is; later it is missed.
        assert_eq!(owed(&schedule, cursor, rules(0), at("2026-12-01T10:01:10Z")).make.len(), 1);
        assert_eq!(owed(&schedule, cursor, rules(0), at("2026-12-01T10:01:11Z")).make.len(), 0);
    }

    #[test]
    fn nothing_is_owed_before_the_cursor() {
        let schedule = cron("* * * * *");
        let cursor = at("2026-12-01T10:05:00Z");
        let got = owed(&schedule, cursor, rules(100), at("2026-12-01T10:01:30Z"));
        assert_eq!(got, Owed { make: Vec::new(), missed: None, next: Some(cursor) });
    }

    #[test]
    fn a_spread_moves_each_run_by_the_same_time() {
        let spread = Duration::from_secs(60);
        let offsets: Vec<_> = (0..200).map(|n| offset(&format!("uid-{n}"), spread)).collect();
        assert!(offsets.iter().all(|o| *o < spread));
        assert!(offsets.iter().filter(|o| **o < spread / 2).count() > 60, "spread over the whole");
        assert_eq!(offset("uid-1", spread), offsets[1]);
        assert_eq!(offset("uid-1", Duration::ZERO), Duration::ZERO);
        let schedule = cron("* * * * *");
        let rules = Rules { offset: Duration::from_secs(20), ..rules(1) };
        let cursor = at("2026-12-01T10:01:00Z");
        assert_eq!(owed(&schedule, cursor, rules, at("2026-12-01T10:01:19Z")).make.len(), 0);
        assert_eq!(owed(&schedule, cursor, rules, at("2026-12-01T10:01:20Z")).make, [cursor]);
    }

    #[test]
    fn a_long_outage_of_a_fast_schedule_is_counted_to_a_bound() {
        let schedule = Schedule::every(Duration::from_secs(1), at("2026-01-01T00:00:00Z")).expect("a schedule");
        let got = owed(&schedule, at("2026-01-01T00:00:01Z"), rules(3), at("2026-12-01T00:00:00Z"));
        // Those of the last ten seconds are not missed.
        assert_eq!(got.make.len(), 11);
        assert_eq!(got.missed.map(|m| m.count), Some(MAX_COUNTED - 11));
        let got = owed(&schedule, at("2026-01-01T00:00:01Z"), rules(15), at("2026-12-01T00:00:00Z"));
        assert_eq!(got.make.len(), 15);
    }

    #[test]
    fn a_failover_within_ten_seconds_costs_a_fast_schedule_no_run() {
        let schedule = Schedule::every(Duration::from_secs(5), at("2026-12-01T00:00:00Z")).expect("a schedule");
        for catch_up in [0, 1] {
            let got = owed(&schedule, at("2026-12-01T00:00:05Z"), rules(catch_up), at("2026-12-01T00:00:12Z"));
            assert_eq!((got.make.len(), got.missed), (2, None));
        }
    }
}
