//! `dependsOn`: what a task waits for, and who waits for it.
//!
//! What counts is what is persisted: a dependency has succeeded when its status says so. Name and uid are pinned then,
//! so that it may be deleted or made anew without consequence.

use std::collections::{BTreeSet, HashSet};

use super::State;
use crate::api::Phase;
use crate::api::status::Dependency;
use crate::domain::effective::depends_on;
use crate::domain::lifecycle::{Dependencies, Event, reason};
use crate::scheduler::input::Name;

impl State {
    /// Looks at the tasks that a pending task waits for.
    pub(super) fn look_at_dependencies(&mut self, id: u64) {
        let others = self.index_dependencies(id);
        let Some(record) = self.records.get(&id) else { return };
        let Some(life) = record.life.as_ref().filter(|l| l.phase == Phase::Pending) else { return };
        if record.depends_on.is_empty() && life.dependencies.is_empty() {
            return;
        }
        let mut list = Vec::with_capacity(record.depends_on.len());
        let (mut open, mut missing, mut failed) = (Vec::new(), Vec::new(), None);
        for name in &record.depends_on {
            if let Some(pinned) = life.dependencies.iter().find(|d| d.satisfied && d.name == *name) {
                list.push(pinned.clone());
                continue;
            }
            let found = self.by_name.get(&(record.namespace.clone(), name.clone()));
            let other = found.and_then(|other| self.records.get(other));
            let mut uid = None;
            match other.map(|other| other.written.phase.unwrap_or(Phase::Pending)) {
                Some(Phase::Succeeded) => uid = other.map(|other| other.uid.clone()),
                Some(phase @ (Phase::Dead | Phase::Canceled | Phase::Unknown)) => failed = Some((name.clone(), phase)),
                Some(Phase::Pending | Phase::Ready | Phase::Running | Phase::Retrying) => open.push(name.as_str()),
                None => missing.push(name.as_str()),
            }
            list.push(Dependency { name: name.clone(), satisfied: uid.is_some(), uid });
        }
        if let Some((name, phase)) = failed {
            let message = format!("dependency {name} ended {}; it must have succeeded", phase.as_str());
            self.step(id, Event::Bury { reason: reason::DEPENDENCY_FAILED, message });
            return;
        }
        let waits = if !missing.is_empty() {
            let names = missing.join(", ");
            Some((
                reason::DEPENDENCY_NOT_FOUND,
                format!("AxTask {names} does not exist in this namespace; create it, and the task goes on by itself"),
            ))
        } else if open.is_empty() {
            None
        } else {
            Some((reason::DEPENDENCY_NOT_READY, format!("waits for {} to succeed", open.join(", "))))
        };
        let news = waits.is_some() && (others || !life.blocked);
        self.step(id, Event::Dependencies(Dependencies { list, waits }));
        // A circle is closed by the last task that comes into it; at a takeover all are looked at together.
        if news && self.is_leading() && !self.reviving {
            self.end_cycle(id);
        }
    }

    /// Ends every circle on the ways from these, since its tasks would wait for each other for ever: each task is looked
    /// at once. Gives back whom it has ended.
    pub(super) fn end_cycles(&mut self, ids: &[u64]) -> Vec<u64> {
        let mut ended = Vec::new();
        let mut done = HashSet::new();
        for id in ids {
            // Colours: on the present way, or done with. A way back to itself is a circle.
            let mut path: Vec<(u64, BTreeSet<u64>)> = Vec::new();
            let mut on_path = HashSet::new();
            if done.insert(*id) {
                on_path.insert(*id);
                path.push((*id, self.waits_for(*id)));
            }
            while let Some((here, ahead)) = path.last_mut() {
                match ahead.pop_first() {
                    Some(next) if on_path.contains(&next) => {
                        let cycle: Vec<u64> = path.iter().map(|(id, _)| *id).skip_while(|id| *id != next).collect();
                        self.bury_cycle(&cycle);
                        ended.extend(cycle);
                    }
                    Some(next) => {
                        if done.insert(next) {
                            on_path.insert(next);
                            let ahead = self.waits_for(next);
                            path.push((next, ahead));
                        }
                    }
                    None => {
                        on_path.remove(here);
                        path.pop();
                    }
                }
            }
        }
        ended
    }

    /// Whether it waits for others than before.
    fn index_dependencies(&mut self, id: u64) -> bool {
        let Some(record) = self.records.get(&id) else { return false };
        let template = record.template().and_then(|name| self.templates.get(&name));
        let names = depends_on(&record.spec, template.map(|t| &t.spec));
        if record.depends_on == names {
            return false;
        }
        let (names, namespace) = (names.to_vec(), record.namespace.clone());
        self.drop_dependencies(id);
        for name in &names {
            self.dependents.entry((namespace.clone(), name.clone())).or_default().insert(id);
        }
        if let Some(record) = self.records.get_mut(&id) {
            record.depends_on = names;
        }
        true
    }

    /// A task waits for nothing any more.
    pub(super) fn drop_dependencies(&mut self, id: u64) {
        let Some(record) = self.records.get_mut(&id) else { return };
        for name in std::mem::take(&mut record.depends_on) {
            let key = (record.namespace.clone(), name);
            if let Some(ids) = self.dependents.get_mut(&key) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.dependents.remove(&key);
                }
            }
        }
    }

    /// A task has appeared, ended or gone: those that wait for it look again.
    pub(super) fn dependency_moved(&mut self, name: &Name) {
        if !self.is_leading() {
            return;
        }
        for id in self.dependents.get(name).into_iter().flatten().copied().collect::<Vec<_>>() {
            self.look_at_dependencies(id);
            self.settle(id);
        }
    }

    /// Whether a task that has not ended waits for the task of this name.
    pub(super) fn has_open_dependents(&self, name: &Name) -> bool {
        let waiting = self.dependents.get(name).into_iter().flatten().filter_map(|id| self.records.get(id));
        waiting.into_iter().any(|record| !record.phase().is_final())
    }

    /// Ends the circle that this task has closed, if it has.
    fn end_cycle(&mut self, id: u64) {
        // Whoever nobody waits for is in no circle: of a long chain that is made link by link, every one.
        let Some(record) = self.records.get(&id) else { return };
        if !self.dependents.contains_key(&(record.namespace.clone(), record.name.clone())) {
            return;
        }
        for member in self.end_cycles(&[id]).into_iter().filter(|member| *member != id) {
            self.settle(member);
        }
    }

    fn bury_cycle(&mut self, cycle: &[u64]) {
        let names: Vec<String> = cycle.iter().filter_map(|id| self.records.get(id)).map(|r| r.name.clone()).collect();
        for (place, member) in cycle.iter().enumerate() {
            let path = names[place..].iter().chain(&names[..=place]).cloned().collect::<Vec<_>>().join(" -> ");
            let message = format!("spec.dependsOn is a circle: {path}; create the tasks anew without it");
            self.step(*member, Event::Bury { reason: reason::DEPENDENCY_CYCLE, message });
        }
    }

    fn waits_for(&self, id: u64) -> BTreeSet<u64> {
        let Some(record) = self.records.get(&id).filter(|r| r.phase() == Phase::Pending) else {
            return BTreeSet::new();
        };
        let pinned = record.life.as_ref().map_or(&record.written.dependencies, |l| &l.dependencies);
        let open = record.depends_on.iter().filter(|name| !pinned.iter().any(|d| d.satisfied && d.name == **name));
        open.filter_map(|name| self.by_name.get(&(record.namespace.clone(), name.clone())).copied()).collect()
    }
}
