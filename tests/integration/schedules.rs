//! Templates with a schedule, on the real API server.

use ax::api::{AxTask, Phase};
use serde_json::json;

use crate::scene::{SOON, Scene};
use crate::support::task::{message, phase, reason};
use crate::support::template::{template, template_condition};
use crate::support::wait::{millis, secs};
use crate::support::{Reply, TestNamespace, task};

#[tokio::test]
async fn a_run_is_made_at_each_tick_and_says_where_it_comes_from() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("ticks", |_| Reply::ok()).await;
    let made = template("close").every("1s").runs("work", json!({"topic": "order.close"})).create(&ns).await;
    let runs =
        ns.wait_runs("close", SOON, |runs| runs.iter().filter(|r| phase(r) == Phase::Succeeded).count() >= 3).await;
    let created = made.metadata.creation_timestamp.expect("an instant").0;
    for pair in runs.windows(2) {
        let [a, b] = [&pair[0], &pair[1]].map(|run| run.spec.run_at.expect("a nominal time").0);
        assert_eq!(b.duration_since(a), jiff::SignedDuration::from_secs(1), "no tick is left out");
    }
    let run = &runs[0];
    let nominal = run.spec.run_at.expect("a nominal time").0;
    let name = run.metadata.name.clone().expect("a name");
    assert_eq!(name, format!("close-{}", nominal.as_second()));
    assert!(nominal > created, "nothing before the creation");
    let owner = &run.metadata.owner_references.as_ref().expect("an owner")[0];
    assert_eq!((owner.name.as_str(), Some(&owner.uid)), ("close", made.metadata.uid.as_ref()));
    let request = script.wait_request(&name, 1, SOON).await;
    assert_eq!(request.header("ce-axtrigger"), "Schedule");
    assert_eq!(request.header("ce-time"), format!("{nominal:.6}"));
    assert_eq!(request.topic(), "order.close");
    let late = request.wall.duration_since(nominal);
    assert!(late >= jiff::SignedDuration::ZERO && late < jiff::SignedDuration::from_secs(5), "sent {late:?} after");
    let seen = ns
        .wait_template("close", SOON, |t| {
            let status = t.status.clone().unwrap_or_default();
            status.last_schedule_time.is_some() && status.last_success_time.is_some()
        })
        .await;
    let status = seen.status.clone().expect("a status");
    let (next, last) = (status.next_schedule_time.expect("next"), status.last_schedule_time.expect("last"));
    assert!(next > last);
    assert_eq!(template_condition(&seen, "LastRunSucceeded").0, "True");
    assert_eq!(status.missed, None);
    // No more than three ended runs are kept.
    ns.patch_template("close", json!({"spec": {"suspend": true}})).await;
    let ended = |runs: &[ax::api::AxTask]| runs.len() == 3 && runs.iter().all(|r| phase(r) == Phase::Succeeded);
    ns.wait_runs("close", SOON, ended).await;
    let seen = ns.wait_template("close", SOON, |t| template_condition(t, "Suspended").1 == "Idle").await;
    assert_eq!(seen.status.expect("a status").next_schedule_time, None);
}

#[tokio::test]
async fn c082_what_cannot_be_read_is_refused_with_the_field() {
    let ns = TestNamespace::new("c082").await;
    for cron in ["40 13 * *", "0 30 10 * * *", "TZ=UTC 0 5 * * *", "TZ=", "@reboot", "@every 5m", "0 0 * * 5#2", ""] {
        let message = template("t").cron(cron).refused(&ns).await;
        assert!(message.contains("schedule.cron"), "{cron:?}: {message}");
    }
    let message = template("t").cron("* * * * *").every("1s").refused(&ns).await;
    assert!(message.contains("exactly one of schedule.cron and schedule.every"), "{message}");
    for (field, value, want) in [
        ("every", json!("900ms"), "schedule.every must be at least 1s"),
        ("catchUp", json!(101), "spec.schedule.catchUp"),
        ("catchUp", json!(-1), "spec.schedule.catchUp"),
        ("timeZone", json!("Europe/Berlin"), "schedule.timeZone goes with schedule.cron"),
        ("spread", json!("25h"), "schedule.spread must be at most 24h"),
    ] {
        let message = template("t").every("1m").at(&["spec", "schedule", field], value).refused(&ns).await;
        assert!(message.contains(want), "{field}: {message}");
    }
    let message = template("t").cron("* * * * *").zone("Local").refused(&ns).await;
    assert!(message.contains("schedule.timeZone"), "{message}");
}

