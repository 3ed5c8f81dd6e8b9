//! `ax-operator` as a child process, with a ServiceAccount's token and the roles of `config/rbac`, never as admin.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use ax::api::AxTask;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, ListParams, PostParams};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::cluster::{self, root};
use super::namespace::TestNamespace;
use super::process::{self, Process};
use super::wait::{eventually, secs};

const SERVICE_ACCOUNT: &str = "ax-operator";
const LEASE: &str = "ax-leader";

/// Says how operators are started.
pub struct OperatorMaker<'a> {
    namespace: &'a TestNamespace,
    watch: Vec<String>,
    args: Vec<String>,
    creates_lease: bool,
    waits: bool,
}

impl<'a> OperatorMaker<'a> {
    pub(super) fn new(namespace: &'a TestNamespace) -> Self {
        Self { namespace, watch: vec![namespace.name.clone()], args: Vec::new(), creates_lease: false, waits: true }
    }

    /// More arguments, such as `--leader-election-profile calm`.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    /// Tasks of this namespace too.
    pub fn watches(mut self, other: &TestNamespace) -> Self {
        self.watch.push(other.name.clone());
        self
    }

    /// No Lease is laid out beforehand. Whoever creates one waits a lease duration before its first start; one that its
    /// holder gave back is taken at once, which saves most tests those 5 s.
    pub fn creates_lease(mut self) -> Self {
        self.creates_lease = true;
        self
    }

    /// Does not wait until it is ready.
    pub fn no_wait(mut self) -> Self {
        self.waits = false;
        self
    }

    /// One replica, ready.
    pub async fn start(self) -> Operator {
        self.start_many(1).await.remove(0)
    }

    /// `count` replicas, ready. Who leads is not decided by their order.
    pub async fn start_many(self, count: usize) -> Vec<Operator> {
        let kubeconfig = self.identity().await;
        let first = std::fs::read_dir(self.namespace.dir())
            .expect("the namespace's folder")
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("operator-"))
            .count();
        let mut operators = Vec::new();
        for index in first..first + count {
            operators.push(self.replica(&format!("operator-{index}"), &kubeconfig));
        }
        if self.waits {
            for operator in &operators {
                operator.wait_ready(secs(20)).await;
            }
        }
        operators
    }

    /// The kubeconfig that its replicas get, without any being started.
    pub async fn credentials(self) -> PathBuf {
        self.identity().await
    }

    fn replica(&self, identity: &str, kubeconfig: &std::path::Path) -> Operator {
        let port = free_port();
        let mut args: Vec<String> = [
            "--namespace",
            &self.namespace.name,
            "--watch-namespaces",
            &self.watch.join(","),
            "--allow-loopback-pods",
            "--health-port",
            &port.to_string(),
            "--identity",
            identity,
            "--log-level",
            &std::env::var("AX_TEST_LOG_LEVEL").unwrap_or_else(|_| "info".to_owned()),
        ]
        .map(str::to_owned)
        .to_vec();
        args.extend(self.args.iter().cloned());
        let envs = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
        let log = self.namespace.dir().join(format!("{identity}.log"));
        let program = env!("CARGO_BIN_EXE_ax-operator");
        let process = Process::start(identity, program, &args, &envs, &log);
        Operator { identity: identity.to_owned(), health: SocketAddr::from(([127, 0, 0, 1], port)), process }
    }

    /// ServiceAccount, bindings, token, kubeconfig; once per namespace.
    async fn identity(&self) -> PathBuf {
        let ns = self.namespace;
        let path = ns.dir().join("operator.kubeconfig");
        if path.exists() {
            return path;
        }
        ns.apply_value(&json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SERVICE_ACCOUNT}
        }))
        .await;
        for namespace in &self.watch {
            let binding = binding("ax-operator-watch", "ClusterRole", &ns.name);
            cluster::apply(&ns.client, &binding, Some(namespace)).await;
        }
        let text = std::fs::read_to_string(root().join("config/rbac/role.yaml")).expect("config/rbac/role.yaml");
        let mut role = cluster::documents(&text)
            .into_iter()
            .find(|document| document["kind"] == "Role")
            .expect("the Role for the Lease");
        role["metadata"]["namespace"] = json!(ns.name);
        ns.apply_value(&role).await;
        ns.apply_value(&binding("ax-operator", "Role", &ns.name)).await;
        if !self.creates_lease {
            let lease: Lease = serde_json::from_value(json!({
                "metadata": {"name": LEASE},
                "spec": {
                    "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z"
                },
            }))
            .expect("a Lease");
            ns.api::<Lease>().create(&PostParams::default(), &lease).await.expect("a Lease can be made");
        }
        let token = self.token().await;
        std::fs::write(&path, self.kubeconfig(&token)).expect("the kubeconfig can be written");
        self.wait_allowed(&path).await;
        path
    }

    async fn token(&self) -> String {
        let request = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(7200), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = self.namespace.api();
        let answer = accounts
            .create_token_request(SERVICE_ACCOUNT, &PostParams::default(), &request)
            .await
            .expect("a token can be made");
        answer.status.expect("a token").token
    }

    /// The admin's kubeconfig with the user replaced.
    fn kubeconfig(&self, token: &str) -> String {
        let text = std::fs::read_to_string(&self.namespace.kubeconfig).expect("the kubeconfig can be read");
        let mut file: Value = serde_yaml::from_str(&text).expect("YAML");
        let context = file["current-context"].as_str().unwrap_or_default().to_owned();
        let cluster = file["contexts"]
            .as_array()
            .and_then(|contexts| contexts.iter().find(|c| c["name"] == context.as_str()))
            .map(|found| found["context"]["cluster"].clone())
            .expect("the current context");
        file["users"] = json!([{"name": "operator", "user": {"token": token}}]);
        file["contexts"] = json!([{"name": "operator", "context": {"cluster": cluster, "user": "operator"}}]);
        file["current-context"] = json!("operator");
        serde_yaml::to_string(&file).expect("YAML")
    }

    /// The authorizer learns of new bindings a moment later.
    async fn wait_allowed(&self, kubeconfig: &std::path::Path) {
        let client = cluster::client(kubeconfig).await;
        for namespace in &self.watch {
            let tasks: Api<AxTask> = Api::namespaced(client.clone(), namespace);
            let leases: Api<Lease> = Api::namespaced(client.clone(), &self.namespace.name);
            eventually("the operator's roles to hold", secs(10), || async {
                tasks.list(&ListParams::default().limit(1)).await.map_err(|error| error.to_string())?;
                leases.get_opt(LEASE).await.map_err(|error| error.to_string())
            })
            .await;
        }
    }
}

