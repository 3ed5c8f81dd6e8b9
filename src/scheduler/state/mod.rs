//! Everything the leader loop knows, in one synchronous struct. Pure but for the log: `now` is an argument, what is to
//! be done comes out as [`Output`]s.
//!
//! Every replica keeps the objects (`observe`, `workloads`, `templates`); the leader alone keeps lives (`lead`), timers,
//! lines and writes (`settle`, `template_status`), what a task waits for (`dependencies`, `gates`), makes runs (`runs`)
//! and sends (`send`).

mod dependencies;
mod gates;
mod lead;
mod observe;
mod referring;
mod runs;
mod send;
mod settle;
mod template_status;
mod templates;
#[cfg(test)]
mod tests;
mod workloads;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::input::{Input, Name, Output};
use super::record::{GateKey, Record};
use super::timers::{Timers, tick_ceil, tick_floor};
use crate::cluster::lease::OffsetBounds;
use crate::cluster::watch::{Change, Kind, Scope};
use crate::domain::credit::Books;
use crate::domain::dispatch::Report;
use crate::domain::gate::Gate;
use crate::domain::lifecycle::later;
use crate::domain::pool::{PoolKey, Pools};
use crate::domain::ready::ReadyQueue;
use crate::domain::run::Cause;
use crate::domain::wheel::Tick;
use crate::ops::clock::Now;
use lead::Leader;
use referring::Referring;
use templates::Template;

/// Timers handed out by one turn at most; the rest waits for the next, so that inputs are never kept waiting.
const BUDGET: usize = 1024;

/// What does not change while the replica runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Namespaces watched; `None` among them: all.
    pub scopes: Vec<Scope>,
    /// Whether pods at loopback addresses are sent to. For tests.
    pub allow_loopback: bool,
}

/// Everything the leader loop knows.
#[derive(Debug)]
pub struct State {
    config: Config,
    now: Now,
    /// How far the API server's clock is ahead of this one, at least and at most.
    offset: Option<OffsetBounds>,
    next_task: u64,
    records: HashMap<u64, Record>,
    by_uid: HashMap<String, u64>,
    by_execution: HashMap<Uuid, u64>,
    by_name: HashMap<Name, u64>,
    /// Tasks that wait for the task of this name, whether it exists or not.
    dependents: HashMap<Name, BTreeSet<u64>>,
    /// Runs, by the uid of their template.
    by_owner: HashMap<String, BTreeSet<u64>>,
    gates: HashMap<GateKey, Gate>,
    /// Gates that executions of deleted tasks are inside of until their credit is free.
    orphans: HashMap<Uuid, (u64, Vec<GateKey>)>,
    templates: HashMap<Name, Template>,
    /// Tasks that refer to a template, whether it exists or not.
    by_template: HashMap<Name, Referring>,
    pools: Pools,
    lines: HashMap<PoolKey, Waiting>,
    books: HashMap<String, Books>,
    /// Pools in which something may be sent now.
    stirred: BTreeSet<PoolKey>,
    /// Templates whose status may differ.
    touched: BTreeSet<Name>,
    /// The newest version at which all tasks were listed: one that is not known and not newer is gone.
    listed_at: u64,
    /// A takeover brings all lives back: what is found out of all together is not looked for one by one.
    reviving: bool,
    /// Runs being made, and status writes of tasks under way: while there are many, templates' own writes wait.
    making: usize,
    writing: usize,
    /// The template that was looked at last.
    looked_at: Option<Name>,
    template_round: bool,
    timers: Timers<Alarm>,
    leader: Option<Leader>,
    /// Outcomes that were heard while this replica did not lead: its own, and true whoever leads.
    held: Vec<Report>,
    /// Nothing is sent before this: trust was found to have lapsed.
    hold_sends_until: Option<Duration>,
    /// Writes ordered so far.
    serial: u64,
    /// Highest term seen in any status.
    highest_term: u64,
    stopping: bool,
    /// Names seen since a list began.
    listing: HashMap<(Kind, Scope), HashSet<String>>,
    synced: HashSet<(Kind, Scope)>,
    out: Vec<Output>,
}

/// The due tasks of one pool.
#[derive(Debug, Default)]
struct Waiting {
    queue: ReadyQueue,
    /// For the Deployment, its opt-in or its port.
    blocked: BTreeSet<u64>,
    /// Whether the pool had a pod that takes tasks when last looked at.
    had_pods: bool,
    /// An alarm is set to look again.
    recheck: bool,
}

