//! What becomes of a task that is created: sizes, names, what it refers to.

use ax::api::Phase;
use serde_json::json;

use crate::scene::{SOON, Scene, create_all};
use crate::support::task::{attempts, condition, message, phase, reason};
use crate::support::wait::{millis, secs};
use crate::support::{Reply, Script, StatusWrites, TestNamespace, task};

#[tokio::test]
async fn c003_payload_arrives_as_the_api_server_stored_it() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("c003", |_| Reply::ok()).await;
    let payload = json!({"big": 9_007_199_254_740_993_i64, "whole": 1.0, "text": "é\u{2028}\"", "none": null});
    task("exact").worker("w").payload(payload).create(&ns).await;
    task("bare").worker("w").create(&ns).await;
    let largest = task("largest").worker("w").payload(json!("x".repeat(262_142))).create(&ns).await;
    for name in ["exact", &largest.name] {
        ns.wait_phase(name, Phase::Succeeded, SOON).await;
        let stored = ns.get(name).await.spec.work.unwrap().payload.unwrap();
        assert!(script.requests_of(name)[0].body == stored.get().as_bytes(), "{name} arrives as stored");
    }
    assert!(script.requests_of("exact")[0].body.windows(9).any(|part| part == b"\"whole\":1"));
    ns.wait_phase("bare", Phase::Succeeded, SOON).await;
    assert_eq!(script.requests_of("bare")[0].body, "null");
}

#[tokio::test]
async fn c003_too_large_is_dead_at_first_sight() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("c003-large", |_| Reply::ok()).await;
    task("payload").worker("w").payload(json!("x".repeat(262_143))).create(&ns).await;
    let mut object = task("object").worker("w").payload(json!("x".repeat(256_000)));
    for index in 0..11_000 {
        object = object.at(&["metadata", "labels", &format!("l{index}")], json!("v".repeat(63)));
    }
    object.create(&ns).await;
    for (name, limit, size) in [("payload", "262144", Some("262145")), ("object", "1048576", None)] {
        let dead = ns.wait_reason(name, Phase::Dead, "PayloadTooLarge", SOON).await;
        let digits: String = message(&dead).chars().filter(|c| !matches!(c, ',' | '_' | '\'')).collect();
        assert!(digits.contains(limit) || digits.contains("256 KiB") || digits.contains("1 MiB"), "{digits}");
        assert!(size.is_none_or(|size| digits.contains(size)), "{digits}");
        assert_eq!(attempts(&dead), 0);
        assert_eq!((condition(&dead, "Failed"), condition(&dead, "Stalled")), ("True".into(), "True".into()));
    }
    assert!(script.requests().is_empty());
}

/// The times of the case divided by ten.
#[tokio::test]
async fn c005_a_recreated_name_is_another_task() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("c005", |_| Reply::ok()).await;
    let first = task("pay-1").worker("w").delay("4s").payload(json!("A")).create(&ns).await;
    tokio::time::sleep(secs(1)).await;
    ns.delete_task("pay-1").await;
    tokio::time::sleep(secs(1)).await;
    let second = task("pay-1").worker("w").delay("4s").payload(json!("B")).create(&ns).await;
    ns.wait_phase("pay-1", Phase::Succeeded, SOON).await;
    tokio::time::sleep(secs(1)).await;
    let requests = script.requests();
    assert_eq!(requests.len(), 1, "A's timer is gone");
    assert_eq!(requests[0].json(), "B");
    assert!(requests[0].at - second.sent_at >= secs(4), "B has a time of its own");
    let id = |uid: &str| ax::domain::execution_id::execution_id(uid, 0).unwrap().to_string();
    assert_eq!(requests[0].execution(), id(&second.uid));
    assert_ne!(id(&first.uid), id(&second.uid));
}

#[tokio::test]
async fn c006_two_creates_of_one_name_are_one_execution() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("c006", |_| Reply::ok()).await;
    let maker = task("close-42").worker("w");
    let (one, other) = tokio::join!(maker.try_create(&ns), maker.try_create(&ns));
    assert_eq!([&one, &other].iter().filter(|made| made.is_ok()).count(), 1);
    let refused = one.err().or(other.err()).unwrap();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 409), "{refused}");
    ns.wait_phase("close-42", Phase::Succeeded, SOON).await;
    tokio::time::sleep(millis(500)).await;
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn c007_tasks_made_while_no_operator_runs_are_not_forgotten() {
    let ns = TestNamespace::new("c007").await;
    let (_workers, script) = ns.workers("w").credits(30).answering(|_| Reply::ok()).await;
    let makers = (0..100).map(|n| task(&format!("early-{n}")).worker("w")).collect();
    create_all(&ns, makers).await;
    assert_eq!(phase(&ns.get("early-99").await), Phase::Pending);
    let begin = std::time::Instant::now();
    let _operator = ns.operator().creates_lease().start().await;
    let requests = script.wait_requests(100, secs(60)).await;
    assert!(requests[0].at - begin >= secs(4), "who creates the Lease waits before the first start");
    assert!(requests[0].at - begin < secs(30), "{:?}", requests[0].at - begin);
    for n in 0..100 {
        ns.wait_phase(&format!("early-{n}"), Phase::Succeeded, SOON).await;
    }
    assert_eq!(script.requests().len(), 100, "each once");
}