fn binding(name: &str, role_kind: &str, subject_namespace: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": "ax-operator"},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": subject_namespace}],
    })
}

/// One replica. Killed on drop.
pub struct Operator {
    pub identity: String,
    health: SocketAddr,
    process: Process,
}

impl Operator {
    pub fn kill9(&self) {
        self.process.kill9();
    }

    pub fn sigterm(&self) {
        self.process.signal(Signal::TERM);
    }

    /// SIGSTOP: frozen, its connections open.
    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    pub async fn wait_exit(&self, limit: Duration) -> ExitStatus {
        self.process.wait_exit(limit).await
    }

    pub fn has_exited(&self) -> bool {
        self.process.try_exit().is_some()
    }

    pub fn rss_kib(&self) -> u64 {
        self.process.rss_kib()
    }

    /// CPU time used so far.
    pub fn cpu(&self) -> Duration {
        self.process.cpu()
    }

    pub fn log_lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.process.log).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Whether some line of its log contains `text`.
    pub fn log_has(&self, text: &str) -> bool {
        self.log_lines().iter().any(|line| line.contains(text))
    }

    /// Status and body of a GET at its health server.
    pub async fn health(&self, path: &str) -> Option<(u16, String)> {
        http_get(self.health, path).await
    }

    /// `/readyz` answers 200.
    pub async fn wait_ready(&self, limit: Duration) {
        let begin = Instant::now();
        loop {
            let answer = self.health("/readyz").await;
            if answer.as_ref().is_some_and(|(status, _)| *status == 200) {
                return;
            }
            let exited = self.process.try_exit();
            if exited.is_some() || begin.elapsed() > limit {
                panic!(
                    "waited for {} to be ready; exited: {exited:?}; /readyz answered {answer:?}; its log ends:\n{}",
                    self.identity,
                    process::tail(&self.process.log, 30)
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl TestNamespace {
    /// Who holds the Lease; `None` if nobody does.
    pub async fn lease_holder(&self) -> Option<String> {
        let lease = self.api::<Lease>().get_opt(LEASE).await.ok().flatten()?;
        lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
    }

    /// Waits until one of these replicas leads; returns its index.
    pub async fn wait_leader(&self, operators: &[Operator], limit: Duration) -> usize {
        eventually("a leader", limit, || async {
            let holder = self.lease_holder().await.ok_or("nobody holds the Lease")?;
            // The identity may carry a random part of its start.
            operators
                .iter()
                .position(|operator| !operator.has_exited() && is_identity(&holder, &operator.identity))
                .ok_or(format!("{holder} holds the Lease"))
        })
        .await
    }

    pub async fn lease(&self) -> Option<Lease> {
        self.api::<Lease>().get_opt(LEASE).await.ok().flatten()
    }
}

fn is_identity(holder: &str, identity: &str) -> bool {
    holder.strip_prefix(identity).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

async fn http_get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let get = async {
        let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    };
    tokio::time::timeout(secs(5), get).await.ok().flatten()
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}
