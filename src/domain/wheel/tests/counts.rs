//! Figures that are the same on every machine: moves, bytes, wake-ups. `make bench-wheel` has those in time.

use super::*;

const DAY: Tick = 24 * 3600 * 1000;
const TIMERS: u64 = 100_000;

fn filled(within: Tick) -> Wheel<u64> {
    let (mut wheel, mut below) = (Wheel::new(12_345), random(3));
    for name in 0..TIMERS {
        wheel.insert(12_345 + below(within), name);
    }
    wheel
}

#[test]
fn a_timer_of_24_hours_moves_four_times() {
    let mut wheel = filled(DAY);
    while let Some(next) = wheel.next_due() {
        wheel.advance(next, usize::MAX, |_, _, _| ());
    }
    let stats = wheel.stats();
    assert_eq!(stats.fires, TIMERS);
    let mean = stats.moves as f64 / TIMERS as f64;
    assert!(mean <= 4.5, "{mean} moves a timer");
}

#[test]
fn no_timer_moves_more_than_11_times() {
    for due in [1, 64, 4095, 4096, 1 << 36, (1 << 60) + 1, 0x0fff_ffff_ffff_ffff, u64::MAX - 1, u64::MAX] {
        let (mut wheel, mut wakes) = (Wheel::new(0), 0);
        wheel.insert(due, 0);
        while let Some(next) = wheel.next_due() {
            wheel.advance(next, usize::MAX, |_, _, _: i32| ());
            wakes += 1;
        }
        assert!(wheel.stats().moves <= 10 && wakes <= 11, "due {due}: {:?}, {wakes} wake-ups", wheel.stats());
    }
}

#[test]
fn a_timer_takes_36_bytes() {
    for within in [2000, DAY] {
        let bytes = filled(within).stats().bytes as f64 / TIMERS as f64;
        assert!(bytes <= 36.0, "{bytes} bytes a timer, within {within}");
    }
}

#[test]
fn a_record_is_16_bytes_and_so_is_a_cell_of_8() {
    assert_eq!(size_of::<Record>(), 16);
    assert_eq!(size_of::<Option<cells::Armed<u64>>>(), 16);
}
