//! Delays of minutes and hours, and what clocks may do meanwhile.

use std::time::Duration;

use ax::api::Phase;
use jiff::SignedDuration;

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
    sim.run_for("7h");
    let starts = sim.starts("t");
    assert_eq!(starts.len(), 1, "{starts:?}");
    on_time(starts[0].at, due, span("1s"));
    assert_eq!(sim.phase("t"), Phase::Succeeded);
}

#[test]
fn c016_a_timer_needs_no_event_of_the_api_server() {
    let sim = Sim::new(16).slow_election().operators(1).worker("w", 30);
    sim.run_for("2m");
    sim.task("t").delay("45m").create();
    let (created, due) = (sim.now(), sim.now() + span("45m"));
    sim.run_for("1h");
    on_time(sim.starts("t")[0].at, due, span("1s"));
    let between = |call: &&crate::api::Call| call.at < due && call.is_write();
    let writes = sim.calls_since(created + span("1m")).iter().filter(between).count();
    assert_eq!(writes, 0, "nothing happens in between");
}

#[test]
fn c075_a_wall_clock_set_back_moves_no_delay() {
    for whose in ["everybody's", "the leader's"] {
        let sim = Sim::new(75).operators(2).workers("w", 2, 500, |_| crate::worker::Answer::ok());
        sim.run_for("20s");
        let begin = sim.now();
        for n in 0..1000 {
            sim.task(&format!("t-{n}")).delay("10m").create();
        }
        sim.run_for("5m");
        let back = SignedDuration::from_hours(-1);
        match whose {
            "everybody's" => sim.step_wall(back),
            _ => sim.replicas[sim.leader().expect("a leader")].machine.step_wall(back),
        }
        sim.run_for("10m");
        let starts = sim.all_starts();
        assert_eq!(starts.len(), 1000, "{whose}: each once");
        for start in starts {
            on_time(start.at, begin + span("10m"), span("3s"));
        }
    }
}

#[test]
fn an_instant_is_kept_by_the_wall_clock_however_it_is_set() {
    let sim = Sim::new(76).slow_election().operators(2).worker("w", 30);
    sim.run_for("2m");
    let at = sim.wall() + SignedDuration::from_mins(90);
    sim.task("t").run_at(at).create();
    sim.run_for("5m");
    sim.step_wall(SignedDuration::from_hours(1));
    sim.run_for("5m");
    sim.step_wall(SignedDuration::from_mins(-30));
    sim.run_for("1h");
    let starts = sim.starts("t");
    assert_eq!(starts.len(), 1, "{starts:?}");
    let late = starts[0].wall.duration_since(at);
    assert!(!late.is_negative() && late.as_secs() < 2, "{late:?} after the instant");
}

#[test]
fn c114_ten_thousand_pending_tasks_are_quiet() {
    let sim = Sim::new(114).operators(2).worker("w", 30);
    sim.run_for("20s");
    let begin = sim.now();
    for n in 0..10_000 {
        sim.task(&format!("t-{n}")).delay("24h").create();
    }
    sim.run_for("1m");
    let mut written = std::collections::BTreeMap::new();
    for call in sim.calls_since(begin).into_iter().filter(crate::api::Call::is_write) {
        *written.entry((call.plural, call.name)).or_insert(0) += 1;
    }
    assert!(written.values().all(|writes| *writes <= 1), "at most one write each, for the ready time");
    let settled = sim.now();
    sim.run_for("10m");
    let calls = sim.calls_since(settled);
    let writes = calls.iter().filter(|call| call.is_write()).count();
    assert_eq!(writes, 0, "{calls:?}");
    assert!(calls.len() <= 600, "{} requests in 600 s", calls.len());
    assert!(sim.all_starts().is_empty());
}
