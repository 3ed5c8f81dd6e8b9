//! What the API server says of templates, and what that moves: the tasks that refer to them, and their schedules.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use kube::Resource as _;
use tracing::warn;

use super::runs::Runs;
use super::{Alarm, State, tick_ceil};
use crate::api::{AxTaskTemplate, AxTaskTemplateSpec, AxTaskTemplateStatus, annotation};
use crate::cluster::guarded::Guarded;
use crate::cluster::watch::Kind;
use crate::domain::lifecycle::Notice;
use crate::domain::pool::PoolKey;
use crate::domain::run;
use crate::scheduler::input::Name;

/// How soon a changed template is looked at.
pub(super) const ROUND: Duration = Duration::from_millis(500);

/// What the leader loop knows of one template.
#[derive(Debug)]
pub(super) struct Template {
    pub spec: AxTaskTemplateSpec,
    pub uid: String,
    pub created: Timestamp,
    pub generation: i64,
    pub version: u64,
    /// Value of `ax.dev/trigger`.
    pub trigger: Option<String>,
    pub written: AxTaskTemplateStatus,
    /// When, as a monotonic reading.
    pub written_at: Option<Duration>,
    /// The write under way, and its serial.
    pub writing: Option<(u64, AxTaskTemplateStatus)>,
    pub hold_until: Option<Duration>,
    /// To be told once the status is written.
    pub notices: Vec<Notice>,
    /// So many of them are in the write under way.
    pub telling: usize,
    /// Kept by the leader alone.
    pub runs: Runs,
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
                self.drop_runs(&key);
                self.templates.remove(&key);
                self.template_changed(&key);
                return;
            }
        };
        let known = self.templates.get(&key);
        if known.is_some_and(|t| t.uid == uid && t.version >= version) {
            return;
        }
        if self.templates.get(&key).is_some_and(|t| t.uid != uid) {
            // Made anew under its name: the old one's timer goes with it.
            self.drop_runs(&key);
            self.templates.remove(&key);
        }
        let old = self.templates.remove(&key);
        let unchanged = old.as_ref().is_some_and(|t| t.spec == object.spec);
        let same_schedule = old.as_ref().is_some_and(|t| t.spec.schedule == object.spec.schedule);
        let resumed = same_schedule && old.as_ref().is_some_and(|t| t.spec.suspend && !object.spec.suspend);
        let same_times = same_schedule && old.as_ref().is_some_and(|t| t.spec.suspend == object.spec.suspend);
        let known = old.is_some();
        let mut template = match old {
            Some(old) => Template { generation, version, ..old },
            None => Template {
                spec: object.spec.clone(),
                uid,
                created: self.now.wall,
                generation,
                version,
                trigger: None,
                written: AxTaskTemplateStatus::default(),
                written_at: None,
                writing: None,
                hold_until: None,
                notices: Vec::new(),
                telling: 0,
                runs: Runs::default(),
            },
        };
        template.spec = object.spec;
        template.written = object.status.unwrap_or_default();
        template.hold_until = None;
        let meta = &object.metadata;
        template.trigger = meta.annotations.as_ref().and_then(|a| a.get(annotation::TRIGGER)).map(|v| run::short(v));
        if let Some(created) = &meta.creation_timestamp {
            template.created = created.0;
        }
        self.templates.insert(key.clone(), template);
        if self.is_leading() {
            if !known {
                self.take_schedule_over(&key);
            } else if !same_times {
                self.schedule_edited(&key, resumed);
            }
            self.heed_trigger(&key);
        }
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
            self.drop_runs(&key);
            self.templates.remove(&key);
            self.template_changed(&key);
        }
    }

    /// A list that was read at a version shows neither these nor anything newer.
    pub(super) fn templates_missing(&mut self, read_at: u64, there: &BTreeSet<String>) {
        let gone = self.templates.iter().filter(|(_, t)| t.version <= read_at && !there.contains(&t.uid));
        for key in gone.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.templates.remove(&key);
            self.template_changed(&key);
        }
    }

    /// Tasks that wait are placed anew: another worker, another priority, or none at all.
    fn template_changed(&mut self, key: &Name) {
        self.touch_template(key.clone());
        let limit = self.templates.get(key).and_then(|t| t.spec.max_concurrent).and_then(|n| u32::try_from(n).ok());
        self.cap_changed(&key.0, &key.1, limit);
        if !self.is_leading() {
            return;
        }
        let open = self.by_template.get(key).map(|referring| referring.open().collect::<Vec<_>>()).unwrap_or_default();
        // A limit or a policy that is new counts what runs already.
        for id in &open {
            self.keep_inside(*id);
        }
        for id in self.in_ready_order(open.into_iter()) {
            self.apply_wants(id);
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

    pub(super) fn next_template_round(&mut self, at: Duration) {
        if !self.template_round {
            self.template_round = true;
            self.timers.insert(tick_ceil(at), Alarm::Templates);
        }
    }

    pub(super) fn templates_step_down(&mut self) {
        for template in self.templates.values_mut() {
            template.writing = None;
            template.hold_until = None;
            template.notices.clear();
            template.runs = Runs::default();
        }
    }
}
