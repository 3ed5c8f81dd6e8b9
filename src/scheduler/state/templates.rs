//! Templates: what tasks inherit, and the template's own status.

use std::time::Duration;

use jiff::Timestamp;
use kube::Resource as _;
use serde_json::Value;
use tracing::warn;

use super::{Alarm, State, tick_ceil};
use crate::api::template_status::{Counts, Pool};
use crate::api::{
    AxTaskTemplate, AxTaskTemplateSpec, AxTaskTemplateStatus, Condition, ConditionStatus, Instant, Phase, condition,
};
use crate::cluster::events::Told;
use crate::cluster::guarded::Guarded;
use crate::cluster::status::{StatusWrite, Written};
use crate::cluster::watch::Kind;
use crate::domain::effective::DEFAULT_PORT;
use crate::domain::lifecycle::later;
use crate::domain::lifecycle::{Notice, reason};
use crate::domain::pool::PoolKey;
use crate::domain::report;
use crate::scheduler::input::{Name, Output};

/// How soon a changed template is looked at.
const ROUND: Duration = Duration::from_millis(500);
/// How often numbers that moved are written at most.
const NUMBERS_EVERY: Duration = Duration::from_secs(10);

/// What the leader loop knows of one template.
#[derive(Debug)]
pub(super) struct Template {
    pub spec: AxTaskTemplateSpec,
    uid: String,
    generation: i64,
    version: u64,
    written: AxTaskTemplateStatus,
    written_at: Option<Timestamp>,
    /// The write under way, and its serial.
    writing: Option<(u64, AxTaskTemplateStatus)>,
    hold_until: Option<Timestamp>,
}

