//! Bytes a timer, as the kernel counts them: each structure in a process of its own.

use ax::domain::wheel::Wheel;

use crate::cpu::Random;
use crate::peers::{Delays, Heap, Map, Timers};
use crate::report::{Row, row};

const CHILD: &str = "AX_BENCH_MEMORY";

/// In a child: fills what it was told to, and says the bytes a timer.
pub fn of_child() -> Option<f64> {
    let what = std::env::var(CHILD).ok()?;
    let (name, count) = what.split_once(' ')?;
    let count = count.parse().ok()?;
    Some(match name {
        Delays::NAME => fill::<Delays>(count),
        Heap::NAME => fill::<Heap>(count),
        Map::NAME => fill::<Map>(count),
        _ => fill::<Wheel<u64>>(count),
    })
}

fn fill<T: Timers>(count: u64) -> f64 {
    let (mut random, before) = (Random(6), resident());
    let mut timers = T::new();
    for payload in 0..count {
        timers.insert(1 + random.below(86_400_000), payload);
    }
    let bytes = (resident() - before) as f64 / count as f64;
    std::hint::black_box(&timers);
    // Nobody has to clean up.
    std::mem::forget(timers);
    bytes
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs is there");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number of pages") * 4096
}

fn ask(name: &str, count: u64) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let done = std::process::Command::new(program).env(CHILD, format!("{name} {count}")).output().expect("a child");
    String::from_utf8_lossy(&done.stdout).trim().parse().expect("a number of bytes")
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for count in [100_000, 1_000_000] {
        let case = format!("memory, {count} in 24 h");
        let ax = ask(<Wheel<u64> as Timers>::NAME, count);
        rows.push(row(&case, "a timer", "bytes").ax(ax).at_most(36.0));
        rows.push(
            row(&case, "a timer", "bytes").ax(ax).peer(Delays::NAME, ask(Delays::NAME, count)).at_most_of_peer(0.65),
        );
        for name in [Heap::NAME, Map::NAME] {
            rows.push(row(&case, "a timer", "bytes").ax(ax).peer(name, ask(name, count)));
        }
    }
    rows
}
