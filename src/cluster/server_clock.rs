//! How far the API server's clock is ahead of ours, for whoever meets its instants. No IO of its own: the Lease's
//! calls feed it, about once a second.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::domain::offset::{Offset, OffsetBounds};

/// A shared measurement. Cloning shares it; reading never waits for IO.
#[derive(Debug, Clone, Default)]
pub struct ServerClock {
    offset: Arc<Mutex<Offset>>,
}

impl ServerClock {
    /// Nothing measured yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bounds of (server clock - own clock) as of the last answer; `None` before the first.
    pub fn bounds(&self) -> Option<OffsetBounds> {
        self.offset.lock().unwrap_or_else(PoisonError::into_inner).bounds()
    }

    /// The best guess of the API server's clock at this reading of ours; ours if nothing is known.
    pub fn at(&self, wall: Timestamp) -> Timestamp {
        self.bounds().and_then(|bounds| wall.checked_add(bounds.estimate()).ok()).unwrap_or(wall)
    }

    /// Takes one answer of the API server: when it was asked for and came by our clock, and its `Date`.
    pub fn observe(&self, sent: Timestamp, received: Timestamp, date: Timestamp) {
        self.offset.lock().unwrap_or_else(PoisonError::into_inner).observe(sent, received, date);
    }
}