impl State {
    pub(super) fn observe_template(&mut self, template: Guarded<AxTaskTemplate>) {
        let meta = template.meta();
        let (Some(uid), Some(name), Some(namespace)) = (meta.uid.clone(), meta.name.clone(), meta.namespace.clone())
        else {
            return;
        };
        self.note_listed(Kind::Template, Some(&namespace), &uid);
        let version = meta.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0);
        let generation = meta.generation.unwrap_or(0);
        let key = (namespace, name);
        let object = match template {
            Guarded::Good { object, .. } => object,
            Guarded::Bad { error, .. } => {
                // Its tasks wait as if it did not exist; the last readable one does not stand in for it.
                warn!(template = %key.1, namespace = %key.0, %error, "a template cannot be read; its tasks wait");
                self.templates.remove(&key);
                self.template_changed(&key);
                return;
            }
        };
        let known = self.templates.get(&key);
        if known.is_some_and(|t| t.uid == uid && t.version >= version) {
            return;
        }
        let unchanged = known.is_some_and(|t| t.spec == object.spec);
        let (written_at, writing) = match self.templates.remove(&key).filter(|t| t.uid == uid) {
            Some(old) => (old.written_at, old.writing),
            None => (None, None),
        };
        let written = object.status.unwrap_or_default();
        let template =
            Template { spec: object.spec, uid, generation, version, written, written_at, writing, hold_until: None };
        self.templates.insert(key.clone(), template);
        if unchanged {
            self.touch_template(key);
        } else {
            self.template_changed(&key);
        }
    }

    pub(super) fn forget_template(&mut self, template: Guarded<AxTaskTemplate>) {
        let meta = template.meta();
        let (Some(namespace), Some(name)) = (meta.namespace.clone(), meta.name.clone()) else { return };
        let uid = meta.uid.clone().unwrap_or_default();
        self.templates_gone(|key, known| *key == (namespace.clone(), name.clone()) && known == uid);
    }

    pub(super) fn templates_gone(&mut self, gone: impl Fn(&Name, &str) -> bool) {
        let keys = self.templates.iter().filter(|(key, t)| gone(key, &t.uid)).map(|(key, _)| key.clone());
        for key in keys.collect::<Vec<_>>() {
            self.templates.remove(&key);
            self.template_changed(&key);
        }
    }

    /// Tasks that wait are placed anew: another worker, another priority, or none at all.
    fn template_changed(&mut self, key: &Name) {
        self.touch_template(key.clone());
        for id in self.by_template.get(key).into_iter().flatten().copied().collect::<Vec<_>>() {
            self.leave_line(id);
            self.settle(id);
        }
    }

    pub(super) fn touch_template(&mut self, key: Name) {
        if !self.is_leading() || !self.templates.contains_key(&key) {
            return;
        }
        self.touched.insert(key);
        self.next_template_round(self.now.mono + ROUND);
    }

    pub(super) fn touch_pool(&mut self, pool: &PoolKey) {
        let names = self
            .templates
            .iter()
            .filter(|((namespace, _), t)| *namespace == pool.namespace && t.spec.worker.deployment == pool.deployment);
        for name in names.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.touch_template(name);
        }
    }

    fn next_template_round(&mut self, at: Duration) {
        if !self.template_round {
            self.template_round = true;
            self.timers.insert(tick_ceil(at), Alarm::Templates);
        }
    }

    /// Writes what differs: conditions at once, numbers at most every 10 s.
    pub(super) fn template_round(&mut self) {
        self.template_round = false;
        let now = self.now.wall;
        for key in std::mem::take(&mut self.touched) {
            let Some(after) = self.template_status(&key) else { continue };
            let Some(template) = self.templates.get_mut(&key) else { continue };
            if after == template.written {
                continue;
            }
            let urgent = after.conditions != template.written.conditions
                || after.observed_generation != template.written.observed_generation;
            let due = template.written_at.is_none_or(|at| later(at, NUMBERS_EVERY) <= now);
            let held = template.hold_until.is_some_and(|until| now < until);
            if template.writing.is_some() || held || !(urgent || due) {
                self.touched.insert(key);
                continue;
            }
            let Some(term) = self.leader.as_ref().map(|l| l.term) else { continue };
            let json = |status| serde_json::to_value(status).unwrap_or(Value::Null);
            let write = StatusWrite {
                namespace: key.0.clone(),
                name: key.1.clone(),
                resource_version: template.version.to_string(),
                status: report::merge_patch(&json(&template.written), &json(&after)),
                term,
            };
            self.serial += 1;
            template.writing = Some((self.serial, after));
            self.out.push(Output::WriteTemplate { template: key, serial: self.serial, write });
        }
        if !self.touched.is_empty() {
            self.next_template_round(self.now.mono + ROUND);
        }
    }

    pub(super) fn template_written(&mut self, key: &Name, serial: u64, result: Written<AxTaskTemplate>) {
        let now = self.now.wall;
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
                template.version = 0;
                self.observe_template(*object);
            }
            Written::Gone | Written::NotLeader => {}
            Written::Refused(error) | Written::Failed(error) => {
                warn!(template = %key.1, namespace = %key.0, %error, "template status not written");
                template.hold_until = Some(later(now, Duration::from_secs(5)));
            }
        }
        self.touch_template(key.clone());
    }

    pub(super) fn templates_step_down(&mut self) {
        for template in self.templates.values_mut() {
            template.writing = None;
            template.hold_until = None;
        }
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
        let mut counts = Counts::default();
        for id in self.by_template.get(key).into_iter().flatten() {
            let phase = self.records.get(id).and_then(|r| r.life.as_ref()).map(|l| l.phase);
            match phase {
                Some(Phase::Pending) | None => counts.pending += 1,
                Some(Phase::Ready) => counts.ready += 1,
                Some(Phase::Running) => counts.running += 1,
                Some(Phase::Retrying) => counts.retrying += 1,
                Some(Phase::Succeeded) => counts.succeeded += 1,
                Some(Phase::Canceled) => counts.canceled += 1,
                Some(Phase::Dead) => counts.dead += 1,
                Some(Phase::Unknown) => counts.unknown += 1,
            }
        }
        let whole = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let mut status = AxTaskTemplateStatus {
            observed_generation: Some(template.generation),
            counts: Some(counts),
            pool: Some(Pool { pods: whole(pods), credits: whole(per_pod.saturating_mul(pods)), live: whole(live) }),
            ..template.written.clone()
        };
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
        match &blocked {
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
        Some(status)
    }
}

fn known_reason(reason: &str) -> &'static str {
    match reason {
        reason::WORKER_NOT_FOUND => reason::WORKER_NOT_FOUND,
        reason::WORKER_NOT_OPTED_IN => reason::WORKER_NOT_OPTED_IN,
        _ => reason::PORT_NOT_DECLARED,
    }
}
