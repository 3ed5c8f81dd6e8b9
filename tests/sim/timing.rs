//! Delays of minutes and hours.

use std::time::Duration;

use ax::api::Phase;

use crate::Sim;
use crate::stage::span;

/// A start at `due`, never before it, at most `late` after it.
pub fn on_time(at: Duration, due: Duration, late: Duration) {
    assert!(at >= due, "{at:?} is {:?} early", due - at);
    assert!(at <= due + late, "{at:?} is {:?} late", at - due);
}

#[test]
fn c011_a_delay_of_six_hours_is_one_dispatch_at_six_hours() {
    let sim = Sim::new(11).slow_election().operators(2).worker("w", 30);
    sim.run_for("2m");
    sim.task("t").delay("6h").create();
    let due = sim.now() + span("6h");
    sim.run_for("12h");
    let starts = sim.starts("t");
    assert_eq!(starts.len(), 1, "{starts:?}");
    on_time(starts[0].at, due, span("1s"));
    assert_eq!(sim.phase("t"), Phase::Succeeded);
}
