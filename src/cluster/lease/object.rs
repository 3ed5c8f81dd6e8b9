//! The Lease object and the record that the election reads in it. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::api::annotation;
use crate::api::instant::Instant;
use crate::domain::election::LeaseRecord;

/// Where the leader takes callbacks; a standby forwards them there.
const CALLBACK_ADDRESS: &str = "ax.dev/callback-address";
/// Where the leader before it did: it may still have open requests to report.
const PREVIOUS_ADDRESS: &str = "ax.dev/previous-address";

/// What the object says.
pub fn read(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let note = |key: &str| lease.metadata.annotations.as_ref().and_then(|notes| notes.get(key)).cloned();
    LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(Duration::ZERO, Duration::from_secs),
        renew_time: spec.renew_time.map_or_else(String::new, |time| Instant(time.0).to_string()),
        acquire_time: spec.acquire_time.map_or_else(String::new, |time| Instant(time.0).to_string()),
        transitions: spec.lease_transitions.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        term: note(annotation::TERM).and_then(|term| term.parse().ok()),
        address: note(CALLBACK_ADDRESS),
        previous_address: note(PREVIOUS_ADDRESS),
        resource_version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// The object that says what the record says. Everything else stays as it is in `base`, also its uid: without it a PUT
/// would make a deleted Lease anew.
pub fn write(base: &Lease, record: &LeaseRecord) -> Lease {
    let mut lease = base.clone();
    lease.metadata.managed_fields = None;
    let notes = lease.metadata.annotations.get_or_insert_default();
    let term = record.term.map(|term| term.to_string());
    for (key, value) in [
        (annotation::TERM, term.as_ref()),
        (CALLBACK_ADDRESS, record.address.as_ref()),
        (PREVIOUS_ADDRESS, record.previous_address.as_ref()),
    ] {
        match value {
            Some(value) => notes.insert(key.to_owned(), value.clone()),
            None => notes.remove(key),
        };
    }
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(record.holder.clone()),
        lease_duration_seconds: Some(i32::try_from(record.duration.as_secs()).unwrap_or(i32::MAX)),
        renew_time: micro_time(&record.renew_time),
        acquire_time: micro_time(&record.acquire_time),
        lease_transitions: Some(i32::try_from(record.transitions).unwrap_or(i32::MAX)),
        ..lease.spec.unwrap_or_default()
    });
    lease
}

/// A Lease that does not exist yet.
pub fn new(namespace: &str, name: &str) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.namespace = Some(namespace.to_owned());
    lease.metadata.name = Some(name.to_owned());
    lease
}

fn micro_time(text: &str) -> Option<MicroTime> {
    text.parse::<Timestamp>().ok().map(MicroTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> LeaseRecord {
        LeaseRecord {
            holder: "ax-0-a1".to_owned(),
            duration: Duration::from_secs(5),
            renew_time: "2026-12-01T08:00:01.000000Z".to_owned(),
            acquire_time: "2026-12-01T08:00:00.500000Z".to_owned(),
            transitions: 4,
            term: Some(1_790_000_000_001),
            address: Some("10.0.0.1:8080".to_owned()),
            previous_address: None,
            resource_version: "77".to_owned(),
        }
    }

    #[test]
    fn a_record_survives_the_object_and_leaves_the_rest_of_it_alone() {
        let mut base = new("ax-system", "ax-leader");
        base.metadata.uid = Some("u-1".to_owned());
        base.metadata.resource_version = Some("77".to_owned());
        base.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
        base.metadata.annotations =
            Some([("note".to_owned(), "b".to_owned()), (PREVIOUS_ADDRESS.to_owned(), "old".to_owned())].into());
        let written = write(&base, &record());
        assert_eq!(read(&written), record());
        assert_eq!(written.metadata.uid.as_deref(), Some("u-1"));
        assert_eq!(written.metadata.labels, base.metadata.labels);
        let notes = written.metadata.annotations.expect("annotations");
        assert_eq!(notes.get("note").map(String::as_str), Some("b"));
        assert_eq!(notes.get(PREVIOUS_ADDRESS), None);
    }

    #[test]
    fn times_have_exactly_six_digits() {
        let json = serde_json::to_value(write(&new("n", "l"), &record())).expect("json");
        assert_eq!(json["spec"]["renewTime"], "2026-12-01T08:00:01.000000Z");
        assert_eq!(json["spec"]["acquireTime"], "2026-12-01T08:00:00.500000Z");
    }

    #[test]
    fn what_is_missing_reads_as_nothing() {
        assert_eq!(read(&Lease::default()), LeaseRecord::default());
    }
}
