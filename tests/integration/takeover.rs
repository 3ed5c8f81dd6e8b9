//! Leaders that die, go, or lose their API server: nothing is lost, nothing starts twice.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ax::api::Phase;

use crate::scene::{SOON, create_all};
use crate::support::task::attempts;
use crate::support::wait::{millis, secs, until};
use crate::support::{Cluster, Gate, Inventory, Reply, Script, TestNamespace, task};

/// Starts per task, of those that began work.
fn starts(script: &Script) -> HashMap<String, usize> {
    let mut starts = HashMap::new();
    for request in script.requests().iter().filter(|request| request.is_start()) {
        *starts.entry(request.task().to_owned()).or_default() += 1;
    }
    starts
}

fn assert_each_once(script: &Script, count: usize) {
    let starts = starts(script);
    let more: Vec<_> = starts.iter().filter(|(_, n)| **n != 1).collect();
    assert!(starts.len() == count && more.is_empty(), "{} of {count} started, more than once: {more:?}", starts.len());
}

/// A fifth of the case's 500 tasks.
#[tokio::test]
async fn c061_a_killed_leader_loses_nothing() {
    let ns = TestNamespace::new("c061").await;
    let script = Script::with_inventory(Inventory::Kept, |_| Reply::ok());
    let _workers = ns.workers("w").replicas(2).scripted(&script).await;
    let operators = ns.operator().start_many(2).await;
    let leader = ns.wait_leader(&operators, SOON).await;
    let makers = (0..100).map(|n| task(&format!("t{n}")).worker("w").delay("5s")).collect();
    let created = create_all(&ns, makers).await;
    let kill_at = created[0].sent_at + secs(4);
    tokio::time::sleep_until(kill_at.into()).await;
    operators[leader].kill9();
    let killed = Instant::now();
    let requests = script.wait_requests(100, secs(60)).await;
    let gap = requests[0].at - killed;
    println!("first start {gap:?} after the kill");
    assert!(gap < secs(30), "{gap:?}");
    for made in &created {
        let done = ns.wait_phase(&made.name, Phase::Succeeded, SOON).await;
        assert_eq!(attempts(&done), 1);
        let request = script.requests_of(&made.name).remove(0);
        assert!(request.at - made.sent_at >= secs(5), "{} is early", made.name);
    }
    assert_each_once(&script, 100);
    let other = ns.wait_leader(&operators, SOON).await;
    assert_ne!(other, leader);
}

