//! An object that may be undecodable, so that one bad object never stops the others. Pure.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object as the API server sent it: decoded, or its metadata and what is wrong with it.
#[derive(Debug, Clone)]
pub enum Guarded<K> {
    /// Decoded.
    Good {
        /// The object.
        object: K,
        /// Size of its JSON text, bytes.
        bytes: usize,
    },
    /// Not decodable.
    Bad {
        /// Its metadata, as far as that is readable.
        meta: Box<ObjectMeta>,
        /// What is wrong.
        error: String,
    },
}

impl<'de, K: serde::de::DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct MetaOnly {
            metadata: ObjectMeta,
        }
        // The text first: a payload kept as text does not survive serde's buffered forms.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(match serde_json::from_str::<K>(raw.get()) {
            Ok(object) => Self::Good { object, bytes: raw.get().len() },
            Err(error) => {
                let meta: MetaOnly = serde_json::from_str(raw.get()).unwrap_or_default();
                Self::Bad { meta: Box::new(meta.metadata), error: error.to_string() }
            }
        })
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Good { object, .. } => object.meta(),
            Self::Bad { meta, .. } => meta,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Good { object, .. } => object.meta_mut(),
            Self::Bad { meta, .. } => meta,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};

    use super::*;
    use crate::api::AxTask;

    const GOOD: &str = r#"{"apiVersion":"ax.dev/v1alpha1","kind":"AxTask","metadata":{"name":"a","uid":"u"},
        "spec":{"worker":{"deployment":"w"},"work":{"payload":{"b": 1, "a":[1.0,2]}}}}"#;
    const BAD: &str = r#"{"apiVersion":"ax.dev/v1alpha1","kind":"AxTask","metadata":{"name":"b","uid":"v"},
        "spec":{"worker":{"deployment":"w"},"retry":{"maxRetries":-99999999999}}}"#;

    #[test]
    fn c140_a_bad_object_leaves_the_good_ones_in_a_list() {
        let text = format!(r#"{{"apiVersion":"v1","kind":"List","metadata":{{}},"items":[{BAD},{GOOD}]}}"#);
        let list: ObjectList<Guarded<AxTask>> = serde_json::from_str(&text).expect("a list");
        assert!(matches!(&list.items[0], Guarded::Bad { meta, .. } if meta.name.as_deref() == Some("b")));
        let Guarded::Good { object, bytes } = &list.items[1] else { panic!("decoded") };
        assert_eq!(*bytes, GOOD.len());
        let payload = object.spec.work.as_ref().and_then(|w| w.payload.as_ref()).map(|p| p.get());
        assert_eq!(payload, Some(r#"{"b": 1, "a":[1.0,2]}"#), "bytes unchanged");
    }

    #[test]
    fn a_watch_event_carries_either() {
        for (text, good) in [(GOOD, true), (BAD, false)] {
            let event: WatchEvent<Guarded<AxTask>> =
                serde_json::from_str(&format!(r#"{{"type":"ADDED","object":{text}}}"#)).expect("an event");
            let WatchEvent::Added(object) = event else { panic!("added") };
            assert_eq!(matches!(object, Guarded::Good { .. }), good);
        }
    }
}
