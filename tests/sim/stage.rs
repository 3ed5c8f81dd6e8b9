//! The simulation: one runtime whose time is paused, a fake API server, workers, replicas.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use ax::api::{AxTask, AxTaskStatus, Phase};
use ax::domain::election;
use ax::ops::clock::Simulated;
use ax::ops::dice::Dice;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::api::link;
use crate::api::store::resource;
use crate::api::{Call, Server};
use crate::replica::Replica;
use crate::worker::{Answer, Network, Rule, Start};

/// The namespace of everything a test makes.
pub const NAMESPACE: &str = "sim";
/// The port of every worker.
pub const PORT: u16 = 8080;
/// Roughly when every simulation begins; the seed says which part of the second.
const BEGINS: &str = "2026-12-01T08:00:00Z";

pub struct Sim {
    runtime: Runtime,
    pub server: Server,
    network: Network,
    /// The machine of the API server and the workers; its wall clock is the truth.
    machine: &'static Simulated,
    pub replicas: Vec<Replica>,
    election: election::Config,
    dice: Dice,
    pods: u16,
}

impl Sim {
    pub fn new(seed: u64) -> Self {
        Self::beginning(seed, BEGINS)
    }

    /// As [`Sim::new`], at another hour.
    pub fn beginning(seed: u64, at: &str) -> Self {
        logs();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let mut dice = Dice::seeded(seed);
        let begins: Timestamp = at.parse().expect("an instant");
        let into = SignedDuration::from_millis(i64::try_from(dice.below(1000)).expect("small"));
        let machine = {
            let _inside = runtime.enter();
            Simulated::start(begins + into)
        };
        let server = Server::new(machine.clock(), Dice::seeded(dice.roll()));
        let network = Network::new(machine.clock());
        Self {
            runtime,
            server,
            network,
            machine,
            replicas: Vec::new(),
            election: election::Config::default(),
            dice,
            pods: 0,
        }
    }

    /// Timing of the election, for the operators that follow; default 5 s, 3 s, 1 s.
    pub fn election(mut self, config: election::Config) -> Self {
        config.check().expect("intervals that fit together");
        self.election = config;
        self
    }

    /// For days: an election that does not cost a call a second.
    pub fn slow_election(self) -> Self {
        let secs = Duration::from_secs;
        self.election(election::Config { lease_duration: secs(60), renew_deadline: secs(40), retry_period: secs(15) })
    }

    /// So many more replicas, `ax-0`, `ax-1` ...
    pub fn operators(mut self, count: usize) -> Self {
        for _ in 0..count {
            self.start_operator();
        }
        self
    }

    /// One more replica; gives back its index.
    pub fn start_operator(&mut self) -> usize {
        let _inside = self.runtime.enter();
        let index = self.replicas.len();
        let machine = Simulated::start(self.machine.clock().now().wall);
        let dice = Dice::seeded(self.dice.roll());
        let name = format!("ax-{index}");
        self.replicas.push(Replica::start(&name, machine, self.election, dice, &self.server, &self.network));
        index
    }

    /// A Deployment with one ready pod, whose worker succeeds at once.
    pub fn worker(self, name: &str, credits: u32) -> Self {
        self.workers(name, 1, credits, |_| Answer::ok())
    }

