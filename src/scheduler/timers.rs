//! The two wheels of the leader loop: elapsed time on the monotonic clock, wall time on the replica's own. Pure.
//!
//! A delay, a backoff, a timeout ask how long something has been: elapsed. `runAt` and a schedule's next run ask what
//! the clock says: wall. Setting the clock moves the second alone.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use crate::domain::wall_clock::{Seen, WallClock};
use crate::domain::wheel::{Progress, Tick, TimerId, Wheel};
use crate::ops::clock::Now;

/// A timer of one of the wheels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Of the elapsed wheel.
    Elapsed(TimerId),
    /// Of the wall wheel.
    Wall(TimerId),
}

/// Both wheels, and the wall clock the second one turns by.
#[derive(Debug)]
pub(super) struct Timers<A> {
    elapsed: Wheel<A>,
    wall: Wheel<A>,
    clock: WallClock,
    mono: Duration,
}

impl<A> Timers<A> {
    /// No timers.
    pub fn new(now: Now) -> Self {
        let clock = WallClock::new(now.wall, now.mono);
        Self {
            elapsed: Wheel::new(tick_floor(now.mono)),
            wall: Wheel::new(wall_floor(now.wall)),
            clock,
            mono: now.mono,
        }
    }

    /// Takes a reading of both clocks; gives it back with wall time as the wall wheel has it, and by how much the wall
    /// clock was set, if it was.
    pub fn look(&mut self, now: Now) -> (Now, Option<SignedDuration>) {
        self.mono = self.mono.max(now.mono);
        let set = match self.clock.look(now.wall, now.mono) {
            Seen::Steady => None,
            Seen::Forward(by) => {
                warn!(?by, "the wall clock was set forward; what it jumped over is due now");
                Some(by)
            }
            Seen::Backward(by) => {
                warn!(?by, "the wall clock was set back; what waits for it is placed anew, what has fired stays fired");
                self.wall.rebase(wall_floor(self.clock.at(now.mono)));
                Some(-by)
            }
        };
        (Now { wall: self.clock.at(now.mono), mono: now.mono }, set)
    }

    /// How far the machine's own wall clock is ahead of what [`Timers::look`] says.
    pub fn behind(&self) -> SignedDuration {
        self.clock.behind()
    }

    /// Arms a timer on elapsed time.
    pub fn insert(&mut self, due: Tick, alarm: A) -> Timer {
        Timer::Elapsed(self.elapsed.insert(due, alarm))
    }

    /// Arms a timer on wall time.
    pub fn insert_wall(&mut self, at: Timestamp, alarm: A) -> Timer {
        Timer::Wall(self.wall.insert(wall_ceil(at), alarm))
    }

    /// Takes a timer out; one that is delivered or cancelled already is none.
    pub fn cancel(&mut self, timer: Timer) -> Option<A> {
        match timer {
            Timer::Elapsed(id) => self.elapsed.cancel(id),
            Timer::Wall(id) => self.wall.cancel(id),
        }
    }

    /// Delivers what is due at the last look, at most `budget` of each wheel; the rest shows in [`Timers::next_due`].
    pub fn advance(&mut self, budget: usize) -> Vec<A> {
        let mut due = Vec::new();
        let _: Progress = self.elapsed.advance(tick_floor(self.mono), budget, |_, _, alarm| due.push(alarm));
        let wall = wall_floor(self.clock.at(self.mono));
        let _: Progress = self.wall.advance(wall, budget, |_, _, alarm| due.push(alarm));
        due
    }

    /// When a timer is due next, as a monotonic reading.
    pub fn next_due(&self) -> Option<Duration> {
        let elapsed = self.elapsed.next_due().map(Duration::from_millis);
        let wall = self.wall.next_due().map(|millis| self.clock.mono_at(millis));
        [elapsed, wall].into_iter().flatten().min()
    }

    /// How many are armed.
    pub fn len(&self) -> usize {
        self.elapsed.len() + self.wall.len()
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.elapsed = Wheel::new(tick_floor(self.mono));
        self.wall = Wheel::new(wall_floor(self.clock.at(self.mono)));
    }
}

/// The tick that has come at a monotonic reading.
pub(super) fn tick_floor(mono: Duration) -> Tick {
    u64::try_from(mono.as_millis()).unwrap_or(u64::MAX)
}

/// The first tick not before a monotonic reading.
pub(super) fn tick_ceil(mono: Duration) -> Tick {
    u64::try_from(mono.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn wall_floor(at: Timestamp) -> Tick {
    u64::try_from(at.as_microsecond().div_euclid(1000)).unwrap_or(0)
}

fn wall_ceil(at: Timestamp) -> Tick {
    u64::try_from(at.as_nanosecond().div_euclid(1_000_000) + i128::from(at.as_nanosecond().rem_euclid(1_000_000) > 0))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(wall_millis: i64, mono_millis: u64) -> Now {
        Now {
            wall: Timestamp::from_millisecond(1_800_000_000_000 + wall_millis).expect("an instant"),
            mono: Duration::from_millis(mono_millis),
        }
    }

    fn at(wall_millis: i64) -> Timestamp {
        now(wall_millis, 0).wall
    }

    #[test]
    fn setting_the_clock_moves_wall_timers_alone() {
        let mut timers = Timers::new(now(0, 0));
        timers.insert(600_000, "elapsed");
        timers.insert_wall(at(600_000), "wall");
        // Set back by an hour after five minutes.
        timers.look(now(300_000 - 3_600_000, 300_000));
        assert_eq!(timers.advance(9), Vec::<&str>::new());
        // Never later than the truth.
        let by =
            |timers: &Timers<&str>, millis| timers.next_due().is_some_and(|due| due <= Duration::from_millis(millis));
        assert!(by(&timers, 600_000));
        timers.look(now(-3_000_000, 600_000));
        assert_eq!(timers.advance(9), ["elapsed"]);
        assert!(by(&timers, 4_200_000));
        // And forward again.
        timers.look(now(600_000, 600_500));
        assert_eq!(timers.advance(9), ["wall"]);
    }

    #[test]
    fn an_instant_is_never_early() {
        let mut timers = Timers::new(now(0, 0));
        let precise = at(0).checked_add(SignedDuration::from_nanos(1)).expect("an instant");
        timers.insert_wall(precise, 1);
        assert_eq!(timers.advance(9), Vec::<i32>::new());
        assert_eq!(timers.next_due(), Some(Duration::from_millis(1)));
        timers.look(now(1, 1));
        assert_eq!(timers.advance(9), [1]);
    }

    #[test]
    fn c017_a_jump_of_a_day_costs_what_is_due() {
        let mut timers = Timers::new(now(0, 0));
        for n in 0..10 {
            timers.insert_wall(at(n * 1000), n);
        }
        timers.look(now(86_400_000, 1));
        assert_eq!(timers.advance(1024), (0..10).collect::<Vec<_>>());
        assert_eq!(timers.next_due(), None);
    }
}
