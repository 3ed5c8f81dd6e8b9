//! Due tasks go to pods with room; what comes back goes into their lives.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info, warn};
use uuid::Uuid;

use super::{Alarm, State, tick_ceil};
use crate::api::{Outcome, Phase};
use crate::domain::answer::{Failure, Refused, Verdict};
use crate::domain::dispatch::{Destination, Dispatch, Order, Report, What};
use crate::domain::effective::effective;
use crate::domain::election::is_believed;
use crate::domain::lifecycle::later;
use crate::domain::lifecycle::{Event, Sent, reason};
use crate::domain::pool::PoolKey;
use crate::scheduler::input::Output;
use crate::scheduler::record::Line;
use crate::scheduler::request;

/// How soon a pool without room is looked at again, if nothing else stirs it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a pod rests that turned out to be another one.
const WRONG_POD_REST: Duration = Duration::from_secs(10);

/// Outcomes kept while this replica does not lead.
const MAX_HELD: usize = 4096;

/// A pod that takes tasks, and how many.
struct Room {
    pod: String,
    free: u32,
}

/// Which attempt a report is about.
struct About {
    task: u64,
    execution: Uuid,
    attempt: u32,
    pod: Arc<str>,
}

impl About {
    fn of(report: &Report) -> Self {
        let Report { task, execution, attempt, pod, .. } = report;
        Self { task: *task, execution: *execution, attempt: *attempt, pod: pod.clone() }
    }
}

impl State {
    /// Sends what can be sent from every pool in which something has changed.
    pub(super) fn send_all(&mut self) {
        let held = self.hold_sends_until.is_some_and(|until| self.now.mono < until);
        if !self.may_send() || held {
            return;
        }
        while let Some(key) = self.stirred.pop_first() {
            self.send_from(&key);
        }
    }

    fn send_from(&mut self, key: &PoolKey) {
        if self.lines.get(key).is_none_or(|line| line.queue.is_empty()) {
            return;
        }
        let mut rooms = self.rooms(key);
        let mut elsewhere = Vec::new();
        // Most room first; the first of equals, so that nothing depends on chance.
        while let Some(room) = rooms.iter_mut().rev().max_by_key(|room| room.free).filter(|room| room.free > 0) {
            let Some(place) = self.lines.get_mut(key).and_then(|line| line.queue.pick()) else { break };
            if let Some(record) = self.records.get_mut(&place.id) {
                record.line = None;
            }
            if self.send(place.id, &room.pod) {
                room.free -= 1;
            } else {
                elsewhere.push(place.id);
            }
        }
        for id in elsewhere {
            self.settle(id);
        }
        self.look_again(key);
    }

    fn rooms(&self, key: &PoolKey) -> Vec<Room> {
        let credits = self.pools.deployment(key).map_or(0, |d| d.credits());
        let takers = self.pools.pods_of(key).filter(|p| p.takes_tasks(self.config.allow_loopback));
        let free = |uid: &str| self.books.get(uid).map_or(credits, |books| books.free(credits, self.now.mono));
        takers.map(|pod| Room { free: free(&pod.uid), pod: pod.uid.clone() }).collect()
    }

    /// No room: an answer, a pod or a Deployment stirs the pool; a rest that ends or a limit that is no longer
    /// believed does not, so it is looked at again.
    fn look_again(&mut self, key: &PoolKey) {
        let rests = self.pools.pods_of(key).filter_map(|p| self.books.get(&p.uid)).filter_map(|b| b.rest_until());
        let soonest = rests.filter(|until| *until > self.now.mono).min();
        let at = soonest.map_or(self.now.mono + LOOK_AGAIN, |until| until.min(self.now.mono + LOOK_AGAIN));
        let Some(line) = self.lines.get_mut(key).filter(|line| !line.recheck && !line.queue.is_empty()) else { return };
        line.recheck = true;
        self.timers.insert(tick_ceil(at), Alarm::Pool(key.clone()));
    }

