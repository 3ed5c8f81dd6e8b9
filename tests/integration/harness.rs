//! The harness itself: a pod that it plays is a pod to every controller, and its workers do what tests rely on.

use std::time::Instant;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use std::net::SocketAddr;

use crate::support::samples::Sample;
use crate::support::wait::{eventually, millis, secs};
use crate::support::{Gate, Inventory, Reply, Script, StatusWrites, TestNamespace, task};

/// What ax would send, abridged. Status and body, or why there is none.
async fn post(address: SocketAddr, task: &str, attempt: i32) -> Result<(u16, String), String> {
    let source = format!("/apis/ax.dev/v1alpha1/namespaces/x/axtasks/{task}");
    post_with(address, &[("ce-source", &source), ("ce-id", task)], attempt, "{\"n\":1}").await
}

async fn post_with(
    address: SocketAddr,
    headers: &[(&str, &str)],
    attempt: i32,
    body: &str,
) -> Result<(u16, String), String> {
    let stream = tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let io = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    let mut request = http::Request::post("/")
        .header("host", "worker")
        .header("content-type", "application/json")
        .header("ce-specversion", "1.0")
        .header("ce-type", "dev.ax.task.run.v1")
        .header("ce-axattempt", attempt.to_string())
        .header("ce-axterm", "1")
        .header("request-timeout", "10s");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[tokio::test]
async fn played_pods_become_ready_roll_over_and_go() {
    let ns = TestNamespace::new("played").await;
    let (workers, script) = ns.workers("w").replicas(2).grace(3).answering(|_| Reply::ok()).await;
    let before: Vec<String> = workers.pods().iter().map(|pod| pod.name().to_owned()).collect();
    assert_eq!(before.len(), 2);
    assert_ne!(workers.pods()[0].address(), workers.pods()[1].address());
    assert_eq!(post(workers.pods()[0].address(), "a", 1).await.unwrap().0, 200);
    let seen = script.requests().remove(0);
    assert_eq!((seen.pod.as_str(), seen.task(), seen.attempt()), (before[0].as_str(), "a", 1));
    assert_eq!(seen.json(), json!({"n": 1}));

    workers.pods()[0].set_ready(false).await;
    workers.wait_ready(1).await;
    workers.pods()[0].set_ready(true).await;
    workers.wait_ready(2).await;

    workers.rollout().await;
    eventually("two other pods", secs(30), || async {
        let names: Vec<String> = workers.pods().iter().map(|pod| pod.name().to_owned()).collect();
        let replaced = names.len() == 2 && names.iter().all(|name| !before.contains(name));
        if replaced { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    workers.scale(0).await;
    let pods: Api<Pod> = ns.api();
    eventually("no pods", secs(30), || async {
        let left = pods.list(&ListParams::default()).await.unwrap().items.len();
        if left == 0 { Ok(()) } else { Err(format!("{left} pods")) }
    })
    .await;
}

#[tokio::test]
async fn a_killed_worker_comes_back_as_another_container_of_the_same_pod() {
    let ns = TestNamespace::new("restart").await;
    let (workers, _) = ns.workers("w").answering(|_| Reply::never()).await;
    let pod = &workers.pods()[0];
    let container = async || {
        let pods: Api<Pod> = ns.api();
        let pod = serde_json::to_value(pods.get(pod.name()).await.unwrap()).unwrap();
        pod["status"]["containerStatuses"][0].clone()
    };
    let first = container().await;
    let (address, open) = (pod.address(), tokio::spawn(post(pod.address(), "a", 1)));
    tokio::time::sleep(millis(200)).await;
    pod.kill9();
    let cut = tokio::time::timeout(secs(5), open).await.expect("the connection is cut").unwrap();
    assert!(cut.is_err(), "{cut:?}");
    // Reset while the socket goes, then refused.
    let refused = async {
        while !post(address, "a", 1).await.unwrap_err().contains("refused") {
            tokio::time::sleep(millis(20)).await;
        }
    };
    tokio::time::timeout(secs(5), refused).await.expect("connections are refused");
    pod.restart().await;
    let second = container().await;
    assert_ne!(first["containerID"], second["containerID"]);
    assert_eq!(second["restartCount"], 1);
    assert!(tokio::net::TcpStream::connect(address).await.is_ok());
}

#[tokio::test]
async fn scripted_worker_answers_closes_and_keeps_an_inventory() {
    let ns = TestNamespace::new("script").await;
    let gate = Gate::closed();
    let held = gate.clone();
    let script = Script::with_inventory(Inventory::Kept, move |request| match request.task() {
        "held" => Reply::ok().gate(&held),
        "full" => Reply::status(429).header("retry-after", "2"),
        "closed" => Reply::close(),
        "slow" => Reply::status(500).text("no").after(millis(300)),
        _ => Reply::ok(),
    });
    let workers = ns.workers("w").scripted(&script).await;
    let address = workers.pods()[0].address();
    assert_eq!(post(address, "full", 1).await.unwrap().0, 429);
    assert!(post(address, "closed", 1).await.is_err());
    let begin = Instant::now();
    assert_eq!(post(address, "slow", 1).await.unwrap(), (500, "no".to_owned()));
    assert!(begin.elapsed() >= millis(300));

    // The work goes on when the connection is cut; the same attempt again is told so, and later gets the answer.
    let first = tokio::spawn(post(address, "held", 1));
    script.wait_request("held", 1, secs(5)).await;
    first.abort();
    assert_eq!(post(address, "held", 1).await.unwrap().0, 409);
    assert_eq!(script.running(), 1);
    gate.open();
    eventually("the answer from the journal", secs(5), || async {
        match post(address, "held", 1).await {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(script.starts_of("held").len(), 1);
    // A failure is repeated only for a higher attempt.
    post(address, "slow", 1).await.unwrap();
    post(address, "slow", 2).await.unwrap();
    assert_eq!(script.starts_of("slow").len(), 2);
    assert!(script.requests_of("full").iter().all(|request| !request.is_start()));
}

#[tokio::test]
async fn status_writes_are_counted_one_by_one() {
    let ns = TestNamespace::new("writes").await;
    let writes = StatusWrites::watch(&ns).await;
    let name = task("t").worker("w").create(&ns).await.name;
    for phase in ["Ready", "Running", "Succeeded"] {
        let patch = kube::api::Patch::Merge(json!({"status": {"phase": phase}}));
        ns.raw("AxTask").patch_status(&name, &Default::default(), &patch).await.unwrap();
    }
    ns.try_patch(&name, json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    writes.assert_count(&name, 3).await;
    assert_eq!(writes.phases(&name), ["Pending", "Ready", "Running", "Succeeded"]);
    let task = ns.wait_phase(&name, ax::api::Phase::Succeeded, secs(5)).await;
    assert_eq!(task.metadata.labels.unwrap()["a"], "b");
    let last: Value = writes.history(&name).pop().unwrap().object;
    assert_eq!(last["metadata"]["labels"]["a"], "b");
}

/// The sample handlers, run by `ax-worker exec` as a pod would.
#[tokio::test]
async fn sample_workers_run_their_handlers() {
    let ns = TestNamespace::new("handlers").await;
    for file in ["handlers.yaml", "worker.yaml"] {
        ns.apply_sample(&Sample::read(file)).await;
    }
    let pods = ns.kubelet().pods("order-worker");
    assert_eq!(pods.len(), 2);
    let address = pods[0].address;
    let run = async |id: &str, topic: &str, attempt: i32, payload: &str| {
        let source = format!("/apis/ax.dev/v1alpha1/namespaces/x/axtasks/{id}");
        let headers =
            [("ce-source", source.as_str()), ("ce-id", id), ("ce-subject", topic), ("ax-pod-uid", &pods[0].uid)];
        post_with(address, &headers, attempt, payload).await.unwrap()
    };
    assert_eq!(run("a", "order.close", 1, r#"{"orderId":"7"}"#).await, (200, r#"{"closed":"7"}"#.to_owned()));
    assert_eq!(run("b", "reminder.send", 2, r#"{"customer":"7"}"#).await.0, 500);
    assert_eq!(run("b", "reminder.send", 3, r#"{"customer":"7"}"#).await.0, 200);
    let (status, body) = run("c", "invoice.archive", 1, r#"{"invoice":"9"}"#).await;
    assert!(status == 500 && body.contains("archive refuses invoice 9"), "{status} {body}");
    let (status, _) = run("d", "no.such.topic", 1, "null").await;
    assert!((400..500).contains(&status) || status == 500, "{status}");
}
