//! Random sequences of calls against a sorted map.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    /// After so many ticks.
    Insert(u64),
    /// So many ticks ago.
    InsertPast(u64),
    Cancel(usize),
    Reschedule(usize, u64),
    Advance(u64, usize),
    /// To where the wheel wants to be woken.
    Follow(usize),
    /// Back, or on.
    Rebase(bool, u64),
}

/// Drawn by length in bits, so that every level gets its share.
fn ticks(bits: u32) -> impl Strategy<Value = u64> {
    (0..=bits).prop_flat_map(|bits| 0..=1u64.checked_shl(bits).map_or(u64::MAX, |end| end - 1))
}

fn op() -> impl Strategy<Value = Op> {
    let budget = prop_oneof![0..9usize, Just(usize::MAX)];
    prop_oneof![
        6 => ticks(63).prop_map(Op::Insert),
        4 => ticks(9).prop_map(Op::Insert),
        1 => ticks(63).prop_map(Op::InsertPast),
        3 => any::<usize>().prop_map(Op::Cancel),
        2 => (any::<usize>(), ticks(63)).prop_map(|(n, ticks)| Op::Reschedule(n, ticks)),
        2 => (ticks(20), budget.clone()).prop_map(|(ticks, budget)| Op::Advance(ticks, budget)),
        1 => (ticks(63), budget.clone()).prop_map(|(ticks, budget)| Op::Advance(ticks, budget)),
        4 => budget.prop_map(Op::Follow),
        1 => (any::<bool>(), ticks(30)).prop_map(|(back, ticks)| Op::Rebase(back, ticks)),
    ]
}

/// The wheel, and what it ought to be.
struct Pair<const BITS: u32> {
    wheel: Wheel<u64, BITS>,
    model: BTreeMap<(Tick, u64), u64>,
    /// Where each armed timer stands in the model.
    place: HashMap<u64, (Tick, u64)>,
    ids: Vec<TimerId>,
    seq: u64,
    delivered: usize,
    cancelled: usize,
}

impl<const BITS: u32> Pair<BITS> {
    fn new(now: Tick) -> Self {
        Self {
            wheel: Wheel::with_levels(now),
            model: BTreeMap::new(),
            place: HashMap::new(),
            ids: Vec::new(),
            seq: 0,
            delivered: 0,
            cancelled: 0,
        }
    }

    fn note(&mut self, name: u64, due: Tick) {
        self.seq += 1;
        let key = (due.max(self.wheel.now()), self.seq);
        if let Some(old) = self.place.insert(name, key) {
            self.model.remove(&old);
        }
        self.model.insert(key, name);
    }

    fn insert(&mut self, due: Tick) {
        let name = self.ids.len() as u64;
        self.ids.push(self.wheel.insert(due, name));
        self.note(name, due);
    }

    fn advance(&mut self, to: Tick, budget: usize) {
        let (mut left, model, place, ids) = (budget, &mut self.model, &mut self.place, &self.ids);
        let (before, moves) = (self.wheel.now(), self.wheel.stats().moves);
        let progress = self.wheel.advance(to, budget, |id, due, name| {
            let ((want_due, seq), want) = model.pop_first().expect("something is left");
            assert_eq!((due, name), (want_due, want), "order");
            assert!(due <= to, "early: due={due} to={to}");
            assert_eq!(id, ids[name as usize]);
            assert_eq!(place.remove(&name), Some((want_due, seq)), "each id ends once");
            left -= 1;
            self.delivered += 1;
        });
        assert!((self.wheel.stats().moves - moves) as usize <= left, "more moved and fired than allowed");
        let now = self.wheel.now();
        assert!(now >= before && now <= to.max(before));
        if progress == Progress::Done {
            assert_eq!(now, to.max(before));
            assert!(to < before || self.model.first_key_value().is_none_or(|((due, _), _)| *due > to), "due and held");
        } else {
            assert_eq!(self.wheel.next_due(), Some(now), "work is left");
            assert!(self.model.first_key_value().is_some_and(|((due, _), _)| *due >= now));
        }
    }

    fn act(&mut self, op: &Op) {
        let now = self.wheel.now();
        match *op {
            Op::Insert(delay) => self.insert(now.saturating_add(delay)),
            Op::InsertPast(ago) => self.insert(now.saturating_sub(ago)),
            Op::Cancel(n) if !self.ids.is_empty() => {
                let name = (n % self.ids.len()) as u64;
                let want = self.place.remove(&name).and_then(|key| self.model.remove(&key));
                assert_eq!(self.wheel.cancel(self.ids[name as usize]), want);
                self.cancelled += usize::from(want.is_some());
            }
            Op::Reschedule(n, delay) if !self.ids.is_empty() => {
                let name = (n % self.ids.len()) as u64;
                let (due, armed) = (now.saturating_add(delay), self.place.contains_key(&name));
                assert_eq!(self.wheel.reschedule(self.ids[name as usize], due), armed);
                if armed {
                    self.note(name, due);
                }
            }
            Op::Advance(step, budget) => self.advance(now.saturating_add(step), budget),
            Op::Follow(budget) => {
                if let Some(next) = self.wheel.next_due() {
                    self.advance(next, budget);
                }
            }
            Op::Rebase(back, step) => {
                let to = if back { now.saturating_sub(step) } else { now.saturating_add(step) };
                self.wheel.rebase(to);
                self.model = self.model.iter().map(|((due, seq), name)| (((*due).max(to), *seq), *name)).collect();
                self.place = self.model.iter().map(|(key, name)| (*name, *key)).collect();
            }
            Op::Cancel(_) | Op::Reschedule(..) => {}
        }
    }

