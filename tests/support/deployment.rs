//! Worker Deployments: made through the API server, their pods played by [`super::kubelet`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};

use super::kubelet::{APP_LABEL, Arguments, Kubelet, Plan, PlayedPod, Program};
use super::namespace::TestNamespace;
use super::script::{Gate, Reply, Request, Script};
use super::wait::{eventually, secs};

/// Port of the workers that tests make. Not 8080: something on this machine may listen there on all addresses.
pub const PORT: u16 = 18_080;

/// A worker Deployment, in the making and made.
#[derive(Clone)]
pub struct WorkerDeployment {
    name: String,
    namespace: String,
    client: Client,
    kubelet: Arc<Kubelet>,
    replicas: i32,
    annotations: Map<String, Value>,
    grace: i64,
    port: u16,
    declared: Option<u16>,
}

impl WorkerDeployment {
    pub(super) fn new(namespace: &TestNamespace, name: &str) -> Self {
        let mut annotations = Map::new();
        annotations.insert("ax.dev/worker".to_owned(), json!("true"));
        Self {
            name: name.to_owned(),
            namespace: namespace.name.clone(),
            client: namespace.client.clone(),
            kubelet: namespace.kubelet.clone(),
            replicas: 1,
            annotations,
            grace: 30,
            port: PORT,
            declared: Some(PORT),
        }
    }

    pub fn replicas(mut self, replicas: i32) -> Self {
        self.replicas = replicas;
        self
    }

    pub fn credits(self, credits: u32) -> Self {
        self.annotation("ax.dev/credits-per-pod", &credits.to_string())
    }

    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), json!(value));
        self
    }

    /// Without `ax.dev/worker`.
    pub fn not_opted_in(mut self) -> Self {
        self.annotations.remove("ax.dev/worker");
        self
    }

    pub fn grace(mut self, seconds: i64) -> Self {
        self.grace = seconds;
        self
    }

    /// The container declares this port, or none; the worker listens on [`PORT`] all the same.
    pub fn declares(mut self, port: Option<u16>) -> Self {
        self.declared = port;
        self
    }

    /// Makes it, with scripted workers; returns when all pods are Ready.
    pub async fn scripted(self, script: &Script) -> Self {
        self.create(Plan::Script(script.clone())).await
    }

    /// Makes it with scripted workers that answer by a rule; returns the script as well.
    pub async fn answering(self, rule: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Self, Script) {
        let script = Script::new(rule);
        (self.scripted(&script).await, script)
    }

    /// Makes it with pods where nothing listens.
    pub async fn refusing(self) -> Self {
        self.create(Plan::Nothing).await
    }

    /// Makes it with real `ax-worker exec` processes that run `command` for each task.
    pub async fn ax_worker(self, concurrency: u32, command: &[&str]) -> Self {
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let prepare = move |pod: &Pod, address: std::net::SocketAddr, dir: &Path| {
            let journal = dir.join("journal");
            std::fs::create_dir_all(&journal).expect("a journal's folder");
            let mut args = vec![
                "exec".to_owned(),
                "--listen".to_owned(),
                address.to_string(),
                "--concurrency".to_owned(),
                concurrency.to_string(),
                "--journal-dir".to_owned(),
                journal.display().to_string(),
                "--pod-uid".to_owned(),
                pod.metadata.uid.clone().unwrap_or_default(),
                "--".to_owned(),
            ];
            args.extend(command.iter().cloned());
            Arguments { args, envs: Vec::new() }
        };
        let program = Program { program: env!("CARGO_BIN_EXE_ax-worker").to_owned(), prepare: Arc::new(prepare) };
        self.create(Plan::Program(program)).await
    }

    async fn create(self, plan: Plan) -> Self {
        self.kubelet.plan(&self.name, plan, self.port);
        let ports: Vec<Value> = self.declared.iter().map(|port| json!({"containerPort": port})).collect();
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": self.name, "annotations": self.annotations},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {APP_LABEL: self.name}},
                "template": {
                    "metadata": {"labels": {APP_LABEL: self.name}},
                    "spec": {
                        // A cluster with a scheduler leaves these pods to the played kubelet.
                        "schedulerName": "ax-tests",
                        "terminationGracePeriodSeconds": self.grace,
                        "automountServiceAccountToken": false,
                        "containers": [{"name": "worker", "image": "ax-worker:dev", "ports": ports}],
                    },
                },
            },
        }))
        .expect("a Deployment");
        self.api().create(&PostParams::default(), &deployment).await.expect("a Deployment can be made");
        self.wait_ready(self.replicas).await;
        self
    }

    fn api(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until exactly this many pods are ready and all are of the present template, as the Deployment's controller
    /// sees it.
    pub async fn wait_ready(&self, count: i32) {
        let what = format!("{count} ready pods of Deployment {}", self.name);
        eventually(what, secs(30), || async {
            let deployment = self.api().get(&self.name).await.map_err(|error| error.to_string())?;
            let want = deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1);
            let status = deployment.status.unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or(0);
            let updated = status.updated_replicas.unwrap_or(0);
            let current = status.observed_generation >= deployment.metadata.generation;
            match current && ready == count && updated == want {
                true => Ok(()),
                false => Err(format!("{ready} ready, {updated} updated")),
            }
        })
        .await;
    }

    /// The pods that run, by name.
    pub fn pods(&self) -> Vec<PodHandle> {
        let pods = self.kubelet.pods(&self.name);
        pods.into_iter().map(|played| PodHandle { played, api: self.pods_api() }).collect()
    }

    /// The pod of this name.
    pub fn pod(&self, name: &str) -> PodHandle {
        let pods = self.pods();
        let names: Vec<_> = pods.iter().map(|pod| pod.name().to_owned()).collect();
        pods.into_iter().find(|pod| pod.name() == name).unwrap_or_else(|| panic!("no pod {name}, but {names:?}"))
    }

    pub async fn scale(&self, replicas: i32) {
        self.patch(json!({"spec": {"replicas": replicas}})).await;
    }

    pub async fn annotate(&self, key: &str, value: Option<&str>) {
        self.patch(json!({"metadata": {"annotations": {key: value}}})).await;
    }

    /// Replaces every pod by a new one.
    pub async fn rollout(&self) {
        let value = uuid::Uuid::new_v4().to_string();
        self.patch(json!({"spec": {"template": {"metadata": {"annotations": {"rollout": value}}}}})).await;
    }

    pub async fn patch(&self, patch: Value) {
        let params = PatchParams::default();
        self.api().patch(&self.name, &params, &Patch::Strategic(patch)).await.expect("a Deployment can be patched");
    }

    pub async fn delete(&self) {
        self.api().delete(&self.name, &DeleteParams::background()).await.expect("a Deployment can be deleted");
    }
}

