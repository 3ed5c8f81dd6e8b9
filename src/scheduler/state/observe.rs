//! What the API server says of tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use kube::Resource as _;
use tracing::{debug, warn};

use super::{Alarm, State};
use crate::api::{AxTask, AxTaskSpec, AxTaskStatus, Phase, annotation};
use crate::cluster::guarded::Guarded;
use crate::cluster::watch::Kind;
use crate::domain::effective::{RetryRules, start_deadline};
use crate::domain::execution_id::execution_id;
use crate::domain::lifecycle::{Event, reason};
use crate::domain::run;
use crate::scheduler::input::Output;
use crate::scheduler::record::{Problem, Record};
use crate::worker::wire;

/// Largest object whose status can always be written.
const MAX_OBJECT: usize = 1024 * 1024;

impl State {
    /// Takes a task in. `fresh`: read just now for a reason, so its version counts even if it is known.
    pub(super) fn observe_task(&mut self, task: Guarded<AxTask>, live: bool, fresh: bool) {
        let meta = task.meta();
        let (Some(uid), Some(name), Some(namespace)) = (meta.uid.clone(), meta.name.clone(), meta.namespace.clone())
        else {
            warn!("a task without uid, name or namespace was left out");
            return;
        };
        self.note_listed(Kind::Task, Some(&namespace), &uid);
        let version = meta.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0);
        let id = match self.by_uid.get(&uid) {
            Some(id) => {
                // An older object of its name, seen late, may have taken the name and gone.
                self.by_name.entry((namespace.clone(), name.clone())).or_insert(*id);
                *id
            }
            None if version > 0 && version <= self.listed_at => return,
            None => self.new_record(namespace.clone(), name.clone(), uid, live),
        };
        let Some(record) = self.records.get_mut(&id) else { return };
        // What this replica wrote or saw later is newer than what a lagging watch says.
        if version <= record.version && record.version > 0 && !fresh {
            return;
        }
        let known = record.version > 0;
        record.version = record.version.max(version);
        let annotated = |name: &str| meta.annotations.as_ref().and_then(|a| a.get(name)).cloned();
        record.traceparent = annotated(annotation::TRACEPARENT);
        record.trace_id = annotated(annotation::TRACE_ID).map(|id| crate::domain::text::clean(&id, 128).0);
        record.generation = meta.generation.unwrap_or(0);
        if let Some(created) = &meta.creation_timestamp {
            record.created = created.0;
        }
        let before = record.template();
        let (made_by, name) = (run::made_by(meta), (namespace, name));
        let made_by_before = std::mem::replace(&mut record.made_by, made_by);
        let ended_before = record.has_ended();
        let written = match task {
            Guarded::Good { object, bytes } => {
                record.problem = too_large(&object.spec, bytes);
                record.spec = object.spec;
                object.status.unwrap_or_default()
            }
            Guarded::Bad { error, .. } => {
                let message =
                    format!("the object cannot be read: {error}; correct the field, or delete and create it anew");
                record.problem = Some(Problem { reason: reason::INVALID, message });
                record.written.clone()
            }
        };
        if record.execution.is_none() && record.problem.is_none() {
            let message = "metadata.uid is not a UUID; create the task anew".to_owned();
            record.problem = Some(Problem { reason: reason::INVALID, message });
        }
        let theirs = written.term.and_then(|t| u64::try_from(t).ok()).unwrap_or(0);
        // Somebody else's write: what this leader knows must be compared with it, and written anew where it differs.
        let ours = record.writing.as_ref().is_some_and(|w| w.status == written) || record.written == written;
        if !ours || fresh {
            record.saved = 0;
        }
        let ended = written.phase.is_some_and(Phase::is_final);
        // Final is final, whoever wrote it: an older leader whose write came late, or a person.
        let ended_elsewhere = ended && !ours && record.life.as_ref().is_some_and(|l| !l.phase.is_final());
        if !ours && theirs != record.written.term.and_then(|t| u64::try_from(t).ok()).unwrap_or(0) {
            // Another leader's instants are those of its own clock.
            record.shift = SignedDuration::ZERO;
        }
        // An ended task's payload is of no more use.
        if ended && let Some(work) = &mut record.spec.work {
            work.payload = None;
        }
        record.written = written;
        record.unwritable = None;
        let ended_now = !ended_before && record.has_ended();
        let after = record.template();
        if !known || made_by_before != record.made_by {
            self.index_owner(id, made_by_before);
        }
        if before != after || !known {
            self.index_template(id, before, after);
        }
        if theirs > self.highest_term {
            self.highest_term = theirs;
            self.out.push(Output::SawTerm(theirs));
        }
        if self.is_leading() {
            self.spec_observed(id, known && !ended_elsewhere);
            if !known || ended_now {
                self.dependency_moved(&name);
            }
        }
    }

    fn new_record(&mut self, namespace: String, name: String, uid: String, live: bool) -> u64 {
        self.next_task += 1;
        let id = self.next_task;
        let execution = execution_id(&uid, 0);
        if let Some(execution) = execution {
            self.by_execution.insert(execution, id);
        }
        self.by_uid.insert(uid.clone(), id);
        self.by_name.insert((namespace.clone(), name.clone()), id);
        let record = Record {
            path: Arc::from(format!("{namespace}/{name}")),
            namespace,
            name,
            uid,
            execution,
            spec: AxTaskSpec::default(),
            traceparent: None,
            trace_id: None,
            generation: 0,
            created: self.now.wall,
            seen_live: live.then_some(self.now.wall),
            made_by: None,
            depends_on: Vec::new(),
            gates: Vec::new(),
            ahead: None,
            removing_until: None,
            problem: None,
            version: 0,
            written: AxTaskStatus::default(),
            shift: SignedDuration::ZERO,
            life: None,
            revision: 0,
            saved: 0,
            must_save: 0,
            writing: None,
            hold_writes_until: None,
            failed_writes: 0,
            unwritable: None,
            wake: None,
            write: None,
            presumed: None,
            overdue: None,
            line: None,
            rules: RetryRules::default(),
            notices: Vec::new(),
            owed: BTreeSet::new(),
        };
        self.records.insert(id, record);
        id
    }

    /// The leader acts on what the spec says.
    fn spec_observed(&mut self, id: u64, known: bool) {
        let alive = self.records.get(&id).is_some_and(|r| r.life.is_some());
        if !known || !alive {
            self.revive(id);
        }
        self.apply_wants(id);
        self.settle(id);
    }

    /// Brings a life in line with the spec: ready time, suspend, cancel, or that it can never run.
    pub(super) fn apply_wants(&mut self, id: u64) {
        self.look_at_dependencies(id);
        let offset = self.offset;
        let Some(record) = self.records.get(&id) else { return };
        let template = record.template().and_then(|name| self.templates.get(&name));
        let event = match &record.problem {
            Some(problem) => Event::Bury { reason: problem.reason, message: problem.message.clone() },
            None => Event::Wanted {
                suspend: record.spec.suspend,
                cancel: record.spec.cancel.unwrap_or(false),
                ready_at: record.ready_at(offset),
                deadline: start_deadline(&record.spec, template.map(|t| &t.spec)),
            },
        };
        self.step(id, event);
        // A queued task may have moved to another bucket.
        self.leave_line(id);
    }

    /// A task is gone: its timers, its place in a line; its open request keeps its credit until it ends.
    pub(super) fn forget_task(&mut self, uid: &str) {
        let Some(id) = self.by_uid.remove(uid) else { return };
        self.leave_line(id);
        self.drop_dependencies(id);
        let Some(mut record) = self.records.remove(&id) else { return };
        let name = (record.namespace.clone(), record.name.clone());
        if self.by_name.get(&name) == Some(&id) {
            self.by_name.remove(&name);
        }
        if let Some((owner, _)) = &record.made_by
            && let Some(ids) = self.by_owner.get_mut(owner)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_owner.remove(owner);
            }
        }
        if let Some(execution) = record.execution {
            self.by_execution.remove(&execution);
            if let Some(dispatch) = record.ahead.take() {
                self.give_back(&dispatch.pod.uid, &execution, dispatch.attempt);
            }
            for (pod, attempt) in &record.owed {
                self.give_back(pod, &execution, *attempt);
            }
        }
        if let (Some(_), Some(execution), Some(current)) =
            (record.presumed, record.execution, record.life.as_ref().and_then(|l| l.current.as_ref()))
        {
            // Nobody will report of it: its place is free when it would have timed out.
            let (pod, attempt) = (current.pod_uid.clone(), current.number);
            let at = self.tick_of(current.timeout_at);
            self.timers.insert(at, Alarm::Free { pod, execution, attempt });
        }
        let timers = [record.wake.map(|(t, _)| t), record.write.map(|(t, _)| t), record.presumed, record.overdue];
        for timer in timers.into_iter().flatten() {
            self.timers.cancel(timer);
        }
        self.index_template(id, record.template(), None);
        self.orphan_gates(id, record.execution, std::mem::take(&mut record.gates));
        self.dependency_moved(&name);
        debug!(task = %record.path, "task is gone");
    }

    fn index_owner(&mut self, id: u64, before: Option<(String, run::Cause)>) {
        if let Some(ids) = before.as_ref().and_then(|(owner, _)| self.by_owner.get_mut(owner)) {
            ids.remove(&id);
        }
        let made_by = self.records.get(&id).and_then(|r| r.made_by.as_ref());
        if let Some((owner, _)) = made_by {
            let owner = owner.clone();
            self.by_owner.entry(owner).or_default().insert(id);
            self.run_seen(id);
        }
    }

    fn index_template(&mut self, id: u64, before: Option<(String, String)>, after: Option<(String, String)>) {
        if let Some(before) = before {
            self.count_no_more(id, &before);
            self.touch_template(before);
        }
        if let Some(after) = after {
            self.count(id);
            self.touch_template(after);
        }
    }
}

/// A payload beyond what a worker is sent, or an object whose status could not be written.
fn too_large(spec: &AxTaskSpec, bytes: usize) -> Option<Problem> {
    let payload = spec.work.as_ref().and_then(|w| w.payload.as_ref()).map_or(0, |p| p.get().len());
    let message = if payload > wire::MAX_PAYLOAD {
        format!(
            "spec.work.payload has {payload} bytes, the limit is {}; store it elsewhere and send a reference",
            wire::MAX_PAYLOAD
        )
    } else if bytes > MAX_OBJECT {
        format!("the object has {bytes} bytes, the limit is {MAX_OBJECT}; shorten labels, annotations or payload")
    } else {
        return None;
    };
    Some(Problem { reason: reason::PAYLOAD_TOO_LARGE, message })
}
