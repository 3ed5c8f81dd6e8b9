//! A namespace of a test's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ax::api::{AxTask, AxTaskTemplate};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::background;
use super::cluster::{self, Cluster, TEST_LABEL};
use super::deployment::WorkerDeployment;
use super::dump;
use super::kubelet::Kubelet;
use super::operator::OperatorMaker;
use super::wait::secs;

/// Removed on drop; when the test panicked, its state goes to stderr first.
pub struct TestNamespace {
    pub name: String,
    pub client: Client,
    pub(super) kubeconfig: PathBuf,
    pub(super) kubelet: Arc<Kubelet>,
    dir: TempDir,
}

impl TestNamespace {
    /// In the shared cluster.
    pub async fn new(prefix: &str) -> Self {
        Self::on(Cluster::shared(), prefix).await
    }

    pub async fn on(cluster: &Cluster, prefix: &str) -> Self {
        let kubeconfig = cluster.kubeconfig().to_owned();
        let client = cluster::client(&kubeconfig).await;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{prefix}-{}", &id[..8]);
        let namespace: Namespace = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {TEST_LABEL: "true"}}
        }))
        .expect("a namespace");
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await.expect("a namespace can be made");
        let dir = TempDir::with_prefix(format!("ax-{name}-")).expect("a temporary folder");
        let kubelet = Kubelet::start(&kubeconfig, &name, dir.path());
        Self { name, client, kubeconfig, kubelet, dir }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub fn tasks(&self) -> Api<AxTask> {
        self.api()
    }

    pub fn templates(&self) -> Api<AxTaskTemplate> {
        self.api()
    }

    /// Tasks as the API server gives them, for what the types would hide.
    pub fn raw(&self, kind: &str) -> Api<kube::api::DynamicObject> {
        cluster::api_of(&self.client, &json!({"apiVersion": "ax.dev/v1alpha1", "kind": kind}), Some(&self.name))
    }

    /// Applies every document of a YAML text here.
    pub async fn apply(&self, text: &str) {
        for document in cluster::documents(text) {
            self.apply_value(&document).await;
        }
    }

    pub async fn apply_value(&self, object: &Value) {
        cluster::apply(&self.client, object, Some(&self.name)).await;
    }

    /// A template `name` for the worker Deployment `deployment`, with these defaults.
    pub async fn template(&self, name: &str, deployment: &str, defaults: Value) {
        self.apply_value(&json!({
            "apiVersion": "ax.dev/v1alpha1",
            "kind": "AxTaskTemplate",
            "metadata": {"name": name},
            "spec": {
                "worker": {"deployment": deployment, "port": super::deployment::PORT},
                "taskTemplate": {"spec": defaults},
            },
        }))
        .await;
    }

    /// A worker Deployment: `ns.workers("order-worker").credits(30).scripted(..).await`.
    pub fn workers(&self, name: &str) -> WorkerDeployment {
        WorkerDeployment::new(self, name)
    }

    /// An operator for this namespace: `ns.operator().start().await`.
    pub fn operator(&self) -> OperatorMaker<'_> {
        OperatorMaker::new(self)
    }

    /// Who plays this namespace's kubelet.
    pub fn kubelet(&self) -> &Kubelet {
        &self.kubelet
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// A folder that goes with the namespace: logs, journals, kubeconfigs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        let (kubeconfig, name) = (self.kubeconfig.clone(), self.name.clone());
        let dir = std::thread::panicking().then(|| self.dir.path().to_owned());
        self.kubelet.stop();
        // Two quick calls, waited for: the process may end right after its last test.
        background::block(secs(10), async move {
            let client = cluster::client(&kubeconfig).await;
            if let Some(dir) = dir {
                dump::state(&client, &name, &dir).await;
            }
            cluster::remove_namespace(&client, &name).await;
        });
    }
}