#[tokio::test]
async fn c082_c084_c094_what_admission_cannot_see_is_said_within_two_seconds_and_others_go_on() {
    let Scene { ns, operator: _operator, .. } = Scene::new("c084", |_| Reply::ok()).await;
    let bad = [
        ("zero-step", "15/0 * * * *", None, "InvalidSchedule", "spec.schedule.cron"),
        ("huge-month", "10 * * 12737123 *", None, "InvalidSchedule", "month"),
        ("last-friday", "40 13 * * 3L", None, "InvalidSchedule", "day of week"),
        ("weekday", "0 0 1W * *", None, "InvalidSchedule", "day of month"),
        ("never", "0 0 30 2 *", None, "ScheduleNeverFires", "30 2"),
        ("mars", "0 5 * * *", Some("Mars/Base"), "UnknownTimeZone", "spec.schedule.timeZone"),
        ("shout", "0 5 * * *", Some("EUROPE/berlin"), "UnknownTimeZone", "Europe/Berlin"),
    ];
    template("good").every("1s").create(&ns).await;
    for (name, cron, zone, ..) in bad {
        let maker = template(name).cron(cron);
        zone.map_or(maker.clone(), |zone| maker.zone(zone)).create(&ns).await;
    }
    for (name, _, _, want, text) in bad {
        let seen = ns.wait_template(name, SOON, |t| template_condition(t, "Ready").0 == "False").await;
        assert_eq!(template_condition(&seen, "Ready").1, want, "{name}");
        assert_eq!(template_condition(&seen, "Stalled"), ("True".to_owned(), want.to_owned()), "{name}");
        let status = seen.status.expect("a status");
        let message = &status.conditions.iter().find(|c| c.type_ == "Stalled").expect("Stalled").message;
        assert!(message.contains(text), "{name}: {message}");
        assert_eq!(status.next_schedule_time, None, "{name}");
    }
    ns.wait_runs("good", SOON, |runs| runs.iter().any(|r| phase(r) == Phase::Succeeded)).await;
    // Mended, it goes on by itself.
    ns.patch_template("never", json!({"spec": {"schedule": {"cron": "0 0 29 2 *"}}})).await;
    let seen = ns.wait_template("never", SOON, |t| template_condition(t, "Ready").0 == "True").await;
    assert_eq!(template_condition(&seen, "Stalled").0, "False");
    let next = seen.status.and_then(|s| s.next_schedule_time).expect("a next run");
    assert!(next.to_string().contains("-02-29T00:00:00"), "{next}");
}

#[tokio::test]
async fn a_trigger_makes_one_run_per_value_also_while_suspended() {
    let Scene { ns, script, operator, .. } = Scene::new("trigger", |_| Reply::ok()).await;
    template("manual").cron("0 0 1 1 *").spec("suspend", json!(true)).create(&ns).await;
    let trigger = |value: &str| json!({"metadata": {"annotations": {"ax.dev/trigger": value}}});
    ns.patch_template("manual", trigger("a")).await;
    let handled = |want: &'static str| {
        move |t: &ax::api::AxTaskTemplate| {
            let status = t.status.clone().unwrap_or_default();
            status.handled.and_then(|h| h.trigger).as_deref() == Some(want)
        }
    };
    ns.wait_template("manual", SOON, handled("a")).await;
    ns.patch_template("manual", trigger("a")).await;
    ns.patch_template("manual", json!({"metadata": {"labels": {"x": "y"}}})).await;
    drop(operator);
    let _second = ns.operator().start().await;
    ns.patch_template("manual", trigger("b")).await;
    ns.wait_template("manual", SOON, handled("b")).await;
    let runs = ns.wait_runs("manual", SOON, |runs| runs.iter().all(|r| phase(r) == Phase::Succeeded)).await;
    assert_eq!(runs.len(), 2, "one run a value");
    let seen = ns.get_template("manual").await.status.expect("a status");
    assert_eq!(seen.last_schedule_time, None, "a trigger does not move it");
    assert!(script.requests().iter().all(|r| r.header("ce-axtrigger") == "Manual"));
}

