//! Timers over integer ticks: insert, cancel, reschedule, advance. Pure.
//!
//! One owner; no clock, no lock, no IO. A tick is a millisecond for its owner, the structure does not care. Never
//! early: the owner rounds instants up to a tick on insert and `now` down in [`Wheel::advance`].
//!
//! This structure is an ordered map, O(log n) where the interface allows O(1): correct first, behind the interface
//! that stays. An id holds a generation, checked on every use, so that an id outlives its timer without harm.

use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// An instant, in ticks.
pub type Tick = u64;

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

/// Timers, delivered in the order of their due tick, then of insertion.
#[derive(Debug)]
pub struct Wheel<P> {
    now: Tick,
    /// Place in the order; grows with each insert and reschedule.
    seq: u64,
    order: BTreeMap<(Tick, u64), u32>,
    cells: Vec<Cell<P>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Cell<P> {
    generation: u32,
    armed: Option<Armed<P>>,
}

#[derive(Debug)]
struct Armed<P> {
    due: Tick,
    seq: u64,
    payload: P,
}

impl<P> Wheel<P> {
    /// An empty wheel that stands at `now`.
    pub fn new(now: Tick) -> Self {
        Self { now, seq: 0, order: BTreeMap::new(), cells: Vec::new(), free: Vec::new() }
    }

    /// Arms a timer. `due <= now` counts as due now and is delivered by the next [`Wheel::advance`].
    ///
    /// # Panics
    /// Never in practice: 2^32 timers at once do not fit in memory.
    pub fn insert(&mut self, due: Tick, payload: P) -> TimerId {
        let due = due.max(self.now);
        let cell = self.free.pop().unwrap_or_else(|| {
            self.cells.push(Cell { generation: 0, armed: None });
            u32::try_from(self.cells.len() - 1).unwrap_or(u32::MAX)
        });
        let seq = self.next_seq();
        self.order.insert((due, seq), cell);
        let slot = &mut self.cells[cell as usize];
        slot.armed = Some(Armed { due, seq, payload });
        TimerId { cell, generation: slot.generation }
    }

    /// Takes a timer out. `None` if it was delivered, cancelled, or the id is stale.
    pub fn cancel(&mut self, id: TimerId) -> Option<P> {
        let slot = self.cells.get_mut(id.cell as usize).filter(|c| c.generation == id.generation)?;
        let armed = slot.armed.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.order.remove(&(armed.due, armed.seq));
        self.free.push(id.cell);
        Some(armed.payload)
    }

    /// Moves a timer, under the same id, to the end of another tick's order. `false` if it is not armed.
    pub fn reschedule(&mut self, id: TimerId, due: Tick) -> bool {
        let due = due.max(self.now);
        let seq = self.next_seq();
        let Some(slot) = self.cells.get_mut(id.cell as usize).filter(|c| c.generation == id.generation) else {
            return false;
        };
        let Some(armed) = slot.armed.as_mut() else { return false };
        self.order.remove(&(armed.due, armed.seq));
        armed.due = due;
        armed.seq = seq;
        self.order.insert((due, seq), id.cell);
        true
    }

    /// Delivers what is due up to and with `to`, at most `budget` timers; `to` before now does nothing.
    pub fn advance(&mut self, to: Tick, budget: usize, mut sink: impl FnMut(TimerId, Tick, P)) -> Progress {
        for _ in 0..budget {
            match self.order.first_key_value() {
                Some((&(due, seq), &cell)) if due <= to => {
                    self.order.remove(&(due, seq));
                    let slot = &mut self.cells[cell as usize];
                    let id = TimerId { cell, generation: slot.generation };
                    slot.generation = slot.generation.wrapping_add(1);
                    self.free.push(cell);
                    self.now = self.now.max(due);
                    if let Some(armed) = slot.armed.take() {
                        sink(id, due, armed.payload);
                    }
                }
                _ => {
                    self.now = self.now.max(to);
                    return Progress::Done;
                }
            }
        }
        match self.order.first_key_value() {
            Some((&(due, _), _)) if due <= to => Progress::More,
            _ => {
                self.now = self.now.max(to);
                Progress::Done
            }
        }
    }

    /// The nearest due tick; `None` only when empty.
    pub fn next_due(&self) -> Option<Tick> {
        self.order.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Stands at an earlier (or later) `now` without delivering anything.
    pub fn rebase(&mut self, now: Tick) {
        self.now = now;
    }

    /// When a timer is due; `None` if it is not armed.
    pub fn due_of(&self, id: TimerId) -> Option<Tick> {
        let slot = self.cells.get(id.cell as usize).filter(|c| c.generation == id.generation)?;
        slot.armed.as_ref().map(|armed| armed.due)
    }

    /// How many timers are armed.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is armed.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
}
