//! Room for calls to the API server: how many are under way at once, and who goes first.
//!
//! The runs of a minute at which many schedules meet exist before the writes they cause: while such a burst is made,
//! status writes have a 32nd of the room, and a quarter once it is so long that they would starve. At any other time
//! they have all of it. A status write costs the API server about what two creates cost, so an even share would be the
//! writes'.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Runs of one burst after which it is long.
const LONG: usize = 10_000;

/// Shared by all who write.
#[derive(Debug)]
pub struct Room {
    all: usize,
    floor: Mutex<Floor>,
}

#[derive(Debug, Default)]
struct Floor {
    runs: Queue,
    writes: Queue,
    /// Runs asked for since none last waited for a place.
    burst: usize,
}

#[derive(Debug, Default)]
struct Queue {
    inside: usize,
    waiting: VecDeque<oneshot::Sender<Place>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Errand {
    Run,
    Write,
}

/// A place; given back when dropped.
#[derive(Debug)]
pub struct Place {
    room: Arc<Room>,
    errand: Errand,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.leave(self.errand);
    }
}

impl Room {
    /// For at most `in_flight` calls at once, at least one.
    pub fn new(in_flight: usize) -> Arc<Self> {
        Arc::new(Self { all: in_flight.max(1), floor: Mutex::default() })
    }

    /// A place for making a run. `None` never, since a place is given before its queue goes.
    pub async fn for_run(self: &Arc<Self>) -> Option<Place> {
        self.enter(Errand::Run).await
    }

    /// A place for a status write, or for a deletion. `None` never, since a place is given before its queue goes.
    pub async fn for_write(self: &Arc<Self>) -> Option<Place> {
        self.enter(Errand::Write).await
    }

    async fn enter(self: &Arc<Self>, errand: Errand) -> Option<Place> {
        let (give, place) = oneshot::channel();
        self.queue_up(errand, give);
        place.await.ok()
    }

    fn queue_up(self: &Arc<Self>, errand: Errand, give: oneshot::Sender<Place>) {
        let mut floor = self.floor();
        if errand == Errand::Run {
            floor.burst += 1;
        }
        floor.queue(errand).waiting.push_back(give);
        self.admit(floor);
    }

    fn leave(self: &Arc<Self>, errand: Errand) {
        let mut floor = self.floor();
        let queue = floor.queue(errand);
        queue.inside = queue.inside.saturating_sub(1);
        self.admit(floor);
    }

    /// Gives out what is free. Places of those who no longer wait come back by being dropped, hence after the lock.
    fn admit(self: &Arc<Self>, mut floor: MutexGuard<'_, Floor>) {
        let mut given = Vec::new();
        while let Some((errand, give)) = floor.next(self.all) {
            given.push((give, Place { room: Arc::clone(self), errand }));
        }
        drop(floor);
        for (give, place) in given {
            drop(give.send(place));
        }
    }

    fn floor(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Floor {
    fn queue(&mut self, errand: Errand) -> &mut Queue {
        match errand {
            Errand::Run => &mut self.runs,
            Errand::Write => &mut self.writes,
        }
    }

    /// Whose turn it is: writes up to their share, then runs, then more writes.
    fn next(&mut self, all: usize) -> Option<(Errand, oneshot::Sender<Place>)> {
        self.runs.forget_those_gone();
        self.writes.forget_those_gone();
        if self.runs.inside + self.writes.inside >= all {
            return None;
        }
        // Runs that have their place ask for no more: one that a webhook holds up must not hold up all writes.
        let burst = !self.runs.waiting.is_empty();
        if !burst {
            self.burst = 0;
        }
        let share = if !burst { all } else { (all / if self.burst > LONG { 4 } else { 32 }).max(1) };
        // Places of the share stay free for writes to come, unless there is only one at all.
        let errand = if self.writes.inside < share && !self.writes.waiting.is_empty() {
            Errand::Write
        } else if self.runs.inside < (all - all.min(share)).max(1) && !self.runs.waiting.is_empty() {
            Errand::Run
        } else {
            return None;
        };
        let queue = self.queue(errand);
        queue.inside += 1;
        queue.waiting.pop_front().map(|give| (errand, give))
    }
}

impl Queue {
    fn forget_those_gone(&mut self) {
        while self.waiting.front().is_some_and(oneshot::Sender::is_closed) {
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn runs(room: &Arc<Room>, count: usize) -> Vec<Place> {
        (0..count).map(|_| room.for_run().now_or_never().expect("at once").expect("a place")).collect()
    }

    #[tokio::test]
    async fn in_a_burst_of_runs_writes_have_a_32nd_and_before_and_after_it_all() {
        let room = Room::new(64);
        let made = runs(&room, 62);
        assert!(room.for_run().now_or_never().is_none(), "the rest is for writes");
        let first = room.for_write().now_or_never().expect("at once");
        let second = room.for_write().now_or_never().expect("at once");
        assert!(room.for_write().now_or_never().is_none());
        drop((first, second, made));
        let writes: Vec<_> = (0..64).map(|_| room.for_write().now_or_never().expect("all of it")).collect();
        assert!(room.for_write().now_or_never().is_none());
        drop(writes);
        let floor = room.floor();
        assert_eq!((floor.runs.inside, floor.writes.inside), (0, 0), "a wait that is given up takes no place");
    }

    #[tokio::test]
    async fn writes_that_waited_have_all_of_the_room_when_the_burst_ends() {
        let room = Room::new(64);
        let made = runs(&room, 62);
        let writes: Vec<_> = (0..64)
            .map(|_| {
                tokio::spawn({
                    let room = Arc::clone(&room);
                    async move { room.for_write().await }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(room.floor().writes.inside, 2);
        drop(made);
        let places: Vec<_> = futures::future::join_all(writes).await;
        assert_eq!((places.len(), room.floor().writes.inside), (64, 64));
    }

    #[tokio::test]
    async fn in_a_long_burst_writes_have_a_quarter() {
        let room = Room::new(64);
        let mut made = runs(&room, 62);
        let mut waiting: Vec<_> = (0..=LONG).map(|_| Box::pin(room.for_run())).collect();
        for run in &mut waiting {
            assert!(run.as_mut().now_or_never().is_none());
        }
        made.truncate(48);
        let writes: Vec<_> = (0..16).map(|_| room.for_write().now_or_never().expect("at once")).collect();
        assert!(room.for_write().now_or_never().is_none());
        drop((made, writes, waiting));
        drop(room.for_write().await);
        assert_eq!(room.floor().burst, 0, "the next burst starts short");
    }

    #[tokio::test]
    async fn c151_a_run_that_is_held_up_holds_up_no_writes() {
        let room = Room::new(64);
        let held_up = runs(&room, 1);
        let writes: Vec<_> = (0..63).map(|_| room.for_write().now_or_never().expect("at once")).collect();
        drop((held_up, writes));
    }

    #[tokio::test]
    async fn one_place_is_enough_for_both() {
        let room = Room::new(1);
        let run = room.for_run().await;
        assert!(room.for_write().now_or_never().is_none());
        drop(run);
        drop(room.for_write().await);
        assert!(room.for_run().now_or_never().is_some());
    }
}
