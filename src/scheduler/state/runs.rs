//! The runs a template's schedule and `ax.dev/trigger` make.
//!
//! A schedule has one armed timer, for its cursor: the first tick that is not handled. The status records the cursor
//! only when the runs before it exist, so a successor repeats at most what is there already, and finds it by name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use tracing::{info, warn};

use super::{Alarm, State, tick_ceil};
use crate::api::template_status::Missed;
use crate::api::{AxTaskTemplateSpec, ConcurrencyPolicy, Instant, Phase};
use crate::cluster::runs::{Made, Removal};
use crate::domain::effective::DEFAULT_HISTORY;
use crate::domain::lifecycle::{Event, Notice, later};
use crate::domain::run::{self, Cause, Owner};
use crate::domain::schedule::{Refused, Schedule};
use crate::domain::ticks::{self, Rules, owed};
use crate::scheduler::input::{Name, Output};
use crate::scheduler::record::Record;
use crate::scheduler::timers::Timer;

/// How many missed ticks are made up where nobody says.
const DEFAULT_CATCH_UP: u32 = 1;
/// A deletion that had no effect is ordered again after this.
const REMOVE_AGAIN: Duration = Duration::from_secs(10);

/// What the leader knows of one template's runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    schedule: Option<Schedule>,
    /// Why there is no schedule although the spec has one.
    pub refused: Option<Refused>,
    /// The first tick that is not handled.
    cursor: Option<Timestamp>,
    timer: Option<Timer>,
    /// Being made.
    making: BTreeMap<Cause, Making>,
    /// To be made one after the other, so that they come into sight in order (`Queue`); or not yet decided, since an
    /// earlier one fails to be made (`Forbid`).
    held: VecDeque<Cause>,
    /// Ticks, and the runs that theirs replaces: until that is persisted a successor has to know of it.
    replacing: Vec<(Timestamp, u64)>,
    /// Made, and not seen yet.
    unseen: BTreeSet<String>,
    /// Nominal time of the newest run the schedule made.
    pub last: Option<Timestamp>,
    pub missed: Option<Missed>,
    /// The value of `ax.dev/trigger` that was acted on last.
    pub handled: Option<String>,
    /// A value that is being acted on.
    heeding: Option<String>,
}

#[derive(Debug)]
struct Making {
    serial: u64,
    failures: u32,
}

impl Runs {
    /// The first tick of which it is not sure that it has had its effect: where a successor goes on. `saved`: whether
    /// what is known of a task is persisted.
    pub fn first_open_tick(&self, saved: impl Fn(u64) -> bool) -> Option<Timestamp> {
        let making = self.making.keys().chain(&self.held).filter_map(|cause| match cause {
            Cause::Tick(nominal) => Some(*nominal),
            Cause::Trigger(_) => None,
        });
        let replacing = self.replacing.iter().filter(|(_, id)| !saved(*id)).map(|(nominal, _)| *nominal);
        making.chain(replacing).chain(self.cursor).min()
    }
}

impl State {
    /// A leader goes on where the status says the last one was.
    pub(super) fn take_schedule_over(&mut self, key: &Name) {
        let now = self.now.wall;
        let Some(template) = self.templates.get_mut(key) else { return };
        let status = &template.written;
        let mut runs = Runs {
            last: status.last_schedule_time.map(|t| t.0),
            missed: status.missed.clone(),
            handled: status.handled.as_ref().and_then(|h| h.trigger.clone()),
            ..Runs::default()
        };
        match read(&template.spec, template.created) {
            Ok(schedule) => runs.schedule = schedule,
            Err(refused) => runs.refused = Some(refused),
        }
        if let Some(schedule) = runs.schedule.as_ref().filter(|_| !template.spec.suspend) {
            runs.cursor = match status.observed_generation {
                // Made while nobody led: every tick since counts.
                None if template.generation <= 1 => schedule.next(template.created),
                Some(seen) if seen == template.generation => {
                    status.next_schedule_time.map(|t| t.0).or_else(|| schedule.next(now))
                }
                // Edited, and nobody took it up.
                None | Some(_) => {
                    let open = status.next_schedule_time.map(|t| t.0);
                    after_edit(schedule, open, rules(&template.spec, &template.uid).offset, now)
                }
            };
        }
        let old = std::mem::replace(&mut template.runs, runs);
        if let Some(timer) = old.timer {
            self.timers.cancel(timer);
        }
        self.arm_tick(key);
        self.heed_trigger(key);
    }

