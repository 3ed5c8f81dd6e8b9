//! The executions this worker knows of: those that run, and those that have ended. Pure.
//!
//! It holds what decisions need; the answers themselves stay in the journal on disk, so that memory does not grow
//! with what commands print. What is forgotten here is to be forgotten there.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::admit::Known;
use super::journal::Record;
use crate::worker::wire::{Inventory, InventoryEntry, InventoryState};

/// An ended execution is forgotten after this long ..
const KEPT_MILLIS: i64 = 24 * 60 * 60 * 1000;
/// .. or once this many are kept, the oldest first ..
const KEPT_ENTRIES: usize = 10_000;
/// .. or once their answers take this many bytes.
const KEPT_BYTES: usize = 128 * 1024 * 1024;
/// An inventory lists what ended within this long ..
const LISTED_MILLIS: i64 = 10 * 60 * 1000;
/// .. the newest of all, at most this many.
const LISTED_ENTRIES: usize = 1_000;

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The attempt that ended.
    pub attempt: u32,
    /// Status of its answer.
    pub status: u16,
    /// When, in Unix milliseconds.
    pub at: i64,
    /// Bytes of its answer in the journal.
    pub size: usize,
}

impl Finished {
    /// What the journal says; `None` of an attempt that has only started.
    pub fn of(record: &Record) -> Option<Self> {
        let answer = record.answer.as_ref()?;
        Some(Self { attempt: record.attempt, status: answer.status, at: record.at, size: answer.body.len() })
    }
}

/// All known executions, by id.
#[derive(Debug, Default)]
pub struct Table {
    running: HashMap<String, Running>,
    ended: HashMap<String, (u64, Finished)>,
    /// Those of `ended` whose answer has not gone out to anybody.
    owed: HashSet<String>,
    /// Ids of `ended` in the order in which they ended.
    order: BTreeMap<u64, String>,
    next_order: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Running {
    attempt: u32,
    /// What was known before, to be known again if this attempt turns out not to start.
    before: Option<Finished>,
}

impl Table {
    /// How many executions run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// How many answers have not gone out to anybody.
    pub fn owed(&self) -> usize {
        self.owed.len()
    }

    /// What is known of an execution.
    pub fn known(&self, id: &str) -> Option<Known> {
        if self.running.contains_key(id) {
            return Some(Known::Running);
        }
        self.ended.get(id).map(|(_, last)| Known::Finished { attempt: last.attempt, status: last.status })
    }

    /// An attempt takes its place.
    pub fn begin(&mut self, id: &str, attempt: u32) {
        debug_assert!(!self.running.contains_key(id), "{id} begins while it runs");
        let before = self.remove_ended(id);
        self.running.insert(id.to_owned(), Running { attempt, before });
    }

    /// The attempt that took its place did not start after all: as if it had never come.
    pub fn abandon(&mut self, id: &str) {
        if let Some(Running { before: Some(last), .. }) = self.running.remove(id) {
            self.insert_ended(id, last);
        }
    }

    /// The running attempt has ended; its place is free, and its answer is owed to whoever asks.
    pub fn end(&mut self, id: &str, finished: Finished) {
        self.running.remove(id);
        self.restore(id, finished);
        self.owed.insert(id.to_owned());
    }

    /// An attempt ended in an earlier life of this worker, by its journal.
    pub fn restore(&mut self, id: &str, finished: Finished) {
        self.remove_ended(id);
        self.insert_ended(id, finished);
    }

    /// An attempt's answer has gone out.
    pub fn told(&mut self, id: &str, attempt: u32) {
        if self.ended.get(id).is_some_and(|(_, last)| last.attempt == attempt) {
            self.owed.remove(id);
        }
    }

    /// Forgets what is too old or too much, and names it. What runs is never forgotten.
    pub fn forget(&mut self, now: i64) -> Vec<String> {
        let mut forgotten = Vec::new();
        while let Some((_, id)) = self.order.first_key_value() {
            let too_old = self.ended.get(id).is_none_or(|(_, last)| last.at.saturating_add(KEPT_MILLIS) <= now);
            if !too_old && self.ended.len() <= KEPT_ENTRIES && self.bytes <= KEPT_BYTES {
                break;
            }
            let id = id.clone();
            self.remove_ended(&id);
            forgotten.push(id);
        }
        forgotten
    }

    /// What an inventory question is told.
    pub fn inventory(&self, now: i64) -> Inventory {
        let running = self.running.iter().map(|(id, running)| InventoryEntry {
            id: id.clone(),
            attempt: running.attempt,
            state: InventoryState::Running,
        });
        let finished = self
            .order
            .values()
            .rev()
            .filter_map(|id| self.ended.get(id).map(|(_, last)| (id, last)))
            .take_while(|(_, last)| now.saturating_sub(last.at) <= LISTED_MILLIS)
            .map(|(id, last)| InventoryEntry {
                id: id.clone(),
                attempt: last.attempt,
                state: InventoryState::Finished,
            });
        Inventory { executions: running.chain(finished).take(LISTED_ENTRIES).collect() }
    }

