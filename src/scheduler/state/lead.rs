//! How a replica begins to lead, and how it stops.
//!
//! In order: consistent lists of all templates and tasks; one inventory question to every pod of every opted-in Deployment, also
//! the terminating and the not-ready ones, at most 2 s; only then lives, timers and sends. So no task whose send was
//! lost with the last leader is started, cancelled or declared late before every pod could tell of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tracing::{info, warn};

use super::{Alarm, State, tick_ceil};
use crate::api::{Outcome, Phase};
use crate::cluster::takeover::Listing;
use crate::domain::answer::Failure;
use crate::domain::dispatch::{Destination, Inventory, Listed, Order};
use crate::domain::effective::{DEFAULT_TIMEOUT, effective, start_deadline};
use crate::domain::lifecycle::later;
use crate::domain::lifecycle::{Event, Life, Seen, Shown};
use crate::domain::pool::PoolKey;
use crate::scheduler::input::Output;

/// How long a finished attempt's answer is waited for when it is fetched after a takeover.
const FETCH: Duration = Duration::from_secs(5);
/// How long a pod that did not answer its inventory question counts as full.
const SILENT_REST: Duration = Duration::from_secs(10);
/// How often a pod that has seen a higher term is asked again.
const MAX_ASKS: u32 = 3;
/// How long a timed-out attempt holds its place, if its worker does not say.
const TIMED_OUT_HOLDS: Duration = Duration::from_secs(30);
/// The longest that pods are asked for, all told: three questions of 2 s.
const ASK_FOR: Duration = Duration::from_secs(6);
/// How soon a list that failed is tried again.
const LIST_AGAIN: Duration = Duration::from_millis(500);

/// Where a pod is asked: its uid and a port.
type Door = (String, u16);

/// This replica leads, or is about to.
#[derive(Debug)]
pub(super) struct Leader {
    pub term: u64,
    /// The term this reign began with; it may be raised meanwhile.
    pub since_term: u64,
    may_start_at: Duration,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The caches are not complete yet, or the list is to be begun anew.
    Syncing,
    /// The consistent list is under way.
    Listing,
    /// The pods of running attempts that the caches do not know are being read.
    Fetching,
    /// These have not answered yet, with how often each was asked; these have.
    /// Whatever they do, the questions end.
    Asking {
        pending: BTreeMap<Door, u32>,
        answers: BTreeMap<Door, Inventory>,
        until: Duration,
    },
    Leading,
}

impl State {
    /// Whether lives are kept here.
    pub(super) fn is_leading(&self) -> bool {
        self.leader.as_ref().is_some_and(|l| matches!(l.stage, Stage::Leading))
    }

    /// Whether anything may be sent.
    pub(super) fn may_send(&self) -> bool {
        self.is_leading() && !self.stopping
    }

    pub(super) fn acquired(&mut self, term: u64, may_start_at: Duration) {
        self.step_down();
        info!(term, "leading; listing templates and tasks before anything is sent");
        self.leader = Some(Leader { term, since_term: term, may_start_at, stage: Stage::Syncing });
        self.take_over();
    }

    pub(super) fn term_raised(&mut self, term: u64) {
        let Some(leader) = &mut self.leader else { return };
        leader.term = leader.term.max(term);
        let Stage::Asking { pending, .. } = &leader.stage else { return };
        let again = pending.keys().cloned().collect::<Vec<_>>();
        for door in again {
            self.ask(&door);
        }
        self.take_over();
    }

    /// The takeover's next step, if it is time for it.
    pub(super) fn take_over(&mut self) {
        let synced = self.is_synced();
        let Some(leader) = &mut self.leader else { return };
        match &leader.stage {
            Stage::Syncing if synced => {
                leader.stage = Stage::Listing;
                self.out.push(Output::List { reign: leader.since_term });
            }
            Stage::Asking { pending, until, .. } if pending.is_empty() || *until <= self.now.mono => {
                if self.now.mono < leader.may_start_at {
                    self.timers.insert(tick_ceil(leader.may_start_at), Alarm::Takeover);
                } else {
                    self.lead();
                }
            }
            Stage::Syncing | Stage::Listing | Stage::Fetching | Stage::Asking { .. } | Stage::Leading => {}
        }
    }