/// What a timer is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Alarm {
    /// Time does something to a task.
    Wake(u64),
    /// A task's status is to be written.
    Write(u64),
    /// A task that is presumed to work on has reached its timeout.
    Presumed(u64),
    /// A pool may have room again.
    Pool(PoolKey),
    /// Nothing was heard of an attempt long after its timeout.
    Overdue(u64),
    /// Sending may go on.
    Sends,
    /// A timed-out attempt's place is free.
    Free { pod: String, execution: Uuid, attempt: u32 },
    /// Statuses of templates are to be looked at.
    Templates,
    /// A template's next run is due.
    Tick(Name),
    /// A run whose making failed is to be tried again.
    Make(Name, Cause),
    /// The takeover goes on.
    Takeover,
}

impl State {
    /// A replica that knows nothing yet.
    pub fn new(config: Config, now: Now) -> Self {
        Self {
            config,
            now,
            offset: None,
            next_task: 0,
            records: HashMap::new(),
            by_uid: HashMap::new(),
            by_execution: HashMap::new(),
            by_name: HashMap::new(),
            dependents: HashMap::new(),
            by_owner: HashMap::new(),
            gates: HashMap::new(),
            orphans: HashMap::new(),
            templates: HashMap::new(),
            by_template: HashMap::new(),
            pools: Pools::default(),
            lines: HashMap::new(),
            books: HashMap::new(),
            stirred: BTreeSet::new(),
            touched: BTreeSet::new(),
            listed_at: 0,
            reviving: false,
            making: 0,
            writing: 0,
            looked_at: None,
            template_round: false,
            timers: Timers::new(now),
            leader: None,
            held: Vec::new(),
            hold_sends_until: None,
            serial: 0,
            highest_term: 0,
            stopping: false,
            listing: HashMap::new(),
            synced: HashSet::new(),
            out: Vec::new(),
        }
    }

    /// Takes an input in.
    pub fn handle(&mut self, input: Input, now: Now) {
        self.look(now);
        match input {
            Input::Change(change) => self.change(change),
            Input::Report(report) => self.report(report),
            Input::TaskWritten { task, serial, result } => self.task_written(task, serial, result),
            Input::TemplateWritten { template, serial, result } => self.template_written(&template, serial, result),
            Input::RunMade { template, run, serial, result } => self.run_made(&template, &run, serial, result),
            Input::Listed { reign, result } => self.listed(reign, result),
            Input::Fetched { reign, result } => self.fetched(reign, result),
            Input::Inventory { pod, reign, inventory } => self.inventory(&pod, reign, inventory),
            Input::Acquired { term, may_start_at } => self.acquired(term, may_start_at),
            Input::TermRaised { term } => self.term_raised(term),
            Input::Lost => self.step_down(),
            Input::Stop => self.stop(),
        }
    }

    /// Reads the clocks. What lasts is not moved by a wall clock that is set: recorded instants move with it.
    fn look(&mut self, now: Now) {
        let (now, set) = self.timers.look(now);
        self.now = now;
        if let Some(by) = set {
            for record in self.records.values_mut() {
                record.clock_set(by);
            }
        }
    }

    /// What the API server's clock is known to differ by from the machine's own.
    pub fn set_offset(&mut self, offset: Option<OffsetBounds>) {
        // Instants here are those of the steady clock, which may follow the machine's by up to a second.
        let behind = self.timers.behind();
        self.offset = offset.map(|bounds| OffsetBounds {
            lower: bounds.lower.saturating_add(behind),
            upper: bounds.upper.saturating_add(behind),
        });
    }

    /// Lets time act, sends what can be sent. Call after inputs and when [`State::next_due`] has come.
    pub fn turn(&mut self, now: Now) -> Vec<Output> {
        self.look(now);
        for alarm in self.timers.advance(BUDGET) {
            self.alarm(alarm);
        }
        self.send_all();
        std::mem::take(&mut self.out)
    }

    /// When time acts next, as a monotonic reading.
    pub fn next_due(&self) -> Option<Duration> {
        self.timers.next_due()
    }

    /// Whether every watch has delivered its first list.
    pub fn is_synced(&self) -> bool {
        let scopes = &self.config.scopes;
        scopes.iter().all(|scope| Kind::ALL.iter().all(|kind| self.synced.contains(&(*kind, scope.clone()))))
    }

    /// Whether anything known is not yet written; asked while stopping.
    pub fn has_unwritten(&self) -> bool {
        self.records.values().any(|r| r.writing.is_some() || (r.write.is_some() && r.saved < r.revision))
    }

    /// Tasks known, and timers armed.
    pub fn sizes(&self) -> (usize, usize) {
        (self.records.len(), self.timers.len())
    }

