//! An API server that goes away for a while: work goes on, and what became of it is written afterwards.

use std::time::Duration;

use ax::api::Phase;

use crate::operator::{self, restarts};
use crate::scene::{SOON, Scene, nap};
use crate::support::wait::secs;

const WAITING: usize = 10;
const RUNNING: usize = 5;
/// From the return of the API server to the first start of what is new.
const RESUMED: Duration = Duration::from_secs(30);

#[tokio::test]
async fn restarted_under_work_it_finds_everything_going_on() {
    let scene = Scene::alone("apiserver").await;
    if !scene.cluster.is_own() {
        println!("left out: the API server of a cluster that is not from here cannot be restarted");
        return;
    }
    scene.start_workers().await;
    let before: i32 = operator::settled(&scene.client).await.iter().map(restarts).sum();
    for n in 0..RUNNING {
        scene.create(&nap(&format!("running-{n}"), 5.0)).await;
    }
    for n in 0..RUNNING {
        scene.wait_phase(&format!("running-{n}"), Phase::Running, SOON).await;
    }
    let makers: Vec<_> = (0..WAITING).map(|n| nap(&format!("waiting-{n}"), 0.1).delay("3s")).collect();
    futures::future::join_all(makers.iter().map(|maker| scene.create(maker))).await;
    let cluster = scene.cluster;
    tokio::task::spawn_blocking(|| cluster.restart_apiserver()).await.expect("it restarts");
    let back_at = scene.create(&nap("later", 0.1)).await;
    scene.wait_phase("later", Phase::Succeeded, RESUMED).await;
    println!("a task made after the return ended {:?} later", back_at.elapsed());
    scene.each_succeeds_once(RUNNING + WAITING + 1, secs(60)).await;
    let after: i32 = operator::settled(&scene.client).await.iter().map(restarts).sum();
    assert_eq!(after, before, "no operator was restarted for that");
}