/// One pod of a Deployment.
pub struct PodHandle {
    played: Arc<PlayedPod>,
    api: Api<Pod>,
}

impl PodHandle {
    pub fn name(&self) -> &str {
        &self.played.name
    }

    pub fn uid(&self) -> &str {
        &self.played.uid
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.played.address
    }

    pub async fn set_ready(&self, ready: bool) {
        self.played.set_ready(ready).await;
    }

    /// The worker dies; nobody starts it again.
    pub fn kill9(&self) {
        self.played.kill9();
    }

    /// The container is started again: same pod, new containerID.
    pub async fn restart(&self) {
        self.played.restart().await;
    }

    /// As `kubectl delete pod`: SIGTERM, grace period, gone.
    pub async fn delete(&self) {
        self.api.delete(self.name(), &DeleteParams::default()).await.expect("a pod can be deleted");
    }

    /// As `kubectl delete pod --force`: worker and pod are gone at once.
    pub async fn delete_now(&self) {
        self.played.kill9();
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.api.delete(self.name(), &now).await.expect("a pod can be deleted");
    }

    /// The real worker's process, if it is one.
    pub fn process(&self) -> Option<Arc<super::process::Process>> {
        self.played.process()
    }
}

/// How long a wait for something that happens at once may take on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// For rules: holds every answer until the gate is opened.
pub fn held(gate: &Gate) -> impl Fn(&Request) -> Reply + Send + Sync + 'static + use<> {
    let gate = gate.clone();
    move |_| Reply::ok().gate(&gate)
}
