//! Any JSON, kept as the bytes the API server sent. Pure.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A payload: its bytes go from the watch to the worker's socket without being parsed again.
///
/// The API server decodes and encodes it once: numbers come back as Go writes them (`1.0` as `1`, integers beyond
/// int64 rounded).
/// Clones share the text.
#[derive(Clone)]
pub struct Payload(Arc<RawValue>);

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
        RawValue::from_string(text).map(|raw| Self(raw.into()))
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (*self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()))
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
