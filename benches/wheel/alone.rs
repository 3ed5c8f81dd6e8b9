//! What has no peer: a look at the next due, an idle advance, a jump, the worst call with a budget.

use std::hint::black_box;

use ax::domain::wheel::{Progress, Wheel};

use crate::cpu::{Cpu, Random, median};
use crate::report::{Row, row};

const CALLS: u64 = 200_000;
const DAY: u64 = 24 * 3600 * 1000;

pub fn rows() -> Vec<Row> {
    let cpu = Cpu::new();
    let mut rows = Vec::new();
    let big = std::env::var_os("AX_BENCH_10M").is_some();
    for count in [10_000, 100_000, 1_000_000].into_iter().chain(big.then_some(10_000_000)) {
        for (within, range) in [("2 s", 2000), ("24 h", DAY)] {
            let wheel = filled(count, 0, range);
            let mut each: Vec<f64> = (0..5)
                .map(|_| cpu.time(|| (0..CALLS).filter_map(|_| black_box(&wheel).next_due()).max()).0 / CALLS as f64)
                .collect();
            rows.push(
                row(&format!("next_due, {count} in {within}"), "a call", "ns").ax(median(&mut each)).at_most(12.0),
            );
        }
    }
    rows.extend(idle(&cpu));
    rows.extend(jumps(&cpu));
    rows.push(worst_call(&cpu));
    rows
}

fn filled(count: u64, from: u64, range: u64) -> Wheel<u64> {
    let (mut wheel, mut random) = (Wheel::new(0), Random(4));
    for payload in 0..count {
        wheel.insert(from + random.below(range), payload);
    }
    wheel
}

fn idle(cpu: &Cpu) -> Vec<Row> {
    let mut wheel = filled(1_000_000, 1 << 30, DAY);
    let mut now = 0;
    let mut each: Vec<f64> = (0..5)
        .map(|_| {
            let calls = || {
                for _ in 0..CALLS {
                    now += 1;
                    black_box(&mut wheel).advance(now, 1024, |_, _, payload| assert_eq!(payload, u64::MAX));
                }
            };
            cpu.time(calls).0 / CALLS as f64
        })
        .collect();
    vec![row("idle, 1000000 far", "an advance", "ns").ax(median(&mut each)).at_most(10.0)]
}

/// Nothing lies in between, whatever the length.
fn jumps(cpu: &Cpu) -> Vec<Row> {
    let jump = |bits: u32| {
        let mut wheel = filled(100_000, 1 << 62, DAY);
        let (mut now, calls) = (0, 1000);
        let work = || {
            for _ in 0..calls {
                now += 1u64 << bits;
                black_box(&mut wheel).advance(now, 1024, |_, _, payload| assert_eq!(payload, u64::MAX));
            }
        };
        cpu.time(work).0 / f64::from(calls)
    };
    let mut rows = Vec::new();
    for bits in [10, 30, 50] {
        let mut each: Vec<f64> = (0..5).map(|_| jump(bits)).collect();
        rows.push(row(&format!("empty jump of 2^{bits}"), "an advance", "ns").ax(median(&mut each)).at_most(10.0));
    }
    rows
}

/// A million timers of 2 s roll, and every call may move or fire 1024.
fn worst_call(cpu: &Cpu) -> Row {
    const TIMERS: u64 = 1_000_000;
    let mut worsts: Vec<f64> = (0..3)
        .map(|_| {
            let (mut wheel, mut random) = (filled(TIMERS, 0, 2000), Random(5));
            let (mut now, mut worst, mut due) = (0, 0f64, Vec::new());
            while now < 6000 {
                now += 1;
                loop {
                    let (took, progress) = cpu.time(|| wheel.advance(now, 1024, |_, _, payload| due.push(payload)));
                    if now > 2000 {
                        worst = worst.max(took);
                    }
                    if progress == Progress::Done {
                        break;
                    }
                }
                for payload in due.drain(..) {
                    wheel.insert(now + 1 + random.below(2000), payload);
                }
            }
            worst
        })
        .collect();
    // The worst of a run is the machine's as much as the wheel's.
    worsts.sort_by(f64::total_cmp);
    row("rolling 2 s, 1000000", "worst call, budget 1024, best of 3", "us").ax(worsts[0] / 1000.0).at_most(100.0)
}
