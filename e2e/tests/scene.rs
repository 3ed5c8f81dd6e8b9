//! A namespace of a test's own on the cluster, with the sample worker and a handler that counts its starts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ax::api::{AxTask, Phase};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::cluster::Cluster;
use crate::operator;
use crate::support::TaskMaker;
use crate::support::cluster::{TEST_LABEL, api_of, apply, client};
use crate::support::eventually;
use crate::support::task::{attempts, outcomes, phase, reason};

pub const WORKER: &str = "order-worker";
/// The limit of what should take a few seconds.
pub const SOON: Duration = Duration::from_secs(40);

const WORKER_SELECTOR: &str = "app.kubernetes.io/name=order-worker";

/// Sleeps as many seconds as the payload says. `/tmp` is an emptyDir of the pod.
const HANDLER: &str = r#"
echo "${AX_SOURCE##*/} $AX_ATTEMPT" >>/tmp/starts
sleep "$(cat)"
echo "{\"attempt\":$AX_ATTEMPT}"
"#;

/// Read by those who only use the operator, written by those who disturb it.
static OPERATOR: RwLock<()> = RwLock::const_new(());

#[expect(dead_code, reason = "held, not read")]
enum Turn {
    Together(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

/// Removed on drop; when the test panicked, its state goes to stderr first.
pub struct Scene {
    pub cluster: &'static Cluster,
    pub client: Client,
    pub namespace: String,
    _turn: Turn,
}

impl Scene {
    /// For a test that leaves the operator in peace.
    pub async fn new(prefix: &str) -> Self {
        Self::begin(prefix, Turn::Together(OPERATOR.read().await)).await
    }

    /// For a test that disturbs it.
    pub async fn alone(prefix: &str) -> Self {
        Self::begin(prefix, Turn::Alone(OPERATOR.write().await)).await
    }

    async fn begin(prefix: &str, turn: Turn) -> Self {
        let cluster = tokio::task::spawn_blocking(Cluster::shared).await;
        let cluster = cluster.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let client = client(cluster.kubeconfig()).await;
        operator::settled(&client).await;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let namespace = format!("e2e-{prefix}-{}", &id[..6]);
        let object = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {TEST_LABEL: "true"}},
        });
        apply(&client, &object, None).await;
        Self { cluster, client, namespace, _turn: turn }
    }

    /// Runs kubectl in the namespace.
    pub async fn try_kubectl(&self, args: &[&str]) -> Result<String, String> {
        let mut all = vec!["--namespace".to_owned(), self.namespace.clone()];
        all.extend(args.iter().map(|&arg| arg.to_owned()));
        let cluster = self.cluster;
        let run = move || cluster.kubectl(&all.iter().map(String::as_str).collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await.expect("no panic")
    }

    pub async fn kubectl(&self, args: &[&str]) -> String {
        self.try_kubectl(args).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The worker and the template of `config/samples`, with [`HANDLER`] for its handlers; two pods, ready.
    pub async fn start_workers(&self) {
        let handlers = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "order-handlers"},
            "data": {"handle.sh": HANDLER},
        });
        apply(&self.client, &handlers, Some(&self.namespace)).await;
        self.kubectl(&["apply", "-f", "config/samples/worker.yaml", "-f", "config/samples/template.yaml"]).await;
        self.rolled_out(WORKER).await;
    }

    pub async fn rolled_out(&self, deployment: &str) {
        let deployment = format!("deployment/{deployment}");
        self.kubectl(&["rollout", "status", &deployment, "--timeout=120s"]).await;
    }

    pub async fn create(&self, task: &TaskMaker) -> Instant {
        let object = task.object();
        let api = api_of(&self.client, &object, Some(&self.namespace));
        let sent_at = Instant::now();
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.unwrap_or_else(|error| panic!("failed to create: {error}"));
        sent_at
    }

    pub fn tasks(&self) -> Api<AxTask> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until `holds` for a task, which it returns. The API server may be away meanwhile.
    pub async fn wait(&self, name: &str, what: &str, limit: Duration, holds: impl Fn(&AxTask) -> bool) -> AxTask {
        eventually(format!("{what} of task {name}"), limit, || async {
            let task = self.tasks().get(name).await.map_err(|error| error.to_string())?;
            match holds(&task) {
                true => Ok(task),
                false => Err(line(&task)),
            }
        })
        .await
    }

    pub async fn wait_phase(&self, name: &str, want: Phase, limit: Duration) -> AxTask {
        let reached = |task: &AxTask| phase(task) == want || phase(task).is_final();
        let task = self.wait(name, want.as_str(), limit, reached).await;
        assert_eq!(phase(&task), want, "{}", line(&task));
        task
    }

    /// Waits until every task of the namespace has ended; there are `count`.
    pub async fn all_ended(&self, count: usize, limit: Duration) -> Vec<AxTask> {
        eventually(format!("the end of {count} tasks"), limit, || async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let list = self.tasks().list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let open: Vec<_> = list.iter().filter(|task| !phase(task).is_final()).map(line).collect();
            match open.is_empty() && list.items.len() == count {
                true => Ok(list.items),
                false => Err(format!("{} tasks, of which {open:?}", list.items.len())),
            }
        })
        .await
    }

    pub async fn worker_pods(&self) -> Vec<Pod> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        api.list(&ListParams::default().labels(WORKER_SELECTOR)).await.expect("pods can be listed").items
    }

    /// The attempts that the worker pods of now have started, by task; counted by the handler, not by ax.
    pub async fn starts(&self) -> BTreeMap<String, Vec<String>> {
        let mut starts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in self.worker_pods().await {
            let read = ["sh", "-c", "touch /tmp/starts; cat /tmp/starts"];
            let lines = self.kubectl(&[&["exec", &pod.name_any(), "--"], &read[..]].concat()).await;
            for (task, attempt) in lines.lines().filter_map(|line| line.split_once(' ')) {
                starts.entry(task.to_owned()).or_default().push(attempt.to_owned());
            }
        }
        starts
    }

    /// Every task of the namespace ends with success, in one attempt that was started once.
    pub async fn each_succeeds_once(&self, count: usize, limit: Duration) -> Vec<AxTask> {
        let ended = self.all_ended(count, limit).await;
        let starts = self.starts().await;
        for task in &ended {
            let name = task.name_any();
            assert_eq!((phase(task), attempts(task)), (Phase::Succeeded, 1), "{}", line(task));
            assert_eq!(result(task), json!({"attempt": 1}), "{name}");
            assert_eq!(starts.get(&name), Some(&vec!["1".to_owned()]), "starts of {name}");
        }
        assert_eq!(starts.len(), count, "nothing else was started");
        ended
    }

    fn dump(&self) {
        let (ns, ax) = (self.namespace.as_str(), operator::NAMESPACE);
        let looks: [&[&str]; 8] = [
            &["-n", ns, "get", "deployments,pods,axtasks", "-o", "wide"],
            &["-n", ns, "get", "axtasks", "-o", "yaml", "--field-selector", "status.phase!=Succeeded"],
            &["-n", ns, "get", "events", "--sort-by=.metadata.creationTimestamp"],
            &["-n", ns, "logs", "-l", WORKER_SELECTOR, "--prefix", "--tail=40"],
            &["-n", ax, "get", "pods,leases", "-o", "wide"],
            &["-n", ax, "get", "events", "--sort-by=.metadata.creationTimestamp"],
            &["-n", ax, "logs", "-l", operator::SELECTOR, "--prefix", "--tail=80"],
            &["-n", ax, "logs", "-l", operator::SELECTOR, "--prefix", "--tail=80", "--previous"],
        ];
        for look in looks {
            let seen = self.cluster.kubectl(look).unwrap_or_else(|error| error);
            eprintln!("===== kubectl {}\n{seen}", look.join(" "));
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dump();
        }
        let _ = self.cluster.kubectl(&["delete", "namespace", &self.namespace, "--wait=false"]);
    }
}

/// One line about a task, for messages.
pub fn line(task: &AxTask) -> String {
    let (phase, reason, attempts) = (phase(task).as_str(), reason(task), attempts(task));
    format!("{} {phase} {reason} attempts={attempts} {:?}", task.name_any(), outcomes(task))
}

/// What the worker answered; null if nothing.
pub fn result(task: &AxTask) -> Value {
    let text = task.status.as_ref().and_then(|status| status.result.as_deref()).unwrap_or("null");
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

/// The pods of its attempts, in order.
pub fn pods(task: &AxTask) -> Vec<String> {
    let attempts = task.status.iter().flat_map(|status| &status.attempts);
    attempts.map(|attempt| attempt.pod.clone().unwrap_or_default()).collect()
}

/// A task for the worker of [`Scene::start_workers`] that takes some seconds.
pub fn nap(name: &str, seconds: f64) -> TaskMaker {
    crate::support::task(name).template("order-tasks").topic("nap").payload(json!(seconds))
}