    fn check(&self) {
        self.wheel.check();
        assert_eq!(self.wheel.len(), self.ids.len() - self.delivered - self.cancelled);
        let nearest = self.model.first_key_value().map(|((due, _), _)| *due);
        assert_eq!(self.wheel.next_due().is_some(), nearest.is_some());
        assert!(self.wheel.next_due() <= nearest, "next_due is later than the truth");
    }
}

fn behaves_as_a_sorted_map<const BITS: u32>(now: Tick, ops: &[Op]) {
    let mut pair = Pair::<BITS>::new(now);
    for op in ops {
        pair.act(op);
        pair.check();
    }
    for (name, id) in pair.ids.iter().enumerate() {
        assert_eq!(pair.wheel.due_of(*id), pair.place.get(&(name as u64)).map(|(due, _)| *due));
    }
    // All is cancelled, in another order than it came; then ids are stale and touch nobody.
    for (name, id) in pair.ids.iter().enumerate().rev() {
        assert_eq!(pair.wheel.cancel(*id).is_some(), pair.place.contains_key(&(name as u64)));
    }
    pair.wheel.check_empty();
    let fresh: Vec<TimerId> = (0..pair.ids.len() as u64).map(|n| pair.wheel.insert(u64::MAX, n)).collect();
    for id in &pair.ids {
        assert!(pair.wheel.cancel(*id).is_none() && !pair.wheel.reschedule(*id, 0) && pair.wheel.due_of(*id).is_none());
    }
    assert!(fresh.iter().all(|id| pair.wheel.due_of(*id) == Some(u64::MAX)));
}

/// Wake-ups that following `next_due` takes, and what it delivers.
fn follow<const BITS: u32>(wheel: &mut Wheel<u64, BITS>) -> (usize, Vec<(Tick, u64)>) {
    let (mut wakes, mut fired) = (0, Vec::new());
    while let Some(next) = wheel.next_due() {
        assert!(next >= wheel.now());
        fired.extend(fire(wheel, next));
        wakes += 1;
    }
    (wakes, fired)
}

fn built<const BITS: u32>(now: Tick, dues: &[Tick]) -> Wheel<u64, BITS> {
    let mut wheel = Wheel::with_levels(now);
    for (name, due) in dues.iter().enumerate() {
        wheel.insert(*due, name as u64);
    }
    wheel
}

fn one_jump_is_many_steps<const BITS: u32>(now: Tick, dues: &[Tick], steps: &[Tick]) {
    let mut want: Vec<(Tick, u64)> = dues.iter().zip(0..).map(|(due, name)| ((*due).max(now), name)).collect();
    want.sort_unstable();
    assert_eq!(fire(&mut built::<BITS>(now, dues), u64::MAX), want);

    let (wakes, fired) = follow(&mut built::<BITS>(now, dues));
    assert_eq!(fired, want);
    assert!(wakes <= dues.len() * Levels::<BITS>::COUNT as usize, "{wakes} wake-ups for {} timers", dues.len());

    let (mut wheel, mut fired) = (built::<BITS>(now, dues), Vec::new());
    for step in steps {
        let to = wheel.now().saturating_add(*step);
        fired.extend(fire(&mut wheel, to));
        assert!(fired.last().is_none_or(|(due, _)| *due <= to));
    }
    fired.extend(fire(&mut wheel, u64::MAX));
    assert_eq!(fired, want);
}

fn rebased_is_built_there<const BITS: u32>(now: Tick, dues: &[Tick], at: Tick) {
    let dues: Vec<Tick> = dues.iter().map(|due| (*due).max(now)).collect();
    let (mut rebased, mut fresh) = (built::<BITS>(now, &dues), built::<BITS>(at, &dues));
    rebased.rebase(at);
    rebased.check();
    assert_eq!(rebased.next_due(), fresh.next_due());
    assert_eq!(follow(&mut rebased), follow(&mut fresh));
}

fn start() -> impl Strategy<Value = Tick> {
    prop_oneof![4 => Just(0), 1 => ticks(64), 1 => ticks(20).prop_map(|left| u64::MAX - left)]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..120)
}

fn many(bits: u32) -> impl Strategy<Value = Vec<Tick>> {
    prop::collection::vec(ticks(bits), 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn behaves_as_a_sorted_map_with_64_slots(now in start(), ops in ops()) {
        behaves_as_a_sorted_map::<6>(now, &ops);
    }

    #[test]
    fn behaves_as_a_sorted_map_with_4_slots(now in start(), ops in ops()) {
        behaves_as_a_sorted_map::<2>(now, &ops);
    }

    /// A width that does not divide 64.
    #[test]
    fn behaves_as_a_sorted_map_with_32_slots(now in start(), ops in ops()) {
        behaves_as_a_sorted_map::<5>(now, &ops);
    }

    #[test]
    fn one_jump_delivers_what_many_steps_do(now in start(), dues in many(64), steps in many(58)) {
        one_jump_is_many_steps::<6>(now, &dues, &steps);
        one_jump_is_many_steps::<2>(now, &dues, &steps);
    }

    #[test]
    fn a_rebased_wheel_is_one_built_there(now in start(), dues in many(64), at in ticks(64)) {
        rebased_is_built_there::<6>(now, &dues, at);
        rebased_is_built_there::<2>(now, &dues, at);
    }
}
