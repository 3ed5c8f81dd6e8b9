//! A template's runs: their names, and what they are made of. Pure.
//!
//! A run is named after its template and its nominal second, or the hash of the trigger's value: whoever makes it,
//! one tick or trigger can only make one, since the API server takes a name once.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use uuid::Uuid;

use super::lifecycle::later;
use crate::api::{AxTask, AxTaskSpec, AxTaskTemplateSpec, GROUP, Instant, TemplateRef, VERSION, annotation};

/// The longest beginning of a run's name: with a dash and ten digits it is a label's value, 63 characters.
const MAX_STEM: usize = 52;
/// The longest trigger value that is kept as it is, bytes; status keeps 256 characters.
const MAX_VALUE: usize = 200;

/// What makes a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The schedule; the nominal time.
    Tick(Timestamp),
    /// `ax.dev/trigger`; its value.
    Trigger(String),
}

/// Whose runs.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// Namespace of the template.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// The beginning of the names of a template's runs: its name; where that is too long, cut, with a hash of the whole.
pub fn stem(template: &str) -> String {
    if template.len() <= MAX_STEM && !template.contains('.') {
        return template.to_owned();
    }
    let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, template.as_bytes()).as_u128() as u32;
    let flat = template.replace('.', "-");
    let cut: String = flat.chars().take(MAX_STEM - 9).collect();
    format!("{}-{hash:08x}", cut.trim_end_matches('-'))
}

/// The name of the run that this makes.
pub fn name(owner: Owner<'_>, cause: &Cause) -> String {
    let stem = stem(owner.name);
    match cause {
        Cause::Tick(nominal) => format!("{stem}-{}", nominal.as_second()),
        // A letter first: never the name of a tick.
        Cause::Trigger(value) => {
            let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{}/{value}", owner.uid).as_bytes()).as_u128();
            format!("{stem}-t{:09x}", hash & 0xf_ffff_ffff)
        }
    }
}

/// What stands for a trigger's value in status and annotations: the value, or its beginning and a hash of the whole.
pub fn short(value: &str) -> String {
    if value.len() <= MAX_VALUE {
        return value.to_owned();
    }
    let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, value.as_bytes()).simple();
    format!("{}…{hash}", crate::domain::text::clean(value, MAX_VALUE / 2).0)
}

