//! A template's own status: when it is written, and what it says.

use std::ops::Bound;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tracing::warn;

use super::State;
use super::referring::Referring;
use super::templates::ROUND;
use crate::api::template_status::{Pool, TemplateHandled};
use crate::api::{AxTaskTemplate, AxTaskTemplateStatus, Condition, ConditionStatus, Instant, Phase, condition};
use crate::cluster::events::Told;
use crate::cluster::status::{StatusWrite, Written};
use crate::domain::effective::DEFAULT_PORT;
use crate::domain::lifecycle::{Notice, reason};
use crate::domain::pool::PoolKey;
use crate::domain::report;
use crate::scheduler::input::{Name, Output};

/// How often numbers that moved are written at most.
const NUMBERS_EVERY: Duration = Duration::from_secs(10);
/// Writes ordered in one round at most, so that a minute at which all schedules meet leaves room for what they make.
const WRITES: usize = 100;
/// The same while runs are being made or tasks' statuses written, which go first.
const WRITES_WHEN_BUSY: usize = 10;
const REMOVALS_WHEN_BUSY: usize = 10;
/// So many status writes of tasks, or runs being made, are many.
const BUSY: usize = 32;
/// Of these, writes of numbers alone.
const NUMBERS: usize = 20;
/// Templates looked at in one round at most: a round holds up what is due.
const LOOKS: usize = 500;
/// Old runs deleted in one round at most.
const REMOVALS: usize = 100;

impl State {
    /// Writes what differs: conditions at once, numbers at most every 10 s.
    pub(super) fn template_round(&mut self) {
        self.template_round = false;
        let now = self.now.mono;
        let busy = self.making > BUSY || self.writing > BUSY;
        let (mut writes, mut numbers, mut removals) =
            if busy { (WRITES_WHEN_BUSY, 0, REMOVALS_WHEN_BUSY) } else { (WRITES, NUMBERS, REMOVALS) };
        for key in self.next_looks() {
            if writes == 0 {
                self.touched.insert(key);
                continue;
            }
            self.trim_history(&key, &mut removals);
            let Some(after) = self.template_status(&key) else { continue };
            let Some(template) = self.templates.get_mut(&key) else { continue };
            if after == template.written {
                let all = template.notices.len();
                self.tell_template(&key, all);
                continue;
            }
            let urgent = after.conditions != template.written.conditions
                || after.observed_generation != template.written.observed_generation
                || after.next_schedule_time != template.written.next_schedule_time
                || after.last_schedule_time != template.written.last_schedule_time
                || after.handled != template.written.handled
                || after.missed != template.written.missed;
            let due = numbers > 0 && template.written_at.is_none_or(|at| at + NUMBERS_EVERY <= now);
            let held = template.hold_until.is_some_and(|until| now < until);
            if template.writing.is_some() || held || !(urgent || due) {
                self.touched.insert(key);
                continue;
            }
            let Some(term) = self.leader.as_ref().map(|l| l.term) else { continue };
            writes -= 1;
            numbers -= usize::from(!urgent);
            let json = |status| serde_json::to_value(status).unwrap_or(Value::Null);
            let write = StatusWrite {
                namespace: key.0.clone(),
                name: key.1.clone(),
                resource_version: template.version.to_string(),
                status: report::merge_patch(&json(&template.written), &json(&after)),
                term,
            };
            self.serial += 1;
            template.telling = template.notices.len();
            template.writing = Some((self.serial, after));
            self.out.push(Output::WriteTemplate { template: key, serial: self.serial, write });
        }
        if !self.touched.is_empty() {
            self.next_template_round(self.now.mono + ROUND);
        }
    }

    /// The templates whose turn it is, each in its turn.
    fn next_looks(&mut self) -> Vec<Name> {
        let after = self.looked_at.take().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.touched.range((after.clone(), Bound::Unbounded));
        let mut keys: Vec<Name> = rest.take(LOOKS).cloned().collect();
        if let Bound::Excluded(after) = after {
            let left = LOOKS - keys.len();
            keys.extend(self.touched.range(..=after).take(left).cloned());
        }
        for key in &keys {
            self.touched.remove(key);
        }
        self.looked_at = keys.last().cloned();
        keys
    }

