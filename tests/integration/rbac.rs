//! What the roles of `config/rbac` allow, word for word, and that it is what the API server then enforces.

use std::collections::BTreeSet;

use ax::api::AxTask;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::cluster::{self, documents, root};
use crate::support::{TestNamespace, task};

fn rules(files: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(root().join("config/rbac").join(file)).unwrap();
        for role in documents(&text) {
            for rule in role["rules"].as_array().into_iter().flatten() {
                let words = |key: &str| {
                    let words = rule[key].as_array().into_iter().flatten();
                    words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
                };
                let names = match words("resourceNames") {
                    names if names.is_empty() => String::new(),
                    names => format!(" ({names})"),
                };
                lines.push(format!(
                    "{} {}: {} {}{names}: {}",
                    role["kind"].as_str().unwrap(),
                    role["metadata"]["name"].as_str().unwrap(),
                    match words("apiGroups") {
                        group if group.is_empty() => "core".to_owned(),
                        group => group,
                    },
                    words("resources"),
                    words("verbs"),
                ));
            }
        }
    }
    lines
}

#[test]
fn the_operator_may_exactly_this() {
    let want = [
        "ClusterRole ax-operator: ax.dev axtasks axtasktemplates: get list watch",
        "ClusterRole ax-operator: ax.dev axtasks: create delete",
        "ClusterRole ax-operator: ax.dev axtasks/status axtasktemplates/status: get patch",
        "ClusterRole ax-operator: apps deployments replicasets: get list watch",
        "ClusterRole ax-operator: core pods: get list watch",
        "ClusterRole ax-operator: events.k8s.io events: create patch",
        "Role ax-operator: coordination.k8s.io leases: create",
        "Role ax-operator: coordination.k8s.io leases (ax-leader): get list watch update",
    ];
    assert_eq!(rules(&["role.yaml"]), want);
}

#[test]
fn users_may_exactly_this() {
    let want = [
        "ClusterRole ax-view: ax.dev axtasks axtasktemplates: get list watch",
        "ClusterRole ax-edit: ax.dev axtasks axtasktemplates: create update patch delete",
    ];
    assert_eq!(rules(&["user_roles.yaml"]), want);
}

#[test]
fn no_other_file_holds_a_role() {
    let mut with_roles = BTreeSet::new();
    for folder in ["rbac", "manager", "default", "crd"] {
        for entry in std::fs::read_dir(root().join("config").join(folder)).unwrap().flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            if documents(&text).iter().any(|document| matches!(document["kind"].as_str(), Some("Role" | "ClusterRole")))
            {
                with_roles.insert(entry.file_name().into_string().unwrap());
            }
        }
    }
    assert_eq!(with_roles.into_iter().collect::<Vec<_>>(), ["role.yaml", "user_roles.yaml"]);
}

fn is_forbidden<T: std::fmt::Debug>(what: &str, result: kube::Result<T>) {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("{what} is forbidden to the operator, but: {other:?}"),
    }
}

/// With the token that tests give their operators.
#[tokio::test]
async fn the_operators_account_writes_status_and_nothing_else() {
    let ns = TestNamespace::new("rbac").await;
    let other = TestNamespace::new("rbac-other").await;
    let name = task("t").worker("w").create(&ns).await.name;
    let kubeconfig = ns.operator().credentials().await;
    let client = cluster::client(&kubeconfig).await;
    let tasks: Api<AxTask> = Api::namespaced(client.clone(), &ns.name);
    let params = PatchParams::default();
    tasks.patch_status(&name, &params, &Patch::Merge(json!({"status": {"reason": "Delayed"}}))).await.unwrap();
    tasks.list(&ListParams::default()).await.unwrap();
    is_forbidden("patching a spec", tasks.patch(&name, &params, &Patch::Merge(json!({"spec": {"priority": 1}}))).await);
    is_forbidden("replacing a status", tasks.replace_status(&name, &PostParams::default(), &ns.get(&name).await).await);
    // What runs need.
    let mut run = ns.get(&name).await;
    (run.metadata.name, run.metadata.resource_version, run.metadata.uid) = (Some("run".to_owned()), None, None);
    tasks.create(&PostParams::default(), &run).await.unwrap();
    tasks.delete("run", &DeleteParams::default()).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &ns.name);
    is_forbidden("listing Secrets", secrets.list(&ListParams::default()).await);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &ns.name);
    pods.list(&ListParams::default()).await.unwrap();
    is_forbidden("deleting pods", pods.delete("p", &DeleteParams::default()).await.map(|_| ()));
    let abroad: Api<AxTask> = Api::namespaced(client.clone(), &other.name);
    is_forbidden("reading another namespace", abroad.list(&ListParams::default()).await);
    let lease: Value = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "other"}});
    let leases = cluster::api_of(&client, &lease, Some(&ns.name));
    is_forbidden("reading another Lease", leases.get("other").await);
    leases.get("ax-leader").await.unwrap();
}
