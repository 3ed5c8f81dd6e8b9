//! Who of a group may go on to its pool's line, and who waits for another to leave. Pure.
//!
//! Three groups have a gate: the tasks of one `concurrencyKey` (one at a time), those that refer to a template with
//! `maxConcurrent`, and the runs of a template whose policy is `Queue` (one at a time). Who waits keeps its place.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::ready::{Place, ReadyQueue};

/// In which order those outside are let in.
#[derive(Debug)]
enum Outside {
    /// Ready-time order.
    InOrder(BTreeMap<(Timestamp, u64), u8>),
    /// By priority, as a pool's ready queue.
    ByWeight(Box<ReadyQueue>),
}

/// Lets at most so many in.
#[derive(Debug)]
pub struct Gate {
    limit: usize,
    inside: BTreeSet<u64>,
    outside: Outside,
}

impl Gate {
    /// One at a time, in ready-time order.
    pub fn one_at_a_time() -> Self {
        Self { limit: 1, inside: BTreeSet::new(), outside: Outside::InOrder(BTreeMap::new()) }
    }

    /// At most `limit`, by priority.
    pub fn at_most(limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { limit, inside: BTreeSet::new(), outside: Outside::ByWeight(Box::default()) }
    }

    /// Another limit; who is inside stays.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = usize::try_from(limit).unwrap_or(usize::MAX);
    }

    /// Whether `id` is inside, or could go in now.
    pub fn is_open_for(&self, id: u64) -> bool {
        self.inside.contains(&id) || self.inside.len() < self.limit
    }

    /// Goes in, whether there is room or not: what runs already is inside.
    pub fn enter(&mut self, id: u64) {
        self.inside.insert(id);
    }

    /// Waits outside.
    pub fn wait(&mut self, place: Place) {
        match &mut self.outside {
            Outside::InOrder(queue) => {
                queue.insert((place.ready_at, place.id), place.priority);
            }
            Outside::ByWeight(queue) => queue.push(place),
        }
    }

    /// Waits no longer.
    pub fn give_up(&mut self, place: Place) {
        match &mut self.outside {
            Outside::InOrder(queue) => {
                queue.remove(&(place.ready_at, place.id));
            }
            Outside::ByWeight(queue) => {
                queue.remove(place);
            }
        }
    }

    /// Goes out; `false` if it was not inside.
    pub fn leave(&mut self, id: u64) -> bool {
        self.inside.remove(&id)
    }

    /// The next that may go in, if there is room: no longer outside, and not yet inside.
    pub fn let_in(&mut self) -> Option<u64> {
        if self.inside.len() >= self.limit {
            return None;
        }
        match &mut self.outside {
            Outside::InOrder(queue) => queue.pop_first().map(|((_, id), _)| id),
            Outside::ByWeight(queue) => queue.pick().map(|place| place.id),
        }
    }

    /// Whether nobody is inside and nobody waits.
    pub fn is_idle(&self) -> bool {
        self.inside.is_empty()
            && match &self.outside {
                Outside::InOrder(queue) => queue.is_empty(),
                Outside::ByWeight(queue) => queue.is_empty(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: u64, ready: i64, priority: u8) -> Place {
        Place { priority, ready_at: Timestamp::from_second(ready).expect("an instant"), id }
    }

    #[test]
    fn c105_waiters_go_in_by_ready_time_one_at_a_time() {
        let mut gate = Gate::one_at_a_time();
        gate.enter(1);
        for (id, ready) in [(4, 30), (2, 10), (3, 20)] {
            assert!(!gate.is_open_for(id));
            gate.wait(place(id, ready, 5));
        }
        assert_eq!(gate.let_in(), None);
        for want in [2, 3, 4] {
            assert!(gate.inside.len() == 1 && gate.leave(*gate.inside.first().expect("one inside")));
            assert_eq!(gate.let_in(), Some(want));
            gate.enter(want);
            assert_eq!(gate.let_in(), None, "never two at once");
        }
    }

    #[test]
    fn a_cap_lets_the_urgent_in_first_and_what_runs_counts() {
        let mut gate = Gate::at_most(2);
        for id in [1, 2, 3] {
            gate.enter(id);
        }
        for (id, priority) in [(10, 0), (11, 9)] {
            gate.wait(place(id, 0, priority));
        }
        gate.leave(1);
        assert_eq!(gate.let_in(), None, "three were inside");
        gate.leave(2);
        assert_eq!(gate.let_in(), Some(11));
        gate.enter(11);
        gate.give_up(place(10, 0, 0));
        gate.leave(3);
        assert_eq!(gate.let_in(), None);
    }
}
