//! After each step of a life: its timer, its place in a line, its status write.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tracing::{error, info, warn};

use super::{Alarm, State};
use crate::api::{AxTask, AxTaskStatus, Phase};
use crate::cluster::events::Told;
use crate::cluster::status::{StatusWrite, Written};
use crate::domain::effective::{Missing, effective};
use crate::domain::lifecycle::later;
use crate::domain::lifecycle::{self, Event, Refusal, Rules, Step, Wake, reason};
use crate::domain::pool::PoolKey;
use crate::domain::ready::Place;
use crate::domain::{report, retry};
use crate::scheduler::input::Output;
use crate::scheduler::record::{Line, Record, Writing};
use crate::worker::wire;

/// How long after its timeout an attempt of which nothing is heard is given up. The hand keeps a late request open for
/// 30 s; this is for the case that it never reports.
const GIVEN_UP_AFTER: std::time::Duration = std::time::Duration::from_secs(45);

impl State {
    /// Takes an event into a task's life; logs a change of phase. `None`: no such task, or not leading.
    pub(super) fn step(&mut self, id: u64, event: Event) -> Option<Refusal> {
        let now = self.now.wall;
        let term = self.leader.as_ref().map_or(0, |l| l.term);
        let record = self.records.get_mut(&id)?;
        let execution = record.execution;
        let life = record.life.as_mut()?;
        let (phase, why, changed) = (life.phase, life.reason.clone(), life.changed_at);
        let roll = execution.map_or(1_000_000, |execution| retry::roll(&execution, life.attempt));
        let rules = Rules { retry: record.rules.clone(), roll };
        let notices = match life.step(event, &rules, now) {
            Step::Took(notices) => notices,
            Step::Refused(refusal) => return Some(refusal),
        };
        let moved = (phase, &why) != (life.phase, &life.reason);
        if moved || changed != life.changed_at || !notices.is_empty() {
            record.revision += 1;
        }
        record.notices.extend(notices.into_iter().map(|notice| (record.revision, notice)));
        if phase != life.phase {
            info!(
                task = %record.path,
                namespace = %record.namespace,
                term,
                execution_id = execution.map(tracing::field::display),
                attempt = life.attempt,
                pod = life.current.as_ref().map(|c| c.pod.as_str()),
                phase = life.phase.as_str(),
                reason = %life.reason,
                topic = record.spec.work.as_ref().and_then(|w| w.topic.as_deref()),
                template = record.spec.template_ref.as_ref().map(|r| r.name.as_str()),
                business_trace_id = record.trace_id.as_deref(),
                "task is {}", life.phase.as_str(),
            );
            if let Some(template) = record.template() {
                self.count(id);
                self.touch_template(template);
            }
        }
        None
    }

    /// Brings timer, line and write in line with the life.
    pub(super) fn settle(&mut self, id: u64) {
        if !self.is_leading() {
            return;
        }
        self.arm_wake(id);
        self.arm_overdue(id);
        self.take_place(id);
        self.leave_gates(id);
        self.plan_write(id);
    }

