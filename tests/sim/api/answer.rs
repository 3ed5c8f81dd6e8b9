//! What the fake API server answers: objects, lists, refusals in the API's own words.

use std::sync::Arc;

use serde_json::{Value, json};

use super::store::{Object, Resource};

/// A refusal: code, reason, message.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into() }
    }

    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", resource.qualified()))
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", resource.qualified()))
    }

    pub fn conflict(resource: &Resource, name: &str) -> Self {
        Self::of_operation(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn precondition(resource: &Resource, name: &str, field: &str) -> Self {
        Self::of_operation(resource, name, &format!("Precondition failed: the {field} in the precondition is another"))
    }

    fn of_operation(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
        Self::new(409, "Conflict", message)
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unsupported_media(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The real one would do it; this one does not yet.
    pub fn not_done_here(what: &str) -> Self {
        Self::new(501, "NotImplemented", format!("the fake API server does not do this: {what}"))
    }

    pub fn status(&self) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": self.code, "reason": self.reason, "message": self.message,
        })
    }
}

/// `{"status": "Success"}`, as a deletion is answered.
pub fn deleted(resource: &Resource, object: &Object) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {
            "name": object.value["metadata"]["name"], "group": resource.group, "kind": resource.plural,
            "uid": object.uid(),
        },
    })
}

/// How much of objects is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Whole,
    MetadataOnly,
}

impl Form {
    pub fn of(accept: &str) -> Self {
        if accept.contains("as=PartialObjectMetadata") { Self::MetadataOnly } else { Self::Whole }
    }

    pub fn text(self, object: &Object) -> String {
        match self {
            Self::Whole => object.text.clone(),
            Self::MetadataOnly => partial(object).to_string(),
        }
    }
}

fn partial(object: &Object) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.value["metadata"],
    })
}

pub fn list(
    resource: &Resource,
    form: Form,
    objects: &[Arc<Object>],
    revision: u64,
    token: Option<(String, usize)>,
) -> String {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some((token, remaining)) = token {
        metadata["continue"] = json!(token);
        metadata["remainingItemCount"] = json!(remaining);
    }
    let (kind, version) = match form {
        Form::Whole => (format!("{}List", resource.kind), resource.api_version()),
        Form::MetadataOnly => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
    };
    let items: Vec<String> = objects.iter().map(|object| form.text(object)).collect();
    format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"items":[{}]}}"#, items.join(","))
}

/// RFC 7386.
pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            into.as_object_mut().expect("an object").remove(name);
        } else {
            merge(&mut into[name], value);
        }
    }
}
