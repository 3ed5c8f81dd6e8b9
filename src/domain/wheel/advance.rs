//! Lets time act: cascade, then fire, slot by slot. Pure.
//!
//! Accepted: a slot whose timers are not in the order of insertion is sorted whole before its first one fires, whatever
//! the budget. They come in runs, one of each level, and a slot of level 0 is one tick.

use super::level::{Levels, NONE};
use super::store::Role;
use super::{Progress, Tick, TimerId, Wheel};

/// Memory given back by one call, in chunks moved or pages freed.
const GIVE_BACK: usize = 16;
/// Numbers kept for the next sort.
const SCRATCH: usize = 4096;

impl<P, const BITS: u32> Wheel<P, BITS> {
    /// Delivers what is due up to and with `to`; `to` before now does nothing. At most `budget` timers are moved or
    /// delivered.
    pub fn advance(&mut self, to: Tick, budget: usize, mut sink: impl FnMut(TimerId, Tick, P)) -> Progress {
        if to < self.now {
            return Progress::Done;
        }
        let mut left = budget;
        let progress = loop {
            // 1. What a slot that has begun still holds.
            if !self.cascade(&mut left) {
                break Progress::More;
            }
            // 2. What is due now.
            if !self.fire(&mut left, &mut sink) {
                break Progress::More;
            }
            // 3. The next slot.
            match self.levels.nearest(self.now) {
                Some(start) if start <= to => self.enter(start),
                _ => {
                    self.now = to;
                    break Progress::Done;
                }
            }
        };
        self.store.give_back(GIVE_BACK, |cell, position| self.cells.moved(cell, position));
        progress
    }

    /// Moves on to the start of the nearest slot. Every coarse slot that begins there is taken out before `now` moves.
    fn enter(&mut self, start: Tick) {
        let Self { levels, store, cascading, stats, .. } = self;
        levels.detach_at(start, |list| {
            let list_mut = store.list_mut(list);
            list_mut.role = Role::Cascading;
            stats.cascades += 1;
            stats.worst_slot = stats.worst_slot.max(list_mut.len);
            cascading.push(list);
        });
        self.now = start;
    }

    /// Places anew what was taken out; `false` if the budget does not suffice.
    fn cascade(&mut self, left: &mut usize) -> bool {
        while let Some(&list) = self.cascading.last() {
            while let Some((_, from, to)) = self.store.head(list) {
                let count = (to - from).min(u32::try_from(*left).unwrap_or(u32::MAX));
                self.touch(from..from + count);
                for position in from..from + count {
                    self.place(self.store.record(position));
                }
                self.store.consume(list, count);
                self.stats.moves += u64::from(count);
                *left -= count as usize;
                if from + count < to {
                    return false;
                }
                self.store.unlink_head(list);
            }
            self.cascading.pop();
            self.store.free_list(list);
        }
        true
    }

    /// Delivers the slot of `now`; `false` if the budget does not suffice.
    fn fire(&mut self, left: &mut usize, sink: &mut impl FnMut(TimerId, Tick, P)) -> bool {
        let slot = Levels::<BITS>::due_slot(self.now);
        let list = self.levels.list(slot);
        if list == NONE {
            return true;
        }
        if *left == 0 {
            return false;
        }
        if !self.store.list(list).firing {
            self.begin(list);
        }
        while let Some((_, from, to)) = self.store.head(list) {
            self.touch(from..to);
            for position in from..to {
                if *left == 0 {
                    return false;
                }
                *left -= 1;
                let record = self.store.record(position);
                // One by one: the books are right whenever the sink has the word.
                self.store.consume(list, 1);
                if let Some(armed) = self.cells.free(record.cell) {
                    self.stats.fires += 1;
                    let id = TimerId { cell: record.cell, generation: armed.generation };
                    sink(id, record.due, armed.payload);
                }
            }
            self.store.unlink_head(list);
        }
        self.levels.clear(slot);
        self.store.free_list(list);
        true
    }

    fn touch(&self, positions: std::ops::Range<u32>) {
        self.cells.touch(positions.map(|position| self.store.record(position).cell));
    }

    fn begin(&mut self, list: u32) {
        let len = self.store.list(list).len;
        self.stats.worst_slot = self.stats.worst_slot.max(len);
        if !self.store.list(list).sorted {
            self.store.sort(list, &mut self.scratch, |cell, position| self.cells.moved(cell, position));
            if self.scratch.capacity() > SCRATCH {
                self.scratch = Vec::new();
            }
        }
        self.store.list_mut(list).firing = true;
    }
}
