//! Chance, as a value: drawn from the system, or repeatable from a seed. Not for secrets.

use uuid::Uuid;

/// A stream of random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Another stream in every process.
    pub fn drawn() -> Self {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        Self(high ^ low.rotate_left(32))
    }

    /// The same stream for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll().checked_rem(end).unwrap_or(0)
    }

    /// A random UUID (version 4).
    pub fn uuid(&mut self) -> Uuid {
        let bits = (u128::from(self.roll()) << 64) | u128::from(self.roll());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_stream_and_another_another() {
        let stream = |mut dice: Dice| (0..8).map(|_| dice.roll()).collect::<Vec<_>>();
        assert_eq!(stream(Dice::seeded(7)), stream(Dice::seeded(7)));
        assert_ne!(stream(Dice::seeded(7)), stream(Dice::seeded(8)));
        assert_ne!(stream(Dice::drawn()), stream(Dice::drawn()));
    }

    #[test]
    fn rolls_stay_below_their_end() {
        let mut dice = Dice::seeded(1);
        assert!((0..1000).all(|_| dice.below(7) < 7));
        assert_eq!(dice.below(0), 0);
        assert_eq!(dice.uuid().get_version_num(), 4);
    }
}
