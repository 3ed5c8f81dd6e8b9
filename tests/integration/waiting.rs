//! What a due task waits for besides a place: other tasks, a key, a deadline.

use ax::api::Phase;
use serde_json::json;

use crate::scene::{SOON, Scene};
use crate::support::task::{message, phase, reason};
use crate::support::wait::{millis, secs};
use crate::support::{Inventory, Operator, Reply, Request, Script, TestNamespace, WorkerDeployment, task};

async fn stage(prefix: &str, script: &Script) -> (TestNamespace, WorkerDeployment, Operator) {
    let ns = TestNamespace::new(prefix).await;
    let workers = ns.workers("w").scripted(script).await;
    let operator = ns.operator().start().await;
    (ns, workers, operator)
}

#[tokio::test]
async fn a_task_starts_when_all_it_depends_on_has_succeeded() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("depends", |_| Reply::ok().after(millis(600))).await;
    task("last").worker("w").spec("dependsOn", json!(["first", "second"])).create(&ns).await;
    ns.wait_reason("last", Phase::Pending, "DependencyNotFound", SOON).await;
    let first = task("first").worker("w").create(&ns).await;
    task("second").worker("w").delay("2s").create(&ns).await;
    ns.wait_reason("last", Phase::Pending, "DependencyNotReady", SOON).await;
    let ended = ns.wait_phase("last", Phase::Succeeded, SOON).await;
    let (second, last) = (&script.requests_of("second")[0], &script.requests_of("last")[0]);
    assert!(last.at >= second.at + millis(600), "not before the last of them has ended");
    assert!(last.at <= second.at + secs(4), "and soon after");
    let dependencies = ended.status.expect("a status").dependencies;
    assert_eq!(dependencies[0].uid.as_ref(), Some(&first.uid));
    assert!(dependencies.iter().all(|d| d.satisfied));
}

#[tokio::test]
async fn c109_a_dependency_that_ends_otherwise_ends_the_task_and_circles_end() {
    let rule = |request: &Request| Reply::status(if request.task() == "fails" { 404 } else { 200 });
    let Scene { ns, script, operator: _operator, .. } = Scene::new("c109", rule).await;
    for (name, on) in [("after-dead", "fails"), ("after-canceled", "canceled"), ("self", "self")] {
        task(name).worker("w").spec("dependsOn", json!([on])).create(&ns).await;
    }
    task("fails").worker("w").create(&ns).await;
    task("canceled").worker("w").delay("1h").spec("cancel", json!(true)).create(&ns).await;
    for (name, cause) in [("after-dead", "fails"), ("after-canceled", "canceled")] {
        let seen = ns.wait_reason(name, Phase::Dead, "DependencyFailed", SOON).await;
        assert!(message(&seen).contains(cause), "{}", message(&seen));
    }
    ns.wait_reason("self", Phase::Dead, "DependencyCycle", SOON).await;
    for (name, on) in [("a", "b"), ("b", "c"), ("c", "a")] {
        task(name).worker("w").spec("dependsOn", json!([on])).create(&ns).await;
    }
    for name in ["a", "b", "c"] {
        let seen = ns.wait_reason(name, Phase::Dead, "DependencyCycle", SOON).await;
        assert!(message(&seen).contains("->"), "{}", message(&seen));
    }
    assert!(script.requests().iter().all(|r| r.task() == "fails"), "none of the others ran");
}

#[tokio::test]
async fn c157_what_has_succeeded_once_may_be_deleted() {
    let Scene { ns, operator: _operator, .. } = Scene::new("c157", |_| Reply::ok()).await;
    task("a").worker("w").create(&ns).await;
    task("b").worker("w").spec("dependsOn", json!(["a", "c"])).create(&ns).await;
    ns.wait_for("b", |t| t.status.as_ref().is_some_and(|s| s.dependencies.iter().any(|d| d.satisfied)), SOON).await;
    ns.delete_task("a").await;
    task("c").worker("w").create(&ns).await;
    ns.wait_phase("b", Phase::Succeeded, SOON).await;
}

#[tokio::test]
async fn c110_a_leader_killed_after_the_dependency_s_end_starts_the_dependent_once() {
    let script = Script::with_inventory(Inventory::Kept, |_| Reply::ok());
    let (ns, _workers, operator) = stage("c110", &script).await;
    task("a").worker("w").delay("1s").create(&ns).await;
    task("b").worker("w").spec("dependsOn", json!(["a"])).create(&ns).await;
    ns.wait_phase("a", Phase::Succeeded, SOON).await;
    operator.kill9();
    let _second = ns.operator().start().await;
    ns.wait_phase("b", Phase::Succeeded, secs(30)).await;
    assert_eq!(script.starts_of("b").len(), 1);
}

