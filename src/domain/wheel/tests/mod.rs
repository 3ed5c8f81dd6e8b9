//! What the wheel must keep: against a model (`model`), at its edges (`edges`), where others fell (`traps`), in counts
//! (`counts`).

mod counts;
mod edges;
mod model;
mod traps;

use super::store::{CHUNK, Role};
use super::*;

/// What is due up to and with `to`, in one call.
fn fire<const BITS: u32>(wheel: &mut Wheel<u64, BITS>, to: Tick) -> Vec<(Tick, u64)> {
    let mut fired = Vec::new();
    assert_eq!(wheel.advance(to, usize::MAX, |_, due, payload| fired.push((due, payload))), Progress::Done);
    fired
}

/// Numbers that look random and are the same in every run.
fn random(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}

impl<P, const BITS: u32> Wheel<P, BITS> {
    /// Records lie in their level's range, cells and records point at each other, bits are set for what is not empty.
    fn check(&self) {
        let (mut records, mut slots) = (0, Vec::new());
        for list in self.store.live_lists() {
            let positions = self.store.positions(list);
            assert!(!positions.is_empty(), "list {list} is empty");
            records += positions.len();
            let role = self.store.list(list).role;
            if let Role::Slot(slot) = role {
                assert_eq!(self.levels.list(slot), list);
                slots.push((slot.level, slot.digit));
            } else {
                assert!(self.cascading.contains(&list), "list {list} is lost");
            }
            for position in positions {
                let record = self.store.record(position);
                let back = self.cells.get(record.cell).map(cells::Armed::position);
                assert_eq!(back, Some(position), "cell {} and its record", record.cell);
                assert!(record.due >= self.now, "due={} now={}", record.due, self.now);
                if let Role::Slot(slot) = role {
                    let shift = u32::from(slot.level) * BITS;
                    let (at, cur, turn) = (record.due >> shift, self.now >> shift, 1u64 << BITS);
                    assert_eq!(at % turn, u64::from(slot.digit), "slot of due={}", record.due);
                    let (from, to) = if slot.level == 0 { (0, turn - 1) } else { (1, turn) };
                    assert!((from..=to).contains(&(at - cur)), "range of level {}: {}", slot.level, at - cur);
                }
            }
        }
        slots.sort_unstable();
        let occupied: Vec<_> = self.levels.occupied().into_iter().map(|slot| (slot.level, slot.digit)).collect();
        assert_eq!(slots, occupied);
        assert_eq!(records, self.cells.armed().len());
        assert_eq!(records, self.len());
    }

    /// No list, no bit, all chunks free.
    fn check_empty(&self) {
        self.check();
        assert!(self.is_empty() && self.store.live_lists().is_empty() && self.levels.occupied().is_empty());
        assert_eq!(self.stats().chunks, 0);
        assert_eq!(self.next_due(), None);
    }
}