    pub(super) fn template_written(&mut self, key: &Name, serial: u64, result: Written<AxTaskTemplate>) {
        let now = self.now.mono;
        let Some(template) = self.templates.get_mut(key) else { return };
        let Some((_, writing)) = template.writing.take_if(|(ordered, _)| *ordered == serial) else { return };
        match result {
            Written::Done(version) => {
                template.version = template.version.max(version.parse().unwrap_or(0));
                template.written_at = Some(now);
                let stalled = |s: &AxTaskTemplateStatus| {
                    s.conditions.iter().find(|c| c.type_ == "Stalled" && c.status == ConditionStatus::True).cloned()
                };
                let before = stalled(&template.written);
                let told = stalled(&writing).filter(|c| before.is_none_or(|b| b.reason != c.reason));
                let uid = template.uid.clone();
                template.written = writing;
                let telling = std::mem::take(&mut template.telling);
                self.tell_template(key, telling);
                if let Some(Condition { reason, message, .. }) = told {
                    self.out.push(Output::Tell(Told {
                        kind: "AxTaskTemplate",
                        namespace: key.0.clone(),
                        name: key.1.clone(),
                        uid,
                        notice: Notice { warning: true, reason: known_reason(&reason), note: message },
                    }));
                }
            }
            Written::Conflict(object) => {
                // What it is now, also if the watch has shown it already.
                template.version = 0;
                self.observe_template(*object);
            }
            Written::Gone | Written::NotLeader => {}
            Written::Refused(error) | Written::Failed(error) => {
                warn!(template = %key.1, namespace = %key.0, %error, "template status not written");
                template.hold_until = Some(now + Duration::from_secs(5));
            }
        }
        self.touch_template(key.clone());
    }

    fn template_status(&self, key: &Name) -> Option<AxTaskTemplateStatus> {
        let template = self.templates.get(key)?;
        let worker = &template.spec.worker;
        let pool = PoolKey { namespace: key.0.clone(), deployment: worker.deployment.clone() };
        let port = worker.port.and_then(|p| u16::try_from(p).ok()).unwrap_or(DEFAULT_PORT);
        let blocked = self.pools.why_blocked(&pool, port);
        let per_pod = self.pools.deployment(&pool).map_or(0, |d| d.credits());
        let (mut pods, mut live, mut resting) = (0u32, 0u32, 0u32);
        for pod in self.pools.pods_of(&pool).filter(|p| p.takes_tasks(self.config.allow_loopback)) {
            pods += 1;
            if let Some(books) = self.books.get(&pod.uid) {
                live += books.live();
                resting += u32::from(books.rests(self.now.mono));
            }
        }
        let counts = self.by_template.get(key).map(Referring::counts).unwrap_or_default();
        let whole = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let runs = &template.runs;
        let saved = |id: u64| self.records.get(&id).is_none_or(|run| run.saved >= run.revision);
        let handled = runs.handled.clone().map(|value| TemplateHandled { trigger: Some(value) });
        let mut status = AxTaskTemplateStatus {
            observed_generation: Some(template.generation),
            counts: Some(counts),
            pool: Some(Pool { pods: whole(pods), credits: whole(per_pod.saturating_mul(pods)), live: whole(live) }),
            next_schedule_time: runs.first_open_tick(saved).map(Instant),
            last_schedule_time: runs.last.map(Instant),
            missed: runs.missed.clone(),
            handled: handled.or_else(|| template.written.handled.clone()),
            ..template.written.clone()
        };
        let last_run = self.count_ends(&template.uid, &mut status);
        let mut set = |type_: &str, holds: bool, reason: &str, message: String| {
            let new = Condition {
                type_: type_.to_owned(),
                status: if holds { ConditionStatus::True } else { ConditionStatus::False },
                observed_generation: Some(template.generation),
                last_transition_time: Instant(self.now.wall),
                reason: reason.to_owned(),
                message,
            };
            condition::set(&mut status.conditions, new);
        };
        let refused = template.runs.refused.as_ref().map(|r| (r.reason.as_str(), r.message.clone()));
        match refused.as_ref().or(blocked.as_ref()) {
            Some((reason, message)) => {
                set("Ready", false, reason, message.clone());
                set("Stalled", true, reason, message.clone());
            }
            None => {
                set("Ready", true, "Accepted", "the template is accepted".to_owned());
                set("Stalled", false, "Accepted", "nothing needs a person".to_owned());
            }
        }
        let available = pods > resting && blocked.is_none();
        let (why, message) = if available {
            ("PodsReady", "pods are ready and take tasks".to_owned())
        } else if pods > 0 {
            (reason::PODS_REFUSING, "all ready pods refuse tasks at present".to_owned())
        } else {
            (reason::NO_READY_WORKERS, format!("Deployment {} has no ready pod", worker.deployment))
        };
        set("WorkersAvailable", available, why, message);
        if let Some((succeeded, run)) = last_run {
            let (reason, word) = if succeeded { ("Succeeded", "succeeded") } else { ("Dead", "failed") };
            set("LastRunSucceeded", succeeded, reason, format!("run {run} {word}"));
        }
        let suspended = template.spec.suspend;
        if suspended || template.written.conditions.iter().any(|c| c.type_ == "Suspended") {
            let open = self.open_runs(&template.uid).len();
            let (reason, message) = match (suspended, open) {
                (false, _) => ("Resumed", "spec.suspend is false".to_owned()),
                (true, 0) => ("Idle", "spec.suspend is true, and no run is open".to_owned()),
                (true, open) => ("Draining", format!("spec.suspend is true; {open} runs are still open")),
            };
            set("Suspended", suspended, reason, message);
        }
        Some(status)
    }