    /// A Deployment with so many ready pods `<name>-0` ... whose workers answer by a rule.
    pub fn workers(
        mut self,
        name: &str,
        pods: u32,
        credits: u32,
        rule: impl Fn(&Start) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let rule: Rule = Arc::new(rule);
        let container = json!({"name": "worker", "image": "worker", "ports": [{"containerPort": PORT}]});
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}});
        let spec = json!({
            "replicas": pods, "selector": {"matchLabels": {"app": name}}, "template": template,
        });
        let annotations = json!({"ax.dev/worker": "true", "ax.dev/credits-per-pod": credits.to_string()});
        let metadata = json!({"name": name, "annotations": annotations});
        let deployment = self.make("deployments", json!({"metadata": metadata, "spec": spec}));
        let owner = |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
        let set = format!("{name}-set");
        let metadata = json!({"name": set, "ownerReferences": owner("Deployment", name, &deployment)});
        let set_uid = self.make("replicasets", json!({"metadata": metadata, "spec": spec}));
        for index in 0..pods {
            self.pods += 1;
            let [high, low] = self.pods.to_be_bytes();
            let ip = IpAddr::V4(Ipv4Addr::new(10, 1, high, low));
            let pod = format!("{name}-{index}");
            let metadata = json!({
                "name": pod, "labels": {"app": name}, "ownerReferences": owner("ReplicaSet", &set, &set_uid),
            });
            let spec = json!({"nodeName": "node", "containers": [container]});
            let uid = self.make("pods", json!({"metadata": metadata, "spec": spec}));
            self.network.add(ip, &pod, &uid, usize::try_from(credits).expect("small"), rule.clone());
            let status = json!({
                "phase": "Running", "podIP": ip.to_string(),
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "worker", "containerID": format!("sim://{uid}/1"), "ready": true}],
            });
            self.patch_object("pods", &pod, json!({"status": status}), true);
        }
        self
    }

    /// A pod's node dies and the pod is deleted by force: its connections break, and it is gone.
    pub fn lose_pod(&self, name: &str) {
        let _inside = self.runtime.enter();
        assert!(self.network.kill(name), "there is a pod {name}");
        let now = json!({"gracePeriodSeconds": 0});
        self.server.store().delete(resource("pods"), &key(name), &now).expect("a pod can be deleted");
    }

    /// A task in the making, for the worker `w` unless it says otherwise.
    pub fn task(&self, name: &str) -> TaskMaker<'_> {
        let spec = json!({"worker": {"deployment": "w", "port": PORT}});
        TaskMaker { sim: self, object: json!({"metadata": {"name": name}, "spec": spec}) }
    }

    /// Makes an object of any kind as it is; gives back its uid.
    pub fn make(&self, plural: &str, object: Value) -> String {
        let _inside = self.runtime.enter();
        let made = self.server.store().create(resource(plural), NAMESPACE, object);
        made.unwrap_or_else(|refusal| panic!("{}", refusal.message)).uid().to_owned()
    }

    /// Merge patch on an object of any kind, or on its status.
    pub fn patch_object(&self, plural: &str, name: &str, patch: Value, status: bool) {
        let _inside = self.runtime.enter();
        let patched = self.server.patch(resource(plural), &key(name), &patch, status);
        patched.unwrap_or_else(|refusal| panic!("{}", refusal.message));
    }

    /// Merge patch on a task.
    pub fn patch(&self, task: &str, patch: Value) {
        self.patch_object("axtasks", task, patch, false);
    }

    /// Deletes an object of any kind.
    pub fn delete(&self, plural: &str, name: &str) {
        let _inside = self.runtime.enter();
        let deleted = self.server.store().delete(resource(plural), &key(name), &Value::Null);
        deleted.unwrap_or_else(|refusal| panic!("{}", refusal.message));
    }

    /// An object of any kind as it is now.
    pub fn object(&self, plural: &str, name: &str) -> Value {
        let found = self.server.store().get(resource(plural), &key(name));
        found.unwrap_or_else(|refusal| panic!("{}", refusal.message)).value.clone()
    }

    /// The task as it is now.
    pub fn get(&self, task: &str) -> AxTask {
        serde_json::from_value(self.object("axtasks", task)).expect("a task")
    }

    pub fn status(&self, task: &str) -> AxTaskStatus {
        self.get(task).status.unwrap_or_default()
    }

    pub fn phase(&self, task: &str) -> Phase {
        self.status(task).phase.unwrap_or(Phase::Pending)
    }

    /// Lets time pass: `sim.run_for("6h30m")`.
    pub fn run_for(&self, time: &str) {
        let time = span(time);
        self.runtime.block_on(async move { tokio::time::sleep(time).await });
    }

    /// Lets time pass, 100 ms at a time, until something is so; says what was waited for if it is not within `limit`.
    pub fn run_until(&self, what: &str, limit: &str, mut holds: impl FnMut(&Self) -> bool) {
        let end = self.now() + span(limit);
        while !holds(self) {
            assert!(self.now() < end, "{what}: not within {limit}");
            self.run_for("100ms");
        }
    }

    /// Lets time pass until the true wall clock shows this.
    pub fn run_to(&self, at: &str) {
        let at: Timestamp = at.parse().expect("an instant");
        let wait = Duration::try_from(at.duration_since(self.wall())).expect("an instant ahead");
        self.runtime.block_on(async move { tokio::time::sleep(wait).await });
    }

    /// Runs something of the test's own to its end.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Since the simulation began.
    pub fn now(&self) -> Duration {
        let _inside = self.runtime.enter();
        self.machine.clock().mono()
    }

    /// The true wall clock.
    pub fn wall(&self) -> Timestamp {
        let _inside = self.runtime.enter();
        self.machine.clock().now().wall
    }

    /// Sets every wall clock, the API server's too.
    pub fn step_wall(&self, by: SignedDuration) {
        self.machine.step_wall(by);
        for replica in &self.replicas {
            replica.machine.step_wall(by);
        }
    }

    /// The replica that leads, if one does.
    pub fn leader(&self) -> Option<usize> {
        let _inside = self.runtime.enter();
        self.replicas.iter().position(Replica::is_leading)
    }

    /// kill -9 of a replica.
    pub fn crash(&mut self, replica: usize) {
        let _inside = self.runtime.enter();
        self.replicas[replica].crash();
    }

    /// SIGTERM of a replica; returns when it has ended.
    pub fn stop(&mut self, replica: usize) {
        let Self { runtime, replicas, .. } = self;
        runtime.block_on(replicas[replica].stop());
    }

    /// A replica's network: [`link::State::Silent`], `Cut`, or `Up` again.
    pub fn network(&self, replica: usize, state: link::State) {
        self.replicas[replica].network(state);
    }

    /// What workers began for a task, in order.
    pub fn starts(&self, task: &str) -> Vec<Start> {
        self.network.starts().iter().filter(|start| start.task == task).cloned().collect()
    }

    pub fn all_starts(&self) -> Vec<Start> {
        self.network.starts().clone()
    }

    /// Every request the API server has answered; what the test itself did is not among them.
    pub fn calls(&self) -> Vec<Call> {
        self.server.calls()
    }

    /// Requests since an instant, but for the Lease's.
    pub fn calls_since(&self, since: Duration) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.at >= since && call.plural != "leases").collect()
    }

    /// All calls and all starts, with their times, in one number: the same for the same seed.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for call in self.calls() {
            (call.at, call.who, call.method.as_str(), call.plural, call.name, call.code, call.hash).hash(&mut hasher);
        }
        for start in self.all_starts() {
            (start.at, start.execution, start.attempt, start.pod, start.term).hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Inside the runtime, where timers and tasks may be dropped.
        let _inside = self.runtime.enter();
        for replica in &mut self.replicas {
            replica.crash();
        }
    }
}

