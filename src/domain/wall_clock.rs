//! The wall clock as timers see it: steady, although the machine's clock is slewed and set. Pure.
//!
//! Wall time is the monotonic clock plus an *applied* offset. Each look compares the machine's true offset with the
//! applied one, never with the last sample: a clock that is slewed shows no single large step, yet may drift by
//! seconds a day. Up to [`STEP`] the applied offset follows at a bounded rate and never runs backwards; what is more
//! was a step, and is taken over whole.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A difference beyond this was a step of the clock.
pub const STEP: SignedDuration = SignedDuration::from_secs(1);
/// The applied offset moves by at most this part of the time that has passed: 5 %.
const SLEW_DIVISOR: i64 = 20;

/// What a look at the clock has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The clock runs on.
    Steady,
    /// It was set forward by this much: what it jumped over is due now.
    Forward(SignedDuration),
    /// It was set back by this much: timers on it are to be placed anew.
    Backward(SignedDuration),
}

/// Wall time that does not jump unless somebody sets the clock.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    /// Microseconds: wall time less monotonic time, as applied.
    offset: i64,
    mono: Duration,
    /// Microseconds by which the machine's clock is ahead of the applied one.
    behind: i64,
}

impl WallClock {
    /// As the machine's clocks say now.
    pub fn new(wall: Timestamp, mono: Duration) -> Self {
        Self { offset: wall.as_microsecond().saturating_sub(micros(mono)), mono, behind: 0 }
    }

    /// Takes a reading of both clocks, made together.
    pub fn look(&mut self, wall: Timestamp, mono: Duration) -> Seen {
        let truth = wall.as_microsecond().saturating_sub(micros(mono));
        let difference = truth.saturating_sub(self.offset);
        let passed = micros(mono.saturating_sub(self.mono));
        self.mono = self.mono.max(mono);
        let by = SignedDuration::from_micros(difference);
        if by.abs() > STEP {
            self.offset = truth;
            self.behind = 0;
            return if difference > 0 { Seen::Forward(by) } else { Seen::Backward(-by) };
        }
        let most = passed / SLEW_DIVISOR;
        self.offset = self.offset.saturating_add(difference.clamp(-most, most));
        self.behind = truth.saturating_sub(self.offset);
        Seen::Steady
    }

    /// Wall time at a monotonic reading.
    pub fn at(&self, mono: Duration) -> Timestamp {
        let at = micros(mono).saturating_add(self.offset);
        Timestamp::from_microsecond(at).unwrap_or(if at < 0 { Timestamp::MIN } else { Timestamp::MAX })
    }

    /// The monotonic reading at which wall time will be `millis` after 1970, as things stand.
    pub fn mono_at(&self, millis: u64) -> Duration {
        let at = i64::try_from(millis).unwrap_or(i64::MAX).saturating_mul(1000).saturating_sub(self.offset);
        Duration::from_micros(u64::try_from(at).unwrap_or(0))
    }

    /// How far the machine's own clock is ahead of this one; within a second.
    pub fn behind(&self) -> SignedDuration {
        SignedDuration::from_micros(self.behind)
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_800_000_000_000;

    fn wall(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(START + millis).expect("an instant")
    }

    fn mono(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn half_a_second_either_way_is_slewed_and_time_never_runs_back() {
        for sign in [1, -1] {
            let mut clock = WallClock::new(wall(0), mono(0));
            let mut before = clock.at(mono(0));
            for step in 1..=200u64 {
                let now = mono(step * 100);
                let true_wall = wall(step as i64 * 100 + sign * 500);
                assert_eq!(clock.look(true_wall, now), Seen::Steady);
                assert!(clock.at(now) > before, "step {step}");
                before = clock.at(now);
            }
            assert_eq!(clock.at(mono(20_000)), wall(20_000 + sign * 500), "caught up after 10 s");
            assert_eq!(clock.behind(), SignedDuration::ZERO);
        }
    }

    #[test]
    fn more_than_a_second_is_a_step() {
        for (by, want) in [
            (1500, Seen::Forward(SignedDuration::from_millis(1500))),
            (-1500, Seen::Backward(SignedDuration::from_millis(1500))),
            (-31_536_000_000, Seen::Backward(SignedDuration::from_hours(8760))),
        ] {
            let mut clock = WallClock::new(wall(0), mono(0));
            assert_eq!(clock.look(wall(1000 + by), mono(1000)), want);
            assert_eq!(clock.at(mono(1000)), wall(1000 + by));
            assert_eq!(clock.look(wall(2000 + by), mono(2000)), Seen::Steady, "taken over whole");
        }
    }

    #[test]
    fn a_day_of_slewing_is_followed_without_a_step() {
        let mut clock = WallClock::new(wall(0), mono(0));
        // 43 s a day, 0.5 ms each second.
        for second in 1..=86_400u64 {
            let ahead = second as i64 / 2;
            assert_eq!(clock.look(wall(second as i64 * 1000 + ahead), mono(second * 1000)), Seen::Steady);
        }
        assert_eq!(clock.at(mono(86_400_000)), wall(86_400_000 + 43_200));
    }

    #[test]
    fn the_reading_for_an_instant_is_where_the_clock_gets_there() {
        let clock = WallClock::new(wall(0), mono(5_000));
        let at = clock.mono_at((START + 250) as u64);
        assert_eq!(at, mono(5_250));
        assert_eq!(clock.at(at), wall(250));
        assert_eq!(clock.mono_at(0), Duration::ZERO);
    }
}