    /// The schedule or `suspend` was edited: it counts from now. `resumed`: `suspend` alone was, and is no more.
    pub(super) fn schedule_edited(&mut self, key: &Name, resumed: bool) {
        let now = self.now.wall;
        let Some(template) = self.templates.get_mut(key) else { return };
        let (schedule, refused) = match read(&template.spec, template.created) {
            Ok(schedule) => (schedule, None),
            Err(refused) => (None, Some(refused)),
        };
        let runs = &mut template.runs;
        // Ticks of the old schedule that still wait to be made are not.
        runs.held.retain(|cause| matches!(cause, Cause::Trigger(_)));
        runs.making.retain(|cause, making| making.failures == 0 || matches!(cause, Cause::Trigger(_)));
        let offset = rules(&template.spec, &template.uid).offset;
        runs.cursor = match schedule.as_ref().filter(|_| !template.spec.suspend) {
            // What `spread` has put off until now or later was not suspended.
            Some(schedule) if resumed => schedule.next(earlier(now, offset).max(template.created)),
            Some(schedule) => after_edit(schedule, runs.cursor, offset, now),
            None => None,
        };
        (runs.schedule, runs.refused) = (schedule, refused);
        self.arm_tick(key);
    }

    /// A template is gone: its timer too.
    pub(super) fn drop_runs(&mut self, key: &Name) {
        if let Some(timer) = self.templates.get_mut(key).and_then(|t| t.runs.timer.take()) {
            self.timers.cancel(timer);
        }
    }

    fn arm_tick(&mut self, key: &Name) {
        let Some(template) = self.templates.get_mut(key) else { return };
        if let Some(timer) = template.runs.timer.take() {
            self.timers.cancel(timer);
        }
        if let Some(cursor) = template.runs.cursor {
            let at = later(cursor, rules(&template.spec, &template.uid).offset);
            template.runs.timer = Some(self.timers.insert_wall(at, Alarm::Tick(key.clone())));
        }
    }

    /// A template's next run is due.
    pub(super) fn tick(&mut self, key: &Name) {
        let now = self.now.wall;
        let Some(template) = self.templates.get_mut(key) else { return };
        template.runs.timer = None;
        let (Some(schedule), Some(cursor)) = (&template.runs.schedule, template.runs.cursor) else { return };
        let owed = owed(schedule, cursor, rules(&template.spec, &template.uid), now);
        template.runs.cursor = owed.next;
        let records = &self.records;
        template.runs.replacing.retain(|(_, id)| records.get(id).is_some_and(|run| run.saved < run.revision));
        if let Some(missed) = owed.missed {
            let note =
                format!("{} runs were missed, the last at {}: {}", missed.count, missed.last, missed.why.as_str());
            self.miss(key, missed.count, missed.last, missed.why.as_str(), note);
        }
        let replaces =
            self.templates.get(key).and_then(|t| t.spec.concurrency_policy) == Some(ConcurrencyPolicy::Replace);
        // Each would replace the one before: only the newest would stay.
        let skip = if replaces { owed.make.len().saturating_sub(1) } else { 0 };
        for nominal in owed.make.into_iter().skip(skip) {
            self.run_due(key, Cause::Tick(nominal));
        }
        self.arm_tick(key);
        self.touch_template(key.clone());
    }

    fn miss(&mut self, key: &Name, count: u64, last: Timestamp, why: &str, note: String) {
        let Some(template) = self.templates.get_mut(key) else { return };
        let total = template.runs.missed.as_ref().map_or(0, |m| m.total);
        template.runs.missed = Some(Missed {
            total: total.saturating_add(i64::try_from(count).unwrap_or(i64::MAX)),
            last_time: Some(Instant(last)),
            reason: Some(why.to_owned()),
        });
        warn!(template = %key.1, namespace = %key.0, count, "{note}");
        template.notices.push(Notice { warning: true, reason: "TickMissed", note });
    }

