//! `kubectl apply --server-side -k config/default` is all it takes, also a second time.

use k8s_openapi::api::core::v1::Pod;

use crate::operator::{self, restarts};
use crate::scene::Scene;
use crate::support::eventually;
use crate::support::wait::secs;

#[tokio::test]
async fn installing_again_changes_nothing() {
    let scene = Scene::alone("install").await;
    let versions = || async {
        let each = "jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
        scene.cluster.kubectl(&["get", "-k", "config/default", "-o", each]).unwrap_or_else(|error| panic!("{error}"))
    };
    // What controllers write into status may be a moment late.
    let before = eventually("nothing more to change", secs(60), || async {
        let first = versions().await;
        tokio::time::sleep(secs(2)).await;
        let second = versions().await;
        if first == second { Ok(second) } else { Err(format!("{first}\nthen\n{second}")) }
    })
    .await;
    for kind in ["CustomResourceDefinition axtasks.ax.dev", "Deployment ax-operator", "ClusterRole ax-operator"] {
        assert!(before.contains(kind), "{kind} is not in\n{before}");
    }
    let pods = operator::settled(&scene.client).await;
    operator::apply(scene.cluster).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(versions().await, before);
    let now = operator::settled(&scene.client).await;
    let told = |pods: &[Pod]| -> Vec<_> { pods.iter().map(|pod| (pod.metadata.uid.clone(), restarts(pod))).collect() };
    assert_eq!(told(&now), told(&pods), "the same pods, the same leader");
}
