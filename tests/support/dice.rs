//! Random numbers that can be had again: a seed, printed when a test fails.

/// Marsaglia's xorshift64*.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        // Mixed, so that neighbouring seeds have nothing in common; zero would stay zero.
        Self((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let sides = high.abs_diff(low) + 1;
        low + (self.roll() % sides) as i64
    }

    pub fn index(&mut self, length: usize) -> usize {
        (self.roll() % length as u64) as usize
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.index(from.len())]
    }

    /// True `n` times in a hundred.
    pub fn percent(&mut self, n: u64) -> bool {
        self.roll() % 100 < n
    }
}
