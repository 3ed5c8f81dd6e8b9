//! Attempts, retries, ends, cancel, suspend, order: what the operator makes of each answer of a worker.

use std::sync::atomic::{AtomicBool, Ordering};

use ax::api::{AxTask, Phase};
use serde_json::json;

use crate::scene::{SOON, Scene};
use crate::support::deployment::held;
use crate::support::samples::Sample;
use crate::support::task::{attempts, condition, message, outcomes, phase, reason};
use crate::support::wait::{millis, secs};
use crate::support::{Gate, Reply, Script, StatusWrites, TestNamespace, task};

fn refusals(task: &AxTask) -> i32 {
    task.status.as_ref().and_then(|status| status.refusals).unwrap_or(0)
}

/// Complete, Failed, Stalled.
fn conditions(task: &AxTask) -> [String; 3] {
    ["Complete", "Failed", "Stalled"].map(|kind| condition(task, kind))
}

#[tokio::test]
async fn every_sample_ends_as_it_says() {
    let ns = TestNamespace::new("samples").await;
    let operator = ns.operator().start().await;
    let samples = Sample::all();
    for sample in &samples {
        ns.apply_sample(sample).await;
    }
    for sample in &samples {
        let Some(ends) = &sample.ends else { continue };
        for name in sample.tasks() {
            let task = ns.wait_for(&name, |task| phase(task).is_final(), secs(90)).await;
            assert_eq!((phase(&task).as_str(), attempts(&task)), (ends.phase.as_str(), ends.attempts), "{name}");
            if let Some(want) = &ends.reason {
                assert_eq!(reason(&task), want, "{name}");
            }
        }
    }
    let close = ns.get("close-order-20250101").await.status.unwrap();
    assert_eq!(close.result.as_deref(), Some(r#"{"closed":"20250101"}"#));
    let reminder = ns.get("remind-customer-7").await.status.unwrap();
    assert!(reminder.attempts[0].log.as_deref().unwrap_or_default().contains("mail server is away"), "{reminder:?}");
    let sent = async |name: &str| ns.get(name).await.status.unwrap().attempts[0].sent_time.unwrap();
    let urgent = sent("newsletter-urgent").await;
    let mut before = 0;
    for n in 1..=20 {
        before += usize::from(sent(&format!("newsletter-{n:02}")).await < urgent);
    }
    assert!(before <= 8, "{before} of 20 went before the urgent one");
    assert!(!operator.log_has("forbidden"), "its roles are enough");
}

#[tokio::test]
async fn a_failure_is_retried_after_its_delay() {
    let scene = Scene::new("retry", |request| match request.attempt() {
        1 | 2 => Reply::status(500).text("not yet"),
        _ => Reply::ok(),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    task("again").worker("w").topic("a.b").delays(&["300ms", "1500ms"]).create(&ns).await;
    let done = ns.wait_phase("again", Phase::Succeeded, SOON).await;
    assert_eq!(outcomes(&done), ["Failed", "Failed", "Succeeded"]);
    assert_eq!(conditions(&done)[..2], ["True", "False"]);
    let status = done.status.unwrap();
    assert_eq!((status.attempt, status.attempts[0].code.as_deref()), (Some(3), Some("HTTP500")));
    assert_eq!(status.observed_generation, done.metadata.generation);
    assert!(status.finish_time.is_some() && status.next_attempt_time.is_none());
    let requests = script.requests();
    assert_eq!(requests.iter().map(|request| request.attempt()).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(requests.iter().all(|request| request.execution() == requests[0].execution()), "one execution id");
    assert!(requests[1].at - requests[0].at >= millis(300));
    assert!(requests[2].at - requests[1].at >= millis(1500));
    let first = &requests[0];
    assert_eq!((first.header("ce-axmaxattempts"), first.topic()), ("4", "a.b"));
    assert_eq!(first.header("idempotency-key"), format!("\"{}\"", first.execution()));
    assert_eq!(first.header("ax-pod-uid"), first.pod_uid);
}

#[tokio::test]
async fn retries_used_up_is_a_dead_letter() {
    let Scene { ns, operator: _operator, .. } = Scene::new("dead", |_| Reply::status(500)).await;
    task("none-left").worker("w").max_retries(1).delays(&["100ms"]).create(&ns).await;
    task("none-at-all").worker("w").max_retries(0).create(&ns).await;
    for (name, want) in [("none-left", 2), ("none-at-all", 1)] {
        let dead = ns.wait_reason(name, Phase::Dead, "RetriesExhausted", SOON).await;
        assert_eq!(attempts(&dead), want);
        assert_eq!(conditions(&dead), ["False", "True", "True"], "Complete, Failed, Stalled of {name}");
        assert!(!message(&dead).is_empty());
    }
}

/// The topic is the status that the worker answers.
#[tokio::test]
async fn c126_what_each_answer_means() {
    let scene = Scene::new("c126", |request| match request.topic() {
        "404-retryable" if request.attempt() == 1 => Reply::status(404).header("ax-retryable", "true"),
        "404-retryable" => Reply::ok(),
        "500-final" => Reply::status(500).header("ax-retryable", "false"),
        "code" => Reply::status(500)
            .text(r#"{"code":"CardRevoked","title":"no"}"#)
            .header("content-type", "application/problem+json"),
        "302" => Reply::status(302).header("location", "http://127.0.0.1:1/"),
        other => Reply::status(other.parse().unwrap()),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    let maker = |name: &str, topic: &str| task(name).worker("w").topic(topic).max_retries(1).delays(&["100ms"]);
    for code in [200, 204, 400, 404, 410, 422, 424, 302, 408, 425, 500, 503] {
        maker(&format!("s{code}"), &code.to_string()).create(&ns).await;
    }
    maker("retryable", "404-retryable").create(&ns).await;
    maker("final", "500-final").create(&ns).await;
    maker("code", "code").non_retryable(&["CardRevoked"]).create(&ns).await;
    maker("listed", "500").non_retryable(&["HTTP500"]).create(&ns).await;
    maker("s202", "202").max_retries(0).create(&ns).await;
    for code in [200, 204] {
        let done = ns.wait_phase(&format!("s{code}"), Phase::Succeeded, SOON).await;
        assert_eq!(attempts(&done), 1, "{code}");
    }
    for name in ["s400", "s404", "s410", "s422", "s424", "s302", "final", "code", "listed"] {
        let dead = ns.wait_reason(name, Phase::Dead, "NonRetryable", SOON).await;
        assert_eq!((attempts(&dead), outcomes(&dead)), (1, vec!["Failed"]), "{name}");
        assert_eq!(conditions(&dead), ["False", "True", "True"], "{name}");
    }
    for code in [408, 425, 500, 503] {
        let dead = ns.wait_reason(&format!("s{code}"), Phase::Dead, "RetriesExhausted", SOON).await;
        assert_eq!(outcomes(&dead), ["Failed", "Failed"], "{code}");
        assert_eq!(dead.status.unwrap().attempts[0].code.as_deref(), Some(format!("HTTP{code}").as_str()));
    }
    let done = ns.wait_phase("retryable", Phase::Succeeded, SOON).await;
    assert_eq!(outcomes(&done), ["Failed", "Succeeded"]);
    let error = ns.get("code").await.status.unwrap().error.unwrap();
    assert_eq!((error.code.as_deref(), error.title.as_deref()), (Some("CardRevoked"), Some("no")));
    let accepted = ns.wait_phase("s202", Phase::Dead, SOON).await;
    assert_eq!(outcomes(&accepted), ["Failed"]);
    let attempt = accepted.status.unwrap().attempts.remove(0).message.unwrap_or_default();
    assert!(attempt.contains("202") || attempt.to_lowercase().contains("accepted"), "{attempt}");
    assert_eq!(script.requests_of("s302").len(), 1, "not followed");
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let scene = Scene::new("timeout", |request| match request.attempt() {
        1 => Reply::never(),
        _ => Reply::ok(),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    task("dead").worker("w").timeout("1s").max_retries(0).create(&ns).await;
    task("again").worker("w").timeout("1s").delays(&["200ms"]).create(&ns).await;
    let dead = ns.wait_reason("dead", Phase::Dead, "RetriesExhausted", SOON).await;
    assert_eq!(outcomes(&dead), ["TimedOut"]);
    let done = ns.wait_phase("again", Phase::Succeeded, SOON).await;
    assert_eq!(outcomes(&done), ["TimedOut", "Succeeded"]);
    let requests = script.requests_of("again");
    assert!(requests[1].at - requests[0].at >= millis(1200));
    assert_eq!(requests[0].header("request-timeout"), "1s");
}

#[tokio::test]
async fn cancel_of_what_does_not_run_is_at_once() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("cancel", |_| Reply::status(500)).await;
    task("pending").worker("w").delay("1h").create(&ns).await;
    task("retrying").worker("w").delays(&["1h"]).create(&ns).await;
    task("ready").worker("nobody").create(&ns).await;
    ns.wait_phase("retrying", Phase::Retrying, SOON).await;
    for name in ["pending", "retrying", "ready"] {
        ns.patch_spec(name, json!({"cancel": true})).await;
        let canceled = ns.wait_reason(name, Phase::Canceled, "Requested", SOON).await;
        assert_eq!(conditions(&canceled)[..2], ["False", "False"], "{name}");
        assert!(canceled.status.unwrap().finish_time.is_some());
    }
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn c050_cancel_of_what_runs_waits_for_its_end() {
    let gate = Gate::closed();
    let held = gate.clone();
    let scene = Scene::new("c050", move |request| match request.task() {
        "fails" => Reply::status(500).gate(&held),
        _ => Reply::ok().gate(&held),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    for name in ["fails", "succeeds"] {
        task(name).worker("w").delays(&["100ms"]).create(&ns).await;
    }
    for name in ["fails", "succeeds"] {
        ns.wait_phase(name, Phase::Running, SOON).await;
        ns.patch_spec(name, json!({"cancel": true})).await;
        ns.wait_reason(name, Phase::Running, "CancelRequested", SOON).await;
    }
    gate.open();
    ns.wait_phase("fails", Phase::Canceled, SOON).await;
    ns.wait_phase("succeeds", Phase::Succeeded, SOON).await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(script.requests().len(), 2, "no retry");
}

#[tokio::test]
async fn c049_an_unconfirmed_cancel_holds_after_half_a_minute() {
    let Scene { ns, operator: _operator, .. } = Scene::new("c049", |_| Reply::never()).await;
    task("deaf").worker("w").timeout("5m").create(&ns).await;
    ns.wait_phase("deaf", Phase::Running, SOON).await;
    let asked = std::time::Instant::now();
    ns.patch_spec("deaf", json!({"cancel": true})).await;
    ns.wait_phase("deaf", Phase::Canceled, secs(60)).await;
    assert!(asked.elapsed() >= secs(25), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn c056_suspend_holds_the_next_start_only() {
    let gate = Gate::closed();
    let held = gate.clone();
    let scene = Scene::new("c056", move |request| match (request.task(), request.attempt()) {
        ("running", 1) => Reply::status(500).gate(&held),
        _ => Reply::ok(),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    task("before-due").worker("w").delay("1s").suspended().create(&ns).await;
    task("running").worker("w").delays(&["200ms"]).create(&ns).await;
    ns.wait_phase("running", Phase::Running, SOON).await;
    ns.patch_spec("running", json!({"suspend": true})).await;
    let paused = ns.wait_reason("before-due", Phase::Pending, "Suspended", SOON).await;
    assert_eq!(condition(&paused, "Suspended"), "True");
    tokio::time::sleep(secs(2)).await;
    assert!(script.requests_of("before-due").is_empty(), "due, and still suspended");
    gate.open();
    ns.wait_reason("running", Phase::Retrying, "Suspended", SOON).await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(script.requests_of("running").len(), 1);
    for name in ["before-due", "running"] {
        ns.patch_spec(name, json!({"suspend": false})).await;
        ns.wait_phase(name, Phase::Succeeded, SOON).await;
    }
    assert_eq!(outcomes(&ns.get("running").await), ["Failed", "Succeeded"]);
}

#[tokio::test]
async fn c018_the_urgent_one_gets_the_next_place() {
    let gate = Gate::closed();
    let held = gate.clone();
    let scene = Scene::with("c018", 1, 1, move |request| match request.task() {
        "first" => Reply::ok().gate(&held),
        _ => Reply::ok(),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    task("first").worker("w").priority(1).create(&ns).await;
    ns.wait_phase("first", Phase::Running, SOON).await;
    for n in 0..10 {
        task(&format!("many-{n}")).worker("w").priority(1).create(&ns).await;
    }
    task("urgent").worker("w").priority(9).create(&ns).await;
    ns.wait_reason("urgent", Phase::Ready, "WaitingForCredit", SOON).await;
    assert_eq!(script.requests().len(), 1, "one credit, one at work");
    gate.open();
    let requests = script.wait_requests(12, secs(40)).await;
    let place = requests.iter().position(|request| request.task() == "urgent").unwrap();
    assert!(place <= 2, "urgent was number {place}");
    let rest: Vec<&str> = requests.iter().map(|r| r.task()).filter(|task| task.starts_with("many")).collect();
    let want: Vec<String> = (0..10).map(|n| format!("many-{n}")).collect();
    assert_eq!(rest, want, "equals in the order of their ready times");
    assert_eq!(script.peak(), 1);
}

#[tokio::test]
async fn deleted_tasks_free_what_they_held() {
    let gate = Gate::closed();
    let Scene { ns, script, operator: _operator, .. } = Scene::with("delete", 1, 1, held(&gate)).await;
    task("pending").worker("w").delay("3s").create(&ns).await;
    task("running").worker("w").create(&ns).await;
    ns.wait_phase("running", Phase::Running, SOON).await;
    task("next").worker("w").create(&ns).await;
    ns.delete_task("pending").await;
    ns.delete_task("running").await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(script.requests().len(), 1, "the place is free when the worker is done, not before");
    gate.open();
    ns.wait_phase("next", Phase::Succeeded, SOON).await;
    tokio::time::sleep(secs(2)).await;
    assert!(script.requests_of("pending").is_empty());
}

#[tokio::test]
async fn c115_edits_while_it_runs_do_not_lose_the_outcome() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("c115", |_| Reply::ok().after(secs(2))).await;
    let writes = StatusWrites::watch(&ns).await;
    task("busy").worker("w").create(&ns).await;
    script.wait_request("busy", 1, SOON).await;
    let edits = async {
        for n in 0..200 {
            ns.try_patch("busy", json!({"metadata": {"labels": {"edit": n.to_string()}}})).await.unwrap();
            tokio::time::sleep(millis(50)).await;
            if phase(&ns.get("busy").await).is_final() {
                break;
            }
        }
    };
    edits.await;
    let done = ns.wait_phase("busy", Phase::Succeeded, SOON).await;
    assert_eq!((attempts(&done), script.requests().len()), (1, 1));
    assert!(writes.count("busy") <= 4, "{:?}", writes.steps("busy"));
}

#[tokio::test]
async fn c116_a_short_run_costs_one_write() {
    let scene =
        Scene::new("c116", |request| Reply::ok().after(if request.topic() == "long" { secs(1) } else { millis(100) }));
    let Scene { ns, operator: _operator, .. } = scene.await;
    let single =
        Script::new(|request| Reply::ok().after(if request.task() == "blocks" { secs(3) } else { millis(100) }));
    let _one = ns.workers("one").credits(1).scripted(&single).await;
    let writes = StatusWrites::watch(&ns).await;
    // The leader is at work before anything is measured.
    task("first").worker("w").create(&ns).await;
    ns.wait_phase("first", Phase::Succeeded, SOON).await;
    task("short").worker("w").create(&ns).await;
    ns.wait_phase("short", Phase::Succeeded, SOON).await;
    task("long").worker("w").topic("long").create(&ns).await;
    task("later").worker("w").delay("12s").create(&ns).await;
    task("blocks").worker("one").create(&ns).await;
    single.wait_request("blocks", 1, SOON).await;
    task("waits").worker("one").create(&ns).await;
    for name in ["long", "blocks", "waits", "later"] {
        ns.wait_phase(name, Phase::Succeeded, SOON).await;
    }
    for (name, want) in [("short", 1), ("long", 2), ("waits", 2), ("later", 2)] {
        writes.assert_count(name, want).await;
    }
    assert_eq!(writes.phases("waits"), ["Pending", "Ready", "Succeeded"]);
    assert_eq!(writes.phases("long"), ["Pending", "Running", "Succeeded"]);
}

#[tokio::test]
async fn a_full_pod_is_passed_over_with_the_same_attempt() {
    let first = AtomicBool::new(true);
    let scene = Scene::with("refused", 2, 30, move |_| match first.swap(false, Ordering::SeqCst) {
        true => Reply::status(429).header("retry-after", "1"),
        false => Reply::ok(),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    task("moves").worker("w").max_retries(0).create(&ns).await;
    let done = ns.wait_phase("moves", Phase::Succeeded, SOON).await;
    assert_eq!((attempts(&done), refusals(&done), outcomes(&done)), (1, 1, vec!["Succeeded"]));
    let requests = script.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!((requests[0].attempt(), requests[1].attempt()), (1, 1));
    assert_ne!(requests[0].pod, requests[1].pod);
}

#[tokio::test]
async fn c022_a_refused_one_keeps_its_place() {
    let first = AtomicBool::new(true);
    let scene = Scene::with("c022", 1, 1, move |request| {
        let refuse = request.task() == "t3" && first.swap(false, Ordering::SeqCst);
        if refuse { Reply::status(429) } else { Reply::ok().after(millis(100)) }
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    for n in 1..=10 {
        task(&format!("t{n}")).worker("w").create(&ns).await;
    }
    for n in 1..=10 {
        ns.wait_phase(&format!("t{n}"), Phase::Succeeded, secs(40)).await;
    }
    let starts: Vec<String> = script
        .requests()
        .iter()
        .filter(|request| request.is_start())
        .map(|request| request.task().to_owned())
        .collect();
    let want: Vec<String> = (1..=10).map(|n| format!("t{n}")).collect();
    assert_eq!(starts, want);
    assert_eq!(refusals(&ns.get("t3").await), 1);
}

#[tokio::test]
async fn c028_a_refused_connection_uses_nothing_up() {
    let Scene { ns, script, workers, operator: _operator } = Scene::with("c028", 2, 30, |_| Reply::ok()).await;
    let pods = workers.pods();
    pods[0].kill9();
    for n in 0..10 {
        task(&format!("t{n}")).worker("w").max_retries(0).create(&ns).await;
    }
    for n in 0..10 {
        let done = ns.wait_phase(&format!("t{n}"), Phase::Succeeded, SOON).await;
        assert_eq!(attempts(&done), 1);
    }
    assert!(script.requests().iter().all(|request| request.pod == pods[1].name()));
}

#[tokio::test]
async fn c131_a_wrong_pod_is_left_alone() {
    let scene = Scene::with("c131", 2, 30, |request| match request.pod_uid == request.header("ax-pod-uid") {
        true => Reply::ok(),
        false => Reply::status(421),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    task("right").worker("w").create(&ns).await;
    ns.wait_phase("right", Phase::Succeeded, SOON).await;
    assert_eq!(script.requests().len(), 1);
    // Now a worker that takes itself for another.
    let first = AtomicBool::new(true);
    let confused =
        Script::new(move |_| if first.swap(false, Ordering::SeqCst) { Reply::status(421) } else { Reply::ok() });
    let _workers = ns.workers("confused").replicas(2).scripted(&confused).await;
    task("moves").worker("confused").max_retries(0).create(&ns).await;
    let done = ns.wait_phase("moves", Phase::Succeeded, SOON).await;
    assert_eq!((attempts(&done), refusals(&done)), (1, 1));
    let requests = confused.requests();
    assert_ne!(requests[0].pod, requests[1].pod);
}

#[tokio::test]
async fn c133_a_worker_that_saw_a_higher_term_gets_one() {
    let seen = jiff::Timestamp::now().as_millisecond() + 3_600_000;
    let scene = Scene::new("c133", move |request| match request.term() > u64::try_from(seen).unwrap() {
        true => Reply::ok(),
        false => Reply::status(412).header("ax-term", &seen.to_string()),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    task("fenced").worker("w").max_retries(0).create(&ns).await;
    let done = ns.wait_phase("fenced", Phase::Succeeded, SOON).await;
    assert_eq!(attempts(&done), 1);
    assert!(script.requests().iter().all(|request| request.attempt() == 1));
}

#[tokio::test]
async fn a_pod_deleted_under_work_is_worker_lost() {
    let scene = Scene::new("lost", |request| if request.attempt() == 1 { Reply::never() } else { Reply::ok() });
    let Scene { ns, script, workers, operator: _operator } = scene.await;
    task("moves").worker("w").timeout("5m").delays(&["200ms"]).create(&ns).await;
    let first = script.wait_request("moves", 1, SOON).await;
    ns.wait_phase("moves", Phase::Running, SOON).await;
    workers.pod(&first.pod).delete_now().await;
    let done = ns.wait_phase("moves", Phase::Succeeded, secs(50)).await;
    assert_eq!(outcomes(&done), ["WorkerLost", "Succeeded"]);
    assert_ne!(script.requests()[1].pod, first.pod);
}

#[tokio::test]
async fn c037_a_restarted_container_is_worker_lost() {
    let scene = Scene::new("c037", |request| if request.attempt() == 1 { Reply::never() } else { Reply::ok() });
    let Scene { ns, script, workers, operator: _operator } = scene.await;
    task("again").worker("w").timeout("5m").delays(&["200ms"]).create(&ns).await;
    let first = script.wait_request("again", 1, SOON).await;
    ns.wait_phase("again", Phase::Running, SOON).await;
    let pod = workers.pod(&first.pod);
    pod.kill9();
    tokio::time::sleep(millis(300)).await;
    pod.restart().await;
    let done = ns.wait_phase("again", Phase::Succeeded, secs(50)).await;
    assert_eq!(outcomes(&done), ["WorkerLost", "Succeeded"]);
}

#[tokio::test]
async fn c027_a_terminating_pod_gets_nothing_new_and_loses_nothing() {
    let gate = Gate::closed();
    let held = gate.clone();
    let scene = Scene::with("c027", 2, 30, move |request| match request.task() {
        "old" => Reply::ok().gate(&held),
        _ => Reply::ok(),
    });
    let Scene { ns, script, workers, operator: _operator } = scene.await;
    task("old").worker("w").timeout("5m").create(&ns).await;
    let old = script.wait_request("old", 1, SOON).await;
    workers.pod(&old.pod).delete().await;
    tokio::time::sleep(secs(1)).await;
    for n in 0..10 {
        task(&format!("new-{n}")).worker("w").create(&ns).await;
    }
    for n in 0..10 {
        ns.wait_phase(&format!("new-{n}"), Phase::Succeeded, SOON).await;
    }
    assert!(script.requests().iter().filter(|r| r.task() != "old").all(|r| r.pod != old.pod));
    gate.open();
    let done = ns.wait_phase("old", Phase::Succeeded, SOON).await;
    assert_eq!((attempts(&done), script.requests_of("old").len()), (1, 1));
}

#[tokio::test]
async fn c130_after_a_cut_the_same_pod_is_asked_first() {
    let first = AtomicBool::new(true);
    let scene = Scene::with("c130", 2, 30, move |_| match first.swap(false, Ordering::SeqCst) {
        true => Reply::close(),
        false => Reply::ok(),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    task("cut").worker("w").max_retries(0).timeout("60s").create(&ns).await;
    let done = ns.wait_phase("cut", Phase::Succeeded, SOON).await;
    assert_eq!(attempts(&done), 1);
    let requests = script.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!((requests[0].attempt(), requests[1].attempt()), (1, 1));
    assert_eq!(requests[0].pod, requests[1].pod);
    assert!(requests[1].at - requests[0].at >= millis(900));
    assert_ne!(requests[1].header("request-timeout"), "60s", "the time that remains");
}

#[tokio::test]
async fn c040_template_values_hold_field_by_field() {
    let scene = Scene::new("c040", |request| match request.topic() {
        "slow" => Reply::ok().after(secs(2)),
        _ => Reply::status(500),
    });
    let Scene { ns, script, operator: _operator, .. } = scene.await;
    let defaults = json!({
        "timeout": "1s", "work": {"topic": "fails", "payload": {"from": "template"}},
        "retry": {"maxRetries": 1, "delays": ["100ms"], "jitterPercent": 0},
    });
    ns.template("t", "w", defaults).await;
    task("by-template").template("t").create(&ns).await;
    task("own-retries").template("t").max_retries(2).create(&ns).await;
    task("own-timeout").template("t").topic("slow").timeout("30s").create(&ns).await;
    task("short-timeout").template("t").topic("slow").create(&ns).await;
    for (name, want) in
        [("by-template", vec!["Failed"; 2]), ("own-retries", vec!["Failed"; 3]), ("short-timeout", vec!["TimedOut"; 2])]
    {
        let dead = ns.wait_phase(name, Phase::Dead, SOON).await;
        assert_eq!(outcomes(&dead), want, "{name}");
    }
    ns.wait_phase("own-timeout", Phase::Succeeded, SOON).await;
    assert_eq!(script.requests_of("by-template")[0].json(), json!({"from": "template"}));
    assert_eq!(script.requests_of("own-timeout")[0].header("request-timeout"), "30s");
}
