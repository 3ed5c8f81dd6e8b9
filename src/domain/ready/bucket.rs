//! The tasks of one priority: an incoming side that fills and a ready side that is emptied. Pure.
//!
//! The ready side is sorted, the next one last. When it is empty the sides are swapped whole, and what came in is sorted
//! at once; mostly it came in order, and then that is one look at it.
//!
//! Order is by ready time whatever comes when. What is earlier than all of the ready side is put at its end, where it
//! is next: so comes back what a pod has refused. What is late and belongs into the middle waits on the incoming side,
//! which is a heap, and each pick takes the earlier of the two heads.
//!
//! What is removed is only struck off the list of who waits; its entry is skipped when it comes up, and all such are
//! swept out once they outnumber the rest.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use jiff::Timestamp;

/// Ready time, then id: the order inside a bucket.
type Key = (Timestamp, u64);
/// A key, and which of its pushes this entry is from. The next is the greatest.
type Entry = Reverse<(Key, u32)>;

/// Struck entries that are not worth a sweep.
const SWEEP: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// Who waits, and from which push.
    waiting: HashMap<Key, u32>,
    incoming: BinaryHeap<Entry>,
    ready: Vec<Entry>,
    pushes: u32,
}

impl Bucket {
    pub fn push(&mut self, key: Key) {
        let push = self.pushes.wrapping_add(1);
        if self.waiting.contains_key(&key) {
            return;
        }
        self.waiting.insert(key, push);
        self.pushes = push;
        let entry = Reverse((key, push));
        match self.ready.last() {
            Some(next) if entry > *next => self.ready.push(entry),
            _ => self.incoming.push(entry),
        }
    }

    pub fn remove(&mut self, key: Key) -> bool {
        let removed = self.waiting.remove(&key).is_some();
        if self.ready.len() + self.incoming.len() > 2 * self.waiting.len() + SWEEP {
            self.sweep();
        }
        removed
    }

    /// Takes the earliest out.
    pub fn pop(&mut self) -> Option<Key> {
        while !self.waiting.is_empty() {
            if self.ready.is_empty() {
                self.swap();
            }
            let late = self.incoming.peek().is_some_and(|entry| self.ready.last().is_none_or(|next| entry > next));
            let entry = if late { self.incoming.pop() } else { self.ready.pop() };
            let Reverse((key, push)) = entry?;
            if self.waiting.get(&key) == Some(&push) {
                self.waiting.remove(&key);
                return Some(key);
            }
        }
        None
    }

    /// Everyone, the earliest first.
    pub fn ids(&self) -> Vec<u64> {
        let mut keys: Vec<Key> = self.waiting.keys().copied().collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, id)| id).collect()
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    fn swap(&mut self) {
        let mut filled = std::mem::take(&mut self.incoming).into_vec();
        filled.sort_unstable();
        let emptied = std::mem::replace(&mut self.ready, filled);
        self.incoming = emptied.into();
    }

    fn sweep(&mut self) {
        let Self { waiting, incoming, ready, .. } = self;
        let waits = |Reverse((key, push)): &Entry| waiting.get(key) == Some(push);
        ready.retain(waits);
        incoming.retain(waits);
        ready.shrink_to(2 * ready.len());
        incoming.shrink_to(2 * incoming.len());
        waiting.shrink_to(2 * waiting.len());
    }
}

#[cfg(test)]
impl Bucket {
    /// Entries of either side, struck ones included.
    pub fn entries(&self) -> usize {
        self.ready.len() + self.incoming.len()
    }
}