    /// A new value of `ax.dev/trigger` makes a run now, also while suspended.
    pub(super) fn heed_trigger(&mut self, key: &Name) {
        let Some(template) = self.templates.get_mut(key) else { return };
        let Some(value) = template.trigger.clone() else { return };
        let runs = &mut template.runs;
        if runs.handled.as_ref() == Some(&value) || runs.heeding.as_ref() == Some(&value) {
            return;
        }
        runs.heeding = Some(value.clone());
        self.run_due(key, Cause::Trigger(value));
        self.touch_template(key.clone());
    }

    /// The policy says whether a run is made.
    fn run_due(&mut self, key: &Name, cause: Cause) {
        let Some(template) = self.templates.get(key) else { return };
        let policy = template.spec.concurrency_policy.unwrap_or_default();
        let open = self.open_runs(&template.uid);
        let unseen = template.runs.making.len() + template.runs.unseen.len();
        // Whether it comes to be is open; either way the newest tick gets its run or its turn.
        let failing = template.runs.unseen.is_empty() && template.runs.making.values().all(|m| m.failures > 0);
        let owner = Owner { namespace: &key.0, name: &key.1, uid: &template.uid };
        let name = run::name(owner, &cause);
        match policy {
            ConcurrencyPolicy::Allow => {}
            ConcurrencyPolicy::Queue => {
                if let Some(template) = self.templates.get_mut(key) {
                    template.runs.held.push_back(cause);
                }
                self.make_held(key);
                return;
            }
            ConcurrencyPolicy::Forbid if open.is_empty() && unseen == 0 => {}
            // A run that is there already is this one, made before a failover.
            ConcurrencyPolicy::Forbid if self.is_run(&template.uid, &key.0, &name) => {}
            ConcurrencyPolicy::Forbid if open.is_empty() && failing => {
                if let Some(template) = self.templates.get_mut(key) {
                    template.runs.held.push_back(cause);
                }
                return;
            }
            ConcurrencyPolicy::Forbid => {
                let note = format!("run {name} is skipped: another run is open (concurrencyPolicy: Forbid)");
                self.notice(key, true, "RunSkipped", note);
                self.caused(key, &cause);
                return;
            }
            ConcurrencyPolicy::Replace => {
                // A run that is there already is this one, made before a failover: who it replaces may not know yet.
                let this = self.by_name.get(&(key.0.clone(), name.clone())).copied();
                let created = |id: &u64| self.records.get(id).map(|run| run.created);
                let before_this = |id: &u64| this.is_none_or(|this| *id != this && created(id) <= created(&this));
                let open: Vec<u64> = open.into_iter().filter(before_this).collect();
                if !open.is_empty() {
                    let note = format!("run {name} replaces {} open runs (concurrencyPolicy: Replace)", open.len());
                    self.notice(key, true, "RunReplaced", note);
                }
                for id in open {
                    self.step(id, Event::Replaced { by: name.clone() });
                    self.settle(id);
                    if let (Cause::Tick(nominal), Some(template)) = (&cause, self.templates.get_mut(key)) {
                        template.runs.replacing.push((*nominal, id));
                    }
                }
            }
        }
        self.make(key, cause, 0);
    }

    /// Makes the next of the runs that are made one after the other.
    fn make_held(&mut self, key: &Name) {
        let Some(template) = self.templates.get_mut(key) else { return };
        let queues = template.spec.concurrency_policy == Some(ConcurrencyPolicy::Queue);
        let runs = &mut template.runs;
        if runs.making.is_empty()
            && runs.unseen.is_empty()
            && let Some(cause) = runs.held.pop_front()
        {
            if queues {
                self.make(key, cause, 0);
            } else {
                self.run_due(key, cause);
            }
        }
    }

    fn make(&mut self, key: &Name, cause: Cause, failures: u32) {
        let serial = self.next_serial();
        let Some(term) = self.leader.as_ref().map(|l| l.term) else { return };
        let Some(template) = self.templates.get_mut(key) else { return };
        let owner = Owner { namespace: &key.0, name: &key.1, uid: &template.uid };
        let offset = rules(&template.spec, &template.uid).offset;
        let run = Box::new(run::build(owner, &template.spec, &cause, offset));
        template.runs.making.insert(cause, Making { serial, failures });
        self.making += 1;
        self.out.push(Output::MakeRun { template: key.clone(), serial, run, term });
    }