    fn insert_ended(&mut self, id: &str, finished: Finished) {
        let order = self.next_order;
        self.next_order += 1;
        self.bytes += finished.size;
        self.order.insert(order, id.to_owned());
        self.ended.insert(id.to_owned(), (order, finished));
    }

    fn remove_ended(&mut self, id: &str) -> Option<Finished> {
        let (order, last) = self.ended.remove(id)?;
        self.order.remove(&order);
        self.owed.remove(id);
        self.bytes -= last.size;
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(attempt: u32, at: i64) -> Finished {
        Finished { attempt, status: 200, at, size: 100 }
    }

    fn entry(id: &str, attempt: u32, state: InventoryState) -> InventoryEntry {
        InventoryEntry { id: id.to_owned(), attempt, state }
    }

    #[test]
    fn an_execution_runs_then_has_ended() {
        let mut table = Table::default();
        assert_eq!(table.known("a"), None);
        table.begin("a", 1);
        assert_eq!((table.known("a"), table.running()), (Some(Known::Running), 1));
        table.end("a", ended(1, 0));
        let want = Known::Finished { attempt: 1, status: 200 };
        assert_eq!((table.known("a"), table.running()), (Some(want), 0));
    }

    #[test]
    fn an_answer_is_owed_until_it_is_told_superseded_or_forgotten() {
        let mut table = Table::default();
        table.restore("before", ended(1, 0));
        assert_eq!(table.owed(), 0, "of an earlier life");
        for id in ["told", "again", "old"] {
            table.begin(id, 1);
            table.end(id, ended(1, 0));
        }
        assert_eq!(table.owed(), 3);
        table.told("told", 1);
        table.told("again", 2);
        assert_eq!(table.owed(), 2, "another attempt's");
        table.begin("again", 2);
        assert_eq!(table.owed(), 1, "a later attempt runs");
        table.end("again", ended(2, KEPT_MILLIS));
        table.told("again", 1);
        table.forget(KEPT_MILLIS);
        assert_eq!(table.owed(), 1);
        table.told("again", 2);
        table.told("again", 2);
        assert_eq!(table.owed(), 0);
    }

    #[test]
    fn an_abandoned_attempt_leaves_the_earlier_answer() {
        let mut table = Table::default();
        table.end("a", ended(1, 0));
        table.begin("a", 2);
        table.begin("b", 1);
        table.abandon("a");
        table.abandon("b");
        assert!(matches!(table.known("a"), Some(Known::Finished { attempt: 1, .. })));
        assert_eq!((table.known("b"), table.running()), (None, 0));
        assert_eq!(table.bytes, 100);
    }

    #[test]
    fn the_inventory_lists_the_running_and_the_newest_ended() {
        let mut table = Table::default();
        let now = 10 * LISTED_MILLIS;
        table.end("old", ended(1, now - LISTED_MILLIS - 1));
        table.end("recent", ended(2, now - LISTED_MILLIS));
        table.begin("work", 3);
        let want = vec![entry("work", 3, InventoryState::Running), entry("recent", 2, InventoryState::Finished)];
        assert_eq!(table.inventory(now).executions, want);

        for n in 0..LISTED_ENTRIES {
            table.end(&format!("e{n}"), ended(1, now));
        }
        let listed = table.inventory(now).executions;
        assert_eq!(listed.len(), LISTED_ENTRIES);
        assert_eq!(listed[0], want[0], "what runs comes first");
        assert_eq!(listed[1].id, format!("e{}", LISTED_ENTRIES - 1));
    }

    #[test]
    fn the_old_and_the_surplus_are_forgotten_oldest_first() {
        let mut table = Table::default();
        table.end("old", ended(1, 0));
        table.begin("work", 1);
        table.end("new", ended(1, 10));
        assert!(table.forget(KEPT_MILLIS - 1).is_empty());
        assert_eq!(table.forget(KEPT_MILLIS), ["old"]);
        assert_eq!(table.known("old"), None);
        assert_eq!(table.known("work"), Some(Known::Running));

        for n in 0..KEPT_ENTRIES {
            table.end(&format!("e{n}"), ended(1, 20));
        }
        assert_eq!(table.forget(20), ["new"]);

        let huge = Finished { size: KEPT_BYTES, ..ended(1, 30) };
        table.end("huge", huge);
        assert_eq!(table.forget(30).len(), KEPT_ENTRIES);
        assert!(table.known("huge").is_some());
    }

    #[test]
    fn ending_again_moves_an_execution_to_the_young_end() {
        let mut table = Table::default();
        table.end("a", ended(1, 0));
        table.end("b", ended(1, 1));
        table.begin("a", 2);
        table.end("a", ended(2, 2));
        assert_eq!(table.forget(KEPT_MILLIS + 1), ["b"]);
        assert_eq!(table.bytes, 100);
        assert_eq!(table.order.len(), 1);
    }
}
