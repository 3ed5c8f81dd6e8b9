//! Whether this replica may act as leader right now. Read from any thread, without waiting.
//!
//! Asked right before the first byte of whatever only the leader may do. Trust ends when any of three clocks says so:
//! the monotonic one stands still while the machine sleeps, the boot clock does not, and the wall clock shows a sleep
//! that neither does (a virtual machine put aside). A wall clock set ahead costs one new term; one set back changes
//! nothing.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::domain::election::Reign;
use crate::ops::clock::{Clock, Reading};

/// Leave to act as leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Goes with whatever is done.
    pub term: u64,
    /// Monotonic reading before which nothing may be *started*: the former leader may not know yet.
    pub may_start_at: Duration,
}

/// When trust in a term ends, on each clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    pub grant: Grant,
    pub until: Reading,
}

impl Trust {
    /// Trust in a reign whose last proof began at `proved`.
    pub fn new(reign: &Reign, proved: &Reading) -> Self {
        let window = reign.trusted_until.saturating_sub(reign.proved_at);
        let wall_window = SignedDuration::try_from(window).unwrap_or(SignedDuration::ZERO);
        Self {
            grant: Grant { term: reign.term, may_start_at: reign.may_start_at },
            until: Reading {
                wall: proved.wall.checked_add(wall_window).unwrap_or(Timestamp::MIN),
                mono: proved.mono + window,
                boot: proved.boot + window,
            },
        }
    }

    /// Whether none of the clocks says that it ended.
    pub fn holds(&self, now: &Reading) -> bool {
        now.mono < self.until.mono && now.boot < self.until.boot && now.wall < self.until.wall
    }
}

/// A shared view of leadership. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Leadership {
    /// Read for wall and boot time only, so its origin does not count.
    clock: Clock,
    trust: Arc<RwLock<Option<Trust>>>,
}

impl Default for Leadership {
    /// Nobody leads yet.
    fn default() -> Self {
        Self::new(Clock::start())
    }
}

impl Leadership {
    /// Nobody leads yet, on the machine of this clock.
    pub fn new(clock: Clock) -> Self {
        Self { clock, trust: Arc::default() }
    }

    /// Leave to act at `mono`, a reading taken just now of the clock that the election runs on; `None` once trust has
    /// ended on any clock.
    pub fn grant(&self, mono: Duration) -> Option<Grant> {
        let now = Reading { mono, ..self.clock.reading() };
        self.trust().filter(|trust| trust.holds(&now)).map(|trust| trust.grant)
    }

    /// What the election said last, also if it has ended since.
    pub fn trust(&self) -> Option<Trust> {
        *self.trust.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the election says; its loop alone calls this.
    pub fn set(&self, trust: Option<Trust>) {
        *self.trust.write().unwrap_or_else(PoisonError::into_inner) = trust;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c079_trust_ends_when_any_of_the_clocks_says_so() {
        let secs = Duration::from_secs;
        let wall = |s: i64| Timestamp::from_second(1_790_000_000 + s).expect("an instant");
        let proved = Reading { wall: wall(0), mono: secs(100), boot: secs(5_000) };
        let reign = Reign { term: 9, proved_at: secs(100), trusted_until: secs(103), may_start_at: secs(101) };
        let trust = Trust::new(&reign, &proved);
        for (case, wall_s, mono_s, boot_s, want) in [
            ("all within", 2, 102, 5_002, true),
            ("monotonic over", 2, 103, 5_002, false),
            ("slept: only the boot clock went on", 2, 102, 5_003, false),
            ("put aside, or wall clock set ahead", 3, 102, 5_002, false),
            ("wall clock set back", -3_600, 102, 5_002, true),
            ("wall clock set back, time over", -3_600, 103, 5_003, false),
        ] {
            let now = Reading { wall: wall(wall_s), mono: secs(mono_s), boot: secs(boot_s) };
            assert_eq!(trust.holds(&now), want, "{case}");
        }
    }

    #[test]
    fn a_grant_is_seen_by_every_clone_until_it_is_taken_back() {
        let clock = Clock::start();
        let leadership = Leadership::default();
        let other = leadership.clone();
        assert_eq!(other.grant(clock.mono()), None);
        let proved = clock.reading();
        let reign = Reign {
            term: 9,
            proved_at: proved.mono,
            trusted_until: proved.mono + Duration::from_secs(60),
            may_start_at: Duration::ZERO,
        };
        leadership.set(Some(Trust::new(&reign, &proved)));
        let want = Some(Grant { term: 9, may_start_at: Duration::ZERO });
        assert_eq!(other.grant(clock.mono()), want);
        assert_eq!(other.grant(reign.trusted_until), None);
        leadership.set(None);
        assert_eq!(other.grant(clock.mono()), None);
    }
}