#[tokio::test]
async fn forbid_skips_while_a_run_is_open_and_c103_goes_on_when_it_is_deleted() {
    let Scene { ns, operator: _operator, .. } = Scene::new("forbid", |_| Reply::never()).await;
    template("one").every("1s").policy("Forbid").create(&ns).await;
    let runs = ns.wait_runs("one", SOON, |runs| runs.iter().any(|r| phase(r) == Phase::Running)).await;
    tokio::time::sleep(secs(3)).await;
    let after = ns.runs("one").await;
    assert_eq!(after.len(), 1, "others are skipped");
    let first = runs[0].metadata.name.clone().expect("a name");
    ns.delete_task(&first).await;
    ns.wait_runs("one", SOON, |runs| runs.iter().any(|r| r.metadata.name.as_ref() != Some(&first))).await;
    let status = ns.get_template("one").await.status.expect("a status");
    assert_eq!(status.missed, None, "what is skipped is not missed");
}

#[tokio::test]
async fn c104_replace_ends_the_open_run_as_replaced() {
    let Scene { ns, operator: _operator, .. } = Scene::new("c104", |_| Reply::status(500).after(secs(3))).await;
    template("newest").every("2s").policy("Replace").create(&ns).await;
    let runs = ns.wait_runs("newest", secs(40), |runs| runs.iter().any(|r| phase(r) == Phase::Canceled)).await;
    let replaced = runs.iter().find(|r| phase(r) == Phase::Canceled).expect("one");
    assert_eq!(reason(replaced), "Replaced");
    assert!(message(replaced).starts_with("canceled"), "{}", message(replaced));
}

#[tokio::test]
async fn c108_queue_runs_one_at_a_time_in_order() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("queue", |_| Reply::ok().after(millis(2500))).await;
    template("line").every("1s").policy("Queue").create(&ns).await;
    let waits = |runs: &[ax::api::AxTask]| runs.iter().any(|r| phase(r) == Phase::Ready && reason(r) == "Queued");
    ns.wait_runs("line", SOON, waits).await;
    script.wait_requests(4, secs(40)).await;
    assert_eq!(script.peak(), 1, "never two at once");
    let order: Vec<_> = script.requests().iter().map(|r| r.task().to_owned()).collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test]
async fn max_concurrent_binds_all_that_refer_to_the_template() {
    let Scene { ns, script, operator: _operator, .. } = Scene::new("cap", |_| Reply::ok().after(millis(400))).await;
    template("capped").spec("maxConcurrent", json!(2)).create(&ns).await;
    for n in 0..8 {
        task(&format!("t-{n}")).template("capped").create(&ns).await;
    }
    ns.wait_reason("t-7", Phase::Ready, "MaxConcurrent", SOON).await;
    script.wait_requests(8, secs(40)).await;
    assert_eq!(script.peak(), 2);
}

#[tokio::test]
async fn c101_two_leaders_in_turn_make_one_run_a_tick() {
    let ns = TestNamespace::new("c101").await;
    let (_workers, script) = ns.workers("w").answering(|_| Reply::ok()).await;
    let mut operator = ns.operator().start().await;
    template("often").every("1s").spec("history", json!({"succeeded": 1000})).create(&ns).await;
    for _ in 0..2 {
        ns.wait_runs("often", SOON, |runs| runs.len() >= 2).await;
        tokio::time::sleep(millis(2300)).await;
        operator.kill9();
        operator = ns.operator().start().await;
    }
    let before = ns.runs("often").await.len();
    let runs = ns.wait_runs("often", secs(60), |runs| runs.len() > before + 3).await;
    let names: std::collections::BTreeSet<_> = runs.iter().map(|r| r.metadata.name.clone()).collect();
    assert_eq!(names.len(), runs.len());
    let ended: Vec<_> = runs.iter().filter(|r| phase(r) == Phase::Succeeded).collect();
    for run in ended {
        assert_eq!(script.starts_of(run.metadata.name.as_deref().unwrap_or_default()).len(), 1);
    }
    // The gaps last less than the ten seconds within which a tick is on time; what came later still is counted.
    let missed = ns.get_template("often").await.status.and_then(|s| s.missed).map_or(0, |m| m.total);
    let nominal = |run: &AxTask| run.metadata.name.as_deref()?.rsplit('-').next()?.parse::<i64>().ok();
    let nominals: std::collections::BTreeSet<i64> = runs.iter().filter_map(nominal).collect();
    let span = nominals.last().expect("runs") - nominals.first().expect("runs") + 1;
    assert_eq!(i64::try_from(nominals.len()).expect("few") + missed, span, "each tick has its run or is counted");
}
