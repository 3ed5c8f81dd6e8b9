//! What the operator may do is little: no root, no file to write, no right too many or too few, and a small image.

use crate::cluster::archive;
use crate::operator::{self, NAMESPACE};
use crate::scene::Scene;

/// What the README's Pod Security level forbids, in one pod.
const UNCONFINED: &str =
    r#"{"spec":{"containers":[{"name":"probe","image":"ax-operator:dev","securityContext":{"privileged":true}}]}}"#;

#[test]
fn the_image_has_at_most_20_megabytes() {
    let file = archive("ax-operator");
    let size = std::fs::metadata(&file).unwrap_or_else(|error| panic!("{}: {error}: make image", file.display())).len();
    assert!(size <= 20_000_000, "{size} bytes");
}

#[tokio::test]
async fn its_processes_have_neither_root_nor_a_file_to_write() {
    let scene = Scene::new("confined").await;
    for pod in operator::settled(&scene.client).await {
        let spec = serde_json::to_value(&pod.spec).expect("JSON");
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        let context = &spec["containers"][0]["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["capabilities"]["drop"][0], "ALL");
        if scene.cluster.is_own() {
            look_at_process(operator::pid(&pod));
        }
    }
}

/// The kernel's own word.
fn look_at_process(pid: i32) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the process lives");
    let status = read("status");
    let field = |name: &str| -> Vec<&str> {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().split_whitespace().collect()
    };
    assert_eq!(field("Uid"), ["65532"; 4]);
    assert_eq!(field("Gid"), ["65532"; 4]);
    assert_eq!(field("CapEff"), ["0000000000000000"]);
    assert_eq!(field("NoNewPrivs"), ["1"]);
    assert_eq!(field("Seccomp"), ["2"], "a filter");
    // ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS ...
    let mounts = read("mountinfo");
    let root = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|mount| mount[4] == "/");
    let options = root.expect("a root mount")[5];
    assert!(options.split(',').any(|option| option == "ro"), "{options}");
}

#[tokio::test]
async fn its_namespace_refuses_unconfined_pods() {
    let scene = Scene::new("restricted").await;
    let run = ["run", "probe", "--namespace", NAMESPACE, "--image=ax-operator:dev", "--dry-run=server"];
    let refused = scene.try_kubectl(&[&run[..], &["--overrides", UNCONFINED]].concat()).await;
    let why = refused.expect_err("a privileged pod is refused");
    assert!(why.contains("violates PodSecurity \"restricted"), "{why}");
    assert_eq!(operator::settled(&scene.client).await.len(), 2, "its own pods run there");
}

#[tokio::test]
async fn it_is_refused_nothing() {
    let scene = Scene::new("rights").await;
    assert_eq!(operator::forbidden(scene.cluster), Vec::<String>::new());
}
