//! The real `kubectl-ax`, without a cluster.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail tests")]

use std::process::Command;

use serde_json::{Value, json};

/// Exit code, stdout, stderr.
fn cron(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_kubectl-ax")).arg("cron").args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[test]
fn shows_the_next_runs_in_utc_and_on_the_local_clock() {
    let args = ["0 2 * * *", "--tz", "Europe/Berlin", "--from", "2023-10-28T12:00:00Z", "--count", "2"];
    let want = "\
UTC                   Europe/Berlin
2023-10-29T00:00:00Z  2023-10-29T02:00:00+02:00
2023-10-30T01:00:00Z  2023-10-30T02:00:00+01:00
";
    assert_eq!(cron(&args), (Some(0), want.to_owned(), String::new()));
}

#[test]
fn json_names_schedule_and_zone() {
    let (code, out, _) = cron(&["@hourly", "--from", "2026-08-01T00:30:00+02:00", "--count", "1", "-o", "json"]);
    let want = json!({
        "schedule": "@hourly",
        "timeZone": "UTC",
        "next": [{ "utc": "2026-07-31T23:00:00Z", "local": "2026-07-31T23:00:00+00:00" }],
    });
    assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap()), (Some(0), want));
}

#[test]
fn without_more_it_shows_five_from_now_on_and_at_most_a_thousand() {
    let lines = |args: &[&str]| cron(args).1.lines().count();
    assert_eq!(lines(&["* * * * *"]), 6);
    assert_eq!(lines(&["* * * * *", "--count", "1000"]), 1001);
    assert_eq!(lines(&["0 0 1 1 *", "--from", "9998-06-01T00:00:00Z"]), 2, "the calendar ends");
    for wrong in ["0", "1001", "-1", "x"] {
        assert_eq!(cron(&["* * * * *", "--count", wrong]).0, Some(2), "{wrong}");
    }
}

#[test]
fn what_is_no_schedule_is_an_error_for_people_and_for_programs() {
    for (expression, zone, reason, field, hint) in [
        ("0 30 10 * * *", "UTC", "InvalidSchedule", "spec.schedule.cron", "did you mean \"30 10 * * *\"?"),
        ("0 0 30 2 *", "UTC", "ScheduleNeverFires", "spec.schedule.cron", "never fires"),
        ("0 0 * * *", "Europe/Berln", "UnknownTimeZone", "spec.schedule.timeZone", "did you mean \"Europe/Berlin\"?"),
    ] {
        let (code, out, err) = cron(&[expression, "--tz", zone, "-o", "json"]);
        let error = &serde_json::from_str::<Value>(&out).unwrap()["error"];
        assert_eq!((code, &error["reason"], &error["field"]), (Some(1), &json!(reason), &json!(field)));
        assert!(err.starts_with("error: ") && err.contains(hint), "{err}");
        assert!(error["message"].as_str().unwrap().contains(hint), "{error}");
        assert_eq!(cron(&[expression, "--tz", zone]), (Some(1), String::new(), err));
    }
}