    pub(super) fn make_again(&mut self, key: &Name, cause: &Cause) {
        let Some(template) = self.templates.get(key) else { return };
        let Some(making) = template.runs.making.get(cause) else { return };
        let failures = making.failures;
        // What would not be made up after an outage is not made after one of the API server's either.
        if let (Cause::Tick(nominal), Some(schedule)) = (cause, &template.runs.schedule)
            && !owed(schedule, *nominal, rules(&template.spec, &template.uid), self.now.wall).make.contains(nominal)
        {
            let nominal = *nominal;
            let owner = Owner { namespace: &key.0, name: &key.1, uid: &template.uid };
            // The answer to its creation may have been lost.
            let is_there = self.is_run(&template.uid, &key.0, &run::name(owner, cause));
            if let Some(template) = self.templates.get_mut(key) {
                template.runs.making.remove(cause);
                if is_there {
                    template.runs.last = template.runs.last.max(Some(nominal));
                }
            }
            if is_there {
                self.caused(key, cause);
                return;
            }
            let note = format!("the run of {nominal} was not made: the API server would not take it in time");
            self.miss(key, 1, nominal, "CreateFailed", note);
            self.caused(key, cause);
            return;
        }
        self.make(key, cause.clone(), failures);
    }

    pub(super) fn run_made(&mut self, key: &Name, name: &str, serial: u64, result: Made) {
        self.making = self.making.saturating_sub(1);
        let Some(template) = self.templates.get_mut(key) else { return };
        let found = template.runs.making.iter().find(|(_, making)| making.serial == serial);
        let Some((cause, failures)) = found.map(|(cause, making)| (cause.clone(), making.failures)) else { return };
        let uid = template.uid.clone();
        let refused = match result {
            Made::Done => {
                if !self.by_name.contains_key(&(key.0.clone(), name.to_owned()))
                    && let Some(template) = self.templates.get_mut(key)
                {
                    template.runs.unseen.insert(name.to_owned());
                }
                None
            }
            Made::Taken(task) if run::made_by(kube::Resource::meta(&*task)).is_some_and(|(owner, _)| owner == uid) => {
                self.observe_task(*task, false, false);
                None
            }
            Made::Taken(_) => Some(("NameTaken", "another task has its name; rename or delete that".to_owned())),
            Made::Refused(why) => Some(("CreateRefused", why)),
            Made::Failed(why) => {
                let wait = Duration::from_millis(100 << failures.min(6));
                warn!(template = %key.1, namespace = %key.0, run = name, error = %why, "run not made; it will be tried again");
                if let Some(making) = self.templates.get_mut(key).and_then(|t| t.runs.making.get_mut(&cause)) {
                    making.failures = failures.saturating_add(1);
                }
                self.timers.insert(tick_ceil(self.now.mono + wait), Alarm::Make(key.clone(), cause));
                return;
            }
            // Lost, or led on under a raised term: decided again, if it is the latter.
            Made::NotLeader => {
                let at = tick_ceil(self.now.mono + Duration::from_millis(100));
                self.timers.insert(at, Alarm::Make(key.clone(), cause));
                return;
            }
        };
        let Some(template) = self.templates.get_mut(key) else { return };
        template.runs.making.remove(&cause);
        match (&refused, &cause) {
            (None, Cause::Tick(nominal)) => {
                template.runs.last = template.runs.last.max(Some(*nominal));
                info!(template = %key.1, namespace = %key.0, run = name, "run made");
            }
            (None, Cause::Trigger(value)) => {
                let note = format!("ax.dev/trigger {value:?} made run {name}");
                template.notices.push(Notice { warning: false, reason: "Triggered", note });
                info!(template = %key.1, namespace = %key.0, run = name, "run made by trigger");
            }
            (Some((why, message)), Cause::Tick(nominal)) => {
                let note = format!("run {name} was not made: {message}");
                self.miss(key, 1, *nominal, why, note);
            }
            (Some((_, message)), Cause::Trigger(value)) => {
                let note = format!("ax.dev/trigger {value:?} made no run: {message}");
                template.notices.push(Notice { warning: true, reason: "TickMissed", note });
            }
        }
        self.caused(key, &cause);
    }

