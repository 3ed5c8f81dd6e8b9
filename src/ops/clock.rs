//! The only place that reads a clock.
//!
//! Everything else takes `now` as an argument, or a [`Clock`] that a test can move.

use std::time::{Duration, Instant};

use jiff::Timestamp;
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

/// Reads the machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose monotonic reading starts at zero now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Both clocks, read together.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn now(&self) -> Now {
        Now { wall: microseconds(Timestamp::now()), mono: self.origin.elapsed() }
    }

    /// Time since the origin.
    pub fn mono(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Time since the machine's start, sleep included.
    pub fn boot(&self) -> Duration {
        let time = clock_gettime(ClockId::Boottime);
        let secs = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Duration::new(secs, nanos)
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
        tokio::time::Instant::from_std(self.origin + mono)
    }
}
