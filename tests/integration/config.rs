//! What `config/` installs, and that the samples are what they say.

use serde_json::{Value, json};

use crate::support::TestNamespace;
use crate::support::cluster::{documents, root};
use crate::support::samples::Sample;

fn manager() -> Vec<Value> {
    documents(&std::fs::read_to_string(root().join("config/manager/manager.yaml")).unwrap())
}

#[test]
fn the_operator_runs_twice_without_a_right_it_does_not_need() {
    let deployment = manager().into_iter().find(|document| document["kind"] == "Deployment").unwrap();
    let spec = &deployment["spec"];
    assert_eq!((&spec["replicas"], &spec["strategy"]["rollingUpdate"]["maxUnavailable"]), (&json!(2), &json!(0)));
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["terminationGracePeriodSeconds"], 90);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0];
    let want = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}
    });
    assert_eq!(container["securityContext"], want);
    let names: Vec<_> = container["env"].as_array().unwrap().iter().map(|env| env["name"].clone()).collect();
    assert_eq!(names, ["POD_NAME", "POD_NAMESPACE", "AX_NAMESPACE", "POD_IP"]);
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(container["args"], Value::Null, "test-only flags are not installed");
    let budget = manager().into_iter().find(|document| document["kind"] == "PodDisruptionBudget").unwrap();
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
}

#[test]
fn samples_are_short_and_say_how_they_end() {
    for sample in Sample::all() {
        let text = std::fs::read_to_string(root().join("config/samples").join(&sample.file)).unwrap();
        assert!(text.starts_with("# "), "{} begins with what it shows", sample.file);
        let tasks = sample.tasks();
        assert_eq!(sample.ends.is_some(), !tasks.is_empty(), "{}: a line `# ends:` where there are tasks", sample.file);
        if tasks.len() == 1 {
            assert!(text.lines().count() <= 25, "{} has {} lines", sample.file, text.lines().count());
        }
    }
}

#[tokio::test]
async fn samples_are_accepted_as_they_are() {
    let ns = TestNamespace::new("samples-accepted").await;
    for sample in Sample::all() {
        for document in &sample.documents {
            let mut document = document.clone();
            if document["kind"] == "Deployment" {
                document["spec"]["replicas"] = json!(0);
            }
            ns.apply_value(&document).await;
        }
    }
}