    /// Sends a task to a pod. `false`: it could not be sent, and waits elsewhere.
    fn send(&mut self, id: u64, pod_uid: &str) -> bool {
        let now = self.now.wall;
        let Some(term) = self.leader.as_ref().map(|l| l.term) else { return false };
        let Some(record) = self.records.get(&id) else { return false };
        let template = record.template().and_then(|name| self.templates.get(&name));
        let Ok(effective) = effective(&record.spec, template.map(|t| &t.spec)) else { return false };
        let (Some(life), Some(execution)) = (&record.life, record.execution) else { return false };
        let Some(pod) = self.pools.pod(pod_uid) else { return false };
        let Some(ip) = pod.ip else { return false };
        let destination = Destination {
            uid: Arc::from(pod.uid.as_str()),
            name: Arc::from(pod.name.as_str()),
            addr: (ip, effective.target.port).into(),
        };
        let keyed = effective.key.is_some();
        let attempt = life.attempt + 1;
        let headers = request::headers(record, &effective, &execution, attempt, life.budget_from);
        let dispatch = Dispatch {
            task: id,
            name: record.path.clone(),
            execution,
            attempt,
            term,
            pod: destination,
            path: effective.target.path.clone(),
            headers,
            payload: effective.payload.clone(),
            timeout: effective.timeout,
            repeat: false,
        };
        let sent =
            Sent { pod: pod.name.clone(), pod_uid: pod.uid.clone(), term, timeout_at: later(now, effective.timeout) };
        if let Some(record) = self.records.get_mut(&id) {
            record.rules = effective.retry;
        }
        if self.step(id, Event::Sent(sent)).is_some() {
            return false;
        }
        self.books.entry(pod_uid.to_owned()).or_default().take(execution, attempt);
        match self.records.get_mut(&id) {
            // A successor must know who holds the key, whatever happens to this replica: it is written ahead.
            Some(record) if keyed => {
                record.ahead = Some(Box::new(dispatch));
                record.must_save = record.revision;
            }
            _ => self.out.push(Output::Order(Order::Send(Box::new(dispatch)))),
        }
        self.settle(id);
        true
    }

    /// What was written ahead goes out, unless the life has gone on meanwhile.
    pub(super) fn send_ahead(&mut self, id: u64) {
        let term = self.leader.as_ref().map_or(0, |l| l.term);
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some(mut dispatch) = record.ahead.take() else { return };
        let life = record.life.as_ref();
        let current = life.and_then(|l| l.current.as_ref()).is_some_and(|c| c.number == dispatch.attempt);
        if current && !life.is_some_and(|l| l.cancel) && !self.stopping {
            dispatch.term = term;
            self.out.push(Output::Order(Order::Send(dispatch)));
        } else {
            record.ahead = Some(dispatch);
            self.drop_ahead(id, "it was canceled before it was sent");
        }
    }

    /// What was to be written ahead is not sent: nothing has started.
    pub(super) fn drop_ahead(&mut self, id: u64, why: &str) {
        let Some(dispatch) = self.records.get_mut(&id).and_then(|record| record.ahead.take()) else { return };
        self.give_back(&dispatch.pod.uid, &dispatch.execution, dispatch.attempt);
        self.step(id, Event::Refused { number: dispatch.attempt, why: why.to_owned() });
        if let Some(record) = self.records.get_mut(&id) {
            record.must_save = record.revision;
        }
    }

    /// Asks the pod of a running attempt again: the same request, with the time that remains.
    pub(super) fn ask_again(&mut self, id: u64, remains: Duration) {
        let Some(term) = self.leader.as_ref().map(|l| l.term) else { return };
        let Some(record) = self.records.get(&id) else { return };
        let (Some(life), Some(execution)) = (&record.life, record.execution) else { return };
        let Some(current) = life.current.clone() else { return };
        let template = record.template().and_then(|name| self.templates.get(&name));
        let effective = effective(&record.spec, template.map(|t| &t.spec));
        let ip = self.pools.pod(&current.pod_uid).and_then(|p| p.ip);
        let (Ok(effective), Some(ip)) = (effective, ip) else {
            // Without template or address nobody can be asked: it works on until its timeout.
            self.presume(id);
            return;
        };
        let dispatch = Dispatch {
            task: id,
            name: record.path.clone(),
            execution,
            attempt: current.number,
            term,
            pod: Destination {
                uid: Arc::from(current.pod_uid.as_str()),
                name: Arc::from(current.pod.as_str()),
                addr: (ip, effective.target.port).into(),
            },
            path: effective.target.path.clone(),
            headers: request::headers(record, &effective, &execution, current.number, life.budget_from),
            payload: effective.payload.clone(),
            timeout: remains,
            repeat: true,
        };
        if let Some(record) = self.records.get_mut(&id) {
            record.rules = effective.retry;
        }
        self.out.push(Output::Order(Order::Send(Box::new(dispatch))));
    }