    /// Every running attempt has an end, even if the hand that was to report it never does.
    fn arm_overdue(&mut self, id: u64) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let running = record.life.as_ref().and_then(|l| l.current.as_ref());
        match (running.map(|c| c.timeout_at), record.overdue) {
            (Some(timeout_at), None) if record.presumed.is_none() => {
                let at = later(timeout_at.max(self.now.wall), GIVEN_UP_AFTER);
                let timer = self.timers.insert(self.tick_of(at), Alarm::Overdue(id));
                if let Some(record) = self.records.get_mut(&id) {
                    record.overdue = Some(timer);
                }
            }
            (None, Some(timer)) => {
                record.overdue = None;
                self.timers.cancel(timer);
            }
            _ => {}
        }
    }

    fn arm_wake(&mut self, id: u64) {
        loop {
            let Some(record) = self.records.get_mut(&id) else { return };
            let want = record.life.as_ref().and_then(lifecycle::wake);
            if record.wake.map(|(_, at)| at) == want.map(|(at, _)| at) {
                return;
            }
            if let Some((timer, _)) = record.wake.take() {
                self.timers.cancel(timer);
            }
            let Some((at, wake)) = want else { return };
            if at > self.now.wall {
                let timer = if record.waits_for_the_clock() {
                    self.timers.insert_wall(at, Alarm::Wake(id))
                } else {
                    self.timers.insert(self.tick_of(at), Alarm::Wake(id))
                };
                if let Some(record) = self.records.get_mut(&id) {
                    record.wake = Some((timer, at));
                }
                return;
            }
            // Due already: no way through the wheel, which would cost a tick.
            if !self.time_acts(id, wake) {
                return;
            }
        }
    }

    /// What time does to a life; whether it had an effect.
    fn time_acts(&mut self, id: u64, wake: Wake) -> bool {
        let current = self.records.get(&id).and_then(|r| r.life.as_ref()).and_then(|l| l.current.clone());
        let event = match wake {
            Wake::Due => Event::Due,
            Wake::Stall => Event::Stall,
            Wake::CancelGrace => Event::CancelGrace,
            Wake::Deadline => Event::DeadlinePassed,
        };
        if self.step(id, event).is_some() {
            return false;
        }
        // A worker that never confirmed the cancel holds its place no longer.
        if let (Wake::CancelGrace, Some(current), Some(record)) = (wake, current, self.records.get_mut(&id)) {
            record.owed.insert((Arc::from(current.pod_uid.as_str()), current.number));
            record.must_save = record.revision;
        }
        true
    }

    pub(super) fn woken(&mut self, id: u64) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some((_, at)) = record.wake.take() else { return };
        // Instants in status are the wall clock's, which may have been set back while elapsed time went on. What a
        // wheel says is due, is due.
        let wake = record.life.as_ref().and_then(lifecycle::wake).filter(|(want, _)| *want == at);
        if let Some((at, wake)) = wake {
            let wall = self.now.wall;
            self.now.wall = wall.max(at);
            self.time_acts(id, wake);
            self.now.wall = wall;
        }
        self.settle(id);
    }

    /// A due task takes its place in its pool's line, unless something must be persisted first.
    fn take_place(&mut self, id: u64) {
        let Some(record) = self.records.get(&id) else { return };
        let Some(life) = &record.life else { return };
        if life.phase != Phase::Ready {
            self.leave_line(id);
            return;
        }
        if record.line.is_some() || record.must_save > record.saved || record.unwritable == Some(record.version) {
            return;
        }
        // Found while an attempt ran.
        if let Some(problem) = record.problem.clone() {
            self.step(id, Event::Bury { reason: problem.reason, message: problem.message });
            return;
        }
        let template = record.template().and_then(|name| self.templates.get(&name));
        let effective = match effective(&record.spec, template.map(|t| &t.spec)) {
            Ok(effective) => effective,
            Err(missing) => {
                self.wait_for_missing(id, missing);
                return;
            }
        };
        let payload = effective.payload.as_ref().map_or(0, |p| p.get().len());
        if payload > wire::MAX_PAYLOAD {
            let message = format!("the template's payload has {payload} bytes, the limit is {}", wire::MAX_PAYLOAD);
            self.step(id, Event::Bury { reason: reason::PAYLOAD_TOO_LARGE, message });
            return;
        }
        let place = Place { priority: effective.priority, ready_at: life.queued_at, id };
        let deployment = effective.target.deployment.clone();
        let key = PoolKey { namespace: record.namespace.clone(), deployment };
        if let Some((reason, message)) = self.pools.why_blocked(&key, effective.target.port) {
            self.line(&key).blocked.insert(id);
            self.set_line(id, Line::Blocked(key));
            self.step(id, Event::Waits { reason, message });
            // A new reason to wait has its own time after which a person must act.
            self.arm_wake(id);
            return;
        }
        if let Err((reason, message)) = self.pass_gates(id, &effective, place) {
            self.step(id, Event::Waits { reason, message });
            return;
        }
        self.line(&key).queue.push(place);
        self.stirred.insert(key.clone());
        self.set_line(id, Line::Queued(key, place));
        let outside = |reason: &str| matches!(reason, reason::WAITING_FOR_KEY | reason::MAX_CONCURRENT);
        if record_reason(&self.records, id).is_some_and(|reason| reason::stalls(reason) || outside(reason)) {
            let message = "due, waiting for a place".to_owned();
            self.step(id, Event::Waits { reason: reason::QUEUED, message });
        }
    }

    fn wait_for_missing(&mut self, id: u64, missing: Missing) {
        let (reason, message) = match missing {
            Missing::Template(name) => (
                reason::TEMPLATE_NOT_FOUND,
                format!(
                    "AxTaskTemplate {name} does not exist in this namespace; create it, and the task goes on by itself"
                ),
            ),
            Missing::Worker => {
                let message =
                    "neither spec.templateRef nor spec.worker is set; create the task anew with one".to_owned();
                self.step(id, Event::Bury { reason: reason::INVALID, message });
                return;
            }
        };
        self.set_line(id, Line::NoTemplate);
        self.step(id, Event::Waits { reason, message });
        self.arm_wake(id);
    }

    fn set_line(&mut self, id: u64, line: Line) {
        if let Some(record) = self.records.get_mut(&id) {
            record.line = Some(line);
        }
    }

    /// Gives its place up.
    pub(super) fn leave_line(&mut self, id: u64) {
        let Some(line) = self.records.get_mut(&id).and_then(|r| r.line.take()) else { return };
        match line {
            Line::Queued(key, place) => {
                if let Some(waiting) = self.lines.get_mut(&key) {
                    waiting.queue.remove(place);
                }
            }
            Line::Blocked(key) => {
                if let Some(waiting) = self.lines.get_mut(&key) {
                    waiting.blocked.remove(&id);
                }
            }
            Line::NoTemplate => {}
            Line::Outside(gate, place) => self.give_up_gate(&gate, place),
        }
    }

    pub(super) fn plan_write(&mut self, id: u64) {
        let stopping = self.stopping;
        let now = self.now.wall;
        let Some(record) = self.records.get_mut(&id) else { return };
        if record.unwritable == Some(record.version) {
            // Nothing will be persisted: places are freed all the same, but nothing more is sent for it.
            self.free_owed(id);
            return;
        }
        let want = when_to_write(record, stopping, now);
        if record.writing.is_some() || record.write.map(|(_, at)| at) == want {
            return;
        }
        if let Some((timer, _)) = record.write.take() {
            self.timers.cancel(timer);
        }
        match want {
            None => {}
            Some(at) if at <= now => self.write_now(id),
            Some(at) => {
                let timer = self.timers.insert(self.tick_of(at), Alarm::Write(id));
                if let Some(record) = self.records.get_mut(&id) {
                    record.write = Some((timer, at));
                }
            }
        }
    }

    pub(super) fn write_due(&mut self, id: u64) {
        let Some(record) = self.records.get_mut(&id) else { return };
        record.write = None;
        if record.writing.is_some() {
            return;
        }
        self.say_why_it_waits(id);
        self.write_now(id);
    }

    /// What a queued task waits for is looked at when it is written, not with every change of the pool.
    fn say_why_it_waits(&mut self, id: u64) {
        let Some(record) = self.records.get(&id) else { return };
        let (Some(Line::Queued(key, _)), Some(life)) = (&record.line, &record.life) else { return };
        if life.phase != Phase::Ready {
            return;
        }
        let name = &key.deployment;
        let loopback = self.config.allow_loopback;
        let takers: Vec<_> = self.pools.pods_of(key).filter(|p| p.takes_tasks(loopback)).collect();
        let (reason, message) = if takers.is_empty() {
            (
                reason::NO_READY_WORKERS,
                format!("Deployment {name} has no ready pod; the task goes on by itself when one is"),
            )
        } else if takers.iter().all(|p| self.books.get(&p.uid).is_some_and(|b| b.rests(self.now.mono))) {
            // Each refusal has said more than this could.
            if life.reason == reason::PODS_REFUSING {
                return;
            }
            (reason::PODS_REFUSING, format!("all ready pods of Deployment {name} refuse tasks at present"))
        } else {
            (reason::WAITING_FOR_CREDIT, format!("all places in the pods of Deployment {name} are taken"))
        };
        self.step(id, Event::Waits { reason, message });
    }

    fn write_now(&mut self, id: u64) {
        let now = self.now.wall;
        let Some(term) = self.leader.as_ref().map(|l| l.term) else { return };
        let serial = self.next_serial();
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some(life) = &record.life else { return };
        let after = report::status(life, &record.written, record.generation, term, now);
        if says_the_same(&record.written, &after) {
            record.saved = record.revision;
            self.saved(id);
            // What waited for this write may go on.
            self.settle(id);
            return;
        }
        let json = |status| serde_json::to_value(status).unwrap_or(Value::Null);
        let patch = report::merge_patch(&json(&record.written), &json(&after));
        let write = StatusWrite {
            namespace: record.namespace.clone(),
            name: record.name.clone(),
            resource_version: record.version.to_string(),
            status: patch,
            term,
        };
        record.writing = Some(Writing { serial, revision: record.revision, status: after, shift: record.shift });
        self.writing += 1;
        self.out.push(Output::WriteTask { task: id, serial, write });
    }

    pub(super) fn task_written(&mut self, id: u64, serial: u64, result: Written<AxTask>) {
        let now = self.now;
        self.writing = self.writing.saturating_sub(1);
        let Some(record) = self.records.get_mut(&id) else { return };
        // The answer to a write of an earlier reign says nothing of this one's.
        let Some(writing) = record.writing.take_if(|w| w.serial == serial) else { return };
        match result {
            Written::Done(version) => {
                record.version = record.version.max(version.parse().unwrap_or(0));
                record.written = writing.status;
                record.shift = record.shift.saturating_sub(writing.shift);
                record.saved = record.saved.max(writing.revision);
                record.failed_writes = 0;
                record.hold_writes_until = None;
                self.saved(id);
                self.ended(id);
            }
            Written::Conflict(object) => {
                record.failed_writes += 1;
                // A few at once, then slowly: somebody edits it all the time.
                if record.failed_writes > 5 {
                    record.hold_writes_until = Some(later(now.wall, std::time::Duration::from_secs(1)));
                }
                let uid = record.uid.clone();
                if kube::Resource::meta(&*object).uid.as_deref() == Some(&uid) {
                    self.observe_task(*object, false, true);
                } else {
                    self.forget_task(&uid);
                    self.observe_task(*object, false, false);
                }
            }
            Written::Gone => {
                let uid = record.uid.clone();
                self.forget_task(&uid);
            }
            Written::Refused(why) => {
                error!(task = %record.path, error = %why, "the API server refuses this status; it is not repeated");
                record.unwritable = Some(record.version);
                record.saved = record.revision;
                self.drop_ahead(id, "its status cannot be written");
                let Some(record) = self.records.get_mut(&id) else { return };
                record.notices.clear();
                let told = lifecycle::Notice {
                    warning: true,
                    reason: "Inconsistent",
                    note: format!("the status could not be written: {why}"),
                };
                record.notices.push((0, told));
                self.saved(id);
            }
            Written::Failed(why) => {
                record.failed_writes += 1;
                let wait = std::time::Duration::from_millis(100 << record.failed_writes.min(6));
                record.hold_writes_until = Some(later(now.wall, wait));
                warn!(task = %record.path, error = %why, "status not written; it will be tried again");
            }
            // Lost, or led on under a raised term: decided again, if it is the latter.
            Written::NotLeader => {
                record.hold_writes_until = Some(later(now.wall, std::time::Duration::from_millis(100)));
            }
        }
        self.settle(id);
    }

    /// What is persisted now frees credits, lets the next attempt go, and may be told.
    fn saved(&mut self, id: u64) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let saved = record.saved;
        if record.saved >= record.must_save {
            self.free_owed(id);
            self.send_ahead(id);
        }
        let Some(record) = self.records.get_mut(&id) else { return };
        if record.life.as_ref().is_some_and(|l| l.replaced)
            && let Some(template) = record.template()
        {
            // Its tick is done with.
            self.touch_template(template);
        }
        let Some(record) = self.records.get_mut(&id) else { return };
        let (told, kept) =
            std::mem::take(&mut record.notices).into_iter().partition(|(revision, _)| *revision <= saved);
        record.notices = kept;
        let told: Vec<(u64, lifecycle::Notice)> = told;
        for (_, notice) in told {
            self.out.push(Output::Tell(Told {
                kind: "AxTask",
                namespace: record.namespace.clone(),
                name: record.name.clone(),
                uid: record.uid.clone(),
                notice,
            }));
        }
        // An ended task keeps what a later edit or question needs, not its payload.
        if record.life.as_ref().is_some_and(|l| l.phase.is_final())
            && let Some(work) = &mut record.spec.work
        {
            work.payload = None;
        }
    }

    /// An end that is persisted moves those that wait for the task, and its template.
    fn ended(&mut self, id: u64) {
        let Some(record) = self.records.get(&id).filter(|r| r.has_ended()) else { return };
        let name = (record.namespace.clone(), record.name.clone());
        let template = record.template();
        self.dependency_moved(&name);
        if let Some(template) = template {
            self.touch_template(template);
        }
    }

    fn free_owed(&mut self, id: u64) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some(execution) = record.execution else { return };
        for (pod, attempt) in std::mem::take(&mut record.owed) {
            self.give_back(&pod, &execution, attempt);
        }
    }

    /// SIGTERM: nothing more is sent, and what is known is written at once.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
        // What was to be written ahead has not started: the successor shall find it so.
        let ahead = self.records.iter().filter(|(_, record)| record.ahead.is_some()).map(|(id, _)| *id);
        for id in ahead.collect::<BTreeSet<_>>() {
            self.drop_ahead(id, "this replica stops");
        }
        for id in self.records.keys().copied().collect::<BTreeSet<_>>() {
            self.plan_write(id);
        }
    }
}