/// The run. `offset`: how much later than its nominal time it is made.
pub fn build(owner: Owner<'_>, template: &AxTaskTemplateSpec, cause: &Cause, offset: Duration) -> AxTask {
    let made_of = template.task_template.clone().unwrap_or_default();
    let metadata = made_of.metadata.unwrap_or_default();
    let defaults = made_of.spec.unwrap_or_default();
    let mut labels = metadata.labels.unwrap_or_default();
    labels.insert(annotation::TEMPLATE_LABEL.to_owned(), stem(owner.name));
    let mut annotations: BTreeMap<String, String> = metadata.annotations.unwrap_or_default();
    let run_at = match cause {
        Cause::Tick(nominal) => {
            annotations.insert(annotation::SCHEDULED_FOR.to_owned(), nominal.to_string());
            Some(Instant(later(*nominal, offset)))
        }
        Cause::Trigger(value) => {
            annotations.insert(annotation::TRIGGERED_BY.to_owned(), value.clone());
            None
        }
    };
    AxTask {
        metadata: ObjectMeta {
            name: Some(name(owner, cause)),
            namespace: Some(owner.namespace.to_owned()),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![OwnerReference {
                api_version: format!("{GROUP}/{VERSION}"),
                kind: "AxTaskTemplate".to_owned(),
                name: owner.name.to_owned(),
                uid: owner.uid.to_owned(),
                controller: Some(true),
                // True would need a right on the template's finalizers where that is enforced.
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: AxTaskSpec {
            template_ref: Some(TemplateRef { name: owner.name.to_owned() }),
            work: defaults.work,
            run_at,
            priority: defaults.priority,
            start_deadline: defaults.start_deadline,
            depends_on: defaults.depends_on,
            concurrency_key: defaults.concurrency_key,
            timeout: defaults.timeout,
            retry: defaults.retry,
            ..AxTaskSpec::default()
        },
        status: None,
    }
}

/// Whose run an object is: the uid of the template that controls it, and what made it.
pub fn made_by(meta: &ObjectMeta) -> Option<(String, Cause)> {
    let owners = meta.owner_references.iter().flatten();
    let owner = owners.into_iter().find(|o| {
        let ours = o.api_version.split('/').next() == Some(GROUP) && o.kind == "AxTaskTemplate";
        ours && o.controller == Some(true)
    })?;
    let annotated = |name: &str| meta.annotations.as_ref().and_then(|a| a.get(name));
    let cause = match annotated(annotation::SCHEDULED_FOR).and_then(|text| text.parse().ok()) {
        Some(nominal) => Cause::Tick(nominal),
        None => Cause::Trigger(annotated(annotation::TRIGGERED_BY)?.clone()),
    };
    Some((owner.uid.clone(), cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "3f2a7c1e-5b64-4c0d-9a51-0d6f0c3b8e01";

    fn owner(name: &str) -> Owner<'_> {
        Owner { namespace: "pay", name, uid: UID }
    }

    fn tick() -> Cause {
        Cause::Tick("2026-12-01T10:00:00Z".parse().expect("an instant"))
    }

    #[test]
    fn c008_names_of_runs_are_legal_unique_and_labels_too_whatever_the_template_s_length() {
        let long = "a".repeat(62) + "b";
        let other = "a".repeat(62) + "c";
        for template in [long.as_str(), &other, "close-orders", &"x.y".repeat(80), &("a".repeat(42) + "-" + &long)] {
            let name = name(owner(template), &tick());
            assert!(name.len() <= 63, "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{name}");
            assert!(stem(template).ends_with(|c: char| c.is_ascii_alphanumeric()));
        }
        assert_ne!(stem(&long), stem(&other));
        assert_eq!(name(owner("close-orders"), &tick()), "close-orders-1796119200");
    }

    #[test]
    fn one_trigger_value_has_one_name_and_no_tick_has_it() {
        let first = name(owner("t"), &Cause::Trigger("a".to_owned()));
        assert_eq!(first, name(owner("t"), &Cause::Trigger("a".to_owned())));
        assert_ne!(first, name(owner("t"), &Cause::Trigger("b".to_owned())));
        assert!(!first.trim_start_matches("t-").bytes().all(|b| b.is_ascii_digit()), "{first}");
    }

    #[test]
    fn a_long_trigger_value_is_kept_short_and_apart_from_others() {
        let (a, b) = ("v".repeat(5000) + "a", "v".repeat(5000) + "b");
        assert!(short(&a).chars().count() <= 256 && short(&a) != short(&b));
        assert_eq!(short(&short(&a)), short(&a));
        assert_eq!(short("2026-12-01"), "2026-12-01");
    }

    #[test]
    fn a_run_carries_a_copy_of_every_field_and_its_owner() {
        let template: AxTaskTemplateSpec = serde_json::from_value(serde_json::json!({
            "worker": {"deployment": "w"},
            "taskTemplate": {"metadata": {"labels": {"team": "pay"}, "annotations": {"a": "b"}},
                "spec": {"work": {"topic": "order.close", "payload": {"n": 1}}, "priority": 7, "timeout": "9s",
                    "startDeadline": "5m", "concurrencyKey": "k", "dependsOn": ["d"], "retry": {"maxRetries": 1}}}
        }))
        .expect("a template");
        let run = build(owner("close"), &template, &tick(), Duration::ZERO);
        let got = serde_json::to_value(&run.spec).expect("json");
        assert_eq!(
            got,
            serde_json::json!({
                "templateRef": {"name": "close"}, "runAt": "2026-12-01T10:00:00.000000Z", "suspend": false,
                "work": {"topic": "order.close", "payload": {"n": 1}}, "priority": 7, "timeout": "9s",
                "startDeadline": "5m", "concurrencyKey": "k", "dependsOn": ["d"], "retry": {"maxRetries": 1}
            })
        );
        assert_eq!(run.metadata.labels.as_ref().map(|l| l["team"].as_str()), Some("pay"));
        assert_eq!(run.metadata.labels.as_ref().map(|l| l[annotation::TEMPLATE_LABEL].as_str()), Some("close"));
        assert_eq!(made_by(&run.metadata), Some((UID.to_owned(), tick())));
    }

    #[test]
    fn who_only_says_so_is_no_run() {
        let mut run = build(
            owner("close"),
            &serde_json::from_str("{\"worker\":{\"deployment\":\"w\"}}").expect("spec"),
            &tick(),
            Duration::ZERO,
        );
        run.metadata.owner_references = None;
        assert_eq!(made_by(&run.metadata), None);
    }
}
