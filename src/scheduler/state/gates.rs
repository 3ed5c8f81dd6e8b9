//! Gates before the pools' lines: `concurrencyKey`, `maxConcurrent`, and the turn of a template's runs.
//!
//! A due task goes to its pool's line only when every gate before it is open, and is inside all of them then. It goes
//! out of key and cap when its credit is free (a timed-out attempt holds both), out of its turn when it has ended.

use uuid::Uuid;

use super::State;
use crate::api::{ConcurrencyPolicy, Phase};
use crate::domain::effective::Effective;
use crate::domain::gate::Gate;
use crate::domain::lifecycle::reason;
use crate::domain::ready::Place;
use crate::scheduler::record::{GateKey, Line, Record};

impl State {
    /// The gates before a task.
    fn gates_of(&self, record: &Record, effective: &Effective) -> Vec<(GateKey, u32)> {
        let mut gates = Vec::new();
        let template = record.template();
        if let Some((uid, _)) = &record.made_by
            && let Some(name) = &template
            && let Some(template) = self.templates.get(name).filter(|t| t.uid == *uid)
            && template.spec.concurrency_policy == Some(ConcurrencyPolicy::Queue)
        {
            gates.push((GateKey::Turn(uid.clone()), 1));
        }
        if let Some(key) = &effective.key {
            gates.push((GateKey::Key(record.namespace.clone(), key.clone()), 1));
        }
        if let (Some(limit), Some((namespace, name))) = (effective.max_concurrent, template) {
            gates.push((GateKey::Cap(namespace, name), limit));
        }
        gates
    }

    /// Goes through all gates, or waits outside the first that is closed: why, for people.
    pub(super) fn pass_gates(
        &mut self,
        id: u64,
        effective: &Effective,
        place: Place,
    ) -> Result<(), (&'static str, String)> {
        let Some(record) = self.records.get(&id) else { return Ok(()) };
        let wanted = self.gates_of(record, effective);
        for (key, limit) in &wanted {
            let gate = self.gate(key, *limit);
            if !gate.is_open_for(id) {
                gate.wait(place);
                let why = why_outside(key, *limit);
                if let Some(record) = self.records.get_mut(&id) {
                    record.line = Some(Line::Outside(key.clone(), place));
                }
                return Err(why);
            }
            // A run keeps its turn, whatever else it waits for.
            if matches!(key, GateKey::Turn(_)) {
                self.go_inside(id, vec![(key.clone(), *limit)]);
            }
        }
        self.go_inside(id, wanted);
        Ok(())
    }

    /// A task that runs already is inside, whoever else is.
    pub(super) fn occupy_gates(&mut self, id: u64, effective: &Effective) {
        let Some(record) = self.records.get(&id) else { return };
        let wanted = self.gates_of(record, effective);
        self.go_inside(id, wanted);
    }

    /// A run between two attempts has its turn still, but neither key nor cap.
    pub(super) fn occupy_turn(&mut self, id: u64, effective: &Effective) {
        let Some(record) = self.records.get(&id) else { return };
        let mut wanted = self.gates_of(record, effective);
        wanted.retain(|(key, _)| matches!(key, GateKey::Turn(_)));
        self.go_inside(id, wanted);
    }

    /// The same for a task whose template is missing: its own key is all that is known.
    pub(super) fn occupy_own_key(&mut self, id: u64) {
        let Some(record) = self.records.get(&id) else { return };
        if let Some(key) = record.spec.concurrency_key.clone() {
            let key = GateKey::Key(record.namespace.clone(), key);
            self.go_inside(id, vec![(key, 1)]);
        }
    }