    fn alarm(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Wake(task) => self.woken(task),
            Alarm::Write(task) => self.write_due(task),
            Alarm::Presumed(task) => self.presumption_over(task),
            Alarm::Pool(key) => {
                if let Some(line) = self.lines.get_mut(&key) {
                    line.recheck = false;
                }
                self.stirred.insert(key);
            }
            Alarm::Overdue(task) => self.overdue(task),
            Alarm::Sends => {}
            Alarm::Free { pod, execution, attempt } => self.give_back(&pod, &execution, attempt),
            Alarm::Templates => self.template_round(),
            Alarm::Tick(template) => self.tick(&template),
            Alarm::Make(template, cause) => self.make_again(&template, &cause),
            Alarm::Takeover => self.take_over(),
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Restarted(kind, scope) => {
                if kind == Kind::Task {
                    // A list shows what there is.
                    self.listed_at = 0;
                }
                self.listing.insert((kind, scope), HashSet::new());
            }
            Change::Synced(kind, scope) => self.list_complete(kind, scope),
            Change::Task { task, live } => self.observe_task(*task, live, false),
            Change::TaskGone(task) => {
                let uid = kube::Resource::meta(&*task).uid.clone().unwrap_or_default();
                self.forget_task(&uid);
            }
            Change::Template(template) => self.observe_template(*template),
            Change::TemplateGone(template) => self.forget_template(*template),
            Change::Deployment(deployment) => self.observe_deployment(&deployment),
            Change::DeploymentGone(deployment) => self.forget_deployment(&deployment),
            Change::ReplicaSet(set) => self.observe_replica_set(&set),
            Change::ReplicaSetGone(set) => self.forget_replica_set(&set),
            Change::Pod(pod) => self.observe_pod(&pod),
            Change::PodGone(pod) => self.forget_pod(pod.metadata.uid.as_deref().unwrap_or_default()),
        }
    }

    /// Notes that an object was there since the list of its kind began.
    fn note_listed(&mut self, kind: Kind, namespace: Option<&str>, uid: &str) {
        for ((listed, scope), seen) in &mut self.listing {
            if *listed == kind && (scope.is_none() || scope.as_deref() == namespace) {
                seen.insert(uid.to_owned());
            }
        }
    }

    /// What was not listed is gone: nobody sends a deletion for what vanished in a gap.
    fn list_complete(&mut self, kind: Kind, scope: Scope) {
        let Some(seen) = self.listing.remove(&(kind, scope.clone())) else { return };
        let inside = |namespace: &str| scope.as_deref().is_none_or(|scope| scope == namespace);
        match kind {
            Kind::Task => {
                let gone = self.records.values().filter(|r| inside(&r.namespace) && !seen.contains(&r.uid));
                for uid in gone.map(|r| r.uid.clone()).collect::<Vec<_>>() {
                    self.forget_task(&uid);
                }
                self.runs_listed();
            }
            Kind::Template => self.templates_gone(|name, uid| inside(&name.0) && !seen.contains(uid)),
            Kind::Deployment => {
                let all = self.pools.deployments();
                let gone = all.filter(|(key, d)| inside(&key.namespace) && !seen.contains(&d.uid));
                for (key, uid) in gone.map(|(key, d)| (key.clone(), d.uid.clone())).collect::<BTreeSet<_>>() {
                    self.drop_deployment(&key, &uid);
                }
            }
            // ReplicaSets that vanished own no pods any more; their pods' own deletions tell the rest.
            Kind::ReplicaSet => {}
            Kind::Pod => {
                let gone = self.pools.pods().filter(|p| inside(&p.namespace) && !seen.contains(&p.uid));
                for uid in gone.map(|p| p.uid.clone()).collect::<BTreeSet<_>>() {
                    self.forget_pod(&uid);
                }
            }
        }
        self.synced.insert((kind, scope));
        self.take_over();
    }

    /// The tick of an instant: never early, so rounded up.
    fn tick_of(&self, at: Timestamp) -> Tick {
        let ahead = at.duration_since(self.now.wall);
        match Duration::try_from(ahead) {
            Ok(ahead) => tick_ceil(self.now.mono.saturating_add(ahead)),
            Err(_) => tick_floor(self.now.mono),
        }
    }

    fn in_a_while(&self, wait: Duration) -> Timestamp {
        later(self.now.wall, wait)
    }
}

impl State {
    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// The line of a pool, made if it is not there.
    fn line(&mut self, key: &PoolKey) -> &mut Waiting {
        let Self { lines, pools, config, .. } = self;
        lines.entry(key.clone()).or_insert_with(|| Waiting {
            had_pods: pools.pods_of(key).any(|p| p.takes_tasks(config.allow_loopback)),
            ..Waiting::default()
        })
    }
}
