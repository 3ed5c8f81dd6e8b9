//! Nothing runs twice that the journal knows.

use rustix::process::Signal;

use crate::support::{sh, task, until};

/// Notes that it began, waits for the file `go`, then answers.
const GATED: &str = r#"echo "$AX_ATTEMPT" >> runs; while [ ! -e go ]; do sleep 0.02; done; echo '{"n":1}'"#;

#[test]
fn c129_same_attempt_twice_runs_once() {
    let worker = sh(GATED).start();
    let first = task("e1").begin(&worker);
    until("running", || worker.file("runs") == "1\n");

    for attempt in [1, 2] {
        let second = task("e1").attempt(attempt).post(&worker);
        assert_eq!((second.status, second.header("retry-after")), (409, "1"));
    }
    let listed = worker.inventory(&[]).json();
    assert_eq!(listed["executions"][0], serde_json::json!({"id": "e1", "attempt": 1, "state": "Running"}));

    worker.release("go");
    let first = first.join().unwrap();
    assert_eq!((first.status, first.body.as_str()), (200, r#"{"n":1}"#));
    // A success is not repeated, whatever the attempt.
    for attempt in [1, 2] {
        let again = task("e1").attempt(attempt).post(&worker);
        assert_eq!((again.status, again.body), (200, first.body.clone()));
    }
    let listed = worker.inventory(&[]).json();
    assert_eq!(listed["executions"][0]["state"], "Finished");
    assert_eq!(worker.file("runs"), "1\n");
}

#[test]
fn c129_the_answer_outlives_the_worker() {
    let script = "echo $AX_ID >> runs; echo why >&2; echo 7; [ $AX_ID = good ] || exit 65";
    let mut worker = sh(script).start();
    let good = task("good").post(&worker);
    let bad = task("bad").post(&worker);
    for signal in [Signal::KILL, Signal::TERM] {
        worker = worker.restart(signal);
        let again = task("good").post(&worker);
        assert_eq!((again.status, &again.body), (200, &good.body));
        let again = task("bad").post(&worker);
        assert_eq!((again.status, &again.body), (422, &bad.body));
        assert_eq!(again.header("ax-retryable"), "false");
    }
    assert_eq!(worker.file("runs"), "good\nbad\n");
    // After a failure a higher attempt runs, a lower one does not.
    assert_eq!(task("bad").attempt(2).post(&worker).status, 422);
    assert_eq!(task("bad").attempt(1).post(&worker).status, 422);
    assert_eq!(worker.file("runs"), "good\nbad\nbad\n");
}

#[test]
fn work_lost_in_a_crash_is_told_and_not_repeated() {
    let worker = sh("echo $AX_ATTEMPT >> runs; [ $AX_ATTEMPT != 1 ] || exec sleep 3; echo 1").start();
    let asked = task("e1").send_only(&worker);
    until("running", || worker.file("runs") == "1\n");
    let worker = worker.restart(Signal::KILL);
    drop(asked);

    let listed = worker.inventory(&[]).json();
    assert_eq!(listed["executions"], serde_json::json!([{"id": "e1", "attempt": 1, "state": "Finished"}]));
    let told = task("e1").post(&worker);
    assert_eq!((told.status, told.code()), (500, "WorkerRestarted".to_owned()));
    assert_eq!(worker.file("runs"), "1\n");
    assert_eq!(task("e1").attempt(2).post(&worker).status, 200);
    assert_eq!(worker.file("runs"), "1\n2\n");
}

#[test]
fn a_closed_connection_is_no_cancel() {
    let worker = sh(GATED).start();
    let connection = task("e1").send_only(&worker);
    until("running", || worker.file("runs") == "1\n");
    drop(connection);
    assert_eq!(task("e1").post(&worker).status, 409, "runs on");
    worker.release("go");
    until("stored answer", || task("e1").post(&worker).status == 200);
    assert_eq!(worker.file("runs"), "1\n");
}

#[test]
fn a_full_disk_refuses_before_anything_ran() {
    // Files may not grow beyond 8 blocks of 512 bytes, for the worker and what it runs.
    let worker =
        sh("echo $AX_ID >> runs; head -c 3000 /dev/zero | tr '\\0' x").before("trap '' XFSZ; ulimit -f 8;").start();
    let mut ran = 0;
    let refused = loop {
        let answer = task(&format!("e{ran}")).post(&worker);
        if answer.status != 200 {
            break answer;
        }
        ran += 1;
        assert!(ran < 200, "the limit does not bite");
    };
    assert_eq!((refused.status, refused.code()), (503, "JournalUnwritable".to_owned()));
    assert_eq!(refused.header("retry-after"), "5");
    assert_eq!(worker.file("runs").lines().count(), ran, "nothing ran");
    assert_eq!(worker.room(), r#""ax";r=4"#, "its place is free again");
}

#[test]
fn two_workers_do_not_share_a_journal() {
    let worker = sh("true").start();
    let second = worker.second_on_the_same_journal().output().unwrap();
    assert!(!second.status.success());
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(error.contains("another running worker"), "{error}");
}
