//! Edges: of the range, of levels, of a budget, of ids.

use super::*;

#[test]
fn c013_equal_ticks_fire_in_insertion_order_and_boundaries_at_their_tick() {
    let mut wheel = Wheel::new(0);
    for due in [4097, 64, 63, 4096, 65, 4095, 64] {
        wheel.insert(due, due);
    }
    for (to, want) in [
        (62, vec![]),
        (63, vec![63]),
        (64, vec![64, 64]),
        (65, vec![65]),
        (4094, vec![]),
        (4095, vec![4095]),
        (4096, vec![4096]),
        (5000, vec![4097]),
    ] {
        let want: Vec<_> = want.into_iter().map(|due| (due, due)).collect();
        assert_eq!(fire(&mut wheel, to), want, "advance to {to}");
        wheel.check();
    }
    wheel.check_empty();
}

#[test]
fn insertion_order_holds_across_levels() {
    let mut wheel = Wheel::new(0);
    wheel.insert(100, 1); // level 1
    fire(&mut wheel, 50);
    wheel.insert(100, 2); // level 0, before the first comes down
    wheel.insert(100, 3);
    fire(&mut wheel, 70);
    wheel.insert(100, 4);
    assert_eq!(fire(&mut wheel, 100), [(100, 1), (100, 2), (100, 3), (100, 4)]);
}

/// What is left of a list out of order may be newer than the one that came last. Found by the model test.
#[test]
fn a_list_of_one_does_not_forget_whose_place_is_later() {
    let mut wheel = Wheel::new(0);
    let first = wheel.insert(100, 1);
    wheel.insert(100, 2);
    fire(&mut wheel, 50);
    wheel.insert(100, 3);
    assert_eq!(wheel.advance(64, 1, |_, _, _| ()), Progress::More); // the first comes down behind the third
    assert_eq!(wheel.cancel(first), Some(1));
    assert_eq!(fire(&mut wheel, 100), [(100, 2), (100, 3)]);
}

#[test]
fn due_in_the_past_fires_on_the_next_advance() {
    let mut wheel = Wheel::new(100);
    for (name, due) in [(1, 0), (2, 99), (3, 100), (4, 101)] {
        wheel.insert(due, name);
    }
    assert_eq!(wheel.next_due(), Some(100));
    assert_eq!(fire(&mut wheel, 99), []);
    assert_eq!(fire(&mut wheel, 100), [(100, 1), (100, 2), (100, 3)]);
    assert_eq!(fire(&mut wheel, 101), [(101, 4)]);
}

#[test]
fn the_range_has_no_end() {
    let mut wheel = Wheel::new(1);
    wheel.insert(u64::MAX, 3);
    wheel.insert(0, 1);
    wheel.insert(1 << 63, 2);
    wheel.check();
    assert_eq!(fire(&mut wheel, u64::MAX), [(1, 1), (1 << 63, 2), (u64::MAX, 3)]);
    wheel.insert(5, 4);
    assert_eq!(wheel.next_due(), Some(u64::MAX));
    assert_eq!(fire(&mut wheel, u64::MAX), [(u64::MAX, 4)]);
    wheel.check_empty();
}

#[test]
fn every_level_boundary_fires_at_its_tick() {
    for level in 1..=10 {
        let edge = 1u64 << (6 * level);
        for now in [0, 1, edge - 1, edge, edge + 1, 63 * edge.min(1 << 57), u64::MAX - edge] {
            let mut wheel = Wheel::new(now);
            let delays = [edge - 1, edge, edge + 1, edge.saturating_mul(64) - 1, edge.saturating_mul(64)];
            let mut dues: Vec<Tick> = delays.iter().map(|delay| now.saturating_add(*delay)).collect();
            for due in dues.iter().rev() {
                wheel.insert(*due, *due);
            }
            wheel.check();
            dues.dedup();
            for due in dues {
                if due > wheel.now() {
                    assert_eq!(fire(&mut wheel, due - 1), [], "level {level}, now {now}, before {due}");
                }
                let fired = fire(&mut wheel, due);
                assert!(!fired.is_empty() && fired.iter().all(|timer| *timer == (due, due)), "{level} {now} {due}");
                wheel.check();
            }
            wheel.check_empty();
        }
    }
}

#[test]
fn exactly_a_turn_away_is_not_now() {
    for level in 0..10 {
        let slot = 1u64 << (6 * level);
        let mut wheel = Wheel::new(7 * slot);
        wheel.insert(71 * slot, 1);
        wheel.check();
        assert_eq!(fire(&mut wheel, 71 * slot - 1), []);
        assert_eq!(fire(&mut wheel, 71 * slot), [(71 * slot, 1)]);
    }
}

#[test]
fn slots_of_all_levels_that_begin_on_one_tick_fire_together() {
    let start = 1u64 << 60;
    let mut wheel = Wheel::new(0);
    for level in (0..=10).rev() {
        // From so near that it lies at that level.
        let near = start - (1u64 << (6 * level));
        fire(&mut wheel, near);
        wheel.insert(start, level);
        wheel.insert(start + 1, 100 + level);
        wheel.check();
    }
    let slots = wheel.levels.occupied();
    assert!(slots.iter().map(|slot| slot.level).collect::<std::collections::BTreeSet<_>>().len() > 1);
    let want: Vec<_> = (0..=10).rev().map(|level| (start, level)).collect();
    assert_eq!(fire(&mut wheel, start), want);
    let want: Vec<_> = (0..=10).rev().map(|level| (start + 1, 100 + level)).collect();
    assert_eq!(fire(&mut wheel, start + 1), want);
    wheel.check_empty();
}

