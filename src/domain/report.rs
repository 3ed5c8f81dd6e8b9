//! A life as its status shows it, and the smallest patch from one status to the next. Pure.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::lifecycle::{Life, reason};
use super::text::clean;
use crate::api::{AxTaskStatus, Condition, ConditionStatus, Instant, Phase, condition};

/// What is kept of a message, bytes.
const MAX_MESSAGE: usize = 2048;

/// The status that shows this life. What this version does not decide is carried over from `before`.
pub fn status(life: &Life, before: &AxTaskStatus, generation: i64, term: u64, now: Timestamp) -> AxTaskStatus {
    let count = |n: u32| Some(i32::try_from(n).unwrap_or(i32::MAX)).filter(|n| *n > 0);
    let mut status = AxTaskStatus {
        observed_generation: Some(generation),
        phase: Some(life.phase),
        reason: Some(life.reason.to_string()),
        message: Some(clean(&life.message, MAX_MESSAGE).0),
        ready_time: Some(Instant(life.ready_at)),
        start_time: life.start_time.map(Instant),
        finish_time: life.finish_time.map(Instant),
        next_attempt_time: life.next_attempt_at.map(Instant),
        attempt: count(life.attempt),
        budget_from: count(life.budget_from),
        attempts: life.attempts.clone(),
        refusals: count(life.refusals),
        result: life.result.clone(),
        result_truncated: life.result_truncated.then_some(true),
        error: life.error.clone(),
        dependencies: life.dependencies.clone(),
        term: i64::try_from(term).ok(),
        ..before.clone()
    };
    conditions(&mut status.conditions, life, generation, now);
    status
}

fn conditions(conditions: &mut Vec<Condition>, life: &Life, generation: i64, now: Timestamp) {
    let mut set = |type_: &str, holds: bool, reason: &str, message: &str| {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        // A fact that does not hold is worth a line only where it once did, or where waiting for it is over.
        let ended = matches!(type_, "Complete" | "Failed") && life.phase.is_final();
        if !holds && !ended && !conditions.iter().any(|c| c.type_ == type_) {
            return;
        }
        let new = Condition {
            type_: type_.to_owned(),
            status,
            observed_generation: Some(generation),
            last_transition_time: Instant(now),
            reason: reason.to_owned(),
            message: clean(message, MAX_MESSAGE).0,
        };
        condition::set(conditions, new);
    };
    let why = if life.reason.is_empty() { life.phase.as_str() } else { life.reason.as_ref() };
    let ended = if life.phase == Phase::Canceled { "Canceled" } else { why };
    set("Complete", life.phase == Phase::Succeeded, ended, &life.message);
    set("Failed", matches!(life.phase, Phase::Dead | Phase::Unknown), ended, &life.message);
    let stalled = matches!(life.phase, Phase::Dead | Phase::Unknown) || life.stalled;
    set("Stalled", stalled, why, &life.message);
    let says = if life.suspended { "spec.suspend is true" } else { "spec.suspend is false" };
    set("Suspended", life.suspended, if life.suspended { reason::SUSPENDED } else { "Resumed" }, says);
    if life.replaced {
        set("CancelRequested", true, reason::REPLACED, "a newer run of its template takes its place");
    } else {
        set("CancelRequested", life.cancel, reason::REQUESTED, "spec.cancel is true");
    }
}

/// The JSON merge patch (RFC 7396) that turns `before` into `after`: members that differ, `null` for those gone.
pub fn merge_patch(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return after.clone() };
    let mut patch = Map::new();
    for (key, new) in after {
        match before.get(key) {
            Some(old) if old == new => {}
            Some(old @ Value::Object(_)) if new.is_object() => {
                patch.insert(key.clone(), merge_patch(old, new));
            }
            Some(_) | None => {
                patch.insert(key.clone(), new.clone());
            }
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_names_what_differs_and_nulls_what_is_gone() {
        let before = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": 0});
        let after = json!({"a": 1, "b": {"c": 3}, "e": [1, 2], "g": 5});
        let want = json!({"b": {"c": 3, "d": null}, "e": [1, 2], "f": null, "g": 5});
        assert_eq!(merge_patch(&before, &after), want);
        assert_eq!(merge_patch(&after, &after), json!({}));
    }

    #[test]
    fn canceled_is_neither_complete_nor_failed() {
        let mut life = Life::new(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        life.phase = Phase::Canceled;
        let status = status(&life, &AxTaskStatus::default(), 1, 7, Timestamp::UNIX_EPOCH);
        let got: Vec<_> = status.conditions.iter().map(|c| (c.type_.as_str(), c.status, c.reason.as_str())).collect();
        let want = [("Complete", ConditionStatus::False, "Canceled"), ("Failed", ConditionStatus::False, "Canceled")];
        assert_eq!(got, want);
    }
}