/// Real workers that append to a file each time they start.
#[tokio::test]
async fn c062_running_tasks_are_adopted() {
    let ns = TestNamespace::new("c062").await;
    let file = ns.dir().join("starts");
    let command = format!("echo \"$AX_ID $AX_ATTEMPT\" >> {}; sleep 8; echo '{{\"done\":true}}'", file.display());
    let _workers = ns.workers("w").replicas(2).ax_worker(10, &["/bin/sh", "-c", &command]).await;
    let operators = ns.operator().start_many(2).await;
    let leader = ns.wait_leader(&operators, SOON).await;
    let makers = (0..10).map(|n| task(&format!("t{n}")).worker("w").timeout("60s")).collect();
    let created = create_all(&ns, makers).await;
    let lines = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
    until("10 starts", SOON, || lines() == 10).await;
    for made in &created {
        ns.wait_phase(&made.name, Phase::Running, SOON).await;
    }
    operators[leader].kill9();
    for made in &created {
        let done = ns.wait_phase(&made.name, Phase::Succeeded, secs(60)).await;
        assert_eq!(attempts(&done), 1);
        assert_eq!(done.status.unwrap().result.as_deref(), Some(r#"{"done":true}"#));
    }
    assert_eq!(lines(), 10, "no second start");
}

#[tokio::test]
async fn c072_a_leader_that_is_told_to_go_hands_over_at_once() {
    let ns = TestNamespace::new("c072").await;
    let script = Script::with_inventory(Inventory::Kept, |request| match request.task() {
        "long" => Reply::ok().after(secs(5)),
        _ => Reply::ok(),
    });
    let _workers = ns.workers("w").replicas(2).scripted(&script).await;
    let operators = ns.operator().start_many(2).await;
    let leader = ns.wait_leader(&operators, SOON).await;
    task("long").worker("w").create(&ns).await;
    script.wait_request("long", 1, SOON).await;
    ns.wait_phase("long", Phase::Running, SOON).await;
    let stream = async {
        for n in 0..60 {
            task(&format!("t{n}")).worker("w").create(&ns).await;
            tokio::time::sleep(millis(50)).await;
        }
    };
    let go = async {
        tokio::time::sleep(secs(1)).await;
        operators[leader].sigterm();
    };
    tokio::join!(stream, go);
    let requests = script.wait_requests(61, secs(40)).await;
    for n in 0..60 {
        ns.wait_phase(&format!("t{n}"), Phase::Succeeded, SOON).await;
    }
    let done = ns.wait_phase("long", Phase::Succeeded, SOON).await;
    assert_eq!(attempts(&done), 1);
    assert_each_once(&script, 61);
    let times: Vec<Instant> = requests.iter().map(|request| request.at).collect();
    let gap = times.windows(2).map(|pair| pair[1].duration_since(pair[0])).max().unwrap_or(Duration::ZERO);
    println!("longest time without a start: {gap:?}");
    // The goal is 1 s; were the Lease left to run out, it would be over 5 s.
    assert!(gap < secs(4), "{gap:?}");
    let status = operators[leader].wait_exit(secs(30)).await;
    assert!(status.success(), "{status}");
}

/// The leader dies between a pod's taking the work and any write of it.
#[tokio::test]
async fn c078_inventories_come_before_the_first_start() {
    let ns = TestNamespace::new("c078").await;
    let gate = Gate::closed();
    let held = gate.clone();
    let script = Script::with_inventory(Inventory::Kept, move |_| Reply::ok().gate(&held));
    let workers = ns.workers("w").replicas(3).grace(60).scripted(&script).await;
    let operators = ns.operator().start_many(2).await;
    let leader = ns.wait_leader(&operators, SOON).await;
    let made = task("sent").worker("w").timeout("2m").create(&ns).await;
    let mut first = None;
    while first.is_none() {
        // Sooner than `wait_requests` would say: Running is written 250 ms after the send.
        first = script.requests().into_iter().next();
        tokio::time::sleep(millis(2)).await;
        assert!(made.sent_at.elapsed() < SOON, "nothing was sent");
    }
    operators[leader].kill9();
    let first = first.expect("a request");
    assert_eq!(crate::support::task::phase(&ns.get("sent").await), Phase::Pending, "no write before the kill");
    workers.pod(&first.pod).delete().await;
    let adopted = ns.wait_phase("sent", Phase::Running, secs(40)).await;
    assert_eq!(attempts(&adopted), 1);
    gate.open();
    let done = ns.wait_phase("sent", Phase::Succeeded, SOON).await;
    assert_eq!(attempts(&done), 1);
    assert_each_once(&script, 1);
    assert!(script.requests().iter().all(|request| request.pod == first.pod));
    assert!(!script.questions().is_empty());
}

/// A frozen leader wakes when another has long taken over.
#[tokio::test]
async fn c079_a_frozen_leader_wakes_and_starts_nothing() {
    let ns = TestNamespace::new("c079").await;
    let script = Script::with_inventory(Inventory::Kept, |_| Reply::ok());
    let _workers = ns.workers("w").scripted(&script).await;
    let operators = ns.operator().start_many(2).await;
    let leader = ns.wait_leader(&operators, SOON).await;
    let makers = (0..30).map(|n| task(&format!("t{n}")).worker("w").delay("4s")).collect();
    let created = create_all(&ns, makers).await;
    operators[leader].pause();
    for made in &created {
        ns.wait_phase(&made.name, Phase::Succeeded, secs(40)).await;
    }
    operators[leader].resume();
    tokio::time::sleep(secs(3)).await;
    assert_each_once(&script, 30);
    assert!(!operators[leader].has_exited(), "it stands by");
    let now = ns.wait_leader(&operators, SOON).await;
    assert_ne!(now, leader);
}

/// On a control plane of its own: nobody else's API server goes away.
#[tokio::test]
async fn c073_an_api_server_that_comes_back_finds_everything_going_on() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::own("chaos")).await.unwrap();
    {
        let ns = TestNamespace::on(&cluster, "c073").await;
        let script = Script::with_inventory(Inventory::Kept, |request| match request.task() {
            "open" => Reply::ok().after(secs(3)),
            _ => Reply::ok(),
        });
        let _workers = ns.workers("w").replicas(2).scripted(&script).await;
        let operators = ns.operator().start_many(2).await;
        ns.wait_leader(&operators, SOON).await;
        task("open").worker("w").timeout("60s").create(&ns).await;
        script.wait_request("open", 1, SOON).await;
        ns.wait_phase("open", Phase::Running, SOON).await;
        let makers = (0..50).map(|n| task(&format!("t{n}")).worker("w").delay("3s")).collect();
        let created = create_all(&ns, makers).await;
        cluster.kill_apiserver();
        tokio::time::sleep(secs(6)).await;
        cluster.start_apiserver();
        for made in &created {
            ns.wait_phase(&made.name, Phase::Succeeded, secs(60)).await;
        }
        let open = ns.wait_phase("open", Phase::Succeeded, secs(60)).await;
        assert_eq!(attempts(&open), 1);
        assert_each_once(&script, 51);
        assert!(operators.iter().all(|operator| !operator.has_exited()), "no process exits");
    }
    drop(cluster);
}
