//! The timing wheel in figures, beside what else could be in its place: `make bench-wheel`.
//!
//! The same seeded work for all in one run, in an order shuffled at each repetition; CPU time; medians; ratios within a
//! repetition; deliveries are checked. Memory is aged before anything is measured: filled, cancelled in random order,
//! filled again. A goal that is missed is said, and is no failure.
//!
//! `AX_BENCH_REPEAT`: repetitions, 3 and for a million timers 2 if not said. `AX_BENCH_10M`: `next_due` of ten million.
#![allow(clippy::disallowed_methods, reason = "a bench reads the real clocks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on ends by a panic")]

#[path = "../support/report.rs"]
mod report;

mod alone;
mod cases;
mod cpu;
mod memory;
mod peers;

use std::time::Instant;

fn main() {
    if let Some(bytes) = memory::of_child() {
        println!("{bytes}");
        return;
    }
    let begin = Instant::now();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let say = |what: &str| eprintln!("bench: {:5.1} s: {what}", begin.elapsed().as_secs_f64());

    let mut rows = Vec::new();
    say("alone");
    rows.extend(alone::rows());
    say("memory");
    rows.extend(memory::rows());
    rows.extend(cases::rows(say));
    let path = report::write("wheel", &rows).expect("target/bench can be written");
    say(&format!("done; {}", path.display()));
    println!("wheel: {cores} cores, load before the run {}\n\n{}", load.join(" "), report::table(&rows));
}
