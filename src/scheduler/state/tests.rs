//! The state alone, with the API server, the pods and the clock played by the test.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::api::{AxTask, Phase};
use crate::cluster::guarded::Guarded;
use crate::cluster::status::Written;
use crate::cluster::takeover::Listing;
use crate::domain::answer::{Failure, Refused, Verdict};
use crate::domain::dispatch::{Destination, Dispatch, Inventory, Listed, Order, Report, What};
use crate::scheduler::record::Line;

const UIDS: &str = "3f2a7c1e-5b64-4c0d-9a51-";

/// A leader-to-be, its objects as the API server has them, and what it wanted done.
struct World {
    state: State,
    now: Now,
    objects: BTreeMap<String, Value>,
    version: u64,
    sent: Vec<Dispatch>,
    asked: Vec<String>,
    writes: Vec<(String, Value)>,
    answer_writes: bool,
    listing: bool,
    /// Pods that exist but were not seen by the watch.
    unseen: Vec<Pod>,
    serial: u64,
    reign: u64,
}

impl World {
    fn new() -> Self {
        let wall = Timestamp::from_second(1_800_000_000).expect("an instant");
        let now = Now { wall, mono: Duration::from_secs(100) };
        let config = Config { scopes: vec![None], allow_loopback: false };
        let mut world = Self {
            state: State::new(config, now),
            now,
            objects: BTreeMap::new(),
            version: 10,
            sent: Vec::new(),
            asked: Vec::new(),
            writes: Vec::new(),
            answer_writes: true,
            listing: false,
            unseen: Vec::new(),
            serial: 0,
            reign: 0,
        };
        for kind in Kind::ALL {
            world.change(Change::Restarted(kind, None));
            world.change(Change::Synced(kind, None));
        }
        world
    }

