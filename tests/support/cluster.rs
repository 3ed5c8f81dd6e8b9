//! The API server the tests talk to: a control plane that `e2e/cluster/cluster` starts, or the one of `KUBECONFIG`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, ValidationDirective};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config, ResourceExt};
use serde::Deserialize;
use serde_json::Value;

use super::background;
use super::wait::{eventually, secs};

/// On every namespace that a test makes.
pub const TEST_LABEL: &str = "ax.dev/test";

/// One control plane, with the CRDs and the operator's roles installed.
pub struct Cluster {
    kubeconfig: PathBuf,
    /// Of a control plane of the test's own: its name, and the lock that keeps other processes from it.
    own: Option<(String, File)>,
}

impl Cluster {
    /// The one that all tests share; started and prepared once per process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| {
            let name = std::env::var("AX_TEST_CLUSTER").unwrap_or_else(|_| "test".to_owned());
            let kubeconfig = match std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()) {
                Some(path) => PathBuf::from(path),
                None => start(&name),
            };
            let cluster = Self { kubeconfig, own: None };
            cluster.prepare();
            cluster
        })
    }

    /// A control plane of the test's own, for tests that hurt it. Taken down on drop.
    pub fn own(name: &str) -> Self {
        let lock = locked(&format!("cluster-{name}"));
        let cluster = Self { kubeconfig: start(name), own: Some((name.to_owned(), lock)) };
        cluster.prepare();
        cluster
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// kill -9 of the API server; etcd keeps its data.
    pub fn kill_apiserver(&self) {
        script(&["kill-apiserver", "--name", self.own_name()]);
    }

    /// Starts it again; returns when it answers.
    pub fn start_apiserver(&self) {
        script(&["start-apiserver", "--name", self.own_name()]);
    }

    fn own_name(&self) -> &str {
        let (name, _) = self.own.as_ref().expect("only a control plane of the test's own may be hurt");
        name
    }

    /// Under a lock: several test processes may come at once.
    fn prepare(&self) {
        let key: String =
            self.kubeconfig.to_string_lossy().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let _lock = locked(&key);
        let kubeconfig = self.kubeconfig.clone();
        background::block(secs(90), async move {
            let client = client(&kubeconfig).await;
            install(&client).await;
            sweep(&client).await;
        })
        .expect("CRDs and roles are installed within 90 s");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some((name, _)) = &self.own {
            script(&["down", "--name", name]);
        }
    }
}

/// An admin's client, for the runtime it is called on.
pub async fn client(kubeconfig: &Path) -> Client {
    Client::try_from(config(kubeconfig).await).expect("a client")
}

pub async fn config(kubeconfig: &Path) -> Config {
    let file = Kubeconfig::read_from(kubeconfig).unwrap_or_else(|e| panic!("failed to read {kubeconfig:?}: {e}"));
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a kubeconfig");
    config.read_timeout = Some(secs(295));
    config
}

/// Where the crate's files are.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The documents of a YAML text.
pub fn documents(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).expect("YAML"))
        .filter(|value| !value.is_null())
        .collect()
}

/// The API of an object's kind, in `namespace` if given.
pub fn api_of(client: &Client, object: &Value, namespace: Option<&str>) -> Api<DynamicObject> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Server-side apply of one object.
pub async fn apply(client: &Client, object: &Value, namespace: Option<&str>) -> DynamicObject {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).expect("a name").to_owned();
    let mut params = PatchParams::apply("ax-tests").force();
    params.field_validation = Some(ValidationDirective::Strict);
    api_of(client, object, namespace)
        .patch(&name, &params, &Patch::Apply(object))
        .await
        .unwrap_or_else(|error| panic!("failed to apply {name}: {error}"))
}

fn start(name: &str) -> PathBuf {
    script(&["up", "--tier", "control-plane", "--name", name]);
    PathBuf::from(script(&["kubeconfig", "--name", name]).trim())
}

fn script(args: &[&str]) -> String {
    let path = root().join("e2e/cluster/cluster");
    // A cluster of the user's own is for the shared tests only.
    let output = Command::new(&path)
        .args(args)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap_or_else(|error| panic!("failed to start {}: {error}", path.display()));
    assert!(
        output.status.success(),
        "{} {} failed: {}",
        path.display(),
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn locked(key: &str) -> File {
    let path = std::env::temp_dir().join(format!("ax-tests-{key}.lock"));
    let file = File::options().create(true).append(true).open(&path).expect("a lock file");
    file.lock().unwrap_or_else(|error| panic!("failed to lock {}: {error}", path.display()));
    file
}

async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for file in ["crds/axtasks.yaml", "crds/axtasktemplates.yaml"] {
        let text = std::fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("failed to read {file}: {e}"));
        for document in documents(&text) {
            let name = document["metadata"]["name"].as_str().expect("a name").to_owned();
            let before = crds.get_opt(&name).await.expect("CRDs can be read").map(|crd| crd.metadata.generation);
            let after = apply(client, &document, None).await;
            eventually(format!("CRD {name} to be established"), secs(30), || async {
                let crd = crds.get(&name).await.map_err(|error| error.to_string())?;
                let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
                match conditions.iter().any(|c| c.type_ == "Established" && c.status == "True") {
                    true => Ok(()),
                    false => Err(format!("{conditions:?}")),
                }
            })
            .await;
            if before != Some(after.metadata.generation) {
                // The API server takes a changed schema up a moment later, and says nothing when it has.
                tokio::time::sleep(secs(1)).await;
            }
        }
    }
    let text = std::fs::read_to_string(root().join("config/rbac/role.yaml")).expect("config/rbac/role.yaml");
    for document in documents(&text).iter().filter(|document| document["kind"] == "ClusterRole") {
        apply(client, document, None).await;
    }
}

/// Namespaces that killed test runs left.
async fn sweep(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let list = namespaces.list(&ListParams::default().labels(TEST_LABEL)).await.expect("namespaces can be listed");
    for namespace in list {
        let age = namespace.creation_timestamp().map(|at| jiff::Timestamp::now().duration_since(at.0));
        if age.is_some_and(|age| age.as_secs() > 30 * 60) {
            remove_namespace(client, &namespace.name_any()).await;
        }
    }
}

/// Deletes it, and its pods by force: no kubelet will.
pub async fn remove_namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let _ = namespaces.delete(name, &DeleteParams::background()).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    // No controller makes a pod in a terminating namespace, so one pass is enough; the second is for those on their way.
    for _ in 0..2 {
        let _ = pods.delete_collection(&now, &ListParams::default()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