#[tokio::test]
async fn c105_tasks_of_one_key_run_one_at_a_time_in_ready_time_order() {
    let Scene { ns, script, operator: _operator, .. } =
        Scene::new("c105", |r| if r.task() == "a" { Reply::never() } else { Reply::ok().after(millis(700)) }).await;
    let keyed =
        |name: &str| task(name).worker("w").spec("concurrencyKey", json!("account-7")).timeout("2s").max_retries(0);
    let mut names = Vec::new();
    for name in ["a", "b", "c", "d"] {
        names.push(keyed(name).create(&ns).await.name);
        tokio::time::sleep(millis(30)).await;
    }
    task("other").worker("w").spec("concurrencyKey", json!("account-8")).create(&ns).await;
    ns.wait_phase("other", Phase::Succeeded, SOON).await;
    let seen = ns.wait_reason("d", Phase::Ready, "WaitingForKey", SOON).await;
    assert!(message(&seen).contains("account-7"), "{}", message(&seen));
    let running = ns.wait_phase("a", Phase::Running, SOON).await;
    assert_eq!(reason(&running), "Dispatched");
    // Deleted while it runs: its key is free when its place is.
    ns.delete_task("a").await;
    for name in ["b", "c", "d"] {
        ns.wait_phase(name, Phase::Succeeded, secs(60)).await;
    }
    let order: Vec<_> = script.requests().iter().map(|r| r.task().to_owned()).filter(|t| t != "other").collect();
    assert_eq!(order, ["a", "b", "c", "d"]);
    let times: Vec<_> = ["b", "c", "d"].map(|name| script.requests_of(name)[0].at).to_vec();
    assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + millis(700)), "never two at once");
}

#[tokio::test]
async fn c106_c116_a_keyed_task_is_written_running_before_it_is_sent() {
    let rule = |r: &Request| Reply::ok().after(if r.task() == "holder" { secs(3) } else { millis(50) });
    let script = Script::with_inventory(Inventory::Kept, rule);
    let (ns, _workers, operator) = stage("c106", &script).await;
    let keyed = |name: &str| task(name).worker("w").spec("concurrencyKey", json!("k"));
    keyed("holder").create(&ns).await;
    script.wait_request("holder", 1, SOON).await;
    assert_eq!(phase(&ns.get("holder").await), Phase::Running, "written ahead");
    for name in ["x", "y"] {
        keyed(name).create(&ns).await;
    }
    operator.kill9();
    let _second = ns.operator().start().await;
    for name in ["holder", "x", "y"] {
        ns.wait_phase(name, Phase::Succeeded, secs(60)).await;
    }
    let order: Vec<_> = script.requests().iter().filter(|r| r.is_start()).map(|r| r.task().to_owned()).collect();
    assert_eq!(order.last().map(String::as_str), Some("y"), "{order:?}");
    assert_eq!(order.iter().filter(|t| *t == "x").count(), 1);
    let (held, x) = (&script.requests_of("holder")[0], &script.requests_of("x")[0]);
    assert!(x.at >= held.at + secs(3), "the key was held across the failover");
}

#[tokio::test]
async fn c057_what_cannot_start_by_its_deadline_is_dead_and_a_retry_is_not_bound() {
    let Scene { ns, script, operator: _operator, .. } =
        Scene::new("c057", |r| Reply::status(if r.task() == "retries" && r.attempt() == 1 { 500 } else { 200 })).await;
    task("suspended").worker("w").spec("startDeadline", json!("1s")).suspended().create(&ns).await;
    task("no-pods").worker("nobody").spec("startDeadline", json!("1s")).create(&ns).await;
    task("in-time").worker("w").delay("1s").spec("startDeadline", json!("5s")).create(&ns).await;
    task("retries").worker("w").spec("startDeadline", json!("500ms")).delays(&["2s"]).create(&ns).await;
    for name in ["suspended", "no-pods"] {
        let seen = ns.wait_reason(name, Phase::Dead, "DeadlineExceeded", SOON).await;
        assert!(message(&seen).contains("startDeadline"), "{}", message(&seen));
        assert!(script.requests_of(name).is_empty());
    }
    ns.wait_phase("in-time", Phase::Succeeded, SOON).await;
    ns.wait_phase("retries", Phase::Succeeded, SOON).await;
}