    fn with_pool(credits: u32, pods: &[&str]) -> Self {
        let mut world = Self::new();
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "w", "namespace": "a", "uid": "d1", "annotations": {
                "ax.dev/worker": "true", "ax.dev/credits-per-pod": credits.to_string()}},
            "spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "c", "ports": [{"containerPort": 8080}]}]}}}
        }))
        .expect("a deployment");
        let set = json!({"metadata": {"name": "rs", "namespace": "a", "uid": "rs1", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "d1", "controller": true}]}});
        let set: ReplicaSet = serde_json::from_value(set).expect("a replica set");
        world.change(Change::Deployment(Box::new(deployment)));
        let meta = kube::core::PartialObjectMeta { metadata: set.metadata, ..Default::default() };
        world.change(Change::ReplicaSet(Box::new(meta)));
        for pod in pods {
            world.pod(pod, true, "c1");
        }
        world
    }

    fn pod(&mut self, uid: &str, ready: bool, container: &str) {
        let pod: Pod = pod(uid, ready, container);
        self.change(Change::Pod(Box::new(pod)));
    }

    fn change(&mut self, change: Change) {
        self.handle(Input::Change(change));
    }

    fn handle(&mut self, input: Input) {
        self.state.handle(input, self.now);
        self.turn();
    }

    /// Runs until nothing more comes out; status writes are answered as the API server would.
    fn turn(&mut self) {
        loop {
            let outputs = self.state.turn(self.now);
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    Output::Order(Order::Send(dispatch)) => self.sent.push(*dispatch),
                    Output::Order(Order::Ask { pod, .. }) => self.asked.push(pod.uid.to_string()),
                    Output::WriteTask { task, serial, write } if self.answer_writes => {
                        self.version += 1;
                        let version = self.version;
                        let object = self.objects.get_mut(&write.name).expect("a known task");
                        merge(&mut object["status"], &write.status);
                        object["metadata"]["resourceVersion"] = json!(version.to_string());
                        self.writes.push((write.name.clone(), write.status));
                        let result = Written::Done(version.to_string());
                        self.state.handle(Input::TaskWritten { task, serial, result }, self.now);
                    }
                    Output::WriteTask { serial, write, .. } => {
                        self.serial = serial;
                        self.writes.push((write.name, write.status));
                    }
                    Output::List { .. } => self.listing = true,
                    Output::FetchPods { reign, .. } => {
                        let result = Ok(self.unseen.drain(..).collect());
                        self.state.handle(Input::Fetched { reign, result }, self.now);
                    }
                    _ => {}
                }
            }
        }
    }

    fn after(&mut self, millis: u64) {
        self.now.mono += Duration::from_millis(millis);
        self.now.wall += SignedDuration::from_millis(i64::try_from(millis).expect("small"));
        self.turn();
    }

    fn task(&mut self, name: &str, spec: Value) {
        self.version += 1;
        let index = self.objects.len();
        let created = Timestamp::from_second(self.now.wall.as_second()).expect("an instant").to_string();
        let object = json!({
            "apiVersion": "ax.dev/v1alpha1", "kind": "AxTask",
            "metadata": {"name": name, "namespace": "a", "uid": format!("{UIDS}{index:012x}"), "generation": 1,
                "creationTimestamp": created, "resourceVersion": self.version.to_string()},
            "spec": spec, "status": {"phase": "Pending"},
        });
        self.objects.insert(name.to_owned(), object);
        self.see(name, true);
    }

    fn edit(&mut self, name: &str, spec: Value) {
        self.version += 1;
        let object = self.objects.get_mut(name).expect("a task");
        merge(&mut object["spec"], &spec);
        object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.see(name, true);
    }

    fn guarded(&self, name: &str) -> Guarded<AxTask> {
        serde_json::from_str(&self.objects[name].to_string()).expect("an object")
    }

    fn see(&mut self, name: &str, live: bool) {
        let task = Box::new(self.guarded(name));
        self.change(Change::Task { task, live });
    }

    /// Leads, with these inventories.
    fn lead(&mut self, term: u64, inventories: &[(&str, Inventory)]) {
        self.acquire(term);
        for (pod, inventory) in inventories {
            self.answer(pod, inventory.clone());
        }
    }

    fn answer(&mut self, pod: &str, inventory: Inventory) {
        let pod = Destination {
            uid: Arc::from(pod),
            name: Arc::from(pod),
            addr: "10.0.0.7:8080".parse().expect("an address"),
        };
        self.handle(Input::Inventory { pod, reign: self.reign, inventory });
    }

    fn acquire(&mut self, term: u64) {
        self.reign = term;
        self.handle(Input::Acquired { term, may_start_at: self.now.mono });
        assert!(std::mem::take(&mut self.listing), "a leader begins with a list");
        let all: Vec<_> = self.objects.keys().map(|name| self.guarded(name)).collect();
        self.handle(Input::Listed {
            reign: term,
            result: Ok(Listing { tasks: all, tasks_at: self.version, ..Listing::default() }),
        });
    }

    fn report(&mut self, of: &Dispatch, what: What) {
        let report = Report {
            task: of.task,
            execution: of.execution,
            attempt: of.attempt,
            term: of.term,
            pod: of.pod.uid.clone(),
            room: None,
            what,
        };
        self.handle(Input::Report(report));
    }

    fn succeed(&mut self, of: &Dispatch) {
        self.report(of, What::Answered(Verdict::Succeeded { result: None, truncated: false }));
    }

    fn take_sent(&mut self) -> Vec<Dispatch> {
        std::mem::take(&mut self.sent)
    }

    fn status(&self, name: &str) -> &Value {
        &self.objects[name]["status"]
    }

    fn phase(&self, name: &str) -> Option<Phase> {
        let record = self.state.records.values().find(|r| r.name == name)?;
        record.life.as_ref().map(|life| life.phase)
    }

    fn live(&self) -> u32 {
        self.state.books.values().map(Books::live).sum()
    }
}

fn pod(uid: &str, ready: bool, container: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": format!("pod-{uid}"), "namespace": "a", "uid": uid, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs1", "controller": true}]},
        "status": {"phase": "Running", "podIP": "10.0.0.7",
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            "containerStatuses": [{"name": "c", "containerID": container, "image": "", "imageID": "", "ready": ready,
                "restartCount": 0}]},
    }))
    .expect("a pod")
}

fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().expect("an object").remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

fn now() -> Value {
    json!({"worker": {"deployment": "w"}, "retry": {"maxRetries": 2, "delays": ["1s"], "jitterPercent": 0}})
}

fn ready(pods: &[&str]) -> World {
    let mut world = World::with_pool(30, pods);
    let inventories: Vec<_> = pods.iter().map(|pod| (*pod, Inventory::Lists(Vec::new()))).collect();
    world.lead(7, &inventories);
    world
}

#[test]
fn a_standby_sends_and_writes_nothing() {
    let mut world = World::with_pool(30, &["p1"]);
    world.task("t", now());
    world.after(60_000);
    assert_eq!((world.sent.len(), world.writes.len()), (0, 0));
}

