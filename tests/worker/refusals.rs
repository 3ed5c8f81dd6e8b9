//! What does not run, and how that is said.

use std::process::Command;

use crate::support::{sh, task, until};

const NOTED: &str = "echo $AX_ID >> runs";

#[test]
fn c131_a_request_for_another_pod_has_no_effect() {
    let worker = sh(NOTED).start();
    let got = task("e1").with("Ax-Pod-Uid", "pod-b").term(99).post(&worker);
    assert_eq!(got.status, 421);
    assert_eq!(worker.inventory(&[("Ax-Pod-Uid", "pod-b")]).status, 421);
    assert_eq!(worker.file("runs"), "");
    // Its term was another pod's to learn. Without a uid nobody is wrong.
    let own = task("e1").without("Ax-Pod-Uid").term(1).post(&worker);
    assert_eq!(own.status, 200);
}

#[test]
fn c133_a_lower_term_has_no_effect() {
    let worker = sh(NOTED).start();
    assert_eq!(task("e1").term(5).post(&worker).status, 200);
    // An inventory question raises the term too.
    assert_eq!(worker.inventory(&[("Ax-Term", "9")]).status, 200);
    let got = task("e2").term(8).post(&worker);
    assert_eq!((got.status, got.header("ax-term")), (412, "9"));
    let asked = worker.inventory(&[("Ax-Term", "8")]);
    assert_eq!((asked.status, asked.header("ax-term")), (412, "9"));
    // A term of the year 5138 runs, and is not remembered.
    assert_eq!(task("e3").term(100_000_000_000_000).post(&worker).status, 200);
    assert_eq!(task("e4").term(9).post(&worker).status, 200);
    assert_eq!(task("e5").post(&worker).status, 200, "no term");
    assert_eq!(worker.file("runs"), "e1\ne3\ne4\ne5\n");
}

#[test]
fn beyond_its_capacity_a_worker_takes_nothing() {
    let worker = sh("echo $AX_ID >> runs; while [ ! -e go ]; do sleep 0.02; done").concurrency(2).start();
    assert_eq!(worker.room(), r#""ax";r=2"#);
    let running = [task("e1").begin(&worker), task("e2").begin(&worker)];
    until("both run", || worker.file("runs").lines().count() == 2);
    let full = task("e3").post(&worker);
    assert_eq!((full.status, full.header("retry-after")), (429, "1"));
    assert_eq!(full.header("ratelimit"), r#""ax";r=0"#);
    let known = task("e1").post(&worker);
    assert_eq!(known.status, 409, "the dedup rule comes before capacity");
    worker.release("go");
    for answer in running {
        let answer = answer.join().unwrap();
        assert_eq!(answer.status, 200);
        assert_ne!(answer.header("ratelimit"), r#""ax";r=0"#, "its own is free");
    }
    assert_eq!(task("e3").post(&worker).status, 200);
}

#[test]
fn a_bad_header_is_named() {
    let worker = sh(NOTED).start();
    for (case, header) in [
        (task("e1").without("ce-id"), "ce-id"),
        (task("e1").with("ce-id", "a%00b"), "ce-id"),
        (task("e1").without("ce-axattempt"), "ce-axattempt"),
        (task("e1").with("ce-axattempt", "x"), "ce-axattempt"),
        (task("e1").with("ce-axterm", "-1"), "ce-axterm"),
        (task("e1").with("Request-Timeout", "60"), "request-timeout"),
    ] {
        let got = case.post(&worker);
        assert_eq!(got.status, 400, "{header}");
        assert_eq!(got.header("content-type"), "application/problem+json");
        let title = got.json()["title"].as_str().unwrap().to_owned();
        assert!(title.contains(header), "{title}");
    }
    assert_eq!(worker.inventory(&[("Ax-Term", "x")]).status, 400);
    assert_eq!(worker.file("runs"), "");
}

#[test]
fn every_answer_says_how_much_room_there_is() {
    let worker = sh(NOTED).arg("--path").arg("/tasks").start();
    let huge = vec![b'x'; 256 * 1024 + 1];
    let identified = [("ce-id", "e1"), ("ce-axattempt", "1")];
    for (method, path, body, want) in [
        ("GET", "/healthz", &b""[..], 200),
        ("GET", "/readyz", b"", 200),
        ("GET", "/ax/v1/executions", b"", 200),
        ("POST", "/ax/v1/executions", b"", 405),
        ("POST", "/ax/v1/other", b"", 404),
        ("POST", "/elsewhere", b"", 404),
        ("GET", "/tasks", b"", 405),
        ("POST", "/healthz", b"", 405),
        ("POST", "/tasks", &huge, 413),
        ("POST", "/tasks/sub", b"1", 200),
        ("POST", "/tasks", b"1", 200),
    ] {
        let got = worker.send(method, path, &identified, body);
        assert_eq!(got.status, want, "{method} {path}");
        assert_eq!(
            (got.header("ratelimit-policy"), got.header("ratelimit")),
            (r#""ax";q=4;qu="concurrent-requests""#, r#""ax";r=4"#),
            "{method} {path}"
        );
    }
    assert_eq!(worker.file("runs"), "e1\n", "the second was a repeat");
}

#[test]
fn the_largest_payload_is_taken_and_one_byte_more_is_not() {
    let worker = sh("wc -c").start();
    let body = |length: usize| task(&format!("e{length}")).body(vec![b'1'; length]);
    assert_eq!(body(256 * 1024).post(&worker).body, "262144");
    assert_eq!(body(256 * 1024 + 1).post(&worker).status, 413);
    assert_eq!(body(3_000_000).post(&worker).status, 413);
}

#[test]
fn without_a_pod_uid_the_worker_says_where_to_get_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_ax-worker"))
        .args(["exec", "--", "true"])
        .env_remove("AX_POD_UID")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in ["--pod-uid", "AX_POD_UID", "downward API", "metadata.uid"] {
        assert!(error.contains(word), "{error}");
    }
}
