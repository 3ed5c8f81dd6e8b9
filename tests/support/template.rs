//! Making templates with schedules, and looking at what becomes of them and their runs.

use std::time::{Duration, Instant};

use ax::api::{AxTask, AxTaskTemplate};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster;
use super::deployment::PORT;
use super::namespace::TestNamespace;

/// A template in the making: `template("close").every("1s").create(&ns).await`.
#[derive(Debug, Clone)]
pub struct TemplateMaker {
    object: Value,
}

/// A template of the worker Deployment `w`.
pub fn template(name: &str) -> TemplateMaker {
    TemplateMaker {
        object: json!({
            "apiVersion": "ax.dev/v1alpha1",
            "kind": "AxTaskTemplate",
            "metadata": {"name": name},
            "spec": {"worker": {"deployment": "w", "port": PORT}},
        }),
    }
}

impl TemplateMaker {
    pub fn every(self, every: &str) -> Self {
        self.at(&["spec", "schedule", "every"], json!(every))
    }

    pub fn cron(self, expression: &str) -> Self {
        self.at(&["spec", "schedule", "cron"], json!(expression))
    }

    pub fn zone(self, zone: &str) -> Self {
        self.at(&["spec", "schedule", "timeZone"], json!(zone))
    }

    pub fn policy(self, policy: &str) -> Self {
        self.at(&["spec", "concurrencyPolicy"], json!(policy))
    }

    /// Of the runs.
    pub fn runs(self, field: &str, value: Value) -> Self {
        self.at(&["spec", "taskTemplate", "spec", field], value)
    }

    pub fn spec(self, field: &str, value: Value) -> Self {
        self.at(&["spec", field], value)
    }

    pub fn at(mut self, path: &[&str], value: Value) -> Self {
        let mut node = &mut self.object;
        for key in path {
            node = &mut node[*key];
        }
        *node = value;
        self
    }

    pub async fn create(&self, ns: &TestNamespace) -> AxTaskTemplate {
        let made = cluster::apply(&ns.client, &self.object, Some(&ns.name)).await;
        serde_json::from_value(serde_json::to_value(made).expect("JSON")).expect("a template")
    }

    /// The message with which the API server refuses it.
    pub async fn refused(&self, ns: &TestNamespace) -> String {
        let object = serde_json::from_value(self.object.clone()).expect("an object");
        match ns.raw("AxTaskTemplate").create(&kube::api::PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) => status.message,
            other => panic!("expected a refusal of {}, got {other:?}", self.object),
        }
    }
}

impl TestNamespace {
    /// The template as it is now.
    pub async fn get_template(&self, name: &str) -> AxTaskTemplate {
        self.templates().get(name).await.unwrap_or_else(|error| panic!("failed to read template {name}: {error}"))
    }

    pub async fn patch_template(&self, name: &str, patch: Value) {
        let patched = self.templates().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.unwrap_or_else(|error| panic!("failed to patch template {name}: {error}"));
    }

    /// Runs of a template, oldest nominal time first.
    pub async fn runs(&self, template: &str) -> Vec<AxTask> {
        let params = ListParams::default().labels(&format!("ax.dev/template={template}"));
        let mut runs = self.tasks().list(&params).await.expect("a list of runs").items;
        runs.sort_by_key(|run| (run.spec.run_at, run.metadata.creation_timestamp.clone().map(|t| t.0)));
        runs
    }

    pub async fn wait_runs(&self, template: &str, limit: Duration, holds: impl Fn(&[AxTask]) -> bool) -> Vec<AxTask> {
        let until = Instant::now() + limit;
        loop {
            let runs = self.runs(template).await;
            if holds(&runs) {
                return runs;
            }
            if Instant::now() > until {
                let seen: Vec<_> = runs.iter().map(line).collect();
                panic!("waited {limit:?} for runs of {template}; last seen: {seen:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn wait_template(
        &self,
        name: &str,
        limit: Duration,
        holds: impl Fn(&AxTaskTemplate) -> bool,
    ) -> AxTaskTemplate {
        let until = Instant::now() + limit;
        loop {
            let template = self.get_template(name).await;
            if holds(&template) {
                return template;
            }
            if Instant::now() > until {
                panic!("waited {limit:?} for template {name}; last seen: {:?}", template.status);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn line(run: &AxTask) -> String {
    let name = run.metadata.name.as_deref().unwrap_or_default();
    format!("{name} {:?} {}", super::task::phase(run), super::task::reason(run))
}

/// Status and reason of a condition; `-` where there is none.
pub fn template_condition(template: &AxTaskTemplate, kind: &str) -> (String, String) {
    let conditions = template.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.into_iter().find(|condition| condition.type_ == kind);
    found.map_or(("-".to_owned(), "-".to_owned()), |c| (format!("{:?}", c.status), c.reason.clone()))
}