/// Whether a write would tell nothing new. While a task waits, each further refusal is counted, not written.
fn says_the_same(written: &AxTaskStatus, after: &AxTaskStatus) -> bool {
    let mut after = AxTaskStatus { term: written.term, ..after.clone() };
    if after.phase == Some(Phase::Ready) && written.phase == Some(Phase::Ready) && after.reason == written.reason {
        after.refusals = written.refusals;
        after.message.clone_from(&written.message);
    }
    after == *written
}

fn record_reason(records: &std::collections::HashMap<u64, Record>, id: u64) -> Option<&str> {
    records.get(&id)?.life.as_ref().map(|l| l.reason.as_ref())
}

fn when_to_write(record: &Record, stopping: bool, now: Timestamp) -> Option<Timestamp> {
    let life = record.life.as_ref()?;
    if record.unwritable == Some(record.version) {
        return None;
    }
    let shown = record.written.observed_generation.is_some();
    let edited = record.written.observed_generation != Some(record.generation);
    if record.saved >= record.revision && !(shown && edited) {
        return None;
    }
    let at = if record.must_save > record.saved { now } else { lifecycle::write_at(life, shown, edited, now)? };
    // Stopping, the successor shall see what runs; what only waits it sees by itself.
    let at = if stopping && life.phase != Phase::Pending { now } else { at };
    Some(record.hold_writes_until.map_or(at, |hold| hold.max(at)))
}
