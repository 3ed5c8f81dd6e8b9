//! The head of a task's request. Pure.

use uuid::Uuid;

use super::record::Record;
use crate::api::Instant;
use crate::domain::effective::Effective;
use crate::worker::wire;

/// Header names and values of one attempt, besides those that depend on the moment of sending.
pub(super) fn headers(
    record: &Record,
    effective: &Effective,
    execution: &Uuid,
    attempt: u32,
    budget_from: u32,
) -> Vec<(&'static str, String)> {
    let last = budget_from.saturating_add(effective.retry.max_retries).saturating_add(1);
    let mut headers = vec![
        (wire::CE_SPECVERSION, "1.0".to_owned()),
        (wire::CE_TYPE, wire::EVENT_TYPE.to_owned()),
        (wire::CE_SOURCE, format!("/apis/ax.dev/v1alpha1/namespaces/{}/axtasks/{}", record.namespace, record.name)),
        (wire::CE_ID, execution.to_string()),
        (wire::CE_TIME, Instant(record.nominal_time()).to_string()),
        (wire::CE_ATTEMPT, attempt.to_string()),
        (wire::CE_MAX_ATTEMPTS, last.to_string()),
        (wire::CE_TRIGGER, record.trigger().as_str().to_owned()),
        (wire::IDEMPOTENCY_KEY, format!("\"{execution}\"")),
    ];
    let mut optional = |name, value: Option<&str>| {
        if let Some(value) = value {
            headers.push((name, percent_encoded(value)));
        }
    };
    optional(wire::CE_SUBJECT, effective.topic.as_deref());
    optional(wire::CE_TEMPLATE, record.spec.template_ref.as_ref().map(|r| r.name.as_str()));
    optional(wire::CE_TRACE_ID, record.trace_id.as_deref());
    optional(wire::CE_TRACEPARENT, record.traceparent.as_deref());
    let parent = record.traceparent.as_deref();
    headers.push((wire::TRACEPARENT, traceparent(parent, execution, attempt)));
    headers
}

/// CloudEvents' HTTP binding, 3.1.3.2: all but printable ASCII, and `"`, `%` and space, are percent-encoded.
fn percent_encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'%') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The span of an attempt (W3C Trace Context): of the creator's trace if the task names one, else of one that all
/// attempts share. Computed, not drawn, so that a repeated send carries the same.
fn traceparent(parent: Option<&str>, execution: &Uuid, attempt: u32) -> String {
    let span = Uuid::new_v5(execution, &attempt.to_be_bytes()).as_u64_pair().0.max(1);
    let given = parent.and_then(|text| {
        let mut parts = text.split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex = |text: &str, length| text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit());
        let sound = version == "00" && hex(trace, 32) && hex(parent, 16) && hex(flags, 2);
        sound.then(|| (trace.to_ascii_lowercase(), flags.to_ascii_lowercase()))
    });
    let (trace, flags) = given.unwrap_or_else(|| (execution.simple().to_string(), "00".to_owned()));
    format!("00-{trace}-{span:016x}-{flags}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_are_ascii_whatever_the_topic() {
        assert_eq!(percent_encoded("order.close/v2 \"ü\"\r\n"), "order.close/v2%20%22%C3%BC%22%0D%0A");
    }

    #[test]
    fn a_span_belongs_to_the_creator_s_trace() {
        let id = Uuid::from_u128(7);
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let got = traceparent(Some(parent), &id, 1);
        assert!(got.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && got.ends_with("-01"), "{got}");
        assert_eq!(got, traceparent(Some(parent), &id, 1));
        assert_ne!(got, traceparent(Some(parent), &id, 2));
        assert!(traceparent(Some("garbage"), &id, 1).starts_with(&format!("00-{}-", id.simple())));
    }
}