#[test]
fn c116_a_short_task_is_sent_at_once_and_written_once() {
    let mut world = ready(&["p1"]);
    world.task("t", now());
    let sent = world.take_sent();
    assert_eq!(sent.len(), 1);
    world.after(100);
    world.succeed(&sent[0]);
    world.after(60_000);
    assert_eq!(world.writes.len(), 1, "{:?}", world.writes);
    assert_eq!(world.status("t")["phase"], "Succeeded");
    assert_eq!(world.live(), 0);
}

#[test]
fn c116_a_longer_one_is_shown_running_after_a_quarter_of_a_second() {
    let mut world = ready(&["p1"]);
    world.task("t", now());
    world.after(249);
    assert_eq!(world.writes.len(), 0);
    world.after(2);
    assert_eq!(world.status("t")["phase"], "Running");
    world.after(60_000);
    assert_eq!(world.writes.len(), 1, "quiet while it runs");
    let sent = world.take_sent();
    world.succeed(&sent[0]);
    assert_eq!(world.writes.len(), 2);
}

#[test]
fn c114_a_task_due_later_costs_one_write_and_then_none() {
    let mut world = ready(&["p1"]);
    world.task("t", json!({"worker": {"deployment": "w"}, "delay": "1h"}));
    world.after(600_000);
    assert_eq!(world.writes.len(), 1);
    assert_eq!(world.status("t")["reason"], "Delayed");
    // A takeover alone writes nothing either.
    world.lead(8, &[("p1", Inventory::Lists(Vec::new()))]);
    world.after(60_000);
    assert_eq!(world.writes.len(), 1);
    world.after(3_600_000);
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn c010_a_delay_counts_from_the_creation_seen_and_never_fires_early() {
    let mut world = ready(&["p1"]);
    world.task("t", json!({"worker": {"deployment": "w"}, "delay": "1500ms"}));
    world.after(1499);
    assert_eq!(world.sent.len(), 0);
    world.after(1);
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn the_outcome_is_persisted_before_the_next_attempt_goes_out() {
    let mut world = ready(&["p1"]);
    world.task("t", now());
    let sent = world.take_sent();
    world.answer_writes = false;
    world.report(&sent[0], What::Answered(Verdict::Failed(Failure::stated("HTTP500", "boom"))));
    world.after(10_000);
    assert_eq!(world.sent.len(), 0, "the backoff is over, but nothing is recorded");
    assert_eq!(world.live(), 1, "the credit waits for that too");
}

#[test]
fn a_failed_attempt_is_repeated_after_its_backoff_until_the_budget_is_used_up() {
    let mut world = ready(&["p1"]);
    world.task("t", now());
    for number in 1..=3 {
        let sent = world.take_sent();
        assert_eq!(sent.iter().map(|d| d.attempt).collect::<Vec<_>>(), [number]);
        world.report(&sent[0], What::Answered(Verdict::Failed(Failure::stated("HTTP500", "boom"))));
        world.after(1000);
    }
    assert_eq!(world.status("t")["reason"], "RetriesExhausted");
    let outcomes: Vec<_> = world.status("t")["attempts"].as_array().expect("attempts").iter().collect();
    assert_eq!(outcomes.len(), 3);
    assert_eq!(world.live(), 0);
}

#[test]
fn a_refused_task_goes_to_another_pod_under_the_same_number() {
    let mut world = ready(&["p1", "p2"]);
    world.task("t", now());
    let first = world.take_sent().remove(0);
    world.report(&first, What::Answered(Verdict::Refused(Refused::Full(Duration::from_secs(1)))));
    let second = world.take_sent().remove(0);
    assert_ne!(first.pod.uid, second.pod.uid);
    assert_eq!(second.attempt, 1);
    world.succeed(&second);
    assert_eq!(world.status("t")["refusals"], 1);
    assert_eq!(world.live(), 0);
}

#[test]
fn a_refusal_of_a_recorded_send_is_persisted_before_another_pod_gets_it() {
    let mut world = ready(&["p1", "p2"]);
    world.task("t", now());
    world.after(300);
    assert_eq!(world.status("t")["phase"], "Running");
    let first = world.take_sent().remove(0);
    world.answer_writes = false;
    world.report(&first, What::Answered(Verdict::Refused(Refused::Full(Duration::from_secs(1)))));
    world.after(200);
    assert_eq!(world.sent.len(), 0);
}

#[test]
fn credits_are_never_exceeded_and_the_rest_waits() {
    let mut world = World::with_pool(2, &["p1", "p2"]);
    world.lead(7, &[("p1", Inventory::KeepsNone), ("p2", Inventory::KeepsNone)]);
    for n in 0..10 {
        world.task(&format!("t{n}"), now());
    }
    assert_eq!(world.sent.len(), 4);
    world.after(1100);
    let waiting = world.objects.values().filter(|o| o["status"]["reason"] == "WaitingForCredit").count();
    assert_eq!(waiting, 6);
    let mut ended = 0;
    while let Some(dispatch) = world.sent.pop() {
        world.succeed(&dispatch);
        ended += 1;
        assert!(world.live() <= 4);
    }
    assert_eq!((ended, world.live()), (10, 0));
}

#[test]
fn c009_what_is_missing_is_named_and_the_task_goes_on_by_itself() {
    let mut world = World::new();
    world.lead(7, &[]);
    world.task("t", json!({"templateRef": {"name": "nope"}}));
    world.task("u", json!({"worker": {"deployment": "w"}}));
    world.after(1100);
    assert_eq!(world.status("t")["reason"], "TemplateNotFound");
    assert_eq!(world.status("u")["reason"], "WorkerNotFound");
    world.after(60_000);
    world.after(1000);
    let stalled = &world.status("u")["conditions"][0];
    assert_eq!((&stalled["type"], &stalled["status"]), (&json!("Stalled"), &json!("True")));
    let writes = world.writes.len();
    world.after(600_000);
    assert_eq!(world.writes.len(), writes, "no write while nothing changes");
    let mut other = World::with_pool(30, &["p1"]);
    std::mem::swap(&mut world.state.pools, &mut other.state.pools);
    world.state.pool_changed(&PoolKey { namespace: "a".to_owned(), deployment: "w".to_owned() });
    world.turn();
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn c023_a_pool_without_pods_says_so_once_and_goes_on_when_one_comes() {
    let mut world = ready(&[]);
    world.task("t", now());
    world.after(1100);
    assert_eq!(world.status("t")["reason"], "NoReadyWorkers");
    world.after(3_600_000);
    assert_eq!(world.writes.len(), 1);
    world.pod("p1", true, "c1");
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn c078_nothing_is_sent_before_every_pod_has_told_what_it_runs() {
    let mut world = World::with_pool(30, &["p1", "p2"]);
    world.pod("p3", false, "c1");
    world.task("lost", now());
    world.task("other", now());
    world.acquire(8);
    world.asked.sort();
    assert_eq!(world.asked, ["p1", "p2", "p3"], "the not-ready one too");
    let execution = crate::domain::execution_id::execution_id(&format!("{UIDS}{:012x}", 0), 0).expect("an id");
    let listed = Inventory::Lists(vec![Listed { execution, attempt: 1, finished: false }]);
    world.answer("p1", Inventory::Lists(Vec::new()));
    world.answer("p3", listed);
    world.after(100);
    assert_eq!(world.sent.len(), 0);
    world.answer("p2", Inventory::Silent);
    let mut sent: Vec<_> = world.take_sent().into_iter().map(|d| (d.pod.uid.to_string(), d.repeat)).collect();
    sent.sort();
    assert_eq!(sent, [("p1".to_owned(), false), ("p3".to_owned(), true)], "the lost send is asked after, not repeated");
    assert_eq!(world.phase("lost"), Some(Phase::Running));
}

#[test]
fn c062_running_tasks_are_adopted_and_without_inventory_presumed_until_their_timeout() {
    let mut world = ready(&["p1"]);
    world.task("t", json!({"worker": {"deployment": "w"}, "timeout": "15m", "retry": {"delays": ["1s"]}}));
    world.after(300);
    world.take_sent();
    world.lead(8, &[("p1", Inventory::KeepsNone)]);
    assert_eq!((world.sent.len(), world.live()), (0, 1));
    world.after(14 * 60_000);
    assert_eq!((world.phase("t"), world.sent.len()), (Some(Phase::Running), 0));
    world.after(60_000);
    assert_eq!(world.phase("t"), Some(Phase::Retrying));
    assert_eq!(world.status("t")["attempts"][0]["outcome"], "WorkerLost");
    assert_eq!(world.live(), 0);
    // A pod that keeps an inventory is asked instead.
    let mut asked = ready(&["p1"]);
    asked.task("t", json!({"worker": {"deployment": "w"}, "timeout": "15m"}));
    asked.after(300);
    asked.take_sent();
    asked.lead(8, &[("p1", Inventory::Lists(Vec::new()))]);
    let again = asked.take_sent().remove(0);
    assert_eq!((again.repeat, again.attempt, again.timeout.as_secs()), (true, 1, 899));
}

#[test]
fn a_pod_that_is_gone_at_the_takeover_has_lost_its_work() {
    let mut world = ready(&["p1"]);
    world.task("t", now());
    world.after(300);
    world.change(Change::PodGone(Box::new(pod("p1", true, "c1"))));
    world.take_sent();
    world.lead(8, &[]);
    assert_eq!(world.status("t")["attempts"][0]["outcome"], "WorkerLost");
}

#[test]
fn a_pod_the_caches_do_not_know_yet_is_not_lost_at_the_takeover() {
    let mut world = ready(&["p1"]);
    world.task("t", now());
    world.after(300);
    world.take_sent();
    world.change(Change::PodGone(Box::new(pod("p1", true, "c1"))));
    world.state.step_down();
    world.unseen.push(pod("p1", true, "c1"));
    world.lead(8, &[("p1", Inventory::Lists(Vec::new()))]);
    let again = world.take_sent().remove(0);
    assert_eq!((again.attempt, again.repeat, world.phase("t")), (1, true, Some(Phase::Running)));
}

#[test]
fn of_an_earlier_reign_an_answer_counts_and_a_refusal_does_not() {
    let refusal = What::Answered(Verdict::Refused(Refused::Full(Duration::from_secs(1))));
    let success = What::Answered(Verdict::Succeeded { result: None, truncated: false });
    for (what, want) in [(refusal, Phase::Running), (success, Phase::Succeeded)] {
        let mut world = ready(&["p1"]);
        world.task("t", now());
        world.after(300);
        let sent = world.take_sent();
        world.handle(Input::Lost);
        // Heard while nobody leads here.
        world.report(&sent[0], what);
        world.lead(8, &[("p1", Inventory::KeepsNone)]);
        assert_eq!(world.phase("t"), Some(want));
    }
}

#[test]
fn the_answer_to_an_earlier_reign_s_write_is_not_taken_for_this_one_s() {
    let mut world = ready(&["p1"]);
    world.task("t", now());
    world.answer_writes = false;
    world.after(300);
    let (sent, first) = (world.take_sent().remove(0), world.serial);
    world.lead(8, &[("p1", Inventory::KeepsNone)]);
    world.take_sent();
    world.report(
        &Dispatch { term: 8, ..sent.clone() },
        What::Answered(Verdict::Succeeded { result: None, truncated: false }),
    );
    let written = Written::Done("99".to_owned());
    world.handle(Input::TaskWritten { task: sent.task, serial: first, result: written });
    world.after(100);
    let last = world.writes.last().expect("a write");
    assert_ne!(world.serial, first);
    assert!(world.state.records.values().all(|r| r.saved < r.revision), "{last:?} is still under way");
}

#[test]
fn a_pod_that_claims_a_higher_term_does_not_hold_a_takeover_up_for_ever() {
    for claim in [Some(99_999_999_999_999), Some(3), None] {
        let mut world = World::with_pool(30, &["p1", "p2"]);
        world.task("t", now());
        world.acquire(7);
        world.answer("p2", Inventory::Lists(Vec::new()));
        world.answer("p1", Inventory::LowerTerm(claim));
        world.after(6001);
        assert_eq!(world.sent.len(), 1, "{claim:?}");
        assert_eq!(&*world.sent[0].pod.uid, "p2");
    }
}

#[test]
fn an_edit_of_labels_does_not_lose_a_waiting_task_its_place() {
    let mut world = World::with_pool(1, &["p1"]);
    world.lead(7, &[("p1", Inventory::KeepsNone)]);
    for name in ["runs", "waits"] {
        world.task(name, now());
    }
    world.after(1500);
    // Refused once, after its Running was recorded: its refusal had to be persisted.
    let first = world.take_sent().remove(0);
    world.report(&first, What::Answered(Verdict::Refused(Refused::Full(Duration::from_secs(1)))));
    world.after(10);
    world.version += 1;
    let version = world.version.to_string();
    world.objects.get_mut("runs").expect("a task")["metadata"]["resourceVersion"] = json!(version);
    world.objects.get_mut("runs").expect("a task")["metadata"]["labels"] = json!({"a": "b"});
    world.see("runs", true);
    for _ in 0..10 {
        world.after(1000);
        for dispatch in world.take_sent() {
            world.succeed(&dispatch);
        }
    }
    assert_eq!((world.phase("runs"), world.phase("waits")), (Some(Phase::Succeeded), Some(Phase::Succeeded)));
}

#[test]
fn an_attempt_of_which_nothing_is_heard_is_given_up() {
    let mut world = ready(&["p1"]);
    world.task("t", json!({"worker": {"deployment": "w"}, "timeout": "10s"}));
    world.take_sent();
    world.after(54_000);
    assert_eq!(world.phase("t"), Some(Phase::Running));
    world.after(1_001);
    assert_eq!((world.phase("t"), world.live()), (Some(Phase::Retrying), 0));
}

#[test]
fn run_at_waits_again_when_the_wall_clock_is_set_back() {
    let mut world = ready(&["p1"]);
    let at = world.now.wall.checked_add(SignedDuration::from_secs(10)).expect("an instant");
    world.task("t", json!({"worker": {"deployment": "w"}, "runAt": at.to_string()}));
    world.now.wall = world.now.wall.checked_sub(SignedDuration::from_hours(1)).expect("an instant");
    world.after(60_000);
    assert_eq!(world.sent.len(), 0, "not an hour early");
    world.after(3_600_000);
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn an_end_written_elsewhere_ends_the_life() {
    let mut world = ready(&[]);
    world.task("t", now());
    world.version += 1;
    let version = world.version.to_string();
    let object = world.objects.get_mut("t").expect("a task");
    object["metadata"]["resourceVersion"] = json!(version);
    object["status"] = json!({"phase": "Succeeded", "observedGeneration": 1});
    world.see("t", true);
    world.pod("p1", true, "c1");
    world.after(5000);
    assert_eq!((world.sent.len(), world.phase("t")), (0, Some(Phase::Succeeded)));
}

#[test]
fn cancel_before_it_is_sent_ends_it_and_a_deleted_one_frees_its_place() {
    let mut world = World::with_pool(1, &["p1"]);
    world.lead(7, &[("p1", Inventory::KeepsNone)]);
    world.task("runs", now());
    world.task("waits", now());
    world.edit("waits", json!({"cancel": true}));
    assert_eq!(world.status("waits")["phase"], "Canceled");
    let gone = Box::new(world.guarded("runs"));
    world.change(Change::TaskGone(gone));
    assert_eq!(world.live(), 1, "its request is still open");
    let sent = world.take_sent();
    world.succeed(&sent[0]);
    assert_eq!(world.live(), 0);
}

#[test]
fn a_conflict_is_read_again_and_decided_again() {
    let mut world = ready(&["p1"]);
    world.task("t", now());
    let sent = world.take_sent();
    world.answer_writes = false;
    world.succeed(&sent[0]);
    world.version += 1;
    let version = world.version.to_string();
    world.objects.get_mut("t").expect("t")["metadata"]["resourceVersion"] = json!(version);
    let task = sent[0].task;
    let object = Box::new(world.guarded("t"));
    world.answer_writes = true;
    let serial = world.serial;
    world.handle(Input::TaskWritten { task, serial, result: Written::Conflict(object) });
    assert_eq!(world.status("t")["phase"], "Succeeded");
}

#[test]
fn a_recreated_name_is_another_task() {
    let mut world = ready(&["p1"]);
    world.task("t", json!({"worker": {"deployment": "w"}, "delay": "40s"}));
    let gone = Box::new(world.guarded("t"));
    world.change(Change::TaskGone(gone));
    world.objects.insert("old".to_owned(), json!({}));
    world.objects.remove("t");
    world.after(20_000);
    world.task("t", json!({"worker": {"deployment": "w"}, "delay": "40s"}));
    world.after(39_999);
    assert_eq!(world.sent.len(), 0, "the old timer is gone");
    world.after(1);
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn a_list_after_a_gap_drops_what_vanished() {
    let mut world = ready(&["p1"]);
    world.task("t", json!({"worker": {"deployment": "w"}, "delay": "40s"}));
    world.change(Change::Restarted(Kind::Task, None));
    world.change(Change::Synced(Kind::Task, None));
    world.after(60_000);
    assert_eq!((world.sent.len(), world.state.sizes().0), (0, 0));
}

#[test]
fn c003_a_payload_beyond_the_limit_is_a_dead_letter_at_first_sight() {
    let mut world = ready(&["p1"]);
    for (name, length, want) in [("fits", 262_142, None), ("too-long", 262_143, Some("PayloadTooLarge"))] {
        world.task(name, json!({"worker": {"deployment": "w"}, "work": {"payload": "x".repeat(length)}}));
        assert_eq!(world.status(name)["reason"].as_str(), want, "{name}");
    }
    assert_eq!(world.sent.len(), 1);
    let message = world.status("too-long")["message"].as_str().expect("a message");
    assert!(message.contains("262145") && message.contains("262144"), "{message}");
}

#[test]
fn c140_an_undecodable_task_is_a_dead_letter_and_the_others_run() {
    let mut world = ready(&["p1"]);
    world.task("bad", json!({"worker": {"deployment": "w"}, "retry": {"maxRetries": "many"}}));
    world.task("good", now());
    assert_eq!(world.status("bad")["reason"], "Invalid");
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn a_queued_task_has_exactly_one_place() {
    let mut world = World::with_pool(1, &["p1"]);
    world.lead(7, &[("p1", Inventory::KeepsNone)]);
    for name in ["a", "b", "c"] {
        world.task(name, now());
    }
    world.edit("b", json!({"priority": 9}));
    world.edit("b", json!({"priority": 0}));
    let queued = world.state.records.values().filter(|r| matches!(r.line, Some(Line::Queued(..)))).count();
    let places: usize = world.state.lines.values().map(|l| l.queue.len()).sum();
    assert_eq!((queued, places), (2, 2));
}

#[test]
fn stopping_shows_what_runs_and_sends_nothing_more() {
    let mut world = ready(&["p1"]);
    world.task("runs", now());
    world.handle(Input::Stop);
    assert_eq!(world.status("runs")["phase"], "Running", "the successor must see it");
    assert!(!world.state.has_unwritten());
    world.task("later", now());
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn c049_an_unconfirmed_cancel_frees_the_place_after_30_s() {
    let mut world = ready(&["p1"]);
    world.task("t", json!({"worker": {"deployment": "w"}, "timeout": "1h"}));
    world.edit("t", json!({"cancel": true}));
    world.after(29_000);
    assert_eq!((world.phase("t"), world.live()), (Some(Phase::Running), 1));
    world.after(1_000);
    assert_eq!(world.status("t")["phase"], "Canceled");
    assert_eq!(world.live(), 0);
}

#[test]
fn a_write_refused_for_a_raised_term_is_decided_again() {
    let mut world = ready(&["p1"]);
    world.task("t", now());
    let sent = world.take_sent();
    world.answer_writes = false;
    world.succeed(&sent[0]);
    world.handle(Input::TermRaised { term: 9 });
    world.answer_writes = true;
    let serial = world.serial;
    world.handle(Input::TaskWritten { task: sent[0].task, serial, result: Written::NotLeader });
    world.after(200);
    assert_eq!((&world.status("t")["phase"], &world.status("t")["term"]), (&json!("Succeeded"), &json!(9)));
}

#[test]
fn c037_a_restarted_container_cuts_off_what_was_sent_to_it() {
    let mut world = ready(&["p1"]);
    world.task("t", json!({"worker": {"deployment": "w"}, "timeout": "15m"}));
    world.after(300);
    world.lead(8, &[("p1", Inventory::KeepsNone)]);
    world.pod("p1", true, "c2");
    assert_eq!(world.status("t")["attempts"][0]["outcome"], "WorkerLost");
    assert_eq!(world.live(), 0);
}

/// A chain: each waits for the one before.
fn chain(world: &mut World, length: usize, status: &Value) {
    for n in 0..length {
        let name = format!("t{n}");
        let on = if n == 0 { json!({"delay": "1h"}) } else { json!({"dependsOn": [format!("t{}", n - 1)]}) };
        let mut spec = now();
        merge(&mut spec, &on);
        world.task(&name, spec);
        merge(&mut world.objects.get_mut(&name).expect("a task")["status"], status);
    }
}

#[test]
fn a_long_chain_of_dependencies_is_taken_over_again_and_again() {
    let mut world = World::with_pool(30, &["p1"]);
    let ended = json!({"phase": "Succeeded", "reason": "Succeeded", "message": "", "observedGeneration": 1,
        "finishTime": "2027-01-15T08:00:00.000000Z"});
    chain(&mut world, 3000, &ended);
    for term in 7..10 {
        world.lead(term, &[("p1", Inventory::Lists(Vec::new()))]);
        world.after(1000);
    }
    assert_eq!(world.sent.len(), 0);
}

#[test]
fn a_long_chain_that_waits_costs_its_length() {
    let mut world = World::with_pool(30, &["p1"]);
    chain(&mut world, 5000, &json!({}));
    // Quadratic, this would be a hundred million steps.
    world.lead(7, &[("p1", Inventory::Lists(Vec::new()))]);
    world.after(1000);
    assert_eq!(world.phase("t4999"), Some(Phase::Pending));
    // The last link closes it.
    world.edit("t0", json!({"dependsOn": ["t4999"]}));
    assert_eq!(world.phase("t0"), Some(Phase::Dead));
    assert_eq!(world.phase("t4999"), Some(Phase::Dead));
}

#[test]
fn c109_a_circle_found_at_a_takeover_ends_as_one() {
    let mut world = World::with_pool(30, &["p1"]);
    for (name, on) in [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("self", "self")] {
        let mut spec = now();
        merge(&mut spec, &json!({"dependsOn": [on]}));
        world.task(name, spec);
    }
    world.lead(7, &[("p1", Inventory::Lists(Vec::new()))]);
    world.after(1000);
    for name in ["a", "b", "c", "self"] {
        assert_eq!(world.status(name)["reason"], "DependencyCycle", "{name}");
    }
    assert_eq!(world.status("d")["reason"], "DependencyFailed");
}

#[test]
fn a_keyed_task_that_is_canceled_before_its_running_is_written_is_not_sent() {
    let mut world = ready(&["p1"]);
    world.answer_writes = false;
    let mut spec = now();
    merge(&mut spec, &json!({"concurrencyKey": "k"}));
    world.task("t", spec);
    assert_eq!((world.sent.len(), world.phase("t")), (0, Some(Phase::Running)), "written ahead");
    world.edit("t", json!({"cancel": true}));
    // The write meets the edit.
    world.answer_writes = true;
    let (id, serial) = (*world.state.by_name.values().next().expect("a task"), world.serial);
    let result = Written::Conflict(Box::new(world.guarded("t")));
    world.handle(Input::TaskWritten { task: id, serial, result });
    world.after(1000);
    assert_eq!((world.sent.len(), world.phase("t"), world.live()), (0, Some(Phase::Canceled), 0));
    assert!(world.state.gates.is_empty(), "its key is free");
}

#[test]
fn c107_a_retry_that_waits_for_its_key_is_not_inside_after_a_takeover() {
    let mut world = ready(&["p1"]);
    let spec =
        json!({"worker": {"deployment": "w"}, "concurrencyKey": "k", "retry": {"delays": ["5s"], "jitterPercent": 0}});
    world.task("first", spec.clone());
    let first = world.take_sent();
    world.report(&first[0], What::Answered(Verdict::Failed(Failure::stated("HTTP500", "no"))));
    world.task("second", spec);
    let second = world.take_sent();
    assert_eq!((first.len(), second.len()), (1, 1), "the key is free during the backoff");
    world.after(7_000);
    assert_eq!(world.phase("first"), Some(Phase::Ready));
    assert!(world.take_sent().is_empty(), "the second has the key");
    // Another leader: the pod still runs the second.
    world.handle(Input::Lost);
    let running = Listed { execution: second[0].execution, attempt: 1, finished: false };
    world.lead(2_000, &[("p1", Inventory::Lists(vec![running]))]);
    world.after(3_000);
    assert!(world.take_sent().iter().all(|sent| sent.execution == second[0].execution), "two at work under one key");
    assert_eq!(world.status("first")["reason"], "WaitingForKey");
}

#[test]
fn c066_a_delay_recorded_by_a_leader_whose_clock_was_behind_is_not_early() {
    let mut world = ready(&["p1"]);
    let bounds = crate::domain::offset::OffsetBounds { lower: SignedDuration::ZERO, upper: SignedDuration::ZERO };
    world.state.set_offset(Some(bounds));
    world.task("t", json!({"worker": {"deployment": "w"}, "delay": "1h"}));
    let right: Timestamp = world.status("t")["readyTime"].as_str().and_then(|t| t.parse().ok()).expect("shown");
    let early = right.checked_sub(SignedDuration::from_mins(10)).expect("an instant");
    world.handle(Input::Lost);
    world.version += 1;
    let version = world.version.to_string();
    let object = world.objects.get_mut("t").expect("a task");
    object["status"]["readyTime"] = json!(early.to_string());
    object["metadata"]["resourceVersion"] = json!(version);
    world.see("t", false);
    world.state.set_offset(Some(bounds));
    world.lead(2_000, &[("p1", Inventory::KeepsNone)]);
    world.after(51 * 60 * 1000);
    assert!(world.take_sent().is_empty(), "nine minutes early");
    world.after(10 * 60 * 1000);
    assert_eq!(world.take_sent().len(), 1);
}