    /// Takes in the ends of runs since the last that was counted; the newest, if there is one: whether it succeeded,
    /// and its name.
    fn count_ends(&self, uid: &str, status: &mut AxTaskTemplateStatus) -> Option<(bool, String)> {
        let counted = status.last_success_time.max(status.last_failure_time).map(|t| t.0);
        let runs = self.by_owner.get(uid).into_iter().flatten().filter_map(|id| self.records.get(id));
        let mut ends: Vec<(Timestamp, bool, &str)> = runs
            .filter(|run| run.has_ended())
            .filter_map(|run| {
                let succeeded = match run.written.phase? {
                    Phase::Succeeded => true,
                    Phase::Dead | Phase::Unknown => false,
                    Phase::Canceled | Phase::Pending | Phase::Ready | Phase::Running | Phase::Retrying => return None,
                };
                let at = run.written.finish_time?.0;
                counted.is_none_or(|counted| at > counted).then_some((at, succeeded, run.name.as_str()))
            })
            .collect();
        ends.sort_unstable();
        for (at, succeeded, _) in &ends {
            let (time, failures) = if *succeeded {
                (&mut status.last_success_time, 0)
            } else {
                (&mut status.last_failure_time, status.consecutive_failures.unwrap_or(0).saturating_add(1))
            };
            *time = Some(Instant(*at));
            status.consecutive_failures = Some(failures);
        }
        ends.last().map(|(_, succeeded, name)| (*succeeded, (*name).to_owned()))
    }

    /// What the status says now may be told.
    fn tell_template(&mut self, key: &Name, count: usize) {
        let Some(template) = self.templates.get_mut(key) else { return };
        for notice in template.notices.drain(..count.min(template.notices.len())) {
            self.out.push(Output::Tell(Told {
                kind: "AxTaskTemplate",
                namespace: key.0.clone(),
                name: key.1.clone(),
                uid: template.uid.clone(),
                notice,
            }));
        }
    }
}

fn known_reason(reason: &str) -> &'static str {
    use crate::domain::schedule::Why;
    let refusals = [Why::InvalidSchedule, Why::UnknownTimeZone, Why::ScheduleNeverFires];
    if let Some(why) = refusals.into_iter().find(|why| why.as_str() == reason) {
        return why.as_str();
    }
    match reason {
        reason::WORKER_NOT_FOUND => reason::WORKER_NOT_FOUND,
        reason::WORKER_NOT_OPTED_IN => reason::WORKER_NOT_OPTED_IN,
        _ => reason::PORT_NOT_DECLARED,
    }
}
