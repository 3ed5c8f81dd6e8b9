//! Schedules over hours and days: what is made, made up, skipped and missed.

use std::collections::BTreeSet;

use ax::api::Phase;
use ax::domain::election;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::Sim;
use crate::worker::Answer;

const TEMPLATES: &str = "axtasktemplates";

fn hm(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Sim {
    /// A template of the Deployment `w` that keeps all its runs.
    fn template(&self, name: &str, spec: Value) {
        let mut whole =
            json!({"worker": {"deployment": "w"}, "history": {"succeeded": 1000, "dead": 1000, "canceled": 1000}});
        for (key, value) in spec.as_object().expect("an object") {
            whole[key] = value.clone();
        }
        self.make(
            TEMPLATES,
            json!({"apiVersion": "ax.dev/v1alpha1", "kind": "AxTaskTemplate",
            "metadata": {"name": name}, "spec": whole}),
        );
    }

    fn edit_template(&self, name: &str, spec: Value) {
        self.patch_object(TEMPLATES, name, json!({"spec": spec}), false);
    }

    fn template_status(&self, name: &str) -> Value {
        self.object(TEMPLATES, name)["status"].clone()
    }

    /// Nominal times of the runs a worker began, in order of their starts.
    fn nominals(&self, template: &str) -> Vec<Timestamp> {
        let prefix = format!("{template}-");
        let starts = self.all_starts();
        let seconds = starts.iter().filter_map(|s| s.task.strip_prefix(&prefix)).filter_map(|s| s.parse().ok());
        seconds.map(|s| Timestamp::from_second(s).expect("an instant")).collect()
    }

    /// The same as `HH:MM`.
    fn clock_times(&self, template: &str) -> Vec<String> {
        self.nominals(template).iter().map(|t| t.to_string()[11..16].to_owned()).collect()
    }

    fn missed(&self, template: &str) -> i64 {
        self.template_status(template)["missed"]["total"].as_i64().unwrap_or(0)
    }
}

fn stage(seed: u64, at: &str) -> Sim {
    Sim::beginning(seed, at).slow_election().operators(1).worker("w", 100)
}

/// For days: an election that asks every two minutes. Whoever makes the Lease waits ten.
fn for_days(sim: Sim) -> Sim {
    let secs = std::time::Duration::from_secs;
    let config = election::Config { lease_duration: secs(600), renew_deadline: secs(400), retry_period: secs(120) };
    let sim = sim.election(config).operators(1);
    sim.run_for("15m");
    sim
}

#[test]
fn c054_c055_suspended_time_is_not_missed_time() {
    let sim = for_days(Sim::beginning(54, "2026-12-04T17:35:00Z").worker("w", 30));
    sim.template("t", json!({"schedule": {"cron": "*/5 * * * *", "catchUp": 100}}));
    sim.run_to("2026-12-04T18:00:30Z");
    sim.edit_template("t", json!({"suspend": true}));
    sim.run_to("2026-12-07T08:01:00Z");
    let before = sim.nominals("t");
    assert_eq!(sim.clock_times("t"), hm("17:55 18:00"));
    assert!(sim.template_status("t")["nextScheduleTime"].is_null());
    sim.edit_template("t", json!({"suspend": false}));
    sim.run_to("2026-12-07T08:11:00Z");
    assert_eq!(sim.clock_times("t")[before.len()..], hm("08:05 08:10"));
    assert_eq!(sim.missed("t"), 0);
}

#[test]
fn c058_a_takeover_starts_nothing_while_a_forbidding_run_is_open() {
    let mut sim =
        Sim::beginning(58, "2026-12-01T23:20:00Z").operators(2).workers("w", 1, 30, |_| Answer::ok().after("25m"));
    sim.run_for("1m");
    sim.template(
        "t",
        json!({"schedule": {"cron": "*/10 * * * *"}, "concurrencyPolicy": "Forbid",
        "taskTemplate": {"spec": {"timeout": "1h"}}}),
    );
    sim.run_to("2026-12-01T23:33:58Z");
    assert_eq!(sim.clock_times("t"), hm("23:30"));
    let leader = sim.leader().expect("a leader");
    sim.crash(leader);
    sim.run_to("2026-12-02T00:05:00Z");
    let starts: BTreeSet<_> = sim.clock_times("t").into_iter().collect();
    assert_eq!(starts.into_iter().collect::<Vec<_>>(), hm("00:00 23:30"), "23:40 and 23:50 are skipped");
    assert_eq!(sim.missed("t"), 0, "skipped is not missed");
}

#[test]
fn c059_leaders_in_turn_make_each_run_once() {
    let mut sim = Sim::beginning(59, "2026-12-01T09:50:00Z").slow_election().operators(2).worker("w", 30);
    sim.run_for("2m");
    sim.template("t", json!({"schedule": {"cron": "0 * * * *"}}));
    for at in ["2026-12-01T10:30:00Z", "2026-12-01T12:10:00Z"] {
        sim.run_to(at);
        let leader = sim.leader().expect("a leader");
        sim.stop(leader);
        sim.start_operator();
    }
    sim.run_to("2026-12-01T13:05:00Z");
    assert_eq!(sim.clock_times("t"), hm("10:00 11:00 12:00 13:00"));
}

/// Nobody leads from 10:00:30 to 11:41:30.
fn after_an_outage(seed: u64, catch_up: Option<i32>) -> (Vec<String>, i64) {
    let mut sim = stage(seed, "2026-12-01T09:57:00Z");
    let mut schedule = json!({"cron": "* * * * *"});
    if let Some(catch_up) = catch_up {
        schedule["catchUp"] = json!(catch_up);
    }
    sim.template("t", json!({"schedule": schedule}));
    sim.run_to("2026-12-01T10:00:30Z");
    let before = sim.nominals("t").len();
    sim.stop(0);
    sim.run_to("2026-12-01T11:41:30Z");
    sim.start_operator();
    sim.run_to("2026-12-01T11:43:30Z");
    (sim.clock_times("t")[before..].to_vec(), sim.missed("t"))
}

#[test]
fn c096_after_an_outage_catch_up_says_how_many_are_made_up() {
    assert_eq!(after_an_outage(1, Some(0)), (hm("11:42 11:43"), 101));
    assert_eq!(after_an_outage(2, None), (hm("11:41 11:42 11:43"), 100));
    assert_eq!(after_an_outage(3, Some(5)), (hm("11:37 11:38 11:39 11:40 11:41 11:42 11:43"), 96));
    let (made, missed) = after_an_outage(4, Some(100));
    assert_eq!((made.len(), missed), (102, 1));
    let distinct: BTreeSet<_> = made.iter().collect();
    assert!(distinct.len() == 102 && distinct.first().is_some_and(|t| *t == "10:02"), "{made:?}");
}

#[test]
fn c097_none_past_its_deadline_is_made_up() {
    for (seed, schedule, deadline, want) in [
        (1, json!({"cron": "*/10 * * * *"}), None, "08:40"),
        (2, json!({"cron": "*/10 * * * *", "catchUp": 10}), None, "08:20 08:30 08:40"),
        (3, json!({"cron": "*/10 * * * *", "catchUp": 10}), Some("15m"), "08:30 08:40"),
    ] {
        let mut sim = stage(seed, "2026-12-01T08:05:00Z");
        let mut spec = json!({"schedule": schedule});
        if let Some(deadline) = deadline {
            spec["taskTemplate"] = json!({"spec": {"startDeadline": deadline}});
        }
        sim.template("t", spec);
        sim.run_to("2026-12-01T08:10:30Z");
        sim.stop(0);
        sim.run_to("2026-12-01T08:42:00Z");
        sim.start_operator();
        sim.run_for("2m");
        assert_eq!(sim.clock_times("t")[1..], hm(want), "{deadline:?}");
    }
}

#[test]
fn c098_an_edit_never_makes_a_run_for_the_past() {
    let sim = stage(98, "2017-10-05T23:40:00Z");
    sim.template("t", json!({"schedule": {"cron": "30 11 * * 5", "catchUp": 100}}));
    sim.run_to("2017-10-05T23:49:00Z");
    for minute in 1..=10 {
        sim.edit_template("t", json!({"schedule": {"cron": format!("{} 11 * * 5", minute % 10)}}));
        sim.run_for("100ms");
    }
    sim.edit_template("t", json!({"schedule": {"cron": "0 11 * * 5"}}));
    sim.run_to("2017-10-06T12:00:00Z");
    assert_eq!(sim.clock_times("t"), hm("11:00"), "one timer, one run");
    sim.edit_template("t", json!({"schedule": {"cron": "0 5 * * *"}}));
    sim.run_to("2017-10-07T04:59:00Z");
    assert_eq!(sim.nominals("t").len(), 1, "nothing at 23:00");
    sim.run_to("2017-10-07T05:01:00Z");
    assert_eq!(sim.clock_times("t"), hm("11:00 05:00"));
}

#[test]
fn an_edit_that_leaves_the_schedule_alone_leaves_its_ticks_alone() {
    let sim = stage(99, "2026-12-01T08:00:10Z");
    sim.template("t", json!({"schedule": {"every": "10m", "spread": "9m"}}));
    for _ in 0..90 {
        sim.run_for("20s");
        sim.edit_template("t", json!({"maxConcurrent": sim.now().as_secs() % 90 + 1}));
    }
    // Three ticks in half an hour, each made up to nine minutes late.
    let made = sim.nominals("t").len();
    assert!((2..=3).contains(&made), "{made} runs");
}

#[test]
fn c099_an_interval_counts_from_its_anchor_whoever_leads() {
    let mut sim = stage(99, "2026-12-01T00:45:00Z");
    sim.template("created", json!({"schedule": {"every": "6h"}}));
    sim.template("anchored", json!({"schedule": {"every": "6h", "anchor": "2026-01-01T00:00:00Z"}}));
    sim.run_to("2026-12-01T08:00:00Z");
    sim.stop(0);
    sim.start_operator();
    sim.run_to("2026-12-01T18:50:00Z");
    assert_eq!(sim.clock_times("created"), hm("06:45 12:45 18:45"));
    assert_eq!(sim.clock_times("anchored"), hm("06:00 12:00 18:00"));
}

#[test]
fn c100_a_run_under_way_holds_no_other_up() {
    let mut sim = Sim::beginning(100, "2026-12-01T09:50:00Z")
        .slow_election()
        .operators(1)
        .workers("w", 1, 30, |_| Answer::ok().after("90m"));
    sim.template("t", json!({"schedule": {"cron": "0 * * * *"}, "taskTemplate": {"spec": {"timeout": "3h"}}}));
    sim.run_to("2026-12-01T10:30:00Z");
    sim.stop(0);
    sim.start_operator();
    sim.run_to("2026-12-01T11:00:05Z");
    let runs: BTreeSet<_> = sim.clock_times("t").into_iter().collect();
    assert_eq!(runs.into_iter().collect::<Vec<_>>(), hm("10:00 11:00"));
}

#[test]
fn c102_a_forbidding_schedule_with_an_old_open_run_sleeps_to_its_next_tick() {
    let sim = Sim::beginning(102, "2023-06-16T09:44:00Z");
    let sim = for_days(sim.workers("w", 1, 30, |_| Answer::ok().after("23h")));
    sim.template(
        "t",
        json!({"schedule": {"cron": "0 16 * * *", "timeZone": "Asia/Dhaka"},
        "concurrencyPolicy": "Forbid", "taskTemplate": {"spec": {"timeout": "24h", "retry": {"maxRetries": 100}}}}),
    );
    sim.run_to("2023-06-19T07:11:00Z");
    let status = sim.template_status("t");
    assert_eq!(status["nextScheduleTime"], "2023-06-19T10:00:00.000000Z");
    let calls = sim.calls_since(sim.now() - std::time::Duration::from_secs(3600)).len();
    assert!(calls < 200, "it sleeps: {calls} calls in an hour");
    assert_eq!(sim.clock_times("t").into_iter().collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn c108_forbid_makes_the_oldest_missed_run_and_skips_the_others_queue_makes_all_in_order() {
    for (policy, want) in [("Forbid", "08:20"), ("Queue", "08:20 08:30 08:40 08:50 09:00")] {
        let mut sim =
            Sim::beginning(108, "2026-12-01T08:12:00Z")
                .slow_election()
                .operators(1)
                .workers("w", 1, 30, |_| Answer::ok().after("3m"));
        sim.template(
            "t",
            json!({"schedule": {"cron": "*/10 * * * *", "catchUp": 5}, "concurrencyPolicy": policy,
            "taskTemplate": {"spec": {"timeout": "1h"}}}),
        );
        sim.run_for("2m");
        sim.stop(0);
        sim.run_to("2026-12-01T09:01:00Z");
        sim.start_operator();
        sim.run_to("2026-12-01T09:09:00Z");
        let made = sim.calls().iter().filter(|c| c.method == "POST" && c.plural == "axtasks" && c.code == 201).count();
        assert_eq!(made, hm(want).len(), "{policy}");
        if policy == "Queue" {
            let running = sim.all_starts().len();
            assert!((2..=3).contains(&running), "one at a time: {running} begun in 8 minutes");
            sim.run_to("2026-12-01T09:19:00Z");
        }
        assert!(sim.clock_times("t").starts_with(&hm(want)), "{policy}: {:?}", sim.clock_times("t"));
        assert_eq!(sim.missed("t"), 0);
    }
}

#[test]
fn c076_c077_a_clock_set_forward_fires_what_it_passed_once_and_set_back_repeats_nothing() {
    let sim = Sim::beginning(76, "2026-12-01T09:57:00Z").operators(1).worker("w", 100);
    sim.template("t", json!({"schedule": {"cron": "0 * * * *"}}));
    sim.run_to("2026-12-01T09:58:00Z");
    sim.task("elapsed").delay("20m").create();
    sim.task("instant").run_at("2026-12-01T10:30:00Z".parse().expect("an instant")).create();
    sim.run_to("2026-12-01T10:00:10Z");
    assert_eq!(sim.clock_times("t"), hm("10:00"));
    // Back to before the tick: nothing is repeated.
    sim.step_wall(SignedDuration::from_secs(-40));
    sim.run_to("2026-12-01T10:00:30Z");
    assert_eq!(sim.clock_times("t"), hm("10:00"));
    // An hour forward: 11:00 is due at once, as is what waited for 10:30; what waits for time to pass is not.
    sim.step_wall(SignedDuration::from_hours(1));
    // A replica whose clock jumps ahead cannot know that it has not slept: it takes the lead anew, 5 s later.
    sim.run_for("15s");
    assert_eq!(sim.clock_times("t"), hm("10:00 11:00"));
    assert_eq!((sim.starts("instant").len(), sim.starts("elapsed").len()), (1, 0));
    sim.run_for("10m");
    sim.step_wall(SignedDuration::from_hours(-1));
    sim.run_for("6m");
    assert_eq!(sim.starts("elapsed").len(), 0, "18 of 20 minutes are over");
    sim.run_for("3m");
    assert_eq!(sim.starts("elapsed").len(), 1);
    sim.run_to("2026-12-01T11:59:00Z");
    assert_eq!(sim.clock_times("t"), hm("10:00 11:00"), "11:00 has been, whatever the clock says");
    sim.run_to("2026-12-01T12:00:10Z");
    assert_eq!(sim.clock_times("t"), hm("10:00 11:00 12:00"));
    assert_eq!(sim.starts("instant").len(), 1);
}

#[test]
fn c156_a_trigger_whose_write_was_lost_makes_one_run() {
    let mut sim = Sim::beginning(156, "2026-12-01T08:00:00Z").operators(2).worker("w", 30);
    sim.run_for("20s");
    sim.template("t", json!({}));
    sim.run_for("2s");
    sim.patch_object(TEMPLATES, "t", json!({"metadata": {"annotations": {"ax.dev/trigger": "a"}}}), false);
    let made =
        |sim: &Sim| sim.calls().iter().filter(|c| c.method == "POST" && c.plural == "axtasks" && c.code == 201).count();
    let leader = sim.leader().expect("a leader");
    // The status of a template is written half a second after what it tells of.
    for _ in 0..200 {
        sim.run_for("1ms");
        if made(&sim) == 1 {
            break;
        }
    }
    sim.crash(leader);
    assert!(sim.template_status("t")["handled"].is_null());
    sim.run_for("1m");
    assert_eq!(sim.template_status("t")["handled"]["trigger"], "a");
    assert_eq!(made(&sim), 1, "the successor adopts it");
    assert_eq!(sim.all_starts().iter().filter(|s| s.task.starts_with("t-t")).count(), 1);
}

#[test]
fn c107_a_key_is_free_during_backoff_and_the_retry_takes_its_turn() {
    let sim = Sim::beginning(107, "2026-12-01T08:00:00Z").slow_election().operators(1).workers("w", 2, 30, |start| {
        if start.task == "fails" && start.attempt == 1 {
            Answer::status(500).after("1s")
        } else {
            Answer::ok().after("20s")
        }
    });
    sim.run_for("2m");
    for name in ["fails", "x", "y"] {
        sim.task(name).max_retries(1).delays(&["30s"]).no_jitter().spec("concurrencyKey", json!("k")).create();
        sim.run_for("50ms");
    }
    sim.run_for("3m");
    let order: Vec<_> = sim.all_starts().iter().map(|s| (s.task.clone(), s.attempt)).collect();
    let want = [("fails", 1), ("x", 1), ("y", 1), ("fails", 2)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(order, want, "y was ready before the retry");
    let starts = sim.all_starts();
    assert!(starts[1..].windows(2).all(|pair| pair[1].at >= pair[0].at + crate::stage::span("20s")));
    assert!(["fails", "x", "y"].iter().all(|name| sim.phase(name) == Phase::Succeeded));
}

#[test]
fn c120_history_keeps_what_it_says_over_a_day() {
    let sim = Sim::beginning(120, "2026-12-01T00:00:00Z").slow_election().operators(1).workers("w", 1, 30, |start| {
        let second: i64 = start.task.rsplit('-').next().and_then(|s| s.parse().ok()).unwrap_or(0);
        Answer::status(if second / 60 % 10 == 0 { 404 } else { 200 })
    });
    sim.template("t", json!({"schedule": {"cron": "* * * * *"}, "history": {"dead": 5}}));
    sim.run_to("2026-12-01T06:00:30Z");
    assert_eq!(sim.nominals("t").len(), 360);
    let status = sim.template_status("t");
    assert_eq!(status["counts"]["dead"], 5);
    assert_eq!(status["counts"]["succeeded"], 3);
    assert_eq!(status["missed"], Value::Null);
}

#[test]
fn the_same_seed_gives_the_same_schedule_of_calls() {
    let run = |seed| {
        let mut sim = Sim::beginning(seed, "2026-12-01T08:00:00Z").operators(2).worker("w", 30);
        sim.template("t", json!({"schedule": {"every": "7s"}, "concurrencyPolicy": "Queue"}));
        sim.run_for("2m");
        let leader = sim.leader().expect("a leader");
        sim.crash(leader);
        sim.run_for("2m");
        sim.fingerprint()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn a_run_that_spread_puts_off_survives_an_edit_and_a_pause() {
    for change in ["catchUp", "suspend"] {
        let sim = stage(98, "2026-12-01T00:30:10Z");
        sim.template("t", json!({"schedule": {"every": "1h", "anchor": "2026-12-01T00:00:00Z", "spread": "50m"}}));
        sim.run_to("2026-12-01T02:00:01Z");
        let before = sim.nominals("t").len();
        match change {
            "catchUp" => sim.edit_template("t", json!({"schedule": {"catchUp": 5}})),
            _ => {
                sim.edit_template("t", json!({"suspend": true}));
                sim.run_for("2s");
                sim.edit_template("t", json!({"suspend": false}));
            }
        }
        sim.run_to("2026-12-01T02:59:00Z");
        let nominals = sim.nominals("t");
        assert_eq!(nominals.len(), before + 1, "{change}: {nominals:?}");
        assert_eq!(sim.missed("t"), 0, "{change}");
    }
}

#[test]
fn c109_a_circle_that_an_edit_of_a_template_closes_ends() {
    let sim = stage(109, "2026-12-01T08:00:10Z");
    sim.template("t", json!({"taskTemplate": {"spec": {"dependsOn": ["c"]}}}));
    sim.task("a").template("t").create();
    sim.task("b").worker("w").spec("dependsOn", json!(["a"])).create();
    sim.run_for("5m");
    assert_eq!((sim.phase("a"), sim.phase("b")), (Phase::Pending, Phase::Pending));
    sim.edit_template("t", json!({"taskTemplate": {"spec": {"dependsOn": ["b"]}}}));
    sim.run_for("5s");
    for task in ["a", "b"] {
        assert_eq!(sim.status(task).reason.as_deref(), Some("DependencyCycle"), "{task}");
    }
}
