//! Timers over integer ticks: insert, cancel, reschedule, advance. Pure.
//!
//! One owner; no clock, no lock, no IO. A tick is a millisecond for its owner, the structure does not care. Never
//! early: the owner rounds instants up to a tick on insert and `now` down in [`Wheel::advance`].
//!
//! A hierarchical wheel: 11 levels of 64 slots, a slot of each level as long as the whole level below. A timer lies at
//! the level of its distance (`level`) as a packed record in its slot's list (`store`), and moves down a level each
//! time its slot begins, at most 10 times. Bitmaps say which slot begins next, so that a stall or a jump costs the
//! timers in it and not the time that has passed. A cell a timer (`cells`) keeps the payload and points back at the
//! record, so that cancel and reschedule take it out at once: nothing waits, cancelled, for its time. An id holds a
//! generation, checked on every use, so that an id outlives its timer without harm.
//!
//! `advance` does as much as it is given leave to, and goes on where it left off: what is due and not yet handed out
//! can still be cancelled. Order is by tick, then by insertion, whatever levels the timers came from; of two timers of
//! one tick with 2^31 inserts and more between them the order is not kept.

mod advance;
mod cells;
mod level;
mod pages;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;

use cells::Cells;
use level::{Levels, NONE};
use store::{Record, Role, Store};

/// An instant, in ticks.
pub type Tick = u64;

/// Memory given back by a cancel, in chunks moved or pages freed: few, to stay O(1).
const GIVE_BACK: usize = 2;

/// Names one timer of one wheel. Dead once the timer is delivered or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId {
    cell: u32,
    generation: u32,
}

/// Whether an [`Wheel::advance`] has delivered everything due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing due is left.
    Done,
    /// The budget is used up; call again.
    More,
}

/// What a wheel has done, and what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records moved to a finer level.
    pub moves: u64,
    /// Timers delivered.
    pub fires: u64,
    /// Slots whose timers were moved.
    pub cascades: u64,
    /// Most timers that were in one slot when it began.
    pub worst_slot: u32,
    /// Chunks in use.
    pub chunks: usize,
    /// Bytes of timers held, room for more included.
    pub bytes: usize,
}

/// Timers, delivered in the order of their due tick, then of insertion. `BITS` is the width of a level.
pub struct Wheel<P, const BITS: u32 = 6> {
    now: Tick,
    /// Place in the order, and generations; grows with each insert and reschedule, and wraps.
    seq: u32,
    levels: Levels<BITS>,
    store: Store,
    cells: Cells<P>,
    /// Lists taken out of their slots, not yet placed anew.
    cascading: Vec<u32>,
    /// For sorting a slot.
    scratch: Vec<u64>,
    stats: Stats,
}

impl<P> Wheel<P> {
    /// An empty wheel that stands at `now`.
    pub fn new(now: Tick) -> Self {
        Self::with_levels(now)
    }
}

impl<P, const BITS: u32> Wheel<P, BITS> {
    /// As [`Wheel::new`], with levels of another width.
    pub fn with_levels(now: Tick) -> Self {
        Self {
            now,
            seq: 0,
            levels: Levels::new(),
            store: Store::new(),
            cells: Cells::new(),
            cascading: Vec::new(),
            scratch: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Arms a timer. `due <= now` counts as due now and is delivered by the next [`Wheel::advance`].
    pub fn insert(&mut self, due: Tick, payload: P) -> TimerId {
        let seq = self.next_seq();
        let cell = self.cells.take(seq, payload);
        self.place(Record { due: due.max(self.now), cell, seq });
        TimerId { cell, generation: seq }
    }

    /// Takes a timer out. `None` if it was delivered, cancelled, or the id is stale.
    pub fn cancel(&mut self, id: TimerId) -> Option<P> {
        self.cells.get(id.cell).filter(|armed| armed.generation == id.generation)?;
        let armed = self.cells.free(id.cell)?;
        self.remove(armed.position());
        self.store.give_back(GIVE_BACK, |cell, position| self.cells.moved(cell, position));
        Some(armed.payload)
    }

    /// Moves a timer, under the same id, to the end of another tick's order. `false` if it is not armed.
    pub fn reschedule(&mut self, id: TimerId, due: Tick) -> bool {
        let Some(position) = self.position(id) else { return false };
        self.remove(position);
        let seq = self.next_seq();
        self.place(Record { due: due.max(self.now), cell: id.cell, seq });
        true
    }

    /// When the wheel wants to be advanced next: never later than the nearest timer is due, perhaps earlier; `now`
    /// while work is left; `None` only when empty.
    pub fn next_due(&self) -> Option<Tick> {
        if self.cascading.is_empty() { self.levels.nearest(self.now) } else { Some(self.now) }
    }

    /// Stands at an earlier (or later) `now` without delivering anything. Costs as much as there are timers.
    pub fn rebase(&mut self, now: Tick) {
        self.now = now;
        let mut lists = std::mem::take(&mut self.cascading);
        self.levels.detach_all(|list| lists.push(list));
        for list in lists {
            self.store.list_mut(list).role = Role::Cascading;
            self.store.list_mut(list).firing = false;
            while let Some((_, from, to)) = self.store.head(list) {
                for position in from..to {
                    let record = self.store.record(position);
                    self.place(Record { due: record.due.max(now), ..record });
                }
                self.store.consume(list, to - from);
                self.store.unlink_head(list);
            }
            self.store.free_list(list);
        }
    }

    /// When a timer is due; `None` if it is not armed.
    pub fn due_of(&self, id: TimerId) -> Option<Tick> {
        self.position(id).map(|position| self.store.record(position).due)
    }

    /// How many timers are armed.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether none is armed.
    pub fn is_empty(&self) -> bool {
        self.cells.len() == 0
    }

    /// Where the wheel stands: no timer is due before.
    pub fn now(&self) -> Tick {
        self.now
    }

    /// What it has done so far, and what it holds.
    pub fn stats(&self) -> Stats {
        let bytes = self.store.bytes() + self.cells.bytes() + self.scratch.capacity() * size_of::<u64>();
        Stats { chunks: self.store.chunks_used(), bytes, ..self.stats }
    }

    fn position(&self, id: TimerId) -> Option<u32> {
        self.cells.get(id.cell).filter(|armed| armed.generation == id.generation).map(cells::Armed::position)
    }

    /// Puts a record into the slot of its due tick. `due` is not before `now`.
    fn place(&mut self, record: Record) {
        debug_assert!(record.due >= self.now, "record behind the wheel: due={} now={}", record.due, self.now);
        let slot = Levels::<BITS>::place(self.now, record.due);
        let mut list = self.levels.list(slot);
        if list == NONE {
            list = self.store.new_list(Role::Slot(slot));
            self.levels.set(slot, list);
        }
        let position = self.store.push(list, record);
        self.cells.moved(record.cell, position);
    }

    /// Takes a record out of its list, and an emptied list out of its slot.
    fn remove(&mut self, position: u32) {
        match self.store.remove(position, |cell, position| self.cells.moved(cell, position)) {
            Some((_, Role::Slot(slot))) => {
                self.levels.clear(slot);
            }
            Some((list, Role::Cascading)) => self.cascading.retain(|other| *other != list),
            Some((_, Role::Free)) | None => {}
        }
    }

    fn next_seq(&mut self) -> u32 {
        self.seq = self.seq.wrapping_add(1);
        self.seq
    }
}

impl<P, const BITS: u32> fmt::Debug for Wheel<P, BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("now", &self.now).field("len", &self.len()).finish_non_exhaustive()
    }
}
