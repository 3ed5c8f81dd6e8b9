//! Which slot a tick belongs to, and which slot begins next. Pure arithmetic over occupancy bitmaps.
//!
//! Level `l` has slots of `2^(BITS * l)` ticks. A timer lies at the level of its **distance**, in the slot of its own
//! digit: with `cur` the present slot of a level, level 0 holds `cur ..= cur + 63` and every other level
//! `cur + 1 ..= cur + 64`. So a digit names one slot of the range and never two, and the slot of `cur` itself, of a
//! coarse level, is a full turn ahead: what it held before was taken out when it began.
//!
//! Every `u64` has a slot: no end of range, no list of what is too far away, no ring at the top.

use super::Tick;

/// Slots of a level at most: one bit each.
const SLOTS_MAX: usize = 64;
/// Levels at most: those of two bits each.
const LEVELS_MAX: usize = 32;

/// A slot without a list.
pub(super) const NONE: u32 = u32::MAX;

/// One slot of one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub level: u8,
    pub digit: u8,
}

/// Which slots hold something, and the list of each.
#[derive(Debug)]
pub(super) struct Levels<const BITS: u32> {
    /// Levels with any bit set.
    summary: u32,
    occupied: [u64; LEVELS_MAX],
    lists: Vec<[u32; SLOTS_MAX]>,
}

impl<const BITS: u32> Levels<BITS> {
    pub const COUNT: u32 = 64u32.div_ceil(BITS);
    const SLOTS: u32 = {
        assert!(BITS >= 2 && BITS <= 6, "a level is a bitmap of 4 to 64 slots");
        1 << BITS
    };
    const MASK: u64 = Self::SLOTS as u64 - 1;

    pub fn new() -> Self {
        Self { summary: 0, occupied: [0; LEVELS_MAX], lists: vec![[NONE; SLOTS_MAX]; Self::COUNT as usize] }
    }

    /// Where a timer lies. `due` is not before `now`.
    pub fn place(now: Tick, due: Tick) -> Slot {
        let distance = due.saturating_sub(now) | Self::MASK;
        let level = (63 - distance.leading_zeros()) / BITS;
        Slot { level: level as u8, digit: Self::digit(due, level) }
    }

    /// The slot of level 0 that is due at `now`.
    pub fn due_slot(now: Tick) -> Slot {
        Slot { level: 0, digit: Self::digit(now, 0) }
    }

    fn digit(tick: Tick, level: u32) -> u8 {
        ((tick >> (level * BITS)) & Self::MASK) as u8
    }

    /// The list of a slot, [`NONE`] if it is empty.
    pub fn list(&self, slot: Slot) -> u32 {
        self.lists[usize::from(slot.level)][usize::from(slot.digit)]
    }

    pub fn set(&mut self, slot: Slot, list: u32) {
        self.lists[usize::from(slot.level)][usize::from(slot.digit)] = list;
        self.occupied[usize::from(slot.level)] |= 1 << slot.digit;
        self.summary |= 1 << slot.level;
    }

    /// Empties a slot; returns its list.
    pub fn clear(&mut self, slot: Slot) -> u32 {
        let level = usize::from(slot.level);
        self.occupied[level] &= !(1 << slot.digit);
        if self.occupied[level] == 0 {
            self.summary &= !(1 << slot.level);
        }
        std::mem::replace(&mut self.lists[level][usize::from(slot.digit)], NONE)
    }

    /// The first tick of the nearest slot that holds something.
    ///
    /// From fine to coarse, and no further than needed: no slot of a level begins before the level's next boundary.
    pub fn nearest(&self, now: Tick) -> Option<Tick> {
        let mut best = None;
        let mut left = self.summary;
        while left != 0 {
            let level = left.trailing_zeros();
            left &= left - 1;
            let shift = level * BITS;
            // Nothing overflows: a level holds something only if slots are left on it.
            let first = (now >> shift) + u64::from(level > 0);
            if best.is_some_and(|best| best < first << shift) {
                break;
            }
            let (bits, from) = (self.occupied[level as usize], (first & Self::MASK) as u32);
            let ahead = bits >> from;
            let steps = if ahead == 0 { bits.trailing_zeros() + Self::SLOTS - from } else { ahead.trailing_zeros() };
            let start = (first + u64::from(steps)) << shift;
            best = Some(best.map_or(start, |best: Tick| best.min(start)));
        }
        best
    }

    /// Takes out every coarse slot that begins at `start`, which is the nearest.
    ///
    /// To be called while `now` is still before `start`: later the slot of a second level would read as a full turn
    /// ahead, and fire that much too late.
    pub fn detach_at(&mut self, start: Tick, mut each: impl FnMut(u32)) {
        let mut left = self.summary & !1;
        while left != 0 {
            let level = left.trailing_zeros();
            left &= left - 1;
            if start.trailing_zeros() < level * BITS {
                break;
            }
            let slot = Slot { level: level as u8, digit: Self::digit(start, level) };
            if self.list(slot) != NONE {
                each(self.clear(slot));
            }
        }
    }

    /// Takes out every slot.
    pub fn detach_all(&mut self, mut each: impl FnMut(u32)) {
        while self.summary != 0 {
            let level = self.summary.trailing_zeros() as u8;
            let digit = self.occupied[usize::from(level)].trailing_zeros() as u8;
            each(self.clear(Slot { level, digit }));
        }
    }
}

#[cfg(test)]
impl<const BITS: u32> Levels<BITS> {
    /// The slots whose bit is set; that bits, summary and lists agree is checked.
    pub fn occupied(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        for level in 0..Self::COUNT as u8 {
            let bits = self.occupied[usize::from(level)];
            assert_eq!(self.summary >> level & 1 == 1, bits != 0, "summary of level {level}");
            for digit in 0..SLOTS_MAX as u8 {
                let slot = Slot { level, digit };
                assert_eq!(bits >> digit & 1 == 1, self.list(slot) != NONE, "bit of {slot:?}");
                if bits >> digit & 1 == 1 {
                    slots.push(slot);
                }
            }
        }
        slots
    }
}
