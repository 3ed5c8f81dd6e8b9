//! Any JSON, kept as the bytes the API server sent. Pure.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A payload: its bytes go from the watch to the worker's socket without being parsed again.
///
/// The API server decodes and encodes it once: numbers come back as Go writes them (`1.0` as `1`, integers beyond
/// int64 rounded).
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload(Box<RawValue>);

impl Payload {
    /// The JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// A payload from JSON text.
    ///
    /// # Errors
    /// If the text is not one JSON value.
    pub fn parse(text: String) -> serde_json::Result<Self> {
        RawValue::from_string(text).map(Self)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

/// Bodies do not reach logs: only the size is shown.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.get().len())
    }
}

impl JsonSchema for Payload {
    fn schema_name() -> Cow<'static, str> {
        "Payload".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
    }
}
