//! The tasks that refer to one template, and how many of them are in which phase.
//!
//! A template may have a million ended tasks: nothing here walks them all to count, or to act on the open ones.

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use crate::api::Phase;
use crate::api::template_status::Counts;

/// The tasks that refer to one template.
#[derive(Debug, Default)]
pub(super) struct Referring {
    phases: BTreeMap<u64, Phase>,
    open: BTreeSet<u64>,
    counts: Counts,
}

impl Referring {
    /// A task is in this phase now.
    fn set(&mut self, id: u64, phase: Phase) {
        let before = self.phases.insert(id, phase);
        if before == Some(phase) {
            return;
        }
        if let Some(before) = before {
            *count_of(&mut self.counts, before) -= 1;
        }
        *count_of(&mut self.counts, phase) += 1;
        if phase.is_final() {
            self.open.remove(&id);
        } else {
            self.open.insert(id);
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(phase) = self.phases.remove(&id) {
            *count_of(&mut self.counts, phase) -= 1;
            self.open.remove(&id);
        }
    }

    /// Those that have not ended.
    pub fn open(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.iter().copied()
    }

    /// How many are in which phase.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

fn count_of(counts: &mut Counts, phase: Phase) -> &mut i32 {
    match phase {
        Phase::Pending => &mut counts.pending,
        Phase::Ready => &mut counts.ready,
        Phase::Running => &mut counts.running,
        Phase::Retrying => &mut counts.retrying,
        Phase::Succeeded => &mut counts.succeeded,
        Phase::Canceled => &mut counts.canceled,
        Phase::Dead => &mut counts.dead,
        Phase::Unknown => &mut counts.unknown,
    }
}

impl State {
    /// Counts a task where it stands now.
    pub(super) fn count(&mut self, id: u64) {
        let Some(record) = self.records.get(&id) else { return };
        let phase = record.phase();
        if let Some(template) = record.template() {
            self.by_template.entry(template).or_default().set(id, phase);
        }
    }

    /// A task is gone, or refers to another template.
    pub(super) fn count_no_more(&mut self, id: u64, template: &super::Name) {
        if let Some(referring) = self.by_template.get_mut(template) {
            referring.remove(id);
            if referring.phases.is_empty() {
                self.by_template.remove(template);
            }
        }
    }
}