#[tokio::test]
async fn c009_a_template_that_is_missing_may_come_later() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("c009", |_| Reply::ok()).await;
    let writes = StatusWrites::watch(&ns).await;
    task("waits").template("nope").topic("a").create(&ns).await;
    let waiting = ns.wait_reason("waits", Phase::Ready, "TemplateNotFound", SOON).await;
    assert!(message(&waiting).contains("nope"), "{}", message(&waiting));
    tokio::time::sleep(secs(3)).await;
    assert!(writes.count("waits") <= 2, "no storm: {:?}", writes.steps("waits"));
    ns.template("nope", "w", json!({})).await;
    ns.wait_phase("waits", Phase::Succeeded, SOON).await;
    assert_eq!(script.requests_of("waits")[0].header("ce-axtemplate"), "nope");
}

#[tokio::test]
async fn c009_a_worker_that_is_missing_may_come_later() {
    let ns = TestNamespace::new("c009-worker").await;
    let _operator = ns.operator().start().await;
    task("waits").worker("late").create(&ns).await;
    let waiting = ns.wait_reason("waits", Phase::Ready, "WorkerNotFound", SOON).await;
    assert!(message(&waiting).contains("late"), "{}", message(&waiting));
    let (_workers, script) = ns.workers("late").answering(|_| Reply::ok()).await;
    ns.wait_phase("waits", Phase::Succeeded, SOON).await;
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn a_worker_that_does_not_opt_in_gets_nothing() {
    let ns = TestNamespace::new("opt-in").await;
    let script = Script::new(|_| Reply::ok());
    let workers = ns.workers("w").not_opted_in().scripted(&script).await;
    let _operator = ns.operator().start().await;
    task("waits").worker("w").create(&ns).await;
    ns.wait_reason("waits", Phase::Ready, "WorkerNotOptedIn", SOON).await;
    // "True" is not "true".
    workers.annotate("ax.dev/worker", Some("True")).await;
    tokio::time::sleep(secs(1)).await;
    assert!(script.requests().is_empty() && script.questions().is_empty());
    workers.annotate("ax.dev/worker", Some("true")).await;
    ns.wait_phase("waits", Phase::Succeeded, SOON).await;
    // Taken back: the next one waits again.
    workers.annotate("ax.dev/worker", None).await;
    tokio::time::sleep(secs(1)).await;
    task("again").worker("w").create(&ns).await;
    ns.wait_reason("again", Phase::Ready, "WorkerNotOptedIn", SOON).await;
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn c009_a_port_must_be_declared() {
    let ns = TestNamespace::new("port").await;
    let script = Script::new(|_| Reply::ok());
    let workers = ns.workers("w").declares(None).scripted(&script).await;
    let _operator = ns.operator().start().await;
    task("waits").worker("w").create(&ns).await;
    let waiting = ns.wait_reason("waits", Phase::Ready, "PortNotDeclared", SOON).await;
    assert!(message(&waiting).contains("18080"), "{}", message(&waiting));
    assert!(script.requests().is_empty());
    let ports = json!([{"name": "worker", "ports": [{"containerPort": 18_080}]}]);
    workers.patch(json!({"spec": {"template": {"spec": {"containers": ports}}}})).await;
    ns.wait_phase("waits", Phase::Succeeded, secs(40)).await;
}

#[tokio::test]
async fn c023_no_ready_pod_is_no_attempt() {
    let ns = TestNamespace::new("c023").await;
    let (workers, script) = ns.workers("w").answering(|_| Reply::ok()).await;
    let writes = StatusWrites::watch(&ns).await;
    let _operator = ns.operator().start().await;
    workers.pods()[0].set_ready(false).await;
    workers.wait_ready(0).await;
    task("waits").worker("w").create(&ns).await;
    let waiting = ns.wait_reason("waits", Phase::Ready, "NoReadyWorkers", SOON).await;
    assert_eq!(attempts(&waiting), 0);
    tokio::time::sleep(secs(2)).await;
    assert_eq!(writes.count("waits"), 1, "{:?}", writes.steps("waits"));
    workers.pods()[0].set_ready(true).await;
    let done = ns.wait_phase("waits", Phase::Succeeded, SOON).await;
    assert_eq!((attempts(&done), reason(&done).is_empty() || reason(&done) == "Succeeded"), (1, true));
    assert_eq!(script.requests().len(), 1);
}
