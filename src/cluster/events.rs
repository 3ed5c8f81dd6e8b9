//! Kubernetes Events, written only after the status that says the same. IO.
//!
//! Best effort: a bounded queue and rate limits, since Events are kept for an hour and must never slow a task down.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::mpsc;
use tracing::debug;

use crate::api::{GROUP, VERSION};
use crate::domain::lifecycle::Notice;
use crate::domain::text::clean;
use crate::ops::clock::Clock;

const QUEUE: usize = 1024;
const MAX_NOTE: usize = 1024;
const TIMEOUT: Duration = Duration::from_secs(5);
/// Per object: so many warnings at once, then one in five minutes.
const OBJECT_BURST: f64 = 25.0;
const OBJECT_PER_SECOND: f64 = 1.0 / 300.0;
/// Objects remembered for that limit.
const OBJECTS: usize = 4096;

/// What an Event is about, and what it says.
#[derive(Debug)]
pub struct Told {
    /// `AxTask` or `AxTaskTemplate`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// What is told.
    pub notice: Notice,
}

/// The sending end: never blocks, drops when the queue is full.
#[derive(Debug, Clone)]
pub struct Teller(mpsc::Sender<Told>);

impl Teller {
    /// Queues an Event, or drops it.
    pub fn tell(&self, told: Told) {
        if self.0.try_send(told).is_err() {
            debug!("event dropped: the queue is full");
        }
    }
}

/// The two ends of the queue.
pub fn channel() -> (Teller, mpsc::Receiver<Told>) {
    let (tx, rx) = mpsc::channel(QUEUE);
    (Teller(tx), rx)
}

/// Writes Events until all senders are gone.
pub async fn run(client: Client, reporter: String, clock: Clock, mut queue: mpsc::Receiver<Told>) {
    let mut limits = Limits::default();
    let mut serial = 0u64;
    while let Some(told) = queue.recv().await {
        let now = clock.now();
        if !limits.allow(&told.uid, told.notice.warning, now.mono) {
            debug!(task = %told.name, reason = told.notice.reason, "event dropped: rate limit");
            continue;
        }
        serial += 1;
        let event = event(&told, &reporter, now.wall, serial);
        let api: Api<Event> = Api::namespaced(client.clone(), &told.namespace);
        let result = tokio::time::timeout(TIMEOUT, api.create(&PostParams::default(), &event)).await;
        if let Ok(Err(error)) = result {
            debug!(task = %told.name, error = %super::chain(&error), "event not written");
        }
    }
}

fn event(told: &Told, reporter: &str, now: jiff::Timestamp, serial: u64) -> Event {
    // Object names are at most 253 characters; the suffix keeps two Events of one instant apart.
    let stem: String = told.name.chars().take(200).collect();
    let stem = stem.trim_end_matches(['.', '-']);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{stem}.{:x}.{serial:x}", now.as_microsecond())),
            namespace: Some(told.namespace.clone()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some("ax-operator".to_owned()),
        reporting_instance: Some(reporter.chars().take(128).collect()),
        action: Some(told.notice.reason.to_owned()),
        reason: Some(told.notice.reason.to_owned()),
        type_: Some(if told.notice.warning { "Warning" } else { "Normal" }.to_owned()),
        note: Some(clean(&told.notice.note, MAX_NOTE).0),
        regarding: Some(ObjectReference {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some(told.kind.to_owned()),
            name: Some(told.name.clone()),
            namespace: Some(told.namespace.clone()),
            uid: Some(told.uid.clone()),
            ..ObjectReference::default()
        }),
        ..Event::default()
    }
}

/// Normal 2 a second, Warning 10 a second; of one object a burst of warnings.
struct Limits {
    normal: Bucket,
    warning: Bucket,
    objects: HashMap<String, Bucket>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { normal: Bucket::full(20.0), warning: Bucket::full(100.0), objects: HashMap::new() }
    }
}

impl Limits {
    fn allow(&mut self, uid: &str, warning: bool, now: Duration) -> bool {
        if !warning {
            return self.normal.take(2.0, 20.0, now);
        }
        if self.objects.len() >= OBJECTS {
            self.objects.clear();
        }
        let object = self.objects.entry(uid.to_owned()).or_insert_with(|| Bucket::full(OBJECT_BURST));
        object.take(OBJECT_PER_SECOND, OBJECT_BURST, now) && self.warning.take(10.0, 100.0, now)
    }
}

struct Bucket {
    tokens: f64,
    at: Duration,
}

impl Bucket {
    fn full(tokens: f64) -> Self {
        Self { tokens, at: Duration::ZERO }
    }

    fn take(&mut self, per_second: f64, burst: f64, now: Duration) -> bool {
        let gained = now.saturating_sub(self.at).as_secs_f64() * per_second;
        self.tokens = (self.tokens + gained).min(burst);
        self.at = now;
        let enough = self.tokens >= 1.0;
        if enough {
            self.tokens -= 1.0;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_one_object_end_at_the_burst_and_others_go_on() {
        let mut limits = Limits::default();
        let now = Duration::from_secs(1);
        let told = (0..40).filter(|_| limits.allow("a", true, now)).count();
        assert_eq!(told, 25);
        assert!(limits.allow("b", true, now));
        assert!(limits.allow("a", true, now + Duration::from_secs(301)));
    }

    #[test]
    fn normal_ones_come_at_two_a_second() {
        let mut limits = Limits::default();
        while limits.allow("a", false, Duration::from_secs(1)) {}
        let told = (0..10).filter(|_| limits.allow("a", false, Duration::from_secs(3))).count();
        assert_eq!(told, 4);
    }
}
