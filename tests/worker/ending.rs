//! Timeouts and the worker's own end.

use rustix::process::Signal;

use crate::support::{is_alive, sh, task, until};

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
    let clock = ax::ops::clock::Clock::start();
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
