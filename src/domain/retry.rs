//! How long to wait before an attempt is repeated. Pure.

use std::time::Duration;

/// Wait before retry `n` (the first is 1), without jitter; past the end the last repeats.
pub fn base(delays: &[Duration], n: u32) -> Duration {
    let index = n.saturating_sub(1) as usize;
    delays.get(index).or(delays.last()).copied().unwrap_or_default()
}

/// Spreads a wait by up to `percent` either way. `roll` lies in `0..=2_000_000`; the middle changes nothing.
pub fn jittered(base: Duration, percent: u32, roll: u32) -> Duration {
    // `Duration` multiplies within u32; the percentage is taken in millionths of the wait to keep the milliseconds.
    let reach = base.as_nanos() * u128::from(percent.min(100)) / 100;
    let spread = reach * u128::from(roll.min(2_000_000)) / 1_000_000;
    let nanos = base.as_nanos() - reach + spread;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A roll in `0..=2_000_000` from the execution and the attempt: every leader computes the same instant.
pub fn roll(execution_id: &uuid::Uuid, attempt: u32) -> u32 {
    // FNV-1a over id and attempt; any even spread would do.
    let bytes = execution_id.as_bytes().iter().copied().chain(attempt.to_be_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // The high bits are the well mixed ones.
    (((hash >> 32) * 2_000_001) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn c031_the_first_wait_is_the_first_delay_and_the_last_repeats() {
        let delays = [secs(30), secs(120), secs(480), secs(600)];
        let want = [30, 120, 480, 600, 600, 600].map(secs);
        assert_eq!([1, 2, 3, 4, 5, 6].map(|n| base(&delays, n)), want);
    }

    #[test]
    fn c032_a_hundredth_retry_of_a_huge_delay_does_not_overflow() {
        let delays = [secs(1), secs(359_996_400)];
        assert_eq!(base(&delays, 2), secs(359_996_400));
        assert_eq!(base(&delays, 100), secs(359_996_400));
        assert_eq!(jittered(secs(359_996_400), 100, 2_000_000), secs(719_992_800));
    }

    #[test]
    fn c033_jitter_reaches_ten_percent_either_way_by_the_millisecond() {
        for (roll, want) in [(0, 9000), (1_000_000, 10_000), (2_000_000, 11_000), (1_000_500, 10_000)] {
            assert_eq!(jittered(secs(10), 10, roll).as_millis(), want);
        }
        assert_eq!(jittered(Duration::from_millis(1500), 0, 0).as_millis(), 1500);
    }

    #[test]
    fn rolls_are_spread_and_repeatable() {
        let rolls: Vec<u32> = (0..1000).map(|n| roll(&uuid::Uuid::from_u128(n), 1)).collect();
        assert_eq!(rolls[7], roll(&uuid::Uuid::from_u128(7), 1));
        let mean = rolls.iter().map(|r| u64::from(*r)).sum::<u64>() / 1000;
        assert!((800_000..1_200_000).contains(&mean), "mean {mean}");
    }
}
