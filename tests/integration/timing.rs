//! On time and never early, measured at the worker.

use ax::api::Phase;
use serde_json::json;

use crate::scene::{SOON, Scene, create_all, percentile};
use crate::support::wait::{millis, secs};
use crate::support::{Reply, task};

#[tokio::test]
async fn c010_a_delay_is_never_short_and_hardly_long() {
    let Scene { ns, script, operator: _operator, .. } = Scene::with("c010", 4, 100, |_| Reply::ok()).await;
    let makers = (0..200).map(|n| task(&format!("delayed-{n}")).worker("w").delay("1500ms")).collect();
    let created = create_all(&ns, makers).await;
    script.wait_requests(200, secs(40)).await;
    let mut late = Vec::new();
    for made in &created {
        let requests = script.requests_of(&made.name);
        assert_eq!(requests.len(), 1, "{} once", made.name);
        let waited = requests[0].at - made.sent_at;
        assert!(waited >= millis(1500), "{} started {waited:?} after its create call was sent", made.name);
        late.push(waited - millis(1500));
    }
    let (middle, most) = (percentile(&mut late, 50), percentile(&mut late, 99));
    println!("lateness, create call included: p50 {middle:?}, p99 {most:?}");
    assert!(most <= secs(5), "p99 {most:?}");
}

#[tokio::test]
async fn c014_the_earlier_one_fires_at_its_time() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("c014", |_| Reply::ok()).await;
    let far = task("far").worker("w").delay("6s").create(&ns).await;
    let near = task("near").worker("w").delay("1s").create(&ns).await;
    let canceled = task("canceled").worker("w").delay("3s").create(&ns).await;
    ns.patch_spec(&canceled.name, json!({"cancel": true})).await;
    for (made, delay) in [(&near, secs(1)), (&far, secs(6))] {
        let seen = script.wait_request(&made.name, 1, SOON).await;
        let waited = seen.at - made.sent_at;
        assert!(waited >= delay && waited < delay + secs(3), "{} after {waited:?}", made.name);
    }
    ns.wait_phase("canceled", Phase::Canceled, SOON).await;
    assert!(script.requests_of("canceled").is_empty());
}

#[tokio::test]
async fn c015_an_instant_in_the_past_is_due_at_once() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("c015", |_| Reply::ok()).await;
    let past = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    task("past").worker("w").run_at(past).create(&ns).await;
    ns.wait_phase("past", Phase::Succeeded, SOON).await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn run_at_starts_at_that_instant() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("run-at", |_| Reply::ok()).await;
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_millis(3_250);
    task("soon").worker("w").run_at(at).create(&ns).await;
    let seen = script.wait_request("soon", 1, SOON).await;
    let late = seen.wall.duration_since(at);
    assert!(!late.is_negative() && late.as_secs() < 2, "{late:?} after the instant");
    let nominal: jiff::Timestamp = seen.header("ce-time").parse().unwrap();
    assert_eq!(nominal.as_millisecond(), at.as_millisecond());
}

#[tokio::test]
async fn a_delay_may_be_edited_before_the_start() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("edited", |_| Reply::ok()).await;
    let shorter = task("shorter").worker("w").delay("1h").create(&ns).await;
    let longer = task("longer").worker("w").delay("3s").create(&ns).await;
    let none = task("none").worker("w").delay("1h").create(&ns).await;
    let other = task("other").worker("w").delay("1h").create(&ns).await;
    tokio::time::sleep(millis(500)).await;
    ns.patch_spec(&longer.name, json!({"delay": "1h"})).await;
    ns.patch_spec(&shorter.name, json!({"delay": "3s"})).await;
    ns.patch_spec(&none.name, json!({"delay": null})).await;
    let past = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    ns.patch_spec(&other.name, json!({"delay": null, "runAt": past.to_string()})).await;
    ns.wait_phase(&none.name, Phase::Succeeded, SOON).await;
    ns.wait_phase(&other.name, Phase::Succeeded, SOON).await;
    let seen = script.wait_request(&shorter.name, 1, SOON).await;
    let waited = seen.at - shorter.sent_at;
    assert!(waited >= secs(3) && waited < secs(6), "{waited:?}");
    tokio::time::sleep(secs(1)).await;
    assert!(script.requests_of(&longer.name).is_empty());
}
