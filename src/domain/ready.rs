//! The ready queue of one pool: ten priority buckets, chosen by weight. Pure.
//!
//! Inside a bucket ready-time order; what comes back keeps its place. Between buckets a fixed cycle of 44 slots: each
//! pick takes the next slot whose bucket has something to send, so a bucket that stays non-empty gets at least its
//! weight in any 44 picks in a row, whatever the others do.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// Picks a bucket gets in 44, by priority 0 to 9.
pub const WEIGHTS: [u32; 10] = [1, 1, 2, 2, 3, 4, 5, 6, 8, 12];
/// Slots in the cycle.
pub const SLOTS: usize = 44;
/// Which priority each slot serves.
const CYCLE: [u8; SLOTS] = cycle();

/// Interleaved: after each slot every bucket has had as near its share as whole slots allow.
const fn cycle() -> [u8; SLOTS] {
    let mut owed = [0i32; 10];
    let mut slots = [0u8; SLOTS];
    let mut slot = 0;
    while slot < SLOTS {
        let (mut best, mut p) = (0, 0);
        while p < 10 {
            owed[p] += WEIGHTS[p] as i32;
            if owed[p] >= owed[best] {
                best = p;
            }
            p += 1;
        }
        owed[best] -= SLOTS as i32;
        slots[slot] = best as u8;
        slot += 1;
    }
    slots
}

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// 0 to 9.
    pub priority: u8,
    /// Order inside the bucket: earlier first, then the lower id.
    pub ready_at: Timestamp,
    /// Whose place.
    pub id: u64,
}

/// Tasks that are due, waiting for a credit of one pool.
#[derive(Debug, Default)]
pub struct ReadyQueue {
    buckets: [BTreeMap<(Timestamp, u64), ()>; 10],
    slot: usize,
}

impl ReadyQueue {
    /// Takes a place; twice the same changes nothing.
    pub fn push(&mut self, place: Place) {
        self.buckets[usize::from(place.priority.min(9))].insert((place.ready_at, place.id), ());
    }

    /// Gives a place up; `false` if it was not taken.
    pub fn remove(&mut self, place: Place) -> bool {
        self.buckets[usize::from(place.priority.min(9))].remove(&(place.ready_at, place.id)).is_some()
    }

    /// Takes out the next to be sent.
    pub fn pick(&mut self) -> Option<Place> {
        for step in 0..SLOTS {
            let slot = (self.slot + step) % SLOTS;
            let priority = CYCLE[slot];
            if let Some(((ready_at, id), ())) = self.buckets[usize::from(priority)].pop_first() {
                self.slot = (slot + 1) % SLOTS;
                return Some(Place { priority, ready_at, id });
            }
        }
        None
    }

    /// All ids in the queue, most urgent bucket first.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.buckets.iter().rev().flat_map(|bucket| bucket.keys().map(|(_, id)| *id))
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.buckets.iter().map(BTreeMap::len).sum()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(BTreeMap::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(priority: u8, at: i64, id: u64) -> Place {
        Place { priority, ready_at: Timestamp::from_second(at).expect("an instant"), id }
    }

    #[test]
    fn the_cycle_gives_each_priority_its_weight() {
        for (priority, want) in WEIGHTS.iter().enumerate() {
            let got = CYCLE.iter().filter(|p| usize::from(**p) == priority).count();
            assert_eq!(got as u32, *want, "priority {priority}");
        }
    }

    #[test]
    fn c022_what_comes_back_keeps_its_place() {
        let mut queue = ReadyQueue::default();
        for id in 1..=10 {
            queue.push(place(5, id as i64, id));
        }
        let picked: Vec<_> = (0..3).filter_map(|_| queue.pick()).collect();
        queue.push(picked[2]);
        assert_eq!(queue.pick().map(|p| p.id), Some(3));
        assert_eq!(queue.pick().map(|p| p.id), Some(4));
    }

    proptest! {
        /// The starvation bound, with buckets that empty and fill at random around one that stays full.
        #[test]
        fn a_waiting_bucket_gets_its_weight_in_any_44_picks(
            watched in 0u8..10,
            noise in prop::collection::vec(prop::collection::vec(0u8..10, 0..4), 120),
        ) {
            let mut queue = ReadyQueue::default();
            let mut id = 0;
            for _ in 0..200 {
                id += 1;
                queue.push(place(watched, 0, id));
            }
            let mut picks = Vec::new();
            for fill in noise {
                for priority in fill {
                    id += 1;
                    queue.push(place(priority, 0, id));
                }
                picks.push(queue.pick().expect("never empty").priority);
            }
            for window in picks.windows(SLOTS) {
                let got = window.iter().filter(|p| **p == watched).count() as u32;
                prop_assert!(got >= WEIGHTS[usize::from(watched)], "{got} of 44 for priority {watched}");
            }
        }
    }
}