#[test]
fn a_budget_leaves_the_rest_cancellable() {
    let mut wheel = Wheel::new(0);
    let ids: Vec<_> = (0..6).map(|n| wheel.insert(1, n)).collect();
    let waiting = wheel.insert(2, 9);
    let mut fired = Vec::new();
    assert_eq!(wheel.advance(9, 2, |_, _, p| fired.push(p)), Progress::More);
    assert_eq!(wheel.next_due(), Some(1));
    assert_eq!(wheel.cancel(ids[0]), None, "just delivered");
    assert_eq!(wheel.cancel(ids[3]), Some(3), "due now");
    assert_eq!(wheel.cancel(waiting), Some(9), "waiting");
    wheel.check();
    assert_eq!(wheel.advance(9, 9, |_, _, p| fired.push(p)), Progress::Done);
    assert_eq!(fired, [0, 1, 2, 4, 5], "in order still");
    wheel.check_empty();
}

#[test]
fn between_budgeted_calls_a_timer_moves_to_this_tick() {
    let mut wheel = Wheel::new(0);
    for name in 0..4 {
        wheel.insert(5, name);
    }
    let far = wheel.insert(1000, 10);
    let mut fired = Vec::new();
    assert_eq!(wheel.advance(5, 2, |_, _, p| fired.push(p)), Progress::More);
    assert!(wheel.reschedule(far, 5));
    wheel.insert(0, 11);
    assert_eq!(wheel.advance(5, 99, |_, _, p| fired.push(p)), Progress::Done);
    assert_eq!(fired, [0, 1, 2, 3, 10, 11]);
}

#[test]
fn no_budget_does_nothing_but_says_whether_work_is_left() {
    let mut wheel = Wheel::new(0);
    wheel.insert(5, 1);
    assert_eq!(wheel.advance(4, 0, |_, _, _| ()), Progress::Done);
    assert_eq!(wheel.advance(5, 0, |_, _, _| ()), Progress::More);
    assert_eq!(fire(&mut wheel, 5), [(5, 1)]);
}

#[test]
fn a_stale_id_never_touches_another_timer() {
    let mut wheel = Wheel::new(0);
    let fired = wheel.insert(5, 1);
    fire(&mut wheel, 5);
    let cancelled = wheel.insert(9, 2);
    assert_eq!(cancelled.cell, fired.cell, "the cell is used again");
    assert_eq!(wheel.cancel(cancelled), Some(2));
    let third = wheel.insert(9, 3);
    assert_eq!(third.cell, fired.cell);
    for stale in [fired, cancelled] {
        assert_eq!(wheel.cancel(stale), None);
        assert!(!wheel.reschedule(stale, 20));
        assert_eq!(wheel.due_of(stale), None);
    }
    assert_eq!(wheel.due_of(third), Some(9));
}

#[test]
fn a_stale_id_of_a_page_given_back_touches_nobody() {
    let mut wheel = Wheel::new(0);
    let ids: Vec<_> = (0..20_000).map(|n| wheel.insert(n, n)).collect();
    let full = wheel.stats().bytes;
    for id in &ids {
        wheel.cancel(*id);
    }
    assert!(wheel.stats().bytes < full / 2, "{} of {full} bytes are left", wheel.stats().bytes);
    assert!(ids.iter().all(|id| wheel.cancel(*id).is_none()));
    let fresh: Vec<_> = (0..20_000).map(|n| wheel.insert(n, n)).collect();
    assert!(ids.iter().all(|id| wheel.due_of(*id).is_none()));
    assert!(fresh.iter().all(|id| wheel.due_of(*id).is_some()));
    wheel.check();
}

#[test]
fn generations_and_order_survive_the_counters_wrap() {
    let mut wheel = Wheel::new(0);
    wheel.seq = u32::MAX - 3;
    let ids: Vec<_> = (0..6).map(|n| wheel.insert(100, n)).collect();
    fire(&mut wheel, 50);
    // Out of order in its list, so that it is sorted: across the wrap.
    assert_eq!(wheel.cancel(ids[1]), Some(1));
    wheel.insert(100, 6);
    wheel.check();
    assert_eq!(fire(&mut wheel, 100).into_iter().map(|(_, p)| p).collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6]);
    let again = wheel.insert(200, 7);
    assert!(ids.iter().all(|id| *id != again && wheel.cancel(*id).is_none()));
}

#[test]
fn reschedule_keeps_the_id_and_takes_a_new_place() {
    let mut wheel = Wheel::new(0);
    let first = wheel.insert(10, 1);
    wheel.insert(10, 2);
    assert!(wheel.reschedule(first, 10));
    assert_eq!(wheel.due_of(first), Some(10));
    assert_eq!(fire(&mut wheel, 10), [(10, 2), (10, 1)]);
    assert!(!wheel.reschedule(first, 20));
}

#[test]
fn payloads_of_any_kind_are_dropped_once() {
    let payload = std::rc::Rc::new(());
    let mut wheel = Wheel::new(0);
    let id = wheel.insert(1, payload.clone());
    wheel.insert(2, payload.clone());
    wheel.insert(99, payload.clone());
    drop(wheel.cancel(id));
    wheel.advance(5, 9, |_, _, payload| drop(payload));
    assert_eq!(std::rc::Rc::strong_count(&payload), 2);
    drop(wheel);
    assert_eq!(std::rc::Rc::strong_count(&payload), 1);
}
