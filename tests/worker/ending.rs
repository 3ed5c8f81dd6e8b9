//! Timeouts and the worker's own end.

use ax::ops::clock::Clock;
use rustix::process::Signal;

use crate::support::{Worker, is_alive, read_answer, sh, task, until};

const GATED: &str = "echo $AX_ID >> runs; while [ ! -e go ]; do sleep 0.02; done; echo $AX_ID";

#[test]
fn c134_a_timeout_leaves_no_child() {
    let worker =
        sh("sleep 60 & echo $! >> pids; sleep 60 & echo $! >> pids; echo $$ >> pids; wait").concurrency(1).start();
    let got = task("e1").timeout("500ms").post(&worker);
    assert_eq!((got.status, got.code()), (504, "TimedOut".to_owned()));
    let pids = worker.file("pids");
    assert_eq!(pids.lines().count(), 3);
    assert!(!pids.lines().any(is_alive), "{pids}");
    assert_eq!(got.header("ratelimit"), r#""ax";r=1"#);
}

#[test]
fn c134_who_ignores_sigterm_is_killed_after_ten_seconds() {
    let worker = sh("trap '' TERM; echo $$ >> pids; sleep 60 & echo $! >> pids; wait; sleep 60").start();
    let asked = task("e1").timeout("100ms").begin(&worker);
    until("begun", || worker.file("pids").lines().count() == 2);
    let clock = Clock::start();
    let got = asked.join().unwrap();
    assert_eq!((got.status, got.code()), (504, "TimedOut".to_owned()));
    let waited = clock.mono().as_millis();
    assert!((9_000..15_000).contains(&waited), "{waited}");
    assert!(!worker.file("pids").lines().any(is_alive));
}

#[test]
fn c134_a_success_leaves_no_child_either() {
    let worker = sh("sleep 60 & echo $! > pids; echo 1").start();
    let got = task("e1").post(&worker);
    assert_eq!((got.status, got.body.as_str()), (200, "1"));
    assert!(!is_alive(worker.file("pids").trim()));
}

#[test]
fn c128_a_drain_takes_nothing_new_and_ends_what_runs() {
    let mut worker = sh(GATED).concurrency(30).start();
    let ids: Vec<String> = (0..30).map(|n| format!("e{n}")).collect();
    let running: Vec<_> = ids.iter().map(|id| task(id).begin(&worker)).collect();
    until("all run", || worker.file("runs").lines().count() == 30);

    worker.signal(Signal::TERM);
    until("not ready", || worker.get("/readyz").status == 503);
    let refused = task("late").post(&worker);
    assert_eq!((refused.status, refused.header("retry-after")), (503, "5"));
    assert_eq!(refused.header("connection"), "close");
    assert_eq!(refused.header("ratelimit"), r#""ax";r=0"#);
    let known = task("e0").post(&worker);
    assert_eq!((known.status, known.header("retry-after")), (409, "1"), "the journal speaks first");
    assert_eq!(worker.get("/healthz").status, 200, "it lives");
    let listed = worker.inventory(&[]).json();
    assert_eq!(listed["executions"].as_array().map(Vec::len), Some(30));

    worker.release("go");
    for (id, answer) in ids.iter().zip(running) {
        let answer = answer.join().unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json().as_str(), Some(id.as_str()));
    }
    assert_eq!(worker.wait().code(), Some(0));
    assert_eq!(worker.file("runs").lines().count(), 30);
}

#[test]
fn an_idle_worker_ends_at_once() {
    let mut worker = sh("true").start();
    // An idle connection does not hold it.
    let _idle = std::net::TcpStream::connect(worker.address).unwrap();
    task("e1").post(&worker);
    worker.signal(Signal::INT);
    assert_eq!(worker.wait().code(), Some(0));
}

#[test]
fn a_second_signal_kills_what_runs() {
    let mut worker = sh("trap '' TERM; echo $$ > pids; while :; do sleep 0.1; done").start();
    let asked = task("e1").begin(&worker);
    until("running", || !worker.file("pids").is_empty());
    worker.signal(Signal::TERM);
    until("draining", || worker.get("/readyz").status == 503);
    worker.signal(Signal::TERM);
    let got = asked.join().unwrap();
    assert_eq!((got.status, got.code()), (500, "WorkerStopped".to_owned()));
    assert_eq!(worker.wait().code(), Some(0));
    assert!(!is_alive(worker.file("pids").trim()));
}

#[test]
fn the_drain_timeout_stops_what_runs() {
    let mut worker = sh("echo 1 > runs; exec sleep 60").arg("--drain-timeout").arg("200ms").start();
    let asked = task("e1").begin(&worker);
    until("running", || !worker.file("runs").is_empty());
    worker.signal(Signal::TERM);
    let got = asked.join().unwrap();
    assert_eq!((got.status, got.code()), (500, "WorkerStopped".to_owned()));
    assert_eq!(worker.wait().code(), Some(0));
}

/// A worker at its end: draining, its only work just ended, and nobody there who asked for it. With a clock that
/// was started before that.
fn deserted(linger: &str) -> (Worker, Clock) {
    let worker = sh(GATED).arg("--linger").arg(linger).start();
    let asked = task("e1").send_only(&worker);
    until("running", || !worker.file("runs").is_empty());
    drop(asked);
    until("the asker is gone", || worker.log().contains("\"msg\":\"connection ended\""));
    worker.signal(Signal::TERM);
    until("draining", || worker.get("/readyz").status == 503);
    assert_eq!(task("e1").term(2).post(&worker).status, 409, "runs on");
    let clock = Clock::start();
    worker.release("go");
    until("ended", || worker.log().contains("\"msg\":\"ended\""));
    (worker, clock)
}

/// Waits for its end: the seconds by the clock.
fn seconds_to_end(worker: &mut Worker, clock: &Clock) -> f64 {
    assert_eq!(worker.wait().code(), Some(0));
    clock.mono().as_secs_f64()
}

#[test]
fn an_answer_whose_asker_is_gone_waits_for_the_next() {
    let (mut worker, clock) = deserted("60s");
    let other = task("e2").post(&worker);
    assert_eq!((other.status, other.header("retry-after")), (503, "5"));
    let got = task("e1").term(2).post(&worker);
    assert_eq!((got.status, got.json().as_str()), (200, Some("e1")));
    assert!(seconds_to_end(&mut worker, &clock) < 20.0);
    assert_eq!(worker.file("runs"), "e1\n");
}

#[test]
fn an_answer_that_nobody_fetches_is_kept_for_the_linger() {
    for (linger, least, less_than) in [("2s", 2.0, 20.0), ("0s", 0.0, 2.0)] {
        let (mut worker, clock) = deserted(linger);
        let waited = seconds_to_end(&mut worker, &clock);
        assert!((least..less_than).contains(&waited), "{linger}: {waited}");
        until("said", || worker.log().contains("\"msg\":\"undelivered answers are lost with the pod\""));
    }
}

#[test]
fn a_second_signal_ends_the_linger() {
    let (mut worker, clock) = deserted("60s");
    worker.signal(Signal::TERM);
    assert!(seconds_to_end(&mut worker, &clock) < 20.0);
}

#[test]
fn a_delivered_answer_does_not_linger() {
    let mut worker = sh(GATED).arg("--linger").arg("60s").start();
    let gone = task("e1").send_only(&worker);
    until("running", || !worker.file("runs").is_empty());
    drop(gone);
    worker.release("go");
    // One was fetched by somebody else, two were given to their askers; the last of these keeps its connection.
    until("fetched", || task("e1").post(&worker).status == 200);
    assert_eq!(task("e2").post(&worker).status, 200);
    let kept = task("e3").send_only(&worker);
    assert_eq!(read_answer(kept.try_clone().unwrap()).status, 200);
    let clock = Clock::start();
    worker.signal(Signal::TERM);
    assert!(seconds_to_end(&mut worker, &clock) < 20.0);
}
