//! The first task of the README: `kubectl apply -k config/samples`, and what Kubernetes' own tools say of it.

use ax::api::AxTask;
use kube::ResourceExt;

use crate::scene::{SOON, Scene, line};
use crate::support::eventually;
use crate::support::samples::Sample;
use crate::support::task::{attempts, phase, reason};
use crate::support::wait::secs;

#[tokio::test]
async fn every_sample_ends_as_its_comment_says() {
    let scene = Scene::new("samples").await;
    scene.kubectl(&["apply", "-k", "config/samples"]).await;
    scene.rolled_out("order-worker").await;
    scene.rolled_out("slow-worker").await;
    scene.kubectl(&["wait", "--for=condition=Complete", "--timeout=60s", "axt/close-order-20250101"]).await;
    scene.kubectl(&["wait", "--for=condition=Failed", "--timeout=60s", "axt/archive-invoice-9"]).await;

    let samples = Sample::all();
    let count = samples.iter().map(|sample| sample.tasks().len()).sum();
    let ended = scene.all_ended(count, secs(90)).await;
    let find = |name: &str| ended.iter().find(|task| task.name_any() == name).expect("the task");
    for sample in &samples {
        for name in sample.tasks() {
            let want = sample.ends.clone().unwrap_or_else(|| panic!("{} does not say how it ends", sample.file));
            let got = find(&name);
            assert_eq!((phase(got).as_str(), attempts(got)), (want.phase.as_str(), want.attempts), "{}", line(got));
            assert!(want.reason.is_none_or(|want| want == reason(got)), "{}", line(got));
        }
    }
    let started = |task: &AxTask| task.status.as_ref().and_then(|status| status.start_time.map(|at| at.0));
    let urgent = started(find("newsletter-urgent"));
    let later = ended.iter().filter(|task| task.name_any().starts_with("newsletter-") && started(task) > urgent);
    assert!(later.count() >= 10, "the urgent one went ahead");

    tables_tell_the_state(&scene).await;
    the_dead_letter_tells_why(&scene).await;
    applying_again_starts_nothing(&scene).await;
}

async fn tables_tell_the_state(scene: &Scene) {
    let rows = |text: String| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let table = rows(scene.kubectl(&["get", "axt"]).await);
    assert_eq!(table[0], ["NAME", "PHASE", "REASON", "DUE", "ATTEMPTS", "PROGRESS", "AGE"]);
    let row = table.iter().find(|row| row[0] == "archive-invoice-9").expect("a row");
    assert_eq!((&row[1][..], &row[2][..], &row[4][..]), ("Dead", "RetriesExhausted", "2"), "{row:?}");
    let wide = rows(scene.kubectl(&["get", "axt", "-o", "wide"]).await);
    assert_eq!(wide[0][7..], ["PRIORITY", "TOPIC", "TEMPLATE", "POD", "FINISHED", "MESSAGE"]);
    let dead = rows(scene.kubectl(&["get", "axt", "--field-selector", "status.phase=Dead", "--no-headers"]).await);
    assert_eq!(dead.iter().map(|row| &row[0][..]).collect::<Vec<_>>(), ["archive-invoice-9"]);
}

async fn the_dead_letter_tells_why(scene: &Scene) {
    let describe = || scene.kubectl(&["describe", "axt", "archive-invoice-9"]);
    // An Event comes after the status it is about.
    let told = eventually("the Events of the dead letter", SOON, || async {
        let told = describe().await;
        let events = told.split_once("\nEvents:").map(|(_, events)| events).unwrap_or_default();
        let there = ["AttemptFailed", "Dead", "ax-operator"].iter().all(|word| events.contains(word));
        if there { Ok(told) } else { Err(told) }
    })
    .await;
    assert!(told.contains("archive refuses invoice 9"), "the end of the handler's log is not in\n{told}");
}

async fn applying_again_starts_nothing(scene: &Scene) {
    let each = "jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
    let before = scene.kubectl(&["get", "axt", "-o", each]).await;
    scene.kubectl(&["apply", "-k", "config/samples"]).await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(scene.kubectl(&["get", "axt", "-o", each]).await, before);
    // And a new object is a new task.
    scene.kubectl(&["delete", "axt", "refund-order-20250102"]).await;
    scene.kubectl(&["apply", "-f", "config/samples/refund-at.yaml"]).await;
    scene.wait_phase("refund-order-20250102", ax::api::Phase::Succeeded, SOON).await;
}