/// `sim.task("t").delay("6h").create()`.
pub struct TaskMaker<'a> {
    sim: &'a Sim,
    object: Value,
}

impl TaskMaker<'_> {
    pub fn worker(self, deployment: &str) -> Self {
        self.spec("worker", json!({"deployment": deployment, "port": PORT}))
    }

    pub fn template(mut self, template: &str) -> Self {
        if let Some(spec) = self.object["spec"].as_object_mut() {
            spec.remove("worker");
        }
        self.spec("templateRef", json!({"name": template}))
    }

    pub fn delay(self, delay: &str) -> Self {
        self.spec("delay", json!(delay))
    }

    pub fn run_at(self, at: Timestamp) -> Self {
        self.spec("runAt", json!(at.to_string()))
    }

    pub fn payload(mut self, payload: Value) -> Self {
        self.object["spec"]["work"]["payload"] = payload;
        self
    }

    pub fn max_retries(mut self, retries: u32) -> Self {
        self.object["spec"]["retry"]["maxRetries"] = json!(retries);
        self
    }

    /// Waits before retries, without jitter.
    pub fn delays(mut self, delays: &[&str]) -> Self {
        self.object["spec"]["retry"]["delays"] = json!(delays);
        self.no_jitter()
    }

    pub fn no_jitter(mut self) -> Self {
        self.object["spec"]["retry"]["jitterPercent"] = json!(0);
        self
    }

    pub fn spec(mut self, field: &str, value: Value) -> Self {
        self.object["spec"][field] = value;
        self
    }

    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.object["metadata"]["annotations"][name] = json!(value);
        self
    }

    /// Makes it; gives back its uid.
    pub fn create(self) -> String {
        self.sim.make("axtasks", self.object)
    }
}

/// A GEP-2257 duration.
pub fn span(text: &str) -> Duration {
    let span: ax::api::Duration = text.parse().unwrap_or_else(|error| panic!("{text} is no duration: {error}"));
    span.get()
}

fn key(name: &str) -> (String, String) {
    (NAMESPACE.to_owned(), name.to_owned())
}

/// `AX_SIM_LOG=debug` shows the replicas' logs.
fn logs() {
    if let Ok(level) = std::env::var("AX_SIM_LOG") {
        _ = tracing_subscriber::fmt().with_env_filter(level).with_test_writer().without_time().try_init();
    }
}
