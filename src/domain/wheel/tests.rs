use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn fire(wheel: &mut Wheel<u64>, to: Tick) -> Vec<(Tick, u64)> {
    let mut fired = Vec::new();
    assert_eq!(wheel.advance(to, usize::MAX, |_, due, payload| fired.push((due, payload))), Progress::Done);
    fired
}

#[test]
fn c013_equal_ticks_fire_in_insertion_order_and_boundaries_at_their_tick() {
    let mut wheel = Wheel::new(0);
    for due in [4097, 64, 63, 4096, 65, 4095, 64] {
        wheel.insert(due, due);
    }
    let want: Vec<_> = [63, 64, 64, 65, 4095, 4096, 4097].map(|due| (due, due)).into();
    assert_eq!(fire(&mut wheel, 5000), want);
}

#[test]
fn due_in_the_past_fires_on_the_next_advance() {
    let mut wheel = Wheel::new(100);
    wheel.insert(7, 1);
    assert_eq!(wheel.next_due(), Some(100));
    assert_eq!(fire(&mut wheel, 100), [(100, 1)]);
}

#[test]
fn c014_an_earlier_insert_moves_the_next_due() {
    let mut wheel = Wheel::new(0);
    let late = wheel.insert(10_000, 1);
    wheel.insert(1000, 2);
    assert_eq!(wheel.next_due(), Some(1000));
    assert_eq!(wheel.cancel(late), Some(1));
    assert_eq!(fire(&mut wheel, 20_000), [(1000, 2)]);
    assert_eq!(wheel.next_due(), None);
}

#[test]
fn a_stale_id_never_touches_another_timer() {
    let mut wheel = Wheel::new(0);
    let first = wheel.insert(5, 1);
    fire(&mut wheel, 5);
    let second = wheel.insert(9, 2);
    assert_eq!(wheel.cancel(first), None);
    assert!(!wheel.reschedule(first, 20));
    assert_eq!(wheel.due_of(second), Some(9));
}

#[test]
fn a_budget_leaves_the_rest_cancellable() {
    let mut wheel = Wheel::new(0);
    let ids: Vec<_> = (0..5).map(|n| wheel.insert(1, n)).collect();
    let mut fired = Vec::new();
    assert_eq!(wheel.advance(1, 2, |_, _, p| fired.push(p)), Progress::More);
    assert_eq!(wheel.cancel(ids[3]), Some(3));
    assert_eq!(wheel.advance(1, 9, |_, _, p| fired.push(p)), Progress::Done);
    assert_eq!(fired, [0, 1, 2, 4]);
}

#[test]
fn edge_ticks() {
    let mut wheel = Wheel::new(1);
    wheel.insert(u64::MAX, 2);
    wheel.insert(0, 1);
    assert_eq!(fire(&mut wheel, u64::MAX), [(1, 1), (u64::MAX, 2)]);
    assert!(wheel.is_empty());
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u32),
    Cancel(usize),
    Reschedule(usize, u32),
    Advance(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..33u32).prop_flat_map(|bits| 0..=(1u64 << bits).min(u64::from(u32::MAX)) as u32).prop_map(Op::Insert),
        1 => any::<usize>().prop_map(Op::Cancel),
        1 => (any::<usize>(), 0..5000u32).prop_map(|(n, d)| Op::Reschedule(n, d)),
        1 => (0..20_000u32).prop_map(Op::Advance),
    ]
}

proptest! {
    /// Against a naive model: never early, each id ends once, in order, `next_due` exact.
    #[test]
    fn behaves_as_a_sorted_list(ops in prop::collection::vec(op(), 1..200)) {
        let mut wheel = Wheel::new(0);
        let mut model: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut place: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut ids = Vec::new();
        let (mut now, mut seq) = (0u64, 0u64);
        for op in ops {
            seq += 1;
            match op {
                Op::Insert(delay) => {
                    let due = now + u64::from(delay);
                    let name = ids.len() as u64;
                    ids.push(wheel.insert(due, name));
                    model.insert((due, seq), name);
                    place.insert(name, (due, seq));
                }
                Op::Cancel(n) if !ids.is_empty() => {
                    let name = (n % ids.len()) as u64;
                    let want = place.remove(&name).and_then(|key| model.remove(&key));
                    prop_assert_eq!(wheel.cancel(ids[name as usize]), want);
                }
                Op::Reschedule(n, delay) if !ids.is_empty() => {
                    let name = (n % ids.len()) as u64;
                    let due = now + u64::from(delay);
                    let old = place.get(&name).copied();
                    prop_assert_eq!(wheel.reschedule(ids[name as usize], due), old.is_some());
                    if let Some(old) = old {
                        model.remove(&old);
                        model.insert((due, seq), name);
                        place.insert(name, (due, seq));
                    }
                }
                Op::Advance(step) => {
                    now += u64::from(step);
                    let mut want = Vec::new();
                    while let Some((&(due, s), &name)) = model.first_key_value() {
                        if due > now { break; }
                        model.remove(&(due, s));
                        place.remove(&name);
                        want.push((due, name));
                    }
                    let mut got = Vec::new();
                    while wheel.advance(now, 7, |_, due, name| got.push((due, name))) == Progress::More {}
                    prop_assert_eq!(got, want);
                }
                Op::Cancel(_) | Op::Reschedule(..) => {}
            }
            prop_assert_eq!(wheel.next_due(), model.first_key_value().map(|(&(due, _), _)| due));
            prop_assert_eq!(wheel.len(), model.len());
        }
    }
}
