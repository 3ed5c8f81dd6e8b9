//! CPU time of this thread: what others on the machine do does not count.

use rustix::time::{ClockId, clock_gettime};

fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Adds up nanoseconds, less what reading the clock takes.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    overhead: f64,
}

impl Cpu {
    pub fn new() -> Self {
        let mut all: Vec<f64> = (0..1001).map(|_| -(now() - now())).collect();
        all.sort_by(f64::total_cmp);
        Self { overhead: all[all.len() / 2] }
    }

    pub fn time<T>(&self, work: impl FnOnce() -> T) -> (f64, T) {
        let begin = now();
        let done = work();
        ((now() - begin - self.overhead).max(0.0), done)
    }
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The same numbers in every run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }

    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}
