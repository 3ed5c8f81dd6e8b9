//! The only place that reads a clock.
//!
//! Everything else takes `now` as an argument, or a [`Clock`] that a test can move.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// One reading of both clocks, taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, for what people and status read.
    pub wall: Timestamp,
    /// Time since the process's origin on the monotonic clock, for what must not jump.
    pub mono: Duration,
}

/// One reading of every clock that can tell how long something has been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Wall clock: can be set.
    pub wall: Timestamp,
    /// Time since the process's origin on the monotonic clock: stands still while the machine sleeps.
    pub mono: Duration,
    /// Time since the machine's start, sleep included.
    pub boot: Duration,
}

/// Status keeps microseconds; an instant kept finer would never equal what is read back.
fn microseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// Reads the clocks of a machine: of this one, or of a [`Simulated`] one.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Source);

#[derive(Debug, Clone, Copy)]
enum Source {
    Machine { origin: Instant },
    Simulated(&'static Simulated),
}

impl Clock {
    /// A clock whose monotonic reading starts at zero now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn start() -> Self {
        Self(Source::Machine { origin: Instant::now() })
    }

    /// Whether it goes with tokio's time, which no kernel timer follows.
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, Source::Simulated(_))
    }

    /// Both clocks, read together.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn now(&self) -> Now {
        let wall = match self.0 {
            Source::Machine { .. } => Timestamp::now(),
            Source::Simulated(machine) => machine.wall(),
        };
        Now { wall: microseconds(wall), mono: self.mono() }
    }

    /// Time since the origin.
    pub fn mono(&self) -> Duration {
        match self.0 {
            Source::Machine { origin } => origin.elapsed(),
            Source::Simulated(machine) => machine.origin.elapsed(),
        }
    }

    /// Time since the machine's start, sleep included.
    pub fn boot(&self) -> Duration {
        match self.0 {
            Source::Machine { .. } => {
                let time = clock_gettime(ClockId::Boottime);
                let secs = u64::try_from(time.tv_sec).unwrap_or(0);
                let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
                Duration::new(secs, nanos)
            }
            Source::Simulated(machine) => machine.origin.elapsed(),
        }
    }

    /// All clocks, read together.
    pub fn reading(&self) -> Reading {
        let Now { wall, mono } = self.now();
        Reading { wall, mono, boot: self.boot() }
    }

    /// What the kernel's monotonic clock showed at the origin, or a little more: for its timers, never early.
    pub fn kernel_origin(&self) -> Duration {
        let mono = self.mono();
        let time = clock_gettime(ClockId::Monotonic);
        let kernel = Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
        kernel.saturating_sub(mono)
    }

    /// The instant of a monotonic reading, for tokio's timers.
    pub fn instant(&self, mono: Duration) -> tokio::time::Instant {
        match self.0 {
            Source::Machine { origin } => tokio::time::Instant::from_std(origin + mono),
            Source::Simulated(machine) => machine.origin + mono,
        }
    }
}

/// The clocks of a machine that never sleeps: the monotonic one is tokio's, which a test may pause; the wall clock goes
/// with it until it is set.
#[derive(Debug)]
pub struct Simulated {
    origin: tokio::time::Instant,
    /// What the wall clock showed, or would have shown, at the origin; microseconds.
    wall_at_origin: AtomicI64,
}

impl Simulated {
    /// A machine that starts now, at this instant of its wall clock. It is never freed, so that a [`Clock`] is a plain
    /// value.
    pub fn start(wall: Timestamp) -> &'static Self {
        let wall_at_origin = AtomicI64::new(wall.as_microsecond());
        Box::leak(Box::new(Self { origin: tokio::time::Instant::now(), wall_at_origin }))
    }

    /// Its clocks.
    pub fn clock(&'static self) -> Clock {
        Clock(Source::Simulated(self))
    }

    /// Sets the wall clock ahead, or back.
    pub fn step_wall(&self, by: SignedDuration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(0);
        self.wall_at_origin.fetch_add(micros, Ordering::Relaxed);
    }

    fn wall(&self) -> Timestamp {
        let since = i64::try_from(self.origin.elapsed().as_micros()).unwrap_or(i64::MAX);
        let micros = self.wall_at_origin.load(Ordering::Relaxed).saturating_add(since);
        Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_simulated_wall_clock_can_be_set_and_nothing_else_moves() {
        let wall: Timestamp = "2026-12-01T08:00:00.25Z".parse().expect("an instant");
        let machine = Simulated::start(wall);
        let clock = machine.clock();
        assert_eq!(clock.now(), Now { wall, mono: Duration::ZERO });
        tokio::time::sleep(Duration::from_secs(3600)).await;
        machine.step_wall(SignedDuration::from_mins(-90));
        let hour = Duration::from_secs(3600);
        let want = Reading { wall: wall - SignedDuration::from_mins(30), mono: hour, boot: hour };
        assert_eq!(clock.reading(), want);
        assert_eq!(clock.instant(hour), tokio::time::Instant::now());
    }
}