    /// A cause has had its effect.
    fn caused(&mut self, key: &Name, cause: &Cause) {
        if let (Cause::Trigger(value), Some(template)) = (cause, self.templates.get_mut(key)) {
            if template.runs.heeding.as_ref() == Some(value) {
                template.runs.handled = Some(value.clone());
                template.runs.heeding = None;
            }
            // Another value may have come meanwhile.
            self.heed_trigger(key);
        }
        self.make_held(key);
        self.touch_template(key.clone());
    }

    fn notice(&mut self, key: &Name, warning: bool, reason: &'static str, note: String) {
        info!(template = %key.1, namespace = %key.0, "{note}");
        if let Some(template) = self.templates.get_mut(key) {
            template.notices.push(Notice { warning, reason, note });
        }
    }

    /// A run has come into sight.
    pub(super) fn run_seen(&mut self, id: u64) {
        let Some(record) = self.records.get(&id) else { return };
        let Some(key) = record.template() else { return };
        if let Some(template) = self.templates.get_mut(&key)
            && template.runs.unseen.remove(&record.name)
        {
            self.make_held(&key);
        }
    }

    /// A list of all tasks is complete: what it does not show is gone.
    pub(super) fn runs_listed(&mut self) {
        let waited = |t: &&mut super::templates::Template| !t.runs.unseen.is_empty();
        for template in self.templates.values_mut().filter(waited) {
            template.runs.unseen.clear();
        }
        for key in self.templates.keys().cloned().collect::<BTreeSet<_>>() {
            self.make_held(&key);
        }
    }

    /// A template's own runs that have not ended.
    pub(super) fn open_runs(&self, uid: &str) -> Vec<u64> {
        let runs = self.by_owner.get(uid).into_iter().flatten().copied();
        runs.filter(|id| self.records.get(id).is_some_and(|run| !run.phase().is_final())).collect()
    }

    fn is_run(&self, uid: &str, namespace: &str, name: &str) -> bool {
        let found = self.by_name.get(&(namespace.to_owned(), name.to_owned())).and_then(|id| self.records.get(id));
        found.and_then(|run| run.made_by.as_ref()).is_some_and(|(owner, _)| owner == uid)
    }

    /// Deletes the oldest ended runs beyond what the template keeps; at most so many as `budget` has left.
    pub(super) fn trim_history(&mut self, key: &Name, budget: &mut usize) {
        let Some(term) = self.leader.as_ref().map(|l| l.term) else { return };
        let Some(template) = self.templates.get(key) else { return };
        let kept = template.spec.history.clone().unwrap_or_default();
        let limit = |said: Option<i32>, default: usize| said.and_then(|n| usize::try_from(n).ok()).unwrap_or(default);
        let limits = [
            limit(kept.succeeded, DEFAULT_HISTORY.0),
            limit(kept.canceled, DEFAULT_HISTORY.1),
            limit(kept.dead, DEFAULT_HISTORY.2),
        ];
        let mut ended: [Vec<(Timestamp, u64)>; 3] = Default::default();
        for id in self.by_owner.get(&template.uid).into_iter().flatten() {
            let Some(run) = self.records.get(id).filter(|run| run.has_ended()) else { continue };
            let class = match run.phase() {
                Phase::Succeeded => 0,
                Phase::Canceled => 1,
                Phase::Dead | Phase::Unknown => 2,
                Phase::Pending | Phase::Ready | Phase::Running | Phase::Retrying => continue,
            };
            ended[class].push((run.written.finish_time.map_or(run.created, |t| t.0), *id));
        }
        let mut out = Vec::new();
        for (mut runs, limit) in ended.into_iter().zip(limits) {
            if runs.len() > limit {
                runs.sort_unstable();
                runs.truncate(runs.len() - limit);
                out.extend(runs.into_iter().map(|(_, id)| id));
            }
        }
        let now = self.now.mono;
        for id in out {
            if *budget == 0 {
                self.touch_template(key.clone());
                return;
            }
            let Some(run) = self.records.get(&id) else { continue };
            let ordered = run.removing_until.is_some_and(|until| now < until);
            if ordered || run.writing.is_some() || !self.is_done_with(key, run) {
                continue;
            }
            let removal = Removal {
                namespace: run.namespace.clone(),
                name: run.name.clone(),
                uid: run.uid.clone(),
                resource_version: run.version.to_string(),
                term,
            };
            if let Some(run) = self.records.get_mut(&id) {
                run.removing_until = Some(now + REMOVE_AGAIN);
            }
            *budget -= 1;
            self.out.push(Output::RemoveRun(removal));
        }
    }