    /// What the hand reports.
    pub(super) fn report(&mut self, report: Report) {
        let since = self.leader.as_ref().filter(|_| self.is_leading()).map(|l| l.since_term);
        if since.is_none_or(|since| report.term < since) {
            self.report_of_earlier_reign(report, since.is_some());
            return;
        }
        let now = self.now;
        if let Some(room) = report.room {
            self.books.entry(report.pod.to_string()).or_default().heard(room, now.mono);
        }
        if let Some(key) = self.pools.pod(&report.pod).and_then(|pod| self.pools.key_of(pod)) {
            self.stirred.insert(key.clone());
        }
        let number = report.attempt;
        let (task, about) = (report.task, About::of(&report));
        match report.what {
            What::Busy => {
                self.step(task, Event::Busy { number });
            }
            What::Answered(Verdict::Succeeded { result, truncated }) => {
                self.close(&about, Event::Succeeded { number, result, truncated });
            }
            What::Answered(Verdict::Failed(failure)) => {
                self.close(&about, Event::Failed { number, outcome: Outcome::Failed, failure });
            }
            What::Answered(Verdict::Refused(refused)) => self.refused(&about, &refused),
            // The hand asks again by itself until the attempt's time is over.
            What::Answered(Verdict::Busy(_)) => {}
            What::TimedOut => {
                let failure = Failure::stated("TimedOut", "no answer within the timeout");
                self.act(task, Event::Failed { number, outcome: Outcome::TimedOut, failure });
            }
            What::HigherTerm(seen) => self.saw_higher_term(seen),
            What::Freed => self.free(&about),
            What::Late(verdict) => {
                self.free(&about);
                if let Verdict::Succeeded { result, truncated } = verdict {
                    self.act(task, Event::Succeeded { number, result, truncated });
                }
            }
            What::Lost(failure) => {
                self.close(&about, Event::Failed { number, outcome: Outcome::WorkerLost, failure });
            }
            What::NeverStarted => {
                self.free(&about);
                self.act(task, Event::NeverStarted { number });
            }
            What::NotLeader => {
                self.free(&about);
                // The Lease loop will say that the lead is lost, or lead on: until then, no try after try.
                let until = self.now.mono + LOOK_AGAIN;
                self.hold_sends_until = Some(until);
                self.timers.insert(tick_ceil(until), Alarm::Sends);
                self.act(task, Event::Refused { number, why: "this replica leads no more".to_owned() });
            }
        }
    }

    /// What was sent before this replica lost the lead and, perhaps, got it back. An answer that a worker gave is true
    /// whoever leads; a refusal or a loss is not, since the takeover since then may have asked the pod again.
    fn report_of_earlier_reign(&mut self, report: Report, leading: bool) {
        let told = matches!(
            report.what,
            What::Answered(Verdict::Succeeded { .. } | Verdict::Failed(_)) | What::Late(Verdict::Succeeded { .. })
        );
        if !told {
            return;
        }
        if !leading {
            if self.held.len() < MAX_HELD {
                self.held.push(report);
            }
            return;
        }
        let current = self.records.get(&report.task).and_then(|r| r.life.as_ref()).and_then(|l| l.current.as_ref());
        if current.is_none_or(|c| c.number != report.attempt || c.pod_uid != *report.pod) {
            return;
        }
        let (number, about) = (report.attempt, About::of(&report));
        match report.what {
            What::Answered(Verdict::Succeeded { result, truncated })
            | What::Late(Verdict::Succeeded { result, truncated }) => {
                self.close(&about, Event::Succeeded { number, result, truncated });
            }
            What::Answered(Verdict::Failed(failure)) => {
                self.close(&about, Event::Failed { number, outcome: Outcome::Failed, failure });
            }
            _ => {}
        }
    }

    /// What was heard while nobody led here.
    pub(super) fn take_held(&mut self) {
        for report in std::mem::take(&mut self.held) {
            self.report(report);
        }
    }

    /// The attempt has ended at the worker: its credit comes back once that is persisted.
    fn close(&mut self, about: &About, event: Event) {
        match self.records.get_mut(&about.task) {
            Some(record) => {
                record.owed.insert((about.pod.clone(), about.attempt));
            }
            None => self.free(about),
        }
        if !self.act(about.task, event) {
            // Stale: nothing will be persisted for it.
            if let Some(record) = self.records.get_mut(&about.task) {
                record.owed.remove(&(about.pod.clone(), about.attempt));
            }
            self.free(about);
        }
    }

    /// Takes an outcome into the life; what it decides is persisted before anything else is sent for this task.
    fn act(&mut self, id: u64, event: Event) -> bool {
        let refused = matches!(event, Event::Refused { .. } | Event::NeverStarted { .. });
        let refusal = self.step(id, event);
        if let Some(refusal) = refusal {
            if let Some(record) = self.records.get(&id) {
                debug!(task = %record.path, ?refusal, "a stale report had no effect");
            }
            return false;
        }
        let Some(record) = self.records.get_mut(&id) else { return false };
        // A write that failed may have been recorded all the same.
        let recorded =
            record.written.phase == Some(Phase::Running) || record.writing.is_some() || record.failed_writes > 0;
        if refused {
            // It was not sent after all.
            record.notices.retain(|(_, notice)| notice.reason != "Dispatched");
        }
        if !refused || recorded {
            record.must_save = record.revision;
        }
        self.settle(id);
        true
    }

