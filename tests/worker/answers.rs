//! What a command does becomes what the asker is told.

use rustix::process::Signal;

use crate::support::{sh, task, until};

#[test]
fn stdout_is_the_result_as_json_or_as_a_string() {
    let worker = sh(r#"eval "$AX_TOPIC""#).start();
    for (case, script, kind, want) in [
        ("json", r#"echo ' {"a": 1} '"#, "application/json", r#"{"a": 1}"#),
        ("text", "echo done", "application/json", r#""done""#),
        ("nothing", "true", "", ""),
    ] {
        let got = task(case).with("ce-subject", &script.replace('%', "%25")).post(&worker);
        assert_eq!((got.status, got.body.as_str()), (200, want), "{case}");
        assert_eq!(got.header("content-type"), kind, "{case}");
    }
}

#[test]
fn payload_and_attributes_reach_the_command() {
    let script = r#"cat; echo " $AX_ID $AX_ATTEMPT $AX_MAXATTEMPTS $AX_TERM $AX_TOPIC $AX_TRACEID $TRACEPARENT""#;
    // Values of a task hide those of the worker's own environment.
    let worker = sh(script).before("export AX_ID=stale AX_TOPIC=stale AX_TERM=stale TRACEPARENT=stale;").start();
    let got = task("e1")
        .attempt(2)
        .term(7)
        .with("ce-axmaxattempts", "4")
        .with("ce-subject", "order%2Fclose")
        .with("ce-axtraceid", "t-9")
        .with("traceparent", "00-aa-bb-01")
        .body(r#"{"id":5}"#)
        .post(&worker);
    let want = r#"{"id":5} e1 2 4 7 order/close t-9 00-aa-bb-01"#;
    assert_eq!(got.json().as_str(), Some(want), "{got:?}");
}

#[test]
fn a_topic_is_never_code() {
    let worker = sh(r#"printf %s "$AX_TOPIC""#).start();
    let got = task("e1").with("ce-subject", "$(touch%20hacked); touch hacked").post(&worker);
    assert_eq!(got.json().as_str(), Some("$(touch hacked); touch hacked"), "{got:?}");
    assert!(!worker.path("hacked").exists());
}

#[test]
fn exit_65_is_final_and_any_other_is_retried_with_the_log() {
    let worker = sh(r#"echo out; printf 'line\n\033[31mred\r\n' >&2; exit $AX_TOPIC"#).start();
    let run = |id: &str, exit: &str| task(id).with("ce-subject", exit).post(&worker);
    let last = run("e1", "65");
    assert_eq!((last.status, last.header("ax-retryable")), (422, "false"));
    assert_eq!(last.header("content-type"), "application/problem+json");
    assert_eq!(last.code(), "Exit65");

    let failed = run("e2", "7");
    assert_eq!((failed.status, failed.header("ax-retryable")), (500, ""));
    assert_eq!(failed.code(), "Exit7");
    let log = failed.json()["log"].as_str().unwrap().to_owned();
    assert!(log == "line\n[31mred", "{log:?}");
}

#[test]
fn a_command_killed_by_a_signal_names_it() {
    let worker = sh("kill -9 $$").start();
    let got = task("e1").post(&worker);
    assert_eq!((got.status, got.code()), (500, "Signal9".to_owned()));
}

#[test]
fn a_command_that_is_not_there_fails_the_attempt() {
    let setup = sh("").before("PATH=/nowhere;");
    let worker = setup.start();
    let got = task("e1").post(&worker);
    assert_eq!((got.status, got.code()), (500, "NotStarted".to_owned()));
    assert_eq!(worker.room(), r#""ax";r=4"#);
}

#[test]
fn a_command_may_ignore_its_payload_or_give_it_all_back() {
    let worker = sh(r#"[ "$AX_TOPIC" = ignore ] && echo 1 || cat"#).start();
    let payload = format!("\"{}\"", "x".repeat(256 * 1024 - 2));
    let ignored = task("e1").with("ce-subject", "ignore").body(payload.clone());
    assert_eq!(ignored.post(&worker).body, "1");
    let got = task("e2").body(payload).post(&worker);
    assert_eq!((got.status, got.body.len()), (200, 64 * 1024));
}

#[test]
fn c146_a_flood_of_output_costs_neither_memory_nor_the_answer() {
    let flood = "head -c 10000000 /dev/zero | tr '\\0' x";
    let worker = sh(&format!("{flood}; {flood} >&2; exit $AX_TOPIC")).start();
    let peak_kib = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM"));
        let number = line.unwrap().split_whitespace().nth(1).unwrap();
        number.parse::<u64>().unwrap()
    };
    let before = peak_kib();
    let good = task("e1").with("ce-subject", "0").post(&worker);
    assert_eq!((good.status, good.body.len()), (200, 64 * 1024));
    let bad = task("e2").with("ce-subject", "1").post(&worker);
    assert_eq!((bad.status, bad.code()), (500, "Exit1".to_owned()));
    assert_eq!(bad.json()["log"].as_str().map(str::len), Some(2 * 1024));
    let grown = peak_kib() - before;
    assert!(grown < 8 * 1024, "{grown} KiB");
}

#[test]
fn c144_neither_payload_nor_output_reach_the_logs() {
    let worker = sh("p=$(cat); echo $p-CANARY-2; echo $p-CANARY-3 >&2; exit $AX_TOPIC").start();
    for (id, exit, shown) in [("e1", "0", "CANARY-1-CANARY-2"), ("e2", "1", "CANARY-1-CANARY-3")] {
        let sent = task(id)
            .with("ce-subject", exit)
            .with("Ax-Callback-Token", "CANARY-4")
            .with("Ax-Callback-Url", "http://127.0.0.1:1/")
            .body("CANARY-1");
        // The second time it is the stored answer.
        for _ in 0..2 {
            let got = sent.post(&worker);
            assert!(got.body.contains(shown), "{got:?}");
        }
        assert_eq!(sent.with("ce-axattempt", "CANARY-5").post(&worker).status, 400);
    }
    // To the last line: what leaks may be written late.
    worker.signal(Signal::TERM);
    until("all is logged", || worker.log().contains("\"msg\":\"drained\""));
    let log = worker.log();
    assert_eq!(log.matches("\"msg\":\"ended\"").count(), 2, "{log}");
    assert!(!log.contains("CANARY"), "{log}");
}

#[test]
fn a_change_of_state_is_one_line_with_its_fields() {
    let worker = sh("true").start();
    task("e1")
        .term(7)
        .with("ce-source", "/apis/ax.dev/v1alpha1/namespaces/shop/axtasks/close")
        .with("ce-subject", "order.close")
        .with("traceparent", "00-aabb-cc-01")
        .post(&worker);
    until("end logged", || worker.log().contains("\"msg\":\"ended\""));
    let log = worker.log();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["execution_id"] == "e1")
        .collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert_eq!(lines[0]["msg"], "started");
    for (field, want) in
        [("namespace", "shop"), ("task", "close"), ("topic", "order.close"), ("trace_id", "aabb"), ("reason", "Exited")]
    {
        assert_eq!(lines[1][field], want);
    }
    assert_eq!((&lines[1]["attempt"], &lines[1]["term"]), (&1.into(), &7.into()));
    assert!(lines[1]["duration_ms"].as_f64().unwrap() > 0.0);
}
