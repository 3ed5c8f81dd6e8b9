//! Replicas that go, and others that take over; and the same run for the same seed.

use ax::api::Phase;

use crate::Sim;
use crate::api::link::State;
use crate::stage::span;
use crate::timing::on_time;
use crate::worker::Answer;

const TASKS: usize = 200;

/// How a leader goes.
#[derive(Debug, Clone, Copy)]
enum Going {
    Crash,
    Stop,
    Silence,
}

/// Three replicas, tasks due over a minute, of which each takes two seconds; the leader goes in the middle.
fn failover(seed: u64, going: Going) -> Sim {
    let mut sim = Sim::new(seed).operators(3).workers("w", 2, 200, |_| Answer::ok().after("2s"));
    sim.run_until("a leader", "20s", |sim| sim.leader().is_some());
    for n in 0..TASKS {
        sim.task(&format!("t-{n}")).delay(&format!("{}ms", n * 300)).create();
    }
    sim.run_for("30s");
    let first = sim.leader().expect("a leader");
    match going {
        Going::Crash => sim.crash(first),
        Going::Stop => sim.stop(first),
        Going::Silence => sim.network(first, State::Silent),
    }
    sim.run_for("20s");
    let second = sim.leader().expect("another leader");
    assert_ne!(first, second);
    if let Going::Silence = going {
        sim.network(first, State::Up);
    }
    sim.run_for("2m");
    sim
}

#[test]
fn another_replica_takes_over_and_every_task_runs_once() {
    for going in [Going::Crash, Going::Stop, Going::Silence] {
        let sim = failover(3, going);
        for n in 0..TASKS {
            let task = format!("t-{n}");
            let starts = sim.starts(&task);
            assert_eq!(starts.len(), 1, "{going:?}: {task}: {starts:?}");
            assert_eq!(sim.phase(&task), Phase::Succeeded, "{going:?}: {task}");
        }
        let terms: std::collections::BTreeSet<_> = sim.all_starts().iter().map(|start| start.term).collect();
        assert_eq!(terms.len(), 2, "{going:?}: {terms:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut sim = failover(seed, Going::Crash);
        for n in 0..TASKS {
            sim.task(&format!("more-{n}")).create();
        }
        // A pod is lost with all that runs on it, and a leader stops with a full hand.
        sim.run_for("1s");
        sim.lose_pod("w-0");
        sim.run_for("500ms");
        sim.stop(sim.leader().expect("a leader"));
        sim.run_for("2m");
        sim
    };
    let (first, again) = (run(7), run(7));
    let (calls, same) = (first.calls(), again.calls());
    for (one, other) in calls.iter().zip(&same) {
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "the first call that differs");
    }
    assert_eq!(calls.len(), same.len());
    assert_eq!(first.fingerprint(), again.fingerprint());
    assert_ne!(first.fingerprint(), run(8).fingerprint(), "another seed is another run");
}

#[test]
fn what_changed_while_the_watches_were_lost_is_seen() {
    let sim = Sim::new(410).slow_election().operators(1).worker("w", 30);
    sim.run_for("2m");
    for task in ["kept", "deleted", "replaced", "edited"] {
        sim.task(task).delay("30m").create();
    }
    sim.run_for("1m");
    sim.network(0, State::Silent);
    sim.run_for("10m");
    sim.delete("axtasks", "deleted");
    sim.delete("axtasks", "replaced");
    let replaced = sim.task("replaced").delay("1h").create();
    sim.patch("edited", serde_json::json!({"spec": {"delay": "2h"}}));
    sim.task("new").delay("1m").create();
    sim.server.store().compact();
    sim.network(0, State::Up);
    sim.run_for("3h");
    assert!(sim.starts("deleted").is_empty());
    for (task, due) in [("kept", "32m"), ("replaced", "1h13m"), ("edited", "2h2m"), ("new", "14m")] {
        let starts = sim.starts(task);
        assert_eq!(starts.len(), 1, "{task}: {starts:?}");
        // Whose creation nobody saw counts from the end of its second, by clocks that are known to a second.
        on_time(starts[0].at, span(due), span("2s"));
    }
    let execution = ax::domain::execution_id::execution_id(&replaced, 0).map(|id| id.to_string());
    assert_eq!(Some(sim.starts("replaced")[0].execution.clone()), execution, "the new one, not the one that is gone");
}
