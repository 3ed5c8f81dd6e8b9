//! The CRD files: as generated, small, bounded, explained.

use serde_json::{Map, Value};

use crate::support::cluster::{documents, root};

const MAX_FILE: usize = 256 * 1024;

fn schemas() -> Vec<(String, Value)> {
    let files = ax::api::crd::files().unwrap();
    files
        .iter()
        .map(|(name, text)| {
            let crd = documents(text).remove(0);
            (name.clone(), crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
        })
        .collect()
}

/// Every node with its path; properties are told from other nodes by `is_property`.
fn walk(path: &str, node: &Value, is_property: bool, visit: &mut impl FnMut(&str, &Map<String, Value>, bool)) {
    let Some(schema) = node.as_object() else { return };
    visit(path, schema, is_property);
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        walk(&format!("{path}.{name}"), child, true, visit);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(key) {
            walk(&format!("{path}[{key}]"), child, false, visit);
        }
    }
}

fn complaints(check: impl Fn(&Map<String, Value>, bool) -> Option<&'static str>) -> Vec<String> {
    let mut found = Vec::new();
    for (file, schema) in schemas() {
        walk(&file, &schema, false, &mut |path, node, is_property| {
            if let Some(complaint) = check(node, is_property) {
                found.push(format!("{path}: {complaint}"));
            }
        });
    }
    found
}

#[test]
fn committed_files_are_the_generated_ones() {
    for (name, want) in ax::api::crd::files().unwrap() {
        for folder in ["crds", "config/crd"] {
            let path = root().join(folder).join(&name);
            let got = std::fs::read_to_string(&path).unwrap();
            assert!(got == want, "{} is not what crdgen writes: run `cargo run --bin crdgen`", path.display());
        }
        assert!(want.len() < MAX_FILE, "{name} has {} bytes", want.len());
    }
}

#[test]
fn every_string_and_every_list_is_bounded() {
    let found = complaints(|node, _| match node.get("type").and_then(Value::as_str) {
        Some("string") if !node.contains_key("maxLength") && !node.contains_key("enum") => Some("no maxLength"),
        Some("array") if !node.contains_key("maxItems") => Some("no maxItems"),
        Some("array") if !node.contains_key("x-kubernetes-list-type") => Some("no list type"),
        Some("integer") if !node.contains_key("minimum") => Some("no minimum"),
        Some("integer") if node["format"] != "int64" && !node.contains_key("maximum") => Some("no maximum"),
        Some("number") => Some("a float"),
        _ => None,
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_property_is_explained() {
    let found = complaints(|node, is_property| {
        let text = node.get("description").and_then(Value::as_str).unwrap_or_default();
        (is_property && text.trim().is_empty()).then_some("no description")
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn nothing_is_nullable_and_only_suspend_and_phase_have_a_default() {
    let mut defaults = Vec::new();
    for (file, schema) in schemas() {
        walk(&file, &schema, false, &mut |path, node, _| {
            assert!(!node.contains_key("nullable"), "{path} is nullable");
            if let Some(default) = node.get("default") {
                defaults.push(format!("{path} = {default}"));
            }
        });
    }
    defaults.sort();
    let want = [
        "axtasks.yaml.spec.suspend = false",
        "axtasks.yaml.status = {}",
        "axtasks.yaml.status.phase = \"Pending\"",
        "axtasktemplates.yaml.spec.suspend = false",
    ];
    assert_eq!(defaults, want);
}

#[test]
fn bounds_are_whole_numbers() {
    for (name, text) in ax::api::crd::files().unwrap() {
        for line in text.lines() {
            let bound = ["minimum:", "maximum:"].iter().any(|key| line.trim_start().starts_with(key));
            assert!(!bound || !line.contains('.'), "{name}: {line}");
        }
    }
}
