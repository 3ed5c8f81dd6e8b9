//! The ready queue of one pool: ten priority buckets, chosen by weight. Pure.
//!
//! Inside a bucket ready-time order; what comes back keeps its place. Between buckets a fixed cycle of 44 slots: each
//! pick takes the next slot whose bucket has something to send, so a bucket that stays non-empty gets at least its
//! weight in any 44 picks in a row, whatever the others do.

mod bucket;
#[cfg(test)]
mod tests;

use bucket::Bucket;
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
    buckets: [Bucket; 10],
    slot: usize,
}

impl ReadyQueue {
    /// Takes a place; twice the same changes nothing.
    pub fn push(&mut self, place: Place) {
        self.buckets[usize::from(place.priority.min(9))].push((place.ready_at, place.id));
    }

    /// Gives a place up; `false` if it was not taken.
    pub fn remove(&mut self, place: Place) -> bool {
        self.buckets[usize::from(place.priority.min(9))].remove((place.ready_at, place.id))
    }

    /// Takes out the next to be sent.
    pub fn pick(&mut self) -> Option<Place> {
        for step in 0..SLOTS {
            let slot = (self.slot + step) % SLOTS;
            let priority = CYCLE[slot];
            if let Some((ready_at, id)) = self.buckets[usize::from(priority)].pop() {
                self.slot = (slot + 1) % SLOTS;
                return Some(Place { priority, ready_at, id });
            }
        }
        None
    }

    /// All ids in the queue, most urgent bucket first, in the order of each.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.buckets.iter().rev().flat_map(Bucket::ids)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.buckets.iter().map(Bucket::len).sum()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.len() == 0)
    }
}