    pub(super) fn listed(&mut self, reign: u64, result: Result<Listing, String>) {
        let Some(leader) = &mut self.leader else { return };
        if !matches!(leader.stage, Stage::Listing) || leader.since_term != reign {
            return;
        }
        let Listing { tasks, tasks_at: version, templates, templates_at } = match result {
            Ok(listed) => listed,
            Err(error) => {
                self.begin_anew(&error);
                return;
            }
        };
        let mut there = BTreeSet::new();
        for template in templates {
            there.extend(kube::Resource::meta(&template).uid.clone());
            self.observe_template(template);
        }
        self.templates_missing(templates_at, &there);
        there.clear();
        self.listed_at = 0;
        for task in tasks {
            there.extend(kube::Resource::meta(&task).uid.clone());
            self.observe_task(task, false, false);
        }
        // What an even later event still shows, though it is not listed, is gone.
        self.listed_at = self.listed_at.max(if version == u64::MAX { 0 } else { version });
        let gone = self.records.values().filter(|r| r.version <= version && !there.contains(&r.uid));
        for uid in gone.map(|r| r.uid.clone()).collect::<Vec<_>>() {
            self.forget_task(&uid);
        }
        let unknown = self.unknown_pods();
        match &mut self.leader {
            Some(leader) if !unknown.is_empty() => {
                leader.stage = Stage::Fetching;
                self.out.push(Output::FetchPods { reign, pods: unknown });
            }
            _ => self.ask_all(),
        }
    }

