//! The manifests of `config/samples`, and what each says of its end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use serde_json::{Value, json};

use super::cluster::{documents, root};
use super::kubelet::{APP_LABEL, Arguments, Plan, Program};
use super::namespace::TestNamespace;
use super::wait::{eventually, secs};

/// The line `# ends: Succeeded attempts=3` or `# ends: Dead attempts=2 reason=RetriesExhausted` of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    pub phase: String,
    pub attempts: i32,
    pub reason: Option<String>,
}

/// One file of `config/samples`.
#[derive(Debug, Clone)]
pub struct Sample {
    pub file: String,
    pub documents: Vec<Value>,
    pub ends: Option<Ends>,
}

impl Sample {
    pub fn read(file: &str) -> Self {
        let path = root().join("config/samples").join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("failed to read {}: {e}", path.display()));
        Self { file: file.to_owned(), documents: documents(&text), ends: ends(&text) }
    }

    /// Every file that the kustomization lists.
    pub fn all() -> Vec<Self> {
        let kustomization = Self::read("kustomization.yaml");
        let files = kustomization.documents[0]["resources"].as_array().cloned().unwrap_or_default();
        files.iter().map(|file| Self::read(file.as_str().expect("a file name"))).collect()
    }

    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.documents.iter().filter(move |document| document["kind"] == kind)
    }

    /// Names of its tasks.
    pub fn tasks(&self) -> Vec<String> {
        self.of_kind("AxTask").map(|task| task["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    }
}

fn ends(text: &str) -> Option<Ends> {
    let line = text.lines().find_map(|line| line.strip_prefix("# ends: "))?;
    let mut words = line.split_whitespace();
    let phase = words.next()?.to_owned();
    let rest: HashMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
    let attempts = rest.get("attempts").and_then(|n| n.parse().ok()).expect("attempts=N");
    Some(Ends { phase, attempts, reason: rest.get("reason").map(|&reason| reason.to_owned()) })
}

impl TestNamespace {
    /// Applies a sample. Deployments get a played kubelet that runs what their pods say with the real `ax-worker`.
    pub async fn apply_sample(&self, sample: &Sample) {
        for document in &sample.documents {
            let mut document = document.clone();
            if document["kind"] == "Deployment" {
                self.plan_sample(&document);
                document["spec"]["template"]["spec"]["schedulerName"] = json!("ax-tests");
            }
            self.apply_value(&document).await;
        }
        for deployment in sample.of_kind("Deployment") {
            self.wait_available(deployment["metadata"]["name"].as_str().expect("a name")).await;
        }
    }

    async fn wait_available(&self, name: &str) {
        let api: Api<k8s_openapi::api::apps::v1::Deployment> = self.api();
        eventually(format!("Deployment {name} to be available"), secs(30), || async {
            let deployment = api.get(name).await.map_err(|error| error.to_string())?;
            let want = deployment.spec.and_then(|spec| spec.replicas);
            let ready = deployment.status.and_then(|status| status.ready_replicas);
            if want == ready { Ok(()) } else { Err(format!("{ready:?} of {want:?} ready")) }
        })
        .await;
    }

    fn plan_sample(&self, deployment: &Value) {
        let name = deployment["metadata"]["name"].as_str().expect("a name");
        let template = &deployment["spec"]["template"];
        assert_eq!(template["metadata"]["labels"][APP_LABEL], name, "the played kubelet finds pods by this label");
        let port = template["spec"]["containers"][0]["ports"][0]["containerPort"].as_u64().expect("a port");
        let config_maps: Vec<Value> =
            Sample::all().iter().flat_map(|s| s.of_kind("ConfigMap").cloned().collect::<Vec<_>>()).collect();
        let prepare = move |pod: &Pod, address: SocketAddr, dir: &Path| container(pod, address, dir, &config_maps);
        let program = Program { program: env!("CARGO_BIN_EXE_ax-worker").to_owned(), prepare: Arc::new(prepare) };
        self.kubelet.plan(name, Plan::Program(program), u16::try_from(port).expect("a port"));
    }
}

/// Arguments and environment of a pod's container, its volumes as folders of this machine.
fn container(pod: &Pod, address: SocketAddr, dir: &Path, config_maps: &[Value]) -> Arguments {
    let pod = serde_json::to_value(pod).expect("JSON");
    let container = &pod["spec"]["containers"][0];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut mounts: Vec<(String, String)> = Vec::new();
    for mount in list(&container["volumeMounts"]) {
        let volume = list(&pod["spec"]["volumes"]).into_iter().find(|v| v["name"] == mount["name"]);
        let folder = dir.join(mount["name"].as_str().expect("a name"));
        std::fs::create_dir_all(&folder).expect("a volume's folder");
        if let Some(name) = volume.as_ref().and_then(|volume| volume["configMap"]["name"].as_str()) {
            let map = config_maps.iter().find(|map| map["metadata"]["name"] == name).expect("the ConfigMap");
            for (file, text) in map["data"].as_object().into_iter().flatten() {
                std::fs::write(folder.join(file), text.as_str().expect("text")).expect("a file of the ConfigMap");
            }
        }
        mounts.push((mount["mountPath"].as_str().expect("a path").to_owned(), folder.display().to_string()));
    }
    let placed = |text: &str| {
        let mount = mounts.iter().find(|(path, _)| text == path || text.starts_with(&format!("{path}/")));
        mount.map_or(text.to_owned(), |(path, folder)| text.replacen(path, folder, 1))
    };
    let args = list(&container["args"]).iter().map(|arg| placed(arg.as_str().expect("text"))).collect();
    let mut envs = vec![("AX_LISTEN".to_owned(), address.to_string())];
    for env in list(&container["env"]) {
        let value = match env["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            Some("metadata.uid") => pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            Some("metadata.name") => pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            Some(other) => panic!("the played kubelet knows no {other}"),
            None => placed(env["value"].as_str().unwrap_or_default()),
        };
        envs.push((env["name"].as_str().expect("a name").to_owned(), value));
    }
    Arguments { args, envs }
}
