//! The CRD files, from the types: what `crdgen` writes into `crds/` and `config/crd/`. Pure.
//!
//! The derived schema is repaired where the API server or its clients would stumble: `nullable` breaks merge patch,
//! Rust integer formats mean nothing to Kubernetes, a derived default would mask what a template supplies.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use super::{AxTask, AxTaskTemplate};

/// File name and YAML text of each CRD.
///
/// # Errors
/// If a CRD cannot be written as JSON or YAML, which only a mistake in the types can cause.
pub fn files() -> Result<Vec<(String, String)>, Box<dyn std::error::Error + Send + Sync>> {
    [AxTask::crd(), AxTaskTemplate::crd()]
        .into_iter()
        .map(|crd| {
            let name = format!("{}.yaml", crd.spec.names.plural);
            Ok((name, serde_yaml::to_string(&repaired(&crd)?)?))
        })
        .collect()
}

/// The CRD as it is installed.
///
/// # Errors
/// As [`files`].
pub fn repaired(crd: &CustomResourceDefinition) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(crd)?;
    if let Some(versions) = value.pointer_mut("/spec/versions").and_then(Value::as_array_mut) {
        for version in versions {
            if let Some(root) = version.pointer_mut("/schema/openAPIV3Schema") {
                repair("", root);
                repair_root(root);
            }
        }
    }
    Ok(value)
}

/// The status must exist for its `phase` to take a default.
fn repair_root(root: &mut Value) {
    root["type"] = json!("object");
    if root.pointer("/properties/status/properties/phase").is_some() {
        root["properties"]["status"]["default"] = json!({});
    }
}

fn repair(name: &str, node: &mut Value) {
    let Some(schema) = node.as_object_mut() else { return };
    schema.remove("nullable");
    schema.remove("title");
    repair_number(schema);
    repair_description(schema);
    // Only literal, visible defaults stay; any other would mask what a template supplies.
    if !matches!(name, "suspend" | "phase") {
        schema.remove("default");
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|v| !v.is_null());
    }
    for key in ["properties", "patternProperties"] {
        if let Some(children) = schema.get_mut(key).and_then(Value::as_object_mut) {
            children.iter_mut().for_each(|(name, child)| repair(name, child));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get_mut(key) {
            repair(key, child);
        }
    }
}

/// Bounds as integers (`100.0` reads as drift), formats Kubernetes knows.
fn repair_number(schema: &mut Map<String, Value>) {
    if schema.get("type") != Some(&json!("integer")) {
        return;
    }
    let wide = matches!(schema.get("format").and_then(Value::as_str), Some("int64" | "uint64"));
    let format = if wide { "int64" } else { "int32" };
    schema.insert("format".to_owned(), json!(format));
    for key in ["minimum", "maximum"] {
        if let Some(bound) = schema.get(key).and_then(Value::as_f64) {
            schema.insert(key.to_owned(), json!(bound as i64));
        }
    }
    if !wide {
        schema.entry("maximum").or_insert(json!(i32::MAX));
    }
}

/// Line breaks of the source are not part of the text.
fn repair_description(schema: &mut Map<String, Value>) {
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        let text = text.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
        schema.insert("description".to_owned(), json!(text));
    }
}
