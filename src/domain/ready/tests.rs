use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn place(priority: u8, at: i64, id: u64) -> Place {
    Place { priority, ready_at: Timestamp::from_second(at).expect("an instant"), id }
}

fn picked(queue: &mut ReadyQueue) -> Option<u64> {
    queue.pick().map(|place| place.id)
}

#[test]
fn the_cycle_gives_each_priority_its_weight() {
    for (priority, want) in WEIGHTS.iter().enumerate() {
        let got = CYCLE.iter().filter(|p| usize::from(**p) == priority).count();
        assert_eq!(got as u32, *want, "priority {priority}");
    }
}

#[test]
fn c022_what_comes_back_keeps_its_place() {
    let mut queue = ReadyQueue::default();
    for id in 1..=10 {
        queue.push(place(5, id as i64, id));
    }
    let picked: Vec<_> = (0..3).filter_map(|_| queue.pick()).collect();
    queue.push(picked[2]);
    assert_eq!(queue.pick().map(|p| p.id), Some(3));
    assert_eq!(queue.pick().map(|p| p.id), Some(4));
}

#[test]
fn c022_what_comes_back_after_others_came_keeps_its_place() {
    let mut queue = ReadyQueue::default();
    for id in [1, 2, 3, 8] {
        queue.push(place(5, id as i64, id));
    }
    assert_eq!((picked(&mut queue), picked(&mut queue)), (Some(1), Some(2)));
    // The ready side holds 3 and 8; later ones come, the first two come back, one comes late into the middle.
    for id in [9, 2, 7, 1, 5] {
        queue.push(place(5, id as i64, id));
    }
    let order: Vec<u64> = std::iter::from_fn(|| picked(&mut queue)).collect();
    assert_eq!(order, [1, 2, 3, 5, 7, 8, 9]);
}

#[test]
fn twice_the_same_is_once_and_removed_is_gone() {
    let mut queue = ReadyQueue::default();
    for _ in 0..2 {
        queue.push(place(5, 1, 1));
        queue.push(place(5, 2, 2));
    }
    assert_eq!(queue.len(), 2);
    assert!(queue.remove(place(5, 1, 1)));
    assert!(!queue.remove(place(5, 1, 1)));
    assert!(!queue.remove(place(4, 2, 2)), "another bucket");
    // Back again while its old entry is still there.
    queue.push(place(5, 1, 1));
    assert!(queue.remove(place(5, 1, 1)));
    queue.push(place(5, 1, 1));
    assert_eq!(queue.ids().collect::<Vec<_>>(), [1, 2]);
    assert_eq!((picked(&mut queue), picked(&mut queue), picked(&mut queue)), (Some(1), Some(2), None));
}

#[test]
fn what_is_removed_does_not_pile_up() {
    let mut bucket = Bucket::default();
    for id in 0..10_000 {
        bucket.push((Timestamp::UNIX_EPOCH, id));
        if id >= 10 {
            assert!(bucket.remove((Timestamp::UNIX_EPOCH, id)));
        }
        assert!(bucket.entries() <= 2 * bucket.len() + 65);
    }
    assert_eq!(bucket.ids(), (0..10).collect::<Vec<_>>());
}

#[derive(Debug, Clone)]
enum Op {
    Push(u8, i64, u64),
    /// What was picked so many picks ago comes back.
    Back(usize),
    Remove(u8, i64, u64),
    Pick,
}

fn op() -> impl Strategy<Value = Op> {
    // Few of each, so that places meet.
    let place = || (3u8..7, 0i64..12, 0u64..4);
    prop_oneof![
        4 => place().prop_map(|(priority, at, id)| Op::Push(priority, at, id)),
        1 => (0usize..4).prop_map(Op::Back),
        2 => place().prop_map(|(priority, at, id)| Op::Remove(priority, at, id)),
        3 => Just(Op::Pick),
    ]
}

proptest! {
    /// The starvation bound, with buckets that empty and fill at random around one that never is empty.
    #[test]
    fn a_waiting_bucket_gets_its_weight_in_any_44_picks(
        watched in 0u8..10,
        noise in prop::collection::vec(prop::collection::vec((0u8..10, 0i64..9, any::<bool>()), 0..4), 120),
    ) {
        let mut queue = ReadyQueue::default();
        let mut id = 0;
        for _ in 0..200 {
            id += 1;
            queue.push(place(watched, 0, id));
        }
        let mut picks = Vec::new();
        for fill in noise {
            for (priority, at, goes) in fill {
                id += 1;
                queue.push(place(priority, at, id));
                if goes {
                    queue.remove(place(priority, at, id));
                }
            }
            picks.push(queue.pick().expect("never empty").priority);
        }
        for window in picks.windows(SLOTS) {
            let got = window.iter().filter(|p| **p == watched).count() as u32;
            prop_assert!(got >= WEIGHTS[usize::from(watched)], "{got} of 44 for priority {watched}");
        }
    }

    /// Against sorted sets: order inside a bucket, whatever comes when; who waits; how many.
    #[test]
    fn behaves_as_sorted_sets(ops in prop::collection::vec(op(), 1..200)) {
        let mut queue = ReadyQueue::default();
        let mut model: [BTreeSet<(Timestamp, u64)>; 10] = Default::default();
        let mut picked: Vec<Place> = Vec::new();
        for op in ops {
            match op {
                Op::Push(priority, at, id) => {
                    let place = place(priority, at, id);
                    queue.push(place);
                    model[usize::from(priority)].insert((place.ready_at, id));
                }
                Op::Back(ago) => {
                    if let Some(place) = picked.len().checked_sub(1 + ago).and_then(|n| picked.get(n)) {
                        queue.push(*place);
                        model[usize::from(place.priority)].insert((place.ready_at, place.id));
                    }
                }
                Op::Remove(priority, at, id) => {
                    let place = place(priority, at, id);
                    let want = model[usize::from(priority)].remove(&(place.ready_at, id));
                    prop_assert_eq!(queue.remove(place), want);
                }
                Op::Pick => match queue.pick() {
                    None => prop_assert!(model.iter().all(BTreeSet::is_empty)),
                    Some(place) => {
                        let want = model[usize::from(place.priority)].pop_first();
                        prop_assert_eq!(Some((place.ready_at, place.id)), want);
                        picked.push(place);
                    }
                },
            }
            prop_assert_eq!(queue.len(), model.iter().map(BTreeSet::len).sum::<usize>());
            prop_assert_eq!(queue.is_empty(), model.iter().all(BTreeSet::is_empty));
        }
        let want: Vec<u64> = model.iter().rev().flat_map(|bucket| bucket.iter().map(|(_, id)| *id)).collect();
        prop_assert_eq!(queue.ids().collect::<Vec<_>>(), want);
    }
}
