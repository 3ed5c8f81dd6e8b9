//! Equal steps from an anchor. Pure, exact to the nanosecond, the same after every restart.

use std::time::Duration;

use jiff::Timestamp;

use super::{EVERY, Refused, Why};

/// `anchor + k * every` for all whole `k >= 0`.
///
/// The anchor itself is a run. With the default anchor, the template's creation, nobody asks from before it, so the
/// first run is a step after the creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Every {
    anchor: i128,
    step: i128,
}

impl Every {
    pub(super) fn new(every: Duration, anchor: Timestamp) -> Result<Self, Refused> {
        if every < Duration::from_secs(1) {
            let message = format!("{EVERY} {every:?}: an interval is at least 1s; write 1s or more");
            return Err(Refused { reason: Why::InvalidSchedule, field: EVERY, message });
        }
        // At most 2^64 s: far from the end of i128.
        let step = i128::try_from(every.as_nanos()).unwrap_or(i128::MAX);
        Ok(Self { anchor: anchor.as_nanosecond(), step })
    }

    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let past = after.as_nanosecond() - self.anchor;
        self.tick(if past < 0 { 0 } else { past / self.step + 1 })
    }

    pub(super) fn previous(&self, before: Timestamp) -> Option<Timestamp> {
        let past = before.as_nanosecond() - self.anchor;
        if past <= 0 { None } else { self.tick((past - 1) / self.step) }
    }

    fn tick(&self, k: i128) -> Option<Timestamp> {
        let since = self.step.checked_mul(k)?;
        Timestamp::from_nanosecond(self.anchor.checked_add(since)?).ok()
    }
}
