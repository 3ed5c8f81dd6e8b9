//! A leader that is killed or asked to go loses nothing and starts nothing twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ax::api::{AxTask, Phase};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rustix::process::{Pid, Signal, kill_process};

use crate::operator::{self, NAMESPACE, restarts};
use crate::scene::{SOON, Scene, nap};
use crate::support::eventually;
use crate::support::task::phase;
use crate::support::wait::{millis, secs};

const WAITING: usize = 30;
/// Seconds of tasks that run when the leader dies: some end while nobody leads, the others after that.
const RUNNING: [f64; 6] = [5.0, 5.0, 5.0, 13.0, 13.0, 13.0];
/// From the kill to the first start: the Lease runs out, the inventories are asked for.
const TAKEOVER: Duration = Duration::from_secs(15);

#[tokio::test]
async fn killed_by_signal_9_it_loses_nothing() {
    let scene = Scene::alone("kill9").await;
    if !scene.cluster.is_own() {
        println!("left out: the processes of a cluster that is not from here cannot be killed");
        return;
    }
    let killed = die_under_work(&scene, |leader| {
        let pid = Pid::from_raw(operator::pid(&leader)).expect("a pid");
        kill_process(pid, Signal::KILL).expect("root may kill it");
    })
    .await;
    let pods = operator::settled(&scene.client).await;
    let again = pods.iter().find(|pod| pod.metadata.uid == killed.metadata.uid).expect("the pod stays");
    assert_eq!(restarts(again), restarts(&killed) + 1, "its container was started again");
}

#[tokio::test]
async fn deleted_by_force_it_loses_nothing() {
    let scene = Scene::alone("force").await;
    let cluster = scene.cluster;
    let deleted = die_under_work(&scene, |leader| {
        let delete = ["-n", NAMESPACE, "delete", "pod", &leader.name_any(), "--grace-period=0", "--force"];
        cluster.kubectl(&delete).unwrap_or_else(|error| panic!("{error}"));
    })
    .await;
    let pods = operator::settled(&scene.client).await;
    assert!(pods.iter().all(|pod| pod.metadata.uid != deleted.metadata.uid));
}

/// Ends the leader while some tasks run and many become due; the leader that it was.
async fn die_under_work(scene: &Scene, kill: impl FnOnce(Pod)) -> Pod {
    scene.start_workers().await;
    for (n, seconds) in RUNNING.into_iter().enumerate() {
        scene.create(&nap(&format!("running-{n}"), seconds)).await;
    }
    for n in 0..RUNNING.len() {
        scene.wait_phase(&format!("running-{n}"), Phase::Running, SOON).await;
    }
    let leader = operator::settled(&scene.client).await.remove(0);
    let makers: Vec<_> = (0..WAITING).map(|n| nap(&format!("waiting-{n}"), 0.1).delay("5s")).collect();
    let created = futures::future::join_all(makers.iter().map(|maker| scene.create(maker))).await;
    let first = created.into_iter().min().expect("some tasks");
    tokio::time::sleep_until((first + millis(3500)).into()).await;
    let killed_at = Instant::now();
    kill(leader.clone());
    assert!(first.elapsed() < secs(5), "a slow machine: tasks were due before the leader had gone");

    let started = |n: usize| async move {
        let task = scene.tasks().get(&format!("waiting-{n}")).await.map_err(|error| error.to_string())?;
        if phase(&task).is_final() { Ok(()) } else { Err(phase(&task).as_str().to_owned()) }
    };
    eventually("the first end of a task that was due without a leader", SOON, || async {
        let each = futures::future::join_all((0..WAITING).map(started)).await;
        if each.iter().any(Result::is_ok) { Ok(()) } else { Err(format!("{each:?}")) }
    })
    .await;
    let took = killed_at.elapsed();
    println!("first task ended {took:?} after the leader");
    assert!(took < TAKEOVER, "{took:?}");
    let ended = scene.each_succeeds_once(RUNNING.len() + WAITING, secs(60)).await;
    assert_eq!(terms(&ended).len(), 2, "one leader sent what ran, another what was due later");
    assert_eq!(operator::forbidden(scene.cluster), Vec::<String>::new());
    leader
}

#[tokio::test]
async fn a_rollout_under_work_loses_nothing() {
    let scene = Scene::alone("rollout").await;
    scene.start_workers().await;
    let before = operator::settled(&scene.client).await;
    assert_eq!(operator::forbidden(scene.cluster), Vec::<String>::new());
    scene.create(&nap("first", 0.1)).await;
    scene.wait_phase("first", Phase::Succeeded, SOON).await;
    let (done, finished) = tokio::sync::oneshot::channel();
    let rollout = async {
        tokio::time::sleep(secs(1)).await;
        let operator = ["deployment/ax-operator", "--namespace", NAMESPACE];
        scene.kubectl(&[&["rollout", "restart"], &operator[..]].concat()).await;
        scene.kubectl(&[&["rollout", "status", "--timeout=180s"], &operator[..]].concat()).await;
        operator::settled(&scene.client).await;
        let _ = done.send(());
    };
    let trickle = async {
        let mut finished = finished;
        let mut count = 0;
        while finished.try_recv().is_err() {
            scene.create(&nap(&format!("task-{count}"), 0.1)).await;
            count += 1;
            tokio::time::sleep(millis(200)).await;
        }
        count
    };
    let (count, ()) = tokio::join!(trickle, rollout);
    let ended = scene.each_succeeds_once(count + 1, secs(60)).await;
    let after = operator::settled(&scene.client).await;
    for pod in &before {
        assert!(after.iter().all(|other| other.metadata.uid != pod.metadata.uid), "{} stayed", pod.name_any());
    }
    assert!(terms(&ended).len() > 1, "the lead went from one replica to another meanwhile");
    let mut starts: Vec<_> = ended.iter().filter_map(|task| task.status.as_ref()?.start_time).map(|at| at.0).collect();
    starts.sort();
    let gaps = starts.windows(2).map(|pair| Duration::try_from(pair[1].duration_since(pair[0])).expect("sorted"));
    let longest = gaps.max().unwrap_or_default();
    println!("{count} tasks under a rollout; the longest time without a start: {longest:?}");
    // Were a Lease left to run out, it would be over 5 s.
    assert!(longest < secs(4), "{longest:?}");
    assert_eq!(operator::forbidden(scene.cluster), Vec::<String>::new());
}

/// The terms of the leaders that sent the tasks.
fn terms(tasks: &[AxTask]) -> BTreeSet<i64> {
    let attempts = tasks.iter().filter_map(|task| task.status.as_ref()).flat_map(|status| &status.attempts);
    attempts.filter_map(|attempt| attempt.term).collect()
}
