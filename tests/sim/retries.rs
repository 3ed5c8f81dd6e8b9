//! Retries whose waits add up to hours.

use ax::api::Phase;

use crate::Sim;
use crate::stage::span;
use crate::timing::on_time;
use crate::worker::Answer;

/// A worker that always fails.
fn failing(seed: u64) -> Sim {
    let sim = Sim::new(seed).slow_election().operators(2).workers("w", 1, 30, |_| Answer::status(500));
    sim.run_for("2m");
    sim
}

/// The starts of a task come after these waits.
fn waits(sim: &Sim, task: &str, want: &[&str]) {
    let starts = sim.starts(task);
    assert_eq!(starts.len(), want.len() + 1, "{starts:?}");
    for ((pair, wait), attempt) in starts.windows(2).zip(want).zip(2..) {
        on_time(pair[1].at, pair[0].at + span(wait), span("1s"));
        assert_eq!(pair[1].attempt, attempt);
    }
}

#[test]
fn c031_waits_are_the_delays_and_the_last_repeats() {
    let sim = failing(31);
    sim.task("long").max_retries(6).delays(&["30s", "2m", "8m", "10m"]).create();
    sim.task("short").max_retries(2).delays(&["5m", "10m"]).create();
    sim.run_for("3h");
    waits(&sim, "long", &["30s", "2m", "8m", "10m", "10m", "10m"]);
    waits(&sim, "short", &["5m", "10m"]);
    for task in ["long", "short"] {
        assert_eq!(sim.phase(task), Phase::Dead);
        assert_eq!(sim.status(task).reason.as_deref(), Some("RetriesExhausted"));
    }
}

#[test]
fn c035_every_backoff_is_told_with_the_time_of_the_next_attempt() {
    let sim = failing(35);
    sim.task("usual").max_retries(5).no_jitter().create();
    sim.task("same").max_retries(5).delays(&["30s", "2m", "10m"]).create();
    let waited = ["30s", "2m", "10m", "10m", "10m"];
    for (count, wait) in waited.iter().enumerate() {
        sim.run_until("an attempt", "11m", |sim| sim.starts("usual").len() == count + 1);
        sim.run_for("2s");
        for task in ["usual", "same"] {
            let status = sim.status(task);
            assert_eq!((status.phase, status.reason.as_deref()), (Some(Phase::Retrying), Some("Backoff")), "{task}");
            let next = status.next_attempt_time.expect("the time of the next attempt").0;
            let failed = sim.starts(task)[count].wall;
            let ahead = next.duration_since(failed);
            let late = ahead - jiff::SignedDuration::try_from(span(wait)).unwrap();
            assert!(!late.is_negative() && late.as_millis() < 100, "{task}: {ahead:?} for {wait}");
        }
    }
    sim.run_for("30m");
    waits(&sim, "usual", &waited);
    waits(&sim, "same", &waited);
}