    /// Whether nothing needs an ended run any more: the status counts it, no successor would make it again, and no open
    /// task depends on it.
    fn is_done_with(&self, key: &Name, run: &Record) -> bool {
        let Some(template) = self.templates.get(key) else { return false };
        let status = &template.written;
        let owed = |cause: &Cause| template.runs.making.contains_key(cause) || template.runs.held.contains(cause);
        if run.made_by.as_ref().is_some_and(|(_, cause)| owed(cause)) {
            return false;
        }
        let passed = match &run.made_by {
            Some((_, Cause::Tick(nominal))) => {
                status.next_schedule_time.is_none_or(|next| *nominal < next.0)
                    && status.last_schedule_time.is_some_and(|last| *nominal <= last.0)
            }
            Some((_, Cause::Trigger(value))) => {
                template.runs.handled.as_ref() != Some(value)
                    || status.handled.as_ref().and_then(|h| h.trigger.as_ref()) == Some(value)
            }
            None => false,
        };
        let end = run.written.finish_time;
        let counted = run.phase() == Phase::Canceled
            || end.is_none_or(|end| Some(end) <= status.last_success_time.max(status.last_failure_time));
        passed && counted && !self.has_open_dependents(&(run.namespace.clone(), run.name.clone()))
    }
}

/// The first tick that counts after an edit: one of the old schedule's that is not handled yet, if the new one has it
/// too and it is not late; else the next.
fn after_edit(schedule: &Schedule, open: Option<Timestamp>, offset: Duration, now: Timestamp) -> Option<Timestamp> {
    let still = |at: &Timestamp| schedule.next(just_before(*at)) == Some(*at);
    let in_time = |at: &Timestamp| now.duration_since(later(*at, offset)) <= ticks::ON_TIME;
    open.filter(|at| *at <= now && still(at) && in_time(at)).or_else(|| schedule.next(now))
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(by).ok().and_then(|by| at.checked_sub(by).ok()).unwrap_or(Timestamp::MIN)
}

fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(jiff::SignedDuration::from_nanos(1)).unwrap_or(at)
}

/// The schedule of a template, if it has one.
fn read(spec: &AxTaskTemplateSpec, created: Timestamp) -> Result<Option<Schedule>, Refused> {
    let Some(said) = &spec.schedule else { return Ok(None) };
    match (&said.cron, &said.every) {
        (Some(cron), _) => Schedule::cron(cron, said.time_zone.as_deref()).map(Some),
        (None, Some(every)) => Schedule::every(every.get(), said.anchor.map_or(created, |a| a.0)).map(Some),
        (None, None) => Ok(None),
    }
}

fn rules(spec: &AxTaskTemplateSpec, uid: &str) -> Rules {
    let schedule = spec.schedule.as_ref();
    let defaults = spec.task_template.as_ref().and_then(|t| t.spec.as_ref());
    Rules {
        catch_up: schedule
            .and_then(|s| s.catch_up)
            .and_then(|n| u32::try_from(n).ok())
            .map_or(DEFAULT_CATCH_UP, |n| n.min(100)),
        deadline: defaults.and_then(|d| d.start_deadline.as_ref()).map(|d| d.get()),
        offset: schedule
            .and_then(|s| s.spread.as_ref())
            .map_or(Duration::ZERO, |spread| ticks::offset(uid, spread.get())),
    }
}
