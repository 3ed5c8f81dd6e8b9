//! Room for calls to the API server: how many are under way at once, and who goes first.
//!
//! While runs are being made they have seven eighths of it, and status writes the rest: the runs of a minute at which
//! many schedules meet exist before the writes they cause. At any other time status writes have all of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Shared by all who write.
#[derive(Debug)]
pub struct Room {
    all: Semaphore,
    /// For runs.
    most: Semaphore,
    /// For status writes while runs are being made.
    rest: Semaphore,
    /// Runs being made, or waiting for that.
    making: AtomicUsize,
}

/// A place; given back when dropped.
#[derive(Debug)]
pub struct Place<'a> {
    _part: Option<SemaphorePermit<'a>>,
    _all: SemaphorePermit<'a>,
    making: Option<&'a AtomicUsize>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(making) = self.making {
            making.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Room {
    /// For at most `in_flight` calls at once, at least one.
    pub fn new(in_flight: usize) -> Self {
        let all = in_flight.max(1);
        let rest = (all / 8).max(1);
        Self {
            all: Semaphore::new(all),
            most: Semaphore::new((all - rest).max(1)),
            rest: Semaphore::new(rest),
            making: AtomicUsize::new(0),
        }
    }

    /// A place for making a run. `None` never, since the room is never closed.
    pub async fn for_run(&self) -> Option<Place<'_>> {
        self.making.fetch_add(1, Ordering::Relaxed);
        // Counted from now on, however the wait ends.
        let counted = Counted(&self.making);
        let part = self.most.acquire().await.ok()?;
        let all = self.all.acquire().await.ok()?;
        std::mem::forget(counted);
        Some(Place { _part: Some(part), _all: all, making: Some(&self.making) })
    }

    /// A place for a status write, or for a deletion. `None` never, since the room is never closed.
    pub async fn for_write(&self) -> Option<Place<'_>> {
        let part = match self.making.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.rest.acquire().await.ok()?),
        };
        let all = self.all.acquire().await.ok()?;
        Some(Place { _part: part, _all: all, making: None })
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn while_runs_are_made_writes_have_an_eighth() {
        let room = Room::new(16);
        let mut runs = Vec::new();
        for _ in 0..14 {
            runs.push(room.for_run().now_or_never().expect("at once").expect("open"));
        }
        assert!(room.for_run().now_or_never().is_none(), "seven eighths are taken");
        let first = room.for_write().now_or_never().expect("at once");
        let second = room.for_write().now_or_never().expect("at once");
        assert!(room.for_write().now_or_never().is_none());
        drop((first, second, runs));
        let writes: Vec<_> = (0..16).map(|_| room.for_write().now_or_never().expect("all of it")).collect();
        assert!(room.for_write().now_or_never().is_none());
        drop(writes);
        assert_eq!(room.making.load(Ordering::Relaxed), 0, "a wait that is given up is not counted on");
    }

    #[tokio::test]
    async fn one_place_is_enough_for_both() {
        let room = Room::new(1);
        drop(room.for_run().await);
        drop(room.for_write().await);
        assert!(room.for_run().now_or_never().is_some());
    }
}
