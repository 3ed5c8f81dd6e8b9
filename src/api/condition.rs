//! Conditions as kstatus and `kubectl wait` read them. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Instant;

/// One fact about the object, as metav1.Condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Name of the fact, CamelCase.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), regex(pattern = r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$"))]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// The generation of the object this was decided for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// When `status` last changed.
    pub last_transition_time: Instant,
    /// Why, one CamelCase word.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Why, for people.
    #[schemars(length(max = 32768))]
    pub message: String,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// Sets a condition; `last_transition_time` moves only with `status`.
pub fn set(conditions: &mut Vec<Condition>, new: Condition) {
    match conditions.iter_mut().find(|c| c.type_ == new.type_) {
        Some(old) if old.status == new.status => {
            *old = Condition { last_transition_time: old.last_transition_time, ..new };
        }
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}
