//! Worker pods that go: what runs ends, what is cut off runs again elsewhere, what finds no pod waits.

use ax::api::{AxTask, Phase};

use crate::scene::{SOON, Scene, WORKER, line, nap, pods, result};
use crate::support::eventually;
use crate::support::task::{attempts, message, outcomes, phase, reason};
use crate::support::wait::secs;

async fn running(scene: &Scene, name: &str, seconds: f64) -> String {
    scene.create(&nap(name, seconds)).await;
    let task = scene.wait_phase(name, Phase::Running, SOON).await;
    pods(&task).remove(0)
}

#[tokio::test]
async fn a_deleted_pod_ends_its_work_first() {
    let scene = Scene::new("drain").await;
    scene.start_workers().await;
    let pod = running(&scene, "long", 6.0).await;
    scene.kubectl(&["delete", "pod", &pod, "--wait=false"]).await;
    let still = scene.tasks().get("long").await.expect("the task");
    assert_eq!(phase(&still), Phase::Running, "deleted under work: {}", line(&still));
    scene.create(&nap("other", 0.1)).await;
    let other = scene.wait_phase("other", Phase::Succeeded, SOON).await;
    assert_ne!(pods(&other), [&pod[..]], "nothing more is sent there");
    let task = scene.wait_phase("long", Phase::Succeeded, SOON).await;
    assert_eq!((attempts(&task), pods(&task)), (1, vec![pod]), "{}", line(&task));
    assert_eq!(result(&task)["attempt"], 1);
}

#[tokio::test]
async fn work_cut_off_with_its_pod_runs_again_elsewhere() {
    let scene = Scene::new("cut").await;
    scene.start_workers().await;
    let pod = running(&scene, "long", 8.0).await;
    scene.kubectl(&["delete", "pod", &pod, "--grace-period=1", "--wait=false"]).await;
    let task = scene.wait_phase("long", Phase::Succeeded, secs(60)).await;
    assert_eq!((attempts(&task), outcomes(&task)), (2, vec!["WorkerLost", "Succeeded"]), "{}", line(&task));
    let went = pods(&task);
    assert_eq!(went[0], pod);
    assert_ne!(went[1], pod);
    assert_eq!(result(&task)["attempt"], 2);
    assert_eq!(scene.starts().await.get("long").map(|starts| &starts[..]), Some(&["2".to_owned()][..]));
}

#[tokio::test]
async fn without_a_pod_a_task_waits_and_goes_on_by_itself() {
    let scene = Scene::new("scale").await;
    scene.start_workers().await;
    let deployment = format!("deployment/{WORKER}");
    scene.kubectl(&["scale", &deployment, "--replicas=0"]).await;
    eventually("no worker pods", SOON, || async {
        let left = scene.worker_pods().await.len();
        if left == 0 { Ok(()) } else { Err(format!("{left} left")) }
    })
    .await;
    scene.create(&nap("patient", 0.1)).await;
    let waits = |task: &AxTask| phase(task) == Phase::Ready && reason(task) == "NoReadyWorkers";
    let task = scene.wait("patient", "Ready, NoReadyWorkers", SOON, waits).await;
    assert!(message(&task).contains(WORKER), "{}", message(&task));
    scene.kubectl(&["scale", &deployment, "--replicas=1"]).await;
    let task = scene.wait_phase("patient", Phase::Succeeded, SOON).await;
    assert_eq!(attempts(&task), 1);
}
