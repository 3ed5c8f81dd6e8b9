//! Replicas that go, and others that take over; and the same run for the same seed.

use ax::api::Phase;

use crate::Sim;
use crate::api::link::State;
use crate::worker::Answer;

const TASKS: usize = 300;

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
        sim.task(&format!("t-{n}")).delay(&format!("{}ms", n * 200)).create();
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
        sim.run_for("5m");
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