    /// A pod refused: it rests, and the task may go elsewhere now.
    fn refused(&mut self, about: &About, refused: &Refused) {
        let now = self.now.mono;
        self.free(about);
        let books = self.books.entry(about.pod.to_string()).or_default();
        match refused {
            Refused::Full(rest) => {
                books.full();
                books.rest(now + *rest);
            }
            Refused::Draining(rest) => books.rest(now + *rest),
            Refused::WrongPod => books.rest(now + WRONG_POD_REST),
            Refused::Unreachable(_) => books.out_of_reach(now),
            Refused::LowerTerm(seen) => {
                books.rest(now + LOOK_AGAIN);
                self.saw_higher_term(*seen);
            }
        }
        if let Some(record) = self.records.get(&about.task) {
            info!(
                task = %record.path,
                attempt = about.attempt,
                pod = %about.pod,
                reason = %refused.as_text(),
                "a pod refused a task; another may take it"
            );
        }
        self.act(about.task, Event::Refused { number: about.attempt, why: refused.as_text() });
    }

    /// A worker has seen a newer leader, or claims so.
    pub(super) fn saw_higher_term(&mut self, seen: Option<u64>) {
        let Some(seen) = seen else { return };
        if !is_believed(seen, self.now.wall) {
            warn!(seen, "a worker claims a term more than a day ahead; it is not believed");
            return;
        }
        if self.leader.as_ref().is_some_and(|l| l.term <= seen) {
            self.out.push(Output::RaiseTermAbove(seen));
        }
    }

    fn free(&mut self, about: &About) {
        self.give_back(&about.pod, &about.execution, about.attempt);
    }

    pub(super) fn give_back(&mut self, pod: &str, execution: &Uuid, attempt: u32) {
        if let Some(books) = self.books.get_mut(pod) {
            books.give_back(execution, attempt);
            if books.live() == 0 && self.pools.pod(pod).is_none() {
                self.books.remove(pod);
            }
        }
        self.credit_is_free(execution);
        if let Some(key) = self.pools.pod(pod).and_then(|pod| self.pools.key_of(pod)) {
            self.stirred.insert(key.clone());
        }
    }

    /// Nobody can be asked: it is presumed to work on, credit taken, until its timeout or the loss of its pod.
    pub(super) fn presume(&mut self, id: u64) {
        let Some(record) = self.records.get(&id) else { return };
        let Some(current) = record.life.as_ref().and_then(|l| l.current.as_ref()) else { return };
        let timer = self.timers.insert(self.tick_of(current.timeout_at), Alarm::Presumed(id));
        if let Some(record) = self.records.get_mut(&id) {
            record.presumed = Some(timer);
            if let Some(timer) = record.overdue.take() {
                self.timers.cancel(timer);
            }
        }
    }

    /// The hand should have reported long ago.
    pub(super) fn overdue(&mut self, id: u64) {
        let Some(record) = self.records.get_mut(&id) else { return };
        record.overdue = None;
        let Some(current) = record.life.as_ref().and_then(|l| l.current.clone()) else { return };
        warn!(task = %record.path, attempt = current.number, "nothing was heard of an attempt long after its timeout");
        record.owed.insert((Arc::from(current.pod_uid.as_str()), current.number));
        let failure = Failure::stated("WorkerLost", "nothing was heard of it long after its timeout");
        self.act(id, Event::Failed { number: current.number, outcome: Outcome::WorkerLost, failure });
    }

    pub(super) fn presumption_over(&mut self, id: u64) {
        self.lose_presumed(id, "no leader has heard of it since a failover, and its timeout is over");
    }

    /// Ends a running attempt that only its pod could have told of.
    pub(super) fn lose_presumed(&mut self, id: u64, why: &str) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some(timer) = record.presumed.take() else { return };
        self.timers.cancel(timer);
        let Some(current) = record.life.as_ref().and_then(|l| l.current.clone()) else { return };
        record.owed.insert((Arc::from(current.pod_uid.as_str()), current.number));
        let failure = Failure::stated("WorkerLost", why);
        self.act(id, Event::Failed { number: current.number, outcome: Outcome::WorkerLost, failure });
    }

    /// Queued tasks are told when their pool loses its last pod or gets its first.
    pub(super) fn queue_sees(&mut self, key: &PoolKey) {
        let has_pods = self.pools.pods_of(key).any(|p| p.takes_tasks(self.config.allow_loopback));
        let Some(line) = self.lines.get_mut(key).filter(|line| line.had_pods != has_pods) else { return };
        line.had_pods = has_pods;
        if has_pods {
            return;
        }
        for id in line.queue.ids().collect::<Vec<_>>() {
            let message =
                format!("Deployment {} has no ready pod; the task goes on by itself when one is", key.deployment);
            let queued = self.records.get(&id).is_some_and(|r| matches!(r.line, Some(Line::Queued(..))));
            if queued && self.step(id, Event::Waits { reason: reason::NO_READY_WORKERS, message }).is_none() {
                self.plan_write(id);
            }
        }
    }
}