    /// Pods on which attempts are recorded as running and which the caches do not know: gone, or not yet seen.
    fn unknown_pods(&self) -> Vec<(String, String)> {
        let running = self.records.values().filter(|r| r.written.phase == Some(Phase::Running));
        let pods = running.filter_map(|record| {
            let attempt = record.written.attempts.last()?;
            let unknown = self.pools.pod(attempt.pod_uid.as_deref()?).is_none();
            unknown.then_some((record.namespace.clone(), attempt.pod.clone()?))
        });
        pods.collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub(super) fn fetched(&mut self, reign: u64, result: Result<Vec<Pod>, String>) {
        if !self.leader.as_ref().is_some_and(|l| matches!(l.stage, Stage::Fetching) && l.since_term == reign) {
            return;
        }
        match result {
            Ok(pods) => {
                for pod in pods {
                    self.observe_pod(&pod);
                }
                self.ask_all();
            }
            Err(error) => self.begin_anew(&error),
        }
    }

    fn begin_anew(&mut self, error: &str) {
        let Some(leader) = &mut self.leader else { return };
        warn!(term = leader.term, error, "a takeover's reads failed; they are begun anew");
        leader.stage = Stage::Syncing;
        let at = tick_ceil(self.now.mono + LIST_AGAIN);
        self.timers.insert(at, Alarm::Takeover);
    }

    fn ask_all(&mut self) {
        let loopback = self.config.allow_loopback;
        let used = self.ports_in_use();
        let mut pending: BTreeMap<Door, u32> = BTreeMap::new();
        for pod in self.pools.pods().filter(|pod| pod.may_be_asked(loopback)) {
            let Some(key) = self.pools.key_of(pod) else { continue };
            let Some(deployment) = self.pools.deployment(key).filter(|d| d.opted_in) else { continue };
            // The ports tasks name; a pool no open task names may still hold what nobody knows of.
            let declared = deployment.ports.iter().copied();
            let named = used.get(key).into_iter().flatten().copied().filter(|port| deployment.ports.contains(port));
            let ports: BTreeSet<u16> =
                if used.contains_key(key) { named.collect() } else { declared.take(1).collect() };
            pending.extend(ports.into_iter().map(|port| ((pod.uid.clone(), port), 0)));
        }
        let doors: Vec<Door> = pending.keys().cloned().collect();
        let Some(leader) = &mut self.leader else { return };
        info!(term = leader.term, pods = doors.len(), "asking pods for their inventories");
        let until = self.now.mono + ASK_FOR;
        leader.stage = Stage::Asking { pending, answers: BTreeMap::new(), until };
        self.timers.insert(tick_ceil(until), Alarm::Takeover);
        for door in doors {
            self.ask(&door);
        }
        self.take_over();
    }

    /// The ports to which open tasks are sent, by pool.
    fn ports_in_use(&self) -> BTreeMap<PoolKey, BTreeSet<u16>> {
        let mut used: BTreeMap<PoolKey, BTreeSet<u16>> = BTreeMap::new();
        for record in self.records.values().filter(|r| !r.written.phase.is_some_and(Phase::is_final)) {
            let template = record.template().and_then(|name| self.templates.get(&name));
            if let Ok(effective) = effective(&record.spec, template.map(|t| &t.spec)) {
                let key = PoolKey { namespace: record.namespace.clone(), deployment: effective.target.deployment };
                used.entry(key).or_default().insert(effective.target.port);
            }
        }
        used
    }

    fn ask(&mut self, door: &Door) {
        let Some(leader) = &mut self.leader else { return };
        let reign = leader.since_term;
        let Stage::Asking { pending, .. } = &mut leader.stage else { return };
        let Some((pod, ip)) = self.pools.pod(&door.0).and_then(|p| Some((p, p.ip?))) else {
            pending.remove(door);
            return;
        };
        if let Some(asks) = pending.get_mut(door) {
            *asks += 1;
        }
        let pod = Destination {
            uid: Arc::from(pod.uid.as_str()),
            name: Arc::from(pod.name.as_str()),
            addr: (ip, door.1).into(),
        };
        self.out.push(Output::Order(Order::Ask { pod, reign }));
    }

    pub(super) fn inventory(&mut self, pod: &Destination, reign: u64, inventory: Inventory) {
        if self.leader.as_ref().is_none_or(|l| l.since_term != reign) {
            return;
        }
        if let Inventory::LowerTerm(seen) = inventory {
            self.saw_higher_term(seen);
        }
        let door = (pod.uid.to_string(), pod.addr.port());
        let Some(leader) = &mut self.leader else { return };
        let term = leader.term;
        let Stage::Asking { pending, answers, .. } = &mut leader.stage else { return };
        match (&inventory, pending.get(&door)) {
            (_, None) => return,
            // Asked again once the term is raised above what that pod has seen; if it never is, the questions end.
            (Inventory::LowerTerm(Some(seen)), Some(asks)) if *asks < MAX_ASKS && *seen >= term => return,
            (_, Some(_)) => {}
        }
        pending.remove(&door);
        answers.insert(door, inventory);
        self.take_over();
    }

    /// Every pod was heard or given up: lives begin.
    fn lead(&mut self) {
        let Some(leader) = &mut self.leader else { return };
        let Stage::Asking { pending, mut answers, .. } = std::mem::replace(&mut leader.stage, Stage::Leading) else {
            return;
        };
        answers.extend(pending.into_keys().map(|door| (door, Inventory::Silent)));
        let term = leader.term;
        let ids: Vec<u64> = {
            let mut ids: Vec<u64> = self.records.keys().copied().collect();
            ids.sort_unstable();
            ids
        };
        for id in &ids {
            self.revive(*id);
        }
        let listed = self.take_inventories(&answers, term);
        for id in &ids {
            self.adopt(*id, &answers, &listed);
        }
        for id in &ids {
            self.keep_inside(*id);
        }
        self.reviving = true;
        for id in &ids {
            self.apply_wants(*id);
        }
        self.reviving = false;
        self.end_cycles(&ids);
        for id in self.in_ready_order(ids.iter().copied()) {
            self.settle(id);
        }
        for name in self.templates.keys().cloned().collect::<BTreeSet<_>>() {
            self.take_schedule_over(&name);
            self.touch_template(name);
        }
        self.take_held();
        info!(term, tasks = ids.len(), "takeover complete; sending");
    }

    /// A life from what is recorded.
    pub(super) fn revive(&mut self, id: u64) {
        let now = self.now.wall;
        let offset = self.offset;
        let Some(record) = self.records.get_mut(&id) else { return };
        let template = record.template().and_then(|name| self.templates.get(&name));
        let ready_at = record.ready_at(offset);
        let seen = Seen {
            ready_at,
            suspend: record.spec.suspend,
            cancel: record.spec.cancel.unwrap_or(false),
            deadline: start_deadline(&record.spec, template.map(|t| &t.spec)),
        };
        let fresh = record.written.observed_generation.is_none() && record.written.attempts.is_empty();
        let mut life = if fresh { Life::new(ready_at, now) } else { Life::resume(&record.written, seen, now) };
        if !fresh && !record.shift.is_zero() {
            // The ready time has it already.
            life.clock_set(record.shift, true);
        }
        record.life = Some(life);
        record.revision += 1;
        record.saved = 0;
        record.must_save = 0;
        self.count(id);
    }

    /// What pods list that is not recorded, or recorded for another pod; gives back what each execution is listed as.
    fn take_inventories(&mut self, answers: &BTreeMap<Door, Inventory>, term: u64) -> BTreeMap<u64, Listed> {
        let mut listed = BTreeMap::new();
        for ((uid, _), inventory) in answers {
            let Inventory::Lists(executions) = inventory else {
                if matches!(inventory, Inventory::Silent | Inventory::LowerTerm(_)) {
                    self.books.entry(uid.clone()).or_default().rest(self.now.mono + SILENT_REST);
                }
                continue;
            };
            for entry in executions {
                let Some(id) = self.by_execution.get(&entry.execution).copied() else { continue };
                if self.show(id, uid, *entry, term) {
                    listed.insert(id, *entry);
                }
            }
        }
        listed
    }

    /// Whether the entry is the task's attempt under way.
    fn show(&mut self, id: u64, pod_uid: &str, entry: Listed, term: u64) -> bool {
        let Some(record) = self.records.get(&id) else { return false };
        let template = record.template().and_then(|name| self.templates.get(&name));
        let effective = effective(&record.spec, template.map(|t| &t.spec));
        let timeout = effective.as_ref().map_or(DEFAULT_TIMEOUT, |e| e.timeout);
        let name = self.pools.pod(pod_uid).map(|p| p.name.clone()).unwrap_or_default();
        let shown = Shown {
            number: entry.attempt,
            pod: name,
            pod_uid: pod_uid.to_owned(),
            term,
            timeout_at: later(self.now.wall, timeout),
        };
        if let (Some(record), Ok(effective)) = (self.records.get_mut(&id), effective) {
            record.rules = effective.retry;
        }
        self.step(id, Event::Shown(shown)).is_none()
    }

    /// What runs already, or has had its turn, is inside its gates before anybody else is let in.
    pub(super) fn keep_inside(&mut self, id: u64) {
        let Some(record) = self.records.get(&id) else { return };
        let Some(life) = record.life.as_ref().filter(|l| !l.phase.is_final()) else { return };
        let at_work = life.phase == Phase::Running
            || record.execution.is_some_and(|execution| self.books.values().any(|b| b.holds(&execution)));
        let had_turn = life.start_time.is_some();
        let template = record.template().and_then(|name| self.templates.get(&name));
        match effective(&record.spec, template.map(|t| &t.spec)) {
            Ok(effective) if at_work => self.occupy_gates(id, &effective),
            // Between two attempts others have the key.
            Ok(effective) if had_turn => self.occupy_turn(id, &effective),
            Err(_) if at_work => self.occupy_own_key(id),
            Ok(_) | Err(_) => {}
        }
    }

    /// A running attempt goes on under this leader.
    fn adopt(&mut self, id: u64, answers: &BTreeMap<Door, Inventory>, listed: &BTreeMap<u64, Listed>) {
        let Some(record) = self.records.get(&id) else { return };
        let (Some(life), Some(execution)) = (&record.life, record.execution) else { return };
        let Some(current) = life.current.clone().filter(|_| life.phase == Phase::Running) else {
            self.hold_timed_out(id);
            return;
        };
        let template = record.template().and_then(|name| self.templates.get(&name));
        let effective = effective(&record.spec, template.map(|t| &t.spec)).ok();
        let door = effective.as_ref().map(|e| (current.pod_uid.clone(), e.target.port));
        if let (Some(effective), Some(record)) = (effective, self.records.get_mut(&id)) {
            record.rules = effective.retry;
        }
        let number = current.number;
        if self.pools.pod(&current.pod_uid).is_none() {
            let failure = Failure::stated("WorkerLost", "its pod is gone");
            self.end_adopted(id, Event::Failed { number, outcome: Outcome::WorkerLost, failure });
            return;
        }
        self.books.entry(current.pod_uid.clone()).or_default().take(execution, number);
        let remains = Duration::try_from(current.timeout_at.duration_since(self.now.wall)).unwrap_or_default();
        match (door.and_then(|door| answers.get(&door)), listed.get(&id)) {
            (_, Some(entry)) if entry.finished => self.ask_again(id, remains.max(FETCH)),
            (Some(Inventory::KeepsNone), _) => self.presume(id),
            _ if remains.is_zero() => {
                let failure = Failure::stated("TimedOut", "no answer within the timeout");
                self.end_adopted(id, Event::Failed { number, outcome: Outcome::TimedOut, failure });
                let free_at = self.tick_of(self.in_a_while(TIMED_OUT_HOLDS));
                self.timers.insert(free_at, Alarm::Free { pod: current.pod_uid, execution, attempt: number });
            }
            _ => self.ask_again(id, remains),
        }
    }

    fn end_adopted(&mut self, id: u64, event: Event) {
        self.step(id, event);
        if let Some(record) = self.records.get_mut(&id) {
            record.must_save = record.revision;
        }
    }

    /// A timed-out attempt holds its place for 30 s: its worker may still be at it.
    fn hold_timed_out(&mut self, id: u64) {
        let Some(record) = self.records.get(&id) else { return };
        let (Some(life), Some(execution)) = (&record.life, record.execution) else { return };
        let Some(entry) = life.entry(life.attempt).filter(|a| a.outcome == Some(Outcome::TimedOut)) else { return };
        let (Some(pod), Some(finished)) = (entry.pod_uid.clone(), entry.finish_time) else { return };
        let free_at = later(finished.0, TIMED_OUT_HOLDS);
        if free_at > self.now.wall && self.pools.pod(&pod).is_some() {
            let attempt = life.attempt;
            self.books.entry(pod.clone()).or_default().take(execution, attempt);
            self.timers.insert(self.tick_of(free_at), Alarm::Free { pod, execution, attempt });
        }
    }

    /// Leads no more: lives, timers and lines go, what the API server says stays.
    pub(super) fn step_down(&mut self) {
        if self.leader.take().is_some() {
            info!("leading no more");
        }
        for record in self.records.values_mut() {
            record.life = None;
            record.line = None;
            record.wake = None;
            record.write = None;
            record.presumed = None;
            record.overdue = None;
            record.writing = None;
            record.notices.clear();
            record.owed.clear();
            record.must_save = 0;
            record.failed_writes = 0;
            record.hold_writes_until = None;
            record.gates.clear();
            record.ahead = None;
            record.removing_until = None;
        }
        self.gates.clear();
        self.orphans.clear();
        self.timers.clear();
        self.lines.clear();
        self.books.clear();
        self.stirred.clear();
        self.touched.clear();
        self.template_round = false;
        self.hold_sends_until = None;
        self.templates_step_down();
    }
}