    /// Those that became due first come first: whoever comes first to a free gate goes in.
    pub(super) fn in_ready_order(&self, ids: impl Iterator<Item = u64>) -> Vec<u64> {
        let due = |id: u64| self.records.get(&id).and_then(|r| r.life.as_ref()).map(|life| life.queued_at);
        let mut ids: Vec<_> = ids.map(|id| (due(id), id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    fn go_inside(&mut self, id: u64, wanted: Vec<(GateKey, u32)>) {
        for (key, limit) in wanted {
            self.gate(&key, limit).enter(id);
            let Some(record) = self.records.get_mut(&id) else { return };
            if !record.gates.contains(&key) {
                record.gates.push(key);
            }
        }
    }

    fn gate(&mut self, key: &GateKey, limit: u32) -> &mut Gate {
        let gate = self.gates.entry(key.clone()).or_insert_with(|| match key {
            GateKey::Turn(_) | GateKey::Key(..) => Gate::one_at_a_time(),
            GateKey::Cap(..) => Gate::at_most(limit),
        });
        gate.set_limit(limit);
        gate
    }

    /// Waits no longer outside a gate.
    pub(super) fn give_up_gate(&mut self, key: &GateKey, place: Place) {
        if let Some(gate) = self.gates.get_mut(key) {
            gate.give_up(place);
            if gate.is_idle() {
                self.gates.remove(key);
            }
        }
    }

    /// Goes out of the gates that a task has no business in any more.
    pub(super) fn leave_gates(&mut self, id: u64) {
        let Some(record) = self.records.get(&id).filter(|r| !r.gates.is_empty()) else { return };
        if matches!(record.line, Some(Line::Queued(..))) {
            return;
        }
        let live = record.ahead.is_some() || record.execution.is_some_and(|execution| self.is_live(&execution));
        let phase = record.life.as_ref().map(|l| l.phase);
        let ended = phase.is_none_or(Phase::is_final);
        // What a pod has refused keeps its key: it is sent elsewhere as soon as that is persisted.
        let comes_back = phase == Some(Phase::Ready) && record.must_save > record.saved;
        let live = live || comes_back || phase == Some(Phase::Running);
        let Some(record) = self.records.get_mut(&id) else { return };
        let (kept, left): (Vec<_>, Vec<_>) = std::mem::take(&mut record.gates).into_iter().partition(|key| match key {
            GateKey::Turn(_) => !ended,
            GateKey::Key(..) | GateKey::Cap(..) => live,
        });
        record.gates = kept;
        for key in left {
            self.leave_gate(&key, id);
        }
    }

    /// A deleted task's execution may still run: its gates stay closed until its credit is free.
    pub(super) fn orphan_gates(&mut self, id: u64, execution: Option<Uuid>, gates: Vec<GateKey>) {
        let (turns, others): (Vec<_>, Vec<_>) = gates.into_iter().partition(|key| matches!(key, GateKey::Turn(_)));
        for key in turns {
            self.leave_gate(&key, id);
        }
        match execution {
            Some(execution) if self.is_live(&execution) && !others.is_empty() => {
                self.orphans.insert(execution, (id, others));
            }
            _ => {
                for key in others {
                    self.leave_gate(&key, id);
                }
            }
        }
    }

    /// A credit of this execution is free.
    pub(super) fn credit_is_free(&mut self, execution: &Uuid) {
        if let Some(id) = self.by_execution.get(execution).copied() {
            self.leave_gates(id);
        } else if !self.is_live(execution)
            && let Some((id, keys)) = self.orphans.remove(execution)
        {
            for key in keys {
                self.leave_gate(&key, id);
            }
        }
    }

    fn is_live(&self, execution: &Uuid) -> bool {
        self.books.values().any(|books| books.holds(execution))
    }

    fn leave_gate(&mut self, key: &GateKey, id: u64) {
        if self.gates.get_mut(key).is_some_and(|gate| gate.leave(id)) {
            self.open_gate(key);
        }
    }

    /// Lets in who waits, as far as there is room.
    fn open_gate(&mut self, key: &GateKey) {
        while let Some(next) = self.gates.get_mut(key).and_then(Gate::let_in) {
            if let Some(record) = self.records.get_mut(&next) {
                record.line = None;
            }
            self.settle(next);
        }
        if self.gates.get(key).is_some_and(Gate::is_idle) {
            self.gates.remove(key);
        }
    }

    /// A template's limit or policy has changed.
    pub(super) fn cap_changed(&mut self, namespace: &str, name: &str, limit: Option<u32>) {
        let key = GateKey::Cap(namespace.to_owned(), name.to_owned());
        if let Some(gate) = self.gates.get_mut(&key) {
            gate.set_limit(limit.unwrap_or(u32::MAX));
            self.open_gate(&key);
        }
    }
}

fn why_outside(key: &GateKey, limit: u32) -> (&'static str, String) {
    match key {
        GateKey::Turn(_) => {
            (reason::QUEUED, "an earlier run of the template is open (concurrencyPolicy: Queue)".to_owned())
        }
        GateKey::Key(_, key) => (reason::WAITING_FOR_KEY, format!("another task with concurrencyKey {key} is at work")),
        GateKey::Cap(_, template) => {
            (reason::MAX_CONCURRENT, format!("{limit} tasks of template {template} run already (maxConcurrent)"))
        }
    }
}
